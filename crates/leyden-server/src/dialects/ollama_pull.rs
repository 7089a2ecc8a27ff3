//! Ollama's `/api/pull`: downloads a model from the hub, if the server's options allow it.
//!
//! The server itself opens no connection: its options have the function that does ([`crate::Puller`]). Clients that
//! pull the same model share its pull ([`crate::pulls`]).

use super::ollama;
use crate::app::App;
use crate::body::{Piece, Reply};
use crate::call::Call;
use crate::error::ApiError;
use crate::on_demand::Pulling;
use crate::operation::operation;
use crate::pulls::PullSender;
use crate::replies::document;
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Maximum number of progress lines per file.
const PARTS: u64 = 100;

pub(crate) async fn answer(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let mut body = call.fields(&app)?;
    let Some(pull) = app.pull.clone() else {
        let message =
            "clients of this server cannot pull models: start it with --allow-pull, or use leyden pull";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "pull_not_allowed", message));
    };
    let Some(name) = body.text("model").or_else(|| body.text("name")) else {
        return Err(ApiError::field("model", "`model` is missing"));
    };
    // A model that was removed meanwhile is pulled again.
    app.models.refresh().await;
    let known = app.models.find(Some(&name)).is_ok();
    let stream = body.flag("stream").unwrap_or(true);
    let (models, of) = (Arc::clone(&app.models), name.clone());
    let work = move |sender: &PullSender| {
        sender.send(&json!({ "status": "pulling manifest" }));
        let mut last = (String::new(), 0);
        let mut hear = |now: Pulling<'_>| {
            let part = now.done * PARTS / now.bytes.max(1);
            if last.0 == now.file && last.1 == part && now.done < now.bytes {
                return sender.is_heard();
            }
            last = (now.file.to_owned(), part);
            sender.send(&json!({
                "status": format!("pulling {}", now.file), "digest": now.file, "total": now.bytes, "completed": now.done,
            }))
        };
        // A model that is served needs no download.
        let pulled = if known { Ok(None) } else { pull(&of, &mut hear, sender.abandoned()).map(Some) };
        let added = pulled
            .and_then(|model| model.map_or(Ok(()), |model| models.add(model).map_err(|e| e.to_string())));
        match added {
            Ok(()) => sender.send(&json!({ "status": "success" })),
            Err(why) => sender.send(&json!({ "error": why })),
        };
    };
    let mut heard = app.pulls.join(&name, work)?;
    let (sender, mut receiver) = mpsc::channel::<Piece>(1);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                line = heard.next() => {
                    let Some(line) = line else { return };
                    if sender.send(Piece::More(line)).await.is_err() {
                        return;
                    }
                }
                () = sender.closed() => return,
            }
        }
    });
    if stream {
        let mut response = Response::new(Reply::stream(receiver));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
        return Ok(response);
    }
    let mut last = Bytes::new();
    while let Some(Piece::More(line) | Piece::Last(line)) = receiver.recv().await {
        last = line;
    }
    let last: Value = serde_json::from_slice(&last).unwrap_or_default();
    match last["error"].as_str() {
        Some(why) => Err(ApiError::new(StatusCode::BAD_GATEWAY, "pull_failed", why)),
        None => Ok(document(StatusCode::OK, &last)),
    }
}

pub(crate) fn describe(app: &App) -> Value {
    let name = json!({ "type": "string", "minLength": 1, "maxLength": app.limits.name_chars });
    let body = json!({
        "type": "object", "additionalProperties": false,
        "properties": { "model": name, "name": name, "stream": { "type": "boolean" }, "insecure": {} }
    });
    let answer = json!({
        "type": "object", "required": ["status"], "properties": { "status": { "type": "string" } }
    });
    let mut it = operation("ollamaPull", "Ollama: pull a model", Some(&body), &answer);
    let refused = |what: &str| json!({ "description": what, "content": { "application/json": { "schema": ollama::error_schema() } } });
    it["responses"]["403"] = refused("The server was not started with --allow-pull");
    it["responses"]["503"] = refused("Too many models are being pulled");
    it["responses"]["502"] = refused("The model could not be pulled");
    it
}
