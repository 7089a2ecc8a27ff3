//! [`TokenLogprobs`]: log probabilities of the model's own distribution, before any step of sampling.

/// Log probability of a token, with the most probable tokens at its position.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprobs {
    /// Token id.
    pub token: u32,
    /// Log probability of the token; NaN if a logit is NaN.
    pub logprob: f32,
    /// Most probable tokens, best first, and the token itself if it is not among them.
    pub top: Vec<(u32, f32)>,
}

impl TokenLogprobs {
    /// Computes the log probability of `token` and of the `top` most probable tokens. Of equal ones the lower id comes
    /// first. If a logit is NaN, the only top token is `token`.
    ///
    /// ```
    /// use leyden_engine::TokenLogprobs;
    ///
    /// let told = TokenLogprobs::of(&[0.0, 0.0], 1, 1);
    /// assert_eq!(told.logprob, 0.5_f32.ln());
    /// assert_eq!(told.top, [(0, 0.5_f32.ln()), (1, 0.5_f32.ln())]);
    /// ```
    #[must_use]
    pub fn of(logits: &[f32], token: u32, top: usize) -> TokenLogprobs {
        if logits.iter().any(|l| l.is_nan()) {
            return TokenLogprobs { token, logprob: f32::NAN, top: vec![(token, f32::NAN)] };
        }
        let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = logits.iter().map(|l| f64::from(l - best).exp()).sum();
        let log = |logit: f32| (f64::from(logit) - f64::from(best) - sum.ln()) as f32;
        let mut found: Vec<(u32, f32)> = Vec::with_capacity(top + 1);
        for (id, &logit) in (0_u32..).zip(logits) {
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
        TokenLogprobs {
            token,
            logprob: log(own),
            top: found.into_iter().map(|(id, logit)| (id, log(logit))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_add_up() {
        let logits = [1.0, 3.0, f32::NEG_INFINITY, 3.0, 2.0];
        let got = TokenLogprobs::of(&logits, 4, 5);
        let ids: Vec<u32> = got.top.iter().map(|t| t.0).collect();
        assert_eq!(ids, [1, 3, 4, 0, 2]);
        let sum: f64 = got.top.iter().map(|t| f64::from(t.1).exp()).sum();
        assert!((sum - 1.0).abs() < 1e-6);
        assert_eq!(got.logprob, got.top[2].1);
        let ids = |token, top| -> Vec<u32> {
            TokenLogprobs::of(&logits, token, top).top.iter().map(|t| t.0).collect()
        };
        assert_eq!(ids(1, 2), [1, 3]);
        // The chosen one is there, also where it is not among the best.
        assert_eq!(ids(0, 2), [1, 3, 0]);
        assert_eq!(ids(0, 0), [0]);
        assert!(TokenLogprobs::of(&[1.0, f32::NAN], 0, 1).logprob.is_nan());
    }
}
