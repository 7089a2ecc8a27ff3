//! Times of a request in llama-server's field `timings`, in answers of its endpoints and of OpenAI's.

use crate::log::Entry;
use serde_json::{Value, json};

/// Numbers of tokens of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens {
    pub(crate) prompt: usize,
    /// Number of prompt tokens found in the prefix cache.
    pub(crate) cached: usize,
    pub(crate) generated: usize,
    /// Numbers of draft tokens of speculation, and of accepted ones.
    pub(crate) drafts: (usize, usize),
}

/// Returns the times so far: `prompt_ms` until the first token, `predicted_ms` from then on.
pub(crate) fn so_far(entry: &Entry, tokens: Tokens) -> Value {
    let (all, first) = entry.times();
    let (prompt, predicted) = (first.as_secs_f64() * 1e3, all.saturating_sub(first).as_secs_f64() * 1e3);
    let rate = |n: usize, ms: f64| if ms > 0.0 { n as f64 / ms * 1e3 } else { 0.0 };
    let each = |n: usize, ms: f64| if n > 0 { ms / n as f64 } else { 0.0 };
    let computed = tokens.prompt.saturating_sub(tokens.cached);
    let mut shown = json!({
        "cache_n": tokens.cached, "prompt_n": computed, "prompt_ms": prompt,
        "prompt_per_token_ms": each(computed, prompt), "prompt_per_second": rate(computed, prompt),
        "predicted_n": tokens.generated, "predicted_ms": predicted,
        "predicted_per_token_ms": each(tokens.generated, predicted),
        "predicted_per_second": rate(tokens.generated, predicted),
    });
    // As llama-server does, only where tokens were drafted.
    if tokens.drafts.0 > 0 {
        shown["draft_n"] = tokens.drafts.0.into();
        shown["draft_n_accepted"] = tokens.drafts.1.into();
    }
    shown
}
