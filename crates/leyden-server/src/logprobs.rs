//! Tokens of an answer with their log probabilities, in the form of OpenAI's APIs.

use crate::mailbox::TokenLogprob;
use crate::served::Served;
use crate::streamed_json::{self, StreamedJson};
use crate::token_name;
use serde_json::{Value, json};
use std::sync::Arc;

/// Returns a log probability as JSON. JSON has no minus infinity; OpenAI's value for "nearly impossible" replaces it.
pub(crate) fn shown(logprob: f32) -> Value {
    if logprob.is_finite() { json!(logprob) } else { json!(-9999.0) }
}

/// Returns the tokens of the content, each with as many alternatives as requested.
pub(crate) fn content(model: &Served, alternatives: usize, tokens: &[TokenLogprob]) -> Vec<Value> {
    let one = |token: u32, logprob: f32| {
        let bytes = model.tokenizer.token_bytes(token).unwrap_or_default();
        json!({ "token": token_name::shown(bytes), "logprob": shown(logprob), "bytes": bytes })
    };
    tokens
        .iter()
        .map(|t| {
            let mut shown = one(t.token, t.logprob);
            // As in vLLM, the chosen token is one of the requested number.
            let mut top = t.top.clone();
            if top.len() > alternatives {
                top.remove(alternatives.saturating_sub(1));
                top.truncate(alternatives);
            }
            shown["top_logprobs"] = top.iter().map(|&(id, p)| one(id, p)).collect();
            shown
        })
        .collect()
}

/// Adds the tokens as a list that is written while it is sent: as a JSON tree it would take about a hundred times the
/// memory.
pub(crate) fn list(
    pieces: &mut StreamedJson,
    model: &Arc<Served>,
    alternatives: usize,
    tokens: Vec<TokenLogprob>,
) -> Value {
    let model = Arc::clone(model);
    pieces.list(tokens, move |token, out| {
        for shown in content(&model, alternatives, std::slice::from_ref(&token)) {
            streamed_json::json(&shown, out);
        }
    })
}

/// Adds a list of tokens that several documents share.
pub(crate) fn shared(
    pieces: &mut StreamedJson,
    model: &Arc<Served>,
    alternatives: usize,
    tokens: Arc<[TokenLogprob]>,
) -> Value {
    let model = Arc::clone(model);
    pieces.list(0..tokens.len(), move |i, out| {
        for shown in content(&model, alternatives, &tokens[i..=i]) {
            streamed_json::json(&shown, out);
        }
    })
}
