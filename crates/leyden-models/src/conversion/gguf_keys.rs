//! Configuration of a model as GGUF keys.

use crate::arch::{gguf_config, name_in_gguf};
use crate::architecture::Architecture;
use crate::config::{
    HfConfig, Labelled, LayerConfig, ModelConfig, NormKind, NormPlacement, QkNorm, RopeScaling,
    yarn_attention,
};
use crate::error::Error;
use crate::pooling::RANK;
use leyden_kernels::attention::Mask;
use leyden_kernels::gemm::GatingFunction;
use leyden_tensor::{Array, Metadata, Value};
use std::sync::Arc;

/// Representation of the sliding-window layers in a file.
#[derive(Clone, Copy)]
enum Windows {
    /// Default of the architecture.
    Usual,
    /// Period: the last layer of every period has full attention.
    OneOf(usize),
    /// Array with a flag for each layer.
    List,
}

/// Keys, after the architecture's name, with their values.
struct Entries<'a> {
    arch: &'static Architecture,
    all: Vec<(&'a str, Value)>,
}

impl<'a> Entries<'a> {
    fn set(&mut self, key: &'a str, value: Value) {
        self.all.push((key, value));
    }

    fn size(&mut self, key: &'a str, size: usize) {
        self.set(key, narrow(size));
    }

    /// Sets a key if it is among the architecture's own keys.
    fn own(&mut self, key: &'a str, value: Value) {
        if self.arch.own_keys.contains(&key) {
            self.set(key, value);
        }
    }

    /// Sets one number if all layers have the same, or else an array.
    fn layers(&mut self, key: &'a str, config: &ModelConfig, of: impl Fn(&LayerConfig) -> usize) {
        let all: Vec<usize> = config.layers.iter().map(of).collect();
        match all.iter().all(|n| *n == all[0]) {
            true => self.size(key, all[0]),
            false => {
                let all: Vec<u32> = all.iter().map(|n| u32::try_from(*n).unwrap_or(u32::MAX)).collect();
                self.set(key, Value::Array(Array::from_u32(&all)));
            }
        }
    }
}

fn narrow(size: usize) -> Value {
    Value::U32(u32::try_from(size).unwrap_or(u32::MAX))
}

/// Returns the GGUF keys of a model with a vocabulary of `vocabulary` tokens, and the configuration as read back from
/// them.
pub(super) fn describe(
    arch: &'static Architecture,
    hf: &HfConfig<'_>,
    config: &ModelConfig,
    vocabulary: usize,
) -> Result<(Vec<(String, Value)>, ModelConfig), Error> {
    let label = hf.json().file();
    let mut ways = vec![Windows::Usual];
    if arch.own_keys.contains(&"attention.sliding_window_pattern") {
        ways.extend((1..=config.layers.len()).map(Windows::OneOf));
        ways.push(Windows::List);
    }
    let mut why = None;
    for windows in ways {
        let entries = entries(arch, hf, config, windows)?;
        let named = entries.into_iter().map(|(key, value)| (format!("{}.{key}", arch.name), value));
        let named = named.chain([(format!("{}.vocab_size", arch.name), narrow(vocabulary))]);
        let all: Vec<_> =
            [("general.architecture".to_owned(), Value::from(arch.name))].into_iter().chain(named).collect();
        let read = gguf_config(&Metadata::new(label, all.clone())?)?;
        match difference(config, &read) {
            None => return Ok((all, read)),
            Some(what) => why = Some(what),
        }
    }
    let (key, what) = why.unwrap_or_default();
    Err(Error::invalid(label, key, format!("{what}, which this architecture's GGUF files have no key for")))
}

/// Returns the GGUF keys of an encoder, embedding model or classifier: llama.cpp's keys, and those in `description`,
/// the metadata of the folder. Settings without a key are in the folder's `config.json`, which such files embed.
pub(super) fn describe_encoder(
    arch: &'static Architecture,
    hf: &HfConfig<'_>,
    config: &ModelConfig,
    vocabulary: usize,
    description: &Metadata,
) -> Result<Vec<(String, Value)>, Error> {
    let name = name_in_gguf(arch, config);
    let mut all: Vec<(String, Value)> = vec![("general.architecture".to_owned(), Value::from(name))];
    let mut set = |key: &str, value: Value| {
        let key = format!("{name}.{key}");
        match all.iter_mut().find(|row| row.0 == key) {
            Some(row) => row.1 = value,
            None => all.push((key, value)),
        }
    };
    let prefix = format!("{}.", config.architecture);
    for (key, value) in description.iter() {
        // Sizes are written below, in the types that llama.cpp reads.
        if let Some(key) = key.strip_prefix(&prefix).filter(|_| !matches!(value, Value::U64(_))) {
            set(key, value.clone());
        }
    }
    for (key, value) in entries(arch, hf, config, Windows::Usual)? {
        set(key, value);
    }
    set("vocab_size", narrow(vocabulary));
    if config.needs_whole_texts() {
        set("attention.causal", Value::Bool(false));
    }
    let around = |layer: &LayerConfig| match layer.mask {
        Mask::Around(half) => Some(half),
        _ => None,
    };
    if let Some(half) = config.layers.iter().find_map(around) {
        set("attention.sliding_window", narrow(2 * half));
        let whole: Vec<bool> = config.layers.iter().map(|layer| around(layer).is_none()).collect();
        let fits = |n: &usize| whole.iter().enumerate().all(|(i, whole)| *whole == i.is_multiple_of(*n));
        let pattern = match (1..=whole.len()).find(fits) {
            Some(n) => narrow(n),
            None => Value::Array(Array::from_bools(&whole.iter().map(|whole| !whole).collect::<Vec<_>>())),
        };
        set("attention.sliding_window_pattern", pattern);
        let base = |wanted: bool| {
            let mut layers = config.layers.iter().filter(|layer| around(layer).is_some() == wanted);
            layers.find_map(|layer| layer.rope.as_ref()).map(|rope| Value::F32(rope.base))
        };
        for (key, windowed) in [("rope.freq_base", false), ("rope.freq_base_swa", true)] {
            if let Some(base) = base(windowed) {
                set(key, base);
            }
        }
    }
    if let Some(classifier) = config.classifier().filter(|classifier| classifier.of != Labelled::Tokens) {
        set("pooling_type", Value::U32(RANK));
        let labels = classifier.labels.iter().map(String::as_str);
        set("classifier.output_labels", Value::Array(Array::from_strs(labels)));
    }
    Ok(all)
}

fn entries(
    arch: &'static Architecture,
    hf: &HfConfig<'_>,
    c: &ModelConfig,
    windows: Windows,
) -> Result<Vec<(&'static str, Value)>, Error> {
    let mut all = Entries { arch, all: Vec::new() };
    let layer = &c.layers[0];
    all.size("block_count", c.layers.len());
    all.size("context_length", c.context);
    all.size("embedding_length", c.width);
    all.layers("attention.head_count", c, |layer| layer.heads);
    all.layers("attention.head_count_kv", c, |layer| layer.kv_heads);
    all.size("attention.key_length", layer.head_dim);
    all.size("attention.value_length", layer.value_dim);
    let eps = match c.norm.kind {
        NormKind::Rms => "attention.layer_norm_rms_epsilon",
        NormKind::Layer | NormKind::LayerWithoutBias => "attention.layer_norm_epsilon",
    };
    all.set(eps, Value::F32(c.norm.eps));
    match c.experts() {
        None => all.layers("feed_forward_length", c, |layer| layer.ffn),
        Some(_) => mixture(&mut all, hf, c)?,
    }
    rotation(&mut all, hf, c)?;
    if let Some(window) = c.window() {
        all.own("attention.sliding_window", narrow(window));
        let windowed: Vec<bool> = c.layers.iter().map(|layer| layer.mask.window().is_some()).collect();
        match windows {
            Windows::Usual => {}
            Windows::OneOf(n) => all.size("attention.sliding_window_pattern", n),
            Windows::List => {
                all.set("attention.sliding_window_pattern", Value::Array(Array::from_bools(&windowed)));
            }
        }
    }
    all.own("attention.scale", Value::F32(layer.attention_scale));
    all.own("embedding_scale", Value::F32(c.embedding_scale));
    all.own("residual_scale", Value::F32(layer.residual_scale));
    // In GGUF, too, this key is a divisor of logits.
    let divisor = match arch.own_keys.contains(&"logits_scaling") {
        true => Some(hf.json().opt_f32("logits_scaling")?.unwrap_or(1.0)),
        false => None,
    };
    all.own("logit_scale", Value::F32(divisor.unwrap_or(c.logit_scale)));
    if let Some(cap) = layer.attention_soft_cap {
        all.own("attn_logit_softcapping", Value::F32(cap));
    }
    if let Some(cap) = c.logit_soft_cap {
        all.own("final_logit_softcapping", Value::F32(cap));
    }
    all.own("use_parallel_residual", Value::Bool(layer.norms == NormPlacement::Parallel));
    if let Some(temperature) = layer.temperature {
        all.own("attention.temperature_scale", Value::F32(temperature.scale));
    }
    Ok(all.all)
}

fn mixture(all: &mut Entries<'_>, hf: &HfConfig<'_>, c: &ModelConfig) -> Result<(), Error> {
    let Some(e) = c.experts() else { return Ok(()) };
    let dense = c.layers.iter().take_while(|layer| layer.experts.is_none()).count();
    let width = c.layers.last().map_or(0, |layer| layer.ffn);
    let json = hf.json();
    // Some mixtures state the width of a dense layer that they do not have.
    let plain = json.opt_u32(hf.key("intermediate_size"))?.map(|n| n as usize);
    all.size("feed_forward_length", if dense > 0 { c.layers[0].ffn } else { plain.unwrap_or(width) });
    if json.get(hf.key("moe_intermediate_size")).is_some() {
        all.size("expert_feed_forward_length", width);
    }
    all.size("expert_count", e.count);
    all.size("expert_used_count", e.used);
    if dense > 0 {
        all.size("leading_dense_block_count", dense);
    }
    if let Some(shared) = e.shared {
        all.own("expert_shared_feed_forward_length", narrow(shared.ffn));
        all.own("expert_shared_count", narrow(shared.ffn / width.max(1)));
    }
    let gating = if e.gating == GatingFunction::Sigmoid { 2 } else { 1 };
    all.own("expert_gating_func", Value::U32(gating));
    all.own("expert_weights_norm", Value::Bool(e.normalise));
    all.own("expert_weights_scale", Value::F32(e.scale));
    if let Some(groups) = e.groups {
        all.own("expert_group_count", narrow(groups.count));
        all.own("expert_group_used_count", narrow(groups.used));
    }
    Ok(())
}

fn rotation(all: &mut Entries<'_>, hf: &HfConfig<'_>, c: &ModelConfig) -> Result<(), Error> {
    let whole = |layer: &&LayerConfig| layer.rope.is_some() && layer.mask.window().is_none();
    let first = c.layers.iter().find(whole).or(c.layers.iter().find(|layer| layer.rope.is_some()));
    let Some(rope) = first.and_then(|layer| layer.rope.as_ref()) else { return Ok(()) };
    all.size("rope.dimension_count", rope.dims);
    all.set("rope.freq_base", Value::F32(rope.base));
    let of_windows = c.layers.iter().filter(|layer| layer.mask.window().is_some());
    if let Some(other) = of_windows.filter_map(|layer| layer.rope.as_ref()).find(|r| r.base != rope.base) {
        all.set("rope.freq_base_swa", Value::F32(other.base));
    }
    match &rope.scaling {
        // Llama 3.1's scaling is written as a tensor.
        RopeScaling::None | RopeScaling::Llama3 { .. } => {
            if let Some(original) = hf.opt_size("original_max_position_embeddings")? {
                all.size("rope.scaling.original_context_length", original);
            }
        }
        RopeScaling::Linear { factor } => {
            all.set("rope.scaling.type", Value::from("linear"));
            all.set("rope.scaling.factor", Value::F32(*factor));
        }
        &RopeScaling::Yarn { factor, original_context, ramp, attention } => {
            all.set("rope.scaling.type", Value::from("yarn"));
            all.set("rope.scaling.factor", Value::F32(factor));
            all.size("rope.scaling.original_context_length", original_context);
            all.set("rope.scaling.yarn_beta_fast", Value::F32(ramp.fast));
            all.set("rope.scaling.yarn_beta_slow", Value::F32(ramp.slow));
            let plain = yarn_attention(factor, 1.0);
            // llama.cpp reads this key for architectures with attention temperature.
            let reads = all.arch.own_keys.contains(&"attention.temperature_scale");
            if reads && factor > 1.0 && !near(attention, plain) {
                let weight = (plain / attention - 1.0) / (plain - 1.0);
                all.set("rope.scaling.yarn_log_multiplier", Value::F32(weight as f32));
            }
        }
        RopeScaling::LongRope { original_context, attention, .. } => {
            all.set("rope.scaling.attn_factor", Value::F32(*attention as f32));
            all.size("rope.scaling.original_context_length", *original_context);
        }
        RopeScaling::Undivided | RopeScaling::Proportional { .. } => {
            return Err(hf.invalid("rope_scaling", "this type is not converted"));
        }
    }
    Ok(())
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * b.abs()
}

/// Returns the configuration as it would be read from GGUF, without the parts that tensors imply.
fn as_read(config: &ModelConfig, read: &ModelConfig) -> ModelConfig {
    let mut config = config.clone();
    // Tensors imply the offset of norms. MTP layers are not converted.
    (config.norm.offset, config.mtp_layers) = (read.norm.offset, 0);
    let context = config.context;
    for (layer, read) in config.layers.iter_mut().zip(&read.layers) {
        if layer.mask.window().is_some_and(|window| window >= context) {
            layer.mask = Mask::Causal;
        }
        if read.qk_norm == QkNorm::HeadIfThere && layer.qk_norm != QkNorm::Whole {
            layer.qk_norm = QkNorm::HeadIfThere;
        }
        let (Some(rope), Some(read)) = (&mut layer.rope, &read.rope) else { continue };
        rope.pairs = read.pairs;
        match (&mut rope.scaling, &read.scaling) {
            (scaling @ RopeScaling::Llama3 { .. }, _) => *scaling = RopeScaling::None,
            (RopeScaling::Yarn { attention, .. }, RopeScaling::Yarn { attention: found, .. })
                if near(*attention, *found) =>
            {
                *attention = *found
            }
            (RopeScaling::LongRope { divisors, attention, .. }, _) => {
                rope.magnitude *= *attention as f32;
                (*attention, *divisors) = (1.0, Arc::default());
            }
            _ => {}
        }
    }
    config
}

/// Returns the key and a description of the first difference between a folder's configuration and a file's, apart
/// from the parts that tensors imply.
pub(super) fn difference(config: &ModelConfig, read: &ModelConfig) -> Option<(&'static str, &'static str)> {
    let (was, is) = (as_read(config, read), as_read(read, read));
    if was == is {
        return None;
    }
    let layers = || was.layers.iter().zip(&is.layers);
    let differ = |of: &dyn Fn(&LayerConfig, &LayerConfig) -> bool| layers().any(|(a, b)| of(a, b));
    let checks: [(bool, &str, &str); 9] = [
        (differ(&|a, b| a.mask != b.mask), "sliding_window", "a sliding window in some layers"),
        (differ(&|a, b| a.rope.is_some() != b.rope.is_some()), "", "layers without RoPE"),
        (differ(&|a, b| a.rope != b.rope), "rope_parameters", "this RoPE configuration"),
        (differ(&|a, b| a.attention_scale != b.attention_scale), "", "this scale of attention's scores"),
        (
            differ(&|a, b| a.attention_soft_cap != b.attention_soft_cap)
                || was.logit_soft_cap != is.logit_soft_cap,
            "",
            "these caps of scores or logits",
        ),
        (differ(&|a, b| a.norms != b.norms), "", "this placement of norms"),
        (differ(&|a, b| a.activation != b.activation), "hidden_act", "this activation"),
        (differ(&|a, b| a.experts != b.experts), "", "this routing of experts"),
        (differ(&|a, b| a.ffn != b.ffn), "intermediate_size", "feed-forward layers of these widths"),
    ];
    let found = checks.into_iter().find(|row| row.0);
    Some(found.map_or(("", "an option"), |(_, key, what)| (key, what)))
}
