//! SentencePiece's spaces: each becomes a visible mark, which begins a word.

use super::super::field::Field;
use super::super::pattern::{Behavior, cut_at_chars};
use super::super::pieces::Pieces;
use super::PreTokenizer;
use crate::error::Error;

/// Where a mark is put before a text that does not begin with one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Prepend {
    /// Before the whole text only.
    First,
    Never,
    /// Before every stretch between added tokens.
    Always,
}

/// What `Metaspace` says, as a pre-tokenizer and as a decoder.
pub(in super::super) struct Metaspace {
    pub(in super::super) mark: char,
    pub(in super::super) prepend: Prepend,
    mark_text: Box<str>,
    split: bool,
}

const SCHEMES: [(&str, Prepend); 3] =
    [("first", Prepend::First), ("never", Prepend::Never), ("always", Prepend::Always)];

impl Metaspace {
    pub(in super::super) fn read(field: &Field<'_>) -> Result<Self, Error> {
        let mark = field.get("replacement")?.as_char()?;
        let scheme = field.opt("prepend_scheme")?;
        let mut prepend = Prepend::Always;
        if let Some(scheme) = &scheme {
            let name = scheme.as_str()?;
            let known = || SCHEMES.iter().map(|row| row.0).collect();
            let row = SCHEMES.iter().find(|row| row.0 == name);
            prepend = row.ok_or_else(|| scheme.unsupported("scheme", name, known()))?.1;
        }
        // Files from before there were schemes.
        if !field.bool_or("add_prefix_space", true)? {
            if scheme.is_some() && prepend != Prepend::Never {
                return Err(field.invalid("add_prefix_space and prepend_scheme contradict each other"));
            }
            prepend = Prepend::Never;
        }
        let split = field.bool_or("split", true)?;
        Ok(Metaspace { mark, prepend, mark_text: mark.to_string().into(), split })
    }
}

pub(super) fn read(field: &Field<'_>) -> Result<Box<dyn PreTokenizer>, Error> {
    Ok(Box::new(Metaspace::read(field)?))
}

impl PreTokenizer for Metaspace {
    fn cut(&self, pieces: &mut Pieces) -> Result<(), Error> {
        let prefix = |text: &str, at_start: bool| {
            let wanted = match self.prepend {
                Prepend::First => at_start,
                Prepend::Never => false,
                Prepend::Always => true,
            };
            if wanted && !text.starts_with([' ', self.mark]) { &*self.mark_text } else { "" }
        };
        pieces.rewrite(prefix, |c, out| out.push(if c == ' ' { self.mark } else { c }));
        if self.split {
            pieces.split(|text, keep| {
                cut_at_chars(text, Behavior::MergedWithNext, |c| c == self.mark, keep);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn keeps_text(&self) -> bool {
        true
    }
}
