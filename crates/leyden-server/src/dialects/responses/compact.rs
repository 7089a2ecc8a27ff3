//! `/v1/responses/compact`: replaces most items of a conversation by a summary.
//!
//! OpenAI's summary items are encrypted. Here they are the text in base64, written by the served model, so that every
//! server can read the summary of another one.

use super::events::used;
use super::input;
use super::request::{Ready, read_request, renamed};
use super::summary::{KIND, content_of};
use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::error::ApiError;
use crate::inference;
use crate::prompt;
use crate::replies::document;
use crate::request_model::RequestModel;
use crate::timestamp::unix_time;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

/// The last message of the conversation, for the model that writes the summary.
const INSTRUCTION: &str = "Summarise the conversation above for somebody who goes on with it and has not read it. Keep names, \
                           numbers, decisions, results of tools, open questions, and the task as it stands. Write the summary \
                           only.";

/// The fraction of the context that a summary may take, as a divisor.
const SHARE: usize = 4;

pub(crate) async fn compact(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, Ready { inference, asked }) = prompt::prepare(&app, call, read).await?;
    let begun = inference::begin(app, call, inference).await?;
    let id = format!("resp_{}", begun.running.id());
    let (mut said, usage) = begun.whole().await?;
    let summary = said.swap_remove(0).answer.content;
    if summary.trim().is_empty() {
        let message = "the model wrote no summary of the conversation";
        return Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "empty_summary", message));
    }
    let content = content_of(&summary);
    let shown = json!({
        "id": id, "object": "response.compaction", "created_at": unix_time(),
        "output": compacted(asked.items, &id, &content), "usage": used(usage, 0),
    });
    Ok(document(StatusCode::OK, &shown))
}

/// Returns the items of the conversation with the summary: system messages, the summary, and the user's message at the
/// end, if there is one.
fn compacted(mut items: Vec<Value>, id: &str, summary: &str) -> Vec<Value> {
    let role = |item: &Value, roles: &[&str]| {
        item["type"] == "message" && roles.iter().any(|role| item["role"] == *role)
    };
    let waiting = items.pop_if(|last| role(last, &["user"]));
    items.retain(|item| role(item, &["system", "developer"]));
    items.push(json!({ "type": KIND, "encrypted_content": summary }));
    items.extend(waiting);
    input::name(&mut items, id);
    items.into_iter().map(input::shown).collect()
}

fn read(app: &App, call: &Call) -> Result<Ready, ApiError> {
    let mut asked = read_request(app, call)?;
    let model = RequestModel::take(app, &mut asked.chat)?;
    let mut messages = asked.chat.list("messages").unwrap_or_default();
    messages.push(json!({ "role": "user", "content": INSTRUCTION }));
    asked.chat.put("messages", messages);
    asked.chat.put("max_tokens", (model.context / SHARE).max(1));
    asked.chat.put("temperature", 0);
    asked.chat.put("think", false);
    let inference = inference::chat(app, call, model, &mut asked.chat).map_err(renamed)?;
    Ok(Ready { inference, asked })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_stands_for_all_that_was_said() {
        let message = |role: &str| json!({ "type": "message", "role": role, "content": "x" });
        let call = json!({ "type": "function_call", "call_id": "a", "name": "b", "arguments": "{}" });
        let kinds = |items: Vec<Value>| -> Vec<Value> {
            let items = compacted(items, "resp_1", "c");
            assert!(items.iter().all(|item| item["id"].is_string()), "{items:?}");
            let kind = |item: &Value| match item["role"].is_null() {
                true => item["type"].clone(),
                false => item["role"].clone(),
            };
            items.iter().map(kind).collect()
        };
        let said = vec![message("system"), message("user"), message("assistant"), call];
        assert_eq!(kinds(said.clone()), ["system", "compaction"]);
        assert_eq!(kinds([said, vec![message("user")]].concat()), ["system", "compaction", "user"]);
    }
}
