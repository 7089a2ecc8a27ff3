//! White space stripped off the ends, and accents off letters.

use super::super::classes::is_mark;
use super::super::field::Field;
use super::super::pieces::Normalized;
use super::Normalizer;
use crate::error::Error;

struct Strip {
    left: bool,
    right: bool,
}

pub(super) fn read(field: &Field<'_>) -> Result<Box<dyn Normalizer>, Error> {
    Ok(Box::new(Strip { left: field.bool("strip_left")?, right: field.bool("strip_right")? }))
}

impl Normalizer for Strip {
    fn normalize(&self, text: &mut Normalized) -> Result<(), Error> {
        if self.right {
            text.text.truncate(text.text.trim_end().len());
        }
        if self.left {
            let blank = text.text.len() - text.text.trim_start().len();
            text.text.drain(..blank);
            text.start_bytes = text.start_bytes.saturating_sub(blank);
        }
        text.start_bytes = text.start_bytes.min(text.text.len());
        Ok(())
    }
}

/// Takes away combining marks, which only a text that is decomposed has in the place of accents.
pub(super) struct StripAccents;

impl Normalizer for StripAccents {
    fn normalize(&self, text: &mut Normalized) -> Result<(), Error> {
        text.map_chars(|c, out| {
            if !is_mark(c) {
                out.push(c);
            }
        });
        Ok(())
    }
}
