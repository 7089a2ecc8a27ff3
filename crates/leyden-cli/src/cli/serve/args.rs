//! Arguments of `leyden serve`.

use std::path::PathBuf;
use std::time::Duration;

use leyden::{KvType, Pooling, Replicas};
use leyden_load::parse_duration;
use leyden_server::{LogFormat, Network};

use crate::cli::arithmetic::Arithmetic;
use crate::cli::lora::ServedLora;
use crate::cli::notes::Notes;
use crate::cli::obtain::Hub;
use crate::cli::packs::Packs;
use crate::cli::run::kv_type;
use crate::cli::sizes;

/// Answers requests over HTTP as OpenAI's servers do, for many users at once, until Ctrl-C, SIGTERM, SIGHUP or SIGQUIT.
///
/// MODEL is a file or folder, the name of a pulled model, a short name (`leyden models` lists them) or ORG/REPO[:FILE] on
/// the hub; what is not here is pulled. Without MODEL the storyteller inside this program is served, a toy. Every option
/// can also be set by a variable of the environment, as LEYDEN_PORT for --port. Several models share the processor: each
/// computes with all threads, and they take turns as the system lets them. With --on-demand, --all or --config a model is loaded
/// when a request names it; leyden ps shows which are.
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
    /// Load models when a request names them, and unload them when nobody asks for them or others need the room
    #[arg(long)]
    pub(super) on_demand: bool,
    /// Serve every pulled model too, loaded on demand
    #[arg(long)]
    pub(super) all: bool,
    /// File of models and their settings in TOML, loaded on demand; see docs/server.md
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Memory for the models that are loaded on demand, such as 16GiB; by default what is free
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes)]
    pub(super) memory: Option<u64>,
    /// Time after its last request at which such a model is unloaded, such as 90s, 5m or never
    #[arg(long, value_name = "TIME", default_value = "5m")]
    pub(super) idle_unload: Idle,
    /// Let clients pull models with Ollama's /api/pull; they are then loaded on demand
    #[arg(long)]
    pub(super) allow_pull: bool,
    /// Let clients copy, make and delete models with Ollama's /api/copy, /api/create and /api/delete
    #[arg(long)]
    pub(super) allow_manage: bool,
    /// Another name for a model, as NAME or, of several models, MODEL=NAME; may be repeated
    #[arg(long, short, visible_alias = "served-model-name", value_name = "NAME")]
    pub(super) alias: Vec<String>,
    /// Address to listen on
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    pub(super) host: String,
    /// Port to listen on; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    pub(super) port: u16,
    /// File of API keys: a JSON object per line with id, sha256 and optionally scopes, requests_per_minute,
    /// tokens_per_minute, priority
    #[arg(long, value_name = "FILE")]
    pub(super) api_keys: Option<PathBuf>,
    /// API key, beside those of `--api-keys`; may be repeated, or hold several separated by commas. Other users of this
    /// machine can see command lines: the variable LEYDEN_API_KEY and the file keep keys secret
    #[arg(long, value_name = "KEY", value_delimiter = ',', hide_env_values = true)]
    pub(super) api_key: Vec<String>,
    /// Answer anybody, also on an address that other machines can reach
    #[arg(long, conflicts_with_all = ["api_keys", "api_key"])]
    pub(super) no_auth: bool,
    /// Name under which a server without keys may be asked, beside addresses, `localhost` and names without a dot; also the end of
    /// names as `*.example.org`, or `*` for any. May be repeated
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(super) allowed_hosts: Vec<String>,
    /// Origin whose pages may read answers in a browser, such as `https://chat.example.org`, or `*` for any, beside pages of this
    /// machine. May be repeated
    #[arg(long, alias = "allowed-origins", value_name = "ORIGIN", value_delimiter = ',')]
    pub(super) cors: Vec<String>,
    /// Refuse requests with fields that the server does not know, which are otherwise ignored with a warning
    #[arg(long)]
    pub(super) strict: bool,
    /// Longest text in tokens, prompt and answer together; 0, as by default, for what the model was made for, or what fits
    #[arg(long, short, visible_aliases = ["ctx-size", "max-model-len"], value_name = "N")]
    pub(super) ctx: Option<u32>,
    /// Most requests that run at a time (also `-np`)
    #[arg(long, visible_alias = "max-num-seqs", value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(super) parallel: u32,
    /// Tokens that all running requests together can hold; by default as many as half the free memory holds, at most
    /// `--ctx` times `--parallel`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) kv_tokens: Option<u32>,
    /// Memory of each engine of a recurrent or hybrid model for checkpoints of its states, such as 512MiB, from which later
    /// prompts with the same beginning start; by default up to 1GiB or an eighth of the free memory, and 0 for none
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes_or_none)]
    pub(super) state_cache: Option<u64>,
    /// Most requests that wait
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(super) queue: u32,
    /// Most tokens in one step
    #[arg(long, visible_alias = "max-num-batched-tokens", value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(super) step_tokens: u32,
    /// By how many milliseconds prompts may lengthen the time between two tokens of others
    #[arg(long, value_name = "MS", default_value_t = 250, value_parser = clap::value_parser!(u64).range(1..=60000))]
    pub(super) prompt_stall: u64,
    /// Pooling of the vectors of `/v1/embeddings`: mean (of all tokens), cls (the first) or last; by default what
    /// the model says, and mean for one that says nothing
    #[arg(long, value_name = "POOLING")]
    pub(super) pooling: Option<Pooling>,
    /// Let special tokens such as `<|im_end|>` that a message spells out be such; otherwise they are text, and only the
    /// chat template writes them
    #[arg(long)]
    pub(super) special_in_content: bool,
    /// Take answers that are calls of tools without the marks of the model's format, such as a JSON object in a block of
    /// code, for text
    #[arg(long)]
    pub(super) no_bare_calls: bool,
    /// Let objects have properties that their JSON schema does not name, where it says nothing of them, also in answers of
    /// `/api/*` and `/completion`, which close them as Ollama and llama-server do
    #[arg(long)]
    pub(super) open_schemas: bool,
    /// Do not guess tokens ahead where a text repeats itself
    #[arg(long)]
    pub(super) no_speculation: bool,
    /// Longest time of a request in seconds, waiting included
    #[arg(long, value_name = "S", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..=604_800))]
    pub(super) request_timeout: u64,
    /// Time in seconds in which requests are still taken after the signal to end, while `/health` says that the server is not
    /// ready, so that balancers send them elsewhere
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub(super) lame_duck: u64,
    /// Time in seconds that running requests have to finish then
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(0..=86400))]
    pub(super) drain_timeout: u64,
    /// Most open connections
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) connections: u32,
    /// Most open connections of one address, or of one /64 network of IPv6; by default half of `--connections`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) connections_per_peer: Option<u32>,
    /// Address or network of a proxy, behind which many clients are: its connections are not limited by
    /// `--connections-per-peer`. May be repeated
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub(super) trusted_proxies: Vec<Network>,
    /// Time in seconds that a connection may stay open between requests; longer than the balancer's own, which would
    /// otherwise use one that is just being closed
    #[arg(long, value_name = "S", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(super) keep_alive: u64,
    /// Largest body of a request in bytes
    #[arg(long, value_name = "N", default_value_t = 8 << 20, value_parser = clap::value_parser!(u32).range(1024..=1 << 30))]
    pub(super) max_body: u32,
    /// Form of the line that is logged for every request: text, json or off
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = log_format)]
    pub(super) log_format: LogFormat,
    /// Threads to generate with; by default one per physical core that may be used
    #[arg(long, short, value_name = "T")]
    pub(super) threads: Option<usize>,
    /// Threads to read prompts with (also `-tb`); by default as many as to generate with
    #[arg(long, value_name = "T")]
    pub(super) threads_batch: Option<usize>,
    /// Engines that compute at the same time on one copy of the weights, each on a part of the processors: a number, or
    /// `auto` for one per NUMA node. What is said of requests, tokens and threads is of each
    #[arg(long, value_name = "N", default_value_t = Replicas::default())]
    pub(super) replicas: Replicas,
    /// Storage of keys and values: f32, f16 or q8_0
    #[arg(long, value_name = "TYPE", default_value_t = KvType::default(), value_parser = kv_type)]
    pub(super) kv_type: KvType,
    #[command(flatten)]
    pub(super) arithmetic: Arithmetic,
    #[command(flatten)]
    pub(super) lora: ServedLora,
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
    LogFormat::from_name(name).ok_or_else(|| "no such form; known: text, json, off".to_owned())
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
