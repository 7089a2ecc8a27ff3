//! [`Routing`]: the experts of every token in a mixture of experts (Shazeer et al., 2017), and the tokens of each
//! expert.

use crate::context::Cpu;
use crate::memory::disjoint::Disjoint;
use crate::ops::{exp, log_sum_exp, sigmoid, softmax};

/// Selection of experts and their weights from the scores of a router.
#[derive(Clone, Copy, Debug)]
pub struct Gating<'a> {
    /// Number of experts.
    pub experts: usize,
    /// Number of experts per token.
    pub used: usize,
    /// Function that turns scores into weights.
    pub function: GatingFunction,
    /// True if the weights of a token's experts are normalised to sum 1 (before the scale).
    pub normalise: bool,
    /// Bias added to scores for the selection of experts, but not to their weights.
    pub bias: Option<&'a [f32]>,
    /// Restriction of the selection to the best groups of experts.
    pub groups: Option<ExpertGroups>,
    /// Factor of the weights.
    pub scale: f32,
}

/// Gating function of a router's scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GatingFunction {
    /// Softmax.
    #[default]
    Softmax,
    /// Sigmoid of each score.
    Sigmoid,
}

/// Groups of consecutive experts; a token's experts are selected from the best groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertGroups {
    /// Number of groups; divides the number of experts.
    pub count: usize,
    /// Number of groups from which experts are selected.
    pub used: usize,
    /// Number of best experts (1 or 2) whose scores are summed to rank a group.
    pub best: usize,
}

impl Gating<'_> {
    /// Returns softmax gating over all scores or, with `normalise`, over those of the selected experts.
    #[must_use]
    pub fn softmax(experts: usize, used: usize, normalise: bool) -> Self {
        let function = GatingFunction::Softmax;
        Gating { experts, used, function, normalise, bias: None, groups: None, scale: 1.0 }
    }

    fn check(&self) {
        let &Gating { experts, used, bias, groups, .. } = self;
        assert!((1..=experts).contains(&used), "{used} of {experts} experts");
        assert!(bias.is_none_or(|bias| bias.len() == experts), "a bias for every expert");
        if let Some(groups) = groups {
            let fits = experts.is_multiple_of(groups.count)
                && (1..=groups.count).contains(&groups.used)
                && used <= groups.used * (experts / groups.count);
            assert!(fits, "{used} of {experts} experts in {groups:?}");
        }
    }

    /// Returns the values that rank a token's experts: the scores, or transformed scores if these may rank differently.
    fn choice<'s>(&self, cpu: &Cpu, scores: &'s [f32], room: &'s mut Vec<f32>) -> &'s [f32] {
        if self.function == GatingFunction::Softmax && self.bias.is_none() && self.groups.is_none() {
            return scores;
        }
        room.clear();
        room.extend_from_slice(scores);
        match self.function {
            GatingFunction::Sigmoid => sigmoid(cpu.tier(), room),
            GatingFunction::Softmax if self.bias.is_some() => softmax(cpu.tier(), room),
            GatingFunction::Softmax => {}
        }
        if let Some(bias) = self.bias {
            room.iter_mut().zip(bias).for_each(|(x, b)| *x += b);
        }
        if let Some(groups) = self.groups {
            groups.mask(room);
        }
        room
    }

    /// Computes the weights of the selected experts. Sums go over them in their order.
    fn weigh(&self, cpu: &Cpu, scores: &[f32], chosen: &[u32], weights: &mut [f32]) {
        let normalise = self.normalise;
        let unsure = scores.iter().any(|s| s.is_nan());
        let total = match self.function {
            GatingFunction::Softmax => {
                let max = chosen.iter().map(|&e| scores[e as usize]).fold(f32::NEG_INFINITY, f32::max);
                for (weight, &expert) in weights.iter_mut().zip(chosen) {
                    *weight = scores[expert as usize] - max;
                }
                exp(cpu.tier(), weights);
                match normalise {
                    true => weights.iter().sum(),
                    // The maximum score may differ from the first one if a bias took part in the selection.
                    false => {
                        let (all, sum) = log_sum_exp(cpu.tier(), scores);
                        let mut apart = [all - max];
                        if all > max {
                            exp(cpu.tier(), &mut apart);
                            sum * apart[0]
                        } else {
                            sum
                        }
                    }
                }
            }
            GatingFunction::Sigmoid => {
                for (weight, &expert) in weights.iter_mut().zip(chosen) {
                    *weight = scores[expert as usize];
                }
                sigmoid(cpu.tier(), weights);
                if normalise { weights.iter().sum::<f32>() + MIN_SUM } else { 1.0 }
            }
        };
        let total = if unsure { f32::NAN } else { total };
        weights.iter_mut().for_each(|w| *w /= total);
        if self.scale != 1.0 {
            weights.iter_mut().for_each(|w| *w *= self.scale);
        }
    }
}

/// Smallest sum of weights, which keeps the division finite.
const MIN_SUM: f32 = 1e-20;

impl ExpertGroups {
    /// Sets all experts outside the best groups to minus infinity; of equal groups the first are kept.
    fn mask(self, scores: &mut [f32]) {
        let each = scores.len() / self.count;
        let worth: Vec<f32> = scores
            .chunks_exact(each)
            .map(|group| {
                let mut best = vec![0; self.best.min(each)];
                highest(group, &mut best);
                best.iter().map(|&i| group[i as usize]).sum()
            })
            .collect();
        let mut best = vec![0; self.used];
        highest(&worth, &mut best);
        for (i, group) in (0..).zip(scores.chunks_exact_mut(each)) {
            if !best.contains(&i) {
                group.fill(f32::NEG_INFINITY);
            }
        }
    }
}

/// Tokens of one expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) expert: usize,
    /// Pairs `first..end` of [`Routing::pair`].
    pub(super) first: usize,
    pub(super) end: usize,
}

/// Experts and weights of every token of a batch. Buffers grow to the largest batch seen.
#[derive(Debug, Default)]
pub struct Routing {
    tokens: usize,
    experts: usize,
    used: usize,
    /// Selected experts `[tokens][used]`, highest score first; `weights` is laid out alike.
    chosen: Vec<u32>,
    weights: Vec<f32>,
    /// Indices into `chosen`, sorted by expert, then by token.
    pairs: Vec<usize>,
    /// Experts with at least one token, ascending.
    groups: Vec<Group>,
}

impl Routing {
    /// Selects the experts with the highest scores for every token (of equal scores, the lower index) and computes
    /// their weights. `scores` has one row per token. A NaN score makes all weights of its token NaN.
    ///
    /// # Panics
    /// If the numbers of `gating` do not fit each other, or `scores` is not whole rows.
    pub fn choose(&mut self, cpu: &Cpu, scores: &[f32], gating: &Gating<'_>) {
        /// Number of tokens per task.
        const TASK: usize = 32;
        gating.check();
        let &Gating { experts, used, .. } = gating;
        assert!(scores.len().is_multiple_of(experts), "{} scores for {experts} experts", scores.len());
        let tokens = scores.len() / experts;
        (self.tokens, self.experts, self.used) = (tokens, experts, used);
        self.chosen.resize(tokens * used, 0);
        self.weights.resize(tokens * used, 0.0);
        let chosen = Disjoint::new(&mut self.chosen);
        let weights = Disjoint::new(&mut self.weights);
        cpu.pool().run(tokens.div_ceil(TASK), |task| {
            let mut room = Vec::new();
            for t in task * TASK..tokens.min((task + 1) * TASK) {
                let scores = &scores[t * experts..][..experts];
                // SAFETY: every token belongs to one task.
                let chosen = unsafe { chosen.range(t * used, used) };
                // SAFETY: as above.
                let weights = unsafe { weights.range(t * used, used) };
                highest(gating.choice(cpu, scores, &mut room), chosen);
                gating.weigh(cpu, scores, chosen, weights);
            }
        });
        self.group();
    }

    /// Multiplies the weights of every expert by a factor of its own.
    ///
    /// # Panics
    /// If there is not one factor per expert.
    pub fn scale(&mut self, factors: &[f32]) {
        assert_eq!(factors.len(), self.experts, "a factor for every expert");
        for (weight, &expert) in self.weights.iter_mut().zip(&self.chosen) {
            *weight *= factors[expert as usize];
        }
    }

    /// Sorts the pairs by expert, by counting.
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

    /// Returns the number of tokens.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Returns the number of experts to choose from.
    #[must_use]
    pub fn experts(&self) -> usize {
        self.experts
    }

    /// Returns the experts of a token with their weights, highest score first.
    ///
    /// # Panics
    /// If there is no such token.
    pub fn of_token(&self, token: usize) -> impl Iterator<Item = (usize, f32)> {
        let range = token * self.used..(token + 1) * self.used;
        self.chosen[range.clone()].iter().map(|&e| e as usize).zip(self.weights[range].iter().copied())
    }

    /// Returns the experts with at least one token, ascending.
    pub(super) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Returns the number of pairs of a token and one of its experts.
    pub(super) fn pairs(&self) -> usize {
        self.pairs.len()
    }

    /// Returns token and expert of every pair, sorted by expert, then by token.
    pub fn pairs_by_expert(&self) -> impl Iterator<Item = (usize, usize)> {
        self.groups.iter().flat_map(|g| (g.first..g.end).map(|pair| (self.pairs[pair] / self.used, g.expert)))
    }

    /// Returns token and weight of a pair.
    pub(super) fn pair(&self, i: usize) -> (usize, f32) {
        let pair = self.pairs[i];
        (pair / self.used, self.weights[pair])
    }
}

/// Writes the indices of the highest scores, highest first. NaN ranks below every number.
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
        // The number of experts is far below the number of rows of a tensor, which fits.
        chosen[at] = i as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::Tier;

    fn routing(scores: &[f32], experts: usize, used: usize, normalise: bool) -> Routing {
        let mut routing = Routing::default();
        routing.choose(
            &Cpu::new(Tier::best(), 2).unwrap(),
            scores,
            &Gating::softmax(experts, used, normalise),
        );
        routing
    }

    #[test]
    fn biases_choose_and_do_not_weigh_and_groups_come_first() {
        let cpu = Cpu::new(Tier::best(), 1).unwrap();
        let scores = [2.0_f32, 1.0, -1.0, 0.5, 0.0, 3.0, -2.0, 1.5];
        let bias = [0.0, 0.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        let share = |x: f32| 1.0 / (1.0 + (-f64::from(x)).exp());
        let run = |gating: Gating<'_>| {
            let mut routing = Routing::default();
            routing.choose(&cpu, &scores, &gating);
            routing.of_token(0).map(|(e, w)| (e, f64::from(w))).collect::<Vec<_>>()
        };
        let near = |found: Vec<(usize, f64)>, want: &[(usize, f64)]| {
            let same = |(f, w): (&(usize, f64), &(usize, f64))| f.0 == w.0 && (f.1 - w.1).abs() < 1e-6;
            assert!(found.len() == want.len() && found.iter().zip(want).all(same), "{found:?} {want:?}");
        };
        let sigmoid = Gating { function: GatingFunction::Sigmoid, ..Gating::softmax(8, 2, false) };
        near(run(sigmoid), &[(5, share(3.0)), (0, share(2.0))]);
        let biased = Gating { bias: Some(&bias), normalise: true, scale: 2.5, ..sigmoid };
        let total = share(3.0) + share(-1.0);
        near(run(biased), &[(2, 2.5 * share(-1.0) / total), (5, 2.5 * share(3.0) / total)]);
        // Groups of two have sums of logits 3, -0.5, 3 and -0.5; with sigmoids the first ranks highest.
        let groups = |used, best| Some(ExpertGroups { count: 4, used, best });
        near(run(Gating { groups: groups(1, 2), ..sigmoid }), &[(0, share(2.0)), (1, share(1.0))]);
        near(run(Gating { groups: groups(1, 1), ..sigmoid }), &[(5, share(3.0)), (4, share(0.0))]);
        let sum: f64 = scores.iter().map(|s| f64::from(*s).exp()).sum();
        let softmax = Gating { groups: groups(1, 1), ..Gating::softmax(8, 2, false) };
        near(run(softmax), &[(5, 3f64.exp() / sum), (4, 1.0 / sum)]);
        // A bias that excludes the highest score.
        let low = [0.0, 0.0, 0.0, 0.0, 0.0, -9.0, 0.0, 0.0];
        let softmax = Gating { bias: Some(&low), ..Gating::softmax(8, 1, false) };
        near(run(softmax), &[(0, 2f64.exp() / sum)]);
    }

    #[test]
    fn the_highest_are_chosen_and_of_equal_ones_the_first() {
        let r = routing(&[1.0, 3.0, 3.0, 0.0, 3.0, 2.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0], 6, 3, true);
        let chosen = |t: usize| r.of_token(t).map(|(e, _)| e).collect::<Vec<_>>();
        assert_eq!((chosen(0), chosen(1)), (vec![1, 2, 4], vec![0, 1, 2]));
        assert!(r.of_token(0).chain(r.of_token(1)).all(|(_, w)| w == 1.0 / 3.0));
        let mut scaled = r;
        scaled.scale(&[1.0, 3.0, 0.5, 1.0, -1.0, 1.0]);
        assert_eq!(scaled.of_token(0).map(|(_, w)| w * 3.0).collect::<Vec<_>>(), [3.0, 0.5, -1.0]);
        let r = scaled;
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
