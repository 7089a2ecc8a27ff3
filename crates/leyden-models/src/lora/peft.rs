//! Adapters in folders, as PEFT writes them: `adapter_config.json` and `adapter_model.safetensors`.

use super::adapter::Adapter;
use super::pairs::{Halves, Pair, pack, unsupported};
use super::targets::Targets;
use crate::error::Error;
use crate::hf_class::HfClass;
use leyden_kernels::Cpu;
use leyden_tensor::{HfFile, HfFolder, Json, KnownKeys, Safetensors, WeightSource, harmless_key, read_key};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// What the weights may be called; the first is what PEFT writes today.
const WEIGHTS: [&str; 2] = ["adapter_model.safetensors", "adapter_model.bin"];
/// What PEFT writes before the names of a model's modules.
const PREFIX: &str = "base_model.model.";
const ENDS: [&str; 2] = [".lora_A.weight", ".lora_B.weight"];

/// Keys that must say nothing, and what it is that they ask for.
const REFUSED: &[(&str, &str)] = &[
    ("use_dora", "DoRA (weight-decomposed adapters)"),
    ("use_qalora", "QALoRA"),
    ("lora_bias", "biases of adapters"),
    ("modules_to_save", "modules that were trained whole"),
    ("layer_replication", "layers that stand several times"),
    ("trainable_token_indices", "trained embeddings of tokens"),
    ("target_parameters", "adapters of parameters that are no module, as of experts"),
    ("alora_invocation_tokens", "activated LoRA"),
    ("arrow_config", "Arrow routing"),
];
/// The keys of `adapter_config.json` that are not refused above.
const KEYS: KnownKeys = KnownKeys(&[
    read_key("alpha_pattern"),
    read_key("base_model_name_or_path"),
    read_key("bias"),
    read_key("init_lora_weights"),
    read_key("lora_alpha"),
    read_key("peft_type"),
    read_key("r"),
    read_key("rank_pattern"),
    read_key("use_rslora"),
    // The tensors say which modules are changed.
    harmless_key("exclude_modules"),
    harmless_key("layers_pattern"),
    harmless_key("layers_to_transform"),
    harmless_key("target_modules"),
    // Of training, and remarks.
    harmless_key("auto_mapping"),
    harmless_key("corda_config"),
    harmless_key("ensure_weight_tying"),
    harmless_key("eva_config"),
    harmless_key("fan_in_fan_out"),
    harmless_key("inference_mode"),
    harmless_key("loftq_config"),
    harmless_key("lora_dropout"),
    harmless_key("megatron_config"),
    harmless_key("megatron_core"),
    harmless_key("peft_version"),
    harmless_key("qalora_group_size"),
    harmless_key("revision"),
    harmless_key("runtime_config"),
    harmless_key("task_type"),
]);
/// Beginnings of values of `init_lora_weights` with which the model's own weights were changed.
const CHANGED_BASE: [&str; 4] = ["pissa", "olora", "corda", "loftq"];

/// What `adapter_config.json` says about scales.
struct Config<'a> {
    json: &'a Json,
    rank: u32,
    alpha: f32,
    root: bool,
}

/// Reads one for a model.
pub(super) fn read(targets: &Arc<Targets>, cpu: &Cpu, path: &Path) -> Result<Adapter, Error> {
    let folder = path.display().to_string();
    let Some(json) = HfFolder::json_at(path, HfFile::AdapterConfig)? else {
        let what = "is missing: not a folder of a PEFT adapter";
        return Err(Error::invalid(&folder, HfFile::AdapterConfig.name(), what));
    };
    let config = Config::of(&json)?;
    let weights = WEIGHTS.iter().map(|name| path.join(name)).find(|path| path.exists());
    let Some(weights) = weights else {
        return Err(Error::invalid(&folder, WEIGHTS[0], "is missing"));
    };
    let file = weights.display().to_string();
    let weights = Safetensors::open(&weights)?;
    let mut halves = Halves::default();
    for name in weights.tensor_names() {
        let half = ENDS.iter().enumerate().find_map(|(i, end)| Some((i, name.strip_suffix(end)?)));
        match half {
            Some((which, module)) => halves.put(module, which, weights.require(name)?),
            None => return Err(Error::invalid(&file, name, foreign(name))),
        }
    }
    let made_for = json.opt_str("base_model_name_or_path")?.unwrap_or_default();
    let mut pairs = Vec::new();
    for (module, [down, up]) in halves.complete(&file, ["lora_A", "lora_B"])? {
        let module = module.strip_prefix(PREFIX).unwrap_or(&module);
        let Some((target, class)) = find(targets, module) else {
            let mut what = why_not(targets, module);
            if !made_for.is_empty() {
                what += &format!("; the adapter was made for {made_for}");
            }
            return Err(Error::invalid(&file, down.name(), what));
        };
        let (rank, scale) = config.of_module(module)?;
        if down.shape().first() != Some(&rank) {
            let (shape, config) = (down.shape(), json.file());
            let what = format!("shape {shape:?} does not fit rank {rank}, which {config} has for it");
            return Err(Error::invalid(&file, down.name(), what));
        }
        pairs.push(Pair { target, down, up, scale, class: Some(class), of_folder: true });
    }
    let adapter = pack(targets, cpu, path, &file, &pairs)?;
    weights.check_intact()?;
    Ok(adapter)
}

impl<'a> Config<'a> {
    /// Refuses what changes the result and is not computed.
    fn of(json: &'a Json) -> Result<Config<'a>, Error> {
        let refuse = |key: &str, what: String| Err(Error::invalid(json.file(), key, what));
        let kind = json.str("peft_type")?;
        if !kind.eq_ignore_ascii_case("lora") {
            return refuse("peft_type", format!("adapters of type `{kind}` are not supported; LORA are"));
        }
        for (key, what) in REFUSED {
            if json.get(key).is_some_and(says_something) {
                return refuse(key, format!("{what}: not supported"));
            }
        }
        if let Some(key) = json.object().iter().find(|(key, value)| {
            let known = KEYS.0.iter().any(|row| row.key == *key) || REFUSED.iter().any(|row| row.0 == *key);
            !known && says_something(value)
        }) {
            return refuse(key.0, "is not a known key, and may change results".to_owned());
        }
        let bias = json.opt_str("bias")?.unwrap_or("none");
        if bias != "none" {
            return refuse("bias", format!("`{bias}`: adapters with trained biases are not supported"));
        }
        if let Some(Value::String(way)) = json.get("init_lora_weights")
            && CHANGED_BASE.iter().any(|begin| way.to_lowercase().starts_with(begin))
        {
            let what = format!(
                "`{way}` changes the weights of the model too; save the adapter with \
                 `path_initial_model_for_weight_conversion`, which makes it plain LoRA"
            );
            return refuse("init_lora_weights", what);
        }
        let rank = json.u32("r")?;
        let alpha = json.f32("lora_alpha")?;
        Ok(Config { json, rank, alpha, root: json.opt_bool("use_rslora")?.unwrap_or(false) })
    }

    /// Rank and scale of a module.
    fn of_module(&self, module: &str) -> Result<(usize, f32), Error> {
        let invalid = |key: &str, what: &str| Err(Error::invalid(self.json.file(), key, what.to_owned()));
        let rank = match self.pattern("rank_pattern", module)? {
            None => u64::from(self.rank),
            Some(value) => match value.as_u64() {
                Some(rank) => rank,
                None => return invalid("rank_pattern", "has a rank that is not a whole number"),
            },
        };
        if rank == 0 {
            return invalid("r", "is 0");
        }
        let alpha = match self.pattern("alpha_pattern", module)? {
            None => f64::from(self.alpha),
            Some(value) => match value.as_f64() {
                Some(alpha) => alpha,
                None => return invalid("alpha_pattern", "has a value that is not a number"),
            },
        };
        let divisor = if self.root { (rank as f64).sqrt() } else { rank as f64 };
        let scale = (alpha / divisor) as f32;
        if !scale.is_finite() {
            return invalid("lora_alpha", "is not a finite number");
        }
        Ok((usize::try_from(rank).unwrap_or(usize::MAX), scale))
    }

    /// The value of the first of a table's keys that a module's name ends with; one that begins with `^` is the whole name.
    fn pattern(&self, table: &str, module: &str) -> Result<Option<&'a Value>, Error> {
        let Some(value) = self.json.get(table) else { return Ok(None) };
        let Some(object) = value.as_object() else {
            return Err(self.json.wrong_type(table, "object").into());
        };
        for (key, value) in object {
            let plain = key.replace("\\.", ".");
            let (whole, name) = plain.strip_prefix('^').map_or((false, &plain[..]), |name| (true, name));
            let name = name.strip_suffix('$').unwrap_or(name);
            if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.' || c == '-') {
                let what = format!("`{key}`: patterns other than names of modules are not supported");
                return Err(Error::invalid(self.json.file(), table, what));
            }
            let before = module.strip_suffix(name);
            if before.is_some_and(|before| before.is_empty() || !whole && before.ends_with('.')) {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

/// Whether a value asks for anything.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(values) => !values.is_empty(),
        Value::Object(values) => !values.is_empty(),
        _ => true,
    }
}

/// Why a tensor is not one of an adapter that is computed.
fn foreign(name: &str) -> &'static str {
    if name.contains("lora_embedding_") {
        "adapters of the embedding are not supported"
    } else if name.contains(".base_layer.") || name.contains(".modules_to_save.") {
        "weights of the model itself in an adapter are not supported"
    } else if name.contains("lora_magnitude_vector") {
        "DoRA (weight-decomposed adapters): not supported"
    } else if name.contains("lora_B.bias") {
        "biases of adapters: not supported"
    } else {
        "is not a matrix of a LoRA adapter"
    }
}

/// The projection that a module is, by its name in GGUF, and the class that calls it so.
fn find(targets: &Targets, module: &str) -> Option<(String, &'static HfClass)> {
    let mut found =
        targets.classes.iter().flat_map(|class| names(class, module).map(move |name| (name, *class)));
    found.find(|(name, _)| targets.named(name).next().is_some())
}

/// What GGUF calls a module of a class; names that mean several things are several.
fn names(class: &'static HfClass, module: &str) -> impl Iterator<Item = String> {
    let bare = module.strip_prefix(class.prefix).unwrap_or(module);
    let in_layer = bare.strip_prefix(class.layers).and_then(|rest| rest.strip_prefix('.')?.split_once('.'));
    let in_layer = in_layer.and_then(|(layer, part)| Some((layer.parse::<usize>().ok()?, part)));
    let (layer, part) = in_layer.map_or((None, bare), |(layer, part)| (Some(layer), part));
    let part = part.to_owned();
    let heads = class.head.iter().filter(move |_| layer.is_none());
    class.tensors.iter().chain(heads).filter(move |row| row.1 == part).map(move |row| match layer {
        Some(layer) => format!("blk.{layer}.{}", row.0),
        None => row.0.to_owned(),
    })
}

/// Why a module is no projection that an adapter can change.
fn why_not(targets: &Targets, module: &str) -> String {
    if module.contains(".experts.") {
        return "adapters of a mixture's experts are not supported".to_owned();
    }
    let known = targets.classes.iter().flat_map(|class| names(class, module)).next();
    unsupported(targets, known.as_deref().unwrap_or(module))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_file_is_honoured_or_refused() {
        let of = |more: &str| {
            let text = format!(r#"{{"peft_type": "LORA", "r": 8, "lora_alpha": 16, {more}}}"#);
            let json = Json::parse(text.as_bytes(), "adapter_config.json").unwrap();
            Config::of(&json)
                .map(|config| (config.rank, config.alpha, config.root))
                .map_err(|e| e.to_string())
        };
        assert_eq!(
            of(
                r#""use_rslora": true, "task_type": "CAUSAL_LM", "lora_dropout": 0.1, "target_modules": ["q_proj"],
                "use_dora": false, "modules_to_save": null, "layer_replication": null, "warp_config": null"#
            ),
            Ok((8, 16.0, true))
        );
        for (key, _) in REFUSED {
            let error = of(&format!(r#""{key}": {{"a": 1}}"#)).unwrap_err();
            assert!(error.starts_with(&format!("adapter_config.json: {key}: ")), "{error}");
        }
        for (more, key) in [
            (r#""warp_config": {"a": 1}"#, "warp_config"),
            (r#""bias": "all""#, "bias"),
            (r#""init_lora_weights": "pissa_niter_4""#, "init_lora_weights"),
        ] {
            let error = of(more).unwrap_err();
            assert!(error.starts_with(&format!("adapter_config.json: {key}: ")), "{error}");
        }
    }
}
