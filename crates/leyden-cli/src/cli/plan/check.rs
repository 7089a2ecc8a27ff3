//! `--check`: a short bench of the model here, beside the prediction.

use std::path::Path;
use std::process::{Command, Stdio};

use leyden_plan::{Interval, StepLoad, step_time};
use serde::Serialize;
use serde_json::Value;

use super::planned::{Plan, Speed};
use crate::cli::failure::Failure;

/// Tokens that are generated.
const TOKENS: usize = 32;
const REPETITIONS: usize = 3;

/// Measured rate beside the predicted one.
#[derive(Debug, Serialize)]
pub(super) struct Checked {
    /// Test, as `leyden bench` names it.
    pub(super) test: String,
    /// Predicted tokens per second of all sequences.
    pub(super) predicted: f64,
    /// Measured ones: median with lowest and highest.
    pub(super) measured: Interval,
    /// Multiply-adds with weights of a token.
    pub(super) macs_per_token: f64,
    /// Multiply-adds per byte of weights.
    pub(super) macs_per_byte: f64,
}

/// Runs the bench, with this program.
pub(super) fn run(model: &Path, plan: &Plan) -> Result<Vec<Checked>, Failure> {
    if plan.model.mix.is_some() {
        return Err(Failure::usage("--check measures the model as it is stored; leave --type out"));
    }
    if matches!(plan.speed, Speed::Documents(_)) {
        return Err(Failure::usage("--check measures language models; an encoder has no bench"));
    }
    let (prompt, users) = (plan.load.prompt.min(plan.load.step_tokens), plan.load.users);
    let failed = |what: String| Failure::new(format!("the bench of --check failed: {what}"));
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let parallel = if users > 1 { format!("1,{users}") } else { "1".to_owned() };
    let output = Command::new(program)
        .arg("bench")
        .arg("--model")
        .arg(model)
        .args(["-p", &prompt.to_string(), "-n", &TOKENS.to_string(), "--parallel", &parallel])
        .args([
            "-t",
            &plan.machine.cores.to_string(),
            "-r",
            &REPETITIONS.to_string(),
            "--json",
            "--no-ceilings",
        ])
        .args(["--kv-type", plan.load.kv_type.name(), "-b", &plan.load.step_tokens.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(format!("it ended with {}", output.status)));
    }
    let document: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))?;
    let tests = document["tests"].as_array().ok_or_else(|| failed("it has no tests".to_owned()))?;
    let checked = |test: &Value| checked(plan, test).ok_or_else(|| failed(format!("its test is {test}")));
    tests.iter().map(checked).collect()
}

/// Returns a test of the bench with its prediction.
fn checked(plan: &Plan, test: &Value) -> Option<Checked> {
    let number = |key: &str| test[key].as_u64().and_then(|n| usize::try_from(n).ok());
    let mut samples: Vec<f64> =
        test["samples_ts"].as_array()?.iter().map(Value::as_f64).collect::<Option<_>>()?;
    samples.sort_by(f64::total_cmp);
    let (low, value, high) = (*samples.first()?, samples[samples.len() / 2], *samples.last()?);
    let (prompt, users) = (number("n_prompt")?, number("parallel")?);
    let kv_type = plan.load.kv_type;
    let (load, name) = match prompt {
        0 => {
            let load = StepLoad { sequences: users, tokens: 1, depth: TOKENS / 2, outputs: 1, kv_type };
            (load, if users > 1 { format!("tg{TOKENS} x{users}") } else { format!("tg{TOKENS}") })
        }
        n => (StepLoad { sequences: 1, tokens: n, depth: 0, outputs: 1, kv_type }, format!("pp{n}")),
    };
    let (tokens, step) =
        ((load.sequences * load.tokens) as f64, step_time(&plan.model, &plan.machine, &load));
    Some(Checked {
        test: name,
        predicted: tokens / step.total,
        measured: Interval { value, low, high },
        macs_per_token: step.macs / tokens,
        macs_per_byte: step.macs / step.bytes,
    })
}
