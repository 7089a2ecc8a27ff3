//! Tokens of a model, arranged to compute the masks of grammars.

use std::fmt;
use std::sync::Arc;

use leyden_text::Tokenizer;
use llguidance::ParserFactory;
use llguidance::earley::SlicedBiasComputer;
use toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};

use crate::error::{Error, ErrorKind};
use crate::marks::is_mark;
use crate::mask::TokenMask;

/// Maximum length in bytes of a token in masks. The trie takes tokens of up to 1024 bytes; the few longer ones are
/// runs of one character, which shorter ones can spell.
const MAX_TOKEN_BYTES: usize = 1000;
/// Maximum numbers of tokens and nodes, which the trie stores in 24 and 22 bits.
const MAX_TOKENS: usize = (1 << 24) - 2;
const MAX_NODES: usize = (1 << 22) - 2;

/// Vocabulary of one model.
///
/// Building it reads every token and sorts them into tries: for 128,000 tokens about half a second of one thread,
/// and some ten megabytes as long as it exists; `docs/constrained.md` has the figures. It is shared by all
/// requests.
pub struct Vocabulary {
    pub(crate) factory: ParserFactory,
    size: usize,
    /// End tokens.
    ends: Vec<u32>,
    /// Structural tokens of the model's format, including the end tokens.
    marks: TokenMask,
    /// Their texts, the longest first.
    mark_texts: Vec<(Vec<u8>, u32)>,
    /// Tokens that decode to less at the beginning of a text than elsewhere.
    shorter_at_start: TokenMask,
    /// Number of quotes in each token that has any, in descending order.
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
    /// Builds the vocabulary of a tokenizer.
    ///
    /// # Errors
    /// The vocabulary is empty or larger than supported.
    pub fn new(tokenizer: &dyn Tokenizer) -> Result<Arc<Vocabulary>, Error> {
        let size = tokenizer.vocab_size();
        if size == 0 || size > MAX_TOKENS {
            return Err(
                ErrorKind::Vocabulary(format!("{size} tokens; 1 to {MAX_TOKENS} are possible")).into()
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
        // Forcing the tokens of a text with a single continuation requires a tokenizer that encodes every part of a
        // text as within the whole, which few do. The model chooses the tokens instead.
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

    /// Returns the number of tokens.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the tokens that end an answer.
    #[must_use]
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// Splits a text at the structural tokens of this vocabulary: text between them, or a token.
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

    /// Returns tokens that spell these bytes, in any segmentation: a grammar over bytes does not distinguish them.
    /// `None` if there are none.
    pub(crate) fn spell(&self, bytes: &[u8]) -> Option<Vec<u32>> {
        let trie = self.factory.tok_env().tok_trie();
        let tokens = trie.greedy_tokenize(bytes);
        (trie.decode(&tokens) == bytes).then_some(tokens)
    }

    pub(crate) fn marks(&self) -> &TokenMask {
        &self.marks
    }

    /// Returns the text of a token; empty for a structural one unless `marks` is true.
    pub(crate) fn text(&self, id: u32, marks: bool) -> &[u8] {
        let trie = self.factory.tok_env().tok_trie();
        let bytes = if id < trie.vocab_size() as u32 { trie.token(id) } else { &[] };
        match bytes {
            [TokTrie::SPECIAL_TOKEN_MARKER, mark @ ..] if marks => mark,
            [TokTrie::SPECIAL_TOKEN_MARKER, ..] => &[],
            bytes => bytes,
        }
    }

    /// Returns the tokens with at least `least` quotes.
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

/// Returns a token in the form of the trie: structural ones after a byte that occurs in no text. Empty for tokens
/// that must not be generated.
fn word(tokenizer: &dyn Tokenizer, id: u32, mark: bool) -> Vec<u8> {
    let bytes = bytes(tokenizer, id);
    match bytes {
        _ if bytes.len() > MAX_TOKEN_BYTES || bytes.is_empty() => Vec::new(),
        _ if mark => [&[TokTrie::SPECIAL_TOKEN_MARKER], bytes].concat(),
        // No text contains this byte, which would be taken for the prefix of a structural token.
        [TokTrie::SPECIAL_TOKEN_MARKER, ..] => Vec::new(),
        _ => bytes.to_vec(),
    }
}

/// Returns an error if the vocabulary exceeds the capacity of the trie.
fn check_nodes(words: &[Vec<u8>]) -> Result<(), Error> {
    let mut sorted: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    sorted.sort_unstable();
    let mut before: &[u8] = &[];
    let mut nodes = 1;
    for word in sorted {
        let shared = word.iter().zip(before).take_while(|(a, b)| a == b).count();
        // A duplicate is a node of its own.
        nodes += (word.len() - shared).max(1);
        before = word;
    }
    if nodes > MAX_NODES {
        return Err(ErrorKind::Vocabulary("its tokens are too long together".into()).into());
    }
    Ok(())
}
