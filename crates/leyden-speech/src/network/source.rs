//! [`Source`]: the files of a model, by the names of tensors in Hugging Face folders.

use super::config::Config;
use super::ggml::Ggml;
use super::tensor::Tensor;
use crate::error::Error;
use leyden_tensor::{HfFile, HfFolder, Json, WeightSource};
use leyden_text::{Tokenizer, from_tokenizer_json};
use std::path::{Path, PathBuf};

/// Files of a model.
pub(crate) enum Source {
    /// Folder with `config.json`, safetensors and `tokenizer.json`.
    Folder(Box<Folder>),
    /// GGML file of whisper.cpp.
    Ggml(Box<Ggml>),
}

/// Hugging Face folder.
pub(crate) struct Folder {
    folder: HfFolder,
    config: Config,
    /// `generation_config.json`, if there is one.
    generation: Option<Json>,
}

impl Source {
    /// Returns true if this is a Whisper of a supported form: a folder whose `config.json` says so, or a GGML file.
    pub(crate) fn is_at(path: &Path) -> bool {
        if path.is_dir() {
            let config = HfFolder::json_at(path, HfFile::Config).ok().flatten();
            return config.is_some_and(|json| json.opt_str("model_type").ok().flatten() == Some("whisper"));
        }
        Ggml::is_at(path)
    }

    /// Opens a folder or file.
    pub(crate) fn open(path: &Path) -> Result<Source, Error> {
        if !path.is_dir() {
            return Ok(Source::Ggml(Box::new(Ggml::open(path)?)));
        }
        let folder = HfFolder::open(path)?;
        let config = Config::from_json(folder.config())?;
        let generation = folder.json(HfFile::GenerationConfig)?;
        Ok(Source::Folder(Box::new(Folder { folder, config, generation })))
    }

    /// Returns the sizes.
    pub(crate) fn config(&self) -> &Config {
        match self {
            Source::Folder(folder) => &folder.config,
            Source::Ggml(file) => file.config(),
        }
    }

    /// Returns type, number of values and bytes of each tensor.
    pub(crate) fn sizes(&self) -> Vec<(String, u64, u64)> {
        match self {
            Source::Folder(folder) => {
                let all = folder.folder.weights().tensor_info();
                let values = |shape: &[usize]| shape.iter().map(|n| *n as u64).product();
                all.iter().map(|t| (t.type_name.to_owned(), values(&t.shape), t.bytes as u64)).collect()
            }
            Source::Ggml(file) => file.sizes(),
        }
    }

    /// Returns the files of the weights.
    pub(crate) fn weight_paths(&self) -> Vec<PathBuf> {
        match self {
            Source::Folder(folder) => {
                folder.folder.weights().paths().into_iter().map(Path::to_owned).collect()
            }
            Source::Ggml(file) => vec![PathBuf::from(file.path())],
        }
    }

    /// Returns the path for messages.
    pub(crate) fn path(&self) -> String {
        match self {
            Source::Folder(folder) => folder.folder.path().display().to_string(),
            Source::Ggml(file) => file.path().to_owned(),
        }
    }

    /// Returns the settings of decoding, if the files have them.
    pub(crate) fn generation(&self) -> Option<&Json> {
        match self {
            Source::Folder(folder) => folder.generation.as_ref(),
            Source::Ggml(_) => None,
        }
    }

    /// Reads the tokenizer.
    pub(crate) fn tokenizer(&self) -> Result<Box<dyn Tokenizer>, Error> {
        match self {
            Source::Folder(folder) => {
                let missing = || Error::model("the folder has no tokenizer.json").file(self.path());
                let bytes = folder.folder.read(HfFile::Tokenizer)?.ok_or_else(missing)?;
                let name = folder.folder.path().join(HfFile::Tokenizer.name()).display().to_string();
                let invalid = |why: serde_json::Error| Error::model(why.to_string()).file(&name);
                let mut json: serde_json::Map<String, serde_json::Value> =
                    serde_json::from_slice(&bytes).map_err(invalid)?;
                // Tokens around a text are those of this crate.
                json.insert("post_processor".to_owned(), serde_json::Value::Null);
                let bytes = serde_json::to_vec(&json).map_err(invalid)?;
                Ok(from_tokenizer_json(&bytes, &name)?)
            }
            Source::Ggml(file) => {
                let bytes = file.tokenizer_json()?;
                Ok(from_tokenizer_json(&bytes, file.path())?)
            }
        }
    }

    /// Returns a tensor, checked against its shape. Dimensions of size 1 are not compared.
    pub(crate) fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor<'_>, Error> {
        let tensor = self.any(name)?;
        let without_ones = |shape: &[usize]| shape.iter().copied().filter(|n| *n != 1).collect::<Vec<_>>();
        if without_ones(&tensor.shape) != without_ones(shape) {
            let message = format!("shape {:?} does not match the model's {shape:?}", tensor.shape);
            return Err(Error::model(message).item(name).file(self.path()));
        }
        Ok(Tensor { shape: shape.to_vec(), ..tensor })
    }

    fn any(&self, name: &str) -> Result<Tensor<'_>, Error> {
        match self {
            Source::Folder(folder) => {
                let weights: &dyn WeightSource = folder.folder.weights();
                let whole = format!("model.{name}");
                let found = weights.optional(&whole)?;
                // Folders of the bare network have no prefix.
                let view = match found {
                    Some(view) => view,
                    None => weights.optional(name)?.map_or_else(|| weights.require(&whole), Ok)?,
                };
                Ok(Tensor { dtype: view.dtype(), shape: view.shape().to_vec(), bytes: view.bytes() })
            }
            Source::Ggml(file) => file.tensor(name),
        }
    }

    /// Returns an error if a mapped file changed while it was read.
    pub(crate) fn check_intact(&self) -> Result<(), Error> {
        match self {
            Source::Folder(folder) => Ok(folder.folder.check_intact()?),
            // The bytes are in memory.
            Source::Ggml(_) => Ok(()),
        }
    }
}
