//! Logarithmic probabilities of the model's own distribution, before any step of sampling.

use crate::mailbox::TokenLogprob;

/// Those of `token` and of the `top` best tokens, among which it stands last if it is none of them. Ties go to the lower
/// id; a logit that is not a number counts as impossible. `offset` is where the token begins in the text.
pub(super) fn logprobs(logits: &[f32], token: u32, top: usize, offset: usize) -> TokenLogprob {
    let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().filter(|l| !l.is_nan()).map(|l| f64::from(l - best).exp()).sum();
    let log = |logit: f32| (f64::from(logit) - f64::from(best) - sum.ln()) as f32;
    let mut found: Vec<(u32, f32)> = Vec::with_capacity(top + 1);
    for (id, &logit) in (0_u32..).zip(logits).filter(|(_, l)| !l.is_nan()) {
        if found.len() == top && found.last().is_none_or(|(_, least)| logit <= *least) {
            continue;
        }
        let at = found.partition_point(|(_, l)| *l >= logit);
        found.insert(at, (id, logit));
        found.truncate(top);
    }
    let own = logits.get(token as usize).copied().unwrap_or(f32::NEG_INFINITY);
    if found.iter().all(|(id, _)| *id != token) {
        found.push((token, own));
    }
    TokenLogprob {
        token,
        offset,
        logprob: log(own),
        top: found.into_iter().map(|(id, logit)| (id, log(logit))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_add_up() {
        let logits = [1.0, 3.0, f32::NEG_INFINITY, 3.0, 2.0];
        let got = logprobs(&logits, 4, 5, 7);
        let ids: Vec<u32> = got.top.iter().map(|t| t.0).collect();
        assert_eq!(ids, [1, 3, 4, 0, 2]);
        let sum: f64 = got.top.iter().map(|t| f64::from(t.1).exp()).sum();
        assert!((sum - 1.0).abs() < 1e-6);
        assert_eq!(got.logprob, got.top[2].1);
        assert_eq!(got.offset, 7);
        let ids =
            |token, top| -> Vec<u32> { logprobs(&logits, token, top, 0).top.iter().map(|t| t.0).collect() };
        assert_eq!(ids(1, 2), [1, 3]);
        // The chosen one is there, also where it is not among the best.
        assert_eq!(ids(0, 2), [1, 3, 0]);
        assert_eq!(ids(0, 0), [0]);
    }
}
