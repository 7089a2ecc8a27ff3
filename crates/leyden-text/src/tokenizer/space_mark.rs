//! `▁`, the character for a space in vocabularies of raw text.

use std::borrow::Cow;

/// Space mark.
pub(super) const MARK: &str = "▁";

/// Replaces every space by the mark.
pub(super) fn encode(text: &str) -> Cow<'_, str> {
    if text.contains(' ') { Cow::Owned(text.replace(' ', MARK)) } else { Cow::Borrowed(text) }
}

/// Appends the text of a token, with marks replaced by spaces.
pub(super) fn decode(token: &str, out: &mut Vec<u8>) -> bool {
    for (i, part) in token.split(MARK).enumerate() {
        if i > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(part.as_bytes());
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decode_reverses_encode() {
        for text in ["", "a", " ", "  a b  ", "é 中"] {
            let mut out = Vec::new();
            assert!(decode(&encode(text), &mut out));
            assert_eq!(out, text.as_bytes());
        }
        assert_eq!(encode(" a "), "▁a▁");
    }
}
