//! Adapters in GGUF, as llama.cpp's converter writes them.

use super::adapter::Adapter;
use super::pairs::{Halves, Pair, pack};
use super::targets::Targets;
use crate::error::Error;
use leyden_kernels::Cpu;
use leyden_tensor::{Gguf, WeightSource};
use std::path::Path;
use std::sync::Arc;

const ENDS: [&str; 2] = [".weight.lora_a", ".weight.lora_b"];

/// Reads one for a model.
pub(super) fn read(targets: &Arc<Targets>, cpu: &Cpu, path: &Path) -> Result<Adapter, Error> {
    let gguf = Gguf::open(path)?;
    let meta = gguf.metadata();
    let file = meta.file();
    for (key, wanted) in [("general.type", "adapter"), ("adapter.type", "lora")] {
        let found = meta.opt_str(key)?.unwrap_or("nothing");
        if found != wanted {
            return Err(Error::invalid(file, key, format!("is `{found}`, not `{wanted}`")));
        }
    }
    let key = "general.architecture";
    let (found, model) = (meta.str(key)?, targets.architecture.name);
    if found != model {
        let what =
            format!("the adapter is for models of architecture `{found}`, and this one's is `{model}`");
        return Err(Error::invalid(file, key, what));
    }
    let key = "adapter.alora.invocation_tokens";
    if meta.get(key).is_some() {
        return Err(Error::invalid(file, key, "activated LoRA adapters are not supported"));
    }
    // As llama.cpp has it: where there is none, the product is taken as it is.
    let key = "adapter.lora.alpha";
    let alpha = meta.opt_f32(key)?.unwrap_or(0.0);
    if !alpha.is_finite() {
        return Err(Error::invalid(file, key, format!("{alpha} is not a finite number")));
    }
    let mut halves = Halves::default();
    for name in gguf.tensor_names() {
        let half = ENDS.iter().enumerate().find_map(|(i, end)| Some((i, name.strip_suffix(end)?)));
        let Some((which, module)) = half else {
            return Err(Error::invalid(file, name, "is not a matrix of a LoRA adapter"));
        };
        halves.put(module, which, gguf.require(name)?);
    }
    let mut pairs = Vec::new();
    for (target, [down, up]) in halves.complete(file, ["lora_a", "lora_b"])? {
        let scale = if alpha == 0.0 { 1.0 } else { alpha / down.rows().max(1) as f32 };
        pairs.push(Pair { target, down, up, scale, class: None, of_folder: false });
    }
    let adapter = pack(targets, cpu, path, file, &pairs)?;
    gguf.check_intact()?;
    Ok(adapter)
}
