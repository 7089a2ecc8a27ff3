//! [`Windows`] of a text, and measurements over them.
//!
//! A text is cut as in llama-perplexity: into windows of equal length, in each of which the tokens of the second half
//! are predicted from all tokens before them. The first token of each window is replaced by the BOS token if the
//! model has one. An incomplete last window is left out.

use crate::compare::{Row, encode, row_len};
use crate::error::Error;
use crate::logits_file::{Header, LogitsFile, LogitsWriter};
use crate::stats::{bootstrap_of_groups, mean_and_error};
use crate::{Watch, report_progress};
use leyden::{Batch, BatchOptions, KvType, LogitsReader, Model};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of windows in a batch.
const TOGETHER: usize = 8;
/// Maximum bytes of the log probabilities that are kept for a batch.
const TOGETHER_BYTES: usize = 256 << 20;

/// A text cut into windows.
#[derive(Clone, Debug)]
pub struct Windows {
    header: Header,
}

/// Options of the computation.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Run {
    /// Storage type of keys and values.
    pub kv_type: KvType,
    /// Seed of the intervals.
    pub seed: u64,
}

impl Run {
    /// Returns options with these values.
    #[must_use]
    pub fn new(kv_type: KvType, seed: u64) -> Run {
        Run { kv_type, seed }
    }
}

impl Windows {
    /// Cuts a text into at most `limit` windows.
    ///
    /// # Errors
    /// A window has fewer than 4 tokens, or the text is shorter than one window.
    pub fn of_text(
        model: &Model,
        text: &str,
        context: usize,
        limit: Option<usize>,
    ) -> Result<Windows, Error> {
        if context < 4 {
            return Err(Error::Usage(format!("--ctx {context}: a window has at least 4 tokens")));
        }
        let tokens = model.tokenize(text)?;
        let all = tokens.chunks_exact(context).map(<[u32]>::to_vec);
        let windows: Vec<_> = all.take(limit.unwrap_or(usize::MAX)).collect();
        if windows.is_empty() {
            let tokens = tokens.len();
            return Err(Error::Usage(format!("{tokens} tokens do not fill a window of {context}")));
        }
        Ok(Windows { header: Header { context, vocabulary: vocabulary(model), windows } })
    }

    /// Returns the windows of a file of log probabilities, at most `limit`.
    ///
    /// # Errors
    /// The model has another vocabulary.
    pub fn of_file(model: &Model, file: &LogitsFile, limit: Option<usize>) -> Result<Windows, Error> {
        let mut header = file.header().clone();
        let own = vocabulary(model);
        if header.vocabulary != own {
            let what = format!("a vocabulary of {}, the model has {own}", header.vocabulary);
            return Err(Error::file(file.path(), what));
        }
        header.windows.truncate(limit.unwrap_or(usize::MAX));
        Ok(Windows { header })
    }

    /// Returns the number of tokens per window.
    #[must_use]
    pub fn context(&self) -> usize {
        self.header.context
    }

    /// Returns the number of windows.
    #[must_use]
    pub fn count(&self) -> usize {
        self.header.windows.len()
    }

    /// Returns the number of windows in a batch.
    pub(crate) fn together(&self) -> usize {
        let bytes = 2 * self.header.rows() * row_len(self.header.vocabulary);
        (TOGETHER_BYTES / bytes.max(1)).clamp(1, TOGETHER)
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    pub(crate) fn batch(&self, model: &Model, run: &Run) -> Result<Batch, Error> {
        let context = self.header.context;
        let options = BatchOptions::new()
            .context(context)
            .cache_tokens(self.together() * context.next_multiple_of(64))
            .kv_type(run.kv_type);
        Ok(model.batch(&options)?)
    }

    /// Returns a window's tokens as model input.
    pub(crate) fn read(&self, begin: Option<u32>, i: usize) -> Vec<u32> {
        let mut window = self.header.windows[i].clone();
        if let Some(begin) = begin {
            window[0] = begin;
        }
        window
    }
}

/// Returns the model's BOS token, if it has one.
pub(crate) fn begin(model: &Model) -> Result<Option<u32>, Error> {
    Ok(model.tokenize("")?.first().copied())
}

/// Source of the reference's log probabilities.
#[derive(Debug)]
pub enum Reference<'a> {
    /// A model, run on the same windows.
    Model(&'a Model),
    /// A file; the windows must be its own.
    File(&'a mut LogitsFile),
}

/// The reference's rows, window by window.
pub(crate) struct Rows<'r, 'a> {
    source: &'r mut Reference<'a>,
    batch: Option<(Batch, Option<u32>)>,
}

impl<'r, 'a> Rows<'r, 'a> {
    pub(crate) fn new(source: &'r mut Reference<'a>, windows: &Windows, run: &Run) -> Result<Self, Error> {
        let batch = match source {
            Reference::Model(model) if vocabulary(model) != windows.header.vocabulary => {
                let (a, b) = (vocabulary(model), windows.header.vocabulary);
                return Err(Error::Usage(format!(
                    "the reference has a vocabulary of {a}, the model one of {b}"
                )));
            }
            Reference::Model(model) => Some((windows.batch(model, run)?, begin(model)?)),
            Reference::File(_) => None,
        };
        Ok(Rows { source, batch })
    }

    /// Returns the rows of the next windows.
    pub(crate) fn of(&mut self, windows: &Windows, group: &[usize]) -> Result<Vec<Vec<u16>>, Error> {
        match (&mut self.source, &mut self.batch) {
            (Reference::File(file), _) => group.iter().map(|_| file.next_window()).collect(),
            (Reference::Model(model), Some((batch, begin))) => encoded(model, batch, windows, *begin, group),
            (Reference::Model(_), None) => Ok(Vec::new()),
        }
    }
}

/// Computes the log probabilities of windows in the reference's format.
fn encoded(
    model: &Model,
    batch: &mut Batch,
    windows: &Windows,
    begin: Option<u32>,
    group: &[usize],
) -> Result<Vec<Vec<u16>>, Error> {
    let header = windows.header();
    let (rows, first, length) = (header.rows(), header.context / 2, row_len(header.vocabulary));
    let made: Arc<Vec<Mutex<Vec<u16>>>> =
        Arc::new((0..group.len() * rows).map(|_| Mutex::new(vec![0; length])).collect());
    let texts: Vec<Vec<u32>> = group.iter().map(|i| windows.read(begin, *i)).collect();
    let places = Arc::clone(&made);
    let read = move |text: usize, position: usize, logits: &[f32]| {
        // The window's last token has no next token.
        if position < first + rows {
            let place = &places[text * rows + position - first];
            encode(logits, &mut place.lock().unwrap_or_else(PoisonError::into_inner));
        }
    };
    let read: Arc<LogitsReader> = Arc::new(read);
    batch.read_logits(&texts, first, &read)?;
    let row =
        |place: &Mutex<Vec<u16>>| std::mem::take(&mut *place.lock().unwrap_or_else(PoisonError::into_inner));
    let all: Vec<Vec<u16>> = made.chunks(rows).map(|window| window.iter().flat_map(row).collect()).collect();
    for row in all.iter().flat_map(|window| window.chunks(length)) {
        if Row::new(row, header.vocabulary).is_none() {
            return Err(Error::not_finite(model));
        }
    }
    Ok(all)
}

/// Perplexity of a model on a text.
#[derive(Clone, Debug)]
pub struct Perplexity {
    /// Number of predicted tokens.
    pub tokens: usize,
    /// The exponential of the mean negative log likelihood.
    pub value: f64,
    /// Standard error, with tokens taken as independent.
    pub error: f64,
    /// 95 % interval, from a bootstrap over windows.
    pub interval: (f64, f64),
    /// Sum of the negative log likelihoods of each window, and the number of its predicted tokens.
    pub by_window: Vec<(f64, usize)>,
}

/// Measures the perplexity of a model.
///
/// # Errors
/// The model failed, or `watch` asked to stop.
pub fn perplexity(
    model: &Model,
    windows: &Windows,
    run: &Run,
    watch: &mut Watch<'_>,
) -> Result<Perplexity, Error> {
    let begin = begin(model)?;
    let mut batch = windows.batch(model, run)?;
    let (mut tokens, mut sum, mut squares) = (0, 0.0, 0.0);
    let mut groups = Vec::new();
    let count = windows.count();
    let all: Vec<usize> = (0..count).collect();
    for group in all.chunks(windows.together()) {
        let texts: Vec<Vec<u32>> = group.iter().map(|i| windows.read(begin, *i)).collect();
        for scores in batch.score_from(&texts, windows.context() / 2, 0)? {
            let losses = scores.iter().map(|score| -f64::from(score.logprob));
            groups.push((losses.clone().sum(), scores.len()));
            tokens += scores.len();
            sum += losses.clone().sum::<f64>();
            squares += losses.map(|x| x * x).sum::<f64>();
        }
        report_progress(
            watch,
            groups.len(),
            count,
            &format!("perplexity {:.2}", (sum / tokens.max(1) as f64).exp()),
        )?;
    }
    let (mean, error) = mean_and_error(sum, squares, tokens);
    let (low, high) = bootstrap_of_groups(&groups, run.seed);
    let (value, interval) = (mean.exp(), (low.exp(), high.exp()));
    Ok(Perplexity { tokens, value, error: value * error, interval, by_window: groups })
}

/// Writes a model's log probabilities to a file, for later comparisons.
///
/// # Errors
/// The model failed, the file cannot be written, or `watch` asked to stop.
pub fn save_logits(
    model: &Model,
    windows: &Windows,
    run: &Run,
    path: &Path,
    watch: &mut Watch<'_>,
) -> Result<(), Error> {
    let mut writer = LogitsWriter::create(path, windows.header())?;
    let mut reference = Reference::Model(model);
    let mut rows = Rows::new(&mut reference, windows, run)?;
    let all: Vec<usize> = (0..windows.count()).collect();
    let mut done = 0;
    for group in all.chunks(windows.together()) {
        for window in rows.of(windows, group)? {
            writer.window(&window)?;
        }
        done += group.len();
        report_progress(watch, done, windows.count(), "log probabilities")?;
    }
    writer.finish()
}

/// Returns the number of tokens in a model's vocabulary, which is that of its logits.
fn vocabulary(model: &Model) -> usize {
    model.network().vocabulary()
}
