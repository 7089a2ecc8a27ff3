//! Byte-level byte-pair encoding (`tokenizer.ggml.model` = `gpt2`).
//!
//! A word is first written as the tokens of its single bytes. Then, as long as some neighbouring pair
//! is in the list of merges, the pair that stands earliest in the list is replaced by its merged
//! token, and of equal pairs the leftmost. Short words look for that pair by scanning; long ones keep the
//! candidates in a heap, so that even a word of a megabyte takes time in proportion to its length (times
//! a logarithm). Words that repeat within one text are encoded once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use foldhash::{HashMap, HashMapExt};
use leyden_tensor::{Metadata, StrArray};

use super::byte_level;
use super::pretok::{self, PreTokenizer};
use super::special::SpecialTokens;
use super::vocab::{Kind, TOKENS, Texts, Vocab};
use super::{Special, Tokenizer};
use crate::error::{Error, ErrorKind, Quoted};

const PRE: &str = "tokenizer.ggml.pre";
const MERGES: &str = "tokenizer.ggml.merges";

/// The longest word, in bytes, that is merged by scanning for the best pair.
const SCAN_BYTES: usize = 48;

/// A pair of neighbouring tokens that may be merged.
#[derive(Clone, Copy)]
struct Merge {
    /// The place in the list: lower goes first.
    rank: u32,
    /// What the pair becomes.
    id: u32,
}

pub(super) struct ByteLevelBpe {
    file: Box<str>,
    vocab: Vocab,
    pre: &'static PreTokenizer,
    /// The token of each single byte.
    byte_ids: [Option<u32>; 256],
    merges: HashMap<(u32, u32), Merge>,
    /// Tokens by their bytes; filled only if the pre-tokenizer asks for whole words.
    words: HashMap<Box<[u8]>, u32>,
    /// What is found with [`Special::Parse`].
    all_special: SpecialTokens,
    /// What is found with [`Special::AsText`].
    user_defined: SpecialTokens,
}

/// Reads the tokenizer from the metadata of a file.
pub(super) fn from_gguf(meta: &Metadata, file: &str) -> Result<Box<dyn Tokenizer>, Error> {
    let metadata = |error| Error::new(file, None, ErrorKind::Metadata(error));
    let name = meta.str(PRE).map_err(metadata)?;
    let pre = pretok::named(name).ok_or_else(|| {
        let known = pretok::names().collect();
        Error::new(file, PRE, ErrorKind::UnsupportedPreTokenizer { name: name.into(), known })
    })?;
    let strings = |key| {
        let missing = || Error::new(file, key, ErrorKind::Invalid("required metadata key is missing".into()));
        meta.opt_array_str(key).map_err(metadata)?.ok_or_else(missing)
    };
    let tokens = strings(TOKENS)?;
    let texts = Texts::new(&tokens, file)?;
    let vocab = Vocab::new(meta, file, &texts, pre.add_bos, byte_level::decode)?;
    let merges = read_merges(&strings(MERGES)?, &texts, file)?;

    let mut byte_ids = [None; 256];
    let mut words = HashMap::new();
    let mut bytes = Vec::new();
    for (id, text) in texts.iter() {
        bytes.clear();
        if !byte_level::decode(text, &mut bytes) {
            continue;
        }
        if let [byte] = bytes[..] {
            byte_ids[usize::from(byte)] = Some(id);
        }
        if pre.ignore_merges && !bytes.is_empty() {
            words.insert(bytes.as_slice().into(), id);
        }
    }
    let special = |wanted: &[Kind]| {
        let is_wanted = |&(id, _): &(u32, &str)| vocab.kind(id).is_some_and(|kind| wanted.contains(&kind));
        SpecialTokens::new(texts.iter().filter(is_wanted).map(|(id, text)| (text.as_bytes(), id)))
    };
    Ok(Box::new(ByteLevelBpe {
        file: file.into(),
        pre,
        byte_ids,
        merges,
        words,
        all_special: special(&[Kind::Control, Kind::Unknown, Kind::UserDefined]),
        user_defined: special(&[Kind::UserDefined]),
        vocab,
    }))
}

/// Reads the list of merges; a line is two texts with a space between them.
fn read_merges(lines: &StrArray, texts: &Texts<'_>, file: &str) -> Result<HashMap<(u32, u32), Merge>, Error> {
    let mut merges = HashMap::with_capacity(lines.len());
    let mut joined = Vec::new();
    for (rank, line) in (0u32..).zip(lines.iter()) {
        let invalid = |what: &str| {
            let line = String::from_utf8_lossy(line);
            Error::new(file, MERGES, ErrorKind::Invalid(format!("merge {rank}, {}, {what}", Quoted(&line))))
        };
        // A space is never part of a text, but the first byte is not looked at, as elsewhere.
        let space = line.iter().skip(1).position(|&b| b == b' ').map(|at| at + 1);
        let (left, right) = match space {
            Some(space) => (&line[..space], &line[space + 1..]),
            None => return Err(invalid("is not two texts with a space between them")),
        };
        let id = |text: &[u8]| texts.ids.get(text).copied();
        let (Some(left_id), Some(right_id)) = (id(left), id(right)) else {
            return Err(invalid("names a token that the vocabulary lacks"));
        };
        joined.clear();
        joined.extend_from_slice(left);
        joined.extend_from_slice(right);
        let Some(id) = id(&joined) else {
            return Err(invalid("makes a token that the vocabulary lacks"));
        };
        merges.entry((left_id, right_id)).or_insert(Merge { rank, id });
    }
    Ok(merges)
}

impl Tokenizer for ByteLevelBpe {
    fn encode(&self, text: &str, special: Special) -> Result<Vec<u32>, Error> {
        let set = match special {
            Special::Parse => &self.all_special,
            Special::AsText => &self.user_defined,
        };
        let mut encoder = Encoder { bpe: self, ids: Vec::new(), seen: HashMap::new(), no_token: None };
        let mut from = 0;
        for claim in set.find(text.as_bytes()) {
            encoder.text(&text[from..claim.start]);
            encoder.ids.push(claim.id);
            from = claim.end;
        }
        encoder.text(&text[from..]);
        match encoder.no_token {
            Some(byte) => Err(Error::new(&self.file, TOKENS, ErrorKind::NoTokenForByte(byte))),
            None => Ok(encoder.ids),
        }
    }

    fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.vocab.bytes(id)
    }

    fn vocab_size(&self) -> usize {
        self.vocab.len()
    }

    fn is_special(&self, id: u32) -> bool {
        matches!(self.vocab.kind(id), Some(Kind::Control | Kind::Unknown))
    }

    fn bos(&self) -> Option<u32> {
        self.vocab.bos()
    }

    fn eos(&self) -> Option<u32> {
        self.vocab.eos()
    }

    fn is_end(&self, id: u32) -> bool {
        self.vocab.is_end(id)
    }

    fn add_bos(&self) -> bool {
        self.vocab.add_bos
    }

    fn add_eos(&self) -> bool {
        self.vocab.add_eos
    }
}

/// The work on one text.
struct Encoder<'a, 't> {
    bpe: &'a ByteLevelBpe,
    ids: Vec<u32>,
    /// Where in `ids` a word that was seen before has been written.
    seen: HashMap<&'t [u8], (usize, usize)>,
    /// A byte that could not be written.
    no_token: Option<u8>,
}

impl<'t> Encoder<'_, 't> {
    fn text(&mut self, text: &'t str) {
        (self.bpe.pre.split)(text, &mut |word| self.word(word.as_bytes()));
    }

    fn word(&mut self, word: &'t [u8]) {
        if let Some(&id) = self.bpe.words.get(word) {
            self.ids.push(id);
            return;
        }
        if let Some(&(start, end)) = self.seen.get(word) {
            self.ids.extend_from_within(start..end);
            return;
        }
        let start = self.ids.len();
        for &byte in word {
            match self.bpe.byte_ids[usize::from(byte)] {
                Some(id) => self.ids.push(id),
                None => self.no_token = Some(byte),
            }
        }
        let len = if word.len() <= SCAN_BYTES {
            self.bpe.merge_by_scanning(&mut self.ids[start..])
        } else {
            self.bpe.merge_by_heap(&mut self.ids[start..])
        };
        self.ids.truncate(start + len);
        self.seen.insert(word, (start, self.ids.len()));
    }
}

impl ByteLevelBpe {
    fn merge(&self, left: u32, right: u32) -> Option<Merge> {
        self.merges.get(&(left, right)).copied()
    }

    /// Merges in place and returns how many ids are left.
    fn merge_by_scanning(&self, ids: &mut [u32]) -> usize {
        let mut n = ids.len();
        let mut pairs = [None; SCAN_BYTES];
        for i in 1..n {
            pairs[i - 1] = self.merge(ids[i - 1], ids[i]);
        }
        loop {
            let best = (1..n).filter_map(|i| pairs[i - 1].map(|merge| (merge.rank, i - 1, merge.id))).min();
            let Some((_, at, id)) = best else { return n };
            ids[at] = id;
            ids.copy_within(at + 2..n, at + 1);
            pairs.copy_within(at + 1..n, at);
            n -= 1;
            if at > 0 {
                pairs[at - 1] = self.merge(ids[at - 1], id);
            }
            pairs[at] = if at + 1 < n { self.merge(id, ids[at + 1]) } else { None };
        }
    }

    /// Merges in place and returns how many ids are left.
    fn merge_by_heap(&self, ids: &mut [u32]) -> usize {
        /// Marks an id that was merged into the one before it.
        const GONE: u32 = u32::MAX;
        /// A pair as it was when pushed; it is stale if either id has changed since.
        #[derive(PartialEq, Eq, PartialOrd, Ord)]
        struct Candidate {
            rank: u32,
            at: usize,
            left: u32,
            right: u32,
            id: u32,
        }
        let n = ids.len();
        // The neighbours of the ids that are not gone; `n` and `usize::MAX` are beyond the ends.
        let mut next: Vec<usize> = (1..=n).collect();
        let mut previous: Vec<usize> = (0..n).map(|i| i.wrapping_sub(1)).collect();
        let candidate = |ids: &[u32], at: usize, next: usize| {
            let (&left, &right) = (ids.get(at)?, ids.get(next)?);
            let merge = self.merge(left, right)?;
            Some(Reverse(Candidate { rank: merge.rank, at, left, right, id: merge.id }))
        };
        let mut heap: BinaryHeap<_> = (0..n).filter_map(|at| candidate(ids, at, at + 1)).collect();
        while let Some(Reverse(best)) = heap.pop() {
            let (at, gone) = (best.at, next[best.at]);
            if ids[at] != best.left || ids.get(gone) != Some(&best.right) {
                continue;
            }
            ids[at] = best.id;
            ids[gone] = GONE;
            next[at] = next[gone];
            if let Some(previous) = previous.get_mut(next[at]) {
                *previous = at;
            }
            heap.extend(candidate(ids, previous[at], at));
            heap.extend(candidate(ids, at, next[at]));
        }
        let mut kept = 0;
        let mut at = 0;
        while at < n {
            ids[kept] = ids[at];
            kept += 1;
            at = next[at];
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use leyden_tensor::{Array, Value};
    use proptest::prelude::*;

    use super::*;

    fn tokenizer(tokens: &[String], merges: &[String]) -> Box<dyn Tokenizer> {
        let strings = |items: &[String]| Value::Array(Array::from_strs(items));
        let entries = [
            ("tokenizer.ggml.model", Value::from("gpt2")),
            (PRE, Value::from("gpt-2")),
            (TOKENS, strings(tokens)),
            (MERGES, strings(merges)),
        ];
        let meta = Metadata::new("m", entries.map(|(key, value)| (key.to_string(), value))).unwrap();
        crate::from_gguf(&meta, "m").unwrap()
    }

    /// The definition: merge the leftmost pair of the lowest rank until there is none.
    fn by_definition(text: &str, tokens: &[String], merges: &[String]) -> Vec<u32> {
        let mut parts: Vec<String> = text.chars().map(String::from).collect();
        loop {
            let ranks =
                parts.windows(2).map(|p| merges.iter().position(|m| *m == format!("{} {}", p[0], p[1])));
            let Some((_, at)) = ranks.enumerate().filter_map(|(i, rank)| rank.map(|rank| (rank, i))).min()
            else {
                return parts.iter().map(|p| tokens.iter().position(|t| t == p).unwrap() as u32).collect();
            };
            let right = parts.remove(at + 1);
            parts[at] += &right;
        }
    }

    proptest! {
        #[test]
        fn merging_follows_the_definition(
            pairs in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..12),
            text in "[abc]{1,120}",
        ) {
            let mut tokens: Vec<String> = ["a", "b", "c"].map(String::from).into();
            let mut merges = Vec::new();
            for (left, right) in pairs {
                let (left, right) = (left.get(&tokens).clone(), right.get(&tokens).clone());
                let line = format!("{left} {right}");
                if !merges.contains(&line) {
                    merges.push(line);
                }
                let joined = left + &right;
                if !tokens.contains(&joined) {
                    tokens.push(joined);
                }
            }
            let tokenizer = tokenizer(&tokens, &merges);
            // Both sides of the length at which scanning gives way to the heap.
            for len in [text.len().min(SCAN_BYTES), text.len()] {
                let got = tokenizer.encode(&text[..len], Special::AsText).unwrap();
                prop_assert_eq!(got, by_definition(&text[..len], &tokens, &merges));
            }
        }
    }

    #[test]
    fn a_byte_without_a_token_is_an_error() {
        let tokenizer = tokenizer(&["a".into()], &[]);
        let error = tokenizer.encode("ab", Special::AsText).unwrap_err();
        let want =
            "m: tokenizer.ggml.tokens: the vocabulary has no token for byte 0x62, which the text contains";
        assert_eq!(error.to_string(), want);
        assert!(tokenizer.encode("", Special::AsText).unwrap().is_empty());
    }
}
