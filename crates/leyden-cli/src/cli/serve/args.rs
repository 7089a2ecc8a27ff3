//! Arguments of `leyden serve`.

use std::path::PathBuf;
use std::time::Duration;

use leyden::{KvType, Pooling, Replicas};
use leyden_load::parse_duration;
use leyden_server::{LogFormat, Network, Promise};

use super::slo;
use super::tls::Tls;
use super::traces::TraceOptions;
use crate::cli::arithmetic::Arithmetic;
use crate::cli::audit::AuditOptions;
use crate::cli::lora::ServedLora;
use crate::cli::notes::Notes;
use crate::cli::obtain::Hub;
use crate::cli::packs::Packs;
use crate::cli::run::kv_type;
use crate::cli::sizes;

/// Answers requests of many users at once, until Ctrl-C, SIGTERM, SIGHUP or SIGQUIT. docs/server.md describes endpoints
/// and fields.
///
/// MODEL is a file or folder, the name of a pulled model, a short name (`leyden models` lists them) or ORG/REPO[:FILE]
/// on the hub; missing models are downloaded. Without MODEL, the embedded toy model is served. Every option can also be
/// set by an environment variable, such as LEYDEN_PORT for --port. Several models share the processors: each computes
/// with all threads. With --on-demand,
/// --all or --config, a model is loaded when a request names it; `leyden ps` lists the loaded ones.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Models: files, folders, names, or ORG/REPO[:FILE]
    #[arg(value_name = "MODEL")]
    pub(super) models: Vec<PathBuf>,
    /// Model, as an option; may be repeated
    #[arg(long, short, value_name = "M")]
    pub(super) model: Vec<PathBuf>,
    /// Model of the hub (also `-hf`); may be repeated
    #[arg(long, visible_alias = "hf-repo", value_name = "ORG/REPO[:FILE]")]
    pub(super) hf: Vec<String>,
    #[command(flatten)]
    pub(super) hub: Hub,
    /// Load models when a request names them, and unload them when they are idle or other models need the memory
    #[arg(long)]
    pub(super) on_demand: bool,
    /// Serve all pulled models, too, loaded on demand
    #[arg(long)]
    pub(super) all: bool,
    /// TOML file of models, loaded on demand, and their settings; see docs/server.md
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Memory for models loaded on demand, such as 16GiB; by default 0.9 of the free memory
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes)]
    pub(super) memory: Option<u64>,
    /// Time without requests after which a model is unloaded, such as 90s, 5m or never
    #[arg(long, value_name = "TIME", default_value = "5m")]
    pub(super) idle_unload: Idle,
    /// Allow clients to pull models with Ollama's /api/pull; these are loaded on demand
    #[arg(long)]
    pub(super) allow_pull: bool,
    /// Allow clients to copy, create and delete models with Ollama's /api/copy, /api/create and /api/delete
    #[arg(long)]
    pub(super) allow_manage: bool,
    /// Another name for a model: NAME, or with several models MODEL=NAME. May be repeated
    #[arg(long, short, visible_alias = "served-model-name", value_name = "NAME")]
    pub(super) alias: Vec<String>,
    /// Address to listen on
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    pub(super) host: String,
    /// Port to listen on; 0 chooses a free one
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    pub(super) port: u16,
    /// File of API keys: a JSON object per line with id, sha256 and optionally scopes, requests_per_minute,
    /// tokens_per_minute, priority
    #[arg(long, value_name = "FILE")]
    pub(super) api_keys: Option<PathBuf>,
    /// API key, in addition to those of `--api-keys`; may be repeated, or several separated by commas. Other users of
    /// this machine can read command lines, so prefer the variable LEYDEN_API_KEY or the file
    #[arg(long, value_name = "KEY", value_delimiter = ',', hide_env_values = true)]
    pub(super) api_key: Vec<String>,
    #[command(flatten)]
    pub(super) tls: Tls,
    /// Allow requests without a key, also on an address that other machines can reach
    #[arg(long, conflicts_with_all = ["api_keys", "api_key"])]
    pub(super) no_auth: bool,
    /// Host name of a server without keys, in addition to addresses, `localhost` and names without a dot;
    /// `*.example.org` for subdomains, `*` for any name. May be repeated
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(super) allowed_hosts: Vec<String>,
    /// Origin of web pages that may read answers in a browser (CORS), such as `https://chat.example.org`, or `*` for
    /// any, in addition to pages of this machine. May be repeated
    #[arg(long, alias = "allowed-origins", value_name = "ORIGIN", value_delimiter = ',')]
    pub(super) cors: Vec<String>,
    /// Refuse requests with unknown fields, which are otherwise ignored with a warning
    #[arg(long)]
    pub(super) strict: bool,
    /// Context: maximum of tokens in prompt and answer; 0, the default, for the model's own context, or less if the
    /// memory requires it
    #[arg(long, short, visible_aliases = ["ctx-size", "max-model-len"], value_name = "N")]
    pub(super) ctx: Option<u32>,
    /// Maximum number of running requests (also `-np`)
    #[arg(long, visible_alias = "max-num-seqs", value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(super) parallel: u32,
    /// Size of the KV cache in tokens, for all running requests; by default what fits in half of the free memory, at
    /// most `--ctx` times `--parallel`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) kv_tokens: Option<u32>,
    /// Memory for checkpoints of recurrent states, such as 512MiB, for each engine of a recurrent or hybrid model; they
    /// let prompts reuse prefixes. By default up to 1GiB and an eighth of the free memory; 0 for none
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes_or_none)]
    pub(super) state_cache: Option<u64>,
    /// Maximum number of waiting requests
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(super) queue: u32,
    /// Maximum number of tokens in a step
    #[arg(long, visible_alias = "max-num-batched-tokens", value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(super) step_tokens: u32,
    /// Maximum delay in milliseconds that prefill adds between two tokens of other requests
    #[arg(long, value_name = "MS", default_value_t = 250, value_parser = clap::value_parser!(u64).range(1..=60000))]
    pub(super) prompt_stall: u64,
    /// Service level objective, as for `leyden load`: `ttft_p95=2s,user_tps>=5`. A request is admitted if it is kept for
    /// it and all others, waits while that is possible, and is else refused with 429
    #[arg(long, value_name = "SLO", value_parser = slo::promise)]
    pub(super) slo: Option<Promise>,
    /// Pooling of `/v1/embeddings`: mean (of all tokens), cls (the first token) or last; by default as the model
    /// specifies, else mean
    #[arg(long, value_name = "POOLING")]
    pub(super) pooling: Option<Pooling>,
    /// Allow special tokens such as `<|im_end|>` in messages; by default they are plain text in messages
    #[arg(long)]
    pub(super) special_in_content: bool,
    /// Do not recognise tool calls without the marks of the model's format, such as a JSON object in a code block; they
    /// stay text
    #[arg(long)]
    pub(super) no_bare_calls: bool,
    /// Allow properties that a JSON schema does not name, if it has no `additionalProperties`, also in `/api/*` and
    /// `/completion`, where they are forbidden by default as in Ollama and llama-server
    #[arg(long)]
    pub(super) open_schemas: bool,
    /// Switch off speculative decoding by prompt lookup
    #[arg(long)]
    pub(super) no_speculation: bool,
    /// Time limit of a request in seconds, including the time in the queue
    #[arg(long, value_name = "S", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..=604_800))]
    pub(super) request_timeout: u64,
    /// Time in seconds after the shutdown signal in which requests are still accepted while `/health` reports that the
    /// server is not ready, so that load balancers stop sending requests
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub(super) lame_duck: u64,
    /// Time limit in seconds for running requests after that
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(0..=86400))]
    pub(super) drain_timeout: u64,
    /// Maximum number of open connections
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) connections: u32,
    /// Maximum number of open connections of one address (IPv6: of one /64 network); by default half of `--connections`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) connections_per_peer: Option<u32>,
    /// Address or network of a proxy; `--connections-per-peer` does not apply to it. May be repeated
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub(super) trusted_proxies: Vec<Network>,
    /// Time in seconds that an idle connection stays open. It should be longer than the load balancer's, which could
    /// otherwise use a connection that is being closed
    #[arg(long, value_name = "S", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(super) keep_alive: u64,
    /// Maximum size of a request body in bytes
    #[arg(long, value_name = "N", default_value_t = 8 << 20, value_parser = clap::value_parser!(u32).range(1024..=1 << 30))]
    pub(super) max_body: u32,
    /// Folder of uploaded files and batches (`/v1/files`, `/v1/batches`), which is made if it is missing; by default there are none
    #[arg(long, value_name = "DIR")]
    pub(super) batch_dir: Option<PathBuf>,
    /// Format of the log line of each request: text, json or off
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = log_format)]
    pub(super) log_format: LogFormat,
    #[command(flatten)]
    pub(super) traces: TraceOptions,
    /// Number of threads for decode; by default one per available physical core
    #[arg(long, short, value_name = "T")]
    pub(super) threads: Option<usize>,
    /// Number of threads for prefill (also `-tb`); by default the same as for decode
    #[arg(long, value_name = "T")]
    pub(super) threads_batch: Option<usize>,
    /// Number of engines that share one copy of the weights, each with a part of the processors, or `auto` for one per
    /// NUMA node. Options about requests, tokens and threads apply to each engine
    #[arg(long, value_name = "N", default_value_t = Replicas::default())]
    pub(super) replicas: Replicas,
    /// Type of the KV cache: f32, f16 or q8_0
    #[arg(long, value_name = "TYPE", default_value_t = KvType::default(), value_parser = kv_type)]
    pub(super) kv_type: KvType,
    /// Serve only models with MODEL.evidence.json beside them, as leyden verify makes it: PASS, signed with the key in this
    /// file, and for the model's files and these settings; by default the key of leyden verify
    #[arg(long, value_name = "KEYFILE", num_args = 0..=1, require_equals = true)]
    pub(super) require_evidence: Option<Option<PathBuf>>,
    /// Days after which evidence is too old; by default it never is
    #[arg(long, value_name = "DAYS", requires = "require_evidence", value_parser = clap::value_parser!(u32).range(1..=36500))]
    pub(super) evidence_days: Option<u32>,
    /// End when standard input is closed, for programs that start the server
    #[arg(long, hide = true)]
    pub(super) end_with_input: bool,
    #[command(flatten)]
    pub(super) audit: AuditOptions,
    #[command(flatten)]
    pub(super) arithmetic: Arithmetic,
    #[command(flatten)]
    pub(super) lora: ServedLora,
    /// Draft model: a smaller model with the vocabulary of the served models, which proposes tokens (speculative
    /// decoding). Answers are the same without it
    #[arg(long, visible_aliases = ["model-draft", "draft-model"], value_name = "MODEL")]
    pub(super) draft: Option<PathBuf>,
    #[command(flatten)]
    pub(super) packs: Packs,
    #[command(flatten)]
    pub(super) notes: Notes,
}

impl Args {
    /// Returns the models of all options and arguments.
    pub(super) fn named(&self) -> Vec<PathBuf> {
        let of_hub = self.hf.iter().map(|name| PathBuf::from(format!("{}{name}", leyden_hub::SCHEME)));
        self.models.iter().chain(&self.model).cloned().chain(of_hub).collect()
    }
}

fn log_format(name: &str) -> Result<LogFormat, String> {
    LogFormat::from_name(name).ok_or_else(|| "unknown format; known: text, json, off".to_owned())
}

/// Time for which an unused model stays in memory; `never` keeps it as long as there is room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Idle(pub(super) Option<Duration>);

impl std::str::FromStr for Idle {
    type Err = String;

    fn from_str(text: &str) -> Result<Idle, String> {
        match text {
            "never" => Ok(Idle(None)),
            text => parse_duration(text).map(|time| Idle(Some(time))).map_err(|error| error.to_string()),
        }
    }
}
