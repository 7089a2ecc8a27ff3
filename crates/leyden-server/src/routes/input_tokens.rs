//! `/v1/chat/completions/input_tokens`: the number of tokens of a conversation, as in llama-server.

use super::chat;
use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::error::ApiError;
use crate::inference;
use crate::legacy_functions;
use crate::operation::operation;
use crate::prompt::{self, EncodingLimits};
use crate::replies::document;
use crate::request_model::RequestModel;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn answer(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (_, tokens) = prompt::prepare(&app, call, read).await?;
    Ok(document(StatusCode::OK, &json!({ "object": "response.input_tokens", "input_tokens": tokens })))
}

fn read(app: &App, call: &Call) -> Result<usize, ApiError> {
    let mut body = call.fields(app)?;
    let legacy = legacy_functions::rewrite(&mut body)?;
    let model = RequestModel::take(app, &mut body)?;
    let conversation = inference::conversation(app, call, &model, EncodingLimits::of_body(call), &mut body);
    let (conversed, _) =
        conversation.map_err(|error| if legacy { legacy_functions::renamed(error) } else { error })?;
    Ok(conversed.tokens.len())
}

pub(super) fn describe(app: &App) -> Value {
    let body = chat::body(app);
    let answer = json!({
        "type": "object", "required": ["object", "input_tokens"],
        "properties": { "object": { "const": "response.input_tokens" }, "input_tokens": { "type": "integer" } }
    });
    operation("countChatTokens", "Count the tokens of a conversation", Some(&body), &answer)
}
