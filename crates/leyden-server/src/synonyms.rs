//! Fields of llama-server, vLLM and Ollama with another name here. Fields without a meaning here are rows in the table
//! of [`published`](crate::published) fields.

use crate::error::ApiError;
use crate::fields::Fields;
use serde_json::Value;

/// Other names of fields.
const SYNONYMS: &[(&str, &str)] = &[
    // vLLM
    ("repetition_penalty", "repeat_penalty"),
    // llama-server, Ollama
    ("n_predict", "max_tokens"),
    ("num_predict", "max_tokens"),
    ("n_cmpl", "n"),
];

/// Adds these names to the schema of a body that has the fields.
pub(crate) fn describe(properties: &mut Value) {
    let Value::Object(properties) = properties else { return };
    for (name, meant) in SYNONYMS {
        if let Some(mut schema) = properties.get(*meant).cloned() {
            schema["description"] = format!("The same as `{meant}`").into();
            properties.insert((*name).to_owned(), schema);
        }
    }
}

/// Renames fields to the names that their readers use.
///
/// # Errors
/// 400: a field is present under two names with different values.
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
