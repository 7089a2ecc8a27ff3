//! `leyden serve`: models over HTTP.

mod args;
mod calibration;
mod directory;
mod evidence;
mod in_memory;
mod prepare;
mod service_facts;
mod settings;
mod slo;
mod speech;
mod stored;
mod tls;
mod toml_values;
mod traces;

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::iter;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::{Args as _, FromArgMatches};
use directory::Directory;
use leyden::{Model, PackCache};
use leyden_kernels::heap;
use leyden_kernels::topology::Topology;
use leyden_server::{ApiKeys, LogFormat, ServerOptions, TellEnd, Waits, plan_memories};
use leyden_speech::Whisper;
use prepare::Common;
use settings::{Entry, Settings};
use stored::Stored;

pub(crate) use args::Args;
pub(super) use in_memory::{InMemoryOptions, start as start_in_memory};
pub(super) use service_facts::ServiceFacts;

use super::connections;
use super::failure::Failure;
use super::notes::Notes;
use super::packs;
use super::run::load;
use super::signals;

/// Time in which the last traces are sent when the server ends.
const LAST_TRACES: Duration = Duration::from_secs(2);

/// Models and options of a server.
pub(super) struct Prepared {
    pub(super) models: Vec<leyden_server::Model>,
    pub(super) server: ServerOptions,
    /// Names of all models.
    names: Vec<String>,
}

/// Starts the server.
pub(super) fn execute(args: &Args, _: &mut dyn Write) -> Result<(), Failure> {
    heap::keep_little();
    let notes = args.notes;
    // Errors of files and options are reported before models are loaded.
    let config = config(args)?;
    let tls_options = args.tls.clone().or(config.tls);
    let keys = tls_options.clients(keys(args)?)?;
    let tls = tls_options.load(notes)?;
    let traces = args.traces.start(notes)?;
    let audit = args.audit.open()?.map(Arc::new);
    let Prepared { models, mut server, names } = prepare(args, keys, config.entries)?;
    server.tls.clone_from(&tls);
    server.traces.clone_from(&traces);
    server.audit.clone_from(&audit);
    connections::raise_open_files();
    let scheme = if tls.is_some() { "https" } else { "http" };
    leyden_server::serve(models, server, |address: SocketAddr| {
        let names = if names.is_empty() { "no model yet".to_owned() } else { names.join(", ") };
        notes.say(&format!("listening on {scheme}://{address}, serving {names}"));
    })?;
    traces.iter().for_each(|traces| traces.exporter.finish(LAST_TRACES));
    audit.map_or(Ok(()), |audit| Ok(audit.close()?))
}

/// Parses arguments of the command.
pub(super) fn parsed(words: Vec<OsString>) -> Result<Args, Failure> {
    let command = Args::augment_args(clap::Command::new("serve")).no_binary_name(true);
    let matches = command.try_get_matches_from(words);
    matches
        .and_then(|matches| Args::from_arg_matches(&matches))
        .map_err(|error| Failure::usage(error.render().to_string().trim_start_matches("error: ").trim_end()))
}

/// Reads the file of --config.
fn config(args: &Args) -> Result<settings::File, Failure> {
    Ok(args.config.as_deref().map(|path| settings::read(path, args)).transpose()?.unwrap_or_default())
}

/// Loads the models, and returns the options of the server, without an audit log, TLS or traces.
pub(super) fn prepare_all(args: &Args) -> Result<Prepared, Failure> {
    prepare(args, keys(args)?, config(args)?.entries)
}

/// Loads the models named and those of the file of --config that are loaded at the start.
fn prepare(args: &Args, keys: Option<ApiKeys>, entries: Vec<Entry>) -> Result<Prepared, Failure> {
    let (notes, common) = (args.notes, Common::of(args)?);
    if args.end_with_input {
        end_with_input()?;
    }
    let named = args.named();
    let mut aliases = aliases(args, named.len())?;
    let lora = args.lora.all().map_err(|what| Failure::usage(format!("--lora: {what}")))?;
    let others = args.config.is_some() || args.all;
    if !lora.is_empty() && (named.len() > 1 || named.is_empty() && others) {
        return Err(Failure::usage(
            "--lora needs a single model; with several, set `lora` of each model in the file of --config",
        ));
    }
    let draft_path = draft(args, args.draft.as_deref())?;
    let settings = |name: &str, aliases: &mut HashMap<String, Vec<String>>| {
        let mut own = aliases.remove(name).unwrap_or_default();
        own.extend(aliases.remove("").unwrap_or_default());
        Settings { aliases: own, lora: lora.clone(), draft: draft_path.clone(), ..Settings::of(args) }
    };
    let (mut loaded, mut on_demand, directory) = (Vec::new(), Vec::new(), Directory::default());
    let stored =
        Stored::new(common.clone(), Settings { draft: None, ..Settings::of(args) }, directory.clone());
    // A model that cannot be served is left out; the others are served.
    let mut left_out = Vec::new();
    for Entry { name, model, mut settings } in entries {
        let found = args.hub.obtain(&model, notes).and_then(|path| {
            settings.draft = draft(args, settings.draft.as_deref())?;
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
                    // Aliases of this model are dropped, too.
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
            if Whisper::is_at(path) {
                let name = name(named, path);
                let settings = Settings { preload: true, idle: None, ..settings(&name, &mut aliases) };
                on_demand.push(prepare::on_demand(&common, settings, name.clone(), path.clone())?);
                directory.add(&name, named, path);
                continue;
            }
            if let Some(required) = &common.evidence {
                required.check(path, &Settings { lora: lora.clone(), ..Settings::of(args) })?;
            }
            let own = Settings { lora: lora.clone(), draft: draft_path.clone(), ..Settings::of(args) };
            let model = load(path, &prepare::options(&common, &own), notes)?;
            packs::report(&model, notes);
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
            notes.say(&format!("{nothing}; clients can pull models"));
        }
    }
    if loaded.is_empty() && on_demand.is_empty() && !left_out.is_empty() {
        return Err(left_out.swap_remove(0).1);
    }
    for (name, why) in &left_out {
        notes.say(&format!("{name} is left out: {why}"));
    }
    if loaded.is_empty() && on_demand.is_empty() && !args.all {
        if common.evidence.is_some() {
            return Err(Failure::usage(
                "--require-evidence: no model is named, and the embedded one has no evidence",
            ));
        }
        notes.say(
            "no model named: the embedded storyteller is served, a toy of 4 million parameters. For a real model: leyden \
             serve smollm2; leyden models lists others",
        );
        let own = Settings { lora: lora.clone(), draft: draft_path.clone(), ..Settings::of(args) };
        loaded.push((Model::embedded(&prepare::options(&common, &own))?, "storyteller".to_owned()));
    }
    // The permanent weights are loaded now. The rest of the memory is for their caches, one per engine, and for other
    // models.
    let all: Vec<(Model, Settings, String)> =
        loaded.into_iter().map(|(model, name)| (model, settings(&name, &mut aliases), name)).collect();
    if let Some(unknown) = aliases.keys().next() {
        return Err(Failure::usage(format!("--alias: there is no model `{unknown}`")));
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
        // Engines of one model have equal needs, and so equal plans.
        let (of_model, rest) = plans.split_at(model.replicas().len());
        plans = rest;
        models.push(prepare::ready(&common, &settings, &model, name, &of_model[0]).map_err(Failure::new)?);
    }
    // A tenth stays free for other programs, as with a cache.
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
        batch_dir: args.batch_dir.clone(),
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
    Ok(Prepared { models, server, names })
}

/// Returns the file or folder of a draft model.
fn draft(args: &Args, draft: Option<&Path>) -> Result<Option<PathBuf>, Failure> {
    draft.map(|draft| args.hub.obtain(draft, args.notes)).transpose()
}

/// Ends the program when standard input is closed.
fn end_with_input() -> Result<(), Failure> {
    let wait = || {
        // An input that cannot be read is closed, too.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        signals::exit(0);
    };
    let spawned = thread::Builder::new().name("input".to_owned()).spawn(wait);
    spawned.map(drop).map_err(|error| Failure::new(format!("no thread can be started: {error}")))
}

/// Returns a callback that prints what the server waits for when it shuts down.
fn tell_end(notes: Notes) -> TellEnd {
    Arc::new(move |waits: Waits| {
        let running = match waits.requests {
            0 => "no request runs".to_owned(),
            1 => format!("1 request runs and has up to {} s", (waits.lame_duck + waits.drain).as_secs()),
            n => format!("{n} requests run and have up to {} s", (waits.lame_duck + waits.drain).as_secs()),
        };
        let still = match waits.lame_duck.as_secs() {
            0 => String::new(),
            s => format!("; new requests are accepted for {s} s (--lame-duck)"),
        };
        let again = match waits.requests == 0 && waits.lame_duck.is_zero() {
            true => "",
            false => "; a second signal (Ctrl-C) ends everything at once",
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

/// Returns the aliases by model. With a single model, an alias needs no `MODEL=`.
fn aliases(args: &Args, models: usize) -> Result<HashMap<String, Vec<String>>, Failure> {
    let mut aliases: HashMap<String, Vec<String>> = HashMap::new();
    for alias in &args.alias {
        let (model, name) = match alias.split_once('=') {
            Some((model, name)) => (model.to_owned(), name),
            None if models <= 1 => (String::new(), alias.as_str()),
            None => {
                return Err(Failure::usage("--alias: with several models, use MODEL=NAME"));
            }
        };
        if name.is_empty() {
            return Err(Failure::usage("--alias: the name is empty"));
        }
        aliases.entry(model).or_default().push(name.to_owned());
    }
    Ok(aliases)
}

/// Returns the name of a model: its name in the store, or that of its file or folder.
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
