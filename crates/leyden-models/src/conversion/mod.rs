//! Models between the layout of the Hugging Face hub and GGUF, as far as the registry of architectures knows both: names, keys
//! of the configuration, and how matrices lie. Tokenizers and the writing of files are `leyden-convert`'s business.
//!
//! Nothing here knows an architecture by name. Keys of GGUF and of `config.json` are written from a
//! [`ModelConfig`](crate::ModelConfig), read back by the architecture's own reader, and taken if both readings are the same; so a
//! model that the other layout has no words for is found before anything is written.

mod changes;
mod gguf_keys;
mod hf_keys;
mod to_folder;
mod to_gguf;

pub use to_folder::{FolderTensor, ToFolder};
pub use to_gguf::{GgufTensor, ToGguf};

/// The key of files with a folder's settings whose tensors had names without the prefix of their class.
const BARE_NAMES: &str = "leyden.folder.bare_names";

/// Which ways models of an architecture are converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// From folders to GGUF and back.
    Both,
    /// From folders to GGUF alone: why not back.
    ToGguf(&'static str),
    /// Not at all: why.
    None(&'static str),
}
