//! [`step_time`]: time of one step by a roofline.
//!
//! The products of all matrices take their multiplications over the kernels' rate, and their reads take bytes over
//! bandwidth. The longer of the two hides the shorter: completely for one token, and but for [`EXPOSED`] of it for many,
//! whose panels are unpacked before they are multiplied. Attention, elementwise work and waiting of threads are added.

use crate::kernels::{CACHED, ELEMENT_SECONDS, EXPOSED, LAYER_SECONDS, MAX_LOSS_CORES, PeakKind};
use crate::machine::Machine;
use crate::matrix::Role;
use crate::model::ModelFacts;
use leyden_kernels::attention::{KvType, Mask};
use leyden_models::LayerConfig;
use serde::Serialize;

/// Tokens of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepLoad {
    /// Number of sequences.
    pub sequences: usize,
    /// New tokens of each.
    pub tokens: usize,
    /// Cached tokens of each before them.
    pub depth: usize,
    /// Tokens of each whose logits or hidden states are wanted.
    pub outputs: usize,
    /// Storage type of keys and values.
    pub kv_type: KvType,
}

/// Time of a step and its parts, in seconds, and its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StepTime {
    /// Multiplications with weights.
    pub products: f64,
    /// Reads of weights.
    pub reads: f64,
    /// Attention, and updates of recurrent states.
    pub attention: f64,
    /// Elementwise work and waiting of threads.
    pub overhead: f64,
    /// Whole step.
    pub total: f64,
    /// Multiply-adds with weights.
    pub macs: f64,
    /// Bytes of weights that are read.
    pub bytes: f64,
}

/// Predicts the time of a step.
#[must_use]
pub fn step_time(model: &ModelFacts, machine: &Machine, load: &StepLoad) -> StepTime {
    let constants = machine.class.constants();
    let tokens = load.sequences * load.tokens;
    let together = load.tokens == 1 && load.sequences > 1;
    let cores = machine.cores.max(1);
    let loss = 1.0 + constants.loss[usize::from(together)] * (cores.min(MAX_LOSS_CORES) - 1) as f64;
    let factor = loss * if together { constants.together } else { 1.0 };
    let rows = model.mix == Some("INT8") && model.config.needs_whole_texts();
    let used = model.config.experts().map_or((1, 1), |e| (e.used, e.count.max(1)));

    let (mut products, mut work, mut bytes) = (0.0, 0.0, 0.0);
    for matrix in &model.matrices {
        let last = matrix.layer.is_some_and(|i| i + 1 == model.config.layers.len());
        let outputs = load.sequences * load.outputs;
        let multiplied = match matrix.role {
            Role::Lookup | Role::Small | Role::Unused => continue,
            Role::Head => outputs,
            Role::Stored => tokens,
            Role::Layer | Role::Experts if last => outputs,
            Role::Layer | Role::Experts => tokens,
        };
        if multiplied == 0 {
            continue;
        }
        let mut macs = matrix.values() as f64 * multiplied as f64;
        let mut read = matrix.bytes() as f64;
        let mut slower = factor;
        if matrix.role == Role::Experts {
            let share = used.0 as f64 / used.1 as f64;
            macs *= share;
            // Expected share of the experts that a token of the step chooses.
            read *= 1.0 - (1.0 - share).powf(multiplied as f64);
            if tokens > 1 {
                slower *= constants.experts;
            }
        }
        let (peak, share) = constants.products(matrix.dtype, rows);
        products += macs / (machine.peak(peak) * share) * slower;
        work += macs;
        bytes += read;
    }
    let cached = bytes * 2.0 <= machine.cache_bytes as f64;
    let bandwidth = machine.read_bytes.value * constants.read * if cached { CACHED } else { 1.0 };
    let reads = bytes / bandwidth;
    let exposed = if tokens > 1 { EXPOSED * (1.0 - 1.0 / tokens as f64) } else { 0.0 };
    let attention = attention_time(model, machine, load);
    let layers = model.config.layers.len() as f64;
    let elements = tokens as f64 * layers * model.config.width as f64;
    let waiting = LAYER_SECONDS[0] + LAYER_SECONDS[1] * (cores - 1) as f64;
    let overhead = elements * ELEMENT_SECONDS / cores as f64 + layers * waiting;
    let total = products.max(reads) + exposed * products.min(reads) + attention + overhead;
    StepTime { products, reads, attention, overhead, total, macs: work, bytes }
}

/// Returns the number of tokens that the new tokens of one sequence attend to, all together.
fn attended(mask: Mask, load: &StepLoad) -> f64 {
    let (tokens, depth) = (load.tokens as f64, load.depth as f64);
    let before = depth + (tokens + 1.0) / 2.0;
    let each = match mask {
        Mask::Causal => before,
        Mask::Full => depth + tokens,
        Mask::Window(window) => before.min(window as f64),
        Mask::Around(side) => (depth + tokens).min(2.0 * side as f64 + 1.0),
    };
    tokens * each
}

/// Predicts the time of attention and of recurrent layers.
fn attention_time(model: &ModelFacts, machine: &Machine, load: &StepLoad) -> f64 {
    let constants = machine.class.constants();
    let sequences = load.sequences as f64;
    let quantised = load.kv_type == KvType::Q8_0 && !model.config.needs_whole_texts();
    let rate = match quantised {
        true => machine.peak(PeakKind::Int8) * constants.attention[1],
        false => machine.peak(PeakKind::F32) * constants.attention[0],
    };
    let (mut macs, mut bytes) = (0.0, 0.0);
    for layer in &model.config.layers {
        if let Some(values) = state_values(model, layer) {
            macs += sequences * load.tokens as f64 * 3.0 * values;
            bytes += sequences * 8.0 * values;
            continue;
        }
        let pairs = sequences * attended(layer.mask, load);
        macs += pairs * (layer.heads * (layer.head_dim + layer.value_dim)) as f64;
        let cached = layer.mask.window().map_or(load.depth, |window| load.depth.min(window));
        let value = (layer.kv_heads * (layer.head_dim + layer.value_dim)) as f64 * value_bytes(load.kv_type);
        bytes += sequences * cached as f64 * value;
    }
    let (compute, reads) = (macs / rate, bytes / (machine.read_bytes.value * constants.read));
    compute.max(reads) + EXPOSED * compute.min(reads)
}

/// Returns the values of a layer's recurrent state, if it has one in place of attention.
fn state_values(model: &ModelFacts, layer: &LayerConfig) -> Option<f64> {
    layer.recurrent?;
    let one = leyden_models::ModelConfig { layers: vec![layer.clone()], ..model.config.clone() };
    let shape = one.kv_shape(&model.file, KvType::F16).ok()?;
    Some(shape.state_bytes() as f64 / 4.0)
}

/// Returns the bytes of a cached value, scales included.
pub(crate) fn value_bytes(kv_type: KvType) -> f64 {
    match kv_type {
        KvType::F32 => 4.0,
        KvType::F16 => 2.0,
        KvType::Q8_0 => 34.0 / 32.0,
    }
}
