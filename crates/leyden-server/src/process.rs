//! Facts about the own process.

/// Returns the resident memory in bytes, mapped pages included; `None` if the system does not report it.
pub(crate) fn resident_bytes() -> Option<u64> {
    resident(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Reads the resident memory out of Linux's status of a process.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read() {
        assert_eq!(resident("Name:\tleyden\nVmHWM:\t  9 kB\nVmRSS:\t    1234 kB\n"), Some(1234 * 1024));
        for other in ["", "VmRSS:", "VmRSS: x kB", "VmRSS: 18446744073709551615 kB", "VmRSS: 5"] {
            assert_eq!(resident(other), None, "{other}");
        }
        #[cfg(target_os = "linux")]
        assert!(resident_bytes().unwrap() > 1 << 20);
    }
}
