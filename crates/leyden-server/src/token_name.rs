//! How a token is written in an answer that tells of tokens: as its text, or where its bytes are no characters of their
//! own, as a piece of an emoji is not, by its bytes, so that no two different ones look alike. Both forms are OpenAI's.

use std::fmt::Write;

/// The text of a token, or its bytes as `\xf0\x9f`.
pub(crate) fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => escaped(bytes),
    }
}

/// The same, marked where it is bytes, for names in maps: `bytes:\xf0\x9f`.
pub(crate) fn key(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => format!("bytes:{}", escaped(bytes)),
    }
}

/// As Python writes bytes, without its quotation marks.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for &byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            b' '..=b'~' => text.push(char::from(byte)),
            // Writing to a string does not fail.
            _ => drop(write!(text, "\\x{byte:02x}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_characters_are_told_apart() {
        assert_eq!(shown("é🦜".as_bytes()), "é🦜");
        assert_eq!((shown(b"\xf0\x9f"), key(b"\xf0\x9f")), ("\\xf0\\x9f".into(), "bytes:\\xf0\\x9f".into()));
        assert_eq!(key(b" \xa6\\\n"), "bytes: \\xa6\\\\\\n");
        assert_eq!(key(b"bytes:"), "bytes:");
    }
}
