//! Configuration of a model as `config.json`.

use crate::arch::hf_model;
use crate::architecture::Architecture;
use crate::config::{LayerConfig, ModelConfig, NormKind, NormPlacement, RopeConfig, RopeScaling};
use crate::error::Error;
use crate::hf_class::{DECODER, HfClass};
use leyden_kernels::attention::Mask;
use leyden_tensor::Json;
use serde_json::{Map, Value, json};

/// Properties of a model that its tensors imply.
pub(super) struct Facts {
    pub(super) vocabulary: usize,
    /// True if embedding and output matrix are tied.
    pub(super) tied: bool,
    /// GGUF names, without the layer, of the matrices and norms that have biases, sorted.
    pub(super) biases: Vec<String>,
    /// True if attention has its own norm in blocks with parallel halves.
    pub(super) two_norms: bool,
    /// True if queries and keys are normalised.
    pub(super) qk_norm: bool,
    /// RoPE scaling that tensors describe.
    pub(super) scaling: Option<RopeScaling>,
}

/// Flags that add biases, in classes that have them.
const BIAS_FLAGS: [&str; 6] = ["attention_bias", "mlp_bias", "use_bias", "use_qkv_bias", "qkv_bias", "bias"];

/// Returns a `config.json` of a class that describes the whole model, and the configuration as read back from it. The
/// latter must be the same as the model's, by `differs`, with the same biases.
pub(super) fn describe(
    arch: &'static Architecture,
    class: &'static HfClass,
    c: &ModelConfig,
    facts: &Facts,
    differs: impl Fn(&ModelConfig) -> Option<(&'static str, &'static str)>,
) -> Result<(Value, ModelConfig), Error> {
    let first = attempt(arch, class, c, facts, (false, &differs));
    // A class may have unusual defaults, so that usual values must be explicit.
    first.or_else(|why| attempt(arch, class, c, facts, (true, &differs)).map_err(|_| why))
}

type Differs<'a> = &'a dyn Fn(&ModelConfig) -> Option<(&'static str, &'static str)>;

fn attempt(
    arch: &'static Architecture,
    class: &'static HfClass,
    c: &ModelConfig,
    facts: &Facts,
    (explicit, differs): (bool, Differs<'_>),
) -> Result<(Value, ModelConfig), Error> {
    let mut all = entries(arch, class, c, facts, explicit);
    let document = |all: &Map<String, Value>| {
        Json::parse(Value::Object(all.clone()).to_string().as_bytes(), "config.json")
    };
    for flag in BIAS_FLAGS {
        let with = |value: bool| -> Result<Option<Vec<String>>, Error> {
            let mut all = all.clone();
            all.insert(flag.to_owned(), json!(value));
            let found = (class.biases)(&class.config(&document(&all)?));
            Ok(found.ok().map(|found| kept(class, &found, facts)))
        };
        let [on, off] = [with(true)?, with(false)?];
        if on == off {
            continue;
        }
        // Choose the flag value with fewer differences.
        let off_by = |found: Option<Vec<String>>| {
            let Some(found) = found else { return usize::MAX };
            let missing = facts.biases.iter().filter(|name| !found.contains(name)).count();
            missing + found.iter().filter(|name| !facts.biases.contains(name)).count()
        };
        all.insert(flag.to_owned(), json!(off_by(on) < off_by(off)));
    }
    let (read, found, biases) = hf_model(&document(&all)?)?;
    let invalid = |key: &str, what: String| Err(Error::invalid("config.json", key, what));
    if found.model_type != class.model_type {
        return invalid("model_type", format!("would be read as {}", found.model_type));
    }
    if let Some((key, what)) = differs(&read) {
        return invalid(key, format!("{what}, which {} has no key for", class.model_type));
    }
    let kept = kept(class, &biases, facts);
    if kept != facts.biases {
        let (found, wanted) = (facts.biases.join(", "), kept.join(", "));
        return invalid(
            "",
            format!("biases of `{found}`, where {} has those of `{wanted}`", class.model_type),
        );
    }
    Ok((Value::Object(all), read))
}

/// Returns the possible biases of a class that apply to this model.
fn kept(class: &HfClass, biases: &[&str], facts: &Facts) -> Vec<String> {
    let tensors = |part: &&&str| class.tensors.iter().chain(class.head).any(|row| row.0 == **part);
    let optional =
        |part: &&&str| facts.biases.iter().any(|found| found == **part) || !OPTIONAL.contains(part);
    let mut all: Vec<String> =
        biases.iter().filter(tensors).filter(optional).map(|part| (*part).to_owned()).collect();
    all.sort();
    all.dedup();
    all
}

/// Norms that some models of a class lack, with their biases.
const OPTIONAL: [&str; 2] = ["attn_norm_2", "ffn_norm"];

/// Returns the shortest decimal that rounds to a float, as people write it: 1e-5 and not 0.000009999999747378752.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

struct Entries {
    arch: &'static Architecture,
    class: &'static HfClass,
    /// True if defaults are written, too.
    explicit: bool,
    all: Map<String, Value>,
}

impl Entries {
    /// Sets a key, by its usual name, under the class's name for it.
    fn set(&mut self, usual: &str, value: impl Into<Value>) {
        let key = self.class.keys.iter().find(|row| row.0 == usual).map_or(usual, |row| row.1);
        self.all.insert(key.to_owned(), value.into());
    }

    fn float(&mut self, usual: &str, value: f32) {
        self.set(usual, shortest(value));
    }

    fn owns(&self, key: &str) -> bool {
        self.arch.own_keys.contains(&key)
    }

    /// Sets a key if it is among the architecture's own keys.
    fn own(&mut self, key: &str, value: f32) {
        if self.owns(key) {
            self.float(key, value);
        }
    }
}

fn entries(
    arch: &'static Architecture,
    class: &'static HfClass,
    c: &ModelConfig,
    facts: &Facts,
    explicit: bool,
) -> Map<String, Value> {
    let mut all = Entries { arch, class, explicit, all: Map::new() };
    let layer = &c.layers[0];
    all.set("model_type", class.model_type);
    all.set("architectures", class.classes.iter().take(1).copied().collect::<Vec<_>>());
    all.set("vocab_size", facts.vocabulary);
    all.set("tie_word_embeddings", facts.tied);
    all.set("hidden_size", c.width);
    all.set("num_hidden_layers", c.layers.len());
    all.set("num_attention_heads", layer.heads);
    // The oldest classes derive `head_dim`, and lack `num_key_value_heads` unless they rename it.
    let old = class.prefix != DECODER.prefix;
    if !old || layer.head_dim * layer.heads != c.width {
        all.set("head_dim", layer.head_dim);
    }
    if !old || layer.kv_heads != layer.heads || class.keys.iter().any(|row| row.0 == "num_key_value_heads") {
        all.set("num_key_value_heads", layer.kv_heads);
    }
    all.set("max_position_embeddings", c.context);
    let eps = if c.norm.kind == NormKind::Rms { "rms_norm_eps" } else { "layer_norm_eps" };
    all.float(eps, c.norm.eps);
    if let Some((name, _)) = class.activations.iter().find(|row| row.1 == layer.activation) {
        all.set("hidden_act", *name);
        if all.owns("hidden_activation") {
            all.set("hidden_activation", *name);
        }
    }
    match c.experts() {
        None => all.set("intermediate_size", layer.ffn),
        Some(_) => mixture(&mut all, c),
    }
    rotation(&mut all, c, facts);
    windows(&mut all, c);
    // The class in transformers requires an integer if the value is one.
    if all.owns("query_pre_attn_scalar") {
        let scalar = whole(layer.attention_scale.powi(-2));
        match scalar.fract() == 0.0 && scalar < 1e6 {
            true => all.set("query_pre_attn_scalar", scalar as u32),
            false => all.float("query_pre_attn_scalar", scalar),
        }
    }
    all.own("attention_multiplier", layer.attention_scale);
    all.own("embedding_multiplier", c.embedding_scale);
    all.own("residual_multiplier", layer.residual_scale);
    all.own("logits_scaling", whole(1.0 / c.logit_scale));
    if !all.owns("logits_scaling") {
        all.own("logit_scale", c.logit_scale);
    }
    for (key, cap) in
        [("attn_logit_softcapping", layer.attention_soft_cap), ("final_logit_softcapping", c.logit_soft_cap)]
    {
        if all.owns(key) {
            all.set(key, cap.map(shortest));
        }
    }
    let parallel = layer.norms == NormPlacement::Parallel;
    if all.owns("use_parallel_residual") {
        all.set("use_parallel_residual", parallel);
    }
    if all.owns("use_qk_norm") {
        all.set("use_qk_norm", facts.qk_norm);
    }
    if all.owns("parallel_attn") {
        all.set("parallel_attn", parallel);
        let groups = facts.two_norms || (layer.kv_heads != 1 && layer.kv_heads != layer.heads);
        all.set("new_decoder_architecture", groups);
        all.set("multi_query", !groups && layer.kv_heads == 1);
        if groups {
            all.set("num_ln_in_parallel_attn", if facts.two_norms { 2 } else { 1 });
        }
        all.set("alibi", false);
    }
    all.all
}

/// Removes rounding errors from a number close to a multiple of 1/64.
fn whole(value: f32) -> f32 {
    let near = (value * 64.0).round() / 64.0;
    if (near - value).abs() <= near.abs() * 1e-6 { near } else { value }
}

fn mixture(all: &mut Entries, c: &ModelConfig) {
    let Some(e) = c.experts() else { return };
    let dense = c.layers.iter().take_while(|layer| layer.experts.is_none()).count();
    let width = c.layers.last().map_or(0, |layer| layer.ffn);
    all.set("intermediate_size", if dense > 0 { c.layers[0].ffn } else { width });
    all.set("num_experts", e.count);
    all.set("num_experts_per_tok", e.used);
    all.set("moe_intermediate_size", width);
    all.set("norm_topk_prob", e.normalise);
    if all.owns("n_shared_experts") {
        all.set("n_shared_experts", e.shared.map_or(0, |shared| shared.ffn / width.max(1)));
        all.set("first_k_dense_replace", dense);
    }
    for key in ["shared_expert_intermediate_size", "shared_intermediate_size"] {
        if let Some(shared) = e.shared.filter(|_| all.owns(key)) {
            all.set(key, shared.ffn);
        }
    }
    all.own("routed_scaling_factor", e.scale);
    if all.owns("n_group") {
        all.set("n_group", e.groups.map_or(1, |groups| groups.count));
        all.set("topk_group", e.groups.map_or(1, |groups| groups.used));
    }
}

fn rotation(all: &mut Entries, c: &ModelConfig, facts: &Facts) {
    let whole = |layer: &&LayerConfig| layer.rope.is_some() && layer.mask.window().is_none();
    let first = c.layers.iter().find(whole).or(c.layers.iter().find(|layer| layer.rope.is_some()));
    let Some(rope) = first.and_then(|layer| layer.rope.as_ref()) else { return };
    all.float("rope_theta", rope.base);
    let dim = c.layers[0].head_dim;
    let share = rope.dims as f32 / dim as f32;
    if all.class.keys.iter().any(|row| row.0 == "partial_rotary_factor") || rope.dims != dim || all.explicit {
        all.float("partial_rotary_factor", share);
    }
    if all.owns("no_rope_layers") {
        all.set("no_rope_layers", c.layers.iter().map(|l| u8::from(l.rope.is_some())).collect::<Vec<_>>());
    }
    let of_windows = c.layers.iter().filter(|layer| layer.mask.window().is_some());
    let said = |r: &&RopeConfig| r.base != rope.base || all.explicit;
    if let Some(local) = of_windows.filter_map(|layer| layer.rope.as_ref()).find(said).map(|r| r.base) {
        all.float("rope_local_base_freq", local);
    }
    let scaling = match facts.scaling.as_ref().unwrap_or(&rope.scaling) {
        RopeScaling::Linear { factor } => json!({ "rope_type": "linear", "factor": shortest(*factor) }),
        &RopeScaling::Llama3 { factor, low, high, original_context } => json!({
            "rope_type": "llama3", "factor": shortest(factor), "low_freq_factor": shortest(low),
            "high_freq_factor": shortest(high), "original_max_position_embeddings": original_context,
        }),
        &RopeScaling::Yarn { factor, original_context, ramp, attention } => json!({
            "rope_type": "yarn", "factor": shortest(factor), "beta_fast": shortest(ramp.fast),
            "beta_slow": shortest(ramp.slow), "attention_factor": attention,
            "original_max_position_embeddings": original_context,
        }),
        RopeScaling::LongRope { original_context, divisors, attention } => {
            all.set("original_max_position_embeddings", *original_context);
            let list = |i: usize| divisors[i].iter().map(|d| shortest(*d)).collect::<Vec<f64>>();
            json!({
                "rope_type": "longrope", "type": "longrope", "attention_factor": shortest(*attention as f32),
                "short_factor": list(0), "long_factor": list(1),
                "original_max_position_embeddings": original_context,
            })
        }
        RopeScaling::None | RopeScaling::Undivided | RopeScaling::Proportional { .. } => Value::Null,
    };
    if let Some(temperature) = c.layers[0].temperature
        && let Value::Object(mut rope_parameters) = scaling.clone()
    {
        rope_parameters.insert("llama_4_scaling_beta".to_owned(), json!(shortest(temperature.scale)));
        rope_parameters.insert("rope_theta".to_owned(), json!(shortest(rope.base)));
        all.set("rope_parameters", rope_parameters);
        return;
    }
    if !scaling.is_null() {
        all.set("rope_scaling", scaling);
    }
}

fn windows(all: &mut Entries, c: &ModelConfig) {
    let Some(window) = c.window() else {
        // Classes with a sliding window by default.
        if all.class.defaults.iter().any(|row| row.0 == "sliding_window") {
            all.set("sliding_window", Value::Null);
        }
        return;
    };
    all.set("sliding_window", window);
    let windowed: Vec<bool> = c.layers.iter().map(|layer| matches!(layer.mask, Mask::Window(_))).collect();
    if windowed.contains(&false) {
        let name = |windowed: &bool| if *windowed { "sliding_attention" } else { "full_attention" };
        all.set("layer_types", windowed.iter().map(name).collect::<Vec<_>>());
        // Older classes have the period of full-attention layers.
        let fits = |n: &usize| windowed.iter().enumerate().all(|(i, w)| *w == ((i + 1) % n != 0));
        if let Some(n) = (1..=c.layers.len()).find(fits).filter(|_| all.owns("sliding_window_pattern")) {
            all.set("sliding_window_pattern", n);
        }
    }
}
