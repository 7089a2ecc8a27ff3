//! Names of tokens in answers: the text, or the bytes where they are not valid UTF-8, such as a part of an emoji, so
//! that the names of two tokens with different bytes differ. Both forms are OpenAI's.

use std::fmt::Write;

/// Returns the text of a token, or its bytes as `\xf0\x9f`.
pub(crate) fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => escaped(bytes),
    }
}

/// Returns the name of a token for keys of maps, where bytes get a prefix: `bytes:\xf0\x9f`.
pub(crate) fn key(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => format!("bytes:{}", escaped(bytes)),
    }
}

/// Escapes bytes as Python does, without quotation marks.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for &byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            b' '..=b'~' => text.push(char::from(byte)),
            // Writing to a string cannot fail.
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
