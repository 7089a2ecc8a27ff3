//! A text cut at the matches of a pattern.

use super::super::field::Field;
use super::super::pattern::{Behavior, Pattern};
use super::super::pieces::Pieces;
use super::PreTokenizer;
use crate::error::Error;

struct Split {
    pattern: Pattern,
    behavior: Behavior,
    invert: bool,
}

pub(super) fn read(field: &Field<'_>) -> Result<Box<dyn PreTokenizer>, Error> {
    Ok(Box::new(Split {
        pattern: Pattern::read(&field.get("pattern")?)?,
        behavior: Behavior::read(&field.get("behavior")?)?,
        invert: field.bool_or("invert", false)?,
    }))
}

impl PreTokenizer for Split {
    fn cut(&self, pieces: &mut Pieces) -> Result<(), Error> {
        let mut stretches = Vec::new();
        pieces.split(|text, keep| {
            // By far the most frequent, and what is a match makes no difference.
            if self.behavior == Behavior::Isolated {
                return self.pattern.find(text, |range, _| keep(range));
            }
            stretches.clear();
            self.pattern.find(text, |range, is_match| stretches.push((range, is_match != self.invert)))?;
            self.behavior.cut(&stretches, keep);
            Ok(())
        })
    }

    fn keeps_text(&self) -> bool {
        self.behavior != Behavior::Removed
    }
}
