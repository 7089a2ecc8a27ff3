//! Tasks on texts: the texts of a request with their paths in the body, and the submission of a task.

use crate::app::App;
use crate::call::Call;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::generate;
use crate::prompt;
use crate::request_model::RequestModel;
use crate::served::Served;
use crate::usage::Usage;
use crate::worker;
use leyden_tasks::{Error, ErrorKind, Place, Plan, Preface, Task, TaskKind, TaskModel, TextInput};
use serde_json::Value;
use std::sync::Arc;

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

/// Text after its path in the body.
pub(crate) type Placed = (String, String);

/// Paths of the parts of a request in its body.
#[derive(Default)]
pub(crate) struct Paths {
    texts: Vec<String>,
    /// Paths of the first texts of pairs.
    queries: Vec<String>,
}

impl Paths {
    /// Returns the paths of texts.
    pub(crate) fn new(texts: Vec<String>) -> Paths {
        Paths { texts, queries: Vec::new() }
    }

    /// Returns the paths of pairs.
    pub(crate) fn of_pairs(pairs: &[PairOf<'_>]) -> Paths {
        let (texts, queries) = pairs.iter().map(|p| (p.document.0.clone(), p.query.0.clone())).unzip();
        Paths { texts, queries }
    }

    /// Returns the path of a text.
    pub(crate) fn text(&self, index: usize) -> &str {
        self.at(Place::Text(index))
    }

    fn at(&self, place: Place) -> &str {
        match place {
            Place::Text(i) => self.texts.get(i).map_or("", String::as_str),
            Place::Query(i) => self.queries.get(i).map_or("", String::as_str),
            Place::Labels => "labels",
            Place::Request => "model",
        }
    }
}

/// Returns the texts of several fields, and the paths of all.
pub(crate) fn texts(model: &Served, inputs: Inputs) -> Result<(Paths, Vec<TextInput<'static>>), ApiError> {
    let (mut paths, mut texts) = (Vec::new(), Vec::new());
    for (name, input) in inputs {
        let items = match input {
            Input::Tokens(tokens) => vec![(name, TextInput::Tokens(tokens))],
            Input::Value(value) => prompt::items(model, &name, value)?,
        };
        let (some_paths, some): (Vec<_>, Vec<_>) = items.into_iter().unzip();
        paths.extend(some_paths);
        texts.extend(some);
    }
    Ok((Paths::new(paths), texts))
}

/// Pair of texts.
pub(crate) struct PairOf<'a> {
    pub(crate) query: &'a Placed,
    pub(crate) document: &'a Placed,
}

/// Returns the texts of pairs.
pub(crate) fn pair_texts<'a>(pairs: &'a [PairOf<'a>]) -> impl ExactSizeIterator<Item = (&'a str, &'a str)> {
    pairs.iter().map(|pair| (&pair.query.1[..], &pair.document.1[..]))
}

/// Returns the model's prompt before texts with this name, or its default prompt.
pub(crate) fn preface(model: &Served, name: Option<&str>) -> Result<Preface, ApiError> {
    Preface::named(&model.prompts, name).map_err(|kind| ApiError::of_task(kind, "prompt_name"))
}

/// Returns the error of a task.
fn refused(model: &Served, error: Error, paths: &Paths) -> ApiError {
    let param = paths.at(error.place);
    match error.kind {
        ErrorKind::Unable(kind) => unable(model, kind, param),
        kind => ApiError::of_task(kind, param),
    }
}

/// Returns the error of a model without the head for a task.
pub(crate) fn unable(model: &Served, kind: TaskKind, param: &str) -> ApiError {
    ApiError { param: Some(param.to_owned()), ..lacks(model, kind.lacking()) }
}

/// Returns the names of the model's labels.
pub(crate) fn labels(model: &Served) -> &[String] {
    model.network.config().classifier().map_or(&[], |classifier| &classifier.labels)
}

/// Returns the error of a model without the head that a request needs.
pub(crate) fn lacks(model: &Served, what: &str) -> ApiError {
    let message = format!("the model does not {what} (`{}`)", model.name);
    ApiError { code: "unsupported_model", ..ApiError::field("model", message) }
}

/// Task of a model with its prompts.
pub(crate) struct Planned<T> {
    pub(crate) model: RequestModel,
    plan: Plan<T>,
}

/// Plans a task with `make`.
///
/// # Errors
/// 400: `make` refuses the request.
pub(crate) fn plan<T>(
    model: &RequestModel,
    call: &Call,
    paths: &Paths,
    make: impl FnOnce(&TaskModel<'_>) -> Result<Plan<T>, Error>,
) -> Result<Planned<T>, ApiError> {
    let gone = || call.is_given_up();
    let parts = TaskModel {
        config: model.network.config(),
        tokenizer: model.tokenizer.as_ref(),
        template: model.template.as_deref(),
        prompts: &model.prompts,
        vocabulary: model.vocabulary,
        max_tokens: prompt::longest(model),
        counts_excess: false,
        stop: &gone,
    };
    let plan = make(&parts).map_err(|error| refused(model, error, paths))?;
    Ok(Planned { model: model.clone(), plan })
}

impl<T: Task> Planned<T> {
    /// Computes the prompts, and returns the result of the task. A result that takes long is made in the queue of
    /// requests that take long to prepare, and holds the lease of the model meanwhile.
    pub(crate) async fn run(self, app: Arc<App>, call: Call) -> Result<(T::Result, Usage), ApiError> {
        let Planned { model, plan: Plan { prompts, task } } = self;
        let (lease, key, deadline) = (call.lease(), call.caller.fairness(), call.deadline(&app));
        let finish = |model: &Served, outputs| {
            let parts = (model.network.config(), model.tier);
            task.finish(parts, outputs).map_err(|error| refused(model, error, &Paths::default()))
        };
        if prompts.is_empty() {
            return Ok((finish(&model, Vec::new())?, Usage::default()));
        }
        let tasks = prompts.into_iter().map(worker::Task::from).collect();
        let running = generate::submit(Arc::clone(&app), call, &model, tasks, String::new()).await?;
        let (answers, usage) = running.collect().await?;
        let outputs = answers.into_iter().filter_map(|answer| answer.output).collect();
        if !T::LONG_FINISH {
            return Ok((finish(&model, outputs)?, usage));
        }
        let permit = app.long_requests.acquire(key, deadline.into()).await?;
        let made = prompt::run_blocking(move || {
            let _kept = (permit, lease);
            finish(&model, outputs)
        });
        Ok((made.await?, usage))
    }
}
