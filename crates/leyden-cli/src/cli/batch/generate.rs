//! Rows of chat and complete: a prompt or messages, and settings, as fields of a row.

use super::args::{Args, Task};
use super::requests::{self, message};
use super::setting::MODEL;
use super::texts::Texts;
use crate::cli::failure::Failure;
use crate::cli::rows::{Form, Shown};
use leyden_batch::{Answer, Item};
use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_64;

/// Fields of a row that are settings of its request, if they are there.
const SETTINGS: &[&str] = &[
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "stop",
    "frequency_penalty",
    "presence_penalty",
    "repeat_penalty",
    "response_format",
    "tools",
    "tool_choice",
    "chat_template_kwargs",
];

/// Generated answer of a row.
struct Generated(Vec<(&'static str, String)>);

impl Shown for Generated {
    const NAMES: &'static [&'static str] =
        &["output", "reasoning", "tool_calls", "finish_reason", "prompt_tokens", "completion_tokens"];

    fn lines(&self) -> String {
        String::new()
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        self.0.clone()
    }
}

/// Rows with a prompt or messages.
pub(super) struct Dialect<'a> {
    args: &'a Args,
    task: Task,
    texts: &'a Texts,
    schema: Option<Value>,
    stop: Vec<String>,
    seed: u64,
}

impl<'a> Dialect<'a> {
    /// Returns the dialect of these arguments.
    pub(super) fn new(
        args: &'a Args,
        task: Task,
        texts: &'a Texts,
        schema: Option<Value>,
    ) -> Result<Dialect<'a>, Failure> {
        let stop = args.sampling.options(None)?.stop;
        if task == Task::Complete && args.system.is_some() {
            return Err(Failure::usage("--system: only with --task chat"));
        }
        Ok(Dialect { args, task, texts, schema, stop, seed: args.sampling.given_seed().unwrap_or(0) })
    }

    /// Returns the messages of a chat.
    fn messages(&self, item: &Item) -> Result<Value, String> {
        let given = item.row.fields.get("messages").filter(|_| !self.texts.has_template());
        let mut messages = match given {
            None => vec![json!({ "role": "user", "content": self.texts.of(&item.row)? })],
            Some(Value::Array(messages)) => messages.clone(),
            // A cell of a table.
            Some(Value::String(text)) => serde_json::from_str(text)
                .map_err(|error| format!("field `messages`: not a JSON list: {error}"))?,
            Some(_) => return Err("field `messages`: not a list".to_owned()),
        };
        if let Some(system) = &self.args.system
            && messages.first().is_none_or(|first| first["role"] != "system")
        {
            messages.insert(0, json!({ "role": "system", "content": system }));
        }
        Ok(Value::Array(messages))
    }
}

/// Returns the seed of a row: it depends on its id or content, not on its place or its neighbours.
pub(super) fn seed(seed: u64, item: &Item) -> u64 {
    let mut bytes = seed.to_le_bytes().to_vec();
    bytes.extend(item.key().to_le_bytes());
    // All clients can write 31 bits.
    xxh3_64(&bytes) >> 33
}

/// Returns a setting of a row. Tables have numbers and JSON as texts.
fn setting(name: &str, value: &Value) -> Value {
    match value {
        Value::String(text) if name != "stop" => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str()))
        }
        value => value.clone(),
    }
}

impl requests::Dialect for Dialect<'_> {
    fn request(&self, item: &Item) -> Result<(String, Value), String> {
        if let Some(problem) = &item.row.problem {
            return Err(problem.clone());
        }
        let mut body = Map::from_iter([("model".to_owned(), Value::from(MODEL))]);
        let path = match self.task {
            Task::Complete => {
                body.insert("prompt".to_owned(), self.texts.of(&item.row)?.into());
                "/v1/completions"
            }
            _ => {
                body.insert("messages".to_owned(), self.messages(item)?);
                "/v1/chat/completions"
            }
        };
        body.insert("seed".to_owned(), seed(self.seed, item).into());
        if let Some(max_tokens) = self.args.max_tokens {
            body.insert("max_tokens".to_owned(), max_tokens.into());
        }
        if !self.stop.is_empty() {
            body.insert("stop".to_owned(), json!(self.stop));
        }
        if let Some(schema) = &self.schema {
            let format = json!({ "type": "json_schema", "json_schema": { "name": "answer", "strict": true, "schema": schema } });
            body.insert("response_format".to_owned(), format);
        }
        for name in SETTINGS {
            let value = item.row.fields.get(*name).filter(|value| !value.is_null() && *value != "");
            if let Some(value) = value {
                body.insert((*name).to_owned(), setting(name, value));
            }
        }
        Ok((path.to_owned(), body.into()))
    }

    fn answer(&self, item: &Item, status: u16, body: Value) -> Result<Answer, String> {
        if status != 200 {
            return Err(message(&body));
        }
        let choice = &body["choices"][0];
        let said = &choice["message"];
        let output = if self.task == Task::Complete { &choice["text"] } else { &said["content"] };
        let finish = choice["finish_reason"].as_str().unwrap_or_default();
        if self.schema.is_some() && finish == "length" {
            return Err(
                "the answer ended before its JSON was complete: raise --max-tokens or --ctx".to_owned()
            );
        }
        let mut fields = vec![("output", output.to_string())];
        let optional = [("reasoning", &said["reasoning_content"]), ("tool_calls", &said["tool_calls"])];
        fields.extend(
            optional
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (*name, value.to_string())),
        );
        fields.push(("finish_reason", Value::from(finish).to_string()));
        for name in ["prompt_tokens", "completion_tokens"] {
            fields.push((name, body["usage"][name].to_string()));
        }
        Ok(Form::Object { with_row: true }.answer(&item.row, &Generated(fields)))
    }

    fn error_row(&self, item: &Item, reason: &str) -> String {
        Form::Object { with_row: true }.error_row::<Generated>(&item.row, reason)
    }
}
