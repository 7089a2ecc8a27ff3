//! [`HfFolder`]: a model as Hugging Face's libraries store it: weights in safetensors, everything else
//! in JSON files beside them.
//!
//! What a GGUF file has in its metadata is spread over several files here, in other words. This module
//! finds and bounds the files and parses `config.json`; what its keys mean is known where models are.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::WeightSource;
use super::bounded::read_bounded;
use super::json::Json;
use super::safetensors::Safetensors;
use crate::error::{Error, ErrorKind};

/// The files of a model's folder beside its weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HfFile {
    /// Architecture and sizes.
    Config,
    /// Defaults for sampling, and tokens that end an answer.
    GenerationConfig,
    /// The tokenizer with its vocabulary.
    Tokenizer,
    /// Special tokens and, in older models, chat templates.
    TokenizerConfig,
    /// Special tokens by their roles.
    SpecialTokensMap,
    /// The chat template, as text.
    ChatTemplate,
    /// The chat template in JSON, as processors of images have it.
    ChatTemplateJson,
    /// Of what sentence-transformers composes a model for vectors: a list, not an object.
    Modules,
    /// How sentence-transformers makes vectors of texts.
    Pooling,
    /// What a folder of a PEFT adapter says about it.
    AdapterConfig,
    /// What sentence-transformers puts before texts of each kind.
    SentenceTransformers,
}

/// Name and most bytes of every file. The largest vocabularies take some 40 MB.
const FILES: [(HfFile, &str, u64); 11] = [
    (HfFile::Config, "config.json", 4 << 20),
    (HfFile::GenerationConfig, "generation_config.json", 1 << 20),
    (HfFile::Tokenizer, "tokenizer.json", 256 << 20),
    (HfFile::TokenizerConfig, "tokenizer_config.json", 32 << 20),
    (HfFile::SpecialTokensMap, "special_tokens_map.json", 4 << 20),
    (HfFile::ChatTemplate, "chat_template.jinja", MAX_TEMPLATE_BYTES),
    (HfFile::ChatTemplateJson, "chat_template.json", MAX_TEMPLATE_BYTES),
    (HfFile::Modules, "modules.json", 1 << 20),
    (HfFile::AdapterConfig, "adapter_config.json", 4 << 20),
    (HfFile::Pooling, "1_Pooling/config.json", 1 << 20),
    (HfFile::SentenceTransformers, "config_sentence_transformers.json", 1 << 20),
];

const MAX_TEMPLATE_BYTES: u64 = 1 << 20;
/// The most templates in `additional_chat_templates`.
const MAX_TEMPLATES: u64 = 64;

impl HfFile {
    /// The name in the folder.
    pub fn name(self) -> &'static str {
        FILES.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }

    /// The most bytes that are read of it.
    pub fn max_bytes(self) -> u64 {
        FILES.iter().find(|row| row.0 == self).map_or(0, |row| row.2)
    }
}

/// A folder with a model in the layout of the Hugging Face hub.
///
/// ```no_run
/// use leyden_tensor::{HfFile, HfFolder, WeightSource};
/// let folder = HfFolder::open("Llama-3.2-1B".as_ref())?;
/// let layers = folder.config().u32("num_hidden_layers")?;
/// let theta = folder.config().opt_f32("rope_parameters.rope_theta")?;
/// let embedding = folder.weights().require("model.embed_tokens.weight")?;
/// let tokenizer = folder.read(HfFile::Tokenizer)?;
/// # Ok::<(), leyden_tensor::Error>(())
/// ```
#[derive(Debug)]
pub struct HfFolder {
    path: PathBuf,
    config: Json,
    weights: Arc<Safetensors>,
}

impl HfFolder {
    /// Whether this is a folder that has a `config.json`: what [`open`](Self::open) is meant for.
    pub fn is_at(path: &Path) -> bool {
        path.is_dir() && path.join(HfFile::Config.name()).is_file()
    }

    /// Parses `config.json` and opens the weights; the other files are read when asked for.
    ///
    /// # Errors
    /// `config.json` or the weights are missing or not valid. The error names the file.
    pub fn open(path: &Path) -> Result<HfFolder, Error> {
        let config = json(path, HfFile::Config)?.ok_or_else(|| {
            let label = path.display().to_string().into();
            Error::new(ErrorKind::MissingFile { wanted: HfFile::Config.name() }).file(&label)
        })?;
        let weights = Arc::new(Safetensors::open(path)?);
        Ok(HfFolder { path: path.into(), config, weights })
    }

    /// The folder as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What `config.json` says.
    pub fn config(&self) -> &Json {
        &self.config
    }

    /// The weights, under the names of Hugging Face's libraries.
    pub fn weights(&self) -> &Arc<Safetensors> {
        &self.weights
    }

    /// The bytes of a file, `None` if the folder lacks it.
    ///
    /// # Errors
    /// It cannot be read, is not a regular file, or is larger than
    /// [`max_bytes`](HfFile::max_bytes).
    pub fn read(&self, file: HfFile) -> Result<Option<Vec<u8>>, Error> {
        read(&self.path.join(file.name()), file.max_bytes())
    }

    /// A file that is a JSON object, `None` if the folder lacks it. The tokenizer is too large for
    /// this: [`read`](Self::read) it.
    ///
    /// # Errors
    /// As for [`read`](Self::read), or it is not a valid JSON object.
    pub fn json(&self, file: HfFile) -> Result<Option<Json>, Error> {
        json(&self.path, file)
    }

    /// A file that is a JSON object in any folder, `None` if it lacks the file.
    ///
    /// # Errors
    /// As for [`json`](Self::json).
    pub fn json_at(folder: &Path, file: HfFile) -> Result<Option<Json>, Error> {
        json(folder, file)
    }

    /// Name and bytes of the templates `additional_chat_templates/NAME.jinja`, sorted by name.
    ///
    /// # Errors
    /// One cannot be read, is not a regular file or too large, or there are more than 64 of them.
    pub fn additional_chat_templates(&self) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let folder = self.path.join("additional_chat_templates");
        let label: Arc<str> = folder.display().to_string().into();
        let io = |source| Error::new(ErrorKind::Io { action: "list the folder", source }).file(&label);
        if !folder.is_dir() {
            return Ok(Vec::new());
        }
        let mut templates = Vec::new();
        for entry in fs::read_dir(&folder).map_err(io)? {
            let path = entry.map_err(io)?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).map(str::to_owned);
            let (Some(name), true) = (name, path.extension().is_some_and(|e| e == "jinja")) else { continue };
            let count = u64::try_from(templates.len()).unwrap_or(u64::MAX);
            if count >= MAX_TEMPLATES {
                let what = "number of chat templates";
                let kind = ErrorKind::TooMany { what, count: count.saturating_add(1), most: MAX_TEMPLATES };
                return Err(Error::new(kind).file(&label));
            }
            if let Some(bytes) = read(&path, MAX_TEMPLATE_BYTES)? {
                templates.push((name, bytes));
            }
        }
        templates.sort();
        Ok(templates)
    }

    /// Fails if a page of the weights could not be read since they were opened.
    ///
    /// # Errors
    /// The error names the file.
    pub fn check_intact(&self) -> Result<(), Error> {
        self.weights.check_intact()
    }
}

fn json(folder: &Path, file: HfFile) -> Result<Option<Json>, Error> {
    let path = folder.join(file.name());
    let bytes = read(&path, file.max_bytes())?;
    bytes.map(|bytes| Json::parse(&bytes, &path.display().to_string())).transpose()
}

fn read(path: &Path, most: u64) -> Result<Option<Vec<u8>>, Error> {
    match read_bounded(path, most) {
        Err(ErrorKind::Io { action: "open", source }) if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(None)
        }
        result => result.map(Some).map_err(|kind| Error::new(kind).file(&path.display().to_string().into())),
    }
}
