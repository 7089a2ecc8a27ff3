//! A model's tokens, arranged for finding those that a grammar allows.

use std::fmt;
use std::sync::Arc;

use leyden_text::Tokenizer;
use llguidance::ParserFactory;
use llguidance::earley::SlicedBiasComputer;
use toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};

use crate::constraint::Compiled;
use crate::error::{Error, ErrorKind};
use crate::grammar::{Grammar, Limits};
use crate::marks::is_mark;
use crate::mask::TokenMask;

/// The longest token that is offered, in bytes. The trie takes tokens of up to 1024; the few that are longer are runs
/// of one character, which shorter ones can write.
const MOST_TOKEN_BYTES: usize = 1000;
/// The most tokens and nodes, which the trie stores in 24 and 22 bits.
const MOST_TOKENS: usize = (1 << 24) - 2;
const MOST_NODES: usize = (1 << 22) - 2;

/// The vocabulary of one model.
///
/// Its making reads every token and sorts them into tries: for 128,000 tokens about half a second of one thread, and
/// some ten megabytes for as long as it lives; `docs/constrained.md` has the figures. It is shared by all requests.
pub struct Vocabulary {
    pub(crate) factory: ParserFactory,
    size: usize,
    /// What ends an answer.
    ends: Vec<u32>,
    /// Structure of the model's format, the ends among it.
    marks: TokenMask,
    /// Their texts, the longest first.
    mark_texts: Vec<(Vec<u8>, u32)>,
    /// Tokens that say less at the beginning of a text than elsewhere.
    shorter_at_start: TokenMask,
    /// The number of quotes in each token that has one, most first.
    quoted: Vec<(usize, u32)>,
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vocabulary")
            .field("size", &self.size)
            .field("ends", &self.ends)
            .finish_non_exhaustive()
    }
}

impl Vocabulary {
    /// Arranges a tokenizer's tokens.
    ///
    /// # Errors
    /// The vocabulary is empty or larger than any known one.
    pub fn new(tokenizer: &dyn Tokenizer) -> Result<Arc<Vocabulary>, Error> {
        let size = tokenizer.vocab_size();
        if size == 0 || size > MOST_TOKENS {
            return Err(
                ErrorKind::Vocabulary(format!("{size} tokens; 1 to {MOST_TOKENS} are possible")).into()
            );
        }
        let ids = 0..size as u32;
        let marks: Vec<u32> = ids.clone().filter(|&id| is_mark(tokenizer, id)).collect();
        let ends: Vec<u32> = marks.iter().copied().filter(|&id| tokenizer.is_end(id)).collect();
        let mut mark_texts: Vec<(Vec<u8>, u32)> = marks
            .iter()
            .map(|&id| (bytes(tokenizer, id).to_vec(), id))
            .filter(|(text, _)| !text.is_empty())
            .collect();
        mark_texts.sort_by_key(|(text, id)| (std::cmp::Reverse(text.len()), *id));
        let marks = TokenMask::from_ids(marks, size);
        let differs = |&id: &u32| {
            tokenizer.bytes_after(None, id).as_deref().unwrap_or_default() != bytes(tokenizer, id)
        };
        let shorter_at_start = TokenMask::from_ids(ids.clone().filter(differs), size);
        let words: Vec<Vec<u8>> = ids.map(|id| word(tokenizer, id, marks.contains(id))).collect();
        check_nodes(&words)?;
        let eos = ends.first().copied().unwrap_or(toktrie::INVALID_TOKEN);
        let mut trie = TokTrie::from(&TokRxInfo::new(size as u32, eos), &words);
        if !ends.is_empty() {
            trie = trie.with_eos_tokens(&ends);
        }
        // Forcing the tokens of a text that has only one continuation needs a tokenizer that writes every piece of a
        // text as it writes the whole, which few do. The model chooses how to write it instead.
        let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let slices = SlicedBiasComputer::general_slices();
        let mut factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &slices)
            .map_err(|e| ErrorKind::Vocabulary(e.to_string()))?;
        factory.quiet();
        let quotes = |word: &Vec<u8>| word.iter().filter(|byte| **byte == b'"').count();
        let mut quoted: Vec<(usize, u32)> = words
            .iter()
            .enumerate()
            .filter(|(_, word)| !word.starts_with(&[TokTrie::SPECIAL_TOKEN_MARKER]))
            .map(|(id, word)| (quotes(word), id as u32))
            .filter(|(quotes, _)| *quotes > 0)
            .collect();
        quoted.sort_by_key(|(quotes, id)| (std::cmp::Reverse(*quotes), *id));
        Ok(Arc::new(Vocabulary { factory, size, ends, marks, mark_texts, shorter_at_start, quoted }))
    }

    /// The number of tokens.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// The tokens that end an answer.
    #[must_use]
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// Makes a grammar ready for use with this vocabulary, within the default [`Limits`].
    ///
    /// It runs on a thread of its own stack, and takes about a millisecond for an ordinary schema. What a hostile
    /// grammar may take is bounded, at some hundred milliseconds; a server still calls this away from the thread that
    /// computes tokens.
    ///
    /// # Errors
    /// The grammar is wrong, unsatisfiable, or needs more than the limits allow.
    pub fn compile(self: &Arc<Self>, grammar: &Grammar) -> Result<Compiled, Error> {
        self.compile_within(grammar, &Limits::default())
    }

    /// Makes a grammar ready for use, within limits of the caller's.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub fn compile_within(self: &Arc<Self>, grammar: &Grammar, limits: &Limits) -> Result<Compiled, Error> {
        Compiled::new(Arc::clone(self), grammar, limits)
    }

    /// A text cut at the marks of this vocabulary: the text between, or a mark's token.
    pub(crate) fn split_marks<'a>(&self, text: &'a str) -> Vec<Result<&'a str, u32>> {
        let mut pieces = Vec::new();
        let (mut from, mut at) = (0, 0);
        while at < text.len() {
            let mark = self.mark_texts.iter().find(|(mark, _)| text.as_bytes()[at..].starts_with(mark));
            match mark {
                Some((mark, id)) => {
                    if from < at {
                        pieces.push(Ok(&text[from..at]));
                    }
                    pieces.push(Err(*id));
                    at += mark.len();
                    from = at;
                }
                None => at = text.ceil_char_boundary(at + 1),
            }
        }
        if from < text.len() {
            pieces.push(Ok(&text[from..]));
        }
        pieces
    }

    /// Tokens that together have these bytes, however cut: a grammar of bytes sees no difference. `None` if there are
    /// none.
    pub(crate) fn spell(&self, bytes: &[u8]) -> Option<Vec<u32>> {
        let trie = self.factory.tok_env().tok_trie();
        let tokens = trie.greedy_tokenize(bytes);
        (trie.decode(&tokens) == bytes).then_some(tokens)
    }

    pub(crate) fn marks(&self) -> &TokenMask {
        &self.marks
    }

    /// The text of a token; nothing for a mark unless `marks` are wanted.
    pub(crate) fn text(&self, id: u32, marks: bool) -> &[u8] {
        let trie = self.factory.tok_env().tok_trie();
        let bytes = if id < trie.vocab_size() as u32 { trie.token(id) } else { &[] };
        match bytes {
            [TokTrie::SPECIAL_TOKEN_MARKER, mark @ ..] if marks => mark,
            [TokTrie::SPECIAL_TOKEN_MARKER, ..] => &[],
            bytes => bytes,
        }
    }

    /// The tokens with at least so many quotes.
    pub(crate) fn with_quotes(&self, least: usize) -> impl Iterator<Item = u32> + '_ {
        self.quoted.iter().take_while(move |(quotes, _)| *quotes >= least).map(|(_, id)| *id)
    }

    pub(crate) fn shorter_at_start(&self) -> &TokenMask {
        &self.shorter_at_start
    }
}

fn bytes(tokenizer: &dyn Tokenizer, id: u32) -> &[u8] {
    tokenizer.token_bytes(id).unwrap_or_default()
}

/// A token as the trie has it: marks behind a byte that no text has. Empty for what must not be offered.
fn word(tokenizer: &dyn Tokenizer, id: u32, mark: bool) -> Vec<u8> {
    let bytes = bytes(tokenizer, id);
    match bytes {
        _ if bytes.len() > MOST_TOKEN_BYTES || bytes.is_empty() => Vec::new(),
        _ if mark => [&[TokTrie::SPECIAL_TOKEN_MARKER], bytes].concat(),
        // No text has this byte, and it would be taken for the beginning of a mark.
        [TokTrie::SPECIAL_TOKEN_MARKER, ..] => Vec::new(),
        _ => bytes.to_vec(),
    }
}

/// Refuses vocabularies for which the trie has no room.
fn check_nodes(words: &[Vec<u8>]) -> Result<(), Error> {
    let mut sorted: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    sorted.sort_unstable();
    let mut before: &[u8] = &[];
    let mut nodes = 1;
    for word in sorted {
        let shared = word.iter().zip(before).take_while(|(a, b)| a == b).count();
        // The same word again is a node of its own.
        nodes += (word.len() - shared).max(1);
        before = word;
    }
    if nodes > MOST_NODES {
        return Err(ErrorKind::Vocabulary("its tokens are too long together".into()).into());
    }
    Ok(())
}
