//! [`Targets`]: projections of a loaded network that adapters can change, and the order of their rows.

use crate::arch::{ARCHITECTURES, hf_class};
use crate::architecture::Architecture;
use crate::config::ModelConfig;
use crate::error::Error;
use crate::hf_class::HfClass;
use crate::source_config::is_gguf;
use leyden_tensor::WeightSource;
use std::ops::Range;

/// Projection that adapters can change: a matrix, or a part of a joint one.
#[derive(Debug)]
pub(crate) struct Target {
    /// Name of the stored matrix in GGUF, without `.weight`.
    pub(crate) name: String,
    /// Number of rows of the stored matrix.
    pub(crate) rows: usize,
    /// Number of columns.
    pub(crate) k: usize,
    /// Rows of the target in the stored matrix.
    pub(crate) part: Vec<Range<usize>>,
}

/// Targets of a network.
#[derive(Debug)]
pub(crate) struct Targets {
    pub(crate) list: Vec<Target>,
    pub(crate) architecture: &'static Architecture,
    /// Class of the model's folder in transformers; for a GGUF file, all classes of the architecture.
    pub(crate) classes: Vec<&'static HfClass>,
    /// True if the model is a folder, whose rows have the order of PEFT adapters.
    pub(crate) of_folder: bool,
    /// Number of query heads, number of key-value heads, and head dimension of each layer.
    pub(crate) heads: Vec<[usize; 3]>,
}

impl Targets {
    /// Creates the targets of the model in a source.
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

    /// Iterates over the targets in the stored matrix of this GGUF name, with their indices.
    pub(crate) fn named(&self, name: &str) -> impl Iterator<Item = (usize, &Target)> {
        self.list.iter().enumerate().filter(move |(_, target)| target.name == name)
    }
}

/// Splits a GGUF name into the number of its layer and the rest.
pub(crate) fn layer_of(name: &str) -> Option<(usize, &str)> {
    let (layer, part) = name.strip_prefix("blk.")?.split_once('.')?;
    Some((layer.parse().ok()?, part))
}

/// Returns the architecture of a source's model, and its class in transformers; for a GGUF file, all classes of the
/// architecture.
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
