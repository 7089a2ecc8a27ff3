//! Character encodings of text: byte order marks, UTF-8, the one that HTML declares, and Windows-1252.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// Decodes text: by its byte order mark, as UTF-8 where it is valid, by `declared`, or as Windows-1252.
///
/// # Errors
/// The bytes are no text.
pub(crate) fn decode(bytes: &[u8], declared: Option<&[u8]>) -> Result<String, String> {
    let (encoding, marked) = match Encoding::for_bom(bytes) {
        Some((encoding, _)) => (encoding, true),
        None if std::str::from_utf8(bytes).is_ok() => (UTF_8, false),
        None => (
            declared.and_then(Encoding::for_label).filter(|&one| one != UTF_8).unwrap_or(WINDOWS_1252),
            false,
        ),
    };
    if !marked && bytes.contains(&0) {
        return Err("no text: it contains zero bytes (UTF-16 needs a byte order mark)".to_owned());
    }
    let (text, _, replaced) = encoding.decode(bytes);
    if replaced && marked {
        return Err(format!(
            "its byte order mark says {}, but it is not valid {}",
            encoding.name(),
            encoding.name()
        ));
    }
    Ok(lines(&text))
}

/// Returns text with `\n` as the only end of a line.
fn lines(text: &str) -> String {
    if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn encodings_are_told_apart() {
        assert_eq!(decode("Käufer\r\nx\ry".as_bytes(), None).unwrap(), "Käufer\nx\ny");
        assert_eq!(decode(b"\xef\xbb\xbfa", None).unwrap(), "a");
        assert_eq!(decode(b"K\xe4ufer \x80 5", None).unwrap(), "Käufer € 5");
        assert_eq!(decode(b"\xff\xfeK\0\xe4\0", None).unwrap(), "Kä");
        assert_eq!(decode(b"\xfe\xff\0K\0\xe4", None).unwrap(), "Kä");
        assert_eq!(decode(b"\xcf\xf0", Some(b"windows-1251")).unwrap(), "Пр");
        assert_eq!(decode(b"\xe4", Some(b"no such encoding")).unwrap(), "ä");
        assert_eq!(decode(b"", None).unwrap(), "");
    }

    #[test]
    fn binary_files_are_no_text() {
        assert!(decode(b"K\0\xe4\0", None).unwrap_err().contains("zero bytes"));
        assert!(decode(b"\xef\xbb\xbf\xe4\xe4", None).unwrap_err().contains("not valid UTF-8"));
        assert!(decode(b"\xff\xfe\x00\xd8a\0", None).unwrap_err().contains("not valid UTF-16LE"));
    }
}
