//! Rows of OpenAI's batch format: requests with `custom_id`, `method`, `url` and `body`, whose responses are output lines.

use super::args::{Args, Task};
use super::generate::seed;
use super::requests::{self, message};
use super::setting::MODEL;
use leyden_batch::{Answer, Item};
use leyden_rows::Row;
use serde_json::{Value, json};

/// Endpoints, and their tasks.
const ENDPOINTS: &[(&str, Task)] = &[
    ("/v1/chat/completions", Task::Chat),
    ("/v1/completions", Task::Complete),
    ("/v1/embeddings", Task::Embed),
    ("/v1/rerank", Task::Rerank),
];

/// Returns true if a row is a request.
pub(super) fn is_request(row: Option<&Row>) -> bool {
    row.is_some_and(|row| {
        row.fields.contains_key("url") && row.fields.get("body").is_some_and(Value::is_object)
    })
}

/// Requests of the format.
pub(super) struct Dialect<'a> {
    args: &'a Args,
    seed: u64,
}

impl<'a> Dialect<'a> {
    /// Returns the dialect of these arguments.
    pub(super) fn new(args: &'a Args) -> Dialect<'a> {
        Dialect { args, seed: args.sampling.given_seed().unwrap_or(0) }
    }
}

/// Returns the output line.
fn line(item: &Item, response: &Value, error: &Value) -> String {
    let id = format!("batch_req_{:016x}", item.key());
    json!({ "id": id, "custom_id": item.id, "response": response, "error": error }).to_string()
}

impl requests::Dialect for Dialect<'_> {
    fn request(&self, item: &Item) -> Result<(String, Value), String> {
        if let Some(problem) = &item.row.problem {
            return Err(problem.clone());
        }
        let fields = &item.row.fields;
        if item.id.is_none() {
            return Err("field `custom_id`: missing".to_owned());
        }
        if fields.get("method").is_some_and(|method| method != "POST") {
            return Err("field `method`: not POST".to_owned());
        }
        let url = fields.get("url").and_then(Value::as_str).ok_or("field `url`: missing")?;
        let Some((path, task)) = ENDPOINTS.iter().find(|(path, _)| *path == url) else {
            let known: Vec<&str> = ENDPOINTS.iter().map(|(path, _)| *path).collect();
            return Err(format!("field `url`: not one of {}", known.join(", ")));
        };
        if self.args.task.is_some_and(|asked| asked != *task) {
            return Err(format!(
                "field `url`: {path} is not of --task {}",
                self.args.task.map_or("", Task::name)
            ));
        }
        let Some(Value::Object(body)) = fields.get("body") else {
            return Err("field `body`: not an object".to_owned());
        };
        let mut body = body.clone();
        if body.get("stream").is_some_and(|stream| *stream == true) {
            return Err("field `body`: `stream` is not possible in a batch".to_owned());
        }
        body.insert("model".to_owned(), MODEL.into());
        if matches!(task, Task::Chat | Task::Complete) {
            if body.get("seed").is_none_or(Value::is_null) {
                body.insert("seed".to_owned(), seed(self.seed, item).into());
            }
            let has_limit =
                ["max_tokens", "max_completion_tokens"].iter().any(|name| body.contains_key(*name));
            if let (false, Some(most)) = (has_limit, self.args.max_tokens) {
                body.insert("max_tokens".to_owned(), most.into());
            }
        }
        Ok(((*path).to_owned(), body.into()))
    }

    fn answer(&self, item: &Item, status: u16, mut body: Value) -> Result<Answer, String> {
        let id = format!("req_{:016x}", item.key());
        if let (Some(asked), true) =
            (item.row.fields.get("body").and_then(|body| body.get("model")), body.get("model").is_some())
        {
            body["model"] = asked.clone();
        }
        let reason = (status != 200).then(|| message(&body));
        let row = line(item, &json!({ "status_code": status, "request_id": id, "body": body }), &Value::Null);
        Ok(Answer { error: reason, ..Answer::of(row) })
    }

    fn error_row(&self, item: &Item, reason: &str) -> String {
        line(item, &Value::Null, &json!({ "code": "row_failed", "message": reason }))
    }
}
