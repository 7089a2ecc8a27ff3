//! Adapters in GGUF files as written by llama.cpp's converter.

use super::adapter::Adapter;
use super::pairs::{Matrices, Pair, pack};
use super::targets::Targets;
use crate::error::Error;
use leyden_kernels::Cpu;
use leyden_tensor::{Escaped, Gguf, WeightSource};
use std::path::Path;
use std::sync::Arc;

const SUFFIXES: [&str; 2] = [".weight.lora_a", ".weight.lora_b"];

/// Reads an adapter for a model.
pub(super) fn read(targets: &Arc<Targets>, cpu: &Cpu, path: &Path) -> Result<Adapter, Error> {
    let gguf = Gguf::open(path)?;
    let meta = gguf.metadata();
    let file = meta.file();
    for (key, wanted) in [("general.type", "adapter"), ("adapter.type", "lora")] {
        let found = meta.opt_str(key)?.unwrap_or("nothing");
        if found != wanted {
            return Err(Error::invalid(file, key, format!("is `{}`, not `{wanted}`", Escaped(found))));
        }
    }
    let key = "general.architecture";
    let (found, model) = (meta.str(key)?, targets.architecture.name);
    if found != model {
        let what = format!(
            "the adapter is for models of architecture `{}`, and this one's is `{model}`",
            Escaped(found)
        );
        return Err(Error::invalid(file, key, what));
    }
    let key = "adapter.alora.invocation_tokens";
    if meta.get(key).is_some() {
        return Err(Error::invalid(file, key, "activated LoRA adapters are not supported"));
    }
    // As in llama.cpp, the scale is 1 without an alpha.
    let key = "adapter.lora.alpha";
    let alpha = meta.opt_f32(key)?.unwrap_or(0.0);
    if !alpha.is_finite() {
        return Err(Error::invalid(file, key, format!("{alpha} is not a finite number")));
    }
    let mut found = Matrices::default();
    for name in gguf.tensor_names() {
        let matrix = SUFFIXES.iter().enumerate().find_map(|(i, end)| Some((i, name.strip_suffix(end)?)));
        let Some((which, module)) = matrix else {
            return Err(Error::invalid(file, name, "is not a matrix of a LoRA adapter"));
        };
        found.put(module, which, gguf.require(name)?);
    }
    let mut pairs = Vec::new();
    for (target, [down, up]) in found.complete(file, ["lora_a", "lora_b"])? {
        let scale = if alpha == 0.0 { 1.0 } else { alpha / down.rows().max(1) as f32 };
        pairs.push(Pair { target, down, up, scale, class: None, of_folder: false });
    }
    let adapter = pack(targets, cpu, path, file, &pairs)?;
    gguf.check_intact()?;
    Ok(adapter)
}
