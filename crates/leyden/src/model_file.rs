//! [`ModelFile`]: opened model file or folder, without loaded weights.

use crate::error::Error;
use leyden_models::{HfModel, Prompts};
use leyden_tensor::{Gguf, HfFile, HfFolder, WeightSource};
use leyden_text::{ChatTemplate, Tokenizer};
use std::path::Path;
use std::sync::Arc;

/// Opened model, with its metadata, tokenizer and chat template. [`Model`](crate::Model) also has the loaded weights.
#[derive(Debug)]
pub enum ModelFile {
    /// GGUF file, or all parts of a split one.
    Gguf(Gguf),
    /// Folder in the layout of the Hugging Face hub: `config.json`, safetensors or an ONNX model, `tokenizer.json`.
    Hf(HfFolder),
}

/// Parts of a model to load.
pub(crate) struct Parts {
    pub(crate) source: Arc<dyn WeightSource>,
    pub(crate) tokenizer: Arc<dyn Tokenizer>,
    pub(crate) template: Option<ChatTemplate>,
    pub(crate) prompts: Prompts,
    /// Unknown keys of the tokenizer's files.
    pub(crate) unread: Vec<String>,
}

/// Key of the vocabulary in a GGUF file.
const GGUF_VOCABULARY: &str = "tokenizer.ggml.tokens";
/// Key of the vocabulary in a folder's `tokenizer.json`.
const HF_VOCABULARY: &str = "model.vocab";

impl ModelFile {
    /// Opens a GGUF file, a folder with `config.json` and safetensors or an ONNX model, or an ONNX model in such a
    /// folder or in one of its subfolders.
    ///
    /// # Errors
    /// A file cannot be read or is damaged.
    pub fn open(path: &Path) -> Result<ModelFile, Error> {
        let is_onnx = path.extension().is_some_and(|ending| ending == "onnx");
        Ok(match path.is_dir() {
            true => ModelFile::Hf(HfFolder::open(path)?),
            false if is_onnx => ModelFile::Hf(HfFolder::open_onnx(path)?),
            false => ModelFile::Gguf(Gguf::open(path)?),
        })
    }

    /// Returns the path of the file or folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            ModelFile::Gguf(file) => file.path(),
            ModelFile::Hf(folder) => folder.path(),
        }
    }

    /// Returns the weights under their names in the file.
    #[must_use]
    pub fn weights(&self) -> &dyn WeightSource {
        match self {
            ModelFile::Gguf(file) => file,
            ModelFile::Hf(folder) => folder.weights(),
        }
    }

    /// Returns the source that a model is loaded from: a folder's weights under GGUF names, with its configuration as
    /// metadata.
    ///
    /// # Errors
    /// The folder's architecture, or a feature in its configuration, is not supported.
    pub fn into_source(self) -> Result<Arc<dyn WeightSource>, Error> {
        Ok(match self {
            ModelFile::Gguf(file) => Arc::new(file),
            ModelFile::Hf(folder) => Arc::new(HfModel::new(folder)?),
        })
    }

    /// Reads the tokenizer.
    ///
    /// # Errors
    /// There is none, or it is damaged or of an unsupported kind.
    pub fn tokenizer(&self) -> Result<Box<dyn Tokenizer>, Error> {
        match self {
            ModelFile::Gguf(file) => gguf_tokenizer(file),
            ModelFile::Hf(folder) => Ok(leyden_text::from_hf(folder)?),
        }
    }

    /// Reads the chat template, if the model has one.
    ///
    /// # Errors
    /// The template is damaged.
    pub fn chat_template(&self, tokenizer: &dyn Tokenizer) -> Result<Option<ChatTemplate>, Error> {
        match self {
            ModelFile::Gguf(file) => gguf_template(file, tokenizer),
            ModelFile::Hf(folder) => Ok(ChatTemplate::from_hf(folder, tokenizer)?),
        }
    }

    /// Reads the parts of a model. The configuration comes first, as its errors are found fastest.
    ///
    /// # Errors
    /// The architecture is not supported, tokenizer or template cannot be read, or the tokenizer knows more tokens
    /// than the weights.
    pub(crate) fn into_parts(self) -> Result<Parts, Error> {
        match self {
            ModelFile::Gguf(gguf) => {
                leyden_models::config_of(&gguf)?;
                let tokenizer = gguf_tokenizer(&gguf)?;
                let template = gguf_template(&gguf, tokenizer.as_ref())?;
                let file = gguf.metadata().file().to_owned();
                Parts::new(Arc::new(gguf), tokenizer, template, (file, GGUF_VOCABULARY))
            }
            ModelFile::Hf(folder) => {
                let model = HfModel::new(folder)?;
                let tokenizer = leyden_text::from_hf(model.folder())?;
                let template = ChatTemplate::from_hf(model.folder(), tokenizer.as_ref())?;
                let file = model.folder().path().join(HfFile::Tokenizer.name()).display().to_string();
                if let Some(spans) = leyden_models::config_of(&model)?.spans {
                    let rows = model.require("token_embd.weight")?.rows();
                    leyden_tasks::check_label_marks(&spans, tokenizer.as_ref(), rows)
                        .map_err(|kind| Error::of_task(kind.into(), &file))?;
                }
                let unread = leyden_text::unread_keys(model.folder())?;
                let parts = Parts::new(Arc::new(model), tokenizer, template, (file, HF_VOCABULARY))?;
                Ok(Parts { unread, ..parts })
            }
        }
    }
}

impl Parts {
    /// Checks that the parts fit each other. `place` is the file and key of the vocabulary.
    fn new(
        source: Arc<dyn WeightSource>,
        tokenizer: Box<dyn Tokenizer>,
        template: Option<ChatTemplate>,
        place: (String, &'static str),
    ) -> Result<Parts, Error> {
        if let Some(table) = source.optional("token_embd.weight")?
            && tokenizer.vocab_size() > table.rows()
        {
            let (file, at) = place;
            let (tokens, rows, tensor) = (tokenizer.vocab_size(), table.rows(), table.name().to_owned());
            return Err(Error::Vocabulary { file, at, tokens, tensor, rows });
        }
        let prompts = Prompts::of_metadata(source.metadata())?;
        if prompts.message().is_some() && template.is_none() {
            let no_template = leyden_tasks::ErrorKind::NoTemplate.into();
            return Err(Error::of_task(no_template, source.metadata().file()));
        }
        Ok(Parts { source, tokenizer: tokenizer.into(), template, prompts, unread: Vec::new() })
    }
}

fn gguf_tokenizer(file: &Gguf) -> Result<Box<dyn Tokenizer>, Error> {
    Ok(leyden_text::from_gguf(file.metadata(), file.metadata().file())?)
}

fn gguf_template(file: &Gguf, tokenizer: &dyn Tokenizer) -> Result<Option<ChatTemplate>, Error> {
    Ok(ChatTemplate::from_gguf(file.metadata(), tokenizer, file.metadata().file())?)
}
