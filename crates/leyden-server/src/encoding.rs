//! Texts for endpoints that need hidden states: tokens, truncation to the model's context, pairs of texts, and the
//! outputs of heads.

use crate::app::App;
use crate::call::Call;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::generate;
use crate::prompt::{self, Extent};
use crate::served::Served;
use crate::usage::Usage;
use crate::worker::{Task, Work};
use leyden_engine::Pooling;
use leyden_models::heads::{Head, HeadOutput, LabelLogits, SparseVector};
use leyden_models::{ClassifierConfig, Labelled};
use leyden_text::{Bounds, Pairs, RenderOptions, SoleMessage};
use serde_json::{Value, json};
use std::sync::Arc;

/// Treatment of a text with more tokens than the model or the request allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Long {
    /// Refuses the text.
    #[default]
    Refuse,
    /// Truncates the end, so that at most this many tokens stay.
    CutEnd(usize),
    /// Truncates the beginning, so that at most this many tokens stay.
    CutBegin(usize),
    /// Truncates the end, or the beginning if the model's tokenizer is configured so.
    CutUsual(usize),
}

impl Long {
    /// Takes `truncate`, `truncation_direction`, and vLLM's `truncate_prompt_tokens` and `truncation_side`.
    pub(crate) fn read(body: &mut Fields, usual: bool) -> Long {
        let most = most(body);
        let side = body.text("truncation_direction");
        let side = body.text("truncation_side").or(side).map(|side| side.eq_ignore_ascii_case("left"));
        match (body.flag("truncate").unwrap_or(usual) || most.is_some(), most.unwrap_or(usize::MAX)) {
            (false, _) => Long::Refuse,
            (true, most) => match side {
                Some(true) => Long::CutBegin(most),
                Some(false) => Long::CutEnd(most),
                None => Long::CutUsual(most),
            },
        }
    }

    /// Replaces the usual side by that of the model.
    fn of(self, model: &Served) -> Long {
        match self {
            Long::CutUsual(most) if model.tokenizer.drops_beginning() => Long::CutBegin(most),
            Long::CutUsual(most) => Long::CutEnd(most),
            other => other,
        }
    }

    /// Takes vLLM's two fields for a prompt before an answer; by default the beginning is truncated. -1 leaves room for
    /// `answer` tokens, the maximum length of the answer.
    pub(crate) fn of_prompt(body: &mut Fields, model: &Served, answer: Option<usize>) -> Long {
        let end = body.text("truncation_side").is_some_and(|side| side == "right");
        let room = prompt::longest(model).saturating_sub(answer.unwrap_or(0)).max(1);
        match most(body) {
            None => Long::Refuse,
            Some(most) if end => Long::CutEnd(most.min(room)),
            Some(most) => Long::CutBegin(most.min(room)),
        }
    }

    /// Returns the schemas of the fields for the OpenAPI document.
    pub(crate) fn schema() -> Value {
        let more = json!({
            "truncate": {
                "type": "boolean", "description": "Whether a text that is too long is cut; otherwise it is an error"
            },
            "truncation_direction": { "enum": ["right", "left", "Right", "Left"] }
        });
        with(Long::prompt_schema(), more)
    }

    /// Returns the schemas of the fields for a prompt before an answer, for the OpenAPI document.
    pub(crate) fn prompt_schema() -> Value {
        json!({
            "truncate_prompt_tokens": {
                "type": "integer", "minimum": -1, "maximum": i32::MAX,
                "description": "So many tokens at most stay of what is read; -1 for as many as the model takes"
            },
            "truncation_side": { "enum": ["left", "right"], "description": "Which tokens are then left out" }
        })
    }

    pub(crate) fn extent<'a>(self, model: &Served, call: &'a Call) -> Extent<'a> {
        match self {
            Long::Refuse => Extent::of_model(model, call),
            Long::CutEnd(_) | Long::CutBegin(_) | Long::CutUsual(_) => Extent::of_body(call),
        }
    }

    /// Truncates a text's tokens, but keeps BOS and EOS if the tokenizer adds them, and the last `tail` tokens.
    pub(crate) fn cut(self, model: &Served, tokens: &mut Vec<u32>, tail: usize) {
        let (at_end, most) = match self.of(model) {
            Long::Refuse => return,
            Long::CutEnd(most) | Long::CutUsual(most) => (true, most),
            Long::CutBegin(most) => (false, most),
        };
        let n = tokens.len();
        let tokenizer = &model.tokenizer;
        let begin = usize::from(tokenizer.add_bos() && tokens.first().copied() == tokenizer.bos());
        let end = usize::from(tokenizer.add_eos() && tokens.last().copied() == tokenizer.eos()).max(tail);
        let most = most.min(prompt::longest(model)).max(begin + end);
        if n <= most {
            return;
        }
        let from = if at_end { most - end } else { begin };
        tokens.drain(from..from + n - most);
    }
}

/// Takes `truncate_prompt_tokens`; a negative number means the model's maximum.
fn most(body: &mut Fields) -> Option<usize> {
    body.integer("truncate_prompt_tokens").map(|n| usize::try_from(n).unwrap_or(usize::MAX))
}

/// Texts, each with its path in the body.
pub(crate) type Inputs = Vec<(String, Input)>;

/// One or several texts.
pub(crate) enum Input {
    /// Value of a field: a text, a list of token ids, or a list of either.
    Value(Value),
    /// Tokens of one text.
    Tokens(Vec<u32>),
}

impl Input {
    /// Returns true if there is no text, or only an empty one.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Input::Value(value) => value == "" || value.as_array().is_some_and(Vec::is_empty),
            Input::Tokens(tokens) => tokens.is_empty(),
        }
    }
}

impl<T: Into<Value>> From<T> for Input {
    fn from(value: T) -> Input {
        Input::Value(value.into())
    }
}

/// Takes the field `name`, which has the texts.
pub(crate) fn input(body: &mut Fields, name: &str) -> Inputs {
    vec![(name.to_owned(), body.take(name).unwrap_or_default().into())]
}

/// Prompts with the heads to compute for them.
pub(crate) struct Wanted {
    pub(crate) model: Arc<Served>,
    tasks: Vec<Task>,
}

/// Makes the task that computes the head of one text.
fn task(
    model: &Served,
    path: &str,
    tokens: Vec<u32>,
    head: Head,
    second: Option<usize>,
) -> Result<Task, ApiError> {
    prompt::room(model, path, tokens.len())?;
    Ok(Task { prompt: Arc::new(tokens), max_tokens: 0, work: Work::Head { head, second } })
}

/// Prompt that precedes the texts of a request.
pub(crate) enum Before {
    /// Words before each text; may be empty.
    Words(String),
    /// System message, which may be empty, before the message that each text becomes.
    Message(String),
}

impl Before {
    /// Returns an empty prompt.
    pub(crate) fn nothing() -> Before {
        Before::Words(String::new())
    }

    /// Returns the model's prompt for embeddings with this name, or its default prompt.
    fn of(model: &Served, name: Option<&str>) -> Option<Before> {
        let prompt = model.prompts.get(name)?.to_owned();
        Some(match model.prompts.message() {
            Some(_) => Before::Message(prompt),
            None => Before::Words(prompt),
        })
    }

    /// Returns the model's default prompt.
    pub(crate) fn usual(model: &Served) -> Before {
        Before::of(model, None).unwrap_or_else(Before::nothing)
    }
}

/// Makes tasks of the texts of several fields, each of which has one or more, as text or tokens. `before` precedes
/// those given as text.
pub(crate) fn texts(
    model: &Arc<Served>,
    call: &Call,
    inputs: Inputs,
    long: Long,
    before: &Before,
    head: &Head,
) -> Result<Wanted, ApiError> {
    let system = match before {
        Before::Message(system) => system,
        Before::Words(words) => {
            return several(model, call, inputs, long, (words, head), (&prompt::of_whole_text, 0));
        }
    };
    let (Some(form), Some(template)) = (model.prompts.message(), &model.template) else {
        return Err(ApiError::internal("the model's messages cannot be written"));
    };
    let options = RenderOptions {
        add_generation_prompt: form.add_generation_prompt,
        extra: form.variables.clone(),
        ..RenderOptions::default()
    };
    let sole = SoleMessage { template, in_parts: form.in_parts, system, options: &options };
    let tail = match long.of(model) {
        Long::CutEnd(_) if form.keep_tail => sole.tail(model.tokenizer.as_ref()).unwrap_or(0),
        _ => 0,
    };
    let encode = |model: &Served, extent: Extent<'_>, param: &str, text: &str| {
        extent
            .encode(model, param, text, |tokenizer, text, bounds| sole.encode_within(tokenizer, text, bounds))
    };
    several(model, call, inputs, long, ("", head), (&encode, tail))
}

/// Makes tasks of texts; `encode` makes tokens of a text, and truncation keeps the last `tail` of them.
fn several(
    model: &Arc<Served>,
    call: &Call,
    inputs: Inputs,
    long: Long,
    (before, head): (&str, &Head),
    (encode, tail): (prompt::Encode<'_>, usize),
) -> Result<Wanted, ApiError> {
    let mut tasks = Vec::new();
    for (name, input) in inputs {
        let extent = long.extent(model, call);
        let texts = match input {
            Input::Tokens(tokens) => vec![(name, tokens)],
            Input::Value(value) => {
                let value = if before.is_empty() { value } else { prefixed(value, before) };
                prompt::several(model, extent, &name, value, encode)?
            }
        };
        for (path, mut tokens) in texts {
            long.cut(model, &mut tokens, tail);
            tasks.push(task(model, &path, tokens, head.clone(), None)?);
        }
    }
    Ok(Wanted { model: Arc::clone(model), tasks })
}

fn prefixed(input: Value, before: &str) -> Value {
    match input {
        Value::String(text) => format!("{before}{text}").into(),
        Value::Array(items) => items
            .into_iter()
            .map(|item| match item {
                Value::String(text) => format!("{before}{text}").into(),
                other => other,
            })
            .collect(),
        other => other,
    }
}

/// Takes `prompt_name`, and returns the prompt that precedes texts.
pub(crate) fn prompt_before(model: &Served, body: &mut Fields) -> Result<Before, ApiError> {
    let name = body.text("prompt_name");
    Before::of(model, name.as_deref()).ok_or_else(|| {
        let known: Vec<&str> = model.prompts.names().collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        ApiError::field(
            "prompt_name",
            format!("`prompt_name`: the model does not have this prompt; it has: {known}"),
        )
    })
}

impl Wanted {
    /// Returns an empty list of prompts.
    pub(crate) fn of(model: &Arc<Served>) -> Wanted {
        Wanted { model: Arc::clone(model), tasks: Vec::new() }
    }

    /// Adds a prompt that is at `path` in the request.
    pub(crate) fn add(
        &mut self,
        path: &str,
        tokens: Vec<u32>,
        head: impl Into<Head>,
    ) -> Result<(), ApiError> {
        self.tasks.push(task(&self.model, path, tokens, head.into(), None)?);
        Ok(())
    }

    /// Returns true if there is nothing to compute.
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Computes the head of each text, and returns the result of `finish` for the outputs. That runs in the queue of
    /// requests that take long to prepare, and holds the lease of the model meanwhile.
    pub(crate) async fn finished<T: Send + 'static>(
        self,
        app: Arc<App>,
        call: Call,
        finish: impl FnOnce(&Served, Vec<HeadOutput>) -> T + Send + 'static,
    ) -> Result<(T, Usage), ApiError> {
        let (lease, key, deadline) = (call.lease(), call.caller.fairness(), call.deadline(&app));
        let model = Arc::clone(&self.model);
        let (outputs, usage) = self.outputs(Arc::clone(&app), call).await?;
        let permit = app.long_requests.acquire(key, deadline.into()).await?;
        let made = prompt::run_blocking(move || {
            let _kept = (permit, lease);
            Ok(finish(&model, outputs))
        });
        Ok((made.await?, usage))
    }

    /// Computes the head of each text.
    async fn outputs(self, app: Arc<App>, call: Call) -> Result<(Vec<HeadOutput>, Usage), ApiError> {
        let running = generate::submit(app, call, &self.model, self.tasks, String::new()).await?;
        let (answers, usage) = running.collect().await?;
        let outputs = answers.into_iter().map(|answer| answer.output.ok_or_else(missing));
        Ok((outputs.collect::<Result<_, _>>()?, usage))
    }

    /// Computes the vectors or logits of each text; several of a text one after the other. Vectors of texts are not
    /// normalized.
    pub(crate) async fn values(self, app: Arc<App>, call: Call) -> Result<(Vec<Vec<f32>>, Usage), ApiError> {
        let (outputs, usage) = self.outputs(app, call).await?;
        let values = outputs.into_iter().map(|output| match output {
            HeadOutput::Vectors { values, .. } | HeadOutput::Logits { values, .. } => Ok(values),
            _ => Err(missing()),
        });
        Ok((values.collect::<Result<_, _>>()?, usage))
    }

    /// Computes a sparse embedding of each text: token ids of the vocabulary with their weights.
    pub(crate) async fn sparse(
        mut self,
        app: Arc<App>,
        call: Call,
    ) -> Result<Vec<Vec<(u32, f32)>>, ApiError> {
        for task in &mut self.tasks {
            let is_special = |id: &u32| self.model.tokenizer.is_special(*id);
            let mut special: Vec<u32> = task.prompt.iter().copied().filter(is_special).collect();
            special.sort_unstable();
            special.dedup();
            task.work = Work::Head { head: SparseVector { special }.into(), second: None };
        }
        let (outputs, _) = self.outputs(app, call).await?;
        let weights = outputs.into_iter().map(|output| match output {
            HeadOutput::Sparse(weights) => Ok(weights),
            _ => Err(missing()),
        });
        weights.collect()
    }

    /// Computes the scores of all labels for each text, or for each of its tokens.
    pub(crate) async fn scores(
        self,
        app: Arc<App>,
        call: Call,
        raw: bool,
    ) -> Result<(Vec<Vec<f32>>, Usage), ApiError> {
        let model = Arc::clone(&self.model);
        let (mut logits, usage) = self.values(app, call).await?;
        if let Some(classifier) = model.network.config().classifier().filter(|_| !raw) {
            logits.iter_mut().for_each(|logits| classifier.scores(model.tier, logits));
        }
        Ok((logits, usage))
    }
}

/// Returns the error of an answer without the output of its head.
fn missing() -> ApiError {
    ApiError::internal("the output of the model's head is missing")
}

/// Returns the classifier head of a model that labels texts, and its pooling.
pub(crate) fn classifier(model: &Served) -> Result<(&ClassifierConfig, Pooling), ApiError> {
    let found = model.network.config().classifier();
    match found.map(|classifier| (classifier, classifier.of)) {
        Some((classifier, Labelled::Text(pooling))) => Ok((classifier, pooling)),
        _ => Err(lacks(model, "classify: it has no head that gives texts labels")),
    }
}

/// Returns the error of a model without the head that a request needs.
pub(crate) fn lacks(model: &Served, what: &str) -> ApiError {
    let message = format!("the model does not {what} (`{}`)", model.name);
    ApiError { code: "unsupported_model", ..ApiError::field("model", message) }
}

/// Text after its path in the body.
pub(crate) type Placed = (String, String);

/// Pair of texts.
pub(crate) struct PairOf<'a> {
    pub(crate) query: &'a Placed,
    pub(crate) document: &'a Placed,
}

/// Treatment of documents that are too long.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LongDocument {
    /// Scored in parts, of which the best one counts.
    InParts,
    /// Treated as any text.
    AsText(Long),
    /// Truncated to at most this many tokens of the document.
    Begin(usize),
}

/// Pairs whose scores are to be computed.
pub(crate) struct Ranking {
    wanted: Wanted,
    /// Index of the pair of each prompt.
    of: Vec<usize>,
    count: usize,
}

/// Makes the prompts of pairs.
pub(crate) fn pairs(
    model: &Arc<Served>,
    call: &Call,
    all: &[PairOf<'_>],
    long: LongDocument,
) -> Result<Ranking, ApiError> {
    let (config, pooling) = classifier(model)?;
    let long = match long {
        LongDocument::AsText(long) => LongDocument::AsText(long.of(model)),
        other => other,
    };
    let most = prompt::longest(model);
    let pairs = Pairs::new(model.tokenizer.as_ref(), config.prompt.as_deref());
    let gone = || call.is_given_up();
    let bounds = Bounds::NONE.until(&gone);
    let unwritable =
        |path: &str| ApiError::field(path, format!("`{path}` cannot be written in the model's vocabulary"));
    let (mut tasks, mut of) = (Vec::new(), Vec::new());
    for (number, PairOf { query: (query_path, query), document: (path, document) }) in all.iter().enumerate()
    {
        let encode = || pairs.encode(query, document, &bounds).map_err(|_| unwritable(path));
        let windows = match long {
            LongDocument::InParts => {
                pairs.windows(query, document, most, &bounds).map_err(|_| unwritable(path))?
            }
            LongDocument::AsText(Long::Refuse) => {
                let pair = encode()?;
                // If a pair does not fit, the error names the second text if the first alone fits.
                let alone = || pairs.encode(query, "", &bounds).is_ok_and(|pair| pair.ids.len() <= most);
                (pair.ids.len() <= most || alone()).then(|| vec![pair])
            }
            LongDocument::AsText(Long::CutEnd(wanted) | Long::CutUsual(wanted)) => {
                let mut pair = encode()?;
                pair.truncate(most.min(wanted), false).then(|| vec![pair])
            }
            LongDocument::AsText(Long::CutBegin(wanted)) => {
                let mut pair = encode()?;
                pair.truncate(most.min(wanted), true).then(|| vec![pair])
            }
            LongDocument::Begin(tokens) => {
                let mut pair = encode()?;
                pair.truncate_document(tokens);
                pair.truncate(most, false).then(|| vec![pair])
            }
        };
        let Some(windows) = windows else {
            let tokens = pairs.encode(query, "", &bounds).map_or(most + 1, |pair| pair.ids.len());
            return Err(ApiError::no_room(query_path, tokens, most));
        };
        for pair in windows {
            of.push(number);
            let head = LabelLogits { of: Labelled::Text(pooling) }.into();
            tasks.push(task(model, path, pair.ids, head, pair.second)?);
        }
    }
    Ok(Ranking { wanted: Wanted { model: Arc::clone(model), tasks }, of, count: all.len() })
}

impl Ranking {
    /// Computes the relevance score of each pair.
    pub(crate) async fn relevance(
        self,
        app: Arc<App>,
        call: Call,
        raw: bool,
    ) -> Result<(Vec<f32>, Usage), ApiError> {
        let Ranking { wanted, of, count } = self;
        let model = Arc::clone(&wanted.model);
        let (logits, usage) = wanted.scores(app, call, true).await?;
        let mut best = vec![f32::NEG_INFINITY; count];
        if let Some(classifier) = model.network.config().classifier() {
            for (number, logits) in of.into_iter().zip(logits) {
                let score = classifier.relevance(model.tier, &logits, raw).first().copied();
                best[number] = best[number].max(score.unwrap_or_default());
            }
        }
        Ok((best, usage))
    }

    /// Computes the scores of all labels for each pair; none of them may be scored in parts.
    pub(crate) async fn labels(
        self,
        app: Arc<App>,
        call: Call,
        raw: bool,
    ) -> Result<(Vec<Vec<f32>>, Usage), ApiError> {
        self.wanted.scores(app, call, raw).await
    }
}

/// Refuses a model that does not compute a single score of a pair.
pub(crate) fn ranks(model: &Served) -> Result<(), ApiError> {
    match classifier(model).is_ok_and(|(classifier, _)| classifier.ranks()) {
        true => Ok(()),
        false => Err(lacks(model, "rank: it has no head that gives a question and a document a score")),
    }
}

/// Merges the properties of schemas.
pub(crate) fn with(mut schema: Value, more: Value) -> Value {
    if let (Value::Object(all), Value::Object(more)) = (&mut schema, more) {
        all.extend(more);
    }
    schema
}
