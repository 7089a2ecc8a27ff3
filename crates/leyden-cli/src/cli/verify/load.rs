//! The load of `--load`: its run and its result.

use std::path::Path;
use std::time::Duration;

use leyden_load::{Arrivals, Ask, Authorities, Control, Endpoint, Server, Summary, Target, Workload};
use leyden_verify::{LimitResult, LoadResult, Verdict};

use super::args::Args;
use super::load_spec::LoadSpec;
use super::server::Served;
use crate::cli::eval::Watcher;
use crate::cli::failure::Failure;
use crate::cli::text::plural;
use crate::cli::{connections, model_file};

/// Maximum time of a request.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Serves the model, sends it the load, and judges the limits.
pub(super) fn run(
    args: &Args,
    spec: &LoadSpec,
    model: &Path,
    watcher: &Watcher,
) -> Result<LoadResult, Failure> {
    let workload = Workload {
        arrivals: spec.arrivals.clone(),
        prompt: spec.prompt,
        output: spec.output,
        prefix: None,
        duration: spec.duration,
        least: spec.slo.least_requests(),
        requests: spec.requests,
        warmup: spec.warmup,
        ramp: Duration::ZERO,
        drain: Duration::from_secs(60),
        timeout: TIMEOUT,
        retry: false,
        seed: args.seed,
    };
    workload.check()?;
    generates(model)?;
    connections::raise_open_files();
    args.notes.say("the model's server is started for the load");
    let served = Served::start(args, model).map_err(|failure| stopped(failure, watcher))?;
    let control = Control::default();
    let server = Server::new(served.address.parse()?, None, &Authorities::System)?;
    let ask = Ask { endpoint: Endpoint::Chat, ignore_eos: true, ..Ask::default() };
    let target = Target::find(server, None, ask, TIMEOUT, &control)?;
    let run = leyden_load::run(&target, &workload, &control, &mut |_| {
        if watcher.is_stopped() {
            control.stop();
        }
    })?;
    drop(served);
    if run.interrupted {
        return Err(Failure::interrupted());
    }
    let summary = Summary::new(&run, Some(&spec.slo));
    Ok(result(spec, &summary))
}

fn stopped(failure: Failure, watcher: &Watcher) -> Failure {
    if watcher.is_stopped() { Failure::interrupted() } else { failure }
}

/// Refuses a model that answers no chat.
fn generates(model: &Path) -> Result<(), Failure> {
    let source = model_file::open(model)?.into_source()?;
    let config = leyden_models::config_of(source.as_ref()).map_err(leyden::Error::from)?;
    if config.generates() {
        return Ok(());
    }
    Err(Failure::usage("--load: the load is of chat requests, which this model does not answer")
        .hint("leave --load out; an encoder has floors of accuracy"))
}

fn result(spec: &LoadSpec, summary: &Summary) -> LoadResult {
    let of = |verdict| match verdict {
        leyden_load::Verdict::Pass => Verdict::Pass,
        leyden_load::Verdict::Fail => Verdict::Fail,
        leyden_load::Verdict::Unsure => Verdict::Inconclusive,
    };
    let slo = summary.slo.as_ref();
    let limits = slo.map(|slo| {
        let limit = |outcome: &leyden_load::Outcome| LimitResult {
            limit: outcome.limit.clone(),
            value: outcome.value,
            samples: outcome.count,
            verdict: of(outcome.verdict),
        };
        slo.limits.iter().map(limit).collect()
    });
    let mut verdict = slo.map_or(Verdict::Inconclusive, |slo| of(slo.verdict));
    if summary.requests.measured == 0 {
        verdict = Verdict::Inconclusive;
    }
    if summary.requests.failed > 0 {
        verdict = Verdict::Fail;
    }
    let arrivals = match &spec.arrivals {
        Arrivals::Users(n, _) => plural(*n as usize, "user"),
        Arrivals::Rate(rate) => format!("{rate} requests/s"),
        Arrivals::Trace { .. } => "a trace".to_owned(),
    };
    LoadResult {
        verdict,
        requests: format!("{arrivals}, prompts of {} tokens, answers of {}", spec.prompt, spec.output),
        completed: summary.requests.completed,
        failed: summary.requests.failed,
        seconds: summary.seconds,
        output_tps: summary.output_tps,
        limits: limits.unwrap_or_default(),
    }
}
