//! Model files: the trait [`WeightSource`] that all formats share, and the formats.
//!
//! The bytes that these modules read are untrusted. So: no index that can panic, no `as` conversion, every count
//! bounded by the bytes that are left before anything is allocated, and tensor sizes only from `TensorSize`.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::string_slice)]
#![deny(clippy::cast_possible_truncation, clippy::arithmetic_side_effects)]

mod bounded;
mod folder_files;
mod gguf;
mod guess;
mod hf_folder;
mod json;
mod known_keys;
mod limits;
mod metadata;
mod mmap;
mod onnx;
mod safetensors;
mod source;
mod split;
mod tensors;
mod torch;
mod value;
mod writer;

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

use crate::dtype::UnknownDType;
use crate::{DType, Error, OwnedTensor, Run, TensorView};

pub use folder_files::FolderFiles;
pub use gguf::Gguf;
pub use hf_folder::{HfFile, HfFolder};
pub use json::Json;
pub use known_keys::{
    KeyRule, KnownKey, KnownKeys, RefusedKey, choice_key, empty_key, harmless_key, read_key, says_nothing,
};
pub use limits::{MAX_ALIGNMENT, MAX_HEADER_BYTES, MAX_KEYS, MAX_NAME_BYTES, MAX_TENSORS};
pub use metadata::Metadata;
pub use onnx::{Onnx, OnnxAttribute, OnnxDim, OnnxFunction, OnnxGraph, OnnxNode, OnnxTensor, OnnxValue};
pub use safetensors::{Safetensors, StackRows, Stacked};
pub use source::FileBytes;
pub use value::{Array, StrArray, Value, ValueType};
pub use writer::GgufWriter;

/// A model file, or several files of one model, with metadata and named tensors.
pub trait WeightSource: Send + Sync {
    /// Returns the metadata.
    fn metadata(&self) -> &Metadata;

    /// Returns the `config.json` that describes the model instead of the metadata, if the source is a Hugging Face
    /// folder or was converted from one (see [`FolderFiles`]).
    fn config_json(&self) -> Option<&Json> {
        None
    }

    /// Returns the unknown keys of settings files other than `config.json`, each with the name of its file.
    fn unread_keys(&self) -> &[String] {
        &[]
    }

    /// Returns the path as it was given, or a label in angle brackets such as `<embedded>` if there is no file.
    fn path(&self) -> &Path;

    /// Returns all files that contain tensors; [`TensorInfo::file`] is an index into this list.
    fn paths(&self) -> Vec<&Path>;

    /// Returns the file system's metadata of the opened files (not of files that have taken their names since).
    ///
    /// # Errors
    /// The system returns an error, or the bytes come from no file.
    fn file_metadata(&self) -> io::Result<Vec<fs::Metadata>>;

    /// Returns every tensor, unsupported types included, in the order of the files and of their data or description.
    fn tensor_info(&self) -> &[TensorInfo];

    /// Returns the tensor of this name, or `None` if the file has none.
    ///
    /// # Errors
    /// The file has it in a type that this build cannot compute with; the error names both.
    fn optional(&self, name: &str) -> Result<Option<TensorView<'_>>, Error>;

    /// Returns the tensor of this name.
    ///
    /// # Errors
    /// The file lacks it, or has it in a type that this build cannot compute with. The error names
    /// the tensor and, where known, the type.
    fn require(&self, name: &str) -> Result<TensorView<'_>, Error>;

    /// Builds a tensor that the files store in another form than this name stands for, for example the matrices of
    /// all experts of a layer, each stored as a tensor of its own. Returns `None` if tensors are stored as they are
    /// asked for. `shape` is the shape that the caller needs; memory is allocated for no other. `run` executes the tasks
    /// of a conversion.
    ///
    /// # Errors
    /// A part is missing, or parts do not fit each other or the shape; the error names one.
    fn composed(&self, _name: &str, _shape: &[usize], _run: &Run<'_>) -> Result<Option<OwnedTensor>, Error> {
        Ok(None)
    }

    /// Returns true if [`composed`](Self::composed) would return a tensor or an error for this name, without the
    /// work.
    fn is_composed(&self, _name: &str) -> bool {
        false
    }

    /// Returns the tensor of this name; `None` if the file lacks it *or* has it in an unsupported type.
    /// Loading code uses [`optional`](Self::optional) or [`require`](Self::require), which distinguish the two cases.
    fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        self.optional(name).ok().flatten()
    }

    /// Returns the names of all tensors, in the order of [`tensor_info`](Self::tensor_info).
    fn tensor_names(&self) -> Vec<&str> {
        self.tensor_info().iter().map(|info| info.name.as_str()).collect()
    }

    /// Returns true if a file is shorter than when it was opened, or a page of it could not be read since
    /// then because the disk failed. Missing bytes read as zeros, so results computed from this source
    /// since then are invalid.
    fn truncated(&self) -> bool {
        self.check_intact().is_err()
    }

    /// Turns [`truncated`](Self::truncated) into an error.
    ///
    /// # Errors
    /// A file shrank or became unreadable since it was opened; the error names it.
    fn check_intact(&self) -> Result<(), Error>;

    /// Tells the kernel that the bytes of a tensor will be read soon, once.
    fn advise_willneed(&self, name: &str);

    /// Frees the memory that a range of a tensor's bytes takes in this process, after they were
    /// copied elsewhere. The bytes can still be read; the kernel then reads them from the file again.
    /// Does nothing for sources that are not mapped.
    fn advise_dontneed(&self, name: &str, bytes: Range<usize>);
}

/// Description of one tensor in a file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct TensorInfo {
    /// The name.
    pub name: String,
    /// Name of the type: llama.cpp's, or that in the file for types which GGUF does not have.
    pub type_name: &'static str,
    /// Type id in a GGUF file; from 2^31 on for types which GGUF does not have.
    pub type_id: u32,
    /// The type, if this build can compute with it.
    #[serde(skip)]
    pub dtype: Option<DType>,
    /// The dimensions, the contiguous one last.
    pub shape: Vec<usize>,
    /// Index of the file in [`paths`](WeightSource::paths).
    pub file: usize,
    /// Begin of the data, in bytes from the start of that file.
    pub offset: usize,
    /// The size of the data in bytes.
    pub bytes: usize,
}

impl TensorInfo {
    /// Returns the byte range of the data in its file.
    pub(crate) fn range(&self) -> Range<usize> {
        self.offset..self.offset.saturating_add(self.bytes)
    }

    /// Returns the type, or an error that names it.
    ///
    /// # Errors
    /// This build cannot compute with the type.
    pub fn supported(&self) -> Result<DType, UnknownDType> {
        self.dtype.ok_or(UnknownDType { id: self.type_id, name: Some(self.type_name) })
    }
}
