//! `leyden ps`: the models of a server.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use leyden_load::{ApiKey, Authorities, Base, Server};
use serde_json::{Value, json};

use super::client_certificate::ClientCertificate;
use super::failure::Failure;
use super::text::{Table, bytes};
use super::{knobs, load};

/// Prints for each model whether it is loaded, the memory in use (weights, and the KV cache of running texts), the
/// reserved memory, the number of requests, and the time at which it is unloaded if it is not used; and for a model with
/// a service level, what was promised and measured in the last 5 minutes, and what the next request can expect.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address of the server, such as 127.0.0.1:8080
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    url: Base,
    /// File with the API key; by default the key is LEYDEN_API_KEY
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    /// PEM file with the trusted certificate authorities, instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    #[command(flatten)]
    certificate: ClientCertificate,
    /// Unload this model when its requests have ended; any name that `leyden run` accepts
    #[arg(long, value_name = "MODEL")]
    unload: Option<String>,
    /// Ask only whether the server is ready, and fail if it is not; needs no key. For health checks of containers
    #[arg(long, conflicts_with = "unload")]
    ready: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Time limit for the server's answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Prints the list.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let key = match &args.api_key_file {
        Some(path) => Some(load::key_file(path)?),
        None => knobs::api_key().map(|text| ApiKey::new(&text, knobs::API_KEY)).transpose()?,
    };
    let authorities = args.ca_file.clone().map_or(Authorities::System, Authorities::File);
    let server =
        Server::with_certificate(args.url.clone(), key, &authorities, args.certificate.files().as_ref())?;
    let server = Arc::new(server);
    if args.ready {
        return is_ready(&server, args.json, out);
    }
    if let Some(model) = &args.unload {
        let known = ask(&server, &format!("/v1/models/{}", encoded(model)), None)?;
        let loaded = ask(&server, "/api/ps", None)?;
        if !list(&loaded, "models").any(|m| m["name"] == known["root"]) {
            return Err(Failure::new(format!("{}: {model} is not in memory", args.url))
                .hint("`leyden ps` lists the models in memory"));
        }
        let said = ask(&server, "/api/generate", Some(&json!({ "model": model, "keep_alive": 0 })))?;
        if said["done_reason"] != "unload" {
            return Err(Failure::new(format!("{}: {model} cannot be unloaded", args.url))
                .hint("only models of serve --on-demand, --all and --config can be unloaded"));
        }
    }
    let (all, loaded) = (ask(&server, "/v1/models", None)?, ask(&server, "/api/ps", None)?);
    let mut models = Vec::new();
    for model in list(&all, "data").filter(|m| m["id"] == m["root"]) {
        let id = model["id"].as_str().unwrap_or_default();
        let here = list(&loaded, "models").find(|m| m["name"] == id);
        let aliases: Vec<&str> = list(&all, "data")
            .filter(|m| m["root"] == id && m["id"] != id)
            .filter_map(|m| m["id"].as_str())
            .collect();
        models.push(json!({
            "name": id, "aliases": aliases, "loaded": here.is_some(),
            "bytes": here.map(|m| m["size"].clone()), "reserved_bytes": here.map(|m| m["reserved"].clone()),
            "requests": here.map(|m| m["running"].clone()),
            "expires_at": here.map(|m| m["expires_at"].clone()), "context": model["max_model_len"],
            "service_level": here.map(|m| m["service_level"].clone()),
        }));
    }
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &json!({ "url": args.url.to_string(), "models": models }))?;
        return Ok(writeln!(out)?);
    }
    let columns = ["NAME", "ALIASES", "USED", "RESERVED", "REQUESTS", "CONTEXT", "UNTIL"];
    let mut table = Table::new(&columns, &[2, 3, 4, 5]);
    for model in &models {
        let of =
            |key: &str, form: fn(u64) -> String| model[key].as_u64().map_or_else(|| "-".to_owned(), form);
        let until = match model["expires_at"].as_str() {
            None => "not loaded",
            // A time so far away means that the model stays.
            Some(time) if time.starts_with("9999") => "stays",
            Some(time) => time,
        };
        let names: Vec<&str> =
            model["aliases"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        table.add(vec![
            model["name"].as_str().unwrap_or_default().to_owned(),
            if names.is_empty() { "-".to_owned() } else { names.join(", ") },
            of("bytes", bytes),
            of("reserved_bytes", bytes),
            of("requests", |n| n.to_string()),
            of("context", |n| n.to_string()),
            until.to_owned(),
        ]);
    }
    table.write(out)?;
    for model in models.iter().filter(|model| model["service_level"].is_object()) {
        writeln!(out)?;
        service_level(model["name"].as_str().unwrap_or_default(), &model["service_level"], out)?;
    }
    Ok(())
}

/// Writes the state of a model's promise.
fn service_level(name: &str, level: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let count = |key: &str| level[key].as_u64().unwrap_or(0);
    let promise = level["promise"].as_str().unwrap_or_default();
    let (admitted, delayed, refused) = (count("admitted"), count("delayed"), count("refused"));
    writeln!(
        out,
        "{name}: service level {promise}: {admitted} admitted ({delayed} waited), {refused} refused"
    )?;
    let mut table = Table::new(&["METRIC", "PROMISE", "MEASURED", "VALUES", "NEXT REQUEST"], &[1, 2, 3, 4]);
    for metric in list(level, "metrics") {
        let of = metric["metric"].as_str().unwrap_or_default();
        let shown = |value: &Value| match value.as_f64() {
            None => "-".to_owned(),
            Some(value) if of == "user_tps" => format!("{value:.1}/s"),
            Some(value) if value < 1.0 => format!("{:.0} ms", value * 1e3),
            Some(value) => format!("{value:.2} s"),
        };
        table.add(vec![
            format!("{of}_p{}", metric["percentile"].as_f64().unwrap_or_default()),
            shown(&metric["bound"]),
            shown(&metric["measured"]),
            metric["count"].as_u64().unwrap_or(0).to_string(),
            shown(&metric["estimate"]),
        ]);
    }
    Ok(table.write(out)?)
}

fn list<'a>(document: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    document[key].as_array().into_iter().flatten()
}

/// Percent-encodes a name for a URL path: every byte except ASCII letters and digits.
fn encoded(name: &str) -> String {
    let byte = |b: u8| match b.is_ascii_alphanumeric() {
        true => char::from(b).to_string(),
        false => format!("%{b:02X}"),
    };
    name.bytes().map(byte).collect()
}

/// Sends a request to the server. Returns the document of its answer.
/// Prints the server's state; fails unless it is ready.
fn is_ready(server: &Arc<Server>, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let (status, document) = server.ask("/health", None, PATIENCE)?;
    let state = document["status"].as_str().unwrap_or("is this a leyden server?");
    if status != 200 {
        return Err(Failure::new(format!("{}: {state}", server.base())));
    }
    if json {
        writeln!(out, "{document}")?
    } else {
        writeln!(out, "{state}")?
    }
    Ok(())
}

fn ask(server: &Arc<Server>, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
    let (status, document) = server.ask(path, body, PATIENCE).map_err(|error| {
        Failure::from(error).hint("start a server with `leyden serve`, or set its address with --url")
    })?;
    if status == 200 {
        return Ok(document);
    }
    let error = &document["error"];
    let message = error["message"].as_str().or(error.as_str()).unwrap_or("is this a leyden server?");
    Err(Failure::new(format!("{}: {path} returned status {status}: {message}", server.base())))
}
