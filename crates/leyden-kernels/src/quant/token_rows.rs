//! Activations in 8-bit integers with one scale per 64 values, row by row, for INT8 rows
//! ([`ActFormat::Q8Block64`](crate::types::ActFormat::Q8Block64)).
//!
//! One scale for a whole token would do without a step between the sums, and loses too much: a few channels of encoders' states are far
//! greater than the others, and cost those their bits. As of other formats, a group with NaN or infinity gets a NaN scale, which reaches every
//! result, and one below 1e-30 throughout becomes zeros.

use crate::cpu::isa::Tier;
use crate::memory::aligned::Aligned;
use crate::memory::disjoint::Disjoint;
use crate::quant::quantize::quantise_group;
use crate::simd::Simd;
use crate::simd::dispatch::dispatch;
use crate::threads::pool::Pool;

/// Values that share a scale. Rows are padded with zeros to a multiple of them.
pub(crate) const GROUP: usize = 64;

/// What is added to weights to make them unsigned, and so what a sum of activations is multiplied by to take it away.
pub(crate) const ZERO_POINT: i32 = 128;

/// Values that are worth a task.
const TASK: usize = 8 << 10;

/// Quantised tokens, one after the other.
#[derive(Debug, Default)]
pub(crate) struct TokenRows {
    quants: Aligned<i8>,
    scales: Vec<f32>,
    starts: Vec<i32>,
    stride: usize,
}

/// Some of them, as a kernel reads them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens<'a> {
    /// `[token][stride]`, zeros behind a token's values.
    pub(crate) quants: &'a [i8],
    pub(crate) stride: usize,
    /// One for each group of a token, `[token][stride / 64]`.
    pub(crate) scales: &'a [f32],
    /// What accumulators begin at, for each group: the sum of its quantised values times -[`ZERO_POINT`].
    pub(crate) starts: &'a [i32],
}

impl Tokens<'_> {
    /// How many they are.
    pub(crate) fn count(&self) -> usize {
        self.quants.len() / self.stride
    }
}

impl TokenRows {
    /// Bytes of a token of `k` values.
    pub(crate) fn stride_of(k: usize) -> usize {
        k.next_multiple_of(GROUP)
    }

    /// Makes room for so many rows of `k` values.
    fn begin(&mut self, m: usize, k: usize) {
        self.stride = TokenRows::stride_of(k);
        let groups = self.stride / GROUP;
        self.quants.resize(m * self.stride);
        self.scales.resize(m * groups, 0.0);
        self.starts.resize(m * groups, 0);
    }

    /// Quantises rows of `k` values on the calling thread.
    pub(crate) fn fill_here(&mut self, tier: Tier, x: &[f32], k: usize) {
        self.begin(x.len() / k, k);
        quantise_rows(tier, x, k, &mut self.quants, &mut self.scales, &mut self.starts);
    }

    /// How many they are.
    pub(crate) fn count(&self) -> usize {
        self.quants.len() / self.stride.max(1)
    }

    /// Quantises rows of `k` values.
    pub(crate) fn fill(&mut self, tier: Tier, pool: &Pool, x: &[f32], k: usize) {
        let m = x.len() / k;
        self.begin(m, k);
        let (stride, groups) = (self.stride, self.stride / GROUP);
        let quants = Disjoint::new(&mut self.quants);
        let (scales, starts) = (Disjoint::new(&mut self.scales), Disjoint::new(&mut self.starts));
        let per_task = (TASK / k).max(1);
        let task = |t: usize| {
            let first = t * per_task;
            let n = per_task.min(m - first);
            // SAFETY: every token belongs to one task.
            let (quants, scales, starts) = unsafe {
                (
                    quants.range(first * stride, n * stride),
                    scales.range(first * groups, n * groups),
                    starts.range(first * groups, n * groups),
                )
            };
            quantise_rows(tier, &x[first * k..(first + n) * k], k, quants, scales, starts);
        };
        if m <= per_task {
            (0..m.div_ceil(per_task)).for_each(task)
        } else {
            pool.run(m.div_ceil(per_task), task)
        }
    }

    /// The tokens of a range.
    pub(crate) fn tokens(&self, range: std::ops::Range<usize>) -> Tokens<'_> {
        Tokens {
            quants: &self.quants[range.start * self.stride..range.end * self.stride],
            stride: self.stride,
            scales: &self.scales[range.start * self.stride / GROUP..range.end * self.stride / GROUP],
            starts: &self.starts[range.start * self.stride / GROUP..range.end * self.stride / GROUP],
        }
    }
}

/// Quantises a group; gives its scale and what sums with it begin at.
#[inline(always)]
fn quantise<I: Simd>(isa: I, x: &[f32; GROUP], quants: &mut [i8; GROUP]) -> (f32, i32) {
    let scale = quantise_group(isa, x, quants);
    let sum: i32 = quants.as_chunks::<16>().0.iter().map(|quants| isa.sum_codes(quants)).sum();
    (scale, -ZERO_POINT * sum)
}

#[inline(always)]
fn quantise_all<I: Simd>(
    isa: I,
    x: &[f32],
    k: usize,
    quants: &mut [i8],
    scales: &mut [f32],
    starts: &mut [i32],
) {
    let mut to = quants.as_chunks_mut::<GROUP>().0.iter_mut().zip(scales.iter_mut().zip(starts));
    for x in x.chunks_exact(k) {
        let (whole, rest) = x.as_chunks::<GROUP>();
        for (x, (quants, (scale, start))) in whole.iter().zip(&mut to) {
            (*scale, *start) = quantise(isa, x, quants);
        }
        if !rest.is_empty()
            && let Some((quants, (scale, start))) = to.next()
        {
            let mut last = [0.0; GROUP];
            last[..rest.len()].copy_from_slice(rest);
            (*scale, *start) = quantise(isa, &last, quants);
        }
    }
}

dispatch! {
    fn quantise_rows => quantise_all(
        x: &[f32],
        k: usize,
        quants: &mut [i8],
        scales: &mut [f32],
        starts: &mut [i32],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tier_and_team_quantises_rows_to_the_same_bytes() {
        for k in [1, 17, 64, 100, 384] {
            let mut x: Vec<f32> = (0..41 * k).map(|i| ((i * 7919 % 1013) as f32 - 500.0) * 0.37).collect();
            x[0] = 1e30;
            x[2 * k..3 * k].fill(0.0);
            x[3 * k] = f32::NAN;
            x[4 * k + k / 2] = f32::NEG_INFINITY;
            x[5 * k..6 * k].fill(-3.0);
            let of = |tier, members| {
                let mut rows = TokenRows::default();
                rows.fill(tier, &Pool::new(members).unwrap(), &x, k);
                rows
            };
            let want = of(Tier::SCALAR, 1);
            let (stride, groups) = (want.stride, want.stride / GROUP);
            assert_eq!((want.scales[2 * groups], want.starts[2 * groups]), (0.0, 0));
            assert!(want.scales[3 * groups].is_nan() && want.scales[4 * groups + k / 2 / GROUP].is_nan());
            assert!(want.quants[5 * stride..][..k].iter().all(|q| *q == -127));
            for (i, x) in x.chunks(k).enumerate().skip(5) {
                let quants = &want.quants[i * stride..][..stride];
                assert!(quants[k..].iter().all(|q| *q == 0), "padding");
                for (g, (x, quants)) in x.chunks(GROUP).zip(quants.chunks(GROUP)).enumerate() {
                    let (scale, start) = (want.scales[i * groups + g], want.starts[i * groups + g]);
                    let sum: i32 = quants.iter().map(|q| i32::from(*q)).sum();
                    assert_eq!(start, -ZERO_POINT * sum);
                    for (x, q) in x.iter().zip(quants) {
                        assert!((x - f32::from(*q) * scale).abs() <= 0.501 * scale);
                    }
                }
            }
            for tier in Tier::available() {
                let got = of(tier, 3);
                assert_eq!(*want.quants, *got.quants, "{}", tier.level());
                let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!((bits(&want.scales), &want.starts), (bits(&got.scales), &got.starts));
            }
        }
    }
}
