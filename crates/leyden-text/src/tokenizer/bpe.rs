//! Byte-pair encoding (`tokenizer.ggml.model` = `gpt2`, and `gemma4`).
//!
//! A word is first written as the tokens of its single bytes, or in vocabularies of raw text as those of its
//! characters; then neighbours are merged, see `merges`. Words that repeat within one text are encoded once.

use std::borrow::Cow;
use std::ops::Range;
use std::{panic, thread};

use foldhash::{HashMap, HashMapExt};
use leyden_tensor::{Metadata, StrArray};

use super::Tokenizer;
use super::bounds::{Bounds, Exceeded};
use super::byte_level;
use super::classes::{Class, class};
use super::fields;
use super::gguf::{Cover, GgufTokenizer, Model, Unwritable};
use super::merges::{Merge, Merges};
use super::pretok::{self, PreTokenizer, Spelling};
use super::space_mark::{self, MARK};
use super::text_index::TextIndex;
use super::vocab::{self, Defaults, Vocab};
use crate::error::{Error, ErrorKind, Quoted};

const PRE: &str = "tokenizer.ggml.pre";
const MERGES: &str = "tokenizer.ggml.merges";

/// Minimum number of merges that are looked up on several threads: for a large vocabulary this was a third of a
/// model's load time.
const MANY: usize = 1 << 14;

/// Placeholder of a byte or character without a token while its word is merged.
const NO_TOKEN: u32 = u32::MAX - 1;

struct Bpe {
    pre: &'static PreTokenizer,
    /// Token of each single byte.
    byte_ids: [Option<u32>; 256],
    /// Token of each single character, in vocabularies of raw text.
    char_ids: HashMap<char, u32>,
    /// Token of each run of line feeds, by its length, if the pre-tokenizer keeps runs whole.
    line_feeds: Vec<Option<u32>>,
    merges: Merges,
    /// Tokens by their bytes; empty unless the pre-tokenizer looks up whole words.
    words: HashMap<Box<[u8]>, u32>,
}

/// Reads the tokenizer from the metadata of a file.
pub(super) fn from_gguf(meta: &Metadata, file: &str) -> Result<Box<dyn Tokenizer>, Error> {
    let name = meta.str(PRE).map_err(|error| Error::new(file, None, ErrorKind::Metadata(error)))?;
    with_rule(meta, file, name)
}

/// Reads the tokenizer of Gemma 4, whose files name no pre-tokenizer.
pub(super) fn gemma4_from_gguf(meta: &Metadata, file: &str) -> Result<Box<dyn Tokenizer>, Error> {
    with_rule(meta, file, "gemma4")
}

fn with_rule(meta: &Metadata, file: &str, name: &str) -> Result<Box<dyn Tokenizer>, Error> {
    let pre = pretok::named(name).ok_or_else(|| {
        let known = pretok::names().collect();
        Error::new(file, PRE, ErrorKind::UnsupportedPreTokenizer { name: name.into(), known })
    })?;
    let texts = fields::read_texts(meta, file)?;
    let defaults = Defaults { add_bos: pre.add_bos, force_bos: pre.force_bos, ..Defaults::default() };
    let decode = match pre.spelling {
        Spelling::ByteLevel => byte_level::decode,
        Spelling::Raw { .. } => space_mark::decode,
    };
    let vocab = Vocab::new(meta, file, &texts, defaults, decode)?;
    let lines = fields::strings(meta, file, MERGES)?;
    let read_texts = || {
        let mut bpe = Bpe {
            pre,
            byte_ids: [None; 256],
            char_ids: HashMap::new(),
            line_feeds: Vec::new(),
            merges: Merges::with_capacity(0),
            words: HashMap::new(),
        };
        match pre.spelling {
            Spelling::ByteLevel => bpe.read_byte_level(&texts),
            Spelling::Raw { whole_line_feeds } => bpe.read_raw(&texts, whole_line_feeds),
        }
        bpe
    };
    let read_merges = || read_merges(&lines, &texts, file);
    let (mut bpe, merges) = beside(lines.len(), read_texts, read_merges);
    bpe.merges = merges?;
    Ok(Box::new(GgufTokenizer::new(meta, file, (vocab, &texts), pre.lstrip, bpe)?))
}

/// Reads the list of merges.
fn read_merges(lines: &StrArray, texts: &TextIndex, file: &str) -> Result<Merges, Error> {
    let half = lines.len() / 2;
    let first = || find_merges(lines, 0..half, texts, file);
    let second = || find_merges(lines, half..lines.len(), texts, file);
    let (second, first) = beside(lines.len(), second, first);
    let mut merges = Merges::with_capacity(lines.len());
    for (rank, (left, right, id)) in (0u32..).zip(first?.into_iter().chain(second?)) {
        merges.insert_new(left, right, Merge { rank, id });
    }
    Ok(merges)
}

/// Looks up the ids of some merges: `(left, right, merged)`. A line is two texts with a space between them.
fn find_merges(
    lines: &StrArray,
    ranks: Range<usize>,
    texts: &TextIndex,
    file: &str,
) -> Result<Vec<(u32, u32, u32)>, Error> {
    let mut found = Vec::with_capacity(ranks.len());
    let mut joined = Vec::new();
    for rank in ranks {
        let line = lines.get(rank).unwrap_or_default();
        let invalid = |what: &str| {
            let line = String::from_utf8_lossy(line);
            Error::new(file, MERGES, ErrorKind::Invalid(format!("merge {rank}, {}, {what}", Quoted(&line))))
        };
        // A space is never part of a text; the first byte is not checked, as in other implementations.
        let space = line.iter().skip(1).position(|&b| b == b' ').map(|at| at + 1);
        let (left, right) = match space {
            Some(space) => (&line[..space], &line[space + 1..]),
            None => return Err(invalid("is not two texts with a space between them")),
        };
        let (Some(left_id), Some(right_id)) = (texts.get(left), texts.get(right)) else {
            return Err(invalid("names a token that the vocabulary lacks"));
        };
        joined.clear();
        joined.extend_from_slice(left);
        joined.extend_from_slice(right);
        let Some(id) = texts.get(&joined) else {
            return Err(invalid("makes a token that the vocabulary lacks"));
        };
        found.push((left_id, right_id, id));
    }
    Ok(found)
}

/// Runs `there` on another thread while `here` runs; one after the other if there are few `merges` or a thread
/// cannot be started.
fn beside<A: Send, B>(merges: usize, there: impl Fn() -> A + Sync, here: impl FnOnce() -> B) -> (A, B) {
    if merges < MANY {
        return (there(), here());
    }
    thread::scope(|scope| match thread::Builder::new().spawn_scoped(scope, &there) {
        Ok(running) => {
            let b = here();
            (running.join().unwrap_or_else(|panic| panic::resume_unwind(panic)), b)
        }
        Err(_) => (there(), here()),
    })
}

impl Bpe {
    fn read_byte_level(&mut self, texts: &TextIndex) {
        let mut bytes = Vec::new();
        for (id, text) in texts.iter() {
            bytes.clear();
            if !byte_level::decode(text, &mut bytes) {
                continue;
            }
            if let [byte] = bytes[..] {
                self.byte_ids[usize::from(byte)] = Some(id);
            }
            if self.pre.ignore_merges && !bytes.is_empty() {
                self.words.insert(bytes.as_slice().into(), id);
            }
        }
    }

    fn read_raw(&mut self, texts: &TextIndex, whole_line_feeds: bool) {
        for (id, text) in texts.iter() {
            if let Some(byte) = vocab::byte_of(text) {
                self.byte_ids[usize::from(byte)] = Some(id);
            }
            let mut chars = text.chars();
            if let (Some(only), None) = (chars.next(), chars.next()) {
                self.char_ids.insert(only, id);
            }
            if whole_line_feeds && !text.is_empty() && text.bytes().all(|byte| byte == b'\n') {
                self.line_feeds.resize(self.line_feeds.len().max(text.len() + 1), None);
                self.line_feeds[text.len()] = Some(id);
            }
        }
    }
}

impl Model for Bpe {
    fn encode(&self, text: &str, ids: &mut Vec<u32>, bounds: &Bounds<'_>) -> Result<(), Unwritable> {
        let escaped = match self.pre.spelling {
            Spelling::ByteLevel => Cow::Borrowed(text),
            Spelling::Raw { .. } => space_mark::encode(text),
        };
        let mut encoder = Encoder { bpe: self, ids, bounds, seen: HashMap::new(), no_token: None };
        let mut exceeded = Ok(());
        // After an exceeded limit the rest is still split, which takes a hundredth of the time, but not encoded.
        (self.pre.split)(&escaped, &mut |word| {
            if exceeded.is_ok() {
                exceeded = encoder.word(word);
            }
        });
        exceeded?;
        encoder.no_token.map_or(Ok(()), |byte| Err(Unwritable::Byte(byte)))
    }

    fn cover(&self, vocab: &Vocab, texts: &TextIndex) -> Option<Cover> {
        let counts = self.byte_ids.map(|id| id.is_some());
        match self.pre.spelling {
            Spelling::ByteLevel => Some(Cover { longest: vocab.longest_bytes(), space_bytes: 1, counts }),
            // A character without a token may vanish if one of its bytes has none either.
            Spelling::Raw { .. } => counts.iter().all(|has| *has).then(|| Cover {
                longest: texts.longest(),
                space_bytes: MARK.len(),
                counts,
            }),
        }
    }
}

/// State of encoding one text.
struct Encoder<'a, 't> {
    bpe: &'a Bpe,
    ids: &'a mut Vec<u32>,
    bounds: &'a Bounds<'a>,
    /// Range in `ids` of each word that was encoded before.
    seen: HashMap<&'t str, (usize, usize)>,
    /// A byte that could not be encoded.
    no_token: Option<u8>,
}

impl<'t> Encoder<'_, 't> {
    fn word(&mut self, word: &'t str) -> Result<(), Exceeded> {
        if let Some(&id) = self.bpe.words.get(word.as_bytes()) {
            self.ids.push(id);
        } else if let Some(&(start, end)) = self.seen.get(word) {
            self.ids.extend_from_within(start..end);
        } else {
            let start = self.ids.len();
            match self.bpe.pre.spelling {
                Spelling::ByteLevel => self.bytes(word)?,
                Spelling::Raw { .. } => self.chars(word)?,
            }
            self.seen.insert(word, (start, self.ids.len()));
        }
        self.bounds.check(self.ids.len())
    }

    fn merge(&mut self, start: usize) -> Result<(), Exceeded> {
        self.bpe.merges.apply(self.ids, start, self.bounds.stop())
    }

    fn bytes(&mut self, word: &str) -> Result<(), Exceeded> {
        let start = self.ids.len();
        let id = |byte: u8| self.bpe.byte_ids[usize::from(byte)];
        self.ids.extend(word.bytes().map(|byte| id(byte).unwrap_or(NO_TOKEN)));
        if !self.ids[start..].contains(&NO_TOKEN) {
            return self.merge(start);
        }
        for c in word.chars() {
            if let Some(byte) = c.encode_utf8(&mut [0; 4]).bytes().find(|&byte| id(byte).is_none()) {
                Self::missing(&mut self.no_token, byte, c);
            }
        }
        self.merge(start)?;
        let merged = self.ids.split_off(start);
        self.ids.extend(merged.into_iter().filter(|&id| id != NO_TOKEN));
        Ok(())
    }

    fn chars(&mut self, word: &str) -> Result<(), Exceeded> {
        if word.starts_with('\n')
            && let Some(&Some(id)) = self.bpe.line_feeds.get(word.len())
        {
            self.ids.push(id);
            return Ok(());
        }
        let start = self.ids.len();
        let mut unknown = Vec::new();
        for c in word.chars() {
            self.ids.push(self.bpe.char_ids.get(&c).copied().unwrap_or_else(|| {
                unknown.push(c);
                NO_TOKEN
            }));
        }
        self.merge(start)?;
        if unknown.is_empty() {
            return Ok(());
        }
        // No merge contains a character without a token, so all placeholders are left, in order.
        let merged = self.ids.split_off(start);
        let mut unknown = unknown.into_iter();
        for id in merged {
            if id != NO_TOKEN {
                self.ids.push(id);
                continue;
            }
            let Some(c) = unknown.next() else { continue };
            for &byte in c.encode_utf8(&mut [0; 4]).as_bytes() {
                match self.bpe.byte_ids[usize::from(byte)] {
                    Some(id) => self.ids.push(id),
                    None => Self::missing(&mut self.no_token, byte, c),
                }
            }
        }
        Ok(())
    }

    /// Records a byte without a token, of the character `whole`. Vocabularies made from texts without control
    /// characters, or without unassigned ones, lack their bytes; then these are dropped, as llama.cpp drops any.
    /// Other text is not dropped silently.
    fn missing(no_token: &mut Option<u8>, byte: u8, whole: char) {
        if whole == ' ' || !matches!(class(whole), Class::Control | Class::Other) {
            *no_token = Some(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use leyden_tensor::{Array, Value};
    use proptest::prelude::*;

    use super::super::Special;
    use super::super::fields::TOKENS;
    use super::super::merges::SCAN_TOKENS;
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

    /// Merges the leftmost pair of the lowest rank until there is none: the reference.
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
            // On both sides of the length from which a heap replaces the scan.
            for len in [text.len().min(SCAN_TOKENS), text.len()] {
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
        // Dropped characters still separate their neighbours.
        assert_eq!(tokenizer.encode("\x13a\u{b0000}a", Special::AsText).unwrap(), [0, 0]);
    }
}
