//! Divergence of a model's predictions from a reference's.

use crate::compare::{Compared, Row, compare, row_len};
use crate::error::Error;
use crate::stats::{bootstrap_of_groups, mean_and_error, percentile};
use crate::windows::{Reference, Rows, Run, Windows, begin};
use crate::{Watch, report_progress};
use leyden::{LogitsReader, Model};
use std::sync::{Arc, Mutex, PoisonError};

/// A figure with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Value.
    pub value: f64,
    /// Standard error with tokens taken as independent, as in llama-perplexity.
    pub error: f64,
    /// 95 % interval, from a bootstrap over windows.
    pub interval: (f64, f64),
}

/// Result of a comparison with a reference. Formulas and names are llama-perplexity's.
#[derive(Clone, Debug)]
pub struct Divergence {
    /// Number of predicted tokens.
    pub tokens: usize,
    /// Number of windows.
    pub windows: usize,
    /// Perplexity of the model.
    pub perplexity: Estimate,
    /// Perplexity of the reference.
    pub perplexity_reference: Estimate,
    /// Perplexity of the model divided by that of the reference.
    pub perplexity_ratio: Estimate,
    /// Mean KL divergence.
    pub kld: Estimate,
    /// Percentiles of the KL divergence: share of tokens, and the value that they do not exceed.
    pub kld_percentiles: Vec<(f64, f64)>,
    /// Percentiles of the difference of the next token's probability.
    pub p_diff_percentiles: Vec<(f64, f64)>,
    /// Mean difference of the next token's probability.
    pub p_diff: Estimate,
    /// Root mean square of these differences.
    pub p_diff_rms: Estimate,
    /// Share of positions at which both have the same most probable token.
    pub same_top: Estimate,
    /// Figures of each window.
    pub by_window: Vec<WindowMeans>,
}

/// Means over the predicted tokens of one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowMeans {
    /// Number of predicted tokens.
    pub tokens: usize,
    /// Negative log likelihood under the model.
    pub nll: f64,
    /// Negative log likelihood under the reference.
    pub nll_reference: f64,
    /// KL divergence from the reference.
    pub kld: f64,
    /// Share of positions at which both have the same most probable token.
    pub same_top: f64,
}

/// Shares for which percentiles are reported; 0 and 1 are the extremes.
const SHARES: [f64; 11] = [0.0, 0.001, 0.01, 0.05, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0];

/// Compares a model with a reference on windows. If the reference is a file, `windows` are its own
/// ([`Windows::of_file`]).
///
/// # Errors
/// A model failed, a file cannot be read, the vocabularies differ, or `watch` asked to stop.
pub fn divergence(
    model: &Model,
    windows: &Windows,
    reference: &mut Reference<'_>,
    run: &Run,
    watch: &mut Watch<'_>,
) -> Result<Divergence, Error> {
    let begin = begin(model)?;
    let header = windows.header();
    let (rows, first, length) = (header.rows(), header.context / 2, row_len(header.vocabulary));
    let mut base = Rows::new(reference, windows, run)?;
    let mut batch = windows.batch(model, run)?;
    let mut all: Vec<Compared> = Vec::with_capacity(rows * windows.count());
    let numbers: Vec<usize> = (0..windows.count()).collect();
    for group in numbers.chunks(windows.together()) {
        let base = base.of(windows, group)?;
        let wrong = || Error::Usage("the reference has rows that are not log probabilities".to_owned());
        let texts: Arc<Vec<Vec<u32>>> = Arc::new(group.iter().map(|i| windows.read(begin, *i)).collect());
        let made: Arc<Vec<Mutex<Option<Compared>>>> =
            Arc::new((0..group.len() * rows).map(|_| Mutex::new(None)).collect());
        let (places, of, vocabulary) = (Arc::clone(&made), Arc::clone(&texts), header.vocabulary);
        let read = move |text: usize, position: usize, logits: &[f32]| {
            let row = position - first;
            // The window's last token has no next token.
            if let Some(token) = of[text].get(position + 1).filter(|_| row < rows)
                && let Some(base) = Row::new(&base[text][row * length..][..length], vocabulary)
            {
                let compared = compare(logits, &base, *token as usize);
                *places[text * rows + row].lock().unwrap_or_else(PoisonError::into_inner) = Some(compared);
            }
        };
        let read: Arc<LogitsReader> = Arc::new(read);
        batch.read_logits(&texts, first, &read)?;
        for place in made.iter() {
            let compared = place.lock().unwrap_or_else(PoisonError::into_inner).ok_or_else(wrong)?;
            if !compared.kld.is_finite() || !compared.nll.is_finite() {
                return Err(Error::not_finite(model));
            }
            all.push(compared);
        }
        let mean = all.iter().map(|c| c.kld).sum::<f64>() / all.len() as f64;
        report_progress(watch, all.len() / rows, windows.count(), &format!("KLD {mean:.5}"))?;
    }
    Ok(summary(&all, rows, run.seed))
}

/// Summarises the comparisons of all tokens; `rows` of them are a window.
fn summary(all: &[Compared], rows: usize, seed: u64) -> Divergence {
    let estimate = |value: &dyn Fn(&Compared) -> f64| {
        let (mut sum, mut squares) = (0.0, 0.0);
        for x in all.iter().map(value) {
            (sum, squares) = (sum + x, squares + x * x);
        }
        let (value_, error) = mean_and_error(sum, squares, all.len());
        let groups: Vec<(f64, usize)> =
            all.chunks(rows).map(|window| (window.iter().map(value).sum(), window.len())).collect();
        Estimate { value: value_, error, interval: bootstrap_of_groups(&groups, seed) }
    };
    // The error of a function of a mean is its derivative times the error of the mean.
    let exp = |e: Estimate| {
        let value = e.value.exp();
        Estimate { value, error: value * e.error, interval: (e.interval.0.exp(), e.interval.1.exp()) }
    };
    let root = |e: Estimate| {
        let value = e.value.sqrt();
        let error = if value > 0.0 { 0.5 / value * e.error } else { 0.0 };
        Estimate { value, error, interval: (e.interval.0.sqrt(), e.interval.1.sqrt()) }
    };
    let percentiles = |value: &dyn Fn(&Compared) -> f64| {
        let mut sorted: Vec<f64> = all.iter().map(value).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        SHARES.map(|share| (share, percentile(&sorted, share))).to_vec()
    };
    let (nll, base) = (|c: &Compared| f64::from(c.nll), |c: &Compared| f64::from(c.nll_reference));
    let p_diff = |c: &Compared| f64::from(c.p_diff);
    let mut same_top = estimate(&|c| f64::from(u8::from(c.same_top)));
    let p = same_top.value;
    same_top.error = (p * (1.0 - p) / (all.len() as f64 - 1.0).max(1.0)).sqrt();
    let means = |window: &[Compared]| {
        let mean =
            |value: &dyn Fn(&Compared) -> f64| window.iter().map(value).sum::<f64>() / window.len() as f64;
        WindowMeans {
            tokens: window.len(),
            nll: mean(&nll),
            nll_reference: mean(&base),
            kld: mean(&|c| c.kld),
            same_top: mean(&|c| f64::from(u8::from(c.same_top))),
        }
    };
    Divergence {
        by_window: all.chunks(rows).map(means).collect(),
        tokens: all.len(),
        windows: all.len() / rows,
        perplexity: exp(estimate(&nll)),
        perplexity_reference: exp(estimate(&base)),
        // The mean of the differences is the difference of the means, and its error includes their covariance.
        perplexity_ratio: exp(estimate(&|c| nll(c) - base(c))),
        kld: estimate(&|c| c.kld),
        kld_percentiles: percentiles(&|c| c.kld),
        p_diff_percentiles: percentiles(&p_diff),
        p_diff: estimate(&p_diff),
        p_diff_rms: root(estimate(&|c| p_diff(c) * p_diff(c))),
        same_top,
    }
}
