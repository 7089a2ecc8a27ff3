//! Calibrated decisions of the endpoints that classify: fields, the form of the answer, and the other model that answers
//! the texts from which the first one abstains.

use crate::abilities::RequiredAbility;
use crate::app::App;
use crate::calibrated::MAX_SET;
use crate::call::Call;
use crate::encoding::{self, Paths, Planned};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::prompt;
use crate::request_model::RequestModel;
use crate::served::Served;
use crate::truncation;
use crate::usage::Usage;
use leyden_tasks::calibration::{Answer, CalibrationError, Decider, Promise};
use leyden_tasks::{Classify, Decide, Decided, TaskKind, TextInput, Truncation, best};
use serde_json::{Value, json};
use std::sync::Arc;

/// Fields that state a promise, or part of one.
const FIELDS: [&str; 5] = ["coverage", "per_class", "max_set", "max_error", "confidence"];

/// Bytes of a label with its score in an answer.
const LABEL_BYTES: usize = 256;

/// Decisions that a request asks for.
pub(crate) struct Wanted {
    decider: Arc<Decider>,
    fallback: Option<String>,
}

/// Scores of a text's labels, and its decision if one is wanted.
pub(crate) type WithDecision = (Vec<f32>, Option<Value>);

/// Planned decisions.
pub(crate) struct Decisions {
    planned: Planned<Decide>,
    wanted: Wanted,
    /// Texts with their paths, if another model answers some of them; token ids are of one model alone.
    texts: Vec<Option<(String, String)>>,
    truncation: Truncation,
}

/// Returns the schemas of the fields for the OpenAPI document.
pub(crate) fn schema() -> Value {
    let share = |text: &str| json!({ "type": "number", "minimum": 0, "maximum": 1, "description": text });
    json!({
        "coverage": share(
            "Probability with which the set in `decision` has the right label; for models with a calibration"
        ),
        "per_class": {
            "type": "boolean",
            "description": "With `coverage`: true for the texts of each class by themselves, where it has enough rows"
        },
        "max_set": {
            "type": "integer", "minimum": 1, "maximum": MAX_SET,
            "description": "With `coverage`: maximum number of labels of a set; a larger one is an abstention"
        },
        "max_error": share(
            "Maximum share of wrong ones among the answered texts; others get an abstention; for models with a calibration"
        ),
        "confidence": share("With `max_error`: confidence that the error rate is kept; default 0.95"),
        "fallback": {
            "type": "boolean",
            "description": "False to leave abstentions as they are where the server has another model for them"
        }
    })
}

/// Returns the schema of a decision in an answer.
pub(crate) fn answer_schema() -> Value {
    json!({
        "type": "object", "required": ["answer", "labels", "promise"],
        "properties": {
            "answer": { "enum": ["label", "set", "abstain"] },
            "labels": { "type": "array", "items": { "type": "object", "required": ["label", "score"] } },
            "promise": { "type": ["object", "null"] },
            "model": { "type": "string", "description": "Model that answered, if it is the one for abstained texts" }
        }
    })
}

/// Takes the fields; returns `None` if no decisions are wanted: neither by a field nor, with `by_settings`, by the
/// settings of the model.
///
/// # Errors
/// 400: the model has no calibration, it does not support the promise, or fields exclude each other.
pub(crate) fn read(
    model: &RequestModel,
    body: &mut Fields,
    by_settings: bool,
) -> Result<Option<Wanted>, ApiError> {
    let given = FIELDS.iter().copied().find(|name| body.has(name));
    let fallback = body.flag("fallback");
    let Some(calibrated) = &model.calibrated else {
        return match given.or(fallback.map(|_| "fallback")) {
            None => Ok(None),
            Some(name) => {
                let message = format!(
                    "`{name}`: the model has no calibration (`{}`); leyden calibrate makes one, and the setting \
                     `calibration` of leyden serve --config names it",
                    model.name
                );
                Err(ApiError::field(name, message))
            }
        };
    };
    let decider = match given {
        None if by_settings => calibrated.usual.clone(),
        None => None,
        Some(name) => {
            let (promise, max_set) = promise(body, name)?;
            let made = Decider::new(&calibrated.calibration, promise, Some(max_set));
            Some(Arc::new(made.map_err(|error| refused(&error, promise))?))
        }
    };
    let Some(decider) = decider else {
        return match fallback {
            None => Ok(None),
            Some(_) => Err(ApiError::conflict(
                "fallback",
                "`fallback` is of use with `coverage` or `max_error` alone",
            )),
        };
    };
    if !model.adapters().is_empty() {
        let message = "the calibration is for the model without adapters";
        return Err(ApiError::conflict("lora", message));
    }
    if fallback == Some(true) && calibrated.fallback.is_none() {
        let message = "`fallback`: the server's settings name no other model for abstained texts";
        return Err(ApiError::field("fallback", message));
    }
    let fallback = calibrated.fallback.clone().filter(|_| fallback.unwrap_or(true));
    Ok(Some(Wanted { decider, fallback }))
}

/// Takes the promise from the fields, the first of which is `first`.
fn promise(body: &mut Fields, first: &'static str) -> Result<(Promise, usize), ApiError> {
    let number = |body: &mut Fields, name| body.take(name).and_then(|value| value.as_f64());
    let (coverage, max_error) = (number(body, "coverage"), number(body, "max_error"));
    let (per_class, max_set) = (body.flag("per_class"), body.size("max_set"));
    let confidence = number(body, "confidence");
    let only_with = |name: &'static str, other: &str| {
        Err(ApiError::conflict(name, format!("`{name}` is of use with `{other}` alone")))
    };
    match (coverage, max_error) {
        (Some(_), Some(_)) => {
            Err(ApiError::conflict("max_error", "`coverage` and `max_error` exclude each other"))
        }
        (None, None) if first == "confidence" => only_with("confidence", "max_error"),
        (None, None) => only_with(first, "coverage"),
        (Some(_), None) if confidence.is_some() => only_with("confidence", "max_error"),
        (None, Some(_)) if per_class.is_some() => only_with("per_class", "coverage"),
        (None, Some(_)) if max_set.is_some() => only_with("max_set", "coverage"),
        (Some(coverage), None) => {
            let promise = Promise::Coverage { coverage, per_class: per_class.unwrap_or(false) };
            Ok((promise, max_set.unwrap_or(MAX_SET)))
        }
        (None, Some(max_error)) => {
            let confidence = confidence.unwrap_or(Promise::CONFIDENCE);
            Ok((Promise::MaxError { max_error, confidence }, MAX_SET))
        }
    }
}

/// Returns the error of a promise that the calibration does not support.
fn refused(error: &CalibrationError, promise: Promise) -> ApiError {
    let param = match (error, promise) {
        (CalibrationError::Range { name: "confidence", .. }, _) => "confidence",
        (_, Promise::Coverage { .. }) => "coverage",
        (_, Promise::MaxError { .. }) => "max_error",
    };
    ApiError::field(param, format!("`{param}`: {error}"))
}

/// Takes the fields for texts that are too long, by default as the calibration has them.
///
/// # Errors
/// 400: the calibration is for another treatment of such texts.
pub(crate) fn truncation(
    model: &Served,
    body: &mut Fields,
    wanted: Option<&Wanted>,
) -> Result<Truncation, ApiError> {
    let Some(wanted) = wanted else { return Ok(truncation::read(body, false)) };
    let found = truncation::read(body, wanted.decider.truncates());
    let checked = match found {
        Truncation::Refuse => wanted.decider.check_texts(false, 0),
        Truncation::TokenizerSide(usize::MAX) => wanted.decider.check_texts(true, prompt::longest(model)),
        // At another side or length.
        _ => wanted.decider.check_texts(!wanted.decider.truncates(), 0),
    };
    match checked {
        Ok(()) => Ok(found),
        Err(error) => Err(ApiError::conflict("truncate", format!("`truncate`: {error}"))),
    }
}

impl Wanted {
    /// Plans the decisions on texts.
    ///
    /// # Errors
    /// 400: a text cannot be encoded, or is too long.
    pub(crate) fn plan(
        self,
        model: &RequestModel,
        call: &Call,
        (paths, texts): (Paths, Vec<TextInput<'static>>),
        (truncation, raw): (Truncation, bool),
    ) -> Result<Decisions, ApiError> {
        let kept = |(i, text): (usize, &TextInput<'_>)| match text {
            TextInput::Text(text) => Some((paths.text(i).to_owned(), text.clone().into_owned())),
            TextInput::Tokens(_) => None,
        };
        let again = match self.fallback {
            Some(_) => texts.iter().enumerate().map(kept).collect(),
            None => Vec::new(),
        };
        let labels = encoding::labels(model).len();
        let bytes = labels.min(MAX_SET) * LABEL_BYTES + labels * size_of::<f32>();
        call.shows(texts.len().saturating_mul(bytes));
        let decider = Arc::clone(&self.decider);
        let planned = encoding::plan(model, call, &paths, |parts| {
            Decide::plan(parts, texts, decider, (truncation, raw))
        })?;
        Ok(Decisions { planned, wanted: self, texts: again, truncation })
    }
}

impl Decisions {
    pub(crate) fn model(&self) -> &RequestModel {
        &self.planned.model
    }

    /// Computes the scores of the labels of each text, and the decision in the form of the answer.
    pub(crate) async fn run(
        self,
        app: Arc<App>,
        call: Call,
    ) -> Result<(Vec<(Vec<f32>, Value)>, Usage), ApiError> {
        let Decisions { planned, wanted, texts, truncation } = self;
        let labels: Arc<[String]> = encoding::labels(&planned.model).to_vec().into();
        let further = call.further();
        let (decided, mut usage) = planned.run(Arc::clone(&app), call).await?;
        let mut shown: Vec<(Vec<f32>, Value)> = decided
            .into_iter()
            .map(|Decided { scores, decision }| {
                let all = decision.labels.iter().take(MAX_SET);
                let all: Vec<Value> =
                    all.map(|(label, score)| json!({ "label": labels.get(*label), "score": score })).collect();
                let answer = decision.answer.name();
                let value =
                    json!({ "answer": answer, "labels": all, "promise": promise_value(wanted.decider.promise()) });
                (scores, value)
            })
            .collect();
        let Some(name) = wanted.fallback else { return Ok((shown, usage)) };
        let abstains = |(i, (_, value)): (usize, &(Vec<f32>, Value))| {
            let abstained = value["answer"] == Answer::Abstain.name();
            texts.get(i).cloned().flatten().filter(|_| abstained).map(|text| (i, text))
        };
        let open: Vec<(usize, (String, String))> = shown.iter().enumerate().filter_map(abstains).collect();
        if open.is_empty() {
            return Ok((shown, usage));
        }
        // The lease of the first model has ended, so that the other one can take its place in memory.
        let (places, texts): (Vec<usize>, Vec<(String, String)>) = open.into_iter().unzip();
        let (answers, more) = other(app, further, (name, &labels), texts, truncation).await?;
        usage.prompt += more.prompt;
        for (i, answer) in places.into_iter().zip(answers) {
            shown[i].1 = answer;
        }
        Ok((shown, usage))
    }
}

/// Answers texts with the best label of another model.
async fn other(
    app: Arc<App>,
    call: Call,
    (name, labels): (String, &[String]),
    texts: Vec<(String, String)>,
    truncation: Truncation,
) -> Result<(Vec<Value>, Usage), ApiError> {
    let body = json!({ "model": name }).to_string();
    let deadline = call.deadline(&app);
    let lease = app.lease(body.as_bytes(), RequiredAbility::Any, deadline).await?;
    let call = call.with_model(RequiredAbility::Any, lease);
    let model = RequestModel::take(&app, &mut Fields::from(json!({ "model": name })))?;
    let sorted = |labels: &[String]| {
        let mut all = labels.to_vec();
        all.sort();
        all
    };
    let own: Arc<[String]> = encoding::labels(&model).to_vec().into();
    if sorted(&own) != sorted(labels) {
        let message = format!("the model for abstained texts, `{name}`, has other labels");
        return Err(ApiError { code: "fallback_labels", ..ApiError::internal(message) });
    }
    let planned = prompt::run_blocking(move || {
        let (paths, texts): (Vec<String>, Vec<String>) = texts.into_iter().unzip();
        let texts = texts.into_iter().map(TextInput::from);
        let planned = encoding::plan(&model, &call, &Paths::new(paths), |parts| {
            Classify::plan(parts, TaskKind::Classify, texts, (truncation, false))
        })?;
        Ok((planned, call))
    });
    let (planned, call) = planned.await?;
    let (all, usage) = planned.run(app, call).await?;
    let answer = |values: &[f32]| {
        let found = best(values).map(|label| json!({ "label": own.get(label), "score": values[label] }));
        let labels: Vec<Value> = found.into_iter().collect();
        json!({ "answer": Answer::Label.name(), "labels": labels, "promise": null, "model": name })
    };
    Ok((all.iter().map(|rows| answer(&rows.values)).collect(), usage))
}

fn promise_value(promise: Promise) -> Value {
    match promise {
        Promise::Coverage { coverage, per_class } => json!({ "coverage": coverage, "per_class": per_class }),
        Promise::MaxError { max_error, confidence } => {
            json!({ "max_error": max_error, "confidence": confidence })
        }
    }
}
