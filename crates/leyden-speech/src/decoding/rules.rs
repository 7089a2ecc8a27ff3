//! Rules for the next token (Radford et al., 2022, section 4.5, and OpenAI's `decoding.py`).

use crate::vocabulary::Vocabulary;
use leyden_kernels::Tier;
use leyden_kernels::ops;

/// Latest time at which the first segment of a window may begin, in steps of 20 ms.
const LATEST_START: u32 = 50;

/// Rules for the tokens of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules<'a> {
    pub(super) vocabulary: &'a Vocabulary,
    /// True if tokens of time are written.
    pub(super) times: bool,
}

impl Rules<'_> {
    /// Sets the logits of forbidden tokens to negative infinity; `so_far` are the tokens after the prompt.
    pub(super) fn apply(&self, tier: Tier, so_far: &[u32], logits: &mut [f32]) {
        let v = self.vocabulary;
        let first: &[u32] = if so_far.is_empty() { &v.suppressed_first } else { &[] };
        for id in v.suppressed.iter().chain(first).chain([&v.no_times]) {
            logits[*id as usize] = f32::NEG_INFINITY;
        }
        let first_time = v.first_time as usize;
        // Tokens of languages lie between text and times.
        logits[v.end as usize + 1..first_time].fill(f32::NEG_INFINITY);
        if !self.times {
            return logits[first_time..].fill(f32::NEG_INFINITY);
        }
        self.pairs(so_far, logits);
        // If any time is likelier than the likeliest text, it is a time.
        let (text, times) = logits.split_at_mut(first_time);
        let likeliest = text.iter().fold(f32::NEG_INFINITY, |a, x| a.max(*x));
        if log_sum_exp(tier, times) > likeliest {
            text.fill(f32::NEG_INFINITY);
        }
    }

    /// Applies the order of times: they come in pairs, except before the end, and never go back.
    fn pairs(&self, so_far: &[u32], logits: &mut [f32]) {
        let v = self.vocabulary;
        let first_time = v.first_time as usize;
        if so_far.is_empty() {
            // A transcript begins with a time.
            logits[..first_time].fill(f32::NEG_INFINITY);
            let latest = (first_time + LATEST_START as usize + 1).min(logits.len());
            logits[latest..].fill(f32::NEG_INFINITY);
            return;
        }
        let is_time = |back: usize| so_far.len().checked_sub(back).is_none_or(|i| v.is_time(so_far[i]));
        let (last, before) = (is_time(1), is_time(2));
        match (last, before) {
            (true, true) => logits[first_time..].fill(f32::NEG_INFINITY),
            (true, false) => logits[..v.end as usize].fill(f32::NEG_INFINITY),
            (false, _) => {}
        }
        if let Some(time) = so_far.iter().rfind(|id| v.is_time(**id)) {
            // The second of a pair may equal the first; a segment is not empty.
            let lowest = if last && !before { *time } else { *time + 1 } as usize;
            let lowest = lowest.min(logits.len());
            logits[first_time..lowest].fill(f32::NEG_INFINITY);
        }
    }
}

/// Returns the logarithm of the sum of exponentials; negative infinity if all are.
pub(crate) fn log_sum_exp(tier: Tier, x: &[f32]) -> f32 {
    let most = x.iter().fold(f32::NEG_INFINITY, |a, x| a.max(*x));
    if !most.is_finite() {
        return f32::NEG_INFINITY;
    }
    let mut parts: Vec<f32> = x.iter().map(|x| x - most).collect();
    ops::exp(tier, &mut parts);
    let sum: f64 = parts.iter().map(|x| f64::from(*x)).sum();
    most + ops::ln(sum) as f32
}
