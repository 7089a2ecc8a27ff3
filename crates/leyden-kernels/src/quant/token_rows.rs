//! Activations in 8-bit integers for INT8 rows ([`ActFormat::Q8Token`](crate::types::ActFormat::Q8Token)): a token has
//! one scale for its outlier channels, and one for all others.
//!
//! A few channels of an encoder's hidden states are far greater than the others (Dettmers et al., LLM.int8(), 2022).
//! With a single scale they would take precision from the others, which loses more than a scale per 64 values does; two
//! scales lose less than that. They are the same channels for every token ([`OutlierChannels`]).
//!
//! As in other formats, values that share a scale and include a NaN or an infinity get a NaN scale, which makes every
//! result NaN, and values below 1e-30 throughout become zeros.

use crate::cpu::isa::Tier;
use crate::memory::aligned::Aligned;
use crate::memory::disjoint::Disjoint;
use crate::quant::quantize::{GREATEST, codes_of, codes_of_all, quantise_values, scale_of};
use crate::simd::Simd;
use crate::simd::dispatch::dispatch;
use crate::threads::pool::Pool;
use crate::types::{OUTLIERS, OutlierChannels, places_of};

/// Zero point that makes weights unsigned; its product with the sum of activations is subtracted from results.
pub(crate) const ZERO_POINT: i32 = 128;

/// Number of values per task.
const TASK: usize = 8 << 10;

/// Orders a row as it is quantised and multiplied, padded with zeros: the definition.
#[cfg(test)]
pub(crate) fn arrange(x: &[f32], outliers: &OutlierChannels, places: &mut [f32]) {
    let (main, last) = x.split_at(x.len().saturating_sub(OUTLIERS));
    let first = places.len() - OUTLIERS;
    places[..main.len()].copy_from_slice(main);
    places[main.len()..first].fill(0.0);
    places[first..first + last.len()].copy_from_slice(last);
    places[first + last.len()..].fill(0.0);
    for (a, b) in outliers.swaps(x.len()) {
        places.swap(a, b);
    }
}

/// Quantised tokens, one after the other.
#[derive(Debug, Default)]
pub(crate) struct TokenRows {
    quants: Aligned<i8>,
    /// Quantised values plus [`ZERO_POINT`], in rows of whole cache lines.
    unsigned: Aligned<u8>,
    /// Rows in steps for matrix registers; empty on tiers without them.
    steps: Aligned<i8>,
    scales: Vec<f32>,
    starts: Vec<i32>,
    stride: usize,
    segments: [usize; 2],
}

/// Range of quantised tokens, as kernels read them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens<'a> {
    /// Quantised values, `[token][stride]`; the last token may end after its depth.
    pub(crate) quants: &'a [i8],
    pub(crate) stride: usize,
    /// Lengths of consecutive segments that share a scale, in units of four values.
    pub(crate) segments: &'a [usize],
    /// Scales, `[token][segment]`.
    pub(crate) scales: &'a [f32],
    /// Initial values of accumulators, `[token][segment]`: the segment's sum of quantised values times -[`ZERO_POINT`].
    pub(crate) starts: &'a [i32],
}

impl Tokens<'_> {
    /// Returns the number of tokens.
    pub(crate) fn count(&self) -> usize {
        self.quants.len().div_ceil(self.stride)
    }

    /// Returns the number of values of a token.
    pub(crate) fn depth(&self) -> usize {
        4 * self.segments.iter().sum::<usize>()
    }
}

/// Quantised tokens as unsigned bytes, `[token][stride]`: [`ZERO_POINT`] is added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnsignedTokens<'a> {
    pub(crate) quants: &'a [u8],
    /// Whole cache lines; values after a token's depth are arbitrary.
    pub(crate) stride: usize,
}

/// Main segments of quantised tokens for matrix registers, `[token][step][STEP]`. A step has as many consecutive places; the
/// last one ends at the row's last place, so it may begin before the end of the step before it. Places that a step does
/// not count, outlier channels among them, are zeros.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepTokens<'a> {
    /// Rows of the tokens, followed by those of others, or zeros, up to a multiple of [`STEP_TOKENS`].
    pub(crate) quants: &'a [i8],
    pub(crate) stride: usize,
}

/// Number of places of a step.
pub(crate) const STEP: usize = 64;

/// Number of tokens of a matrix register.
pub(crate) const STEP_TOKENS: usize = 16;

/// Returns the number of steps of the main segment of a row of `depth` places.
pub(crate) fn main_steps(depth: usize) -> usize {
    (depth - OUTLIERS).div_ceil(STEP)
}

/// Returns the first place of a step of the main segment of a row of `depth` places.
#[inline(always)]
pub(crate) fn step_place(i: usize, depth: usize) -> usize {
    (i * STEP).min(depth - STEP)
}

/// Returns the bytes of a row of `depth` places in steps; 0 if it is shorter than a step.
fn steps_stride(depth: usize) -> usize {
    if depth < STEP { 0 } else { main_steps(depth) * STEP }
}

/// Places of a step, and which of them it counts.
struct StepPlaces {
    first: usize,
    /// All bits of a place that is counted, or none.
    counted: [i8; STEP],
}

/// Returns the steps of a row of `depth` places; none if it is shorter than one.
fn steps_of(depth: usize) -> Vec<StepPlaces> {
    if depth < STEP {
        return Vec::new();
    }
    let main = depth - OUTLIERS;
    let of_step = |i: usize| {
        let (first, places) = (step_place(i, depth), i * STEP..main);
        let counted = std::array::from_fn(|j| if places.contains(&(first + j)) { -1 } else { 0 });
        StepPlaces { first, counted }
    };
    (0..main_steps(depth)).map(of_step).collect()
}

/// Writes a row in steps.
#[inline(always)]
fn write_steps(quants: &[i8], places: &[StepPlaces], steps: &mut [i8]) {
    for (places, step) in places.iter().zip(steps.as_chunks_mut::<STEP>().0) {
        let own: &[i8; STEP] = quants[places.first..].first_chunk().expect("a whole step");
        for i in 0..STEP {
            step[i] = own[i] & places.counted[i];
        }
    }
}

/// Returns the bytes of a row of `k` unsigned values.
pub(crate) fn unsigned_stride(k: usize) -> usize {
    places_of(k).next_multiple_of(LINE)
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// Destination of quantised rows.
struct Quantised<'a> {
    quants: &'a mut [i8],
    unsigned: &'a mut [u8],
    /// Rows in steps; empty if there are none.
    steps: &'a mut [i8],
    scales: &'a mut [f32],
    starts: &'a mut [i32],
}

impl TokenRows {
    /// Makes room for `m` rows of `k` values.
    fn begin(&mut self, tier: Tier, m: usize, k: usize) {
        self.stride = places_of(k);
        let in_steps = if tier.level().matrices() { steps_stride(self.stride) } else { 0 };
        self.steps.resize(m.next_multiple_of(STEP_TOKENS) * in_steps);
        self.unsigned.resize(m * unsigned_stride(k));
        self.segments = [(self.stride - OUTLIERS) / 4, OUTLIERS / 4];
        self.quants.resize(m * self.stride);
        self.scales.resize(m * 2, 0.0);
        self.starts.resize(m * 2, 0);
    }

    /// Quantises rows of `k` values on the calling thread.
    pub(crate) fn fill_here(&mut self, tier: Tier, x: &[f32], k: usize, outliers: OutlierChannels) {
        self.begin(tier, x.len() / k, k);
        let mut to = Quantised {
            quants: &mut self.quants,
            unsigned: &mut self.unsigned,
            steps: &mut self.steps,
            scales: &mut self.scales,
            starts: &mut self.starts,
        };
        quantise_rows(tier, x, k, &Places::new(k, &outliers), &mut to);
    }

    /// Returns the number of rows.
    pub(crate) fn count(&self) -> usize {
        self.quants.len() / self.stride.max(1)
    }

    /// Returns the number of values of a row, padded.
    pub(crate) fn depth(&self) -> usize {
        self.stride
    }

    /// Quantises rows of `k` values in parallel.
    pub(crate) fn fill(&mut self, tier: Tier, pool: &Pool, x: &[f32], k: usize, outliers: OutlierChannels) {
        let m = x.len() / k;
        self.begin(tier, m, k);
        let stride = self.stride;
        let in_steps = if self.steps.is_empty() { 0 } else { steps_stride(stride) };
        let (quants, unsigned) = (Disjoint::new(&mut self.quants), Disjoint::new(&mut self.unsigned));
        let steps = Disjoint::new(&mut self.steps);
        let line = unsigned_stride(k);
        let (scales, starts) = (Disjoint::new(&mut self.scales), Disjoint::new(&mut self.starts));
        let (per_task, places) = ((TASK / k).max(1), Places::new(k, &outliers));
        let task = |t: usize| {
            let first = t * per_task;
            let n = per_task.min(m - first);
            // SAFETY: every token belongs to one task.
            let mut to = unsafe {
                Quantised {
                    quants: quants.range(first * stride, n * stride),
                    unsigned: unsigned.range(first * line, n * line),
                    steps: steps.range(first * in_steps, n * in_steps),
                    scales: scales.range(first * 2, n * 2),
                    starts: starts.range(first * 2, n * 2),
                }
            };
            quantise_rows(tier, &x[first * k..(first + n) * k], k, &places, &mut to);
        };
        if m <= per_task {
            (0..m.div_ceil(per_task)).for_each(task)
        } else {
            pool.run(m.div_ceil(per_task), task)
        }
    }

    /// Returns a range of tokens as unsigned bytes.
    pub(crate) fn unsigned(&self, range: std::ops::Range<usize>) -> UnsignedTokens<'_> {
        let stride = self.stride.next_multiple_of(LINE);
        UnsignedTokens { quants: &self.unsigned[range.start * stride..range.end * stride], stride }
    }

    /// Returns a range of tokens in steps, whose first is a multiple of [`STEP_TOKENS`]; `None` on tiers without matrix
    /// registers, or if a row is shorter than a step.
    pub(crate) fn steps(&self, range: std::ops::Range<usize>) -> Option<StepTokens<'_>> {
        let stride = steps_stride(self.stride);
        let end = range.end.next_multiple_of(STEP_TOKENS) * stride;
        let whole = !self.steps.is_empty() && range.start.is_multiple_of(STEP_TOKENS);
        whole.then(|| StepTokens { quants: &self.steps[range.start * stride..end], stride })
    }

    /// Returns a range of tokens.
    pub(crate) fn tokens(&self, range: std::ops::Range<usize>) -> Tokens<'_> {
        Tokens {
            quants: &self.quants[range.start * self.stride..range.end * self.stride],
            stride: self.stride,
            segments: &self.segments,
            scales: &self.scales[range.start * 2..range.end * 2],
            starts: &self.starts[range.start * 2..range.end * 2],
        }
    }
}

/// Quantises values that share a scale; returns the scale and the accumulators' initial value.
#[inline(always)]
pub(crate) fn quantise_segment<I: Simd>(isa: I, x: &[f32], quants: &mut [i8]) -> (f32, i32) {
    let scale = quantise_values(isa, x, quants);
    (scale, -ZERO_POINT * isa.sum_all_codes(quants))
}

/// Order of the channels in quantised rows.
struct Places {
    /// Bit mask per channel: all bits but the sign, or none for an outlier.
    main: Vec<u32>,
    /// Channels at the end of a row.
    last: Vec<usize>,
    /// Channels that take the place of an outlier: that place, and the channel.
    moved: Vec<(usize, usize)>,
    /// Steps of a row.
    steps: Vec<StepPlaces>,
}

impl Places {
    fn new(k: usize, outliers: &OutlierChannels) -> Places {
        let (end, first) = (k.saturating_sub(OUTLIERS), places_of(k) - OUTLIERS);
        let (mut last, mut moved): (Vec<usize>, _) = ((end..k).collect(), Vec::new());
        for (outlier, place) in outliers.swaps(k) {
            moved.push((outlier, end + place - first));
            last[place - first] = outlier;
        }
        let mut main = vec![0x7fff_ffff; k];
        last.iter().for_each(|c| main[*c] = 0);
        Places { main, last, moved, steps: steps_of(places_of(k)) }
    }
}

/// Returns the greatest magnitude of the channels that are not outliers.
#[inline(always)]
fn greatest_of_main<I: Simd>(isa: I, x: &[f32], mask: &[u32]) -> f32 {
    let whole = x.len() / 16 * 16;
    let rest = x[whole..].iter().zip(&mask[whole..]).map(|(x, mask)| x.to_bits() & mask);
    f32::from_bits(rest.fold(isa.greatest_masked(x, mask), u32::max))
}

#[inline(always)]
fn quantise_all<I: Simd>(isa: I, x: &[f32], k: usize, places: &Places, to: &mut Quantised<'_>) {
    let (end, stride) = (k.saturating_sub(OUTLIERS), places_of(k));
    let of_token = to.scales.as_chunks_mut::<2>().0.iter_mut().zip(to.starts.as_chunks_mut::<2>().0);
    let rows = to.quants.chunks_exact_mut(stride).zip(to.unsigned.chunks_exact_mut(unsigned_stride(k)));
    for (i, ((x, (quants, unsigned)), (scales, starts))) in
        x.chunks_exact(k).zip(rows).zip(of_token).enumerate()
    {
        let (main, last) = quants.split_at_mut(stride - OUTLIERS);
        let inverse;
        (scales[0], inverse) = scale_of(greatest_of_main(isa, x, &places.main), GREATEST);
        let whole = end / 16 * 16;
        codes_of_all(&x[..whole], inverse, &mut main[..whole]);
        if let Some(to) = main[whole..].first_chunk_mut() {
            let mut values = [0.0; 16];
            values[..end - whole].copy_from_slice(&x[whole..end]);
            *to = codes_of(&values, inverse);
        }
        // Quantised outliers are replaced by the channels that take their places.
        for (place, own) in &places.moved {
            [main[*place]] = codes_of(&[x[*own]], inverse);
        }
        starts[0] = -ZERO_POINT * isa.sum_all_codes(main);
        let mut outliers = [0.0; OUTLIERS];
        for (to, c) in outliers.iter_mut().zip(&places.last) {
            *to = x[*c];
        }
        (scales[1], starts[1]) = quantise_segment(isa, &outliers, last);
        for (to, quant) in unsigned.iter_mut().zip(quants.iter()) {
            *to = *quant as u8 ^ ZERO_POINT as u8;
        }
        if !to.steps.is_empty() {
            let row = steps_stride(stride);
            write_steps(quants, &places.steps, &mut to.steps[i * row..][..row]);
        }
    }
}

dispatch! {
    fn quantise_rows => quantise_all(x: &[f32], k: usize, places: &Places, to: &mut Quantised<'_>)
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
            let magnitudes: Vec<f64> = (0..k).map(|c| (c * 31 % 17) as f64).collect();
            let outliers = OutlierChannels::of(&magnitudes);
            let of = |tier, members| {
                let mut rows = TokenRows::default();
                rows.fill(tier, &Pool::new(members).unwrap(), &x, k, outliers);
                rows
            };
            let want = of(Tier::SCALAR, 1);
            let stride = want.stride;
            assert_eq!(want.scales[4..6], [0.0; 2]);
            assert!(
                want.scales[6..8].iter().any(|s| s.is_nan()) && want.scales[8..10].iter().any(|s| s.is_nan())
            );
            assert_eq!(want.quants[5 * stride..][..stride].iter().filter(|q| **q == -127).count(), k);
            let mut places = vec![0.0; stride];
            for (i, x) in x.chunks(k).enumerate().skip(5) {
                arrange(x, &outliers, &mut places);
                let quants = &want.quants[i * stride..][..stride];
                for (s, values) in [0..stride - OUTLIERS, stride - OUTLIERS..stride].into_iter().enumerate() {
                    let (scale, start) = (want.scales[2 * i + s], want.starts[2 * i + s]);
                    let sum: i32 = quants[values.clone()].iter().map(|q| i32::from(*q)).sum();
                    assert_eq!(start, -ZERO_POINT * sum);
                    for (x, q) in places[values.clone()].iter().zip(&quants[values]) {
                        assert!((x - f32::from(*q) * scale).abs() <= 0.501 * scale);
                    }
                }
            }
            for tier in Tier::available() {
                let got = of(tier, 3);
                assert_eq!(*want.quants, *got.quants, "{}", tier.level());
                let unsigned = got.unsigned(0..41);
                for (row, quants) in unsigned.quants.chunks(unsigned.stride).zip(got.quants.chunks(stride)) {
                    let back: Vec<i8> = row[..stride].iter().map(|q| (*q ^ 0x80) as i8).collect();
                    assert_eq!(back, quants, "unsigned on {}", tier.level());
                }
                let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!((bits(&want.scales), &want.starts), (bits(&got.scales), &got.starts));
            }
        }
    }

    #[test]
    fn outlier_channels_stand_last_and_every_channel_once() {
        for k in [16, 17, 40, 64] {
            let magnitudes: Vec<f64> =
                (0..k).map(|c| if c % 3 == 0 { 9.0 } else { c as f64 / 100.0 }).collect();
            let outliers = OutlierChannels::of(&magnitudes);
            let mut want: Vec<usize> = (0..k).collect();
            want.sort_by(|a, b| magnitudes[*b].total_cmp(&magnitudes[*a]));
            want.truncate(OUTLIERS);
            want.sort_unstable();
            let x: Vec<f32> = (1..=k).map(|c| c as f32).collect();
            let mut places = vec![0.0; places_of(k)];
            arrange(&x, &outliers, &mut places);
            let mut last: Vec<usize> =
                places[places_of(k) - OUTLIERS..].iter().map(|c| *c as usize - 1).collect();
            last.sort_unstable();
            assert_eq!(last, want);
            let mut all: Vec<f32> = places.iter().copied().filter(|c| *c != 0.0).collect();
            all.sort_by(f32::total_cmp);
            assert_eq!(all, x);
        }
        assert_eq!(OutlierChannels::of(&[1.0; 7]), OutlierChannels::default());
    }
}
