//! Conversion of models between Hugging Face folders and GGUF: tensor names, configuration keys, and matrix layouts,
//! as far as the table of architectures has both. `leyden-convert` converts tokenizers and writes files.
//!
//! No code here names an architecture. Keys of GGUF and of `config.json` are written from a
//! [`ModelConfig`](crate::ModelConfig), read back by the architecture's own reader, and accepted only if both
//! configurations are the same. So a model that the other layout cannot express is refused before anything is
//! written.

mod changes;
mod gguf_keys;
mod hf_keys;
mod to_folder;
mod to_gguf;

pub use to_folder::{FolderTensor, ToFolder};
pub use to_gguf::{GgufTensor, ToGguf};

/// Key of GGUF files with a folder's settings: true if the folder's tensors had names without the prefix of their class.
const BARE_NAMES: &str = "leyden.folder.bare_names";

/// Supported directions of conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// Folders to GGUF, and back.
    Both,
    /// Folders to GGUF only, with the reason.
    ToGguf(&'static str),
    /// Not supported, with the reason.
    None(&'static str),
}
