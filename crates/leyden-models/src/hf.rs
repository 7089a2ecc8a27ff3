//! [`HfModel`]: a model as Hugging Face's libraries store it, as a source of weights.
//!
//! What loads and computes asks for tensors by GGUF's names; here they become the names in the files. The listing
//! and the views keep the names in the files, so that every message names what the user can find there.

use crate::arch::{HfClass, hf_model};
use crate::config::DecoderConfig;
use crate::error::Error;
use crate::pooling::Pooling;
use leyden_tensor::{
    HfFile, HfFolder, Json, Metadata, Safetensors, TensorInfo, TensorView, Value, WeightSource,
};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

/// The names in GGUF of the two matrices that may be one.
const EMBEDDING: &str = "token_embd.weight";
const HEAD: &str = "output.weight";

/// What the names of a model's tensors begin with, all but its head's.
const PREFIX: &str = "model.";

/// A folder with `config.json` and safetensors of a supported architecture.
#[derive(Debug)]
pub struct HfModel {
    folder: HfFolder,
    class: &'static HfClass,
    /// The matrices that have biases.
    biases: Vec<&'static str>,
    /// Whether the files have only the head, which is the embedding too.
    only_head: bool,
    /// Whether the names lack the prefix of a model within one with a head, as where the model alone was saved: that of
    /// published models for vectors. transformers adds it too.
    bare: bool,
    metadata: Metadata,
}

impl HfModel {
    /// Opens a folder, and checks its configuration.
    ///
    /// # Errors
    /// A file is missing or not valid, the architecture or something that the configuration asks for is not
    /// supported, or embedding and head do not fit the configuration. The error names the file and the key or
    /// tensor.
    pub fn open(path: &Path) -> Result<HfModel, Error> {
        HfModel::new(HfFolder::open(path)?)
    }

    /// A model from a folder that is open.
    ///
    /// # Errors
    /// As [`open`](Self::open), except that the files are there and valid.
    pub fn new(folder: HfFolder) -> Result<HfModel, Error> {
        let json = folder.config();
        let (config, class, biases) = hf_model(json)?;
        let pooling = folder.json(HfFile::Pooling)?.map(|json| Pooling::of_json(&json)).transpose()?;
        let metadata = describe(&folder.path().display().to_string(), &config, pooling)?;
        let mut model = HfModel { class, biases, only_head: false, bare: false, metadata, folder };
        let [bare, whole] = [true, false].map(|bare| {
            model.bare = bare;
            model.optional(EMBEDDING).map(|found| found.is_some())
        });
        model.bare = bare? && !whole?;
        model.tie()?;
        let table = model.require(EMBEDDING)?;
        if let Some(wanted) = model.folder.config().opt_usize("vocab_size")?
            && wanted != table.rows()
        {
            let what = format!("{wanted} differs from the {} rows of {}", table.rows(), table.name());
            return Err(Error::invalid(model.folder.config().file(), "vocab_size", what));
        }
        Ok(model)
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &HfFolder {
        &self.folder
    }

    /// Finds out which of embedding and head the files have. Where both are there, both are used, as
    /// transformers does whatever the configuration says.
    fn tie(&mut self) -> Result<(), Error> {
        let key = "tie_word_embeddings";
        let json = self.folder.config();
        let tied = json.opt_bool(key)?.unwrap_or(false);
        let (embedding, head) = (self.optional(EMBEDDING)?.is_some(), self.optional(HEAD)?.is_some());
        if !head && !tied {
            let name = self.name(HEAD).unwrap_or_default();
            let what = format!("is not true, but the weights lack {name}");
            return Err(Error::invalid(json.file(), key, what));
        }
        self.only_head = !embedding && head && tied;
        Ok(())
    }

    fn weights(&self) -> &Safetensors {
        self.folder.weights()
    }

    /// The name in the files of a tensor with this name in GGUF; none if the architecture has no such tensor.
    fn name(&self, gguf: &str) -> Option<String> {
        let gguf = if self.only_head && gguf == EMBEDDING { HEAD } else { gguf };
        let (layer, part) = match gguf.strip_prefix("blk.") {
            Some(rest) => rest.split_once('.').map(|(i, part)| (Some(i), part))?,
            None => (None, gguf),
        };
        let (part, kind) = part.rsplit_once('.')?;
        if kind == "bias" && !self.biases.contains(&part) {
            return None;
        }
        let (_, name) = self.class.tensors.iter().find(|row| row.0 == part)?;
        let name = match layer {
            Some(i) => format!("{PREFIX}layers.{i}.{name}.{kind}"),
            None => format!("{name}.{kind}"),
        };
        Some(name.strip_prefix(PREFIX).filter(|_| self.bare).map(str::to_owned).unwrap_or(name))
    }
}

impl WeightSource for HfModel {
    /// The sizes under GGUF's keys, for those who ask about a model in these words. The description itself is
    /// [`config_json`](WeightSource::config_json).
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn config_json(&self) -> Option<&Json> {
        Some(self.folder.config())
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn paths(&self) -> Vec<&Path> {
        self.weights().paths()
    }

    fn file_metadata(&self) -> io::Result<Vec<fs::Metadata>> {
        self.weights().file_metadata()
    }

    fn tensor_info(&self) -> &[TensorInfo] {
        self.weights().tensor_info()
    }

    /// A bias that the configuration promises is an error if it is not there.
    fn optional(&self, name: &str) -> Result<Option<TensorView<'_>>, leyden_tensor::Error> {
        match self.name(name) {
            Some(found) if found.ends_with(".bias") => self.weights().require(&found).map(Some),
            Some(found) => self.weights().optional(&found),
            None => Ok(None),
        }
    }

    fn require(&self, name: &str) -> Result<TensorView<'_>, leyden_tensor::Error> {
        self.weights().require(self.name(name).as_deref().unwrap_or(name))
    }

    fn check_intact(&self) -> Result<(), leyden_tensor::Error> {
        self.folder.check_intact()
    }

    fn advise_willneed(&self, name: &str) {
        if let Some(name) = self.name(name) {
            self.weights().advise_willneed(&name);
        }
    }

    fn advise_dontneed(&self, name: &str, bytes: Range<usize>) {
        if let Some(name) = self.name(name) {
            self.weights().advise_dontneed(&name, bytes);
        }
    }
}

/// The configuration under GGUF's keys.
fn describe(label: &str, config: &DecoderConfig, pooling: Option<Pooling>) -> Result<Metadata, Error> {
    let layer = &config.layers[0];
    let sizes = [
        ("block_count", config.layers.len()),
        ("context_length", config.context),
        ("embedding_length", config.width),
        ("feed_forward_length", layer.ffn),
        ("attention.head_count", layer.heads),
        ("attention.head_count_kv", layer.kv_heads),
        ("attention.key_length", layer.head_dim),
    ];
    let floats = [("attention.layer_norm_rms_epsilon", config.norm.eps), ("rope.freq_base", layer.rope.base)];
    let key = |name: &str| format!("{}.{name}", config.architecture);
    let entries = std::iter::once(("general.architecture".to_owned(), Value::from(config.architecture)))
        .chain(sizes.map(|(name, size)| (key(name), Value::U64(size as u64))))
        .chain(floats.map(|(name, value)| (key(name), Value::F32(value))))
        .chain(pooling.map(|pooling| (key("pooling_type"), Value::U32(pooling.number()))));
    Ok(Metadata::new(label, entries)?)
}
