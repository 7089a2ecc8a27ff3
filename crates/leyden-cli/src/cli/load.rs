//! `leyden load`: a load on a server that speaks OpenAI's interface, and what its users felt.

mod compare;
mod find;
mod progress;
mod report;
mod settings;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leyden_load::{Base, Control, Endpoint, Lengths, Page, Pause, Slo, Summary, Verdict, parse_duration};

pub(super) use settings::key_file;

use super::connections;
use super::failure::{self, Failure};
use super::{inputs, signals};
use progress::Bar;

/// Sends requests to a server for a time and reports percentiles of time to first token, inter-token and end-to-end
/// time, tokens per second for each user and for all, failures, and whether an SLO was kept. Users wait for their
/// answers (--users), or requests arrive whatever the server does (--rate, --trace); latencies then count from when a
/// request was due. With --slo and neither of these it searches how many users the server holds.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "LEYDEN_API_KEY, or the file named with --api-key-file, opens servers that ask for a key.\n\n\
    Exit codes: 0 done, 1 a request failed or the SLO was missed, 2 wrong usage,\n\
    3 too few requests for a verdict, 130 interrupted.\n\nExamples:\n  \
    leyden load --users 50 --output-tokens 24..96 --ignore-eos --duration 10m\n  \
    leyden load --slo 'ttft_p95=2s,user_tps>=5' --html load.html\n  \
    leyden load --trace conversations.csv.gz --scale 0.05 --duration 5m\n  \
    leyden load --users 8 --compare http://127.0.0.1:8081"
)]
pub(crate) struct Args {
    /// Address of the server, with or without /v1
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    url: Base,
    /// Name of the model; by default the first that the server lists
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// File with the key that opens the server
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    /// PEM file with the certificate authorities to believe, instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Interface to use: chat or completions
    #[arg(long, value_name = "NAME", default_value = "chat")]
    endpoint: Endpoint,

    /// Users; each sends its next request when it has its answer
    #[arg(long, value_name = "N", group = "arrivals", help_heading = "Arrivals")]
    users: Option<u32>,
    /// Time that users think between an answer and their next request: 2s, or 1s..5s
    #[arg(long, value_name = "TIME", conflicts_with_all = ["rate", "trace"], help_heading = "Arrivals")]
    think: Option<Pause>,
    /// Requests per second on average, arriving at random whatever the server does
    #[arg(long, value_name = "R", group = "arrivals", help_heading = "Arrivals")]
    rate: Option<f64>,
    /// Recorded arrivals and lengths: CSV with TIMESTAMP, ContextTokens and GeneratedTokens, also compressed (gzip)
    #[arg(long, value_name = "FILE", group = "arrivals", help_heading = "Arrivals")]
    trace: Option<PathBuf>,
    /// How much faster than recorded the arrivals come: 0.1 is ten times slower
    #[arg(long, value_name = "S", default_value_t = 1.0, help_heading = "Arrivals")]
    scale: f64,
    /// What the recorded lengths are multiplied with
    #[arg(long, value_name = "S", default_value_t = 1.0, help_heading = "Arrivals")]
    length_scale: f64,
    /// How long requests that count are sent; by default 60s, 30s for each step of a search or a comparison, the whole
    /// of a trace
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Arrivals")]
    duration: Option<Duration>,
    /// How many requests that count are sent at most
    #[arg(long, value_name = "N", help_heading = "Arrivals")]
    requests: Option<u64>,
    /// Requests that are due in this time do not count; by default 0, 5s for each step of a search
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Arrivals")]
    warmup: Option<Duration>,
    /// Time over which users begin, or the rate rises; requests count after it
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0", help_heading = "Arrivals")]
    ramp: Duration,
    /// How long answers are awaited after the last request was due
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "60s", help_heading = "Arrivals")]
    drain: Duration,

    /// Tokens of prompts: N, LOW..HIGH, or P50,P95[,MAX]
    #[arg(long, value_name = "LENGTHS", default_value = "30..200", help_heading = "Requests")]
    prompt_tokens: Lengths,
    /// Tokens of answers at most, likewise
    #[arg(long, value_name = "LENGTHS", default_value = "24..96", help_heading = "Requests")]
    output_tokens: Lengths,
    /// Ask for answers of exactly the wanted length (`ignore_eos`, which not every server knows)
    #[arg(long, help_heading = "Requests")]
    ignore_eos: bool,
    /// Tokens of a system prompt that requests share, in addition to their own
    #[arg(long, value_name = "TOKENS", help_heading = "Requests")]
    shared_prefix: Option<u32>,
    /// Share of the requests that have it
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 1.0,
        requires = "shared_prefix",
        help_heading = "Requests"
    )]
    prefix_share: f64,
    /// More fields for every request: a JSON object
    #[arg(long, value_name = "JSON", help_heading = "Requests")]
    body: Option<String>,
    /// The longest that a request may take
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10m", help_heading = "Requests")]
    timeout: Duration,
    /// Send a rejected request (429) again after the time that the server names; otherwise it counts as failed
    #[arg(long, help_heading = "Requests")]
    retry: bool,
    /// What lengths, prompts and arrivals follow from; by default another one in each run, so that no server has seen
    /// the prompts before
    #[arg(long, value_name = "N", help_heading = "Requests")]
    seed: Option<u64>,

    /// Promises, separated by commas: 'ttft_p95=2s,itl_p99=200ms,e2e_p95=30s,user_tps>=5'
    #[arg(long, value_name = "LIMITS", help_heading = "Verdicts")]
    slo: Option<Slo>,
    /// Search the largest number of users with which the SLO is kept
    #[arg(long, requires = "slo", conflicts_with_all = ["arrivals", "requests"], help_heading = "Verdicts")]
    find_users: bool,
    /// The most users that a search tries
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=i64::from(leyden_load::MAX_USERS)), help_heading = "Verdicts")]
    max_users: u32,
    /// Another server, which gets the same load in turns with the first
    #[arg(long, value_name = "URL", conflicts_with_all = ["find_users", "html"], help_heading = "Verdicts")]
    compare: Option<Base>,
    /// File with the key that opens it
    #[arg(long, value_name = "FILE", requires = "compare", help_heading = "Verdicts")]
    compare_api_key_file: Option<PathBuf>,
    /// Name of its model; by default the first that it lists
    #[arg(long, value_name = "NAME", requires = "compare", help_heading = "Verdicts")]
    compare_model: Option<String>,
    /// How often each server has its turn
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000), requires = "compare", help_heading = "Verdicts")]
    turns: u32,

    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Write a page with plots
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    html: Option<PathBuf>,
}

/// What a load is to find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    /// What happens.
    Measure,
    /// How many users an SLO allows.
    Find,
    /// How two servers differ.
    Compare,
}

/// Runs the load and prints what came of it.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let mut err = io::stderr();
    let out = inputs::report_beside(args.html.as_deref(), out, &mut err);
    let goal = goal(args)?;
    let workload = settings::workload(args, goal)?;
    workload.check()?;
    args.html.as_deref().map_or(Ok(()), inputs::can_be_written)?;
    let control = Arc::new(Control::default());
    on_interrupt(Arc::clone(&control))?;
    connections::allow();
    let target = settings::target(args, &args.url, false, &control)?;
    match goal {
        Goal::Find => return find::execute(args, &target, &workload, &control, out),
        Goal::Compare => return compare::execute(args, &target, &workload, &control, out),
        Goal::Measure => {}
    }
    let bar = Bar::new(&workload);
    let (run, generator) = progress::measured(&target, &workload, &control, &bar, "")?;
    bar.finish();
    let summary = Summary::new(&run, args.slo.as_ref());
    let report = report::Report { args, target: &target, workload: &workload, search: false };
    if let Some(path) = &args.html {
        let facts = report.facts();
        let slo = args.slo.as_ref();
        let page =
            Page { title: "leyden load", facts: &facts, run: &run, summary: &summary, slo, steps: &[] };
        leyden_load::write_page(path, &page.html())?;
    }
    if args.json {
        report.json(out, "run", &[("summary", report::value(&summary)?), ("generator", generator.json())])?;
    } else {
        report.head(out)?;
        report::figures(out, &summary, Some(&generator))?;
    }
    report::warn(&summary);
    out.flush()?;
    verdict(&summary)
}

/// What the arguments ask for.
fn goal(args: &Args) -> Result<Goal, Failure> {
    // `requires` does not hold where the required option would conflict with a given one.
    if args.trace.is_none() && (args.scale != 1.0 || args.length_scale != 1.0) {
        return Err(Failure::usage("--scale and --length-scale are for a --trace"));
    }
    let arrivals = args.users.is_some() || args.rate.is_some() || args.trace.is_some();
    match (args.compare.is_some(), args.find_users, arrivals) {
        (true, _, true) => Ok(Goal::Compare),
        (false, true, _) => Ok(Goal::Find),
        (false, false, false) if args.slo.is_some() && args.requests.is_none() => Ok(Goal::Find),
        (false, false, true) => Ok(Goal::Measure),
        _ => Err(Failure::usage("it is not said when requests are sent").hint(
            "give --users N, --rate R or --trace FILE, or --slo alone to search how many users the server holds",
        )),
    }
}

/// What the figures of a run mean for the exit code.
fn verdict(summary: &Summary) -> Result<(), Failure> {
    if summary.interrupted {
        return Err(Failure::interrupted());
    }
    if summary.requests.measured == 0 {
        return Err(Failure::inconclusive("no request was due in the time that counts"));
    }
    if let Some(slo) = &summary.slo {
        let of = |verdict| {
            let limits = slo.limits.iter().filter(|outcome| outcome.verdict == verdict);
            limits.map(|outcome| outcome.limit.as_str()).collect::<Vec<_>>().join(", ")
        };
        match slo.verdict {
            Verdict::Fail => return Err(Failure::new(format!("the SLO was missed: {}", of(Verdict::Fail)))),
            Verdict::Unsure if summary.requests.failed == 0 => {
                let why = format!("too few samples for a verdict on {}", of(Verdict::Unsure));
                return Err(Failure::inconclusive(why).hint("run longer, or ask for a lower percentile"));
            }
            _ => {}
        }
    }
    if summary.requests.failed > 0 {
        let (failed, all) = (summary.requests.failed, summary.requests.measured);
        return Err(Failure::new(format!("{failed} of {all} requests failed")));
    }
    Ok(())
}

/// Ctrl-C ends the load, and what was measured is reported; a second one ends the program at once.
fn on_interrupt(control: Arc<Control>) -> Result<(), Failure> {
    let interrupted = AtomicBool::new(false);
    ctrlc::set_handler(move || {
        if interrupted.swap(true, Ordering::SeqCst) {
            signals::exit(failure::INTERRUPTED);
        }
        control.stop();
    })
    .map_err(|error| Failure::new(format!("cannot take over Ctrl-C: {error}")))
}
