//! An answer in progress: its document, and its stream of events.

use super::input;
use super::items::Output;
use crate::app::App;
use crate::chat_output::ChatOutput;
use crate::dialects::answer_store::{self, StoredAnswer};
use crate::error::ApiError;
use crate::generate::Format;
use crate::mailbox::{End, Update};
use crate::streamed_json::StreamedJson;
use crate::timestamp::unix_time;
use crate::usage::Usage;
use serde_json::{Value, json};
use std::sync::Arc;

/// Maximum size in bytes of an answer that is stored.
pub(super) const MAX_KEPT_BYTES: usize = answer_store::BYTES;

/// An answer in progress.
pub(super) struct Events {
    pub(super) app: Arc<App>,
    pub(super) owner: String,
    pub(super) store: bool,
    /// The items of the conversation before the answer.
    pub(super) items: Vec<Value>,
    /// The document without its output.
    pub(super) head: Value,
    pub(super) output: Output,
    pub(super) chat_output: Option<ChatOutput>,
    pub(super) end: End,
}

impl Events {
    /// Completes the document, and stores the answer if requested.
    pub(super) fn finish(&mut self, end: End, usage: Usage) {
        let status = if end == End::Length { "incomplete" } else { "completed" };
        self.output.close(status);
        let shown = &mut self.head;
        shown["status"] = status.into();
        shown["completed_at"] = unix_time().into();
        if end == End::Length {
            shown["incomplete_details"] = json!({ "reason": "max_output_tokens" });
        }
        shown["usage"] = used(usage, self.output.reasoning_tokens());
        if self.store {
            self.keep();
        }
    }

    /// Returns the document, whose large parts are `pieces`.
    pub(super) fn document(&self, pieces: &mut StreamedJson) -> Value {
        let mut shown = self.head.clone();
        shown["output"] = self.output.all(pieces);
        shown
    }

    /// Stores the answer, unless its document is too large.
    fn keep(&mut self) {
        let mut pieces = StreamedJson::new();
        let shown = self.document(&mut pieces);
        let (mut writer, mut document) = (pieces.writer(&shown), Vec::new());
        while writer.more(&mut document) {
            if document.len() > MAX_KEPT_BYTES {
                return;
            }
        }
        let id = shown["id"].as_str().unwrap_or_default();
        let mut items = std::mem::take(&mut self.items);
        input::name(&mut items, id);
        let kept = StoredAnswer { document, input: items, output: self.output.items.clone() };
        self.app.answers.insert(&self.owner, id, kept);
    }
}

/// Returns the usage of a request.
pub(super) fn used(usage: Usage, reasoning: usize) -> Value {
    json!({
        "input_tokens": usage.prompt, "output_tokens": usage.completion,
        "input_tokens_details": { "cached_tokens": usage.cached, "cache_write_tokens": 0 },
        "output_tokens_details": { "reasoning_tokens": reasoning.min(usage.completion) },
        "total_tokens": usage.prompt + usage.completion,
    })
}

impl Format for Events {
    fn begin(&mut self, _: Usage, _: &mut Vec<u8>) {
        for name in ["response.created", "response.in_progress"] {
            self.output.send(name, json!({ "response": self.head }), StreamedJson::new());
        }
    }

    fn update(&mut self, _: usize, update: Update, _: &mut Vec<u8>) {
        self.output.tokens(update.logprobs);
        let parts = match &mut self.chat_output {
            Some(chat_output) => chat_output.push(update.parts),
            None => update.parts,
        };
        parts.into_iter().for_each(|part| self.output.push(part));
        self.end = update.end.unwrap_or(self.end);
    }

    fn end(&mut self, usage: Usage, _: &mut Vec<u8>) {
        self.finish(self.end, usage);
        let mut pieces = StreamedJson::new();
        let shown = self.document(&mut pieces);
        let name = if self.end == End::Length { "response.incomplete" } else { "response.completed" };
        self.output.send(name, json!({ "response": shown }), pieces);
    }

    fn fail(&mut self, error: &ApiError, _: &mut Vec<u8>) {
        self.output.close("incomplete");
        let mut pieces = StreamedJson::new();
        let mut shown = self.document(&mut pieces);
        shown["status"] = "failed".into();
        shown["error"] = json!({ "code": "server_error", "message": error.message });
        self.output.send("response.failed", json!({ "response": shown }), pieces);
    }

    fn more(&mut self, out: &mut Vec<u8>) -> bool {
        self.output.write(out)
    }
}
