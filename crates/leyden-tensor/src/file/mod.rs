//! Model files: what they have in common ([`WeightSource`]) and the formats.
//!
//! Everything below this module reads bytes that somebody else wrote. So: no index that can panic,
//! no `as` conversion, every count bounded by the bytes that are left before anything is allocated,
//! and tensor sizes only from `TensorExtent`.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::string_slice)]
#![deny(clippy::cast_possible_truncation, clippy::arithmetic_side_effects)]

mod array;
mod bounded;
mod folder_files;
mod gguf;
mod guess;
mod hf_folder;
mod json;
mod known_keys;
mod metadata;
mod mmap;
mod onnx;
mod safetensors;
mod source;
mod split;
mod tensors;
mod torch;
mod writer;

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

use crate::dtype::UnknownDType;
use crate::{DType, Error, OwnedTensor, TensorView};

pub use array::{Array, StrArray};
pub use folder_files::FolderFiles;
pub use gguf::{Gguf, MAX_ALIGNMENT, MAX_KEYS, MAX_NAME_BYTES, MAX_TENSORS};
pub use hf_folder::{HfFile, HfFolder};
pub use json::Json;
pub use known_keys::{
    KeyRule, KnownKey, KnownKeys, RefusedKey, choice_key, empty_key, harmless_key, read_key, says_nothing,
};
pub use metadata::{Metadata, Value, ValueType};
pub use onnx::{Onnx, OnnxAttribute, OnnxDim, OnnxGraph, OnnxNode, OnnxTensor, OnnxValue};
pub use safetensors::{MAX_HEADER_BYTES, Safetensors, StackRows, Stacked};
pub use source::FileBytes;
pub use writer::GgufWriter;

/// A model file, or several that belong together, with metadata and named tensors.
pub trait WeightSource: Send + Sync {
    /// The metadata.
    fn metadata(&self) -> &Metadata;

    /// The `config.json` that describes the model instead of the metadata, where it is a folder from the hub or made of one
    /// (see [`FolderFiles`]).
    fn config_json(&self) -> Option<&Json> {
        None
    }

    /// Keys of files beside `config.json` that nothing is known of, with the names of their files.
    fn unread_keys(&self) -> &[String] {
        &[]
    }

    /// The file as it was given, or a label in angle brackets such as `<embedded>` where there is none.
    fn path(&self) -> &Path;

    /// All files that tensors lie in; [`TensorInfo::file`] counts them.
    fn paths(&self) -> Vec<&Path>;

    /// What the system says about these files as they are open, not about what has their names by now.
    ///
    /// # Errors
    /// The system cannot say, or the bytes come from no file.
    fn file_metadata(&self) -> io::Result<Vec<fs::Metadata>>;

    /// Every tensor, in the order of the files and of their data or description, including those of types that cannot be
    /// computed with.
    fn tensor_info(&self) -> &[TensorInfo];

    /// The tensor of this name, or `None` if the file has none.
    ///
    /// # Errors
    /// The file has it in a type that this build cannot compute with; the error names both.
    fn optional(&self, name: &str) -> Result<Option<TensorView<'_>>, Error>;

    /// The tensor of this name.
    ///
    /// # Errors
    /// The file lacks it, or has it in a type that this build cannot compute with. The error names
    /// the tensor and, where known, the type.
    fn require(&self, name: &str) -> Result<TensorView<'_>, Error>;

    /// A tensor that lies in the files in another form than this name stands for, in the form that it stands for: the matrices of
    /// all experts of a layer, of which each has a tensor of its own. `None` where tensors lie as they are asked for. `shape` is
    /// the one that the caller needs; memory is taken for no other.
    ///
    /// # Errors
    /// A part is missing, or parts do not fit each other or the shape; the error names one.
    fn composed(&self, _name: &str, _shape: &[usize]) -> Result<Option<OwnedTensor>, Error> {
        Ok(None)
    }

    /// Whether [`composed`](Self::composed) has a tensor of this name, or an error: without the work.
    fn is_composed(&self, _name: &str) -> bool {
        false
    }

    /// The tensor of this name; `None` if the file lacks it *or* has it in a type that cannot be
    /// computed with. Loading code uses [`optional`](Self::optional) or [`require`](Self::require),
    /// which tell the two apart.
    fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        self.optional(name).ok().flatten()
    }

    /// The names of all tensors, in the order of [`tensor_info`](Self::tensor_info).
    fn tensor_names(&self) -> Vec<&str> {
        self.tensor_info().iter().map(|info| info.name.as_str()).collect()
    }

    /// Whether a file is shorter than when it was opened, or a page of it could not be read since
    /// then because the disk failed. What is missing reads as zeros, so whatever was computed from
    /// this source since then is worthless.
    fn truncated(&self) -> bool {
        self.check_intact().is_err()
    }

    /// Turns [`truncated`](Self::truncated) into an error.
    ///
    /// # Errors
    /// A file shrank or became unreadable since it was opened; the error names it.
    fn check_intact(&self) -> Result<(), Error>;

    /// Says that the bytes of a tensor will be read soon, once.
    fn advise_willneed(&self, name: &str);

    /// Gives back the memory that a range of a tensor's bytes takes in this process, after they were
    /// copied elsewhere. They can still be read, at the price of reading them from the file again.
    /// Does nothing for sources that are not mapped.
    fn advise_dontneed(&self, name: &str, bytes: Range<usize>);
}

/// What a file says about one tensor.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct TensorInfo {
    /// The name.
    pub name: String,
    /// The name of the type: llama.cpp's, or that in the file for types which GGUF does not have.
    pub type_name: &'static str,
    /// The number of the type in a GGUF file; from 2^31 on for types which GGUF does not have.
    pub type_id: u32,
    /// The type, if this build can compute with it.
    #[serde(skip)]
    pub dtype: Option<DType>,
    /// The dimensions, the contiguous one last.
    pub shape: Vec<usize>,
    /// Which of the [`paths`](WeightSource::paths) the data lies in.
    pub file: usize,
    /// Where the data begins, in bytes from the start of that file.
    pub offset: usize,
    /// The size of the data in bytes.
    pub bytes: usize,
}

impl TensorInfo {
    /// The bytes of the data in its file.
    pub(crate) fn range(&self) -> Range<usize> {
        self.offset..self.offset.saturating_add(self.bytes)
    }

    /// The type, or an error that names it.
    ///
    /// # Errors
    /// This build cannot compute with the type.
    pub fn supported(&self) -> Result<DType, UnknownDType> {
        self.dtype.ok_or(UnknownDType { id: self.type_id, name: Some(self.type_name) })
    }
}
