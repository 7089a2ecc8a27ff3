//! [`Defaults`]: default values for a model's requests, as a Modelfile of Ollama sets them.
//!
//! Each parameter is checked against the schema of the request field with the same name, so a default can only be a
//! value that a request could contain.

use crate::fields::Fields;
use crate::limits::Limits;
use crate::sampling_fields::field_schema;
use crate::schema;
use crate::synonyms;
use leyden_text::Message;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// Parameters that a model may have, under Ollama's names: sampling, and the end of an answer.
const PARAMETERS: &[&str] = &[
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "repeat_penalty",
    "repeat_last_n",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "num_predict",
    "stop",
];

/// Options of Ollama for the machine or the cache, which are ignored here.
pub(crate) const WITHOUT_EFFECT: &[&str] = &[
    "num_ctx",
    "num_keep",
    "num_batch",
    "num_gpu",
    "main_gpu",
    "num_thread",
    "numa",
    "low_vram",
    "f16_kv",
    "use_mmap",
    "use_mlock",
    "vocab_only",
    "logits_all",
    "embedding_only",
];

/// Default values for a model's requests.
///
/// ```
/// use leyden_server::Defaults;
///
/// let parameters = serde_json::json!({ "temperature": 0.5, "num_ctx": 4096 });
/// let (defaults, ignored) = Defaults::read(None, &[], &parameters).unwrap();
/// assert_eq!(defaults.parameters()["temperature"], 0.5);
/// assert_eq!(ignored, ["num_ctx"]);
/// let error = Defaults::read(None, &[], &serde_json::json!({ "temperature": 9 })).unwrap_err();
/// assert_eq!(error, "`parameters.temperature` is not between 0 and 2");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Defaults {
    system: Option<String>,
    messages: Vec<Value>,
    /// Parameters under Ollama's names.
    parameters: Map<String, Value>,
    /// Parameters under the names of a chat's fields.
    fields: Map<String, Value>,
}

impl Defaults {
    /// Reads defaults: the system message of conversations that have none, messages that precede those of each
    /// conversation (objects with `role` and `content`), and an object of parameters under Ollama's names. The second
    /// value has the names of parameters that are ignored here.
    ///
    /// # Errors
    /// A message or parameter does not match its schema, or its name is unknown; the text names it.
    pub fn read(
        system: Option<String>,
        messages: &[Value],
        parameters: &Value,
    ) -> Result<(Defaults, Vec<String>), String> {
        let mut body = json!({ "messages": messages, "parameters": parameters });
        let all = json!({
            "type": "object", "additionalProperties": false,
            "properties": { "messages": messages_schema(), "parameters": parameters_schema() }
        });
        schema::check(&all, &mut body, true).map_err(|error| error.message)?;
        let mut body = Fields::from(body);
        let (mut parameters, mut ignored) = (Map::new(), Vec::new());
        for (name, value) in body.object("parameters").unwrap_or_default().rest() {
            match WITHOUT_EFFECT.contains(&name.as_str()) {
                true => ignored.push(name),
                false => drop(parameters.insert(name, value)),
            }
        }
        let mut fields = Fields::from(Value::Object(parameters.clone()));
        synonyms::rename(&mut fields).map_err(|error| error.message)?;
        let system = system.filter(|system| !system.is_empty());
        let messages = body.list("messages").unwrap_or_default();
        Ok((Defaults { system, messages, parameters, fields: fields.rest() }, ignored))
    }

    /// Sets the seed of requests that name none, unless there is a default seed.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Defaults {
        self.fields.entry("seed").or_insert_with(|| seed.cast_signed().into());
        self
    }

    /// Returns the system message of conversations that have none.
    #[must_use]
    pub fn system(&self) -> Option<&str> {
        self.system.as_deref()
    }

    /// Returns the messages that precede those of each conversation.
    #[must_use]
    pub fn messages(&self) -> &[Value] {
        &self.messages
    }

    /// Returns the parameters under Ollama's names.
    #[must_use]
    pub fn parameters(&self) -> &Map<String, Value> {
        &self.parameters
    }

    /// Sets the fields of a chat or completion that the request leaves out.
    pub(crate) fn fill(&self, body: &mut Fields) {
        for (name, value) in &self.fields {
            let is_set = body.has(name) || name == "max_tokens" && body.has("max_completion_tokens");
            if !is_set {
                body.put(name, value.clone());
            }
        }
    }

    /// Inserts the system message, unless the conversation begins with one, and then the other default messages before
    /// a conversation's own.
    pub(crate) fn precede(&self, messages: &mut Vec<Message>) {
        let begins = messages.first().is_some_and(|first| first.role == "system");
        let system = match (begins, &self.system) {
            (true, _) => Some(messages.remove(0)),
            (false, Some(system)) => Some(Message::new("system", system.as_str())),
            (false, None) => None,
        };
        let of = |message: &Value, field: &str| message[field].as_str().unwrap_or_default().to_owned();
        let others = self.messages.iter().map(|m| Message::new(of(m, "role"), of(m, "content")));
        messages.splice(0..0, system.into_iter().chain(others));
    }

    /// Returns the parameters as lines of a Modelfile without `PARAMETER`, as in the answer of `/api/show`.
    pub(crate) fn lines(&self) -> String {
        let mut lines = Vec::new();
        for (name, value) in &self.parameters {
            match value {
                Value::Array(values) => lines.extend(values.iter().map(|value| format!("{name} {value}"))),
                value => lines.push(format!("{name} {value}")),
            }
        }
        lines.join("\n")
    }

    /// Returns a Modelfile that makes this model from `from`.
    pub(crate) fn modelfile(&self, from: &str) -> String {
        let mut text = format!("FROM {from}");
        // Writing to a string cannot fail.
        if let Some(system) = &self.system {
            let _ = write!(text, "\nSYSTEM \"\"\"{system}\"\"\"");
        }
        for line in self.lines().lines() {
            let _ = write!(text, "\nPARAMETER {line}");
        }
        for message in &self.messages {
            let (role, content) = (&message["role"], &message["content"]);
            let (role, content) = (role.as_str().unwrap_or_default(), content.as_str().unwrap_or_default());
            let _ = write!(text, "\nMESSAGE {role} \"\"\"{content}\"\"\"");
        }
        text
    }
}

/// Returns the schema of an object of parameters.
pub(crate) fn parameters_schema() -> Value {
    let limits = Limits::default();
    let stop = json!({ "type": "string", "minLength": 1, "maxLength": limits.stop_chars });
    let mut properties = Map::new();
    for name in PARAMETERS {
        let schema = match *name {
            "stop" => {
                json!({ "anyOf": [stop, { "type": "array", "maxItems": limits.stops, "items": stop }] })
            }
            "seed" => json!({ "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX }),
            // -2 generates until the context is full.
            "num_predict" => json!({ "type": "integer", "minimum": -2, "maximum": i32::MAX }),
            name => field_schema(name),
        };
        properties.insert((*name).to_owned(), schema);
    }
    properties.extend(WITHOUT_EFFECT.iter().map(|name| ((*name).to_owned(), json!({}))));
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

/// Returns the schema of the messages that precede those of each conversation.
pub(crate) fn messages_schema() -> Value {
    let message = json!({
        "type": "object", "additionalProperties": false, "required": ["role", "content"],
        "properties": { "role": { "enum": ["system", "user", "assistant"] }, "content": { "type": "string" } }
    });
    json!({ "type": "array", "maxItems": Limits::default().messages, "items": message })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> Defaults {
        let messages = vec![json!({ "role": "user", "content": "Hi" })];
        let parameters = json!({ "num_predict": 7, "stop": ["a\"b", "c"], "temperature": 0.5 });
        Defaults::read(Some("Be brief.".to_owned()), &messages, &parameters).unwrap().0
    }

    #[test]
    fn a_request_has_the_last_word() {
        let mut body = Fields::from(json!({ "temperature": 1, "max_completion_tokens": 3, "stop": null }));
        defaults().fill(&mut body);
        let filled = Value::Object(body.rest());
        assert_eq!(filled, json!({ "temperature": 1, "max_completion_tokens": 3, "stop": ["a\"b", "c"] }));
        let mut messages = vec![Message::new("user", "x")];
        defaults().precede(&mut messages);
        let said: Vec<&str> = messages.iter().map(|message| message.content.as_str()).collect();
        assert_eq!((messages[0].role.as_str(), said), ("system", vec!["Be brief.", "Hi", "x"]));
        let mut messages = vec![Message::new("system", "own")];
        defaults().precede(&mut messages);
        assert_eq!((messages.len(), messages[0].content.as_str()), (2, "own"));
    }

    #[test]
    fn they_are_shown_as_a_modelfile() {
        let wanted = "FROM x\nSYSTEM \"\"\"Be brief.\"\"\"\nPARAMETER num_predict 7\nPARAMETER stop \"a\\\"b\"\n\
                      PARAMETER stop \"c\"\nPARAMETER temperature 0.5\nMESSAGE user \"\"\"Hi\"\"\"";
        assert_eq!(defaults().modelfile("x"), wanted);
    }

    #[test]
    fn wrong_values_are_named() {
        for (parameters, wanted) in [
            (json!({ "heat": 1 }), "heat"),
            (json!({ "temperature": "hot" }), "`parameters.temperature` must be a number"),
            (json!({ "top_k": 1.5 }), "`parameters.top_k`"),
            (json!({ "stop": [""] }), "`parameters.stop"),
            (json!({ "num_predict": -3 }), "`parameters.num_predict`"),
            (json!([]), "`parameters` must be an object"),
        ] {
            let error = Defaults::read(None, &[], &parameters).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
        let error = Defaults::read(None, &[json!({ "role": "user" })], &json!({})).unwrap_err();
        assert!(error.contains("content"), "{error}");
    }
}
