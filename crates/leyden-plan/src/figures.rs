//! [`figures`]: rates of a language model under a workload.

use crate::grade::Bands;
use crate::interval::{Band, Interval};
use crate::machine::Machine;
use crate::model::ModelFacts;
use crate::step::{StepLoad, StepTime, step_time};
use crate::workload::Workload;
use serde::Serialize;

/// Predicted rates of a language model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Tokens of one prompt per second, nothing else running.
    pub prefill_tps: Interval,
    /// Tokens per second of each user while all generate together.
    pub decode_tps: Interval,
    /// Tokens per second of all users while all generate together.
    pub decode_tps_all: Interval,
    /// Seconds to the first token of a prompt that comes while the other users generate.
    pub ttft_s: Interval,
    /// Seconds to the first token of the last user if all prompts come at once.
    pub ttft_burst_s: Interval,
    /// Tokens per second of each user in steady use: others' prompts interrupt the generation.
    pub user_tps: Interval,
    /// Tokens per second of all users in steady use, the time of their prompts included.
    pub output_tps: Interval,
    /// Requests per hour in steady use.
    pub requests_per_hour: Interval,
    /// Machine seconds of an input token.
    pub input_token_s: Interval,
    /// Machine seconds of an output token.
    pub output_token_s: Interval,
    /// Parts of a step in which all users generate a token.
    pub decode_step: StepTime,
    /// Parts of the steps that read one prompt.
    pub prefill_step: StepTime,
}

/// Predicts the rates of a language model.
#[must_use]
pub fn figures(model: &ModelFacts, machine: &Machine, load: &Workload) -> Figures {
    with_bands(model, machine, load, &Bands::of(machine.class))
}

/// Does the same as [`figures`] with bands that were computed before.
pub(crate) fn with_bands(model: &ModelFacts, machine: &Machine, load: &Workload, bands: &Bands) -> Figures {
    let (users, prompt, output) = (load.users as f64, load.prompt as f64, load.output as f64);
    let prefill = prefill_seconds(model, machine, load);
    let step = decode_step(model, machine, load, load.users);
    let others = match load.users {
        0 | 1 => 0.0,
        n => decode_step(model, machine, load, n - 1).total,
    };
    let prefill_band = bands.prefill.and(spec_band(machine, &prefill));
    let together = if load.users > 1 { bands.together } else { bands.decode };
    let decode_band = together.and(spec_band(machine, &step));

    let prefill_tps = Interval::around(prompt / prefill.total, prefill_band);
    let decode_tps = Interval::around(1.0 / step.total, decode_band);
    let prefill_s = prefill_tps.inverse(prompt);
    let step_s = decode_tps.inverse(1.0);
    let steps = load.prompt.div_ceil(load.step_tokens.max(1)) as f64;
    let others_s = Interval::around(1.0, decode_band).inverse(others * steps);
    let ttft_s = if others > 0.0 { prefill_s.plus(others_s) } else { prefill_s };
    // In one turn of all users the machine reads every prompt once and makes every answer once.
    let turn_s = prefill_s.times(users).plus(step_s.times(output));
    let answer_s = prefill_s.times(users - 1.0).plus(step_s.times(output));
    Figures {
        prefill_tps,
        decode_tps,
        decode_tps_all: decode_tps.times(users),
        ttft_s,
        ttft_burst_s: prefill_s.times(users),
        user_tps: answer_s.inverse(output),
        output_tps: turn_s.inverse(output * users),
        requests_per_hour: turn_s.inverse(3600.0 * users),
        input_token_s: prefill_tps.inverse(1.0),
        output_token_s: step_s.times(1.0 / users),
        decode_step: step,
        prefill_step: prefill,
    }
}

/// Returns the time of a prompt, computed in steps.
fn prefill_seconds(model: &ModelFacts, machine: &Machine, load: &Workload) -> StepTime {
    let mut sum = StepTime::default();
    let mut depth = 0;
    while depth < load.prompt {
        let tokens = load.step_tokens.max(1).min(load.prompt - depth);
        let outputs = usize::from(depth + tokens == load.prompt);
        let step = StepLoad { sequences: 1, tokens, depth, outputs, kv_type: load.kv_type };
        let time = step_time(model, machine, &step);
        sum.products += time.products;
        sum.reads += time.reads;
        sum.attention += time.attention;
        sum.overhead += time.overhead;
        sum.total += time.total;
        sum.macs += time.macs;
        sum.bytes += time.bytes;
        depth += tokens;
    }
    sum
}

/// Returns the time of a step in which `users` sequences generate a token, half of their answers written.
fn decode_step(model: &ModelFacts, machine: &Machine, load: &Workload, users: usize) -> StepTime {
    let depth = load.prompt + load.output / 2;
    let step = StepLoad { sequences: users, tokens: 1, depth, outputs: 1, kv_type: load.kv_type };
    step_time(model, machine, &step)
}

/// Returns the band of a machine's bandwidth and clock, weighted by the parts of the time that depend on them.
fn spec_band(machine: &Machine, time: &StepTime) -> Band {
    let share = time.reads / (time.reads + time.products + time.attention).max(f64::MIN_POSITIVE);
    let weighted =
        |band: Band, weight: f64| Band { low: band.low.powf(weight), high: band.high.powf(weight) };
    weighted(machine.read_bytes.band(), share).and(weighted(machine.products, 1.0 - share))
}
