//! Tokenizers: text to token ids, and the bytes of a token.
//!
//! [`from_gguf`] looks up the model that a file names in one table. A tokenizer model is one file; what
//! models share is in `gguf` (the rest of a tokenizer), `vocab` (the tokens), `special` (special tokens in a prompt)
//! and `pretok` (cutting a text into words).

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

/// Whether texts like `<|eot_id|>` in a prompt become the special tokens of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special<'a> {
    /// They do. For prompts that somebody wrote with marks in them.
    Parse,
    /// Control tokens stay text. For text from outside, which must not be able to end a turn. Tokens
    /// that the vocabulary calls user-defined are found all the same: they are words of the model.
    AsText,
    /// They do where none of their bytes lies in these ranges, which ascend and do not overlap. For prompts that were
    /// put together by a chat template, whose messages must not be able to end a turn. Of user-defined tokens those
    /// that look like marks of a format, `<|…|>`, count as such here: files often get their kind wrong.
    Outside(&'a [Range<usize>]),
}

impl Special<'_> {
    /// Whether a special token may stand at a place. `is_mark` says whether it is a mark of the model's format.
    fn allows(self, place: Range<usize>, is_mark: impl FnOnce() -> bool) -> bool {
        self.next_content(place.start).start >= place.end || !is_mark()
    }

    /// The content in a range, counted from its beginning.
    fn content_in(self, range: &Range<usize>) -> Vec<Range<usize>> {
        let Special::Outside(content) = self else { return Vec::new() };
        let first = content.partition_point(|inner| inner.end <= range.start);
        let inside = content[first..].iter().take_while(|inner| inner.start < range.end);
        let clipped = |inner: &Range<usize>| {
            inner.start.max(range.start) - range.start..inner.end.min(range.end) - range.start
        };
        inside.map(clipped).collect()
    }

    /// The first range of content that ends behind a place; an empty one at the end of any text if there is none.
    fn next_content(self, at: usize) -> Range<usize> {
        let Special::Outside(content) = self else { return usize::MAX..usize::MAX };
        content
            .get(content.partition_point(|range| range.end <= at))
            .cloned()
            .unwrap_or(usize::MAX..usize::MAX)
    }
}

/// Whether a token's text is written as marks of formats are: `<|im_start|>`, `<｜User｜>`.
fn looks_like_mark(text: &[u8]) -> bool {
    [("<|", "|>"), ("<｜", "｜>")].iter().any(|(open, close)| {
        let inner = text.strip_prefix(open.as_bytes()).and_then(|rest| rest.strip_suffix(close.as_bytes()));
        inner.is_some_and(|inner| !inner.is_empty())
    })
}

/// A vocabulary with the rule that writes texts in it.
pub trait Tokenizer: Send + Sync {
    /// The ids of `text`. Neither BOS nor EOS is added; see [`add_bos`](Self::add_bos).
    ///
    /// # Errors
    /// The vocabulary cannot write the text.
    fn encode(&self, text: &str, special: Special<'_>) -> Result<Vec<u32>, Error> {
        self.encode_within(text, special, &Bounds::NONE)
    }

    /// The same within bounds: as soon as the text exceeds one, it is given up. Time and memory are in proportion to the
    /// text, times the logarithm of its longest word.
    ///
    /// # Errors
    /// The vocabulary cannot write the text, or it exceeds a bound.
    fn encode_within(&self, text: &str, special: Special<'_>, bounds: &Bounds<'_>)
    -> Result<Vec<u32>, Error>;

    /// A number of tokens that the text certainly has, found in a fraction of the time that encoding takes: its bytes by
    /// those of the longest token. 0 where nothing is certain, as where characters may vanish or any number of them become
    /// one unknown token.
    fn least_tokens(&self, text: &str) -> usize;

    /// The bytes that a token stands for, which need not be whole characters; for a special token, its
    /// name. `None` if there is no such token.
    fn token_bytes(&self, id: u32) -> Option<&[u8]>;

    /// What a token adds to a text whose last token is `previous`; `None` at the beginning of a text. These are
    /// its [bytes](Self::token_bytes), except where the vocabulary knows beginnings: there, a space that only sets
    /// words apart is left out before the first one.
    fn bytes_after(&self, previous: Option<u32>, id: u32) -> Option<Cow<'_, [u8]>> {
        let _ = previous;
        self.token_bytes(id).map(Cow::Borrowed)
    }

    /// The number of tokens.
    fn vocab_size(&self) -> usize;

    /// Whether the token is a mark for the model and not part of an answer's text.
    fn is_special(&self, id: u32) -> bool;

    /// The token that begins a sequence.
    fn bos(&self) -> Option<u32>;

    /// The token that ends a sequence.
    fn eos(&self) -> Option<u32>;

    /// Whether the model has finished when it produces this token: EOS, end of turn, end of message.
    fn is_end(&self, id: u32) -> bool;

    /// Whether a sequence begins with BOS. If so, [`bos`](Self::bos) is `Some`.
    fn add_bos(&self) -> bool;

    /// Whether a sequence ends with EOS. If so, [`eos`](Self::eos) is `Some`.
    fn add_eos(&self) -> bool;

    /// True if a text with too many tokens loses its beginning instead of its end, where a request names no side.
    fn drops_beginning(&self) -> bool {
        false
    }

    /// Whether the vocabulary tells tokens that go on with a word from those that begin one, as WordPiece does.
    fn marks_continuations(&self) -> bool {
        false
    }

    /// The tokens around the two texts of a pair.
    fn pair(&self) -> PairTemplate {
        PairTemplate::around(self.bos().filter(|_| self.add_bos()), self.eos().filter(|_| self.add_eos()), 1)
    }
}

/// The ids of a prompt as somebody wrote it, marks included, with the token that the model expects at the beginning.
/// Nothing is added behind it, not even where every text ends with EOS, because the answer follows there: a
/// model that reads EOS has no more to say. (llama.cpp and vLLM add it, and answers of such models then begin anew.)
///
/// # Errors
/// As [`Tokenizer::encode`].
pub fn encode_prompt(tokenizer: &dyn Tokenizer, text: &str) -> Result<Vec<u32>, Error> {
    encode_prompt_within(tokenizer, text, &Bounds::NONE)
}

/// The same within bounds, which do not count the token at the beginning.
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

/// The ids of what a chat template made, with the token that the model expects at the beginning. Special tokens are
/// found where the template wrote them; those that its messages spell out stay text.
///
/// # Errors
/// As [`Tokenizer::encode`].
pub fn encode_rendered(tokenizer: &dyn Tokenizer, prompt: &Rendered) -> Result<Vec<u32>, Error> {
    encode_rendered_within(tokenizer, prompt, &Bounds::NONE)
}

/// The same within bounds, which do not count the token at the beginning.
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

/// The ids of a whole text: with the tokens that the model expects at the beginning and at the end, unless the text
/// names them there itself. What a vector is made of, and what is counted.
///
/// # Errors
/// As [`Tokenizer::encode`].
pub fn encode_whole(tokenizer: &dyn Tokenizer, text: &str) -> Result<Vec<u32>, Error> {
    encode_whole_within(tokenizer, text, &Bounds::NONE)
}

/// The same within bounds, which do not count the tokens at the beginning and at the end.
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
        // The only token may be BOS, and the same as EOS.
        let begins = usize::from(tokenizer.add_bos());
        if ids.last() != Some(&eos) || ids.len() <= begins {
            ids.push(eos);
        }
    }
    Ok(ids)
}

type Read = fn(&Metadata, &str) -> Result<Box<dyn Tokenizer>, Error>;

/// The values of `tokenizer.ggml.model` and what reads them.
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
/// The file names a tokenizer or pre-tokenizer that is not supported, or the metadata is incomplete or
/// contradicts itself.
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
    // In files that were made of an encoder's folder, whose tokenizer the other keys may not say whole.
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
