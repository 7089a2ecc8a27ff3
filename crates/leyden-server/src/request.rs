//! What requests for chats and for completions have in common.

use crate::app::{App, Call, Served};
use crate::error::ApiError;
use crate::fields::{self, Fields, wrong};
use crate::grammars::{self, Shape, refused};
use crate::limits::Limits;
use crate::openapi::rule;
use crate::prompt;
use crate::sampling::{self, Sampling};
use crate::worker::{Choice, Rule, Task, Work};
use leyden_constrain::{Compiled, Guide};
use leyden_text::AnswerText;
use leyden_text::output::CallWatch;
use serde_json::{Value, json};
use std::sync::Arc;

/// Fields that both kinds of requests have.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) model: Arc<Served>,
    pub(crate) sampling: Sampling,
    pub(crate) choices: usize,
    pub(crate) stop: Vec<String>,
    pub(crate) stream: bool,
    pub(crate) usage_in_stream: bool,
    pub(crate) max_tokens: Option<usize>,
    pub(crate) ignore_end: bool,
    pub(crate) cache_salt: String,
}

/// Fields that change nothing about an answer.
const HARMLESS: [&str; 5] =
    ["user", "metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"];

/// Takes them. `max_names` are the fields for the most tokens, of which at most one may be there.
pub(crate) fn read(body: &mut Fields, app: &App, max_names: &[&str]) -> Result<Common, ApiError> {
    let limits = &app.limits;
    let model = app.model(body.text("model", limits.name_chars)?.as_deref())?;
    let stream = body.flag("stream")?.unwrap_or(false);
    let usage_in_stream = stream_options(body, stream)?;
    let mut max_tokens = None;
    for name in max_names {
        if let Some(n) = body.size(name, 1, i32::MAX as usize)?
            && max_tokens.replace(n).is_some_and(|other| other != n)
        {
            return Err(ApiError::conflict(
                *name,
                format!("{} contradict each other", max_names.join(" and ")),
            ));
        }
    }
    if let Some(tier) = body.text("service_tier", limits.name_chars)?
        && !["auto", "default"].contains(&tier.as_str())
    {
        return Err(ApiError::unsupported("service_tier", "`service_tier` is neither `auto` nor `default`"));
    }
    if body.flag("store")? == Some(true) {
        return Err(ApiError::unsupported("store", "`store`: nothing is stored here"));
    }
    body.harmless(&HARMLESS);
    Ok(Common {
        sampling: sampling::read(body, model, limits)?,
        choices: body.size("n", 1, limits.choices)?.unwrap_or(1),
        stop: stop(body, limits)?,
        stream,
        usage_in_stream,
        max_tokens,
        ignore_end: body.flag("ignore_eos")?.unwrap_or(false),
        cache_salt: body.text("cache_salt", limits.name_chars)?.unwrap_or_default(),
        model: Arc::clone(model),
    })
}

fn stream_options(body: &mut Fields, stream: bool) -> Result<bool, ApiError> {
    let Some(value) = body.take("stream_options") else { return Ok(false) };
    let mut options = Fields::at("stream_options", value)?;
    if !stream {
        return Err(ApiError::conflict("stream_options", "`stream_options` needs `stream`"));
    }
    let usage = options.flag("include_usage")?.unwrap_or(false);
    // Pieces are not padded, so there is nothing to switch off.
    if options.flag("include_obfuscation")? == Some(true) {
        let path = "stream_options.include_obfuscation";
        return Err(ApiError::unsupported(path, format!("`{path}` is not supported")));
    }
    options.finish()?;
    Ok(usage)
}

fn stop(body: &mut Fields, limits: &Limits) -> Result<Vec<String>, ApiError> {
    let checked = |path: &str, value| {
        let text = fields::text(path, value, limits.stop_chars)?;
        if text.is_empty() { Err(ApiError::field(path, format!("`{path}` is empty"))) } else { Ok(text) }
    };
    match body.take("stop") {
        None => Ok(Vec::new()),
        Some(value @ Value::String(_)) => Ok(vec![checked("stop", value)?]),
        Some(Value::Array(items)) if items.len() <= limits.stops => {
            items.into_iter().enumerate().map(|(i, v)| checked(&format!("stop[{i}]"), v)).collect()
        }
        Some(Value::Array(items)) => {
            let message = format!("`stop` has {} items; {} are the most", items.len(), limits.stops);
            Err(ApiError::field("stop", message))
        }
        Some(other) => Err(wrong("stop", "a text or a list of texts", &other)),
    }
}

/// The texts to generate for one prompt.
pub(crate) struct Wanted {
    pub(crate) prompt: Arc<Vec<u32>>,
    /// How many tokens can follow.
    pub(crate) room: usize,
}

/// What goes beyond the common fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extras {
    /// Alternatives with each token, if logarithmic probabilities are wanted.
    pub(crate) logprobs: Option<usize>,
    /// Special tokens that are part of the text.
    pub(crate) visible: Arc<[u32]>,
}

/// What a text must look like, for all choices of it.
pub(crate) struct Form {
    pub(crate) shape: Shape,
    pub(crate) binding: Binding,
}

/// Where a text follows its grammar.
#[derive(Clone, Debug)]
pub(crate) enum Binding {
    /// From where the text of the gate has been said to the end.
    Whole { gate: Option<String> },
    /// In calls of tools; with `once` there is at most one.
    Calls { watch: CallWatch, once: bool },
    /// From the call of a tool in harmony's messages to the end.
    Harmony,
}

impl Binding {
    /// Whether the grammar says where the text ends.
    fn ends(&self) -> bool {
        matches!(self, Binding::Whole { .. } | Binding::Harmony)
    }

    fn rule(
        &self,
        compiled: &Arc<Compiled>,
        gate: impl FnOnce(&String) -> AnswerText,
    ) -> Result<Rule, leyden_constrain::Error> {
        Ok(match self {
            Binding::Whole { gate: text } => {
                Rule::Grammar { constraint: Box::new(compiled.start()), gate: text.as_ref().map(gate) }
            }
            Binding::Calls { watch, once } => {
                Rule::Calls(Guide::new(Arc::clone(compiled), watch.clone(), *once)?)
            }
            Binding::Harmony => Rule::Calls(Guide::harmony(Arc::clone(compiled))?),
        })
    }
}

impl Common {
    /// The tasks for prompts whose answers have a form, once that is compiled.
    pub(crate) async fn tasks_after(
        self,
        app: &App,
        call: &Call,
        prompts: Vec<Wanted>,
        extras: Extras,
        form: Option<Form>,
    ) -> Result<(Common, Vec<Task>), ApiError> {
        let form = match form {
            None => None,
            Some(form) => Some((form.shape.compiled(app, &self.model, call).await?, form.binding)),
        };
        prompt::aside(move || {
            let tasks = self.tasks(&prompts, &extras, form.as_ref())?;
            Ok((self, tasks))
        })
        .await
    }

    /// The tasks for prompts: all choices of the first, then all of the second.
    fn tasks(
        &self,
        prompts: &[Wanted],
        extras: &Extras,
        form: Option<&(Arc<Compiled>, Binding)>,
    ) -> Result<Vec<Task>, ApiError> {
        let mut tasks = Vec::new();
        let tokenizer = self.model.tokenizer.as_ref();
        for wanted in prompts {
            for choice in 0..self.choices {
                let text = AnswerText::new(tokenizer, &wanted.prompt, &self.stop);
                let gate = |text: &String| {
                    AnswerText::new(tokenizer, &wanted.prompt, std::slice::from_ref(text))
                        .with_visible(Arc::clone(&extras.visible))
                };
                let rule = form.map(|(compiled, binding)| binding.rule(compiled, gate)).transpose();
                let choice = Choice {
                    sampler: self.sampling.sampler(&self.model, choice, &wanted.prompt)?,
                    text: text.with_visible(Arc::clone(&extras.visible)),
                    logprobs: extras.logprobs,
                    // The end of a text with a form is part of it.
                    ignore_end: self.ignore_end && !form.is_some_and(|(_, binding)| binding.ends()),
                    rule: rule.map_err(|e| refused("tools", &e))?.unwrap_or(Rule::None),
                    complete: false,
                };
                tasks.push(Task {
                    prompt: Arc::clone(&wanted.prompt),
                    max_tokens: self.max_tokens.unwrap_or(usize::MAX).min(wanted.room),
                    work: Work::Text(Box::new(choice)),
                });
            }
        }
        Ok(tasks)
    }
}

/// Which of the shared fields go together, for the OpenAPI document.
pub(crate) fn rules() -> Vec<Value> {
    let object = json!({ "type": "object" });
    let some = json!({ "not": { "type": "null" } });
    let plain = json!({ "anyOf": [{ "type": "null" }, {
        "type": "object", "required": ["type"], "properties": { "type": { "const": "text" } }
    }] });
    vec![
        rule("stream_options", &object, "stream", &json!({ "const": true })),
        json!({
            "if": { "required": ["grammar"], "properties": { "grammar": some } },
            "then": { "properties": { "response_format": plain } }
        }),
    ]
}

/// Fields of requests in the OpenAPI document that chats and completions share.
pub(crate) fn schema(app: &App) -> Value {
    let limits = &app.limits;
    let stop = json!({ "type": "string", "minLength": 1, "maxLength": limits.stop_chars });
    let mut all = sampling::schema(app);
    let more = json!({
        "model": app.model_schema(),
        "stream": { "type": "boolean" },
        "stream_options": {
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "include_usage": { "type": "boolean" }, "include_obfuscation": { "type": "boolean", "const": false }
            }
        },
        "n": { "type": "integer", "minimum": 1, "maximum": limits.choices },
        "stop": { "anyOf": [stop, { "type": "array", "maxItems": limits.stops, "items": stop }] },
        "service_tier": { "enum": ["auto", "default"] },
        "store": { "const": false },
        "user": {}, "metadata": {}, "safety_identifier": {}, "prompt_cache_key": {}, "prompt_cache_retention": {},
        "ignore_eos": { "type": "boolean", "description": "Whether the model's end does not end the answer" },
        "cache_salt": {
            "type": "string",
            "maxLength": limits.name_chars,
            "description": "Only requests with the same salt share cached prompts"
        },
    });
    for more in [more, grammars::schema(limits)] {
        if let (Value::Object(all), Value::Object(more)) = (&mut all, more) {
            all.extend(more);
        }
    }
    all
}
