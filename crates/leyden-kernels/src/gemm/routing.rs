//! [`Routing`]: which experts of a mixture every token goes to (Shazeer et al., 2017), and the tokens of each expert.

use crate::context::Cpu;
use crate::memory::disjoint::Disjoint;
use crate::ops::{exp, log_sum_exp};

/// The tokens that go to one expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) expert: usize,
    /// Its pairs: `first..end` of [`Routing::pair`].
    pub(super) first: usize,
    pub(super) end: usize,
}

/// The experts of every token of a batch with their weights. Buffers grow to the largest batch seen.
#[derive(Debug, Default)]
pub struct Routing {
    tokens: usize,
    experts: usize,
    used: usize,
    /// `[tokens][used]`, those with higher scores first.
    chosen: Vec<u32>,
    weights: Vec<f32>,
    /// Places in `chosen`, by expert and among those of one expert by token.
    pairs: Vec<usize>,
    /// The experts that have tokens, ascending.
    groups: Vec<Group>,
}

impl Routing {
    /// Chooses the `used` experts with the highest scores for every token, of equal ones that with the lower index.
    /// `scores` has one row of `experts` values for each token.
    ///
    /// The weight of an expert is its share in the softmax of all the token's scores or, with `normalise`, of those of
    /// its chosen ones. A score that is no number makes all the weights of its token none.
    ///
    /// # Panics
    /// If `used` is not between 1 and `experts`, or `scores` is not whole rows.
    pub fn choose(&mut self, cpu: &Cpu, scores: &[f32], experts: usize, used: usize, normalise: bool) {
        /// Tokens worth a task.
        const TASK: usize = 32;
        assert!((1..=experts).contains(&used), "{used} of {experts} experts");
        assert!(scores.len().is_multiple_of(experts), "{} scores for {experts} experts", scores.len());
        let tokens = scores.len() / experts;
        (self.tokens, self.experts, self.used) = (tokens, experts, used);
        self.chosen.resize(tokens * used, 0);
        self.weights.resize(tokens * used, 0.0);
        let chosen = Disjoint::new(&mut self.chosen);
        let weights = Disjoint::new(&mut self.weights);
        cpu.pool().run(tokens.div_ceil(TASK), |task| {
            for t in task * TASK..tokens.min((task + 1) * TASK) {
                let scores = &scores[t * experts..][..experts];
                // SAFETY: every token belongs to one task.
                let chosen = unsafe { chosen.range(t * used, used) };
                // SAFETY: as above.
                let weights = unsafe { weights.range(t * used, used) };
                highest(scores, chosen);
                weigh(cpu, scores, chosen, normalise, weights);
            }
        });
        self.group();
    }

    /// Sorts the pairs by expert, counting.
    fn group(&mut self) {
        let mut next = vec![0_usize; self.experts];
        for &expert in &self.chosen {
            next[expert as usize] += 1;
        }
        self.groups.clear();
        let mut first = 0;
        for (expert, place) in next.iter_mut().enumerate() {
            let end = first + *place;
            *place = first;
            if end > first {
                self.groups.push(Group { expert, first, end });
            }
            first = end;
        }
        self.pairs.resize(self.chosen.len(), 0);
        for (pair, &expert) in self.chosen.iter().enumerate() {
            let place = &mut next[expert as usize];
            self.pairs[*place] = pair;
            *place += 1;
        }
    }

    /// The number of tokens.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// The number of experts that they were chosen from.
    #[must_use]
    pub fn experts(&self) -> usize {
        self.experts
    }

    /// The experts of a token with their weights, the highest score first.
    ///
    /// # Panics
    /// If there is no such token.
    pub fn of_token(&self, token: usize) -> impl Iterator<Item = (usize, f32)> {
        let range = token * self.used..(token + 1) * self.used;
        self.chosen[range.clone()].iter().map(|&e| e as usize).zip(self.weights[range].iter().copied())
    }

    /// The experts that have tokens, ascending.
    pub(super) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The number of pairs of a token and an expert of its.
    pub(super) fn pairs(&self) -> usize {
        self.pairs.len()
    }

    /// Token and expert of every pair, by expert and among those of one expert by token.
    pub fn pairs_by_expert(&self) -> impl Iterator<Item = (usize, usize)> {
        self.groups.iter().flat_map(|g| (g.first..g.end).map(|pair| (self.pairs[pair] / self.used, g.expert)))
    }

    /// Token and weight of a pair.
    pub(super) fn pair(&self, i: usize) -> (usize, f32) {
        let pair = self.pairs[i];
        (pair / self.used, self.weights[pair])
    }
}

/// The indices of the highest scores, highest first. Every number is higher than one that is none.
fn highest(scores: &[f32], chosen: &mut [u32]) {
    let above = |a: f32, b: f32| a > b || (b.is_nan() && !a.is_nan());
    let mut n = 0;
    for (i, &score) in scores.iter().enumerate() {
        if n == chosen.len() && !above(score, scores[chosen[n - 1] as usize]) {
            continue;
        }
        n = (n + 1).min(chosen.len());
        let mut at = n - 1;
        while at > 0 && above(score, scores[chosen[at - 1] as usize]) {
            chosen[at] = chosen[at - 1];
            at -= 1;
        }
        // The number of experts is far below that of tensors' rows, which fits.
        chosen[at] = i as u32;
    }
}

/// The weights of the chosen experts. Sums go over them in their order.
fn weigh(cpu: &Cpu, scores: &[f32], chosen: &[u32], normalise: bool, weights: &mut [f32]) {
    let max = scores[chosen[0] as usize];
    for (weight, &expert) in weights.iter_mut().zip(chosen) {
        *weight = scores[expert as usize] - max;
    }
    exp(cpu.tier(), weights);
    let total = match normalise {
        _ if scores.iter().any(|s| s.is_nan()) => f32::NAN,
        true => weights.iter().sum(),
        false => log_sum_exp(cpu.tier(), scores).1,
    };
    weights.iter_mut().for_each(|w| *w /= total);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::Tier;

    fn routing(scores: &[f32], experts: usize, used: usize, normalise: bool) -> Routing {
        let mut routing = Routing::default();
        routing.choose(&Cpu::new(Tier::best(), 2).unwrap(), scores, experts, used, normalise);
        routing
    }

    #[test]
    fn the_highest_are_chosen_and_of_equal_ones_the_first() {
        let r = routing(&[1.0, 3.0, 3.0, 0.0, 3.0, 2.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0], 6, 3, true);
        let chosen = |t: usize| r.of_token(t).map(|(e, _)| e).collect::<Vec<_>>();
        assert_eq!((chosen(0), chosen(1)), (vec![1, 2, 4], vec![0, 1, 2]));
        assert!(r.of_token(0).chain(r.of_token(1)).all(|(_, w)| w == 1.0 / 3.0));
        let groups: Vec<_> = r.groups().iter().map(|g| (g.expert, g.end - g.first)).collect();
        assert_eq!(groups, [(0, 1), (1, 2), (2, 2), (4, 1)]);
        assert_eq!((0..r.pairs()).map(|i| r.pair(i).0).collect::<Vec<_>>(), [1, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn weights_are_shares_of_the_chosen_or_of_all() {
        let scores: Vec<f32> = (0..40).map(|i| (i * 7 % 40) as f32 * 0.1 - 2.0).collect();
        for normalise in [true, false] {
            let r = routing(&scores, 40, 5, normalise);
            let mut sorted: Vec<f64> = scores.iter().map(|s| f64::from(*s).exp()).collect();
            sorted.sort_by(|a, b| b.total_cmp(a));
            let total: f64 = sorted[..if normalise { 5 } else { 40 }].iter().sum();
            for ((_, w), want) in r.of_token(0).zip(&sorted) {
                assert!((f64::from(w) - want / total).abs() < 1e-6, "{w} {}", want / total);
            }
        }
    }

    #[test]
    fn what_is_no_number_comes_out_as_none_and_experts_stay_distinct() {
        for bad in [[f32::NAN, 1.0, 2.0, f32::NAN], [f32::NAN; 4], [f32::INFINITY, 0.0, 0.0, f32::INFINITY]] {
            for normalise in [true, false] {
                let r = routing(&bad, 4, 3, normalise);
                let mut experts: Vec<_> = r.of_token(0).map(|(e, _)| e).collect();
                assert!(r.of_token(0).any(|(_, w)| w.is_nan()), "{bad:?}");
                experts.sort_unstable();
                experts.dedup();
                assert_eq!(experts.len(), 3);
            }
        }
    }

    #[test]
    fn a_token_does_not_depend_on_its_batch() {
        let scores: Vec<f32> = (0..100 * 24).map(|i| (i * 7919 % 1013) as f32 * 0.01).collect();
        let whole = routing(&scores, 24, 4, true);
        for (t, scores) in scores.chunks(24).enumerate() {
            assert!(routing(scores, 24, 4, true).of_token(0).eq(whole.of_token(t)));
        }
        assert!(routing(&[], 24, 4, true).groups().is_empty());
    }
}
