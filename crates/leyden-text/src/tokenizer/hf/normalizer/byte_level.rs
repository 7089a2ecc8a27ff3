//! Every byte written as a printable character.

use super::super::pieces::Normalized;
use super::{Keeps, Normalizer};
use crate::error::Error;
use crate::tokenizer::byte_level;

pub(super) struct ByteLevel;

impl Normalizer for ByteLevel {
    fn normalize(&self, text: &mut Normalized) -> Result<(), Error> {
        text.map_chars(byte_level::spell);
        Ok(())
    }

    fn keeps(&self) -> Keeps {
        Keeps::All
    }
}
