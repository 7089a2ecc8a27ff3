//! Byte-pair encoding of SentencePiece (`tokenizer.ggml.model` = `llama`).
//!
//! A text is written as the tokens of its characters. Then, as long as two neighbours together are the text of a
//! token, the pair whose token has the highest score is replaced by it, the leftmost on a tie. A character without
//! a token becomes the tokens of its bytes.
//!
//! There are no words: a space is the character `▁`. But if no token contains a character followed by `▁`, nothing
//! can be merged across such a boundary, and the parts between these boundaries are encoded separately; repeated
//! parts only once.

use std::collections::BinaryHeap;

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use leyden_tensor::Metadata;

use super::Tokenizer;
use super::bounds::{Bounds, CHECK_INTERVAL, Exceeded};
use super::fields;
use super::gguf::{Cover, GgufTokenizer, Model, Unwritable};
use super::space_mark::{self, MARK};
use super::text_index::TextIndex;
use super::vocab::{Defaults, Vocab};
use crate::error::{Error, ErrorKind};

pub(super) const ADD_SPACE_PREFIX: &str = "tokenizer.ggml.add_space_prefix";

struct SentencePiece {
    texts: TextIndex,
    /// Score of each token, as an integer of the same order.
    ranks: Vec<u32>,
    byte_ids: [Option<u32>; 256],
    /// Characters that precede `▁` in some token.
    before_marks: HashSet<char>,
    add_space_prefix: bool,
}

/// Reads the tokenizer from the metadata of a file.
pub(super) fn from_gguf(meta: &Metadata, file: &str) -> Result<Box<dyn Tokenizer>, Error> {
    let texts = fields::read_texts(meta, file)?;
    let defaults = Defaults { bos: Some(1), eos: Some(2), add_bos: true, ..Defaults::default() };
    let vocab = Vocab::new(meta, file, &texts, defaults, space_mark::decode)?;
    let scores = fields::scores(meta, file, texts.len())?;
    let prefix = meta.opt_bool(ADD_SPACE_PREFIX);
    let prefix = prefix.map_err(|error| Error::new(file, None, ErrorKind::Metadata(error)))?;
    let before_marks = |(_, text): (u32, &str)| {
        let mut before = HashSet::new();
        for (at, _) in text.match_indices(MARK) {
            before.extend(text[..at].chars().next_back());
        }
        before
    };
    let index = texts.clone();
    let model = SentencePiece {
        before_marks: texts.iter().flat_map(before_marks).collect(),
        byte_ids: std::array::from_fn(|byte| texts.get(format!("<0x{byte:02X}>").as_bytes())),
        ranks: scores.into_iter().map(rank).collect(),
        add_space_prefix: prefix.unwrap_or(true),
        texts: index,
    };
    Ok(Box::new(GgufTokenizer::new(meta, file, (vocab, &texts), None, model)?))
}

/// Maps a finite score to an integer of the same order; both zeros map to the same one.
fn rank(score: f32) -> u32 {
    let bits = (score + 0.0).to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

/// Placeholder for no token, no symbol or no pair.
const NONE: u32 = u32::MAX;

/// One or more characters of a text. Positions and lengths are in bytes, of a text of less than 4 GiB.
#[derive(Clone, Copy)]
struct Symbol {
    start: u32,
    /// Length; 0 once it is merged into the previous symbol.
    len: u32,
    /// Indices of its neighbours; out of range at the ends.
    previous: u32,
    next: u32,
    /// Its token, or `NONE`.
    id: u32,
    /// Token of its merge with the next symbol, or `NONE`.
    with_next: u32,
}

impl Model for SentencePiece {
    fn encode(&self, text: &str, ids: &mut Vec<u32>, bounds: &Bounds<'_>) -> Result<(), Unwritable> {
        let mut marked = String::with_capacity(text.len() + MARK.len());
        if self.add_space_prefix {
            marked.push_str(MARK);
        }
        marked.push_str(&space_mark::encode(text));
        let mut seen: HashMap<&str, (usize, usize)> = HashMap::new();
        let mut symbols = Vec::new();
        let mut rest = marked.as_str();
        while !rest.is_empty() {
            let (part, after) = rest.split_at(self.first_part(rest));
            rest = after;
            if let Some(&(start, end)) = seen.get(part) {
                ids.extend_from_within(start..end);
                bounds.check(ids.len())?;
                continue;
            }
            let start = ids.len();
            self.part(part, &mut symbols, ids, bounds)?;
            seen.insert(part, (start, ids.len()));
            bounds.check(ids.len())?;
        }
        Ok(())
    }

    fn adds_space(&self) -> bool {
        self.add_space_prefix
    }

    fn cover(&self, _: &Vocab, texts: &TextIndex) -> Option<Cover> {
        Some(Cover { longest: texts.longest(), space_bytes: MARK.len(), counts: [true; 256] })
    }
}

impl SentencePiece {
    /// Returns the length of the first part of `text`, which is not empty: nothing is merged across its end.
    fn first_part(&self, text: &str) -> usize {
        let parts = |&(at, _): &(usize, &str)| {
            text[..at].chars().next_back().is_some_and(|before| !self.before_marks.contains(&before))
        };
        text.match_indices(MARK).find(parts).map_or(text.len(), |(at, _)| at)
    }

    /// Appends the ids of a part. `symbols` is a reused buffer.
    fn part(
        &self,
        text: &str,
        symbols: &mut Vec<Symbol>,
        ids: &mut Vec<u32>,
        bounds: &Bounds<'_>,
    ) -> Result<(), Unwritable> {
        if text.len() >= NONE as usize {
            // Gigabytes without a boundary are split at an arbitrary one.
            let (first, second) = text.split_at(text.floor_char_boundary(text.len() / 2));
            self.part(first, symbols, ids, bounds)?;
            return self.part(second, symbols, ids, bounds);
        }
        let bytes = text.as_bytes();
        symbols.clear();
        symbols.extend(text.char_indices().zip(0_u32..).map(|((start, c), at)| {
            let id = self.texts.get(&bytes[start..start + c.len_utf8()]).unwrap_or(NONE);
            // The text is shorter than 4 GiB.
            let (start, len) = (start as u32, c.len_utf8() as u32);
            Symbol { start, len, previous: at.wrapping_sub(1), next: at + 1, id, with_next: NONE }
        }));
        self.merge(bytes, symbols, bounds)?;
        let mut at = 0;
        while let Some(symbol) = symbols.get(at) {
            match symbol.id {
                NONE => {
                    for &byte in &bytes[symbol.start as usize..][..symbol.len as usize] {
                        ids.push(self.byte_ids[usize::from(byte)].ok_or(Unwritable::Byte(byte))?);
                    }
                }
                id => ids.push(id),
            }
            at = symbol.next as usize;
        }
        Ok(())
    }

    fn merge(&self, text: &[u8], symbols: &mut [Symbol], bounds: &Bounds<'_>) -> Result<(), Exceeded> {
        // Rank and position in one number, so that the highest rank comes first, the leftmost on a tie. An entry is
        // stale if its pair has another rank or no token by now.
        let key = |rank: u32, left: u32| u64::from(rank) << 32 | u64::from(!left);
        let rank = |symbol: &Symbol| self.ranks.get(symbol.with_next as usize).copied();
        let pair_up = |symbols: &mut [Symbol], left: u32| {
            let first = *symbols.get(left as usize)?;
            let token = symbols.get(first.next as usize).and_then(|second| {
                self.texts.get(&text[first.start as usize..][..(first.len + second.len) as usize])
            });
            symbols[left as usize].with_next = token.unwrap_or(NONE);
            rank(&symbols[left as usize]).map(|rank| key(rank, left))
        };
        let last = symbols.len() as u32;
        let mut heap: BinaryHeap<u64> = (0..last).filter_map(|left| pair_up(symbols, left)).collect();
        let mut steps = 0_usize;
        while let Some(best) = heap.pop() {
            steps += 1;
            if steps.is_multiple_of(CHECK_INTERVAL) {
                bounds.check(0)?;
            }
            // The lower half of a 64-bit number.
            let left = !(best as u32);
            let first = symbols[left as usize];
            if first.len == 0 || rank(&first) != Some((best >> 32) as u32) {
                continue;
            }
            let second = symbols[first.next as usize];
            symbols[first.next as usize].len = 0;
            let len = first.len + second.len;
            symbols[left as usize] = Symbol { len, next: second.next, id: first.with_next, ..first };
            if let Some(after) = symbols.get_mut(second.next as usize) {
                after.previous = left;
            }
            heap.extend(pair_up(symbols, first.previous));
            heap.extend(pair_up(symbols, left));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use leyden_tensor::{Array, Value};
    use proptest::prelude::*;

    use super::super::Special;
    use super::*;

    fn tokenizer(tokens: &[String], scores: &[f32]) -> Box<dyn Tokenizer> {
        let entries = [
            ("tokenizer.ggml.model", Value::from("llama")),
            ("tokenizer.ggml.tokens", Value::Array(Array::from_strs(tokens))),
            ("tokenizer.ggml.scores", Value::Array(Array::from_f32(scores))),
        ];
        let meta = Metadata::new("m", entries.map(|(key, value)| (key.to_string(), value))).unwrap();
        crate::from_gguf(&meta, "m").unwrap()
    }

    /// Merges the leftmost of the best pairs until there is none: the reference.
    fn by_definition(text: &str, tokens: &[String], scores: &[f32]) -> Vec<u32> {
        let id = |part: &str| tokens.iter().position(|token| token == part);
        let mut parts: Vec<String> =
            format!("{MARK}{}", text.replace(' ', MARK)).chars().map(String::from).collect();
        loop {
            let mut best: Option<(f32, usize)> = None;
            for at in 1..parts.len() {
                let score = id(&(parts[at - 1].clone() + &parts[at])).map(|id| scores[id]);
                if let Some(score) = score.filter(|&score| best.is_none_or(|(old, _)| score > old)) {
                    best = Some((score, at));
                }
            }
            let Some((_, at)) = best else {
                return parts.iter().map(|part| id(part).unwrap() as u32).collect();
            };
            let right = parts.remove(at);
            parts[at - 1] += &right;
        }
    }

    proptest! {
        #[test]
        fn merging_follows_the_definition(
            more in prop::collection::btree_map("[ab▁]{2,5}", -3i8..3, 0..14),
            text in "[ab ]{1,40}",
        ) {
            let single = ["<s>", "<x>", "a", "b", MARK].map(|token| (String::from(token), 0.0));
            let more = more.into_iter().map(|(token, score)| (token, f32::from(score) / 2.0));
            let (tokens, scores): (Vec<String>, Vec<f32>) = single.into_iter().chain(more).unzip();
            let tokenizer = tokenizer(&tokens, &scores);
            let ids = tokenizer.encode(&text, Special::AsText).unwrap();
            prop_assert_eq!(ids, by_definition(&text, &tokens, &scores));
        }

        #[test]
        fn ranks_are_ordered_as_scores(a in any::<f32>(), b in any::<f32>()) {
            prop_assume!(a.is_finite() && b.is_finite());
            prop_assert_eq!(rank(a).cmp(&rank(b)), a.partial_cmp(&b).unwrap());
        }
    }

    #[test]
    fn characters_without_a_token_become_bytes() {
        let tokens = ["<0xC3>", "<s>", "</s>", "<0xA9>", MARK, "a", "é"].map(String::from);
        let all = tokenizer(&tokens, &[0.0; 7]);
        assert_eq!(all.encode("aé", Special::AsText).unwrap(), [4, 5, 6]);
        let few = tokenizer(&tokens[..6], &[0.0; 6]);
        assert_eq!(few.encode("aé", Special::AsText).unwrap(), [4, 5, 0, 3]);
        let error = few.encode("b", Special::AsText).unwrap_err().to_string();
        assert!(
            error.starts_with("m: tokenizer.ggml.tokens: the vocabulary has no token for byte 0x62"),
            "{error}"
        );
        assert_eq!(rank(0.0), rank(-0.0));
    }
}
