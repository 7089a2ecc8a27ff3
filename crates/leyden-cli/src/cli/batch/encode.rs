//! Tasks of encoders: vectors, labels, entities and relevance, in groups of rows.

use super::args::Task;
use super::setting::{Counts, Setting};
use super::texts::Texts;
use super::windows::{self, Best, Vectors};
use crate::cli::classify::{self, Described};
use crate::cli::embed::Vector;
use crate::cli::encoding::results;
use crate::cli::extract;
use crate::cli::failure::Failure;
use crate::cli::rows::{self, Shown, Sink};
use leyden::{EmbedOptions, Embedder, Error, Label, SpanOptions};
use leyden_batch::{Answer, Groups, Item, Source};
use serde_json::Value;
use std::sync::Arc;

/// Computes all rows.
pub(super) fn run(
    setting: &Setting<'_>,
    (source, sink): (Box<dyn Source + '_>, &mut Sink<'_>),
    task: Task,
    texts: &Texts,
) -> Result<Counts, Failure> {
    let args = setting.args;
    let mut options = EmbedOptions::default().truncate(args.truncate);
    let rows = (source, sink);
    match task {
        Task::Classify => labels(setting, rows, &options, texts),
        Task::Extract => {
            let labels = args.labels.names()?;
            let spans = SpanOptions::default().threshold(args.threshold).nested(args.nested);
            each(setting, rows, &options, texts, |embedder, texts| {
                let found = match &labels[..] {
                    [] => embedder.extract(texts, args.aggregation)?,
                    labels => embedder.extract_labels(texts, labels, spans)?,
                };
                Ok(extract::parts(texts, found, args.aggregation))
            })
        }
        Task::Rerank => rerank(setting, rows, &options, texts),
        _ => {
            options.pooling = args.pooling;
            options.dimensions = args.dimensions;
            options.normalize = !args.no_normalize;
            options.prompt_name.clone_from(&args.prompt_name);
            let Some(length) = args.window else {
                return each(setting, rows, &options, texts, |embedder, texts| {
                    Ok(embedder.embed(texts)?.into_iter().map(Vector).collect())
                });
            };
            each(setting, rows, &options, texts, |embedder, texts| {
                windows::compute(texts, length as usize, |texts| embedder.embed(texts), Vectors::join)
            })
        }
    }
}

/// Computes the best labels of texts: of the model's own, or of those of the options.
fn labels(
    setting: &Setting<'_>,
    rows: (Box<dyn Source + '_>, &mut Sink<'_>),
    options: &EmbedOptions,
    texts: &Texts,
) -> Result<Counts, Failure> {
    let (given, top) = (&setting.args.labels, setting.args.top);
    let described =
        given.are_given().then(|| Described::new(&given.described()?, setting.model)).transpose()?;
    let described = described.as_ref();
    let Some(length) = setting.args.window else {
        return each(setting, rows, options, texts, |embedder, texts| {
            let labels = all_labels(embedder, described, texts)?;
            Ok(labels.into_iter().map(|labels| classify::best(labels, top)).collect())
        });
    };
    each(setting, rows, options, texts, |embedder, texts| {
        let compute = |texts: &[&str]| all_labels(embedder, described, texts);
        windows::compute(texts, length as usize, compute, |windows| Best::join(windows, top))
    })
}

/// Returns all labels of each text with their scores: the described ones, or the model's own.
fn all_labels<'l, 'm: 'l>(
    embedder: &mut Embedder<'m>,
    described: Option<&'l Described>,
    texts: &[&str],
) -> Result<Vec<Vec<Label<'l>>>, Error> {
    match described {
        Some(described) => {
            Ok(embedder.embed(texts)?.iter().map(|vector| described.nearest(vector)).collect())
        }
        None => embedder.classify(texts),
    }
}

/// Embedder that is made anew after a panic, which leaves requests behind.
struct Fresh<'m> {
    setting: &'m Setting<'m>,
    options: EmbedOptions,
    embedder: Option<Embedder<'m>>,
}

impl<'m> Fresh<'m> {
    fn new(setting: &'m Setting<'m>, options: &EmbedOptions) -> Result<Fresh<'m>, Failure> {
        let embedder = setting.model.embedder(options)?;
        Ok(Fresh { setting, options: options.clone(), embedder: Some(embedder) })
    }

    fn compute<T>(&mut self, f: impl FnOnce(&mut Embedder<'m>) -> Result<T, Error>) -> Result<T, Error> {
        let mut embedder = match self.embedder.take() {
            Some(embedder) => embedder,
            None => self.setting.model.embedder(&self.options)?,
        };
        let result = f(&mut embedder);
        self.embedder = Some(embedder);
        result
    }
}

/// Computes the results of texts.
fn each<'m, T: Shown>(
    setting: &'m Setting<'m>,
    (source, sink): (Box<dyn Source + '_>, &mut Sink<'_>),
    options: &EmbedOptions,
    texts: &Texts,
    compute: impl Fn(&mut Embedder<'m>, &[&str]) -> Result<Vec<T>, Error>,
) -> Result<Counts, Failure> {
    let form = sink.form();
    let mut fresh = Fresh::new(setting, options)?;
    let mut groups = Groups::new(|items: &[Arc<Item>]| -> Result<_, Failure> {
        let own: Vec<_> = items.iter().map(|item| texts.of(&item.row)).collect();
        let own = own.iter().map(|text| text.as_deref().map_err(Clone::clone)).collect();
        let found = results(own, &mut |texts: &[&str]| fresh.compute(|embedder| compute(embedder, texts)))?;
        let answer = |(item, result): (&Arc<Item>, Result<T, String>)| Ok(form.answer(&item.row, &result?));
        Ok(items.iter().zip(found).map(answer).collect())
    });
    let error_row = |item: &Item, reason: &str| form.error_row::<T>(&item.row, reason);
    setting.session.go_over(source, sink, &error_row, &mut groups)
}

/// Relevance of the documents of a row.
struct Relevance {
    /// Scores of the documents of a list, in its order.
    of_list: Option<Vec<f32>>,
    score: f32,
}

impl Shown for Relevance {
    const NAMES: &'static [&'static str] = &["score", "results"];

    fn lines(&self) -> String {
        format!("{:.6}\n", self.score)
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let Some(scores) = &self.of_list else { return vec![("score", rows::number(self.score))] };
        let mut order: Vec<usize> = (0..scores.len()).collect();
        // Documents with equal scores stay in order.
        order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
        let one = |i: &usize| format!("{{\"index\":{i},\"score\":{}}}", rows::number(scores[*i]));
        vec![("results", format!("[{}]", order.iter().map(one).collect::<Vec<_>>().join(",")))]
    }
}

/// Computes the relevance of documents: of the list `documents`, or of the row's text.
fn rerank(
    setting: &Setting<'_>,
    (source, sink): (Box<dyn Source + '_>, &mut Sink<'_>),
    options: &EmbedOptions,
    texts: &Texts,
) -> Result<Counts, Failure> {
    let form = sink.form();
    let mut fresh = Fresh::new(setting, options)?;
    let mut one = |item: &Item| -> Result<Result<Answer, String>, Failure> {
        let (query, documents, is_list) = match pair(setting, item, texts) {
            Ok(found) => found,
            Err(reason) => return Ok(Err(reason)),
        };
        match fresh.compute(|embedder| embedder.rerank(&query, &documents)) {
            Ok(scores) => {
                let score = scores.first().copied().unwrap_or_default();
                let relevance = Relevance { of_list: is_list.then_some(scores), score };
                Ok(Ok(form.answer(&item.row, &relevance)))
            }
            Err(
                error @ (Error::Task { .. } | Error::EmptyPrompt | Error::NotFinite { .. } | Error::Text(_)),
            ) => Ok(Err(error.to_string())),
            Err(error) => Err(error.into()),
        }
    };
    let mut groups = Groups::new(|items: &[Arc<Item>]| -> Result<_, Failure> {
        items.iter().map(|item| one(item)).collect()
    });
    let error_row = |item: &Item, reason: &str| form.error_row::<Relevance>(&item.row, reason);
    setting.session.go_over(source, sink, &error_row, &mut groups)
}

/// Returns query and documents of a row, and whether the documents are a list.
fn pair(setting: &Setting<'_>, item: &Item, texts: &Texts) -> Result<(String, Vec<String>, bool), String> {
    let fields = &item.row.fields;
    let query = match fields.get("query").or(fields.get("question")) {
        Some(Value::String(query)) => query.clone(),
        Some(_) => return Err("field `query`: not a text".to_owned()),
        None => setting.args.query.clone().ok_or("field `query`: missing, and there is no --query")?,
    };
    let list: Option<Vec<Value>> = match fields.get("documents") {
        Some(Value::Array(list)) => Some(list.clone()),
        Some(Value::String(text)) => Some(
            serde_json::from_str(text)
                .map_err(|error| format!("field `documents`: not a JSON list: {error}"))?,
        ),
        Some(_) => return Err("field `documents`: not a list".to_owned()),
        None => None,
    };
    let Some(list) = list else {
        return Ok((query, vec![texts.of(&item.row)?.into_owned()], false));
    };
    let text = |document: &Value| {
        let text = document.as_str().or(document["text"].as_str());
        text.map(str::to_owned).ok_or_else(|| "field `documents`: an element is not a text".to_owned())
    };
    Ok((query, list.iter().map(text).collect::<Result<_, _>>()?, true))
}
