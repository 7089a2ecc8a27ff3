//! Arguments of `leyden load`.

use std::path::PathBuf;
use std::time::Duration;

use leyden_load::{Base, Endpoint, Lengths, Pause, Slo, parse_duration};

use crate::cli::client_certificate::ClientCertificate;

/// Reports percentiles of time to first token, inter-token time and end-to-end time, tokens per second, failures, and
/// the verdict on an SLO. With --users, each user waits for an answer before the next request (closed loop). With
/// --rate or --trace, requests arrive independently of the server (open loop), and latencies count from the time when a
/// request was due. With --slo and none of these, finds the maximum of users.
#[derive(Debug, clap::Args)]
#[command(after_help = "The API key of the server is LEYDEN_API_KEY, or in the file of --api-key-file.\n\n\
    Exit codes: 0 done, 1 a request failed or the SLO was missed, 2 wrong usage,\n\
    3 too few requests for a verdict, 130 interrupted.\n\nExamples:\n  \
    leyden load --users 50 --output-tokens 24..96 --ignore-eos --duration 10m\n  \
    leyden load --slo 'ttft_p95=2s,user_tps>=5' --report load.html\n  \
    leyden load --trace conversations.csv.gz --scale 0.05 --duration 5m\n  \
    leyden load --users 8 --compare http://127.0.0.1:8081")]
pub(crate) struct Args {
    /// Address of the server, with or without /v1
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    pub(super) url: Base,
    /// Name of the model; by default the first in the server's list
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// File with the API key
    #[arg(long, value_name = "FILE")]
    pub(super) api_key_file: Option<PathBuf>,
    /// PEM file with the trusted certificate authorities, instead of the system's
    #[arg(long, value_name = "FILE")]
    pub(super) ca_file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) certificate: ClientCertificate,
    /// Endpoint to use: chat or completions
    #[arg(long, value_name = "NAME", default_value = "chat")]
    pub(super) endpoint: Endpoint,

    /// Number of users; each sends its next request after the answer to the previous one
    #[arg(long, value_name = "N", group = "arrivals", help_heading = "Arrivals")]
    pub(super) users: Option<u32>,
    /// Think time of users between an answer and the next request: 2s, or 1s..5s
    #[arg(long, value_name = "TIME", conflicts_with_all = ["rate", "trace"], help_heading = "Arrivals")]
    pub(super) think: Option<Pause>,
    /// Average number of requests per second, with random arrivals (Poisson process)
    #[arg(long, value_name = "R", group = "arrivals", help_heading = "Arrivals")]
    pub(super) rate: Option<f64>,
    /// File of recorded arrivals and lengths: CSV with TIMESTAMP, ContextTokens and GeneratedTokens, also compressed
    /// (gzip)
    #[arg(long, value_name = "FILE", group = "arrivals", help_heading = "Arrivals")]
    pub(super) trace: Option<PathBuf>,
    /// Factor for the recorded rate of arrivals: 0.1 is ten times slower
    #[arg(long, value_name = "S", default_value_t = 1.0, help_heading = "Arrivals")]
    pub(super) scale: f64,
    /// Factor for the recorded lengths
    #[arg(long, value_name = "S", default_value_t = 1.0, help_heading = "Arrivals")]
    pub(super) length_scale: f64,
    /// Time in which measured requests are sent; by default 60s, or 30s for each step of a search or comparison, or the
    /// whole trace
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Arrivals")]
    pub(super) duration: Option<Duration>,
    /// Maximum number of measured requests
    #[arg(long, value_name = "N", help_heading = "Arrivals")]
    pub(super) requests: Option<u64>,
    /// Time at the beginning whose requests are not measured; by default 0, or 5s for each step of a search
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Arrivals")]
    pub(super) warmup: Option<Duration>,
    /// Time over which users start one after the other, or the rate rises; requests are measured after it
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0", help_heading = "Arrivals")]
    pub(super) ramp: Duration,
    /// Time limit for answers after the last request was due
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "60s", help_heading = "Arrivals")]
    pub(super) drain: Duration,

    /// Number of tokens in a prompt: N, LOW..HIGH, or P50,P95[,MAX]
    #[arg(long, value_name = "LENGTHS", default_value = "30..200", help_heading = "Requests")]
    pub(super) prompt_tokens: Lengths,
    /// Maximum number of tokens in an answer, in the same form
    #[arg(long, value_name = "LENGTHS", default_value = "24..96", help_heading = "Requests")]
    pub(super) output_tokens: Lengths,
    /// Send `ignore_eos`, so that answers have exactly the requested length; not all servers support it
    #[arg(long, help_heading = "Requests")]
    pub(super) ignore_eos: bool,
    /// Number of tokens in a shared system prompt before the prompts
    #[arg(long, value_name = "TOKENS", help_heading = "Requests")]
    pub(super) shared_prefix: Option<u32>,
    /// Share of the requests with the shared system prompt
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 1.0,
        requires = "shared_prefix",
        help_heading = "Requests"
    )]
    pub(super) prefix_share: f64,
    /// Additional fields for every request: a JSON object
    #[arg(long, value_name = "JSON", help_heading = "Requests")]
    pub(super) body: Option<String>,
    /// Time limit of a request
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10m", help_heading = "Requests")]
    pub(super) timeout: Duration,
    /// Send a rejected request (429) again after the time in `Retry-After`; otherwise it counts as failed
    #[arg(long, help_heading = "Requests")]
    pub(super) retry: bool,
    /// Seed of lengths, prompts and arrivals; by default another one in each run, so that no server has the prompts in
    /// its cache
    #[arg(long, value_name = "N", help_heading = "Requests")]
    pub(super) seed: Option<u64>,

    /// Limits of the SLO, separated by commas: 'ttft_p95=2s,itl_p99=200ms,e2e_p95=30s,user_tps>=5'
    #[arg(long, value_name = "LIMITS", help_heading = "Verdicts")]
    pub(super) slo: Option<Slo>,
    /// Find the maximum of users within the SLO
    #[arg(long, requires = "slo", conflicts_with_all = ["arrivals", "requests"], help_heading = "Verdicts")]
    pub(super) find_users: bool,
    /// Maximum number of users that the search tries
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=i64::from(leyden_load::MAX_USERS)), help_heading = "Verdicts")]
    pub(super) max_users: u32,
    /// Another server to compare with: it gets the same load in turns with the first
    #[arg(long, value_name = "URL", conflicts_with = "find_users", help_heading = "Verdicts")]
    pub(super) compare: Option<Base>,
    /// File with the API key of the other server
    #[arg(long, value_name = "FILE", requires = "compare", help_heading = "Verdicts")]
    pub(super) compare_api_key_file: Option<PathBuf>,
    /// Name of the other server's model; by default the first in its list
    #[arg(long, value_name = "NAME", requires = "compare", help_heading = "Verdicts")]
    pub(super) compare_model: Option<String>,
    /// Number of turns for each server
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000), requires = "compare", help_heading = "Verdicts")]
    pub(super) turns: u32,

    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
    /// Write a self-contained page with tables and plots
    #[arg(long, value_name = "FILE.html", visible_alias = "html", help_heading = "Output")]
    pub(super) report: Option<PathBuf>,
}

/// Purpose of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// Measures one load.
    Measure,
    /// Finds the maximum of users within an SLO.
    Find,
    /// Compares two servers.
    Compare,
}
