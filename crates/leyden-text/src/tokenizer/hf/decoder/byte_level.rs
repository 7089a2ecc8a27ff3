//! The byte-level alphabet; a token with other characters stands for itself.

use super::{Piece, Step};
use crate::tokenizer::byte_level;

pub(super) struct ByteLevel;

impl Step for ByteLevel {
    fn decode(&self, text: String, _first: bool) -> Piece {
        let mut bytes = Vec::with_capacity(text.len());
        if byte_level::decode(&text, &mut bytes) {
            Piece::Bytes(bytes)
        } else {
            Piece::Bytes(text.into_bytes())
        }
    }
}
