//! Memory use of this process.

/// Returns the peak resident memory in bytes, mapped pages included; `None` if the system does not report it.
#[must_use]
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_process_has_used_memory() {
        if cfg!(target_os = "linux") {
            assert!(super::peak_memory().unwrap() > 100_000);
        }
    }
}
