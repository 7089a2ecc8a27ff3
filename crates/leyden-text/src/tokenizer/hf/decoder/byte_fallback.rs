//! Tokens of single bytes, `<0x0A>`.
//!
//! The library writes a run of such tokens that is not UTF-8 as one U+FFFD for each; here bytes are passed on, and
//! what cannot become a character is U+FFFD as [`Detokenizer`](crate::Detokenizer) says.

use super::{Piece, Step};

pub(super) struct ByteFallback;

impl Step for ByteFallback {
    fn decode(&self, text: String, _first: bool) -> Piece {
        let digits = text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
        let byte =
            digits.filter(|digits| digits.len() == 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        byte.map_or(Piece::Text(text), |byte| Piece::Bytes(vec![byte]))
    }
}
