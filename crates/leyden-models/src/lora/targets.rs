//! [`Targets`]: the projections of a loaded network that adapters can change, and how their rows lie.

use crate::arch::{ARCHITECTURES, hf_class};
use crate::architecture::Architecture;
use crate::config::ModelConfig;
use crate::error::Error;
use crate::hf_class::HfClass;
use crate::source_config::is_gguf;
use leyden_tensor::WeightSource;
use std::ops::Range;

/// One of them: a matrix, or some rows of one that consists of several.
#[derive(Debug)]
pub(crate) struct Target {
    /// The matrix's name in GGUF, without `.weight`.
    pub(crate) name: String,
    /// Rows of the whole matrix.
    pub(crate) rows: usize,
    pub(crate) k: usize,
    /// The target's rows among them.
    pub(crate) part: Vec<Range<usize>>,
}

/// All of a network's.
#[derive(Debug)]
pub(crate) struct Targets {
    pub(crate) list: Vec<Target>,
    pub(crate) architecture: &'static Architecture,
    /// The class of the model's folder; of a GGUF file those that its folder may have been of.
    pub(crate) classes: Vec<&'static HfClass>,
    /// Whether the model is a folder, whose rows lie as in adapters of PEFT.
    pub(crate) of_folder: bool,
    /// Of each layer: heads of queries, of keys, and values of a head.
    pub(crate) heads: Vec<[usize; 3]>,
}

impl Targets {
    /// Those of the model in a source.
    ///
    /// # Errors
    /// The model is of no known architecture.
    pub(crate) fn new(
        list: Vec<Target>,
        config: &ModelConfig,
        source: &dyn WeightSource,
    ) -> Result<Targets, Error> {
        let heads = config.layers.iter().map(|layer| [layer.heads, layer.kv_heads, layer.head_dim]).collect();
        let (architecture, classes) = classes_of(source, config)?;
        let of_folder = source.config_json().is_some() && !is_gguf(source.metadata());
        Ok(Targets { list, architecture, classes, of_folder, heads })
    }

    /// Those that a matrix with this name in GGUF consists of, with their numbers.
    pub(crate) fn named(&self, name: &str) -> impl Iterator<Item = (usize, &Target)> {
        self.list.iter().enumerate().filter(move |(_, target)| target.name == name)
    }
}

/// The number of a layer in a name of GGUF, and the name behind it.
pub(crate) fn layer_of(name: &str) -> Option<(usize, &str)> {
    let (layer, part) = name.strip_prefix("blk.")?.split_once('.')?;
    Some((layer.parse().ok()?, part))
}

/// The architecture of a source's model and its class in Hugging Face's libraries; of a GGUF file all that it may have had.
///
/// # Errors
/// The model is of no known architecture.
fn classes_of(
    source: &dyn WeightSource,
    config: &ModelConfig,
) -> Result<(&'static Architecture, Vec<&'static HfClass>), Error> {
    if let Some(json) = source.config_json() {
        return hf_class(json).map(|(architecture, class)| (architecture, vec![class]));
    }
    let (key, meta) = ("general.architecture", source.metadata());
    let found = ARCHITECTURES.iter().find(|a| a.name == config.architecture);
    let found = found.ok_or_else(|| {
        let known = ARCHITECTURES.iter().map(|a| a.name).collect();
        Error::unknown_architecture(meta.file(), key, config.architecture, known)
    })?;
    Ok((found, found.hf.iter().collect()))
}
