//! Facts in a program's file: its processor, and the oldest glibc with all functions that it uses.

/// Facts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// `x86_64` or `aarch64`.
    pub(super) machine: &'static str,
    /// Version of glibc, such as `2.34`; `None` for a static program.
    pub(super) glibc: Option<String>,
}

/// Returns the facts of a program in ELF.
///
/// # Errors
/// It is no program, or none of a known processor.
pub(super) fn facts(bytes: &[u8]) -> Result<Facts, String> {
    if bytes.get(..6) != Some(b"\x7fELF\x02\x01") {
        return Err("not a 64-bit little-endian ELF program".to_owned());
    }
    let machine = match bytes.get(18..20) {
        Some([62, 0]) => "x86_64",
        Some([183, 0]) => "aarch64",
        _ => return Err("a program of another processor than x86-64 and aarch64".to_owned()),
    };
    // Its interpreter is named by every dynamic program, its versions in the table of texts.
    let is_dynamic = find(bytes, b"/ld-linux-").is_some();
    let glibc = if is_dynamic { newest(bytes) } else { None };
    if is_dynamic && glibc.is_none() {
        return Err("a dynamic program that names no version of glibc".to_owned());
    }
    Ok(Facts { machine, glibc })
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text)
}

/// Returns the newest version among the texts `GLIBC_A.B`.
fn newest(bytes: &[u8]) -> Option<String> {
    const NAME: &[u8] = b"\0GLIBC_";
    let version = |at: usize| {
        let rest = bytes.get(at..)?;
        let text = std::str::from_utf8(rest.get(..rest.iter().position(|byte| *byte == 0)?)?).ok()?;
        let mut numbers = text.split('.').map(|part| part.parse::<u32>().ok());
        Some((numbers.next()??, numbers.next()??))
    };
    let places = bytes.windows(NAME.len()).enumerate().filter(|(_, window)| *window == NAME);
    let newest = places.filter_map(|(at, _)| version(at + NAME.len())).max();
    newest.map(|(major, minor)| format!("{major}.{minor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_programs() {
        let program = |machine: u8, rest: &[u8]| {
            let mut bytes = vec![0; 64];
            bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
            bytes[18] = machine;
            bytes.extend_from_slice(rest);
            bytes
        };
        let dynamic = b"/lib64/ld-linux-x86-64.so.2\0GLIBC_2.9\0GLIBC_2.34\0GLIBC_PRIVATE\0GLIBC_2.3.4\0";
        let found = facts(&program(62, dynamic)).unwrap();
        assert_eq!((found.machine, found.glibc.as_deref()), ("x86_64", Some("2.34")));
        assert_eq!(facts(&program(183, b"")).unwrap(), Facts { machine: "aarch64", glibc: None });
        for (bytes, wanted) in [(program(3, b""), "processor"), (b"MZ".to_vec(), "ELF"), (Vec::new(), "ELF")]
        {
            assert!(facts(&bytes).unwrap_err().contains(wanted));
        }
    }
}
