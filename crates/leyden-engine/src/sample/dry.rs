//! DRY, "don't repeat yourself" (p-e-w, 2024): penalties on tokens that would continue a repetition.
//!
//! If the end of the text occurred before, the token that followed it then is penalised, and the penalty grows with the
//! length of the repetition. Repetitions are counted back to the last sequence breaker only, so that repetitions of
//! form (line breaks, the markup of a dialogue) cost nothing.

use super::candidates::Candidates;
use super::params::{Dry, SamplingParams};
use super::step::{Context, Effect, Step};
use leyden_kernels::ops::{ln, pow};

impl Dry {
    /// Returns the penalty of a token that would continue a repetition of `length` tokens.
    fn penalty(&self, length: usize) -> f32 {
        // Above this exponent the power leaves the range of f32; the penalty is clamped anyway.
        let largest = if self.base > 1.0 { 88.0 / ln(f64::from(self.base)) } else { 0.0 };
        let exponent = ((length - self.allowed_length) as f64).min(largest);
        (f64::from(self.multiplier) * pow(f64::from(self.base), exponent)).min(f64::from(f32::MAX)) as f32
    }
}

pub(super) const STEP: Step = Step { effect: Effect::Penalises, is_active: |p| p.dry.is_active(), apply };

/// Returns, for each `k`, the number of tokens at the end of `text` that also stand right before its last `k` tokens.
/// Entry 0 is not used.
///
/// The Z-algorithm on the reversed text (Gusfield, 1997), linear because the end of the farthest match only grows.
fn repeats(text: &[u32]) -> Vec<u32> {
    let n = text.len();
    let back = |i: usize| text[n - 1 - i];
    let mut z = vec![0_u32; n];
    // Farthest match: it begins at `left` and ends before `right`.
    let (mut left, mut right) = (0, 0);
    for k in 1..n {
        let mut length = if k < right { (z[k - left] as usize).min(right - k) } else { 0 };
        while k + length < n && back(length) == back(k + length) {
            length += 1;
        }
        if k + length > right {
            (left, right) = (k, k + length);
        }
        z[k] = u32::try_from(length).unwrap_or(u32::MAX);
    }
    z
}

/// Penalises every token that followed an earlier occurrence of the text's end, by the longest such occurrence.
fn apply(p: &SamplingParams, c: &mut Candidates, at: &mut Context<'_>) {
    let dry = &p.dry;
    let text = &at.history[at.history.len().saturating_sub(dry.window)..];
    // Number of tokens after the last breaker: no repetition is longer.
    let longest = dry.breakers.tokens_behind(text);
    if text.len() <= dry.allowed_length || longest < dry.allowed_length {
        return;
    }
    for (k, length) in repeats(text).into_iter().enumerate().skip(1) {
        let length = (length as usize).min(longest);
        let next = text[text.len() - k];
        if length >= dry.allowed_length && !dry.breakers.is_breaker(next) {
            // Plus one, so that a repetition of length 0, where even that is not allowed, differs from no repetition.
            let value = u32::try_from(length + 1).unwrap_or(u32::MAX);
            at.tally.update(at.vocabulary, next, |v| v.max(value));
        }
    }
    c.adjust(at.tally.ids(), |id, logit| match at.tally.get(id) {
        0 => logit,
        value => logit - dry.penalty(value as usize - 1),
    });
    at.tally.clear();
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn repeats_of_a_known_text() {
        // a b c c b c y a b c: "a b c" stands before the last 7, "c" before the last 6, "b c" before the last 4.
        let text = [1, 2, 3, 3, 2, 3, 9, 1, 2, 3];
        assert_eq!(repeats(&text), [0, 0, 0, 0, 2, 0, 1, 3, 0, 0]);
        assert!(repeats(&[]).is_empty());
        assert_eq!(repeats(&[5; 5]), [0, 4, 3, 2, 1]);
    }

    proptest! {
        #[test]
        fn repeats_are_what_comparing_gives(text in prop::collection::vec(0..3_u32, 0..60)) {
            let n = text.len();
            let plain = |k: usize| (0..n - k).take_while(|i| text[n - 1 - i] == text[n - 1 - i - k]).count();
            let got = repeats(&text);
            for (k, got) in got.into_iter().enumerate().skip(1) {
                prop_assert_eq!(got as usize, plain(k));
            }
        }
    }

    #[test]
    fn long_texts_take_linear_time() {
        // Quadratic comparing would take 10^11 steps.
        let text: Vec<u32> = (0..300_000).map(|i| u32::from(i % 1000 == 999)).collect();
        assert_eq!(repeats(&text)[1000], 299_000);
        assert_eq!(repeats(&[7; 300_000])[1], 299_999);
    }
}
