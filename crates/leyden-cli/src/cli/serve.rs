//! `leyden serve`: models over HTTP.

mod directory;
mod prepare;
mod settings;
mod stored;

use std::collections::HashMap;
use std::io::Write;
use std::iter;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use directory::Directory;
use leyden::{KvType, LoadOptions, Model, PackCache, Pooling, Replicas};
use leyden_kernels::heap;
use leyden_kernels::topology::Topology;
use leyden_server::{ApiKeys, LogFormat, Network, ServerOptions, TellEnd, Waits, plan_memories};
use prepare::Common;
use settings::{Entry, Idle, Settings};
use stored::Stored;

use super::arithmetic::Arithmetic;
use super::connections;
use super::failure::Failure;
use super::lora::ServedLora;
use super::notes::Notes;
use super::obtain::Hub;
use super::packs::{self, Packs};
use super::run::{kv_type, load};

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
    models: Vec<PathBuf>,
    /// Model, as an option; may be repeated
    #[arg(long, short, value_name = "M")]
    model: Vec<PathBuf>,
    /// Model of the hub (also `-hf`); may be repeated
    #[arg(long, visible_alias = "hf-repo", value_name = "ORG/REPO[:FILE]")]
    hf: Vec<String>,
    #[command(flatten)]
    hub: Hub,
    /// Load models when a request names them, and unload them when nobody asks for them or others need the room
    #[arg(long)]
    on_demand: bool,
    /// Serve every pulled model too, loaded on demand
    #[arg(long)]
    all: bool,
    /// File of models and their settings in TOML, loaded on demand; see docs/server.md
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Memory for the models that are loaded on demand, such as 16GiB; by default what is free
    #[arg(long, value_name = "SIZE", value_parser = super::sizes::bytes)]
    memory: Option<u64>,
    /// How long such a model stays after its last request, such as 90s, 5m or never
    #[arg(long, value_name = "TIME", default_value = "5m")]
    idle_unload: Idle,
    /// Let clients pull models with Ollama's /api/pull; they are then loaded on demand
    #[arg(long)]
    allow_pull: bool,
    /// Let clients copy, make and delete models with Ollama's /api/copy, /api/create and /api/delete
    #[arg(long)]
    allow_manage: bool,
    /// Another name for a model, as NAME or, of several models, MODEL=NAME; may be repeated
    #[arg(long, short, visible_alias = "served-model-name", value_name = "NAME")]
    alias: Vec<String>,
    /// Address to listen on
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    /// Port to listen on; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    port: u16,
    /// File of API keys: a JSON object per line with id, sha256 and optionally scopes, requests_per_minute,
    /// tokens_per_minute, priority
    #[arg(long, value_name = "FILE")]
    api_keys: Option<PathBuf>,
    /// API key, beside those of `--api-keys`; may be repeated, or hold several separated by commas. Other users of this
    /// machine can see command lines: the variable LEYDEN_API_KEY and the file keep keys secret
    #[arg(long, value_name = "KEY", value_delimiter = ',', hide_env_values = true)]
    api_key: Vec<String>,
    /// Answer anybody, also on an address that other machines can reach
    #[arg(long, conflicts_with_all = ["api_keys", "api_key"])]
    no_auth: bool,
    /// Name under which a server without keys may be asked, beside addresses, `localhost` and names without a dot; also the end of
    /// names as `*.example.org`, or `*` for any. May be repeated
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    allowed_hosts: Vec<String>,
    /// Origin whose pages may read answers in a browser, such as `https://chat.example.org`, or `*` for any, beside pages of this
    /// machine. May be repeated
    #[arg(long, alias = "allowed-origins", value_name = "ORIGIN", value_delimiter = ',')]
    cors: Vec<String>,
    /// Refuse requests with fields that the server does not know, which are otherwise ignored with a warning
    #[arg(long)]
    strict: bool,
    /// Longest text in tokens, prompt and answer together; 0, as by default, for what the model was made for, or what fits
    #[arg(long, short, visible_aliases = ["ctx-size", "max-model-len"], value_name = "N")]
    ctx: Option<u32>,
    /// Most requests that run at a time (also `-np`)
    #[arg(long, visible_alias = "max-num-seqs", value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    parallel: u32,
    /// Tokens that all running requests together can hold; by default as many as half the free memory holds, at most
    /// `--ctx` times `--parallel`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    kv_tokens: Option<u32>,
    /// Memory of each engine of a recurrent or hybrid model for checkpoints of its states, such as 512MiB, from which later
    /// prompts with the same beginning start; by default up to 1GiB or an eighth of the free memory, and 0 for none
    #[arg(long, value_name = "SIZE", value_parser = super::sizes::bytes_or_none)]
    state_cache: Option<u64>,
    /// Most requests that wait
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65536))]
    queue: u32,
    /// Most tokens in one step
    #[arg(long, visible_alias = "max-num-batched-tokens", value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65536))]
    step_tokens: u32,
    /// By how many milliseconds prompts may lengthen the time between two tokens of others
    #[arg(long, value_name = "MS", default_value_t = 250, value_parser = clap::value_parser!(u64).range(1..=60000))]
    prompt_stall: u64,
    /// What the vectors of `/v1/embeddings` are made of: mean (of all tokens), cls (the first) or last; by default what
    /// the model says, and mean for one that says nothing
    #[arg(long, value_name = "POOLING")]
    pooling: Option<Pooling>,
    /// Let special tokens such as `<|im_end|>` that a message spells out be such; otherwise they are text, and only the
    /// chat template writes them
    #[arg(long)]
    special_in_content: bool,
    /// Take answers that are calls of tools without the marks of the model's format, such as a JSON object in a block of
    /// code, for text
    #[arg(long)]
    no_bare_calls: bool,
    /// Let objects have properties that their JSON schema does not name, where it says nothing of them, also in answers of
    /// `/api/*` and `/completion`, which close them as Ollama and llama-server do
    #[arg(long)]
    open_schemas: bool,
    /// Do not guess tokens ahead where a text repeats itself
    #[arg(long)]
    no_speculation: bool,
    /// Longest time of a request in seconds, waiting included
    #[arg(long, value_name = "S", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..=604_800))]
    request_timeout: u64,
    /// Time in seconds in which requests are still taken after the signal to end, while `/health` says that the server is not
    /// ready, so that balancers send them elsewhere
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=3600))]
    lame_duck: u64,
    /// Time in seconds that running requests have to finish then
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(0..=86400))]
    drain_timeout: u64,
    /// Most open connections
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: u32,
    /// Most open connections of one address, or of one /64 network of IPv6; by default half of `--connections`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections_per_peer: Option<u32>,
    /// Address or network of a proxy, behind which many clients are: its connections are not limited by
    /// `--connections-per-peer`. May be repeated
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    trusted_proxies: Vec<Network>,
    /// Time in seconds that a connection may stay open between requests; longer than the balancer's own, which would
    /// otherwise use one that is just being closed
    #[arg(long, value_name = "S", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86400))]
    keep_alive: u64,
    /// Largest body of a request in bytes
    #[arg(long, value_name = "N", default_value_t = 8 << 20, value_parser = clap::value_parser!(u32).range(1024..=1 << 30))]
    max_body: u32,
    /// Form of the line that is logged for every request: text, json or off
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = log_format)]
    log_format: LogFormat,
    /// Threads to generate with; by default one per physical core that may be used
    #[arg(long, short, value_name = "T")]
    threads: Option<usize>,
    /// Threads to read prompts with (also `-tb`); by default as many as to generate with
    #[arg(long, value_name = "T")]
    threads_batch: Option<usize>,
    /// Engines that compute at the same time on one copy of the weights, each on a part of the processors: a number, or
    /// `auto` for one per NUMA node. What is said of requests, tokens and threads is of each
    #[arg(long, value_name = "N", default_value_t = Replicas::default())]
    replicas: Replicas,
    /// Storage of keys and values: f32, f16 or q8_0
    #[arg(long, value_name = "TYPE", default_value_t = KvType::default(), value_parser = kv_type)]
    kv_type: KvType,
    #[command(flatten)]
    arithmetic: Arithmetic,
    #[command(flatten)]
    lora: ServedLora,
    #[command(flatten)]
    packs: Packs,
    #[command(flatten)]
    notes: Notes,
}

impl Args {
    /// The models, however they were named.
    fn named(&self) -> Vec<PathBuf> {
        let of_hub = self.hf.iter().map(|name| PathBuf::from(format!("{}{name}", leyden_hub::SCHEME)));
        self.models.iter().chain(&self.model).cloned().chain(of_hub).collect()
    }
}

fn log_format(name: &str) -> Result<LogFormat, String> {
    LogFormat::from_name(name).ok_or_else(|| "no such form; known: text, json, off".to_owned())
}

/// Serves.
pub(super) fn execute(args: &Args, _: &mut dyn Write) -> Result<(), Failure> {
    heap::keep_little();
    let keys = keys(args)?;
    let (notes, common) = (args.notes, Common::of(args));
    let named = args.named();
    let mut aliases = aliases(args, named.len())?;
    let lora = args.lora.all().map_err(|what| Failure::usage(format!("--lora: {what}")))?;
    let others = args.config.is_some() || args.all;
    if !lora.is_empty() && (named.len() > 1 || named.is_empty() && others) {
        return Err(Failure::usage(
            "--lora is for one model; of several, say in the file of --config whose adapters they are",
        ));
    }
    let settings = |name: &str, aliases: &mut HashMap<String, Vec<String>>| {
        let mut own = aliases.remove(name).unwrap_or_default();
        own.extend(aliases.remove("").unwrap_or_default());
        Settings { aliases: own, lora: lora.clone(), ..Settings::of(args) }
    };
    let (mut loaded, mut on_demand, directory) = (Vec::new(), Vec::new(), Directory::default());
    let stored = Stored::new(common.clone(), Settings::of(args), directory.clone());
    let entries = args.config.as_deref().map(|path| settings::read(path, args)).transpose()?;
    // One that does not run here does not keep the others from being served.
    let mut left_out = Vec::new();
    for Entry { name, model, settings } in entries.into_iter().flatten() {
        let found = args.hub.obtain(&model, notes).and_then(|path| {
            let one = prepare::on_demand(&common, settings, name.clone(), path.clone())?;
            directory.add(&name, &model, &path);
            Ok(one)
        });
        match found {
            Ok(one) => on_demand.push(one),
            Err(why) => left_out.push((name, why)),
        }
    }
    if args.on_demand {
        for named in &named {
            let mut called = named.display().to_string();
            let found = args.hub.obtain(named, notes).and_then(|path| {
                called = name(named, &path);
                let settings = settings(&called, &mut aliases);
                let one = prepare::on_demand(&common, settings, called.clone(), path.clone())?;
                directory.add(&called, named, &path);
                Ok(one)
            });
            match found {
                Ok(one) => on_demand.push(one),
                Err(why) => {
                    // Its other names go with it.
                    drop(settings(&called, &mut aliases));
                    left_out.push((called, why));
                }
            }
        }
    } else {
        let paths: Vec<PathBuf> =
            named.iter().map(|named| args.hub.obtain(named, notes)).collect::<Result<_, _>>()?;
        if !matches!(args.packs.cache(), PackCache::Folder { map: true, .. }) {
            prepare::weights_fit(&paths, Topology::detect().memory.usable_bytes())?;
        }
        for (named, path) in named.iter().zip(&paths) {
            let model = load(path, &prepare::options(&common, &lora), notes)?;
            packs::tell(&model, notes);
            if let Some(unplaced) = model.unplaced() {
                notes.say(unplaced);
            }
            let name = name(named, path);
            directory.add(&name, named, path);
            loaded.push((model, name));
        }
    }
    if args.all {
        on_demand.extend(stored.list()?.new);
        if loaded.is_empty() && on_demand.is_empty() {
            let nothing = directory::nothing_to_serve();
            if !args.allow_pull {
                return Err(nothing);
            }
            notes.say(&format!("{nothing}; clients may pull some"));
        }
    }
    if loaded.is_empty() && on_demand.is_empty() && !left_out.is_empty() {
        return Err(left_out.swap_remove(0).1);
    }
    for (name, why) in &left_out {
        notes.say(&format!("{name} is left out: {why}"));
    }
    if loaded.is_empty() && on_demand.is_empty() && !args.all {
        notes.say(
            "no model named: the embedded storyteller is served, a toy of 4 million parameters. For a real model: leyden \
             serve smollm2; leyden models lists others",
        );
        loaded.push((Model::embedded(&prepare::options(&common, &lora))?, "storyteller".to_owned()));
    }
    // All weights that stay are there now: what is left is for their caches, one for each engine, and for the others.
    let all: Vec<(Model, Settings, String)> =
        loaded.into_iter().map(|(model, name)| (model, settings(&name, &mut aliases), name)).collect();
    if let Some(unknown) = aliases.keys().next() {
        return Err(Failure::usage(format!("--alias: no model is called `{unknown}`")));
    }
    let usable = Topology::detect().memory.usable_bytes();
    let engines = || all.iter().flat_map(|of| iter::repeat_n(of, of.0.replicas().len()));
    let needs = engines()
        .map(|(model, settings, name)| prepare::need(settings, model, name))
        .collect::<Result<Vec<_>, _>>()?;
    let plans = plan_memories(&needs, usable).map_err(|(i, what)| {
        let name = engines().nth(i).map_or("", |(.., name)| name);
        Failure::new(format!("{name}: {what}"))
    })?;
    let taken: u64 = needs
        .iter()
        .zip(&plans)
        .map(|(need, plan)| {
            need.workspace_bytes + plan.state_cache + need.token_bytes * plan.kv_tokens as u64
        })
        .sum();
    let mut models: Vec<leyden_server::Model> = Vec::new();
    let mut plans = &plans[..];
    for (model, settings, name) in all {
        // Engines of one model need the same, and so have the same plan.
        let (of_model, rest) = plans.split_at(model.replicas().len());
        plans = rest;
        models.push(prepare::ready(&common, &settings, &model, name, &of_model[0]).map_err(Failure::new)?);
    }
    // A tenth is left to others, as of a cache.
    let free = usable.map(|usable| (usable / 10 * 9).saturating_sub(taken));
    let memory = args.memory.or(free);
    let names: Vec<String> =
        models.iter().map(|m| m.name.clone()).chain(on_demand.iter().map(|m| m.name.clone())).collect();
    let mut server = ServerOptions {
        on_demand,
        memory,
        names: Some(directory.finder()),
        change: args.allow_manage.then(|| stored.changer()),
        list: args.all.then(|| stored.lister()),
        pull: args.allow_pull.then(|| stored.puller()),
        host: args.host.clone(),
        port: args.port,
        keys,
        no_auth: args.no_auth,
        allowed_hosts: args.allowed_hosts.clone(),
        allowed_origins: args.cors.clone(),
        strict: args.strict,
        open_schemas: args.open_schemas,
        trusted_proxies: args.trusted_proxies.clone(),
        lame_duck: Duration::from_secs(args.lame_duck),
        drain: Duration::from_secs(args.drain_timeout),
        tell_end: (args.log_format != LogFormat::Json).then(|| tell_end(notes)),
        request_time: Duration::from_secs(args.request_timeout),
        log: args.log_format,
        ..ServerOptions::default()
    };
    server.limits.connections = args.connections as usize;
    let per_peer = args.connections_per_peer.unwrap_or(args.connections.div_ceil(2));
    server.limits.connections_per_peer = per_peer as usize;
    server.limits.idle_time = Duration::from_secs(args.keep_alive);
    server.limits.body_bytes = args.max_body as usize;
    connections::allow();
    leyden_server::serve(models, server, |address: SocketAddr| {
        let names = if names.is_empty() { "no model yet".to_owned() } else { names.join(", ") };
        notes.say(&format!("listening on http://{address}, serving {names}"));
    })?;
    Ok(())
}

/// Says what a server waits for that was told to end.
fn tell_end(notes: Notes) -> TellEnd {
    Arc::new(move |waits: Waits| {
        let running = match waits.requests {
            0 => "no request runs".to_owned(),
            1 => format!("1 request runs and has up to {} s", (waits.lame_duck + waits.drain).as_secs()),
            n => format!("{n} requests run and have up to {} s", (waits.lame_duck + waits.drain).as_secs()),
        };
        let still = match waits.lame_duck.as_secs() {
            0 => String::new(),
            s => format!("; others are taken for {s} s (--lame-duck)"),
        };
        let again = match waits.requests == 0 && waits.lame_duck.is_zero() {
            true => "",
            false => "; the signal again, as Ctrl-C, ends everything at once",
        };
        notes.say(&format!("ending: {running}{still}{again}"));
    })
}

/// Returns the keys of `--api-keys` and `--api-key`; `None` without any.
fn keys(args: &Args) -> Result<Option<ApiKeys>, Failure> {
    let of_file = args.api_keys.as_deref().map(ApiKeys::read).transpose()?;
    if args.api_key.is_empty() {
        return Ok(of_file);
    }
    let all = of_file.unwrap_or_default().with(&args.api_key);
    all.map(Some).map_err(|what| Failure::usage(format!("--api-key: {what}")))
}

fn options(args: &Args) -> LoadOptions {
    LoadOptions::new()
        .threads(args.threads)
        .threads_batch(args.threads_batch)
        .isa(args.arithmetic.isa)
        .exact(args.arithmetic.exact)
        .int8(args.arithmetic.int8)
        .packs(args.packs.cache())
        .replicas(args.replicas)
}

/// The other names, by model; of one model without its name.
fn aliases(args: &Args, models: usize) -> Result<HashMap<String, Vec<String>>, Failure> {
    let mut aliases: HashMap<String, Vec<String>> = HashMap::new();
    for alias in &args.alias {
        let (model, name) = match alias.split_once('=') {
            Some((model, name)) => (model.to_owned(), name),
            None if models <= 1 => (String::new(), alias.as_str()),
            None => {
                return Err(Failure::usage("--alias: of several models, say whose name it is: MODEL=NAME"));
            }
        };
        if name.is_empty() {
            return Err(Failure::usage("--alias: the name is empty"));
        }
        aliases.entry(model).or_default().push(name.to_owned());
    }
    Ok(aliases)
}

/// What a model is called: the name it was pulled under, or that of its file or folder.
fn name(named: &Path, path: &Path) -> String {
    let stem = |p: &Path| {
        let gguf = p.extension().is_some_and(|e| e.eq_ignore_ascii_case("gguf"));
        let name = if gguf { p.file_stem() } else { p.file_name() };
        name.map(|n| n.to_string_lossy().into_owned())
    };
    if named == path {
        stem(path).unwrap_or_else(|| path.display().to_string())
    } else {
        named.display().to_string()
    }
}
