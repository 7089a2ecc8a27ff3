//! llama-server's `/infill`: completion between a prefix and a suffix, for editors.

use super::llama_server;
use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::fim::{self, Gap};
use crate::prompt::{self, EncodingLimits};
use crate::request_model::RequestModel;
use hyper::Response;
use serde_json::{Value, json};
use std::sync::Arc;

/// Maximum number of further files.
const FILES: usize = 256;

pub(crate) async fn answer(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, ready) = prompt::prepare(&app, call, read).await?;
    llama_server::respond(app, call, ready).await
}

fn read(app: &App, call: &Call) -> Result<llama_server::Ready, ApiError> {
    let mut body = call.fields(app)?;
    let model = RequestModel::take(app, &mut body)?;
    let file = |mut file: Fields| {
        (file.text("filename").unwrap_or_else(|| "tmp".to_owned()), file.text("text").unwrap_or_default())
    };
    let files = body.list("input_extra").unwrap_or_default();
    let gap = Gap {
        prefix: body.text("input_prefix").unwrap_or_default(),
        suffix: body.text("input_suffix").unwrap_or_default(),
        files: files.into_iter().map(|f| file(Fields::from(f))).collect(),
        begins: body.text("prompt").unwrap_or_default(),
    };
    let tokens = fim::tokens(&model, EncodingLimits::of_model(&model, call), "input_prefix", &gap)?;
    body.put("prompt", json!(tokens));
    llama_server::read(app, call, model, body)
}

pub(crate) fn describe(app: &App) -> Value {
    let mut it = llama_server::describe_completion(app);
    it["operationId"] = "llamaInfill".into();
    it["summary"] = "llama-server: fill in the middle between two texts".into();
    let body = &mut it["requestBody"]["content"]["application/json"]["schema"];
    body["required"] = json!(["input_prefix", "input_suffix"]);
    let text = json!({ "type": "string" });
    let more = json!({
        "input_prefix": { "type": "string", "description": "Text before the gap" },
        "input_suffix": { "type": "string", "description": "Text after the gap" },
        "prompt": { "type": "string", "description": "Beginning of the filling" },
        "input_extra": { "type": "array", "maxItems": FILES, "description": "Other files of the same repository", "items": {
            "type": "object", "required": ["text"], "properties": { "filename": text, "text": text }
        } },
    });
    if let (Some(all), Value::Object(more)) = (body["properties"].as_object_mut(), more) {
        all.extend(more);
    }
    it
}
