//! `leyden audit replay`: the request of a record, answered again by a server without a socket.
//!
//! That server writes an audit log of its own, in a temporary folder, and the two records are compared.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leyden_audit::{AuditLog, ContentKey, Entry, Options, Phase, Record, read, sha256};
use leyden_server::{InMemory, LogFormat};
use serde_json::{Value, json};

use super::entries::{content, is_of};
use crate::cli::failure::Failure;
use crate::cli::serve;

/// Maximum size of an input in bytes.
const MAX_INPUT: u64 = 1 << 30;

/// Computes the answer of a record again with the same request and the same seed, and compares model, template, settings,
/// prompt and result. The request comes from the log, if its content was kept, or from a file with the body that was
/// sent. Fails if the result is another one.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Folder of the log
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Id of the record
    #[arg(long, value_name = "ID")]
    id: String,
    /// Model, as for `leyden serve`
    #[arg(long, short, value_name = "M")]
    model: PathBuf,
    /// File with the body of the request
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Secret key of `leyden audit keygen`, to decrypt the body in the log
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Options of `leyden serve` with which the model was served, such as --lora
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<OsString>,
}

/// Answers the request again.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let (first, last) = find(args)?;
    let body = input(args, &first)?;
    let again = answer(args, &first.record, body)?;
    let compared = compare(&last.record, &again);
    let is_same = last.record.result_sha256.is_some() && last.record.result_sha256 == again.result_sha256;
    if args.json {
        let value = json!({ "id": args.id, "same": is_same, "differences": compared, "record": last.record, "again": again });
        serde_json::to_writer_pretty(&mut *out, &value)?;
        writeln!(out)?;
    } else {
        for difference in &compared {
            writeln!(out, "{difference}")?;
        }
        if is_same {
            writeln!(out, "the same result: {}", again.result_sha256.as_deref().unwrap_or_default())?;
        }
    }
    out.flush()?;
    match (is_same, &last.record.result_sha256) {
        (true, _) => Ok(()),
        (false, None) => Err(Failure::new(format!(
            "{}:{}: the record has no result to compare with: the answer was not finished",
            last.file, last.line
        ))),
        (false, Some(_)) => Err(Failure::new("another result than in the record")),
    }
}

/// Returns the record with the input, and that with the result.
fn find(args: &Args) -> Result<(Entry, Entry), Failure> {
    let mut found: Vec<Entry> = Vec::new();
    read(&args.folder, |entry| {
        if is_of(&entry, &args.id) {
            found.push(entry);
        }
        found.len() < 3
    })?;
    let none = || Failure::new(format!("{}: no record has the id {}", args.folder.display(), args.id));
    let several = || {
        Failure::new(format!("{}: several requests have the id {}", args.folder.display(), args.id))
            .hint("`leyden audit show DIR --id ID` shows their unique ids")
    };
    let (Some(first), Some(last)) = (found.first().cloned(), found.last().cloned()) else {
        return Err(none());
    };
    let phases: Vec<Phase> = found.iter().map(|entry| entry.record.phase).collect();
    match phases[..] {
        [Phase::Whole] | [Phase::Start] | [Phase::Start, Phase::End] => Ok((first, last)),
        _ => Err(several()),
    }
}

/// Returns the body of the request, whose digest is that of the record.
fn input(args: &Args, entry: &Entry) -> Result<Vec<u8>, Failure> {
    let place = format!("{}:{}", entry.file, entry.line);
    let (from, body) = match &args.input {
        Some(path) => (path.display().to_string(), bytes(path)?),
        None => {
            let key = args.key.as_deref().map(ContentKey::read).transpose()?;
            let content = content(entry, key.as_ref())?;
            let body = content.and_then(|content| content.input).ok_or_else(|| {
                Failure::usage(format!("{place}: the request is not known"))
                    .hint("name a file with its body with --input, or the key of its content with --key")
            })?;
            (place.clone(), body.into_bytes())
        }
    };
    match &entry.record.input_sha256 {
        Some(digest) if *digest == sha256(&body) => Ok(body),
        Some(digest) => Err(Failure::new(format!(
            "{from}: its SHA-256 is {}, that of the record {digest}",
            sha256(&body)
        ))),
        None => Err(Failure::new(format!("{place}: the record has no digest of its input"))),
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |error| Failure::new(format!("{}: cannot read: {error}", path.display()));
    match std::fs::metadata(path).map_err(failed)?.len() {
        ..=MAX_INPUT => std::fs::read(path).map_err(failed),
        _ => Err(Failure::new(format!("{}: longer than a request can be", path.display()))),
    }
}

/// Answers the request, and returns its record.
fn answer(args: &Args, record: &Record, body: Vec<u8>) -> Result<Record, Failure> {
    if !record.task.starts_with('/') {
        return Err(Failure::new(format!(
            "`{}`: only requests to a server can be answered again",
            record.task
        )));
    }
    let mut words: Vec<OsString> = vec!["--model".into(), args.model.clone().into()];
    words.extend(args.options.iter().cloned());
    let served = serve::parsed(words)?;
    let serve::Prepared { mut models, mut server, .. } = serve::prepare_all(&served)?;
    for model in &mut models {
        // The request may name the model as the server had it then.
        model.aliases.extend(record.model.as_ref().map(|model| model.name.clone()));
        model.aliases.retain(|alias| *alias != model.name);
        if let Some(seed) = record.seed {
            model.defaults = std::mem::take(&mut model.defaults).with_seed(seed);
        }
    }
    let folder = leyden_files::TemporaryFolder::create(&std::env::temp_dir())?;
    let log = folder.path().join("log");
    let options = Options::new(folder.path().join("key"), env!("CARGO_PKG_VERSION"));
    let audit = Arc::new(AuditLog::open(&log, options)?);
    (server.audit, server.log, server.keys) = (Some(Arc::clone(&audit)), LogFormat::Off, None);
    let server = InMemory::start(models, server)?;
    let query = record.other.get("query").and_then(Value::as_str).map(|query| format!("?{query}"));
    let path = format!("{}{}", record.task, query.unwrap_or_default());
    let (status, text) = server.answer("POST", &path, body);
    let mut records = Vec::new();
    audit.close()?;
    read(&log, |entry| {
        records.push(entry.record);
        true
    })?;
    records.pop().ok_or_else(|| {
        let text: String = String::from_utf8_lossy(&text).chars().take(500).collect();
        Failure::new(format!("the server refuses the request with status {status}: {text}"))
    })
}

/// Returns what differs, a line each.
fn compare(then: &Record, now: &Record) -> Vec<String> {
    let model = |record: &Record, part: fn(&leyden_audit::ModelFacts) -> Option<String>| {
        record.model.as_ref().and_then(part)
    };
    let text = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    let adapters = |record: &Record| {
        let all = record.model.as_ref().map(|model| &model.adapters[..]).unwrap_or_default();
        let one = |adapter: &leyden_audit::AdapterFacts| {
            format!("{} x {}", adapter.sha256.as_deref().unwrap_or("unknown"), adapter.scale)
        };
        Some(all.iter().map(one).collect::<Vec<_>>().join(", ")).filter(|all| !all.is_empty())
    };
    let settings = |record: &Record| Some(Value::Object(record.settings.clone()).to_string());
    [
        ("model file", model(then, |m| m.sha256.clone()), model(now, |m| m.sha256.clone())),
        (
            "chat template",
            model(then, |m| m.template_sha256.clone()),
            model(now, |m| m.template_sha256.clone()),
        ),
        ("adapters", adapters(then), adapters(now)),
        ("settings", settings(then), settings(now)),
        ("seed", then.seed.map(|seed| seed.to_string()), now.seed.map(|seed| seed.to_string())),
        ("prompt", then.prompt_sha256.clone(), now.prompt_sha256.clone()),
        ("result", then.result_sha256.clone(), now.result_sha256.clone()),
    ]
    .into_iter()
    .filter(|(_, then, now)| then != now)
    .map(|(name, then, now)| format!("{name} differs: {} in the record, {} now", text(then), text(now)))
    .collect()
}
