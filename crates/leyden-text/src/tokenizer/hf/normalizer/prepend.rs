//! A text put before every stretch that is not empty.

use super::super::field::Field;
use super::super::pieces::Normalized;
use super::{Keeps, Normalizer};
use crate::error::Error;

struct Prepend(Box<str>);

pub(super) fn read(field: &Field<'_>) -> Result<Box<dyn Normalizer>, Error> {
    Ok(Box::new(Prepend(field.inserted("prepend")?.into())))
}

impl Normalizer for Prepend {
    fn normalize(&self, text: &mut Normalized) -> Result<(), Error> {
        if !text.text.is_empty() {
            text.text.insert_str(0, &self.0);
            if text.start_bytes > 0 {
                text.start_bytes += self.0.len();
            }
        }
        Ok(())
    }

    fn keeps(&self) -> Keeps {
        Keeps::All
    }
}
