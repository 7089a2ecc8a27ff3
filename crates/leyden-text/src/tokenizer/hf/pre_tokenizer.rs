//! Pre-tokenizers: splitting of a text into words for the model. Each kind is one section and one row of the table.

use super::classes::{is_punctuation, is_word};
use super::field::{Field, Row, flatten};
use super::pattern::{Behavior, Pattern, cut_at_chars};
use super::pieces::Pieces;
use crate::error::Error;
use crate::tokenizer::byte_level;

pub(super) trait PreTokenizer: Send + Sync {
    fn cut(&self, pieces: &mut Pieces) -> Result<(), Error>;

    /// Makes this the last step before a model that takes raw bytes. Returns true if this step would have written
    /// them in the byte-level alphabet, which it then omits.
    fn leave_bytes(&mut self) -> bool {
        false
    }

    /// Returns whether all of the text is in the pieces, none of it shortened.
    fn keeps_text(&self) -> bool {
        false
    }
}

type Boxed = Box<dyn PreTokenizer>;

static KINDS: &[Row<Boxed>] = &[
    ("BertPreTokenizer", |_| Ok(Box::new(Bert))),
    ("ByteLevel", read_byte_level),
    ("CharDelimiterSplit", read_delimiter),
    ("Digits", read_digits),
    ("FixedLength", read_fixed_length),
    ("Metaspace", read_metaspace),
    ("Punctuation", read_punctuation),
    ("Split", read_split),
    ("Whitespace", |_| Ok(Box::new(Words))),
    ("WhitespaceSplit", |_| Ok(Box::new(Blanks))),
];

/// Reads a pre-tokenizer, which may be a sequence of them.
pub(super) fn read(field: Field<'_>) -> Result<Vec<Boxed>, Error> {
    flatten(field, "pretokenizers")?.iter().map(|field| field.component("pre-tokenizer", KINDS)).collect()
}

// GPT-2's words, with each byte written as a printable character.

struct ByteLevel {
    add_prefix_space: bool,
    words: Option<Pattern>,
    spells: bool,
}

fn read_byte_level(field: &Field<'_>) -> Result<Box<dyn PreTokenizer>, Error> {
    let words = field.bool_or("use_regex", true)?.then(|| Pattern::gpt2(field)).transpose()?;
    Ok(Box::new(ByteLevel { add_prefix_space: field.bool("add_prefix_space")?, words, spells: true }))
}

impl PreTokenizer for ByteLevel {
    fn cut(&self, pieces: &mut Pieces) -> Result<(), Error> {
        if self.add_prefix_space {
            pieces.rewrite(|text, _| if text.starts_with(' ') { "" } else { " " }, |c, out| out.push(c));
        }
        if let Some(words) = &self.words {
            pieces.split(|text, keep| words.find(text, |range, _| keep(range)))?;
        }
        if self.spells {
            pieces.rewrite(|_, _| "", byte_level::spell);
        }
        Ok(())
    }

    fn leave_bytes(&mut self) -> bool {
        std::mem::replace(&mut self.spells, false)
    }

    fn keeps_text(&self) -> bool {
        true
    }
}

// Splitting at single characters: punctuation, digits, a delimiter; and BERT's words.

struct AtChars<F> {
    is_match: F,
    behavior: Behavior,
}

impl<F: Fn(char) -> bool + Send + Sync> PreTokenizer for AtChars<F> {
    fn cut(&self, pieces: &mut Pieces) -> Result<(), Error> {
        pieces.split(|text, keep| {
            cut_at_chars(text, self.behavior, &self.is_match, keep);
            Ok(())
        })
    }

    fn keeps_text(&self) -> bool {
        self.behavior != Behavior::Removed
    }
}

fn read_delimiter(field: &Field<'_>) -> Result<Box<dyn PreTokenizer>, Error> {
    let delimiter = field.get("delimiter")?.as_char()?;
    Ok(Box::new(AtChars { is_match: move |c| c == delimiter, behavior: Behavior::Removed }))
}

fn read_digits(field: &Field<'_>) -> Result<Box<dyn PreTokenizer>, Error> {
    let alone = field.bool("individual_digits")?;
    let behavior = if alone { Behavior::Isolated } else { Behavior::Contiguous };
    Ok(Box::new(AtChars { is_match: char::is_numeric, behavior }))
}

fn read_punctuation(field: &Field<'_>) -> Result<Box<dyn PreTokenizer>, Error> {
    let behavior = field.opt("behavior")?.map(|field| Behavior::read(&field)).transpose()?;
    Ok(Box::new(AtChars { is_match: is_punctuation, behavior: behavior.unwrap_or(Behavior::Isolated) }))
}

/// Pre-tokenizer that splits at white space, and at each punctuation character.
struct Bert;

impl PreTokenizer for Bert {
    fn cut(&self, pieces: &mut Pieces) -> Result<(), Error> {
        AtChars { is_match: char::is_whitespace, behavior: Behavior::Removed }.cut(pieces)?;
        AtChars { is_match: is_punctuation, behavior: Behavior::Isolated }.cut(pieces)
    }
}

// Words of a fixed number of characters.

struct FixedLength(usize);

fn read_fixed_length(field: &Field<'_>) -> Result<Box<dyn PreTokenizer>, Error> {
    let field = field.get("length")?;
    match usize::try_from(field.as_u32()?) {
        Ok(length @ 1..) => Ok(Box::new(FixedLength(length))),
        _ => Err(field.invalid("words have at least one character")),
    }
}

impl PreTokenizer for FixedLength {
    fn cut(&self, pieces: &mut Pieces) -> Result<(), Error> {
        pieces.split(|text, keep| {
            let mut from = 0;
            for (at, _) in text.char_indices().step_by(self.0).skip(1) {
                keep(from..at);
                from = at;
            }
            keep(from..text.len());
            Ok(())
        })
    }

    fn keeps_text(&self) -> bool {
        true
    }
}

// SentencePiece's spaces: each becomes a visible mark, which begins a word.

/// Texts before which a mark is added, unless they begin with one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Prepend {
    /// The whole text only.
    First,
    Never,
    /// Every stretch between added tokens.
    Always,
}

/// Parameters of `Metaspace`, as a pre-tokenizer and as a decoder.
pub(super) struct Metaspace {
    pub(super) mark: char,
    pub(super) prepend: Prepend,
    mark_text: Box<str>,
    split: bool,
}

const SCHEMES: [(&str, Prepend); 3] =
    [("first", Prepend::First), ("never", Prepend::Never), ("always", Prepend::Always)];

impl Metaspace {
    pub(super) fn read(field: &Field<'_>) -> Result<Self, Error> {
        let mark = field.get("replacement")?.as_char()?;
        let scheme = field.opt("prepend_scheme")?;
        let mut prepend = Prepend::Always;
        if let Some(scheme) = &scheme {
            let name = scheme.as_str()?;
            let known = || SCHEMES.iter().map(|row| row.0).collect();
            let row = SCHEMES.iter().find(|row| row.0 == name);
            prepend = row.ok_or_else(|| scheme.unsupported("scheme", name, known()))?.1;
        }
        // Older files, without schemes.
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

fn read_metaspace(field: &Field<'_>) -> Result<Box<dyn PreTokenizer>, Error> {
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

// Splitting at the matches of a pattern.

struct Split {
    pattern: Pattern,
    behavior: Behavior,
    invert: bool,
}

fn read_split(field: &Field<'_>) -> Result<Box<dyn PreTokenizer>, Error> {
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
            // The most frequent case, in which matches and other stretches are treated alike.
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

// Words between white space.

/// Pre-tokenizer that splits at white space.
struct Blanks;

impl PreTokenizer for Blanks {
    fn cut(&self, pieces: &mut Pieces) -> Result<(), Error> {
        pieces.split(|text, keep| {
            cut_at_chars(text, Behavior::Removed, char::is_whitespace, keep);
            Ok(())
        })
    }
}

/// `\w+|[^\w\s]+`: runs of word characters, and runs of other characters except white space.
struct Words;

impl PreTokenizer for Words {
    fn cut(&self, pieces: &mut Pieces) -> Result<(), Error> {
        pieces.split(|text, keep| {
            let kind = |c: char| if is_word(c) { Some(true) } else { (!c.is_whitespace()).then_some(false) };
            let mut open = None;
            for (at, c) in text.char_indices() {
                let new = kind(c);
                if let Some((from, old)) = open
                    && new != Some(old)
                {
                    keep(from..at);
                    open = None;
                }
                if let (None, Some(new)) = (open, new) {
                    open = Some((at, new));
                }
            }
            if let Some((from, _)) = open {
                keep(from..text.len());
            }
            Ok(())
        })
    }
}
