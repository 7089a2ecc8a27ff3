use super::*;
use crate::attention::block::{Row, TileRange};
use crate::attention::simd::AttentionSimd;
use crate::context::Cpu;
use crate::cpu::isa::Tier;
use crate::simd::dispatch::dispatch;

fn values(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).map(next).collect()
}

/// Sequence of `tokens` tokens whose last `new` are computed, on one tier and team.
#[derive(Clone, Copy)]
struct Case {
    kv_type: KvType,
    mask: Mask,
    soft_cap: Option<f32>,
    sinks: bool,
    heads: usize,
    group: usize,
    dim: usize,
    value_dim: usize,
    tokens: usize,
    new: usize,
}

impl Case {
    fn inputs(&self) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
        let width = self.heads * self.dim;
        let keys = values(self.tokens * width, 1);
        let vals = values(self.tokens * self.heads * self.value_dim, 2);
        let queries = values(self.new * width * self.group, 3).iter().map(|x| x * 3.0).collect();
        (keys, vals, queries)
    }

    fn run(&self, tier: Tier, threads: usize) -> Vec<f32> {
        let cpu = Cpu::new(tier, threads).unwrap();
        let (keys, vals, queries) = self.inputs();
        // The first layer has other sizes.
        let layer = KvLayer {
            heads: self.heads,
            key_dim: self.dim,
            value_dim: self.value_dim,
            windowed: false,
            state: 0,
        };
        let other = KvLayer { heads: 3, key_dim: 32, value_dim: 96, windowed: false, state: 0 };
        let shape = KvShape { layers: vec![other, layer], kv_type: self.kv_type };
        let blocks = self.tokens.div_ceil(BLOCK_TOKENS);
        let mut cache = KvCache::new(shape, blocks + 2).unwrap();
        // The sequence's blocks are in the cache in reverse order.
        let order: Vec<u32> = (0..blocks as u32).rev().collect();
        let slots: Vec<(u32, u8)> =
            (0..self.tokens).map(|i| (order[i / BLOCK_TOKENS], (i % BLOCK_TOKENS) as u8)).collect();
        cache.append(&cpu, 1, &slots, &keys, &vals);
        let mut out = vec![0.0; queries.len() / self.dim * self.value_dim];
        let position = self.tokens - self.new;
        let span =
            AttentionSpan { first: 0, tokens: self.new, position, stored: self.tokens, blocks: &order };
        let sinks = self.sinks();
        let options = AttentionOptions {
            scale: 0.3,
            mask: self.mask,
            soft_cap: self.soft_cap,
            sinks: self.sinks.then_some(&sinks[..]),
        };
        attention(&cpu, &cache, 1, &[span], &queries, &options, &mut out);
        out
    }

    /// Returns a sink per query head: small ones and one that takes nearly all of the softmax.
    fn sinks(&self) -> Vec<f32> {
        (0..self.heads * self.group).map(|i| (i % 4) as f32 * 4.0 - 4.0).collect()
    }

    /// Computes the same in double precision, from the definition.
    fn reference(&self) -> Vec<f64> {
        let (keys, vals, queries) = self.inputs();
        let width = self.heads * self.dim;
        let mut out = Vec::new();
        for (row, q) in queries.chunks_exact(self.dim).enumerate() {
            let (token, head) =
                (row / (self.heads * self.group), row % (self.heads * self.group) / self.group);
            let position = self.tokens - self.new + token;
            let visible = match self.mask {
                Mask::Causal => 0..position + 1,
                Mask::Full => 0..self.tokens,
                Mask::Window(tokens) => (position + 1).saturating_sub(tokens)..position + 1,
                Mask::Around(tokens) => {
                    position.saturating_sub(tokens)..(position + tokens + 1).min(self.tokens)
                }
            };
            let at = |j: usize| j * width + head * self.dim..j * width + (head + 1) * self.dim;
            let value = |j: usize, d: usize| vals[(j * self.heads + head) * self.value_dim + d];
            let score = |j: usize| -> f64 {
                let k = &keys[at(j)];
                let product: f64 = q.iter().zip(k).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum();
                let score = product * f64::from(0.3_f32);
                self.soft_cap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh())
            };
            let scores: Vec<f64> = visible.clone().map(score).collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
            let sink = f64::from(self.sinks()[row % (self.heads * self.group)]);
            let sum: f64 = weights.iter().sum::<f64>() + if self.sinks { (sink - max).exp() } else { 0.0 };
            for d in 0..self.value_dim {
                let v = |(j, w): (usize, &f64)| w * f64::from(value(j, d));
                out.push(visible.clone().zip(&weights).map(v).sum::<f64>() / sum);
            }
        }
        out
    }
}

/// Case of causal attention.
fn case(kv_type: KvType, [heads, group, dim, tokens, new]: [usize; 5]) -> Case {
    let (mask, value_dim) = (Mask::Causal, dim);
    Case { kv_type, mask, soft_cap: None, sinks: false, heads, group, dim, value_dim, tokens, new }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for kv_type in KvType::ALL {
        // (heads, queries per key-value head, head dimension, tokens, new tokens): one row more than a task has, head
        // dimensions that are no multiple of the vectors computed together, tiles cut at every place.
        for sizes in [
            [2, 1, 32, 1, 1],
            [1, 1, 64, 200, 1],
            [2, 2, 96, 65, 1],
            [1, 3, 32, 64, 1],
            [2, 4, 64, 130, 1],
            [1, 7, 128, 63, 1],
            [1, 12, 160, 90, 2],
            [1, 20, 64, 128, 3],
            [2, 4, 64, 150, 150],
            [1, 1, 256, 70, 40],
            [1, 3, 512, 70, 2],
            [1, 70, 32, 66, 2],
            // Split into pieces.
            [1, 3, 32, 900, 1],
            [2, 4, 64, 577, 3],
        ] {
            cases.push(case(kv_type, sizes));
        }
        // Head dimensions of values that differ from those of keys.
        for (value_dim, sizes) in [
            (32, [2, 4, 96, 150, 150]),
            (96, [2, 2, 32, 65, 1]),
            (128, [1, 20, 64, 128, 3]),
            (32, [1, 3, 64, 900, 1]),
        ] {
            cases.push(Case { value_dim, ..case(kv_type, sizes) });
        }
        // Windows that end within a tile and at its edge, and whose rows in one task attend to different tiles; many
        // rows and few, whole tasks and pieces.
        for (window, sizes) in [
            (1, [1, 2, 32, 70, 70]),
            (5, [2, 4, 64, 150, 150]),
            (40, [1, 20, 64, 200, 9]),
            (64, [1, 4, 32, 300, 130]),
            (65, [2, 4, 64, 130, 1]),
            (100, [1, 1, 64, 200, 1]),
            (500, [1, 3, 32, 1200, 2]),
            (4096, [2, 2, 96, 65, 20]),
        ] {
            cases.push(Case { mask: Mask::Window(window), ..case(kv_type, sizes) });
            cases.push(Case { mask: Mask::Around(window), ..case(kv_type, sizes) });
        }
        for sizes in [[2, 1, 32, 100, 100], [1, 4, 64, 300, 20], [2, 1, 32, 1, 1], [1, 1, 64, 700, 3]] {
            cases.push(Case { mask: Mask::Full, ..case(kv_type, sizes) });
        }
        let capped = Case { soft_cap: Some(2.5), ..case(kv_type, [2, 4, 64, 150, 20]) };
        cases.extend([capped, Case { sinks: true, mask: Mask::Window(70), ..capped }]);
        for sizes in [[2, 4, 64, 150, 150], [1, 5, 32, 900, 1]] {
            cases.push(Case { sinks: true, ..case(kv_type, sizes) });
        }
    }
    // Sizes that only unquantised caches support.
    cases.push(case(KvType::F16, [2, 5, 80, 100, 9]));
    cases.push(case(KvType::F32, [3, 1, 16, 77, 20]));
    cases
}

#[test]
fn every_tier_and_team_gives_the_same_bits() {
    for case in cases() {
        let want = case.run(Tier::SCALAR, 1);
        for tier in Tier::available() {
            let got = case.run(tier, 3);
            let same = want.iter().zip(&got).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(
                same,
                "{} {} {:?} group {} dim {} new {}",
                tier.level(),
                case.kv_type,
                case.mask,
                case.group,
                case.dim,
                case.new
            );
        }
    }
}

#[test]
fn results_are_close_to_double_precision() {
    for case in cases() {
        // Halves have 11 bits, quantised values 7 bits relative to the largest in a block; scores here are up to a few
        // units.
        let bound = match case.kv_type {
            KvType::F32 => 2e-6,
            KvType::F16 => 2e-3,
            KvType::Q8_0 => 3e-2,
        };
        let want = case.reference();
        for (got, want) in case.run(Tier::best(), 2).iter().zip(want) {
            let off = (f64::from(*got) - want).abs();
            assert!(off < bound, "{} {:?} dim {}: off by {off}", case.kv_type, case.mask, case.dim);
        }
    }
}

#[test]
fn a_token_does_not_depend_on_those_computed_with_it() {
    for (kv_type, mask) in KvType::ALL.into_iter().flat_map(|t| [(t, Mask::Causal), (t, Mask::Window(50))]) {
        let row = 2 * 3 * 64;
        let many = Case { mask, ..case(kv_type, [2, 3, 64, 140, 100]) };
        let all = many.run(Tier::best(), 2);
        // The last token alone has the first query's values, so compute the same queries one by one.
        let (keys, vals, queries) = many.inputs();
        let cpu = Cpu::new(Tier::best(), 2).unwrap();
        let shape = KvShape::uniform(1, 2, 64, kv_type);
        let mut cache = KvCache::new(shape, 3).unwrap();
        let slots: Vec<(u32, u8)> = (0..140).map(|i| (i / 64, (i % 64) as u8)).collect();
        cache.append(&cpu, 0, &slots, &keys, &vals);
        for token in [0, 1, 23, 24, 63, 99] {
            let mut out = vec![0.0; row];
            let position = 40 + token;
            let span =
                AttentionSpan { first: 0, tokens: 1, position, stored: position + 1, blocks: &[0, 1, 2] };
            let options = AttentionOptions { mask, ..AttentionOptions::causal(0.3) };
            attention(&cpu, &cache, 0, &[span], &queries[token * row..][..row], &options, &mut out);
            assert_eq!(out, all[token * row..][..row], "{kv_type} token {token}");
        }
    }
}

#[test]
fn a_quantised_value_that_is_no_number_is_seen_by_later_tokens_only() {
    let case = case(KvType::Q8_0, [1, 1, 64, 70, 70]);
    let (keys, vals, queries) = case.inputs();
    let run = |tier, broken: Option<f32>| {
        let cpu = Cpu::new(tier, 1).unwrap();
        let shape = KvShape::uniform(1, 1, 64, case.kv_type);
        let mut cache = KvCache::new(shape, 2).unwrap();
        let slots: Vec<(u32, u8)> = (0..70).map(|i| (i / 64, (i % 64) as u8)).collect();
        let mut vals = vals.clone();
        if let Some(broken) = broken {
            vals[40 * 64 + 35] = broken;
        }
        cache.append(&cpu, 0, &slots, &keys, &vals);
        let mut out = vec![0.0; queries.len()];
        let span = AttentionSpan { first: 0, tokens: 70, position: 0, stored: 70, blocks: &[0, 1] };
        attention(&cpu, &cache, 0, &[span], &queries, &AttentionOptions::causal(0.3), &mut out);
        out
    };
    for tier in Tier::available() {
        let want = run(tier, None);
        for broken in [f32::NAN, f32::INFINITY, f32::MAX] {
            for (i, (got, want)) in run(tier, Some(broken)).iter().zip(&want).enumerate() {
                // The other block of 32 values has a scale of its own.
                let (token, hit) = (i / 64, i % 64 >= 32);
                let right = if token >= 40 && hit { !got.is_finite() } else { got == want };
                assert!(right, "{tier:?} with {broken}: value {} of token {token} is {got}", i % 64);
            }
        }
    }
}

#[test]
fn exponentials_of_sixteen_rows_are_those_of_one_by_one_over_the_whole_range() {
    #[inline(always)]
    fn of<I: AttentionSimd>(isa: I, rows: &mut [Row; 16]) -> [[f32; 16]; 2] {
        isa.exp_scores_of_16(rows, [TileRange::WHOLE; 16])
    }
    dispatch!(fn of_on => of(rows: &mut [Row; 16]) -> [[f32; 16]; 2]);
    // Bits of the differences from a row's running maximum: every 4,097th from zero to the largest float, and infinity.
    let mut bits = (0..=f32::INFINITY.to_bits()).step_by(4097).chain([f32::INFINITY.to_bits()]).peekable();
    while bits.peek().is_some() {
        let rows: [Row; 16] = std::array::from_fn(|_| {
            let mut row = [0.0; BLOCK_TOKENS];
            row[1..].fill_with(|| -f32::from_bits(bits.next().unwrap_or(0)));
            row
        });
        let mut want = rows;
        let states = of_on(Tier::SCALAR, &mut want);
        for tier in Tier::available() {
            let mut got = rows;
            assert_eq!(of_on(tier, &mut got), states, "{}", tier.level());
            for (got, want) in got.as_flattened().iter().zip(want.as_flattened()) {
                assert_eq!(got.to_bits(), want.to_bits(), "{}", tier.level());
            }
        }
    }
}
