//! `/v1/embeddings`: vectors for texts.
//!
//! A text's vector is made of the states of the decoder's last layer behind its norm: their mean, that of the first token
//! or that of the last, as the model says ([`leyden_engine::Pooling`]), divided by its length. The tokens are all that the
//! tokenizer makes of the text, EOS included: models whose last token makes the vector were trained with it.

use crate::app::{App, Call, Served, document};
use crate::body::Reply;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::generate;
use crate::openapi::{operation, several_schema};
use crate::prompt;
use crate::worker::{Task, Work};
use hyper::{Response, StatusCode};
use leyden_engine::Pool;
use serde_json::{Value, json};
use std::sync::Arc;

struct Ready {
    model: Arc<Served>,
    tasks: Vec<Task>,
    /// Whether vectors are written as base64 of their bytes.
    packed: bool,
    /// How many numbers of each are wanted.
    dimensions: usize,
}

pub(super) async fn answer(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, ready) = prompt::prepare(&app, call, read).await?;
    let Ready { model, tasks, packed, dimensions } = ready;
    let running = generate::submit(app, call, &model, tasks, String::new()).await?;
    let (answers, usage) = running.collect().await?;
    let data: Vec<Value> = answers
        .into_iter()
        .enumerate()
        .map(|(i, a)| {
            let vector = normalised(&a.state[..dimensions.min(a.state.len())]);
            let shown = if packed { base64(&vector).into() } else { json!(vector) };
            json!({ "object": "embedding", "index": i, "embedding": shown })
        })
        .collect();
    let shown = json!({
        "object": "list",
        "data": data,
        "model": model.name,
        "usage": { "prompt_tokens": usage.prompt, "total_tokens": usage.prompt },
    });
    Ok(document(StatusCode::OK, &shown))
}

fn read(app: &App, call: &Call) -> Result<Ready, ApiError> {
    let limits = &app.limits;
    let mut body = Fields::of_body(call.json(limits)?)?;
    let model = Arc::clone(app.model(body.text("model", limits.name_chars)?.as_deref())?);
    let packed = match body.text("encoding_format", limits.name_chars)?.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(_) => {
            let message = "`encoding_format` is neither `float` nor `base64`";
            return Err(ApiError::field("encoding_format", message));
        }
    };
    let dimensions = body.size("dimensions", 1, i32::MAX as usize)?.unwrap_or(model.width);
    if dimensions > model.width {
        let message = format!("`dimensions` is {dimensions}, but the vectors have {}", model.width);
        return Err(ApiError::field("dimensions", message));
    }
    body.harmless(&["user"]);
    let input = body.required("input")?;
    body.finish()?;
    let mut tasks = Vec::new();
    let extent = prompt::Extent::of_model(&model, call);
    let most = limits.embedding_inputs;
    for (path, tokens) in prompt::several(&model, extent, "input", input, most, prompt::of_whole_text)? {
        prompt::room(&model, &path, tokens.len())?;
        tasks.push(Task {
            prompt: Arc::new(tokens),
            max_tokens: 0,
            work: Work::State(Pool::new(model.pooling)),
        });
    }
    Ok(Ready { model, tasks, packed, dimensions })
}

/// The vector of length 1 in the same direction; zeros stay zeros.
fn normalised(state: &[f32]) -> Vec<f32> {
    let sum: f64 = state.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
    let length = if sum > 0.0 { sum.sqrt() } else { 1.0 };
    state.iter().map(|x| (f64::from(*x) / length) as f32).collect()
}

/// The vector's little-endian bytes in base64 (RFC 4648), which OpenAI's clients ask for.
fn base64(vector: &[f32]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let at = |i: usize| u32::from(part.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for i in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= part.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

pub(super) fn describe(app: &App) -> Value {
    // Each model takes its own width, too; this is what all take.
    let narrowest = app.models.iter().map(|m| m.width).min();
    let body = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["input"],
        "properties": {
            "model": app.model_schema(),
            "input": several_schema(app, app.limits.embedding_inputs),
            "encoding_format": { "enum": ["float", "base64"] },
            "dimensions": {
                "type": "integer",
                "minimum": 1,
                "maximum": narrowest,
                "description": "At most the model's own; the first so many"
            },
            "user": {}
        }
    });
    let vector =
        json!({ "anyOf": [{ "type": "array", "items": { "type": "number" } }, { "type": "string" }] });
    let item = json!({
        "type": "object",
        "required": ["object", "index", "embedding"],
        "properties": { "object": { "const": "embedding" }, "index": { "type": "integer" }, "embedding": vector }
    });
    let answer = json!({
        "type": "object",
        "required": ["object", "data", "model", "usage"],
        "properties": {
            "object": { "const": "list" }, "data": { "type": "array", "items": item }, "model": { "type": "string" },
            "usage": { "type": "object", "required": ["prompt_tokens", "total_tokens"], "properties": {
                "prompt_tokens": { "type": "integer" }, "total_tokens": { "type": "integer" }
            } }
        }
    });
    operation("embed", "Vectors for texts", Some(&body), &answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        let of = |bytes: [u8; 4]| base64(&[f32::from_le_bytes(bytes)]);
        assert_eq!(of(*b"Many"), "TWFueQ==");
        assert_eq!(base64(&[f32::from_le_bytes(*b"lion"), f32::from_le_bytes(*b"s in")]), "bGlvbnMgaW4=");
        assert_eq!(of([0xff; 4]), "/////w==");
    }

    #[test]
    fn vectors_have_length_one() {
        assert_eq!(normalised(&[3.0, -4.0]), [0.6, -0.8]);
        assert_eq!(normalised(&[0.0, 0.0]), [0.0, 0.0]);
    }
}
