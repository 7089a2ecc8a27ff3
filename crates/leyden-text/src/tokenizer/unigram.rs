//! Unigram language model of SentencePiece (`tokenizer.ggml.model` = `t5`).
//!
//! A text is normalized, then split into the tokens with the largest sum of scores, which are log probabilities
//! (Viterbi). Characters without a token count as unknown, with a penalty, and adjacent unknown ones are one token.

use leyden_tensor::Metadata;

use super::Tokenizer;
use super::bounds::{Bounds, CHECK_INTERVAL};
use super::charsmap::{CHARSMAP, Charsmap};
use super::fields;
use super::fields::Kind;
use super::gguf::{GgufTokenizer, Model, Unwritable};
use super::prefix_search::PrefixSearch;
use super::sentencepiece::ADD_SPACE_PREFIX;
use super::space_mark::{self, MARK};
use super::vocab::{Defaults, MAX_TOKEN_BYTES, Vocab};
use crate::error::{Error, ErrorKind};

const REMOVE_EXTRA_SPACES: &str = "tokenizer.ggml.remove_extra_whitespaces";

/// Difference between the lowest score and that of an unknown character.
const UNKNOWN_PENALTY: f32 = 10.0;

/// Maximum factor by which normalization may lengthen a text. A character of three bytes becomes at most 33 bytes
/// in Unicode's compatibility forms, and a space three bytes.
const MAX_GROWTH: usize = 16;

struct Unigram {
    charsmap: Charsmap,
    /// Tokens into which a text is split.
    tokens: PrefixSearch,
    /// Tokens that are not normalized.
    user_defined: PrefixSearch,
    scores: Vec<f64>,
    unknown: u32,
    unknown_score: f64,
    add_space_prefix: bool,
    remove_extra_spaces: bool,
}

/// Reads the tokenizer from the metadata of a file.
pub(super) fn from_gguf(meta: &Metadata, file: &str) -> Result<Box<dyn Tokenizer>, Error> {
    let texts = fields::read_texts(meta, file)?;
    fields::check_lengths(&texts, file, MAX_TOKEN_BYTES)?;
    let defaults = Defaults { eos: Some(1), add_eos: true, ..Defaults::default() };
    let vocab = Vocab::new(meta, file, &texts, defaults, space_mark::decode)?;
    let scores = fields::scores(meta, file, texts.len())?;
    // As stated in the file, before kinds are corrected by well-known texts.
    let kinds = fields::kinds(meta, file, texts.len())?;
    let of_kind = |wanted: &'static [Kind]| {
        let kinds = &kinds;
        let tokens = texts.iter().map(|(id, text)| (text.as_bytes(), id));
        PrefixSearch::new(tokens.filter(move |&(_, id)| wanted.contains(&kinds[id as usize])))
    };
    let normal =
        scores.iter().zip(&kinds).filter(|(_, kind)| **kind == Kind::Normal).map(|(score, _)| *score);
    let flag = |key| meta.opt_bool(key).map_err(|error| Error::new(file, None, ErrorKind::Metadata(error)));
    let score = |(id, score): (u32, &f32)| match vocab.kind(id) {
        Some(Kind::UserDefined) => 0.0,
        _ => f64::from(*score),
    };
    let model = Unigram {
        charsmap: Charsmap::from_gguf(meta, file)?,
        tokens: of_kind(&[Kind::Normal, Kind::UserDefined, Kind::Unused]),
        user_defined: of_kind(&[Kind::UserDefined]),
        scores: (0..).zip(&scores).map(score).collect(),
        unknown: vocab.unknown(meta, file, 2)?,
        unknown_score: f64::from(normal.fold(f32::MAX, f32::min) - UNKNOWN_PENALTY),
        add_space_prefix: flag(ADD_SPACE_PREFIX)?.unwrap_or(false),
        remove_extra_spaces: flag(REMOVE_EXTRA_SPACES)?.unwrap_or(false),
    };
    Ok(Box::new(GgufTokenizer::new(meta, file, (vocab, &texts), None, model)?))
}

impl Model for Unigram {
    fn encode(&self, text: &str, ids: &mut Vec<u32>, bounds: &Bounds<'_>) -> Result<(), Unwritable> {
        let start = ids.len();
        self.cut(&self.normalize(text, bounds)?, ids, bounds)?;
        ids[start..].reverse();
        Ok(bounds.check(ids.len())?)
    }

    fn adds_space(&self) -> bool {
        self.add_space_prefix || self.remove_extra_spaces
    }
}

/// Best segmentation of a prefix of the text.
#[derive(Clone, Copy)]
struct Best {
    /// Its last token, and the start of that token.
    id: u32,
    start: usize,
    score: f64,
}

impl Unigram {
    /// Appends the ids of a normalized text in reverse order.
    fn cut(&self, text: &str, ids: &mut Vec<u32>, bounds: &Bounds<'_>) -> Result<(), Unwritable> {
        let mut best = vec![Best { id: self.unknown, start: 0, score: f64::MIN }; text.len() + 1];
        best[0].score = 0.0;
        for (i, (start, c)) in text.char_indices().enumerate() {
            if i.is_multiple_of(CHECK_INTERVAL) {
                bounds.check(0)?;
            }
            let before = best[start].score;
            let mut offer = |len: usize, id: u32, score: f64| {
                let score = before + score;
                if score > best[start + len].score {
                    best[start + len] = Best { id, start, score };
                }
            };
            let mut whole = false;
            self.tokens.walk(&text.as_bytes()[start..], |len, id| {
                whole |= len == c.len_utf8();
                offer(len, id, self.scores[id as usize]);
            });
            if !whole {
                offer(c.len_utf8(), self.unknown, self.unknown_score);
            }
        }
        let mut end = text.len();
        let mut after = None;
        while end > 0 {
            let Best { id, start, .. } = best[end];
            if id != self.unknown || after != Some(id) {
                ids.push(id);
            }
            (after, end) = (Some(id), start);
        }
        Ok(())
    }

    fn normalize(&self, text: &str, bounds: &Bounds<'_>) -> Result<String, Unwritable> {
        let most = text.len().saturating_mul(MAX_GROWTH) + MARK.len();
        let mut out = String::with_capacity(text.len() + MARK.len());
        let mut prefix = self.add_space_prefix;
        let mut in_word = false;
        let mut rest = text;
        let mut looks = 0_usize;
        while let Some(first) = rest.chars().next() {
            looks += 1;
            if looks.is_multiple_of(CHECK_INTERVAL) {
                bounds.check(0)?;
            }
            let (len, replacement) = self.next(rest, first);
            for c in replacement.chars() {
                if out.len() > most {
                    return Err(Unwritable::TooLong { key: CHARSMAP, times: MAX_GROWTH });
                }
                if c == ' ' {
                    in_word = false;
                    if !self.remove_extra_spaces {
                        out.push_str(MARK);
                    }
                    continue;
                }
                if !in_word {
                    in_word = true;
                    if prefix || self.remove_extra_spaces {
                        out.push_str(MARK);
                        prefix = false;
                    }
                }
                out.push(c);
            }
            rest = &rest[len..];
        }
        Ok(out)
    }

    /// Returns the length of the prefix of `rest` that is normalized as one, and its replacement.
    fn next<'a>(&'a self, rest: &'a str, first: char) -> (usize, &'a str) {
        // As in llama.cpp, a prefix of a user-defined token suffices to keep a text; but never part of a character,
        // which llama.cpp treats as invalid UTF-8.
        let mut kept = self.user_defined.walk(rest.as_bytes(), |_, _| {});
        while !rest.is_char_boundary(kept) {
            kept -= 1;
        }
        if kept > 0 {
            return (kept, &rest[..kept]);
        }
        match self.charsmap.longest(rest.as_bytes()) {
            // A key that ends within a character does not match.
            Some((len, replacement)) if rest.is_char_boundary(len) => (len, replacement),
            _ => (first.len_utf8(), &rest[..first.len_utf8()]),
        }
    }
}
