//! Tokenizers: text to token ids, and the bytes of a token.
//!
//! [`from_gguf`] looks up the tokenizer model that a file names in one table. Each model is one file; the common
//! parts are `gguf` (the rest of a tokenizer), `vocab` (the tokens), `special` (special tokens in a prompt) and
//! `pretok` (splitting of a text into words).

mod bounds;
mod bpe;
mod byte_level;
mod charsmap;
pub(crate) mod classes;
mod fields;
mod fim;
mod gguf;
mod hf;
mod labelled;
mod located;
mod merges;
mod pair;
mod prefix_search;
mod pretok;
mod sentencepiece;
mod space_mark;
mod special;
mod text_index;
mod unicode_bases;
mod unicode_classes;
mod unigram;
mod vocab;
mod wordpiece;

pub use self::bounds::Bounds;
pub use self::fim::FillInMiddle;
pub use self::hf::{from_hf, from_tokenizer_json, unread_keys};
pub use self::labelled::{LabelMarks, LabelPrompt, LabelledText, LabelledWindow, WindowLimits};
pub use self::located::{Located, encode_located};
pub use self::pair::{Pair, PairTemplate, Pairs};

use std::borrow::Cow;
use std::ops::Range;

use leyden_tensor::Metadata;

use crate::error::{Error, ErrorKind};
use crate::template::Rendered;

/// Treatment of texts like `<|eot_id|>` in a prompt, which are names of special tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special<'a> {
    /// They become special tokens. For prompts written by hand with special tokens in them.
    Parse,
    /// Control tokens stay text. For untrusted text, which must not be able to end a turn. Tokens that the
    /// vocabulary declares user-defined are matched nevertheless: they are words of the model.
    AsText,
    /// They become special tokens if none of their bytes is in these ranges, which ascend and do not overlap. For
    /// prompts rendered by a chat template, whose messages must not be able to end a turn. User-defined tokens of
    /// the form `<|…|>` count as control tokens here: files often declare the wrong kind.
    Outside(&'a [Range<usize>]),
}

impl Special<'_> {
    /// Returns whether a special token is allowed at a position. `is_mark` tells whether it marks the structure of
    /// a prompt.
    fn allows(self, place: Range<usize>, is_mark: impl FnOnce() -> bool) -> bool {
        self.next_content(place.start).start >= place.end || !is_mark()
    }

    /// Returns the content ranges within a range, relative to its beginning.
    fn content_in(self, range: &Range<usize>) -> Vec<Range<usize>> {
        let Special::Outside(content) = self else { return Vec::new() };
        let first = content.partition_point(|inner| inner.end <= range.start);
        let inside = content[first..].iter().take_while(|inner| inner.start < range.end);
        let clipped = |inner: &Range<usize>| {
            inner.start.max(range.start) - range.start..inner.end.min(range.end) - range.start
        };
        inside.map(clipped).collect()
    }

    /// Returns the first content range that ends after a position; an empty one at `usize::MAX` if there is none.
    fn next_content(self, at: usize) -> Range<usize> {
        let Special::Outside(content) = self else { return usize::MAX..usize::MAX };
        content
            .get(content.partition_point(|range| range.end <= at))
            .cloned()
            .unwrap_or(usize::MAX..usize::MAX)
    }
}

/// Returns whether a token's text has the form of special tokens: `<|im_start|>`, `<｜User｜>`.
fn looks_like_mark(text: &[u8]) -> bool {
    [("<|", "|>"), ("<｜", "｜>")].iter().any(|(open, close)| {
        let inner = text.strip_prefix(open.as_bytes()).and_then(|rest| rest.strip_suffix(close.as_bytes()));
        inner.is_some_and(|inner| !inner.is_empty())
    })
}

/// Vocabulary with its encoding algorithm.
pub trait Tokenizer: Send + Sync {
    /// Returns the ids of `text`, without BOS and EOS; see [`add_bos`](Self::add_bos).
    ///
    /// # Errors
    /// The vocabulary cannot encode the text.
    fn encode(&self, text: &str, special: Special<'_>) -> Result<Vec<u32>, Error> {
        self.encode_within(text, special, &Bounds::NONE)
    }

    /// Returns the ids of `text` as [`encode`](Self::encode) does, unless a limit of `bounds` is exceeded. Takes
    /// O(n log m) time and O(n) memory for a text of length n and longest word of length m.
    ///
    /// # Errors
    /// The vocabulary cannot encode the text, or a limit is exceeded.
    fn encode_within(&self, text: &str, special: Special<'_>, bounds: &Bounds<'_>)
    -> Result<Vec<u32>, Error>;

    /// Returns a lower bound of the text's number of tokens, in a fraction of the time of encoding: its length
    /// divided by that of the longest token. 0 if there is no bound, for instance if characters may be dropped or
    /// any number of them become one unknown token.
    fn least_tokens(&self, text: &str) -> usize;

    /// Returns the bytes of a token, which need not be whole characters; for a special token, its name. `None` if
    /// there is no such token.
    fn token_bytes(&self, id: u32) -> Option<&[u8]>;

    /// Returns the bytes that a token adds to a text whose last token is `previous`; `None` at the beginning of a
    /// text. They are its [bytes](Self::token_bytes), but without a leading space at the beginning if the
    /// vocabulary adds one there.
    fn bytes_after(&self, previous: Option<u32>, id: u32) -> Option<Cow<'_, [u8]>> {
        let _ = previous;
        self.token_bytes(id).map(Cow::Borrowed)
    }

    /// Returns the number of tokens.
    fn vocab_size(&self) -> usize;

    /// Returns whether the token is a control token, which is not part of an answer's text.
    fn is_special(&self, id: u32) -> bool;

    /// Returns the token that begins a sequence.
    fn bos(&self) -> Option<u32>;

    /// Returns the token that ends a sequence.
    fn eos(&self) -> Option<u32>;

    /// Returns whether generation ends at this token: EOS, end of turn, end of message.
    fn is_end(&self, id: u32) -> bool;

    /// Returns whether a sequence begins with BOS. If so, [`bos`](Self::bos) is `Some`.
    fn add_bos(&self) -> bool;

    /// Returns whether a sequence ends with EOS. If so, [`eos`](Self::eos) is `Some`.
    fn add_eos(&self) -> bool;

    /// True if a text with too many tokens loses its beginning instead of its end, where a request names no side.
    fn drops_beginning(&self) -> bool {
        false
    }

    /// Returns whether tokens that continue a word differ from those that begin one, as in WordPiece.
    fn marks_continuations(&self) -> bool {
        false
    }

    /// Returns the tokens around the two texts of a pair.
    fn pair(&self) -> PairTemplate {
        PairTemplate::around(self.bos().filter(|_| self.add_bos()), self.eos().filter(|_| self.add_eos()), 1)
    }
}

/// Tokenizes a prompt written by hand, including special tokens, and adds BOS if the model expects it. EOS is not
/// added even if the model expects it after every text, because the answer follows: a model that reads EOS has
/// nothing to continue. (llama.cpp and vLLM add it, and answers of such models then start anew.)
///
/// # Errors
/// As [`Tokenizer::encode`].
pub fn encode_prompt(tokenizer: &dyn Tokenizer, text: &str) -> Result<Vec<u32>, Error> {
    encode_prompt_within(tokenizer, text, &Bounds::NONE)
}

/// Tokenizes as [`encode_prompt`] does within bounds, which do not count BOS.
///
/// # Errors
/// As [`Tokenizer::encode_within`].
pub fn encode_prompt_within(
    tokenizer: &dyn Tokenizer,
    text: &str,
    bounds: &Bounds<'_>,
) -> Result<Vec<u32>, Error> {
    begun(tokenizer, text, Special::Parse, bounds)
}

/// Tokenizes a rendered chat template, and adds BOS if the model expects it. Special tokens written by the template
/// are parsed; those that messages spell out stay text.
///
/// # Errors
/// As [`Tokenizer::encode`].
pub fn encode_rendered(tokenizer: &dyn Tokenizer, prompt: &Rendered) -> Result<Vec<u32>, Error> {
    encode_rendered_within(tokenizer, prompt, &Bounds::NONE)
}

/// Tokenizes as [`encode_rendered`] does within bounds, which do not count BOS.
///
/// # Errors
/// As [`Tokenizer::encode_within`].
pub fn encode_rendered_within(
    tokenizer: &dyn Tokenizer,
    prompt: &Rendered,
    bounds: &Bounds<'_>,
) -> Result<Vec<u32>, Error> {
    begun(tokenizer, prompt.text(), Special::Outside(prompt.content()), bounds)
}

fn begun(
    tokenizer: &dyn Tokenizer,
    text: &str,
    special: Special<'_>,
    bounds: &Bounds<'_>,
) -> Result<Vec<u32>, Error> {
    let mut ids = tokenizer.encode_within(text, special, bounds)?;
    if tokenizer.add_bos()
        && let Some(bos) = tokenizer.bos()
        && ids.first() != Some(&bos)
    {
        ids.insert(0, bos);
    }
    Ok(ids)
}

/// Tokenizes a whole text, with BOS and EOS if the model expects them and the text does not contain them. Used for
/// embeddings and for counting tokens.
///
/// # Errors
/// As [`Tokenizer::encode`].
pub fn encode_whole(tokenizer: &dyn Tokenizer, text: &str) -> Result<Vec<u32>, Error> {
    encode_whole_within(tokenizer, text, &Bounds::NONE)
}

/// Tokenizes as [`encode_whole`] does within bounds, which do not count BOS and EOS.
///
/// # Errors
/// As [`Tokenizer::encode_within`].
pub fn encode_whole_within(
    tokenizer: &dyn Tokenizer,
    text: &str,
    bounds: &Bounds<'_>,
) -> Result<Vec<u32>, Error> {
    let mut ids = encode_prompt_within(tokenizer, text, bounds)?;
    if tokenizer.add_eos()
        && let Some(eos) = tokenizer.eos()
    {
        // The only token may be BOS, with the same id as EOS.
        let begins = usize::from(tokenizer.add_bos());
        if ids.last() != Some(&eos) || ids.len() <= begins {
            ids.push(eos);
        }
    }
    Ok(ids)
}

type Read = fn(&Metadata, &str) -> Result<Box<dyn Tokenizer>, Error>;

/// Values of `tokenizer.ggml.model` with their readers.
static MODELS: &[(&str, Read)] = &[
    ("gpt2", bpe::from_gguf),
    ("gemma4", bpe::gemma4_from_gguf),
    ("llama", sentencepiece::from_gguf),
    ("bert", wordpiece::from_gguf),
    ("t5", unigram::from_gguf),
];

/// Reads the tokenizer that the metadata of a GGUF file describes. `file` is its name in errors.
///
/// # Errors
/// The file names an unsupported tokenizer or pre-tokenizer, or the metadata is incomplete or contradictory.
///
/// ```
/// use leyden_tensor::{Array, Metadata, Value};
/// use leyden_text::{Special, from_gguf};
///
/// let meta = Metadata::new("m.gguf", [
///     ("tokenizer.ggml.model".to_string(), Value::from("gpt2")),
///     ("tokenizer.ggml.pre".to_string(), Value::from("gpt-2")),
///     ("tokenizer.ggml.tokens".to_string(), Value::Array(Array::from_strs(["a", "b", "Ġ", "ab", "Ġab"]))),
///     ("tokenizer.ggml.merges".to_string(), Value::Array(Array::from_strs(["a b", "Ġ ab"]))),
/// ])?;
/// let tokenizer = from_gguf(&meta, "m.gguf")?;
/// assert_eq!(tokenizer.encode("ab ab ba", Special::AsText)?, [3, 4, 2, 1, 0]);
/// assert_eq!(tokenizer.token_bytes(4), Some(&b" ab"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn from_gguf(meta: &Metadata, file: &str) -> Result<Box<dyn Tokenizer>, Error> {
    const MODEL: &str = "tokenizer.ggml.model";
    // Files converted from an encoder's folder embed its tokenizer, which the other keys may not fully describe.
    if let Some(tokenizer) = hf::from_folder_files(meta)? {
        return Ok(tokenizer);
    }
    let name = meta.str(MODEL).map_err(|error| Error::new(file, None, ErrorKind::Metadata(error)))?;
    match MODELS.iter().find(|(model, _)| *model == name) {
        Some((_, read)) => read(meta, file),
        None => {
            let known = MODELS.iter().map(|(model, _)| *model).collect();
            Err(Error::new(file, MODEL, ErrorKind::UnsupportedTokenizer { name: name.into(), known }))
        }
    }
}
