//! Tokenizers: text to token ids, and the bytes of a token.
//!
//! [`from_gguf`] looks up the tokenizer model that a file names in one table. Each model is one file; the common
//! parts are `gguf` (the rest of a tokenizer), `vocab` (the tokens), `special` (special tokens in a prompt) and
//! `pretok` (splitting of a text into words).

mod bounds;
mod bpe;
mod byte_level;
mod charsmap;
mod class;
pub(crate) mod classes;
mod fields;
mod fim;
mod gguf;
mod hf;
mod interface;
mod labelled;
mod located;
mod merges;
mod pair;
mod pair_template;
mod parse_special;
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
pub use self::interface::Tokenizer;
pub use self::labelled::{LabelMarks, LabelPrompt, LabelledText, LabelledWindow, WindowLimits};
pub use self::located::{Located, encode_located};
pub use self::pair::{Pair, Pairs};
pub use self::pair_template::PairTemplate;
pub use self::parse_special::Special;

use leyden_tensor::Metadata;

use crate::error::{Error, ErrorKind};

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
