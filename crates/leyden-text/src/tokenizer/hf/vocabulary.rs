//! [`Vocabulary`]: the tokens by their ids.

use crate::error::{Error, ErrorKind};

/// Texts by ids, of which some may have none.
pub(super) struct Vocabulary {
    texts: String,
    /// Where each text lies; `None` if there is no such token.
    places: Vec<Option<(u32, u32)>>,
}

/// How far beyond the number of tokens ids may go: vocabularies have gaps, but a table of all ids must not cost more
/// than the file justifies.
const MAX_GAPS: usize = 1 << 16;

impl Vocabulary {
    /// The vocabulary of the given tokens. Of several with the same id the last one counts.
    pub(super) fn new<'a>(
        file: &str,
        tokens: impl Iterator<Item = (u32, &'a str)> + Clone,
    ) -> Result<Self, Error> {
        let count = tokens.clone().count();
        let last = tokens.clone().map(|(id, _)| id).max();
        let invalid = |why: String| Error::at(file, "model.vocab", ErrorKind::Invalid(why));
        let Some(last) = last else { return Err(invalid("the vocabulary is empty".into())) };
        let n = usize::try_from(last).unwrap_or(usize::MAX).saturating_add(1);
        if n > count.saturating_mul(2).saturating_add(MAX_GAPS) {
            return Err(invalid(format!("id {last} is too far beyond the {count} tokens")));
        }
        let mut vocabulary = Vocabulary { texts: String::new(), places: vec![None; n] };
        for (id, text) in tokens {
            let place = |at: usize| u32::try_from(at).map_err(|_| invalid("the texts are too long".into()));
            let start = place(vocabulary.texts.len())?;
            vocabulary.texts.push_str(text);
            let end = place(vocabulary.texts.len())?;
            if let Some(slot) = usize::try_from(id).ok().and_then(|id| vocabulary.places.get_mut(id)) {
                *slot = Some((start, end));
            }
        }
        Ok(vocabulary)
    }

    /// One more than the largest id.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn text(&self, id: u32) -> Option<&str> {
        let (start, end) = (*self.places.get(usize::try_from(id).ok()?)?)?;
        self.texts.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }
}
