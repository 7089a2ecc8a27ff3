//! A text in the place of every match of a pattern.

use super::super::field::Field;
use super::super::pattern::Pattern;
use super::super::pieces::Normalized;
use super::{Keeps, Normalizer};
use crate::error::Error;

struct Replace {
    pattern: Pattern,
    content: Box<str>,
}

pub(super) fn read(field: &Field<'_>) -> Result<Box<dyn Normalizer>, Error> {
    let pattern = Pattern::read(&field.get("pattern")?)?;
    Ok(Box::new(Replace { pattern, content: field.inserted("content")?.into() }))
}

impl Normalizer for Replace {
    fn normalize(&self, text: &mut Normalized) -> Result<(), Error> {
        let old = text.start_bytes;
        let mut start_bytes = 0;
        let out = self.pattern.replace(&text.text, &self.content, |range, is_match, written| {
            if range.end <= old {
                start_bytes = written;
            } else if range.start < old && !is_match {
                start_bytes = written - (range.end - old);
            }
        })?;
        *text = Normalized { text: out, start_bytes };
        Ok(())
    }

    fn keeps(&self) -> Keeps {
        let longer = self.pattern.literal().is_some_and(|text| text.len() <= self.content.len());
        if longer { Keeps::All } else { Keeps::Nothing }
    }
}
