//! WordPiece (`tokenizer.ggml.model` = `bert`).
//!
//! A text is normalized and split into words at white space and around punctuation and ideographs; each word is
//! split, from left to right, into the longest matching tokens, or else becomes the unknown token. In a GGUF file
//! the tokens that begin a word are prefixed with `▁`, and the others are not.

use leyden_tensor::Metadata;

use super::Tokenizer;
use super::bounds::{Bounds, CHECK_INTERVAL};
use super::classes::{Class, class};
use super::fields;
use super::gguf::{GgufTokenizer, Model, Unwritable};
use super::prefix_search::PrefixSearch;
use super::space_mark::{self, MARK};
use super::unicode_bases::BASES;
use super::vocab::{Defaults, MAX_TOKEN_BYTES, Vocab};
use crate::error::{Error, ErrorKind};

const SEPARATOR: &str = "tokenizer.ggml.seperator_token_id";
const LOWERCASE: &str = "tokenizer.ggml.normalizer.lowercase";
const STRIP_ACCENTS: &str = "tokenizer.ggml.normalizer.strip_accents";

struct WordPiece {
    tokens: PrefixSearch,
    unknown: u32,
    lowercase: bool,
    strip_accents: bool,
}

/// Reads the tokenizer from the metadata of a file.
pub(super) fn from_gguf(meta: &Metadata, file: &str) -> Result<Box<dyn Tokenizer>, Error> {
    let texts = fields::read_texts(meta, file)?;
    fields::check_lengths(&texts, file, MAX_TOKEN_BYTES)?;
    let defaults = Defaults {
        bos: Some(101),
        eos: Some(102),
        eos_key: Some(SEPARATOR),
        force_bos: true,
        force_eos: true,
        ..Defaults::default()
    };
    let vocab = Vocab::new(meta, file, &texts, defaults, space_mark::decode)?;
    let unknown = vocab.unknown(meta, file, 100)?;
    let flag = |key| meta.opt_bool(key).map_err(|error| Error::new(file, None, ErrorKind::Metadata(error)));
    let lowercase = flag(LOWERCASE)?.unwrap_or(true);
    let model = WordPiece {
        tokens: PrefixSearch::new(texts.iter().map(|(id, text)| (text.as_bytes(), id))),
        unknown,
        lowercase,
        strip_accents: flag(STRIP_ACCENTS)?.unwrap_or(lowercase),
    };
    Ok(Box::new(GgufTokenizer::new(meta, file, (vocab, &texts), None, model)?))
}

impl Model for WordPiece {
    fn encode(&self, text: &str, ids: &mut Vec<u32>, bounds: &Bounds<'_>) -> Result<(), Unwritable> {
        let mut word = String::from(MARK);
        for (at, c) in text.chars().enumerate() {
            if at.is_multiple_of(CHECK_INTERVAL) {
                bounds.check(ids.len())?;
            }
            let c = if self.strip_accents { base(c) } else { c };
            if c.is_whitespace() {
                self.word(&mut word, ids, bounds)?;
                continue;
            }
            let kind = class(c);
            let dropped = matches!(c, '\0' | '\u{fffd}') || kind == Class::Control;
            if dropped || (self.strip_accents && kind == Class::Mark) {
                continue;
            }
            let written = if self.lowercase { lower(c) } else { c };
            if kind == Class::Punctuation || (c < '\x7f' && kind == Class::Symbol) || is_ideograph(c) {
                self.word(&mut word, ids, bounds)?;
                word.push(written);
                self.word(&mut word, ids, bounds)?;
            } else {
                word.push(written);
            }
        }
        self.word(&mut word, ids, bounds)?;
        Ok(())
    }

    fn adds_space(&self) -> bool {
        true
    }

    fn pair(&self) -> (usize, bool) {
        (1, true)
    }
}

impl WordPiece {
    /// Appends the ids of a word with a space mark before it, unless it is empty, and resets it to the mark.
    fn word(&self, word: &mut String, ids: &mut Vec<u32>, bounds: &Bounds<'_>) -> Result<(), Unwritable> {
        if word.len() == MARK.len() {
            return Ok(());
        }
        let before = ids.len();
        let mut rest = word.as_bytes();
        while !rest.is_empty() {
            let mut longest = None;
            self.tokens.walk(rest, |len, id| longest = Some((len, id)));
            let Some((len, id)) = longest else {
                ids.truncate(before);
                ids.push(self.unknown);
                break;
            };
            ids.push(id);
            rest = &rest[len..];
            // An unknown word becomes one token, whatever it has so far.
            if ids.len().is_multiple_of(CHECK_INTERVAL) {
                bounds.check(before)?;
            }
        }
        word.truncate(MARK.len());
        bounds.check(ids.len())?;
        Ok(())
    }
}

/// Returns the first character of the canonical decomposition of `c`.
fn base(c: char) -> char {
    match c {
        '\0'..='\x7f' => c,
        // The leading consonant of a Hangul syllable; there are 588 syllables for each.
        '\u{ac00}'..='\u{d7a3}' => char::from_u32(0x1100 + (u32::from(c) - 0xac00) / 588).unwrap_or(c),
        _ => {
            let after = BASES.partition_point(|&(first, ..)| first <= u32::from(c));
            match after.checked_sub(1).map(|at| BASES[at]) {
                Some((_, last, base)) if u32::from(c) <= last => base,
                _ => c,
            }
        }
    }
}

/// Returns the lower-case letter of `c`, in the Unicode version of the classes.
fn lower(c: char) -> char {
    if class(c) == Class::Other { c } else { c.to_lowercase().next().unwrap_or(c) }
}

/// Returns whether a character is an ideograph that is a word by itself. The sixth range should begin at U+2B820;
/// BERT's tokenizers have it so.
fn is_ideograph(c: char) -> bool {
    matches!(c,
        '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{2a6df}'
        | '\u{2a700}'..='\u{2b81f}'
        | '\u{2b920}'..='\u{2ceaf}'
        | '\u{2f800}'..='\u{2fa1f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_and_lower_of_well_known_characters() {
        for (c, want) in
            [('é', 'e'), ('ǅ', 'ǅ'), ('한', '\u{1112}'), ('ힿ', 'ힿ'), ('Å', 'A'), ('가', '\u{1100}'), ('a', 'a')]
        {
            assert_eq!(base(c), want, "{c}");
        }
        for (c, want) in
            [('É', 'é'), ('İ', 'i'), ('ǅ', 'ǆ'), ('Σ', 'σ'), ('ß', 'ß'), ('\u{10d50}', '\u{10d50}')]
        {
            assert_eq!(lower(c), want, "{c}");
        }
    }
}
