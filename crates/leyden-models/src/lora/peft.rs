//! Adapters in PEFT folders: `adapter_config.json` and `adapter_model.safetensors`.

use super::adapter::Adapter;
use super::pairs::{Matrices, Pair, pack, unsupported};
use super::targets::Targets;
use crate::error::Error;
use crate::hf_class::HfClass;
use leyden_kernels::Cpu;
use leyden_tensor::{
    Escaped, HfFile, HfFolder, Json, KnownKeys, Safetensors, WeightSource, harmless_key, read_key,
};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// Names of the file of weights; PEFT writes the first today.
const WEIGHTS: [&str; 2] = ["adapter_model.safetensors", "adapter_model.bin"];
/// Prefix of a model's module names in PEFT files.
const PREFIX: &str = "base_model.model.";
const SUFFIXES: [&str; 2] = [".lora_A.weight", ".lora_B.weight"];

/// Keys that must be absent, null, false or empty, and the unsupported features that they ask for.
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
/// Keys of `adapter_config.json` that are accepted.
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
    // Settings of training, and remarks.
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
/// Prefixes of values of `init_lora_weights` with which training also changes the model's own weights.
const CHANGED_BASE: [&str; 4] = ["pissa", "olora", "corda", "loftq"];

/// Settings of `adapter_config.json` that set the scales of modules.
struct Config<'a> {
    json: &'a Json,
    rank: u32,
    alpha: f32,
    /// True to divide alpha by the square root of the rank (rsLoRA; Kalajdzievski, 2023).
    root: bool,
}

/// Reads an adapter for a model.
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
    let mut found = Matrices::default();
    for name in weights.tensor_names() {
        let matrix = SUFFIXES.iter().enumerate().find_map(|(i, end)| Some((i, name.strip_suffix(end)?)));
        match matrix {
            Some((which, module)) => found.put(module, which, weights.require(name)?),
            None => return Err(Error::invalid(&file, name, unsupported_tensor(name))),
        }
    }
    let made_for = json.opt_str("base_model_name_or_path")?.unwrap_or_default();
    let mut pairs = Vec::new();
    for (module, [down, up]) in found.complete(&file, ["lora_A", "lora_B"])? {
        let module = module.strip_prefix(PREFIX).unwrap_or(&module);
        let Some((target, class)) = find(targets, module) else {
            let mut what = unsupported_module(targets, module);
            if !made_for.is_empty() {
                what += &format!("; the adapter was made for {}", Escaped(made_for));
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
    /// Reads the settings, and refuses those that would change results and are not supported.
    fn of(json: &'a Json) -> Result<Config<'a>, Error> {
        let refuse = |key: &str, what: String| Err(Error::invalid(json.file(), key, what));
        let kind = json.str("peft_type")?;
        if !kind.eq_ignore_ascii_case("lora") {
            return refuse(
                "peft_type",
                format!("adapters of type `{}` are not supported; LORA are", Escaped(kind)),
            );
        }
        for (key, what) in REFUSED {
            if json.get(key).is_some_and(is_set) {
                return refuse(key, format!("{what}: not supported"));
            }
        }
        if let Some(key) = json.object().iter().find(|(key, value)| {
            let known = KEYS.0.iter().any(|row| row.key == *key) || REFUSED.iter().any(|row| row.0 == *key);
            !known && is_set(value)
        }) {
            return refuse(key.0, "is not a known key, and may change results".to_owned());
        }
        let bias = json.opt_str("bias")?.unwrap_or("none");
        if bias != "none" {
            return refuse(
                "bias",
                format!("`{}`: adapters with trained biases are not supported", Escaped(bias)),
            );
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

    /// Returns rank and scale of a module.
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

    /// Returns the value of the first key of `table` that matches a module's name: as its last components, or as a
    /// whole for a key that begins with `^`.
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
                let what =
                    format!("`{}`: patterns other than names of modules are not supported", Escaped(key));
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

/// Returns true unless a value is null, false or empty.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(values) => !values.is_empty(),
        Value::Object(values) => !values.is_empty(),
        _ => true,
    }
}

/// Returns the message for a tensor that is no LoRA matrix.
fn unsupported_tensor(name: &str) -> &'static str {
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

/// Returns the GGUF name of a module that adapters can change, and the class that has a module of this name.
fn find(targets: &Targets, module: &str) -> Option<(String, &'static HfClass)> {
    let mut found =
        targets.classes.iter().flat_map(|class| names(class, module).map(move |name| (name, *class)));
    found.find(|(name, _)| targets.named(name).next().is_some())
}

/// Returns the GGUF names of a module of a class; a module name may have several.
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

/// Returns the message for a module that is no projection an adapter can change.
fn unsupported_module(targets: &Targets, module: &str) -> String {
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
        let error = of(r#""bias": "\u007f\u001b[31m""#).unwrap_err();
        assert!(error.contains(r"\u{7f}\u{1b}[31m"), "{error}");
    }
}
