//! Lower case, character by character: a final sigma is not told apart.

use super::super::pieces::Normalized;
use super::{Keeps, Normalizer};
use crate::error::Error;

pub(super) struct Lowercase;

impl Normalizer for Lowercase {
    fn normalize(&self, text: &mut Normalized) -> Result<(), Error> {
        text.map_chars(|c, out| out.extend(c.to_lowercase()));
        Ok(())
    }

    fn keeps(&self) -> Keeps {
        Keeps::Ascii
    }
}
