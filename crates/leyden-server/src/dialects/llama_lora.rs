//! llama-server's `/lora-adapters`: a model's adapters, and their default scales.

use crate::adapters;
use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::error::ApiError;
use crate::operation::operation;
use crate::replies::document;
use crate::served::Served;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn list(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let paths = call.caller.admin;
    let shown = adapted(&app)?.map_or_else(|| json!([]), |model| model.adapters.shown(paths));
    Ok(document(StatusCode::OK, &shown))
}

pub(crate) async fn set(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let given = adapters::read(call.items(&app, "lora")?);
    match adapted(&app)? {
        Some(model) => model.adapters.set(&given)?,
        None => match given.first() {
            None => {}
            Some((id, _)) => return Err(adapters::unknown(0, *id, 0)),
        },
    }
    Ok(document(StatusCode::OK, &json!({ "success": true })))
}

/// Returns the loaded model that has adapters.
fn adapted(app: &App) -> Result<Option<Arc<Served>>, ApiError> {
    let mut all = app.models.served().into_iter().filter(|model| !model.adapters.is_empty());
    let found = all.next();
    if all.next().is_some() {
        let message = "several models have adapters: set `lora` in each request";
        return Err(ApiError::new(StatusCode::CONFLICT, "several_models", message));
    }
    Ok(found)
}

pub(crate) fn describe_list(_: &App) -> Value {
    let one = json!({
        "type": "object", "required": ["id", "path", "scale"],
        "properties": {
            "id": { "type": "integer" }, "path": { "type": "string" }, "scale": { "type": "number" },
            "name": { "type": ["string", "null"], "description": "Model name that selects this adapter at scale 1" }
        }
    });
    let answer = json!({ "type": "array", "items": one });
    let mut it = operation("loraAdapters", "llama-server: list the model's LoRA adapters", None, &answer);
    it["responses"]["409"] = conflict();
    it
}

pub(crate) fn describe_set(_: &App) -> Value {
    let answer = json!({
        "type": "object", "required": ["success"], "properties": { "success": { "const": true } }
    });
    let summary = "llama-server: set the default scales of LoRA adapters";
    let mut it = operation("setLoraAdapters", summary, Some(&adapters::schema()), &answer);
    it["responses"]["409"] = conflict();
    it
}

fn conflict() -> Value {
    let schema = json!({ "$ref": "#/components/schemas/LlamaServerError" });
    json!({ "description": "Several models have adapters", "content": { "application/json": { "schema": schema } } })
}
