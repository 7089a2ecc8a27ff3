//! Unigram language model of SentencePiece (`tokenizer.ggml.model` = `t5`).
//!
//! A text is normalised; then it is cut into the tokens whose scores, logarithms of probabilities, have the largest
//! sum (Viterbi). Characters that are no token count as unknown, which costs a penalty, and neighbouring unknown ones
//! are one token.

use leyden_tensor::Metadata;

use super::Tokenizer;
use super::bounds::{Bounds, LOOK_EVERY};
use super::charsmap::{CHARSMAP, Charsmap};
use super::fields;
use super::gguf::{GgufTokenizer, Model, Unwritable};
use super::prefix_search::PrefixSearch;
use super::sentencepiece::ADD_SPACE_PREFIX;
use super::space_mark::{self, MARK};
use super::vocab::{Defaults, Kind, MAX_TOKEN_BYTES, Vocab};
use crate::error::{Error, ErrorKind};

const REMOVE_EXTRA_SPACES: &str = "tokenizer.ggml.remove_extra_whitespaces";

/// How much less than the worst token an unknown character scores.
const UNKNOWN_PENALTY: f32 = 10.0;

/// How many times longer a text may become. A character of three bytes becomes 33 at most by Unicode's compatibility
/// forms, and a space three bytes for one.
const MOST_GROWTH: usize = 16;

struct Unigram {
    charsmap: Charsmap,
    /// What a text is cut into.
    tokens: PrefixSearch,
    /// What is not normalised.
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
    // As the file says, before kinds are corrected by well-known texts.
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

/// The best way to write a text up to some place.
#[derive(Clone, Copy)]
struct Best {
    /// The last token of it, and where that begins.
    id: u32,
    start: usize,
    score: f64,
}

impl Unigram {
    /// Appends the ids of a normalised text in reverse order.
    fn cut(&self, text: &str, ids: &mut Vec<u32>, bounds: &Bounds<'_>) -> Result<(), Unwritable> {
        let mut best = vec![Best { id: self.unknown, start: 0, score: f64::MIN }; text.len() + 1];
        best[0].score = 0.0;
        for (i, (start, c)) in text.char_indices().enumerate() {
            if i.is_multiple_of(LOOK_EVERY) {
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
        let most = text.len().saturating_mul(MOST_GROWTH) + MARK.len();
        let mut out = String::with_capacity(text.len() + MARK.len());
        let mut prefix = self.add_space_prefix;
        let mut in_word = false;
        let mut rest = text;
        let mut looks = 0_usize;
        while let Some(first) = rest.chars().next() {
            looks += 1;
            if looks.is_multiple_of(LOOK_EVERY) {
                bounds.check(0)?;
            }
            let (len, replacement) = self.next(rest, first);
            for c in replacement.chars() {
                if out.len() > most {
                    return Err(Unwritable::TooLong { key: CHARSMAP, times: MOST_GROWTH });
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

    /// How much of `rest` is normalised as one, and what it becomes.
    fn next<'a>(&'a self, rest: &'a str, first: char) -> (usize, &'a str) {
        // As llama.cpp does it, the beginning of a user-defined token is enough to keep a text; but never part of a
        // character, which it takes for damage.
        let mut kept = self.user_defined.walk(rest.as_bytes(), |_, _| {});
        while !rest.is_char_boundary(kept) {
            kept -= 1;
        }
        if kept > 0 {
            return (kept, &rest[..kept]);
        }
        match self.charsmap.longest(rest.as_bytes()) {
            // A key that ends inside a character is none of the text's.
            Some((len, replacement)) if rest.is_char_boundary(len) => (len, replacement),
            _ => (first.len_utf8(), &rest[..first.len_utf8()]),
        }
    }
}
