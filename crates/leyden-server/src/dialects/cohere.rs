//! Cohere's errors, which have a message. OpenAI's form stands beside it, for clients of other servers with Cohere's paths.

use super::openai;
use crate::auth;
use crate::dialect::Dialect;
use crate::error::ApiError;
use serde_json::{Value, json};

/// Cohere's dialect.
pub(crate) static COHERE: Dialect =
    Dialect { name: "CohereError", error, error_schema, any_content: false, key: auth::bearer };

fn error(error: &ApiError) -> Value {
    let mut shown = openai::error(error);
    shown["message"] = error.message.as_str().into();
    shown
}

fn error_schema() -> Value {
    let mut schema = openai::error_schema();
    schema["required"] = json!(["message", "error"]);
    schema["properties"]["message"] = json!({ "type": "string" });
    schema
}
