//! Configuration and tensor layout of a model from its source: GGUF metadata, the `config.json` of a folder, or a
//! GGUF file that embeds the `config.json` of the folder it was converted from.

use crate::arch::{config_of_json, gguf_config, hf_class, hf_model, name_in_gguf};
use crate::architecture::Architecture;
use crate::config::{ModelConfig, RopeScaling};
use crate::error::Error;
use crate::hf_class::HfClass;
use crate::modules::complete;
use crate::stored::Stored;
use leyden_kernels::ops::RopePairs;
use leyden_tensor::{Escaped, Json, Metadata, WeightSource};

/// Returns the configuration of the model in `source`.
///
/// # Errors
/// The architecture is missing or not supported, or a size is missing, impossible or not supported; the error
/// names the key.
pub fn config_of(source: &dyn WeightSource) -> Result<ModelConfig, Error> {
    let mut config = match source.config_json() {
        Some(json) if is_gguf(source.metadata()) => config(json, source.metadata())?,
        Some(json) => config_of_json(json)?,
        None => gguf_config(source.metadata())?,
    };
    complete(&mut config, source)?;
    Ok(config)
}

/// Returns whether the metadata is of a GGUF file that was converted from a folder and embeds its `config.json`.
pub(crate) fn is_gguf(meta: &Metadata) -> bool {
    meta.get("leyden.folder.config").is_some()
}

/// Returns the configuration of a GGUF file that embeds the `config.json` of its folder.
fn config(json: &Json, meta: &Metadata) -> Result<ModelConfig, Error> {
    let (config, class, _) = hf_model(json)?;
    let key = "general.architecture";
    let name = meta.str(key)?;
    let (arch, _) = hf_class(json)?;
    if name != name_in_gguf(arch, &config) {
        let what = format!("`{}` is not the architecture of leyden.folder.config", Escaped(name));
        return Err(Error::invalid(meta.file(), key, what));
    }
    Ok(as_gguf_has(arch, class, config))
}

/// Adapts a folder's configuration to tensors in GGUF's layout: norm weights include their offset, position tables
/// begin at the first position, rows of Q and K are in GGUF's order, and a tensor has the divisors of Llama 3's
/// rotation.
pub(crate) fn as_gguf_has(
    arch: &'static Architecture,
    class: &HfClass,
    mut config: ModelConfig,
) -> ModelConfig {
    config.architecture = name_in_gguf(arch, &config);
    config.norm.offset = 0.0;
    config.learned_positions = config.learned_positions.map(|_| 0);
    config.each(|_, layer| {
        let Some(rope) = &mut layer.rope else { return };
        if class.interleaved {
            rope.pairs = RopePairs::Interleaved;
        }
        // A tensor has its divisors.
        if matches!(rope.scaling, RopeScaling::Llama3 { .. }) {
            rope.scaling = RopeScaling::None;
        }
    })
}

/// Returns the matrix layout of a source.
pub(crate) fn stored_as(source: &dyn WeightSource) -> Result<Stored, Error> {
    match source.config_json() {
        Some(json) if is_gguf(source.metadata()) => {
            hf_class(json).map(|(_, class)| Stored { gate_last: class.stored.gate_last, ..Stored::AS_GGUF })
        }
        Some(json) => hf_class(json).map(|(_, class)| class.stored),
        None => Ok(Stored::AS_GGUF),
    }
}
