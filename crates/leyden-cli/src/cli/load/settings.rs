//! Conversion of arguments to a workload and a target.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leyden_load::{
    ApiKey, Arrivals, Ask, Authorities, Base, Control, Server, SharedPrefix, Target, Trace, Workload,
};
use serde_json::{Map, Value};

use super::args::{Args, Goal};
use crate::cli::failure::Failure;
use crate::cli::knobs;

/// Maximum size of a key file in bytes.
const MAX_KEY_BYTES: u64 = 8 << 10;
/// Default duration of a step of a search or a turn of a comparison, and of any other run.
const STEP: Duration = Duration::from_secs(30);
const RUN: Duration = Duration::from_secs(60);
/// Warm-up of a step of a search.
const STEP_WARMUP: Duration = Duration::from_secs(5);

/// Returns the workload of the arguments. A search begins with one user.
pub(super) fn workload(args: &Args, goal: Goal) -> Result<Workload, Failure> {
    let arrivals = match (args.users, args.rate, &args.trace) {
        (_, Some(rate), _) => Arrivals::Rate(rate),
        (_, _, Some(path)) => {
            let trace = Arc::new(Trace::open(path)?);
            Arrivals::Trace { trace, scale: args.scale, length_scale: args.length_scale }
        }
        (users, ..) => Arrivals::Users(users.unwrap_or(1), args.think.unwrap_or_default()),
    };
    let by_itself = args.requests.is_some() || (goal == Goal::Measure && args.trace.is_some());
    let duration = match goal {
        _ if args.duration.is_some() => args.duration,
        _ if by_itself => None,
        Goal::Measure => Some(RUN),
        Goal::Find | Goal::Compare => Some(STEP),
    };
    let least =
        if goal == Goal::Find { args.slo.as_ref().map_or(0, leyden_load::Slo::least_requests) } else { 0 };
    Ok(Workload {
        arrivals,
        prompt: args.prompt_tokens,
        output: args.output_tokens,
        prefix: args.shared_prefix.map(|tokens| SharedPrefix { tokens, share: args.prefix_share }),
        duration,
        least,
        requests: args.requests,
        warmup: args.warmup.unwrap_or(if goal == Goal::Find { STEP_WARMUP } else { Duration::ZERO }),
        ramp: args.ramp,
        drain: args.drain,
        timeout: args.timeout,
        retry: args.retry,
        seed: args.seed.unwrap_or_else(fresh_seed),
    })
}

/// Connects to the first server, or to the second one of a comparison.
pub(super) fn target(args: &Args, base: &Base, second: bool, control: &Control) -> Result<Target, Failure> {
    let file = if second { &args.compare_api_key_file } else { &args.api_key_file };
    let key = match file {
        Some(path) => Some(key_file(path)?),
        // The key of one server must not be sent to the other.
        None if second => None,
        None => knobs::api_key().map(|text| ApiKey::new(&text, knobs::API_KEY)).transpose()?,
    };
    let authorities = args.ca_file.clone().map_or(Authorities::System, Authorities::File);
    let server =
        Server::with_certificate(base.clone(), key, &authorities, args.certificate.files().as_ref())?;
    let ask = Ask { endpoint: args.endpoint, ignore_eos: args.ignore_eos, extra: extra(args)? };
    let model = if second { args.compare_model.clone() } else { args.model.clone() };
    Ok(Target::find(server, model, ask, args.timeout, control)?)
}

fn extra(args: &Args) -> Result<Map<String, Value>, Failure> {
    let Some(text) = &args.body else { return Ok(Map::new()) };
    serde_json::from_str(text).map_err(|error| Failure::usage(format!("--body: not a JSON object: {error}")))
}

pub(in crate::cli) fn key_file(path: &Path) -> Result<ApiKey, Failure> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(MAX_KEY_BYTES).read_to_string(&mut text))
        .map_err(|error| Failure::new(format!("{}: cannot read the key: {error}", path.display())))?;
    Ok(ApiKey::new(&text, &path.display().to_string())?)
}

/// Returns a new seed, short enough to be typed.
fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_micros() as u64 % 1_000_000_000
}
