//! `/detokenize`: the text of tokens.

use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::error::ApiError;
use crate::operation::{operation, token_schema};
use crate::prompt;
use crate::replies::plain;
use crate::request_model::RequestModel;
use hyper::{Response, StatusCode};
use leyden_text::Detokenizer;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn answer(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (_, shown) = prompt::prepare(&app, call, read).await?;
    Ok(plain(StatusCode::OK, "application/json", shown))
}

fn read(app: &App, call: &Call) -> Result<String, ApiError> {
    let mut body = call.fields(app)?;
    let model = RequestModel::take(app, &mut body)?;
    let tokens = body.take("tokens").unwrap_or_default();
    let tokens = prompt::tokens(&model, "tokens", &tokens)?;
    let mut characters = Detokenizer::new();
    let mut text = String::new();
    let mut previous = None;
    for token in tokens {
        let bytes = model.tokenizer.bytes_after(previous.replace(token), token).unwrap_or_default();
        text += &characters.push(&bytes);
    }
    text += &characters.finish();
    Ok(json!({ "prompt": text }).to_string())
}

pub(super) fn describe(app: &App) -> Value {
    let body = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["tokens"],
        "properties": {
            "model": app.model_schema(),
            "tokens": { "type": "array", "items": token_schema(app) }
        }
    });
    let schema = json!({
        "type": "object", "required": ["prompt"], "properties": { "prompt": { "type": "string" } }
    });
    operation("detokenize", "Convert token ids to text", Some(&body), &schema)
}
