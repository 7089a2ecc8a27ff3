//! [`Model`]: pulled model, its files and their format.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::reference::Repo;

/// Format of a stored model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// GGUF file, or the parts of one.
    Gguf,
    /// Folder with safetensors files, `config.json` and a tokenizer.
    Safetensors,
    /// Folder with PyTorch's `pytorch_model.bin`, `config.json` and a tokenizer.
    Pytorch,
    /// ONNX model in such a folder.
    Onnx,
}

impl Format {
    /// Returns the name.
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

/// Model in the store.
#[derive(Debug, Clone)]
pub struct Model {
    /// Name `ORG/REPO[@REVISION]:FILE`; `hf:` and this name are the reference for a pull.
    pub name: String,
    /// Repository.
    pub repo: Repo,
    /// Requested branch, tag or commit.
    pub revision: String,
    /// Commit of the revision at the time of the pull.
    pub commit: String,
    /// Format.
    pub format: Format,
    /// File to open, the first part of a split file, or the folder of a checkpoint in safetensors or PyTorch's files.
    pub path: PathBuf,
    /// Files of the model.
    pub files: Vec<ModelFile>,
    /// Time of the pull, in seconds since 1970.
    pub pulled: u64,
    /// Reason why it cannot be used, if any: a file is missing or has the wrong length.
    pub damage: Option<String>,
}

/// File of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFile {
    /// Path in the repository.
    pub path: String,
    /// Length in bytes.
    pub bytes: u64,
    /// SHA-256 at the time of the pull.
    pub sha256: String,
}

impl Model {
    /// Returns the size of all files in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }
}
