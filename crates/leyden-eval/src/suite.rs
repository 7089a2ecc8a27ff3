//! [`Suite`]: the questions of one task or file, asked of a model in groups that are computed together.

use crate::error::Error;
use crate::item::{Ask, Item, Outcome, Prompt};
use crate::stats::{bootstrap, mcnemar, wilson};
use crate::task::Task;
use crate::{Watch, own, tell};
use leyden::{Batch, BatchOptions, EmbedOptions, GenerateOptions, KvType, Model};
use serde_json::Value;
use std::path::Path;

/// Questions that are asked together; results are kept after each such group.
const TOGETHER: usize = 32;
/// Tokens that texts computed together can hold at least.
const CACHE_TOKENS: usize = 8192;

/// Questions of one kind.
#[derive(Clone, Debug)]
pub struct Suite {
    /// The task, or the file.
    pub name: String,
    /// What is counted of each question.
    pub metrics: Vec<&'static str>,
    /// The questions.
    pub items: Vec<Item>,
}

/// How many items were right.
#[derive(Clone, Debug)]
pub struct Score {
    /// What was counted.
    pub metric: &'static str,
    /// Right ones.
    pub hits: usize,
    /// All.
    pub items: usize,
    /// Their share, with its 95 % interval (Wilson).
    pub value: f64,
    /// The interval.
    pub interval: (f64, f64),
}

/// Two models on the same items.
#[derive(Clone, Copy, Debug)]
pub struct Paired {
    /// Items that the model alone has right, and those that the reference alone has.
    pub only: (usize, usize),
    /// Difference of the shares.
    pub difference: f64,
    /// Its 95 % interval, items drawn again.
    pub interval: (f64, f64),
    /// How probable such a difference is of models that are equally good (McNemar, exact).
    pub p: f64,
}

impl Suite {
    /// A task's questions, from a file of its data as it is published: JSON objects, one a line, or one list of them. Of
    /// `shots` the first of the file of examples stand before each question.
    ///
    /// # Errors
    /// A file cannot be read, or an item lacks something.
    pub fn of_task(
        task: &Task,
        path: &Path,
        examples: Option<&Path>,
        shots: usize,
        limit: Option<usize>,
    ) -> Result<Suite, Error> {
        let mut before = String::new();
        if shots > 0 {
            let name = task.name();
            let Some(examples) = examples else {
                return Err(Error::Usage(format!(
                    "{name}: {shots} examples, from which file? give --shots-data"
                )));
            };
            let values = values(examples, Some(shots))?;
            if values.len() < shots {
                return Err(Error::file(examples, format!("{} examples instead of {shots}", values.len())));
            }
            for (line, value) in values {
                let example =
                    task.example(&value).map_err(|what| Error::file(examples, format!("{line}: {what}")))?;
                before += &example;
            }
        }
        let read = |(number, (line, value)): (usize, (usize, Value))| {
            task.item(number, &value, &before).map_err(|what| Error::file(path, format!("{line}: {what}")))
        };
        let items = values(path, limit)?.into_iter().enumerate().map(read).collect::<Result<_, _>>()?;
        Suite { name: task.name().to_owned(), metrics: task.metrics().to_vec(), items }.checked(path)
    }

    /// The user's own questions.
    ///
    /// # Errors
    /// The file cannot be read, or a line lacks something.
    pub fn of_file(path: &Path, limit: Option<usize>) -> Result<Suite, Error> {
        let read = |(number, (line, value)): (usize, (usize, Value))| {
            own::item(number, &value).map_err(|what| Error::file(path, format!("{line}: {what}")))
        };
        let items = values(path, limit)?.into_iter().enumerate().map(read).collect::<Result<_, _>>()?;
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Suite { name, metrics: vec!["acc"], items }.checked(path)
    }

    fn checked(self, path: &Path) -> Result<Suite, Error> {
        match self.items.is_empty() {
            true => Err(Error::file(path, "no questions in it")),
            false => Ok(self),
        }
    }

    /// Asks those questions whose outcomes are not in `outcomes` yet, which grow in order. After each group `keep` gets
    /// all of them.
    ///
    /// # Errors
    /// The model failed, `keep` did, or `watch` said stop.
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
            // Questions of one kind go together.
            for run in group.chunk_by(|a, b| same_kind(&a.ask, &b.ask)) {
                outcomes.extend(asker.ask(run)?);
            }
            keep(outcomes)?;
            let hits = outcomes.iter().filter(|o| o.hits.first() == Some(&true)).count();
            let share = 100.0 * hits as f64 / outcomes.len() as f64;
            tell(watch, outcomes.len(), self.items.len(), &format!("{} {share:.1} %", self.name))?;
        }
        Ok(())
    }

    /// What the outcomes amount to, by each metric.
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

    /// How a model's outcomes differ from a reference's by each metric.
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

/// The objects of a file with the places where they stand.
fn values(path: &Path, limit: Option<usize>) -> Result<Vec<(usize, Value)>, Error> {
    let text = std::fs::read(path).map_err(|error| Error::file(path, format!("cannot read: {error}")))?;
    if text.starts_with(b"PAR1") {
        return Err(Error::file(
            path,
            "a parquet file; write it as JSON lines: pandas.read_parquet(FILE).to_json(OUT, orient='records', lines=True)",
        ));
    }
    let text = String::from_utf8(text).map_err(|_| Error::file(path, "no text in UTF-8"))?;
    let limit = limit.unwrap_or(usize::MAX);
    let wrong = |line: usize, error: &serde_json::Error| Error::file(path, format!("{line}: {error}"));
    if text.trim_start().starts_with('[') {
        let all: Vec<Value> = serde_json::from_str(&text).map_err(|error| wrong(error.line(), &error))?;
        return Ok(all.into_iter().enumerate().map(|(i, value)| (i + 1, value)).take(limit).collect());
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).take(limit);
    lines
        .map(|(i, line)| Ok((i + 1, serde_json::from_str(line).map_err(|error| wrong(i + 1, &error))?)))
        .collect()
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
    /// With the longest text that it takes.
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

    /// An engine for texts of so many tokens.
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
                // Spaces at the end belong to what follows them.
                let cut = before.trim_end();
                let whole = self.model.tokenize(&format!("{before}{behind}"))?;
                let known = self.model.tokenize(cut)?.len();
                // What is too long loses its beginning.
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

/// The place of the greatest; of equal ones the first.
fn best(values: &[f64]) -> usize {
    let mut at = 0;
    for (i, value) in values.iter().enumerate() {
        if *value > values[at] {
            at = i;
        }
    }
    at
}
