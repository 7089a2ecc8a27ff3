//! [`encoder_figures`]: documents per hour of an encoder.

use crate::grade::Bands;
use crate::interval::Interval;
use crate::machine::Machine;
use crate::model::ModelFacts;
use crate::step::{StepLoad, step_time};
use leyden_kernels::attention::KvType;
use serde::Serialize;

/// Predicted rates of an encoder.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EncoderFigures {
    /// Documents per second.
    pub documents_per_second: Interval,
    /// Documents per hour.
    pub documents_per_hour: Interval,
    /// Tokens per second.
    pub tokens_per_second: Interval,
    /// Seconds of one document alone.
    pub latency_s: Interval,
}

/// Predicts the rates of an encoder for documents of `tokens` tokens, computed `step_tokens` at a time.
#[must_use]
pub fn encoder_figures(
    model: &ModelFacts,
    machine: &Machine,
    tokens: usize,
    step_tokens: usize,
) -> EncoderFigures {
    let band = Bands::of(machine.class).encoder.and(machine.products);
    let rate = |sequences: usize| {
        let load = StepLoad { sequences, tokens, depth: 0, outputs: tokens, kv_type: KvType::F32 };
        sequences as f64 / step_time(model, machine, &load).total
    };
    let many = Interval::around(rate((step_tokens / tokens.max(1)).max(1)), band);
    EncoderFigures {
        documents_per_second: many,
        documents_per_hour: many.times(3600.0),
        tokens_per_second: many.times(tokens as f64),
        latency_s: Interval::around(rate(1), band).inverse(1.0),
    }
}
