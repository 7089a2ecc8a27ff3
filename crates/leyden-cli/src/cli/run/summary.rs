//! Summary of a run: the last line, and its JSON form.

use std::path::Path;
use std::time::Duration;

use leyden::{Generation, Model, PackReport};
use serde_json::{Value, json};

use crate::cli::text;

/// Times and sizes of one answer or a whole conversation.
#[derive(Debug)]
pub(super) struct Summary {
    model: String,
    tier: &'static str,
    threads: usize,
    threads_batch: usize,
    seed: u64,
    load: Duration,
    packs: PackReport,
    first_token: Option<Duration>,
    prompt_tokens: usize,
    prefill: Duration,
    /// Number of tokens after the first of each answer, to which the time `decode` belongs.
    decoded_tokens: usize,
    decode: Duration,
    /// Numbers of draft tokens and of accepted ones.
    drafts: (usize, usize),
}

impl Summary {
    /// Creates an empty summary.
    pub(super) fn new(model: &Model, seed: u64) -> Self {
        Self {
            model: model.metadata().file().to_owned(),
            tier: model.cpu().tier().level().name(),
            threads: model.cpu().for_tokens(1).pool().members(),
            threads_batch: model.cpu().pool().members(),
            seed,
            load: model.load_time(),
            packs: model.packs().clone(),
            first_token: None,
            prompt_tokens: 0,
            prefill: Duration::ZERO,
            decoded_tokens: 0,
            decode: Duration::ZERO,
            drafts: (0, 0),
        }
    }

    /// Adds an answer.
    pub(super) fn add(&mut self, answer: &Generation) {
        if !answer.first_token.is_zero() {
            self.first_token.get_or_insert(answer.first_token);
        }
        self.prompt_tokens += answer.prompt_tokens - answer.cached_tokens;
        self.prefill += answer.prefill;
        self.decoded_tokens += answer.tokens.len().saturating_sub(1);
        self.decode += answer.decode;
        self.drafts = (self.drafts.0 + answer.drafted_tokens, self.drafts.1 + answer.accepted_tokens);
    }

    /// Returns the summary as a line of text.
    pub(super) fn line(&self) -> String {
        let mut parts = vec![format!("load {}", time(self.load))];
        if let Some(first) = self.first_token {
            parts.push(format!("first token {}", time(first)));
            parts.push(part("prefill", self.prompt_tokens, self.prefill));
        }
        if self.decoded_tokens > 0 {
            parts.push(part("decode", self.decoded_tokens, self.decode));
        }
        if self.drafts.0 > 0 {
            let (drafted, accepted) = self.drafts;
            parts.push(format!("{accepted} of {drafted} draft tokens accepted"));
        }
        if let Some(peak) = leyden::peak_memory() {
            parts.push(format!("peak memory {}", text::bytes(peak)));
        }
        let threads = text::plural(self.threads, "thread");
        let batch =
            (self.threads_batch != self.threads).then(|| format!(" ({} to read)", self.threads_batch));
        parts.push(format!("{threads}{}, {}", batch.unwrap_or_default(), self.tier));
        parts.push(format!("seed {}", self.seed));
        parts.join(" | ")
    }

    /// Returns the answer and the summary as JSON.
    pub(super) fn json(&self, answer: &Generation) -> Value {
        json!({
            "model": self.model,
            "text": answer.text,
            "tokens": answer.tokens,
            "finish": answer.finish.name(),
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.tokens.len(),
            "seed": self.seed,
            "isa": self.tier,
            "threads": self.threads,
            "threads_batch": self.threads_batch,
            "load_seconds": self.load.as_secs_f64(),
            "pack": {
                "read": self.packs.read.as_deref().map(Path::to_string_lossy),
                "made": self.packs.made.as_deref().map(Path::to_string_lossy),
                "mapped": self.packs.mapped,
            },
            "drafted_tokens": answer.drafted_tokens,
            "accepted_tokens": answer.accepted_tokens,
            "first_token_seconds": self.first_token.map(|time| time.as_secs_f64()),
            "prefill_tokens_per_second": rate(self.prompt_tokens, self.prefill),
            "decode_tokens_per_second": rate(self.decoded_tokens, self.decode),
            "peak_memory_bytes": leyden::peak_memory(),
        })
    }
}

/// Returns the speed of one answer as text.
pub(super) fn speed(answer: &Generation) -> String {
    let read = answer.prompt_tokens - answer.cached_tokens;
    let mut parts = vec![
        format!("{} in cache", text::plural(answer.cached_tokens, "token")),
        part("prefill", read, answer.prefill),
    ];
    if answer.tokens.len() > 1 {
        parts.push(part("decode", answer.tokens.len() - 1, answer.decode));
    }
    parts.push(format!("first token {}", time(answer.first_token)));
    parts.join(" | ")
}

fn part(name: &str, tokens: usize, time: Duration) -> String {
    let rate = rate(tokens, time).map_or(String::new(), |rate| format!(", {rate:.1} t/s"));
    format!("{name} {}{rate}", text::plural(tokens, "token"))
}

fn rate(tokens: usize, time: Duration) -> Option<f64> {
    (tokens > 0 && !time.is_zero()).then(|| tokens as f64 / time.as_secs_f64())
}

fn time(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("{:.1} ms", time.as_secs_f64() * 1e3)
    } else {
        format!("{:.2} s", time.as_secs_f64())
    }
}
