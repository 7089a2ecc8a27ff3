//! Byte-pair encoding of SentencePiece (`tokenizer.ggml.model` = `llama`).
//!
//! A text is written as the tokens of its characters. Then, as long as two neighbours together are the text of a
//! token, the pair whose token has the highest score is replaced by it, and of equal ones the leftmost.
//! A character that is no token becomes the tokens of its bytes. There are no words: a space is a character like
//! another, `▁`, and the candidates of a whole text are in one heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use leyden_tensor::Metadata;

use super::Tokenizer;
use super::gguf::{GgufTokenizer, Model, Unwritable};
use super::space_mark::{self, MARK};
use super::text_index::TextIndex;
use super::vocab::{self, Defaults, Vocab};
use crate::error::{Error, ErrorKind};

pub(super) const ADD_SPACE_PREFIX: &str = "tokenizer.ggml.add_space_prefix";

struct SentencePiece {
    texts: TextIndex,
    /// For each token its score, as a number that is ordered the same way.
    ranks: Vec<u32>,
    byte_ids: [Option<u32>; 256],
    add_space_prefix: bool,
}

/// Reads the tokenizer from the metadata of a file.
pub(super) fn from_gguf(meta: &Metadata, file: &str) -> Result<Box<dyn Tokenizer>, Error> {
    let texts = vocab::read_texts(meta, file)?;
    let defaults = Defaults { bos: Some(1), eos: Some(2), add_bos: true, ..Defaults::default() };
    let vocab = Vocab::new(meta, file, &texts, defaults, space_mark::decode)?;
    let scores = vocab::scores(meta, file, texts.len())?;
    let prefix = meta.opt_bool(ADD_SPACE_PREFIX);
    let prefix = prefix.map_err(|error| Error::new(file, None, ErrorKind::Metadata(error)))?;
    let index = texts.clone();
    let model = SentencePiece {
        byte_ids: std::array::from_fn(|byte| texts.get(format!("<0x{byte:02X}>").as_bytes())),
        ranks: scores.into_iter().map(rank).collect(),
        add_space_prefix: prefix.unwrap_or(true),
        texts: index,
    };
    Ok(Box::new(GgufTokenizer::new(meta, file, (vocab, &texts), None, model)?))
}

/// A number for a finite score: a higher one for a higher score, the same one for both zeros.
fn rank(score: f32) -> u32 {
    let bits = (score + 0.0).to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

/// One or more characters of a text.
#[derive(Clone, Copy)]
struct Symbol {
    start: usize,
    /// In bytes; 0 once it is part of the symbol before it.
    len: usize,
    /// Its neighbours; `usize::MAX` beyond the ends.
    previous: usize,
    next: usize,
    id: Option<u32>,
}

/// A pair of neighbours as it was when pushed; stale if either has changed since. The best is the greatest.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u32,
    left: Reverse<usize>,
    right: usize,
    len: usize,
    id: u32,
}

impl Model for SentencePiece {
    fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), Unwritable> {
        let mut marked = String::with_capacity(text.len() + MARK.len());
        if self.add_space_prefix {
            marked.push_str(MARK);
        }
        marked.push_str(&space_mark::encode(text));
        let mut symbols: Vec<Symbol> = marked
            .char_indices()
            .zip(0usize..)
            .map(|((start, c), at)| {
                let len = c.len_utf8();
                let id = self.texts.get(&marked.as_bytes()[start..start + len]);
                Symbol { start, len, previous: at.wrapping_sub(1), next: at + 1, id }
            })
            .collect();
        if let Some(last) = symbols.last_mut() {
            last.next = usize::MAX;
        }
        self.merge(marked.as_bytes(), &mut symbols);
        let mut at = 0;
        while let Some(symbol) = symbols.get(at) {
            match symbol.id {
                Some(id) => ids.push(id),
                None => {
                    for &byte in &marked.as_bytes()[symbol.start..symbol.start + symbol.len] {
                        ids.push(self.byte_ids[usize::from(byte)].ok_or(Unwritable::Byte(byte))?);
                    }
                }
            }
            at = symbol.next;
        }
        Ok(())
    }

    fn adds_space(&self) -> bool {
        self.add_space_prefix
    }
}

impl SentencePiece {
    fn merge(&self, text: &[u8], symbols: &mut [Symbol]) {
        let candidate = |symbols: &[Symbol], left: usize, right: usize| {
            let (first, second) = (symbols.get(left)?, symbols.get(right)?);
            let len = first.len + second.len;
            let id = self.texts.get(&text[first.start..first.start + len])?;
            Some(Candidate { rank: self.ranks[id as usize], left: Reverse(left), right, len, id })
        };
        let mut heap: BinaryHeap<_> =
            (1..symbols.len()).filter_map(|right| candidate(symbols, right - 1, right)).collect();
        while let Some(best) = heap.pop() {
            let (left, right) = (best.left.0, best.right);
            let (first, second) = (symbols[left], symbols[right]);
            if first.len == 0 || second.len == 0 || first.len + second.len != best.len {
                continue;
            }
            symbols[left] = Symbol { len: best.len, next: second.next, id: Some(best.id), ..first };
            symbols[right].len = 0;
            if let Some(after) = symbols.get_mut(second.next) {
                after.previous = left;
            }
            heap.extend(candidate(symbols, first.previous, left));
            heap.extend(candidate(symbols, left, second.next));
        }
    }
}
