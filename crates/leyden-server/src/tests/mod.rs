//! The server in this process with the storyteller model: most tests without a socket, those of connections with one.

mod adapters;
mod answer_sizes;
mod answers;
mod audit;
mod chat_input;
mod compiling;
mod connections;
mod costs;
mod defaults;
mod dialects;
mod edges;
mod endings;
mod in_memory;
mod keys;
mod mailbox;
mod names;
mod on_demand;
mod operations;
mod other_paths;
mod prompts;
mod published;
mod recurrent;
mod replicas;
mod residency;
mod responses;
mod scoring;
mod service_level;
mod shapes;
mod speculation;
mod streams;
mod supervision;
mod tls;
mod tools;
mod traces;

use crate::app::App;
use crate::body::Reply;
use crate::log::{Log, LogFormat};
use crate::metrics::ModelMetrics;
use crate::{Model, ModelInfo, ServerOptions, WorkerOptions};
use hyper::body::{Body, Bytes};
use hyper::{Request, Response};
use leyden_engine::Pooling;
use leyden_engine::sample::SamplingParams;
use leyden_kernels::{Cpu, Tier};
use leyden_models::Network;
use leyden_tensor::Gguf;
use leyden_text::Tokenizer;
use serde_json::{Value, json};
use std::future::poll_fn;
use std::io::{self, Write};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, UNIX_EPOCH};

const STORYTELLER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../leyden/model/storyteller-q8_0.gguf");

type Loaded = (Arc<dyn Network>, Arc<Cpu>, Arc<dyn Tokenizer>);

/// The storyteller, loaded once.
fn loaded() -> Loaded {
    static LOADED: OnceLock<Loaded> = OnceLock::new();
    let load = || {
        let file = Arc::new(Gguf::open(Path::new(STORYTELLER)).unwrap());
        let tokenizer =
            leyden_text::from_gguf(leyden_tensor::WeightSource::metadata(&*file), "storyteller").unwrap();
        let cpu = Arc::new(Cpu::new(Tier::best(), 1).unwrap());
        let network = leyden_models::load(file, &cpu, &mut |_, _| {}).unwrap();
        (network, cpu, Arc::from(tokenizer))
    };
    LOADED.get_or_init(load).clone()
}

/// Returns true if the tests run in an emulator.
fn emulated() -> bool {
    std::env::var_os("LEYDEN_TEST_RUNNER").is_some()
}

/// Returns a timeout that only a hanging test reaches.
fn patience() -> Duration {
    Duration::from_secs(if emulated() { 6000 } else { 120 })
}

fn worker_options() -> WorkerOptions {
    WorkerOptions { context: 512, kv_tokens: 8192, step_tokens: 256, ..WorkerOptions::default() }
}

fn model(worker: WorkerOptions) -> Model {
    let (network, cpu, tokenizer) = loaded();
    Model {
        name: "storyteller".to_owned(),
        aliases: vec!["gpt-4o".to_owned()],
        network,
        cpus: vec![cpu],
        adapters: Vec::new(),
        tokenizer,
        template: None,
        special_in_content: false,
        bare_calls: true,
        sampling: SamplingParams::default(),
        defaults: crate::Defaults::default(),
        sequence_breakers: vec!["\n".to_owned()],
        pooling: Pooling::default(),
        prompts: leyden_models::Prompts::default(),
        calibrated: None,
        draft: None,
        worker,
        info: ModelInfo {
            architecture: "llama".to_owned(),
            format: "gguf".to_owned(),
            weights: "Q8_0".to_owned(),
            parameters: 4_000_000,
            bytes: 4_250_000,
            modified: UNIX_EPOCH,
            digest: crate::Fingerprint::known("5a".repeat(32)),
        },
    }
}

/// The lines that were logged.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn start(worker: WorkerOptions, options: ServerOptions) -> (Arc<App>, Lines) {
    let lines = Lines::default();
    let log = Log::new(LogFormat::Json, Box::new(lines.clone())).unwrap();
    (App::start(vec![model(worker)], options, log).unwrap(), lines)
}

fn app() -> Arc<App> {
    start(worker_options(), ServerOptions::default()).0
}

/// Runs a test on two threads, with a guard against hanging.
fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let result = runtime.block_on(async { tokio::time::timeout(patience(), test).await });
    runtime.shutdown_background();
    result.expect("the test hangs")
}

fn request(method: &str, path: &str, body: &str) -> Request<Reply> {
    let builder = Request::builder().method(method).uri(path).header("content-type", "application/json");
    builder.body(Reply::whole(body.to_owned())).unwrap()
}

async fn next(body: &mut Reply) -> Option<Bytes> {
    let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await?;
    Some(frame.unwrap().into_data().unwrap())
}

async fn whole(response: Response<Reply>) -> String {
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Some(piece) = next(&mut body).await {
        bytes.extend_from_slice(&piece);
    }
    String::from_utf8(bytes).unwrap()
}

/// Sends a body unchanged; returns status and document of the response.
async fn send(app: &Arc<App>, path: &str, body: &str) -> (u16, Value) {
    let response = app.respond(request("POST", path, body)).await;
    let status = response.status().as_u16();
    (status, serde_json::from_str(&whole(response).await).unwrap())
}

async fn post(app: &Arc<App>, path: &str, body: Value) -> (u16, Value) {
    send(app, path, &body.to_string()).await
}

/// Returns the answer to a request that must succeed.
async fn ask(app: &Arc<App>, path: &str, body: Value) -> Value {
    let (status, answer) = post(app, path, body).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

async fn get(app: &Arc<App>, path: &str) -> (u16, String) {
    let response = app.respond(request("GET", path, "")).await;
    (response.status().as_u16(), whole(response).await)
}

/// Returns the events of a stream, the last of which must be `[DONE]` or an error.
async fn events(app: &Arc<App>, path: &str, mut body: Value) -> Vec<Value> {
    body["stream"] = true.into();
    let response = app.respond(request("POST", path, &body.to_string())).await;
    assert_eq!(response.status().as_u16(), 200);
    let text = whole(response).await;
    let mut events: Vec<&str> =
        text.split_terminator("\n\n").map(|e| e.strip_prefix("data: ").unwrap()).collect();
    if events.last() == Some(&"[DONE]") {
        events.pop();
    } else {
        assert!(events.last().unwrap().contains("\"error\""), "{text}");
    }
    events.into_iter().map(|e| serde_json::from_str(e).unwrap()).collect()
}

/// Waits until a condition holds.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + patience();
    while !is_so() {
        assert!(tokio::time::Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Returns the metrics of the first engine.
fn metrics(app: &App) -> Arc<ModelMetrics> {
    Arc::clone(app.models.served()[0].replicas.metrics().next().unwrap())
}

/// Returns true if the worker has no request left and the KV cache is free.
fn at_rest(app: &App) -> bool {
    let m = metrics(app);
    m.waiting.get() + m.running.get() + m.kv_blocks_used.get() == 0
}

/// Returns a request for a story, with a temperature and a seed.
fn story(i: usize, tokens: usize) -> Value {
    json!({
        "prompt": format!("Once upon a time there was a king who had {i} daughters"),
        "max_tokens": tokens, "seed": i, "temperature": 0.9, "ignore_eos": true,
    })
}

const COMPLETIONS: &str = "/v1/completions";
const CHAT: &str = "/v1/chat/completions";
const EMBEDDINGS: &str = "/v1/embeddings";
