//! Any bytes as a client's side of a connection, and any body of any endpoint: requests are refused with an error that is
//! JSON, or computed by a model whose context has few tokens. The server never fails. The first byte is the endpoint of a
//! body; a capital letter begins a connection.
#![no_main]

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::UNIX_EPOCH;

use leyden_engine::Pooling;
use leyden_engine::sample::SamplingParams;
use leyden_kernels::{Cpu, Tier};
use leyden_models::Prompts;
use leyden_server::{
    Defaults, Fingerprint, InMemory, Limits, LogFormat, Model, ModelInfo, ServerOptions, WorkerOptions,
};
use leyden_tensor::{Gguf, WeightSource};
use leyden_text::ChatTemplate;

const TEMPLATE: &str = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% for t in tools or [] %}{{ t }}{% endfor %}";

/// Returns the server. Its model has a context of few tokens, so that requests without an error end soon.
fn server() -> &'static InMemory {
    static SERVER: OnceLock<InMemory> = OnceLock::new();
    SERVER.get_or_init(|| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/leyden/model/storyteller-q8_0.gguf");
        let file = Arc::new(Gguf::open(Path::new(path)).unwrap());
        let tokenizer = leyden_text::from_gguf(file.metadata(), path).unwrap();
        let cpu = Arc::new(Cpu::new(Tier::best(), 1).unwrap());
        let network = leyden_models::load(file, &cpu, &mut |_, _| {}).unwrap();
        let model = Model {
            name: "m".to_owned(),
            aliases: Vec::new(),
            network,
            cpus: vec![cpu],
            adapters: Vec::new(),
            tokenizer: Arc::from(tokenizer),
            template: Some(Arc::new(ChatTemplate::new(TEMPLATE, "<s>", "</s>", "template").unwrap())),
            special_in_content: false,
            bare_calls: true,
            sampling: SamplingParams::default(),
            defaults: Defaults::default(),
            sequence_breakers: vec!["\n".to_owned()],
            pooling: Pooling::default(),
            calibrated: None,
            draft: None,
            prompts: Prompts::default(),
            worker: WorkerOptions {
                context: 48,
                kv_tokens: 256,
                step_tokens: 64,
                ..WorkerOptions::default()
            },
            info: ModelInfo {
                architecture: "llama".to_owned(),
                format: "gguf".to_owned(),
                weights: "Q8_0".to_owned(),
                parameters: 4_000_000,
                bytes: 4_250_000,
                modified: UNIX_EPOCH,
                digest: Fingerprint::known("5a".repeat(32)),
            },
        };
        let limits = Limits { choices: 2, prompts: 2, texts: 4, embedding_inputs: 4, ..Limits::default() };
        InMemory::start(
            vec![model],
            ServerOptions { limits, log: LogFormat::Off, ..ServerOptions::default() },
        )
        .unwrap()
    })
}

fn check(status: u16, body: &[u8]) {
    assert!((200..600).contains(&status) && status != 500, "{status} {}", String::from_utf8_lossy(body));
    if status >= 400 && !body.is_empty() {
        serde_json::from_slice::<serde_json::Value>(body).unwrap();
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else { return };
    if first.is_ascii_uppercase() {
        let responses = server().exchange(bytes).unwrap();
        assert!(responses.is_empty() || responses.starts_with(b"HTTP/1."));
        if let Some(status) = responses.get(9..12).and_then(|status| std::str::from_utf8(status).ok()) {
            check(status.parse().unwrap(), b"");
        }
        return;
    }
    let endpoints = InMemory::endpoints().count();
    let (method, path) = InMemory::endpoints().nth(usize::from(first) % endpoints).unwrap();
    let (status, body) = server().answer(method, path, rest.to_vec());
    check(status, &body);
});
