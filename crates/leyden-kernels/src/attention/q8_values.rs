//! Values (V) quantised to Q8_0: their layout in a tile, and their product with the softmax weights in integers.
//!
//! A block is 32 values of all 64 tokens: quantised values `[32 token pairs][32 values][2 tokens]`, so that one
//! instruction multiplies a pair of tokens with a pair of weights, then a scale per token. A row's weight of a token
//! times the token's scale is rounded to a 15-bit integer, relative to the largest scale that the row attends to: 250
//! times finer than the quantised values. Sums over a tile fit 32 bits, so they are exact.

use crate::attention::block::{BLOCK_TOKENS, Row};
use crate::attention::online_softmax::PvOutput;
use crate::prefetch::{prefetch, prefetch_lines};
use crate::quant::quantize::ROUND;
use crate::simd::int::{F32Simd, INTEGERS};

/// Number of values that share a scale.
pub(crate) const VALUES: usize = 32;
/// Bytes of a block's quantised values.
const CODES: usize = BLOCK_TOKENS * VALUES;
/// Bytes of a block, scales included.
pub(super) const BYTES: usize = CODES + BLOCK_TOKENS * 2;

/// Integer weights of the tokens of a tile.
pub(crate) type Weights = [i16; BLOCK_TOKENS];

/// Largest integer weight.
pub(super) const MAX_WEIGHT: f32 = i16::MAX as f32;
const _: () = assert!(BLOCK_TOKENS as i64 * i16::MAX as i64 * 127 <= i32::MAX as i64);

/// Stores the quantised values and the scale of the token at `place`.
pub(super) fn store(block: &mut [u8], place: usize, quants: &[i8; VALUES], scale: u16) {
    let (all, scales) = block.split_at_mut(CODES);
    let pair = &mut all[place / 2 * 2 * VALUES..][..2 * VALUES];
    for (to, code) in pair[place % 2..].iter_mut().step_by(2).zip(quants) {
        *to = code.cast_unsigned();
    }
    scales[place * 2..][..2].copy_from_slice(&scale.to_le_bytes());
}

/// Block of a tile.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    bytes: &'a [u8; BYTES],
    /// Same block of the next tile, prefetched while this one is read: tiles are not contiguous.
    next: &'a [u8; BYTES],
}

impl<'a> Block<'a> {
    /// Returns the blocks of a head's values in order, each with the block of the next tile.
    #[inline]
    pub(super) fn all(values: &'a [u8], next: &'a [u8]) -> impl Iterator<Item = Block<'a>> {
        let blocks = values.as_chunks::<BYTES>().0.iter().zip(next.as_chunks::<BYTES>().0);
        blocks.map(|(bytes, next)| Block { bytes, next })
    }

    /// Returns the scales of the block's tokens as half-precision bits.
    #[inline(always)]
    pub(super) fn scales(&self) -> [u16; BLOCK_TOKENS] {
        let mut halves = [0; BLOCK_TOKENS];
        for (h, bytes) in halves.iter_mut().zip(self.bytes[CODES..].as_chunks::<2>().0) {
            *h = u16::from_le_bytes(*bytes);
        }
        halves
    }
}

/// Computes a row's integer weights: weight times share, rounded to nearest even; NaN becomes zero.
#[inline(always)]
pub(crate) fn plain_weights(p: &Row, shares: &Row, out: &mut Weights) {
    for i in 0..BLOCK_TOKENS {
        let x = p[i] * shares[i];
        let x = if x > 0.0 { x } else { 0.0 };
        out[i] = (x + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i16;
    }
}

/// Vector form of [`plain_weights`].
#[inline(always)]
pub(crate) fn vector_weights<D: F32Simd>(d: D, p: &Row, shares: &Row, out: &mut Weights) {
    for i in (0..BLOCK_TOKENS).step_by(16) {
        // SAFETY: 16 floats each, and 16 integers.
        unsafe {
            let x = d.mul(d.load_floats(p[i..].as_ptr().cast()), d.load_floats(shares[i..].as_ptr().cast()));
            d.store_words(d.max(d.zeros(), x), out[i..].as_mut_ptr());
        }
    }
}

/// Computes the block's values weighted by `R` rows and summed over `tokens` tokens, times the row's unit. Writes them
/// to rows of `dim` values from `at` on, as `to` says.
#[inline(always)]
pub(crate) fn plain_pv_product<const R: usize>(
    values: Block<'_>,
    tokens: usize,
    (weights, units): (&[Weights], &[f32]),
    (at, dim): (usize, usize),
    to: &mut PvOutput<'_>,
) {
    let (out, factors) = to.parts();
    for r in 0..R {
        let mut sums = [0_i32; VALUES];
        for (t, w) in weights[r][..tokens].iter().enumerate() {
            let pair = &values.bytes[t / 2 * 2 * VALUES..][..2 * VALUES];
            for (sum, code) in sums.iter_mut().zip(pair[t % 2..].iter().step_by(2)) {
                *sum += i32::from(code.cast_signed()) * i32::from(*w);
            }
        }
        let sums = sums.map(|sum| sum as f32 * units[r]);
        let out = &mut out[r * dim + at..][..VALUES];
        match factors {
            None => out.copy_from_slice(&sums),
            Some(factors) => factors[r].merge(out, &sums),
        }
    }
}

/// Vector form of [`plain_pv_product`], for `16 * H` values from `at % 32` on.
#[inline(always)]
pub(crate) fn vector_pv_product<D: F32Simd, const R: usize, const H: usize>(
    d: D,
    values: Block<'_>,
    tokens: usize,
    (weights, units): (&[Weights], &[f32]),
    (at, dim): (usize, usize),
    to: &mut PvOutput<'_>,
) {
    let (out, factors) = to.parts();
    let first = at % VALUES;
    assert!(tokens <= BLOCK_TOKENS && weights.len() >= R && units.len() >= R);
    assert!(first.is_multiple_of(16) && first + 16 * H <= VALUES && at + 16 * H <= dim);
    assert!(out.len() >= R * dim && factors.is_none_or(|f| f.len() >= R));
    let mut sums = [[d.ints(); H]; R];
    let (mut quants, mut next) = (values.bytes.as_ptr().wrapping_add(2 * first), values.next.as_ptr());
    let mut pair = weights.as_ptr().cast::<i32>();
    assert!(pair.is_aligned(), "pairs of weights are read as one");
    for _ in 0..tokens.div_ceil(2) {
        for h in 0..H {
            // SAFETY: a block has 32 pairs of tokens, each with 32 values; the check above leaves 16 * H of them.
            let vector = unsafe { d.code_pairs(quants.wrapping_add(32 * h)) };
            for r in 0..R {
                // SAFETY: weights has R rows of 32 pairs, at addresses checked to be multiples of 4.
                sums[r][h] =
                    unsafe { d.add_pairs(sums[r][h], vector, pair.wrapping_add(r * BLOCK_TOKENS / 2)) };
            }
        }
        prefetch(next);
        quants = quants.wrapping_add(2 * VALUES);
        next = next.wrapping_add(2 * VALUES);
        pair = pair.wrapping_add(1);
    }
    // All cache lines of the next tile's scales, which are read first; no hardware prefetcher predicts them.
    prefetch_lines(&values.next[CODES..]);
    for r in 0..R {
        let out = out.as_mut_ptr().wrapping_add(r * dim + at);
        for h in 0..H {
            // SAFETY: one readable float; out holds R rows of dim values.
            unsafe {
                let values = d.mul(d.floats::<INTEGERS>(sums[r][h]), d.splat(&raw const units[r]));
                crate::attention::scores::write(d, values, factors.map(|f| &f[r]), out.wrapping_add(16 * h));
            }
        }
    }
}
