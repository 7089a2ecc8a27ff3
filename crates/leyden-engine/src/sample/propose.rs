//! Proposals of a draft model.
//!
//! The model's token is sampled as without a draft, and the draft token is accepted if it is the same. So drafts change
//! neither the text nor, for any seed, its distribution. The draft token is drawn with the random numbers of its
//! position, with which the model's token is drawn too: where both models have nearly the same probabilities, both
//! draws nearly always give the same token. `docs/speculation.md` compares this to rejection sampling (Leviathan et al.,
//! "Fast Inference from Transformers via Speculative Decoding", 2023).

use super::Sampler;
use leyden_kernels::ops;

/// Token that a draft model proposes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposal {
    /// Token id.
    pub token: u32,
    /// Probability that the model chooses it too, as far as the draft model knows.
    pub probability: Option<f64>,
}

impl Sampler {
    /// Returns the token that would be sampled after the logits of a draft model, for position `position`; `None` if
    /// they are not finite. The sampler's memory does not change. Of a greedy choice, the probability is the draft
    /// model's.
    pub fn propose(&mut self, logits: &[f32], position: usize) -> Option<Proposal> {
        self.run(logits, None, position).ok()?;
        let (token, _) = self.draw(position).ok()?;
        let is_greedy = self.params.temperature == 0.0 && self.params.dynamic_temperature.range == 0.0;
        let probability = is_greedy.then(|| {
            let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let mut weights: Vec<f32> = logits.iter().map(|logit| logit - best).collect();
            ops::exp(self.tier, &mut weights);
            let sum: f64 = weights.iter().map(|w| f64::from(*w)).sum();
            weights.get(token as usize).map_or(0.0, |w| f64::from(*w) / sum)
        });
        Some(Proposal { token, probability })
    }
}
