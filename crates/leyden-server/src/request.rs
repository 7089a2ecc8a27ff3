//! Fields and tasks that chat and completion requests share.

use crate::adapters;
use crate::app::App;
use crate::call::Call;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::grammars::{self, Shape, refused};
use crate::keep_alive;
use crate::prompt;
use crate::request_model::RequestModel;
use crate::sampling::{self, Sampling};
use crate::stop_conditions;
use crate::synonyms;
use crate::truncation;
use crate::worker::{Choice, Ending, Logprobs, Rule, Task, Work};
use leyden_constrain::{Compiled, Guide};
use leyden_text::output::{AnswerParts, CallWatch, OutputParser};
use leyden_text::{AnswerText, StopMatcher};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Fields of chat and completion requests.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) model: RequestModel,
    pub(crate) sampling: Sampling,
    pub(crate) choices: usize,
    pub(crate) ending: Arc<Ending>,
    pub(crate) stream: bool,
    pub(crate) usage_in_stream: UsageInStream,
    pub(crate) max_tokens: Option<usize>,
    pub(crate) cache_salt: String,
}

/// The chunks of a stream that contain the usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum UsageInStream {
    /// No chunk.
    #[default]
    Never,
    /// The last chunk, which has no choices; in the others the usage is `null`.
    AtEnd,
    /// Each chunk, as in vLLM: the tokens so far.
    Always,
}

/// Takes `stream_options`. They have no effect without streaming, as a whole answer always has a usage.
fn usage_in_stream(body: &mut Fields) -> UsageInStream {
    let mut options = body.object("stream_options").unwrap_or_default();
    let asked = options.flag("include_usage").unwrap_or(false);
    let always = options.flag("continuous_usage_stats").unwrap_or(false);
    match (asked, always) {
        (false, _) => UsageInStream::Never,
        (true, false) => UsageInStream::AtEnd,
        (true, true) => UsageInStream::Always,
    }
}

/// Takes the common fields. `max_names` are the names of the token limit, whose values must agree.
pub(crate) fn read(body: &mut Fields, model: RequestModel, max_names: &[&str]) -> Result<Common, ApiError> {
    let stream = body.flag("stream").unwrap_or(false);
    let usage_in_stream = usage_in_stream(body);
    let mut max_tokens = None;
    for name in max_names {
        // A negative value means no limit.
        if let Some(n) = body.size(name)
            && max_tokens.replace(n).is_some_and(|other| other != n)
        {
            return Err(ApiError::conflict(
                *name,
                format!("{} contradict each other", max_names.join(" and ")),
            ));
        }
    }
    let ending = stop_conditions::read(body, &model)?;
    if max_tokens.is_some_and(|most| most < ending.min_tokens) {
        let message = format!("`min_tokens` is greater than `{}`", max_names.join("` or `"));
        return Err(ApiError::conflict("min_tokens", message));
    }
    Ok(Common {
        sampling: sampling::read(body, &model)?,
        choices: body.size("n").unwrap_or(1),
        ending: Arc::new(ending),
        stream,
        usage_in_stream,
        max_tokens,
        cache_salt: body.text("cache_salt").unwrap_or_default(),
        model,
    })
}

/// The prompt of one or more answers.
pub(crate) struct Wanted {
    pub(crate) prompt: Arc<Vec<u32>>,
    /// Maximum number of tokens that can follow the prompt.
    pub(crate) room: usize,
}

/// Inputs of an inference that are not common fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extras {
    /// Number of alternatives per token, if log probabilities are requested.
    pub(crate) logprobs: Option<usize>,
    /// Number of alternatives per token of the prompt, if log probabilities are requested.
    pub(crate) prompt_logprobs: Option<usize>,
    /// True if the token that ends an answer gets log probabilities, too.
    pub(crate) end_logprobs: bool,
    /// Special tokens that are part of the text.
    pub(crate) visible: Arc<[u32]>,
    /// Parser that separates content, reasoning and calls of an answer.
    pub(crate) parser: OutputParser,
}

/// The grammar of an answer's text, for all choices of it.
pub(crate) struct Form {
    pub(crate) shape: Shape,
    pub(crate) binding: Binding,
}

/// The part of a text to which the grammar applies.
#[derive(Clone, Debug)]
pub(crate) enum Binding {
    /// All text after the `gate`, or the whole text if there is none.
    Whole { gate: Option<String> },
    /// Calls of tools; with `once` at most one call.
    Calls { watch: CallWatch, once: bool },
    /// The text from a call in harmony's message format to the end.
    Harmony,
}

impl Binding {
    /// Returns true if the grammar determines the end of the text.
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
    /// Returns the settings for the audit log, and the seed.
    pub(crate) fn recorded(&self) -> (Map<String, Value>, u64) {
        let mut settings = self.sampling.recorded();
        settings.insert("n".to_owned(), self.choices.into());
        if let Some(most) = self.max_tokens {
            settings.insert("max_tokens".to_owned(), most.into());
        }
        (settings, self.sampling.params.seed)
    }

    /// Returns the tasks for prompts, after compilation of the grammar if their answers have one.
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
        prompt::run_blocking(move || {
            let tasks = self.tasks(&prompts, &extras, form.as_ref())?;
            Ok((self, tasks))
        })
        .await
    }

    /// Returns the tasks for prompts: all choices of the first, then all of the second.
    fn tasks(
        &self,
        prompts: &[Wanted],
        extras: &Extras,
        form: Option<&(Arc<Compiled>, Binding)>,
    ) -> Result<Vec<Task>, ApiError> {
        let mut tasks = Vec::new();
        let tokenizer = self.model.tokenizer.as_ref();
        let mut ending = Arc::clone(&self.ending);
        if form.is_some_and(|(_, binding)| binding.ends()) {
            // The end token is part of a text with a grammar.
            Arc::make_mut(&mut ending).ignore_end = false;
        }
        for wanted in prompts {
            for choice in 0..self.choices {
                let text =
                    AnswerText::new(tokenizer, &wanted.prompt, &[]).with_visible(Arc::clone(&extras.visible));
                let stops = StopMatcher::new(&self.ending.stop).with_stop_included(self.ending.includes_stop);
                let parts = AnswerParts::new(text, extras.parser.clone(), stops);
                let gate = |text: &String| {
                    AnswerText::new(tokenizer, &wanted.prompt, std::slice::from_ref(text))
                        .with_visible(Arc::clone(&extras.visible))
                };
                let rule = form.map(|(compiled, binding)| binding.rule(compiled, gate)).transpose();
                let choice = Choice {
                    sampler: self.sampling.sampler(&self.model, choice, &wanted.prompt)?,
                    parts: if extras.logprobs.is_some() { parts.with_tokens() } else { parts },
                    ending: Arc::clone(&ending),
                    logprobs: Logprobs {
                        top: extras.logprobs,
                        of_prompt: extras.prompt_logprobs,
                        of_end: extras.end_logprobs,
                        ..Logprobs::default()
                    },
                    chosen: 0,
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

/// Returns the schema of the token limit in the OpenAPI document.
pub(crate) fn max_tokens_schema() -> Value {
    json!({
        "type": "integer", "minimum": -1, "maximum": i32::MAX,
        "description": "Maximum number of tokens to generate; 0: only the prompt is computed; -1: as many as fit the context"
    })
}

/// Returns the fields in the OpenAPI document that chats and completions share.
pub(crate) fn schema(app: &App) -> Value {
    let limits = &app.limits;
    let mut all = sampling::schema(app);
    let more = json!({
        "model": app.model_schema(),
        "stream": { "type": "boolean" },
        "stream_options": {
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "include_usage": {
                    "type": "boolean", "description": "Whether a last chunk contains the token usage"
                },
                "continuous_usage_stats": {
                    "type": "boolean", "description": "With `include_usage`: whether each chunk contains the usage so far"
                }
            }
        },
        "n": { "type": "integer", "minimum": 1, "maximum": limits.choices },
        "keep_alive": keep_alive::schema(),
        "max_tokens": max_tokens_schema(),
        "lora": adapters::schema(),
        "cache_salt": {
            "type": "string",
            "maxLength": limits.name_chars,
            "description": "Requests share cached prefixes only with requests of the same salt"
        },
    });
    for more in [more, stop_conditions::schema(app), grammars::schema(limits), truncation::prompt_schema()] {
        if let (Value::Object(all), Value::Object(more)) = (&mut all, more) {
            all.extend(more);
        }
    }
    synonyms::describe(&mut all);
    all
}
