//! [`Model`]: a pulled model, its files and their format.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::reference::Repo;

/// How a model is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// One GGUF file, or the parts of one.
    Gguf,
    /// A folder with safetensors files, `config.json` and a tokenizer.
    Safetensors,
    /// The same with PyTorch's `pytorch_model.bin`.
    Pytorch,
    /// An ONNX model, and such a folder around it.
    Onnx,
}

impl Format {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gguf => "gguf",
            Self::Safetensors => "safetensors",
            Self::Pytorch => "pytorch",
            Self::Onnx => "onnx",
        }
    }
}

/// A model in the store.
#[derive(Debug, Clone)]
pub struct Model {
    /// `ORG/REPO[@REVISION]:FILE`; with `hf:` in front it is the reference that pulls it.
    pub name: String,
    /// The repository that it comes from.
    pub repo: Repo,
    /// The branch, tag or commit that was asked for.
    pub revision: String,
    /// The commit that this was then.
    pub commit: String,
    /// How it is stored.
    pub format: Format,
    /// The file to open, the first part of a split one, or the folder of a checkpoint in safetensors or PyTorch's files.
    pub path: PathBuf,
    /// Its files.
    pub files: Vec<ModelFile>,
    /// When it was pulled, in seconds since 1970.
    pub pulled: u64,
    /// Why it cannot be used, if so: a file is missing or has the wrong length.
    pub damage: Option<String>,
}

/// A file of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFile {
    /// Its path in the repository.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// Its checksum, as it was when it was pulled.
    pub sha256: String,
}

impl Model {
    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }
}
