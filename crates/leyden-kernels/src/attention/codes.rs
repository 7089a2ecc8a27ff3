//! Quantised values: how they lie in a tile, and how they are weighted in integers.
//!
//! A block is 32 values of all 64 tokens: codes `[32 token pairs][32 values][2 tokens]`, so that one instruction
//! multiplies a pair of tokens with a pair of weights, then a scale for each token. For each row a token's weight times
//! its scale becomes an integer of 15 bits, its share of the largest scale that the row sees: two hundred and fifty
//! times finer than the codes that it is multiplied by. Sums of a whole tile fit 32 bits, so they are exact.

use super::cache::BLOCK_TOKENS;
use super::loops::{Row, Seen};
use super::merge::Destination;
use crate::isa::dot::{INTEGERS, Whole};
use crate::isa::{Isa, prefetch, prefetch_lines};
use crate::quantise::ROUND;

/// Values that share a scale.
pub(crate) const VALUES: usize = 32;
/// Bytes of a block's codes.
const CODES: usize = BLOCK_TOKENS * VALUES;
/// Bytes of a block.
pub(super) const BYTES: usize = CODES + BLOCK_TOKENS * 2;

/// Weights of the tokens of a tile.
pub(crate) type Weights = [i16; BLOCK_TOKENS];

/// The largest weight.
const MOST: f32 = i16::MAX as f32;
const _: () = assert!(BLOCK_TOKENS as i64 * i16::MAX as i64 * 127 <= i32::MAX as i64);

/// Stores codes and scale of the token at `place`.
pub(super) fn store(block: &mut [u8], place: usize, codes: &[i8; VALUES], scale: u16) {
    let (all, scales) = block.split_at_mut(CODES);
    let pair = &mut all[place / 2 * 2 * VALUES..][..2 * VALUES];
    for (to, code) in pair[place % 2..].iter_mut().step_by(2).zip(codes) {
        *to = code.cast_unsigned();
    }
    scales[place * 2..][..2].copy_from_slice(&scale.to_le_bytes());
}

/// One block.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    bytes: &'a [u8; BYTES],
    /// The same block of the next tile, which lies anywhere: it is asked for while this one is read.
    next: &'a [u8; BYTES],
}

impl<'a> Block<'a> {
    /// Block after block of a head's values and of those of the next tile.
    pub(super) fn all(values: &'a [u8], next: &'a [u8]) -> impl Iterator<Item = Block<'a>> {
        let blocks = values.as_chunks::<BYTES>().0.iter().zip(next.as_chunks::<BYTES>().0);
        blocks.map(|(bytes, next)| Block { bytes, next })
    }

    /// For a row that sees such tokens: what each token's weight, at most one, is multiplied by to become an integer,
    /// and what such an integer times a code stands for. Tokens that the row does not see have no part in the latter.
    /// It is no number where a scale is none.
    #[inline(always)]
    pub(super) fn shares<I: Isa>(&self, isa: I, seen: Seen) -> (Row, f32) {
        let mut halves = [0; BLOCK_TOKENS];
        for (h, bytes) in halves.iter_mut().zip(self.bytes[CODES..].as_chunks::<2>().0) {
            *h = u16::from_le_bytes(*bytes);
        }
        // Halves that are not negative order like their bits, NaN above all.
        let largest = halves[seen.first.min(seen.end)..seen.end].iter().fold(0, |a: u16, b| a.max(*b));
        let largest = isa.f16_to_f32(&[largest; 16])[0];
        let inverse = if largest > 0.0 { MOST / largest } else { 0.0 };
        let mut shares = [0.0; BLOCK_TOKENS];
        for (x, h) in shares.as_chunks_mut::<16>().0.iter_mut().zip(halves.as_chunks::<16>().0) {
            *x = isa.scaled(&isa.f16_to_f32(h), inverse);
        }
        (shares, largest / MOST)
    }
}

/// Weights of a row's tokens as integers: weight times share, rounded to nearest even; what is no number becomes zero.
#[inline(always)]
pub(crate) fn plain_weights(p: &Row, shares: &Row, out: &mut Weights) {
    for i in 0..BLOCK_TOKENS {
        let x = p[i] * shares[i];
        let x = if x > 0.0 { x } else { 0.0 };
        out[i] = (x + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i16;
    }
}

/// As [`plain_weights`].
#[inline(always)]
pub(crate) fn vector_weights<D: Whole>(d: D, p: &Row, shares: &Row, out: &mut Weights) {
    for i in (0..BLOCK_TOKENS).step_by(16) {
        // SAFETY: sixteen floats each, and sixteen integers.
        unsafe {
            let x = d.mul(d.load_floats(p[i..].as_ptr().cast()), d.load_floats(shares[i..].as_ptr().cast()));
            d.store_words(d.max(d.zeros(), x), out[i..].as_mut_ptr());
        }
    }
}

/// A block's values weighted by `R` rows, of which each has a unit, summed over `tokens` tokens, times the unit, into
/// rows of `dim` values from `at` on, as [`Destination`] says.
#[inline(always)]
pub(crate) fn plain_weigh<const R: usize>(
    values: Block<'_>,
    tokens: usize,
    (weights, units): (&[Weights], &[f32]),
    (at, dim): (usize, usize),
    to: &mut Destination<'_>,
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

/// As [`plain_weigh`], of `H` times 16 values from `at % 32` on.
#[inline(always)]
pub(crate) fn vector_weigh<D: Whole, const R: usize, const H: usize>(
    d: D,
    values: Block<'_>,
    tokens: usize,
    (weights, units): (&[Weights], &[f32]),
    (at, dim): (usize, usize),
    to: &mut Destination<'_>,
) {
    let (out, factors) = to.parts();
    let first = at % VALUES;
    assert!(tokens <= BLOCK_TOKENS && weights.len() >= R && units.len() >= R);
    assert!(first.is_multiple_of(16) && first + 16 * H <= VALUES && at + 16 * H <= dim);
    assert!(out.len() >= R * dim && factors.is_none_or(|f| f.len() >= R));
    let mut sums = [[d.ints(); H]; R];
    let (mut codes, mut next) = (values.bytes.as_ptr().wrapping_add(2 * first), values.next.as_ptr());
    let mut pair = weights.as_ptr().cast::<i32>();
    assert!(pair.is_aligned(), "pairs of weights are read as one");
    for _ in 0..tokens.div_ceil(2) {
        for h in 0..H {
            // SAFETY: a block has 32 pairs of tokens, each with 32 values, of which the check left 16 * H.
            let vector = unsafe { d.code_pairs(codes.wrapping_add(32 * h)) };
            for r in 0..R {
                // SAFETY: weights has R rows of 32 pairs, at addresses that were seen to be multiples of four.
                sums[r][h] =
                    unsafe { d.add_pairs(sums[r][h], vector, pair.wrapping_add(r * BLOCK_TOKENS / 2)) };
            }
        }
        prefetch(next);
        codes = codes.wrapping_add(2 * VALUES);
        next = next.wrapping_add(2 * VALUES);
        pair = pair.wrapping_add(1);
    }
    // Every line of the scales: they are the first that the next tile reads, and nothing foresees them.
    prefetch_lines(&values.next[CODES..]);
    for r in 0..R {
        let out = out.as_mut_ptr().wrapping_add(r * dim + at);
        for h in 0..H {
            // SAFETY: one readable float; out holds R rows of dim values.
            unsafe {
                let values = d.mul(d.floats::<INTEGERS>(sums[r][h]), d.splat(&raw const units[r]));
                super::loops::write(d, values, factors.map(|f| &f[r]), out.wrapping_add(16 * h));
            }
        }
    }
}
