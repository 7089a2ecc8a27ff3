//! [`HfFolder`]: a model in the layout of the Hugging Face libraries: weights in safetensors or ONNX, everything else
//! in JSON files beside them.
//!
//! The metadata that a GGUF file has is spread over several files here, under other keys. This module
//! finds the files, limits their sizes and parses `config.json`; its keys are interpreted by `leyden-models`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::WeightSource;
use super::bounded::read_bounded;
use super::json::Json;
use super::onnx::Onnx;
use super::safetensors::Safetensors;
use crate::error::{Error, ErrorKind};

/// Files of a model's folder other than weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HfFile {
    /// Architecture and sizes.
    Config,
    /// Sampling defaults, and tokens that end an answer.
    GenerationConfig,
    /// The tokenizer with its vocabulary.
    Tokenizer,
    /// Special tokens and, in older models, chat templates.
    TokenizerConfig,
    /// Special tokens by their roles.
    SpecialTokensMap,
    /// The chat template, as text.
    ChatTemplate,
    /// The chat template in JSON, as in folders of image processors.
    ChatTemplateJson,
    /// The list of modules that sentence-transformers composes an embedding model of: an array, not an object.
    Modules,
    /// The pooling of a sentence-transformers model.
    Pooling,
    /// The configuration of a PEFT adapter.
    AdapterConfig,
    /// The prompts that sentence-transformers prepends to each kind of text.
    SentenceTransformers,
    /// The configuration of a `gliner` model, its encoder included.
    Gliner,
}

/// Name and maximum size in bytes of every file. The largest vocabularies take some 40 MB.
const FILES: [(HfFile, &str, u64); 12] = [
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
    (HfFile::Gliner, "gliner_config.json", 4 << 20),
];

const MAX_TEMPLATE_BYTES: u64 = 1 << 20;
/// Names of sentence-transformers' settings file, in its order of lookup. The later ones are those of its first
/// classes.
const SENTENCE_SETTINGS: [&str; 7] = [
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
];
const MAX_SETTINGS_BYTES: u64 = 4 << 20;
/// Tokens beside the vocabulary, in older folders.
const ADDED_TOKENS: &str = "added_tokens.json";
/// Maximum number of templates in `additional_chat_templates`.
const MAX_TEMPLATES: u64 = 64;

impl HfFile {
    /// Returns the name in the folder.
    pub fn name(self) -> &'static str {
        FILES.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }

    /// Returns the maximum number of bytes that are read of the file.
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
#[derive(Clone, Debug)]
pub struct HfFolder {
    path: PathBuf,
    config: Json,
    weights: Weights,
}

/// Weights of a folder.
#[derive(Clone, Debug)]
enum Weights {
    Files(Arc<Safetensors>),
    Graph(Arc<Onnx>),
}

/// Paths of ONNX models in a folder, in order of preference.
const ONNX: [&str; 4] =
    ["onnx/model.onnx", "model.onnx", "onnx/model_quantized.onnx", "model_quantized.onnx"];
/// Maximum number of directory entries that are searched for ONNX models.
const MAX_ENTRIES: usize = 4096;

impl HfFolder {
    /// Returns true if this is a folder with a `config.json` or `gliner_config.json`, which [`open`](Self::open)
    /// can open.
    pub fn is_at(path: &Path) -> bool {
        let has = |file: HfFile| path.join(file.name()).is_file();
        path.is_dir() && (has(HfFile::Config) || has(HfFile::Gliner))
    }

    /// Parses `config.json` and opens the weights; the other files are read when asked for. If the folder has no
    /// weights in safetensors or PyTorch's format, an ONNX model is opened: `onnx/model.onnx`, `model.onnx`,
    /// `onnx/model_quantized.onnx`, `model_quantized.onnx`, or else the only one in the folder or its `onnx`.
    ///
    /// # Errors
    /// `config.json` or the weights are missing or not valid. The error names the file.
    pub fn open(path: &Path) -> Result<HfFolder, Error> {
        let config = config(path)?;
        let weights = match Safetensors::is_in(path) {
            true => Weights::Files(Arc::new(Safetensors::open(path)?)),
            false => match onnx_in(path)? {
                Some(file) => Weights::Graph(Arc::new(Onnx::open(&file)?)),
                None => Weights::Files(Arc::new(Safetensors::open(path)?)),
            },
        };
        Ok(HfFolder { path: path.into(), config, weights })
    }

    /// Opens the folder of an ONNX model with that model as its weights: the folder that contains the file or, if
    /// that has no `config.json`, the parent of that folder.
    ///
    /// # Errors
    /// `config.json` is missing or not valid, or the model is not. The error names the file.
    pub fn open_onnx(file: &Path) -> Result<HfFolder, Error> {
        let own = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
            _ => PathBuf::from("."),
        };
        let around = if own.as_os_str() == "." { PathBuf::from("..") } else { own.join("..") };
        let around = match own.parent().filter(|around| !around.as_os_str().is_empty()) {
            Some(around) if own.file_name().is_some() => around.to_path_buf(),
            _ => around,
        };
        let path = if !HfFolder::is_at(&own) && HfFolder::is_at(&around) { around } else { own };
        // First, so that a file that is not a model gives this error.
        let weights = Weights::Graph(Arc::new(Onnx::open(file)?));
        let config = config(&path)?;
        Ok(HfFolder { path, config, weights })
    }

    /// Returns the path of the folder as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns `config.json`; of a folder with `gliner_config.json`, the encoder's configuration in it.
    pub fn config(&self) -> &Json {
        &self.config
    }

    /// Returns the weights, under their Hugging Face names; of an ONNX model, under the names in its graph.
    pub fn weights(&self) -> &dyn WeightSource {
        match &self.weights {
            Weights::Files(files) => files.as_ref(),
            Weights::Graph(onnx) => onnx.as_ref(),
        }
    }

    /// Returns the weights, unless they are those of an ONNX model.
    pub fn safetensors(&self) -> Option<&Arc<Safetensors>> {
        match &self.weights {
            Weights::Files(files) => Some(files),
            Weights::Graph(_) => None,
        }
    }

    /// Returns the ONNX model that has the weights.
    pub fn onnx(&self) -> Option<&Arc<Onnx>> {
        match &self.weights {
            Weights::Files(_) => None,
            Weights::Graph(onnx) => Some(onnx),
        }
    }

    /// Reads a file; `None` if the folder lacks it.
    ///
    /// # Errors
    /// It cannot be read, is not a regular file, or is larger than
    /// [`max_bytes`](HfFile::max_bytes).
    pub fn read(&self, file: HfFile) -> Result<Option<Vec<u8>>, Error> {
        read(&self.path.join(file.name()), file.max_bytes())
    }

    /// Parses a file that is a JSON object, `None` if the folder lacks it. The tokenizer is too large for
    /// this: [`read`](Self::read) it.
    ///
    /// # Errors
    /// As for [`read`](Self::read), or it is not a valid JSON object.
    pub fn json(&self, file: HfFile) -> Result<Option<Json>, Error> {
        json(&self.path, file)
    }

    /// Parses a JSON object in a folder that is not open, `None` if it lacks the file.
    ///
    /// # Errors
    /// As for [`json`](Self::json).
    pub fn json_at(folder: &Path, file: HfFile) -> Result<Option<Json>, Error> {
        json(folder, file)
    }

    /// Parses a settings file that is a JSON object, by its path within the folder; `None` if the folder lacks it.
    ///
    /// # Errors
    /// It cannot be read, is not a regular file, has more than 4 MiB, or is not a valid JSON object.
    pub fn settings(&self, name: &str) -> Result<Option<Json>, Error> {
        let path = self.path.join(name);
        let bytes = read(&path, MAX_SETTINGS_BYTES)?;
        bytes.map(|bytes| Json::parse(&bytes, &path.display().to_string())).transpose()
    }

    /// Parses sentence-transformers' settings of the tokenizer, under the first existing name of the file; `None` if
    /// the folder lacks it.
    ///
    /// # Errors
    /// As for [`settings`](Self::settings).
    pub fn sentence_settings(&self) -> Result<Option<Json>, Error> {
        for name in SENTENCE_SETTINGS {
            if let Some(json) = self.settings(name)? {
                return Ok(Some(json));
            }
        }
        Ok(None)
    }

    /// Returns name and bytes of the templates `additional_chat_templates/NAME.jinja`, sorted by name.
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

    /// Returns the names of all files that may describe a model, those of adapters aside. Folders of modules are named by
    /// `modules.json`; `1_Pooling` alone counts without it.
    pub fn settings_names() -> impl Iterator<Item = &'static str> {
        let files = FILES.iter().filter(|row| row.0 != HfFile::AdapterConfig).map(|row| row.1);
        files.chain([ADDED_TOKENS]).chain(SENTENCE_SETTINGS)
    }

    /// Returns an error if a page of the weights could not be read since they were opened.
    ///
    /// # Errors
    /// The error names the file.
    pub fn check_intact(&self) -> Result<(), Error> {
        self.weights().check_intact()
    }
}

fn config(path: &Path) -> Result<Json, Error> {
    /// Key of the encoder's configuration in a GLiNER model.
    const ENCODER: &str = "encoder_config";
    // Keys that GLiNER changes: the number of tokens, and the encoder's class before GLiNER's training.
    const NOT_ITS: [&str; 2] = ["vocab_size", "architectures"];
    let gliner = json(path, HfFile::Gliner)?;
    if let Some(encoder) = gliner.as_ref().map(|gliner| gliner.nested(ENCODER)).transpose()?.flatten() {
        return Ok(encoder.without(&NOT_ITS));
    }
    match (json(path, HfFile::Config)?, gliner) {
        (Some(config), Some(_)) => Ok(config.without(&NOT_ITS)),
        (Some(config), None) => Ok(config),
        (None, Some(gliner)) => {
            Err(Error::new(ErrorKind::NoEncoderConfig).item(ENCODER).file(&gliner.file().into()))
        }
        (None, None) => {
            let label = path.display().to_string().into();
            Err(Error::new(ErrorKind::MissingFile { wanted: HfFile::Config.name() }).file(&label))
        }
    }
}

/// Finds the ONNX model of a folder, if it has one.
fn onnx_in(path: &Path) -> Result<Option<PathBuf>, Error> {
    if let Some(file) = ONNX.iter().map(|name| path.join(name)).find(|file| file.is_file()) {
        return Ok(Some(file));
    }
    let is_model = |file: &PathBuf| file.extension().is_some_and(|e| e == "onnx") && file.is_file();
    let mut found = Vec::new();
    for folder in [path.join("onnx"), path.to_path_buf()] {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        let files = entries.take(MAX_ENTRIES).filter_map(|entry| Some(entry.ok()?.path()));
        found.extend(files.filter(is_model));
    }
    match found.len() {
        0 | 1 => Ok(found.pop()),
        count => {
            let kind = ErrorKind::Onnx(format!("has {count} ONNX models: name the file of one").into());
            Err(Error::new(kind).file(&path.display().to_string().into()))
        }
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
