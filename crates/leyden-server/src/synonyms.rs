//! Fields of llama-server, vLLM, Ollama, LM Studio and OpenAI: those that change nothing about an answer here, and those
//! that are called differently. Clients that were made for one of these send them.

use crate::error::ApiError;
use crate::fields::Fields;
use serde_json::{Map, Value, json};

/// What says nothing about the answer: where it is kept, who asks, how a server goes about it.
const HARMLESS: &[&str] = &[
    // OpenAI
    "user",
    "metadata",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "service_tier",
    "store",
    "verbosity",
    // llama-server
    "cache_prompt",
    "id_slot",
    "slot_id",
    "n_keep",
    "n_discard",
    "n_cache_reuse",
    "timings_per_token",
    "return_progress",
    "return_tokens",
    "reasoning_in_content",
    "chat_format",
    "speculative.n_max",
    "speculative.n_min",
    "speculative.p_min",
    // vLLM
    "request_id",
    "priority",
    "add_special_tokens",
    "spaces_between_special_tokens",
    "guided_decoding_backend",
    "guided_whitespace_pattern",
    "return_tokens_as_token_ids",
    "include_reasoning",
    // Ollama and LM Studio
    "keep_alive",
    "ttl",
    "draft_model",
    "num_ctx",
];

/// Other names of fields.
const SYNONYMS: &[(&str, &str)] = &[
    // vLLM
    ("repetition_penalty", "repeat_penalty"),
    // llama-server, Ollama
    ("n_predict", "max_tokens"),
    ("num_predict", "max_tokens"),
];

/// Adds these fields to the schema of a body that has the others.
pub(crate) fn describe(properties: &mut Value) {
    let Value::Object(properties) = properties else { return };
    for (name, meant) in SYNONYMS {
        if let Some(mut schema) = properties.get(*meant).cloned() {
            schema["description"] = format!("The same as `{meant}`").into();
            properties.insert((*name).to_owned(), schema);
        }
    }
    properties.extend(HARMLESS.iter().map(|name| ((*name).to_owned(), json!({}))).collect::<Map<_, _>>());
    properties.insert("reasoning_format".to_owned(), json!({ "enum": ["auto", "deepseek"] }));
    properties.insert("skip_special_tokens".to_owned(), json!({ "const": true }));
}

/// Gives fields the names that their readers know.
///
/// # Errors
/// 400: a field is there under two names with two values.
pub(crate) fn rename(body: &mut Fields) -> Result<(), ApiError> {
    for (name, meant) in SYNONYMS {
        let Some(value) = body.take(name) else { continue };
        let other = body.take(meant);
        if other.is_some_and(|other| other != value) {
            let message = format!("`{name}` and `{meant}` contradict each other");
            return Err(ApiError::conflict(*name, message));
        }
        body.put(meant, value);
    }
    Ok(())
}
