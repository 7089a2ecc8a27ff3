//! Common form of the requests of all dialects, chats and completions, and of their answers.
//!
//! The fields have OpenAI's names, and llama-server's for those that OpenAI lacks. A dialect renames its own fields,
//! checked against its schema, to these names.

use crate::app::App;
use crate::call::Call;
use crate::chat_output::{Answer, ChatOutput};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::fim;
use crate::generate::{self, Running};
use crate::grammars;
use crate::json_form;
use crate::keep_alive;
use crate::log::Entry;
use crate::mailbox::{End, TokenLogprob};
use crate::messages;
use crate::prompt::{self, RenderedPrompt};
use crate::rendering;
use crate::request::{self, Binding, Common, Extras, Form, Wanted};
use crate::request_model::RequestModel;
use crate::served::Served;
use crate::tool_kinds::ToolNames;
use crate::tools::{self, Tools};
use crate::truncation;
use crate::usage::Usage;
use leyden_constrain::JsonForm;
use leyden_tasks::TextInput;
use leyden_text::output::CallSyntax;
use std::sync::Arc;

/// Request that is ready to be submitted.
pub(crate) struct Inference {
    pub(crate) common: Common,
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) extras: Extras,
    pub(crate) form: Option<Form>,
    /// Names of the tools that are no plain functions.
    pub(crate) names: Arc<ToolNames>,
}

/// Takes `messages` and the fields for tools and rendering.
pub(crate) fn conversation(
    app: &App,
    call: &Call,
    model: &Served,
    limits: prompt::EncodingLimits<'_>,
    body: &mut Fields,
) -> Result<(RenderedPrompt, Option<Tools>), ApiError> {
    let mut messages = messages::read(body.list("messages").unwrap_or_default())?;
    model.defaults.precede(&mut messages);
    let tools = tools::read(app, call, body)?;
    let mut rendering = rendering::read(body, &app.limits)?;
    rendering.tools = tools.as_ref().map(|t| t.list.clone());
    Ok((prompt::of_messages(model, limits, &messages, &rendering)?, tools))
}

/// Reads a chat with a model.
pub(crate) fn chat(
    app: &App,
    call: &Call,
    model: RequestModel,
    body: &mut Fields,
) -> Result<Inference, ApiError> {
    keep_alive::keep(call, body)?;
    model.defaults.fill(body);
    let common = request::read(body, model, &["max_tokens", "max_completion_tokens"])?;
    let logprobs = body.flag("logprobs").unwrap_or(false);
    let top = body.size("top_logprobs");
    if top.is_some_and(|top| top > 0) && !logprobs {
        return Err(ApiError::conflict("top_logprobs", "`top_logprobs` needs `logprobs`"));
    }
    let written = json_form::read(body, JsonForm::default());
    let shape = grammars::shape(body, written, &app.limits)?;
    let model = Arc::clone(&common.model);
    let long = truncation::of_prompt(body, &model, common.max_tokens);
    let limits = truncation::encoding_limits(long, &model, call);
    let (mut conversed, tools) = conversation(app, call, &model, limits, body)?;
    truncation::cut(long, &model, &mut conversed.tokens);
    let tools = tools.map(|tools| tools.in_form(written));
    let text = conversed.end();
    let room = prompt::room(&model, "messages", conversed.tokens.len())?;
    let mut parser = model.format.parser(text, tools.as_ref().map(|t| &t.list));
    if tools.as_ref().is_some_and(Tools::requires_call) {
        parser = parser.with_call_required();
    }
    // With a structured output, JSON in the answer is not a call.
    if model.bare_calls
        && shape.is_none()
        && let Some(rules) = tools.as_ref().and_then(Tools::bare_calls)
    {
        parser = parser.with_bare_calls(rules);
    }
    let names = tools.as_ref().map(|tools| Arc::clone(&tools.names)).unwrap_or_default();
    let form = match (tools, shape) {
        (Some(tools), Some(shape)) => Some(tools.form_or(shape, &model, text)?),
        (Some(tools), None) => Some(tools.form(&model, text)),
        (None, Some(shape)) => Some(Form { shape, binding: Binding::Whole { gate: gate(&model, text) } }),
        (None, None) => None,
    };
    let visible = Arc::clone(&model.visible);
    let logprobs = logprobs.then(|| top.unwrap_or(0));
    let extras = Extras { visible, logprobs, parser, ..Extras::default() };
    let wanted = vec![Wanted { prompt: Arc::new(conversed.tokens), room }];
    Ok(Inference { common, wanted, extras, form, names })
}

/// Reads a completion of one or several prompts with a model.
pub(crate) fn completion(
    app: &App,
    call: &Call,
    model: RequestModel,
    body: &mut Fields,
) -> Result<Inference, ApiError> {
    keep_alive::keep(call, body)?;
    model.defaults.fill(body);
    let common = request::read(body, model, &["max_tokens", "max_completion_tokens"])?;
    let long = truncation::of_prompt(body, &common.model, common.max_tokens);
    let limits = truncation::encoding_limits(long, &common.model, call);
    fim::of_completion(&common.model, limits, body)?;
    let given = body.take("prompt").unwrap_or_default();
    let mut wanted = Vec::new();
    for (path, item) in prompt::items(&common.model, "prompt", given)? {
        let mut tokens = match item {
            TextInput::Text(text) => prompt::of_text(&common.model, limits, &path, &text)?,
            TextInput::Tokens(tokens) => tokens,
        };
        truncation::cut(long, &common.model, &mut tokens);
        let room = prompt::room(&common.model, "prompt", tokens.len())?;
        wanted.push(Wanted { prompt: Arc::new(tokens), room });
    }
    let written = json_form::read(body, JsonForm::default());
    let shape = grammars::shape(body, written, &app.limits)?;
    let form = shape.map(|shape| Form { shape, binding: Binding::Whole { gate: None } });
    let extras = Extras { logprobs: body.size("logprobs"), ..Extras::default() };
    Ok(Inference { common, wanted, extras, form, names: Arc::default() })
}

/// Returns the text after which a structured output begins: the end of the model's reasoning.
fn gate(model: &Served, prompt: &str) -> Option<String> {
    match model.format.is_harmony() {
        true => Some("<|channel|>final<|message|>".to_owned()),
        false => tools::reasoning_end(model, prompt),
    }
}

/// Request in progress.
pub(crate) struct RunningInference {
    pub(crate) running: Running,
    pub(crate) common: Common,
    /// Converter of each choice.
    pub(crate) chat_outputs: Vec<ChatOutput>,
    /// Log entry of the request, which has its times.
    pub(crate) entry: Arc<Entry>,
}

/// Answer of a choice.
pub(crate) struct FinishedChoice {
    pub(crate) answer: Answer,
    pub(crate) end: End,
    /// True if it ended with calls of tools, all of which are complete.
    pub(crate) calls: bool,
    pub(crate) logprobs: Vec<TokenLogprob>,
}

/// Submits a request to the model.
pub(crate) async fn begin(
    app: Arc<App>,
    call: Call,
    inference: Inference,
) -> Result<RunningInference, ApiError> {
    let Inference { common, wanted, extras, form, names } = inference;
    let (common, tasks) = common.tasks_after(&app, &call, wanted, extras, form).await?;
    let salt = common.cache_salt.clone();
    let choices = tasks.len();
    let entry = Arc::clone(&call.entry);
    if let Some(trail) = entry.trail() {
        let (settings, seed) = common.recorded();
        trail.sampled(settings, seed);
    }
    let running = generate::submit(app, call, &common.model, tasks, salt).await?;
    let short = common.model.format.calls().is_some_and(CallSyntax::has_ids);
    let chat_outputs = (0..choices)
        .map(|choice| ChatOutput::new(short, &running.id(), choice, Arc::clone(&names)))
        .collect();
    Ok(RunningInference { running, common, chat_outputs, entry })
}

impl RunningInference {
    /// Returns the whole answer.
    pub(crate) async fn whole(self) -> Result<(Vec<FinishedChoice>, Usage), ApiError> {
        let RunningInference { running, mut chat_outputs, .. } = self;
        let (answers, usage) = running.collect().await?;
        let said = answers.into_iter().zip(&mut chat_outputs).map(|(update, chat_output)| {
            let answer = chat_output.whole(update.parts);
            let end = update.end.unwrap_or(End::Stop);
            FinishedChoice {
                answer,
                end,
                calls: end == End::Stop && chat_output.calls(),
                logprobs: update.logprobs,
            }
        });
        Ok((said.collect(), usage))
    }
}
