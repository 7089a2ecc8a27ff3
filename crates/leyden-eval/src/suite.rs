//! [`Suite`]: the questions of one task or file, asked in batches.

use crate::error::Error;
use crate::item::{Ask, Item, Outcome, Prompt};
use crate::stats::{bootstrap, mcnemar, wilson};
use crate::task::Task;
use crate::{Watch, own, report_progress};
use leyden::{Batch, BatchOptions, EmbedOptions, GenerateOptions, KvType, Model};
use leyden_rows::{Format, Reader, Row};
use serde_json::{Map, Value};
use std::path::Path;

/// Number of questions in a batch; results are saved after each batch.
const TOGETHER: usize = 32;
/// Minimum number of tokens in the cache of a batch.
const CACHE_TOKENS: usize = 8192;

/// Questions of one task or file.
#[derive(Clone, Debug)]
pub struct Suite {
    /// Name of the task, or of the file.
    pub name: String,
    /// Metrics by which each question is scored.
    pub metrics: Vec<&'static str>,
    /// Questions.
    pub items: Vec<Item>,
    /// Fields of each question's row, as in the file.
    pub rows: Vec<Map<String, Value>>,
    /// Rows that cannot be parsed as questions.
    pub bad: Vec<BadRow>,
}

/// A row that cannot be parsed as a question.
#[derive(Clone, Debug)]
pub struct BadRow {
    /// Fields of the row.
    pub row: Map<String, Value>,
    /// File, position and reason.
    pub reason: String,
}

/// Options for reading a file of questions.
#[derive(Clone, Debug, Default)]
pub struct Source<'a> {
    /// Format, if the extension of the file's name does not give it.
    pub format: Option<Format>,
    /// Column of the text or prompt, if it is neither `text` nor `prompt`.
    pub column: Option<&'a str>,
    /// Column of the right label, if it is not `label`.
    pub label: Option<&'a str>,
    /// Maximum number of rows to read.
    pub limit: Option<usize>,
}

/// Share of right answers by one metric.
#[derive(Clone, Debug)]
pub struct Score {
    /// Name of the metric.
    pub metric: &'static str,
    /// Number of right answers.
    pub hits: usize,
    /// Number of questions.
    pub items: usize,
    /// Share of right answers.
    pub value: f64,
    /// 95 % interval of the share (Wilson).
    pub interval: (f64, f64),
}

/// Comparison of two models on the same questions.
#[derive(Clone, Copy, Debug)]
pub struct Paired {
    /// Numbers of questions that only the model, and only the reference, answered right.
    pub only: (usize, usize),
    /// Difference of the shares.
    pub difference: f64,
    /// 95 % interval of the difference, from a bootstrap over questions.
    pub interval: (f64, f64),
    /// p-value of such a difference between equally good models (McNemar, exact).
    pub p: f64,
}

impl Suite {
    /// Reads a task's questions from a file of its published data. The first `shots` rows of the examples' file
    /// precede each question.
    ///
    /// # Errors
    /// A file cannot be read, has no question, or an example lacks a field.
    pub fn of_task(
        task: &Task,
        path: &Path,
        examples: Option<&Path>,
        shots: usize,
        source: &Source<'_>,
    ) -> Result<Suite, Error> {
        let mut before = String::new();
        if shots > 0 {
            let name = task.name();
            let Some(examples) = examples else {
                return Err(Error::Usage(format!(
                    "{name}: {shots} examples, from which file? give --shots-data"
                )));
            };
            let source = Source { limit: Some(shots), ..Source::default() };
            let mut found = 0;
            each_row(examples, &source, |_, value, row| {
                let wrong = |what| Error::file(examples, format!("{}: {what}", row.place));
                before += &value.and_then(|value| task.example(&value)).map_err(wrong)?;
                found += 1;
                Ok(())
            })?;
            if found < shots {
                return Err(Error::file(examples, format!("{found} examples instead of {shots}")));
            }
        }
        Suite::read(task.name(), task.metrics(), path, source, |number, value| {
            task.item(number, value, &before)
        })
    }

    /// Reads the user's own questions.
    ///
    /// # Errors
    /// The file cannot be read, or has no question.
    pub fn of_file(path: &Path, source: &Source<'_>) -> Result<Suite, Error> {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let table = is_table(path, source);
        Suite::read(&name, &["acc"], path, source, |number, value| own::item(number, value, table))
    }

    fn read(
        name: &str,
        metrics: &[&'static str],
        path: &Path,
        source: &Source<'_>,
        item: impl Fn(usize, &Value) -> Result<Item, String>,
    ) -> Result<Suite, Error> {
        let mut suite = Suite {
            name: name.to_owned(),
            metrics: metrics.to_vec(),
            items: Vec::new(),
            rows: Vec::new(),
            bad: Vec::new(),
        };
        each_row(path, source, |number, value, row| {
            match value.and_then(|value| item(number, &value)) {
                Ok(item) => {
                    suite.items.push(item);
                    suite.rows.push(row.fields);
                }
                Err(what) => {
                    let reason = format!("{}: {}: {what}", path.display(), row.place);
                    suite.bad.push(BadRow { row: row.fields, reason });
                }
            }
            Ok(())
        })?;
        match (suite.items.is_empty(), suite.bad.first()) {
            (true, Some(bad)) => Err(Error::Rows(bad.reason.clone())),
            (true, None) => Err(Error::file(path, "no questions in it")),
            (false, _) => Ok(suite),
        }
    }

    /// Asks the questions whose outcomes are not in `outcomes` yet, and appends theirs in order. After each batch
    /// `keep` gets all outcomes.
    ///
    /// # Errors
    /// The model or `keep` failed, or `watch` asked to stop.
    pub fn run(
        &self,
        model: &Model,
        kv_type: KvType,
        outcomes: &mut Vec<Outcome>,
        keep: &mut dyn FnMut(&[Outcome]) -> Result<(), Error>,
        watch: &mut Watch<'_>,
    ) -> Result<(), Error> {
        let kept = outcomes.iter().zip(&self.items);
        if outcomes.len() > self.items.len() || kept.clone().any(|(outcome, item)| outcome.id != item.id) {
            return Err(Error::Usage(format!("{}: the kept outcomes are of other questions", self.name)));
        }
        let mut asker = Asker { model, kv_type, batch: None };
        let left = self.items.get(outcomes.len()..).unwrap_or_default();
        for group in left.chunks(TOGETHER) {
            // Questions of one kind are computed together.
            for run in group.chunk_by(|a, b| same_kind(&a.ask, &b.ask)) {
                outcomes.extend(asker.ask(run)?);
            }
            keep(outcomes)?;
            let hits = outcomes.iter().filter(|o| o.hits.first() == Some(&true)).count();
            let share = 100.0 * hits as f64 / outcomes.len() as f64;
            report_progress(watch, outcomes.len(), self.items.len(), &format!("{} {share:.1} %", self.name))?;
        }
        Ok(())
    }

    /// Computes the score of the outcomes by each metric.
    #[must_use]
    pub fn scores(&self, outcomes: &[Outcome]) -> Vec<Score> {
        let score = |(i, metric): (usize, &&'static str)| {
            let hits = outcomes.iter().filter(|o| o.hits.get(i) == Some(&true)).count();
            let items = outcomes.len();
            Score {
                metric,
                hits,
                items,
                value: hits as f64 / items.max(1) as f64,
                interval: wilson(hits, items),
            }
        };
        self.metrics.iter().enumerate().map(score).collect()
    }

    /// Compares a model's outcomes with a reference's by each metric.
    #[must_use]
    pub fn paired(&self, outcomes: &[Outcome], reference: &[Outcome], seed: u64) -> Vec<Paired> {
        let of = |i: usize| {
            let hit = |o: &Outcome| o.hits.get(i) == Some(&true);
            let pairs: Vec<(bool, bool)> =
                outcomes.iter().zip(reference).map(|(a, b)| (hit(a), hit(b))).collect();
            let only = |first: bool| pairs.iter().filter(|(a, b)| a != b && *a == first).count();
            let only = (only(true), only(false));
            let differences: Vec<f64> = pairs.iter().map(|(a, b)| f64::from(*a) - f64::from(*b)).collect();
            Paired {
                only,
                difference: differences.iter().sum::<f64>() / differences.len().max(1) as f64,
                interval: bootstrap(&differences, seed),
                p: mcnemar(only.0, only.1),
            }
        };
        (0..self.metrics.len()).map(of).collect()
    }
}

/// Returns true for a format whose cells are texts.
fn is_table(path: &Path, source: &Source<'_>) -> bool {
    let format = source.format.or_else(|| Format::of_path(path).ok());
    matches!(format, Some(Format::Csv | Format::Tsv | Format::Parquet))
}

/// Calls a function for each row of a file: its number from 0, its fields as an object or the error, and the row.
fn each_row(
    path: &Path,
    source: &Source<'_>,
    mut f: impl FnMut(usize, Result<Value, String>, Row) -> Result<(), Error>,
) -> Result<(), Error> {
    let table = is_table(path, source);
    let mut reader = Reader::open(path, source.format)?;
    for number in 0..source.limit.unwrap_or(usize::MAX) {
        let Some(row) = reader.next()? else { break };
        let value = match &row.problem {
            Some(problem) => Err(problem.clone()),
            None => Ok(fields(&row, table, source)),
        };
        f(number, value, row)?;
    }
    Ok(())
}

/// Columns of tables that may contain a list or object as JSON.
const STRUCTURED: &[&str] = &["choices", "exact", "contains", "stop", "messages", "json", "endings"];

/// Returns the fields of a row as an object. In a table, empty cells are left out and cells with lists or objects are
/// parsed. The column of the source becomes `text` if there is a label, and else `prompt`; that of its label becomes
/// `label`.
fn fields(row: &Row, table: bool, source: &Source<'_>) -> Value {
    let mut object = Map::new();
    for (name, value) in &row.fields {
        let value = match value {
            Value::Null if table => continue,
            Value::String(text) if table && text.is_empty() => continue,
            Value::String(text)
                if table && STRUCTURED.contains(&&name[..]) && text.starts_with(['[', '{']) =>
            {
                serde_json::from_str(text).unwrap_or_else(|_| value.clone())
            }
            value => value.clone(),
        };
        object.insert(name.clone(), value);
    }
    if let Some(value) = source.label.and_then(|label| object.remove(label)) {
        object.insert("label".to_owned(), value);
    }
    if let Some(value) = source.column.and_then(|column| object.remove(column)) {
        let name = if object.contains_key("label") { "text" } else { "prompt" };
        object.insert(name.to_owned(), value);
    }
    Value::Object(object)
}

fn same_kind(a: &Ask, b: &Ask) -> bool {
    match (a, b) {
        (Ask::Choices { .. }, Ask::Choices { .. }) | (Ask::Label { .. }, Ask::Label { .. }) => true,
        (Ask::Answer { stop: s, max_tokens: m, .. }, Ask::Answer { stop: t, max_tokens: n, .. }) => {
            (s, m) == (t, n)
        }
        _ => false,
    }
}

/// Asks questions of a model.
struct Asker<'m> {
    model: &'m Model,
    kv_type: KvType,
    /// Batch, and the length of the longest text that it accepts.
    batch: Option<(Batch, usize)>,
}

impl Asker<'_> {
    fn ask(&mut self, items: &[Item]) -> Result<Vec<Outcome>, Error> {
        match items.first().map(|item| &item.ask) {
            Some(Ask::Choices { .. }) => self.choices(items),
            Some(Ask::Answer { stop, max_tokens, .. }) => self.answers(items, stop, *max_tokens),
            Some(Ask::Label { .. }) => self.labels(items),
            None => Ok(Vec::new()),
        }
    }

    /// Returns a batch for texts of this many tokens.
    fn batch(&mut self, longest: usize) -> Result<&mut Batch, Error> {
        let most = self.model.config().context;
        let context = longest.min(most).next_multiple_of(512).min(most);
        if self.batch.as_ref().is_some_and(|(_, room)| *room < context) {
            self.batch = None;
        }
        let made = match self.batch.take() {
            Some(made) => made,
            None => {
                let options = BatchOptions::new()
                    .context(context)
                    .cache_tokens(CACHE_TOKENS.max(context.next_multiple_of(64)))
                    .kv_type(self.kv_type);
                (self.model.batch(&options)?, context)
            }
        };
        Ok(&mut self.batch.insert(made).0)
    }

    fn choices(&mut self, items: &[Item]) -> Result<Vec<Outcome>, Error> {
        let context = self.model.config().context;
        let mut texts: Vec<(Vec<u32>, usize)> = Vec::new();
        for item in items {
            let Ask::Choices { pairs, .. } = &item.ask else { continue };
            for (before, behind) in pairs {
                // Spaces at the end belong to the continuation.
                let cut = before.trim_end();
                let whole = self.model.tokenize(&format!("{before}{behind}"))?;
                // A choice without a blank before it may change the last token of the context, which then counts as
                // part of the choice.
                let context_ids = self.model.tokenize(cut)?;
                let known = context_ids.iter().zip(&whole).take_while(|(a, b)| a == b).count();
                // Texts that are too long lose their beginning.
                let lost = whole.len().saturating_sub(context);
                if known <= lost || known >= whole.len() {
                    let id = &item.id;
                    return Err(Error::Usage(format!(
                        "{id}: a choice is empty, or longer than the context of {context}"
                    )));
                }
                texts.push((whole[lost..].to_vec(), known - lost - 1));
            }
        }
        let longest = texts.iter().map(|(text, _)| text.len()).max().unwrap_or(1);
        let scores = self.batch(longest)?.score_each(&texts)?;
        let mut sums = scores.iter().map(|all| all.iter().map(|s| f64::from(s.logprob)).sum::<f64>());
        let mut outcomes = Vec::new();
        for item in items {
            let Ask::Choices { pairs, characters, gold } = &item.ask else { continue };
            let logprobs: Vec<f64> = sums.by_ref().take(pairs.len()).collect();
            let normalised: Vec<f64> =
                logprobs.iter().zip(characters).map(|(sum, n)| sum / (*n).max(1) as f64).collect();
            let hits = vec![best(&logprobs) == *gold, best(&normalised) == *gold];
            let logprobs = // An impossible choice has no finite one, which JSON could not keep.
            logprobs.into_iter().map(|sum| sum.max(f64::from(f32::MIN)) as f32).collect();
            outcomes.push(Outcome { id: item.id.clone(), hits, logprobs, answer: None });
        }
        Ok(outcomes)
    }

    fn answers(&mut self, items: &[Item], stop: &[String], max_tokens: usize) -> Result<Vec<Outcome>, Error> {
        let mut prompts = Vec::new();
        for item in items {
            let Ask::Answer { prompt, .. } = &item.ask else { continue };
            prompts.push(match prompt {
                Prompt::Text(text) => self.model.tokenize(text)?,
                Prompt::Chat(messages) => self.model.tokenize_chat(messages)?,
            });
        }
        let longest = prompts.iter().map(Vec::len).max().unwrap_or(1);
        let mut options = GenerateOptions::new().max_tokens(max_tokens).temperature(0.0);
        options.stop = stop.to_vec();
        let answers = self.batch(longest.saturating_add(max_tokens))?.generate(&prompts, &options)?;
        let outcome = |(item, answer): (&Item, leyden::Generation)| {
            let hits = match &item.ask {
                Ask::Answer { check, .. } => check.hits(&answer.text),
                _ => Vec::new(),
            };
            Outcome { id: item.id.clone(), hits, logprobs: Vec::new(), answer: Some(answer.text) }
        };
        Ok(items.iter().zip(answers).map(outcome).collect())
    }

    fn labels(&mut self, items: &[Item]) -> Result<Vec<Outcome>, Error> {
        let texts = items.iter().filter_map(|item| match &item.ask {
            Ask::Label { text, .. } => Some(text),
            _ => None,
        });
        let texts: Vec<&String> = texts.collect();
        let mut embedder = self.model.embedder(&EmbedOptions::default().truncate(true))?;
        let labels = embedder.classify(&texts)?;
        let outcome = |(item, labels): (&Item, Vec<leyden::Label<'_>>)| {
            let best = labels.first().map(|label| label.label.to_owned());
            let right = matches!(&item.ask, Ask::Label { label, .. } if Some(label) == best.as_ref());
            Outcome { id: item.id.clone(), hits: vec![right], logprobs: Vec::new(), answer: best }
        };
        Ok(items.iter().zip(labels).map(outcome).collect())
    }
}

/// Returns the index of the largest value; the first of equal ones.
fn best(values: &[f64]) -> usize {
    let mut at = 0;
    for (i, value) in values.iter().enumerate() {
        if *value > values[at] {
            at = i;
        }
    }
    at
}
