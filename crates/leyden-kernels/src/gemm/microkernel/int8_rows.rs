//! INT8 rows: weights with one scale per output row times activations with one scale per 64 values of a token.
//!
//! The sums of 64 products are 32-bit integers and exact, so every instruction set gives the same, and what follows them is written
//! once. Weights are kept unsigned, [`ZERO_POINT`](crate::quant::token_rows::ZERO_POINT) more than they are, because `VPDPBUSD` multiplies
//! unsigned bytes with signed ones; what that adds to a sum its accumulator begins at, negated (`quant::token_rows`). Nothing saturates: no
//! instruction that could is used on values that might.
//!
//! A result begins at zero, to which each sum times its scale is added in turn with one rounding; it is multiplied by the row's scale, and
//! the bias added, with one rounding; then comes the function, if any.

use crate::cpu::isa::{Level, Tier};
use crate::gemm::microkernel::byte_dot::ByteDot;
use crate::ops::{Activation, Function, Lanes, with_function};
use crate::prefetch::prefetch_lines;
use crate::quant::token_rows::{GROUP, Tokens};
use crate::types::PANEL_ROWS;

/// Rows of a group, which is what a matrix is packed by: four panels, so that a token's results are whole cache lines one behind the other. A group begins with a
/// float for each row, their scales; behind them lie the weights, `[depth / 4][64 rows][4]`.
pub(crate) const GROUP_ROWS: usize = PANELS * PANEL_ROWS;

/// Bytes of the scales.
pub(crate) const SCALES_BYTES: usize = 4 * GROUP_ROWS;

/// Bytes of four values of the depth.
const STEP_BYTES: usize = 4 * GROUP_ROWS;

/// The most tokens that any instruction set multiplies together.
pub(crate) const MAX_TOKENS: usize = 6;
/// Panels of a group.
const PANELS: usize = 4;

/// Some groups of a matrix, some tokens, and what becomes of their products.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a> {
    /// Whole groups, one behind the other.
    pub(crate) groups: &'a [u8],
    pub(crate) group_bytes: usize,
    /// What the thread likely reads next, prefetched on the way.
    pub(crate) next: &'a [u8],
    pub(crate) tokens: Tokens<'a>,
    /// One for each row of the matrix that the groups hold.
    pub(crate) bias: Option<&'a [f32]>,
    /// Applied before results are written.
    pub(crate) activation: Option<Activation>,
    /// Whether results are added to what is there.
    pub(crate) add: bool,
}

/// Where results go: rows of `n` values for each token, `stride` apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Results {
    pub(crate) first: *mut f32,
    pub(crate) n: usize,
    pub(crate) stride: usize,
}

/// Multiplies a block.
///
/// # Safety
/// The processor supports the tier that the function belongs to; the groups are whole, of the tokens' depth, and hold `n` rows; results have
/// room for each token, and nobody else has it.
pub(crate) type BlockFn = unsafe fn(block: &Block<'_>, to: Results);

/// Results of one tile: `[token][panel]`.
#[repr(align(64))]
struct TileResults([[Lanes; PANELS]; MAX_TOKENS]);

/// The sums of `M` tokens from `t` on and `P` panels from `p` on of a group, as floats.
///
/// # Safety
/// The group and the tokens are there.
#[inline(always)]
unsafe fn tile<D: ByteDot, const M: usize, const P: usize>(
    d: D,
    (group, p): (&[u8], usize),
    (tokens, t): (Tokens<'_>, usize),
    out: &mut TileResults,
) {
    let (stride, groups) = (tokens.stride, tokens.stride / GROUP);
    let mut after = [0; M];
    let mut totals = [[d.zero(); P]; M];
    for m in 0..M {
        after[m] = m * stride;
        out.0[m][p..p + P].fill([0.0; PANEL_ROWS]);
    }
    let (scales, starts) = (&tokens.scales[t * groups..], &tokens.starts[t * groups..]);
    assert!(scales.len() >= M * groups && starts.len() >= M * groups, "scales of tokens");
    // SAFETY: a whole group of the tokens' depth (`# Safety`), which is that of a row of `quants`; scales were counted above.
    unsafe {
        let mut w = group.as_ptr().add(SCALES_BYTES + p * 4 * PANEL_ROWS);
        let mut a = tokens.quants.as_ptr().add(t * stride);
        for g in 0..groups {
            let mut acc = [[d.begin(0); P]; M];
            for m in 0..M {
                acc[m] = [d.begin(*starts.get_unchecked(m * groups + g)); P];
            }
            for _ in 0..GROUP / 4 {
                let mut weights = [d.weights(w); P];
                for q in 1..P {
                    weights[q] = d.weights(w.add(q * 4 * PANEL_ROWS));
                }
                for m in 0..M {
                    let word = d.word(a.add(after[m]));
                    for q in 0..P {
                        acc[m][q] = d.dot(acc[m][q], weights[q], word);
                    }
                }
                w = w.add(STEP_BYTES);
                a = a.add(4);
            }
            for m in 0..M {
                let scale = *scales.get_unchecked(m * groups + g);
                for q in 0..P {
                    totals[m][q] = d.add_scaled(acc[m][q], scale, totals[m][q], &raw mut out.0[m][p + q]);
                }
            }
        }
        for m in 0..M {
            for q in 0..P {
                d.store(totals[m][q], &raw mut out.0[m][p + q]);
            }
        }
    }
}

#[inline(always)]
fn apply_to<F: Function>(sums: &mut TileResults, m: usize) {
    for y in sums.0[..m].as_flattened_mut() {
        let y = one_by_one(y);
        *y = F::of(&{ *y });
    }
}

/// The same, of which the compiler knows no more than its address: it would else compute sixteen vectors at once, each of a lane of all, and
/// gather and scatter them.
#[inline(always)]
fn one_by_one<T>(y: &mut T) -> &mut T {
    std::hint::black_box(y)
}

/// Scales the sums of `m` tokens from `t` on and group `g`, and writes them.
///
/// # Safety
/// As of [`BlockFn`].
#[inline(always)]
unsafe fn finish(b: &Block<'_>, g: usize, (t, m): (usize, usize), sums: &mut TileResults, to: Results) {
    let scales = &b.groups[g * b.group_bytes..][..SCALES_BYTES];
    let (mut row, mut bias) = ([[0.0; PANEL_ROWS]; PANELS], [[0.0; PANEL_ROWS]; PANELS]);
    for (row, bytes) in row.as_flattened_mut().iter_mut().zip(scales.as_chunks::<4>().0) {
        *row = f32::from_le_bytes(*bytes);
    }
    if let Some(all) = b.bias.and_then(|bias| bias.get(g * GROUP_ROWS..)) {
        let n = all.len().min(GROUP_ROWS);
        bias.as_flattened_mut()[..n].copy_from_slice(&all[..n]);
    }
    for (i, y) in sums.0[..m].as_flattened_mut().iter_mut().enumerate() {
        let (row, bias) = (row[i % PANELS], bias[i % PANELS]);
        let y = one_by_one(y);
        let mut scaled = *y;
        for j in 0..PANEL_ROWS {
            scaled[j] = scaled[j].mul_add(row[j], bias[j]);
        }
        *y = scaled;
    }
    if let Some(activation) = b.activation {
        with_function!(activation, F => apply_to::<F>(sums, m));
    }
    let n = GROUP_ROWS.min(to.n - g * GROUP_ROWS);
    for i in 0..m {
        // SAFETY: this token's results of these rows are there and ours (`# Safety`).
        let out =
            unsafe { std::slice::from_raw_parts_mut(to.first.add((t + i) * to.stride + g * GROUP_ROWS), n) };
        let y = &sums.0[i];
        let (whole, rest) = out.as_chunks_mut::<PANEL_ROWS>();
        let last = y[whole.len().min(PANELS - 1)];
        for (out, y) in whole.iter_mut().zip(y) {
            let out = one_by_one(out);
            let mut sum = *y;
            if b.add {
                let before = *out;
                for j in 0..PANEL_ROWS {
                    sum[j] += before[j];
                }
            }
            *out = sum;
        }
        for (out, y) in rest.iter_mut().zip(&last) {
            *out = if b.add { *out + y } else { *y };
        }
    }
}

/// Runs the tile of as many tokens as there are.
macro_rules! tile_of {
    ($d:ident, $D:ident, $m:expr, $args:tt, [$($M:literal)*]) => {
        match $m {
            $($M if $M <= $D::TOKENS => tile_of!(@ $d, $D, $M, $args),)*
            _ => {}
        }
    };
    (@ $d:ident, $D:ident, $M:literal, ($($arg:expr),*)) => {
        if $D::PANELS == 1 {
            tile::<$D, $M, 1>($d, $($arg),*)
        } else {
            tile::<$D, $M, 2>($d, $($arg),*)
        }
    };
}

/// [`BlockFn`] over the products of one instruction set: groups one after the other, each with all tokens.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn block<D: ByteDot>(d: D, b: &Block<'_>, to: Results) {
    const { assert!(D::TOKENS <= MAX_TOKENS && D::PANELS <= 2) };
    let tokens = b.tokens.count();
    // As few tiles as there can be, and all of about one size.
    let tiles = tokens.div_ceil(D::TOKENS);
    let mut sums = TileResults([[[0.0; PANEL_ROWS]; PANELS]; MAX_TOKENS]);
    for (g, group) in b.groups.chunks_exact(b.group_bytes).enumerate() {
        let next = b.groups.chunks_exact(b.group_bytes).nth(g + 1).unwrap_or(b.next);
        let share = next.len().div_ceil(tiles.max(1)).next_multiple_of(64);
        for i in 0..tiles {
            prefetch_lines(next.get(i * share..).map_or(&[], |rest| &rest[..share.min(rest.len())]));
            let (t, end) = (tokens * i / tiles, tokens * (i + 1) / tiles);
            // SAFETY: there are such groups and tokens, and what they need (`# Safety`).
            unsafe {
                for p in (0..PANELS).step_by(D::PANELS) {
                    tile_of!(d, D, end - t, ((group, p), (b.tokens, t), &mut sums), [1 2 3 4 5 6]);
                }
                finish(b, g, (t, end - t), &mut sums, to);
            }
        }
    }
}

/// The definition.
#[derive(Clone, Copy)]
struct Plain;

impl ByteDot for Plain {
    type Weights = [[u8; 4]; PANEL_ROWS];
    type Word = [i8; 4];
    type Acc = [i32; PANEL_ROWS];
    type Total = ();
    const TOKENS: usize = 1;
    const PANELS: usize = 1;

    #[inline(always)]
    fn begin(self, start: i32) -> Self::Acc {
        [start; PANEL_ROWS]
    }
    #[inline(always)]
    fn zero(self) {}
    #[inline(always)]
    unsafe fn weights(self, p: *const u8) -> Self::Weights {
        // SAFETY: 64 bytes (`# Safety`).
        unsafe { p.cast::<Self::Weights>().read() }
    }
    #[inline(always)]
    unsafe fn word(self, p: *const i8) -> [i8; 4] {
        // SAFETY: four bytes (`# Safety`).
        unsafe { p.cast::<[i8; 4]>().read() }
    }
    #[inline(always)]
    fn dot(self, mut acc: Self::Acc, weights: Self::Weights, word: [i8; 4]) -> Self::Acc {
        for (acc, weights) in acc.iter_mut().zip(&weights) {
            for (w, a) in weights.iter().zip(word) {
                *acc = acc.wrapping_add(i32::from(*w) * i32::from(a));
            }
        }
        acc
    }
    #[inline(always)]
    unsafe fn add_scaled(self, acc: Self::Acc, scale: f32, _: (), memory: *mut Lanes) {
        // SAFETY: sixteen floats (`# Safety`).
        let totals = unsafe { &mut *memory };
        for (total, sum) in totals.iter_mut().zip(acc) {
            *total = (sum as f32).mul_add(scale, *total);
        }
    }
    #[inline(always)]
    unsafe fn store(self, _: (), _: *mut Lanes) {}
}

/// # Safety
/// As of [`BlockFn`].
unsafe fn plain(b: &Block<'_>, to: Results) {
    // SAFETY: as there (`# Safety`).
    unsafe { block(Plain, b, to) };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Block, Results, block};
    use crate::gemm::microkernel::x86_64::int8_dot::{Avx2Dot, Avx512Dot, AvxVnniDot};

    /// # Safety
    /// As of [`BlockFn`](super::BlockFn).
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn avx2(b: &Block<'_>, to: Results) {
        // SAFETY: as there (`# Safety`).
        unsafe { block(Avx2Dot::in_feature_region(), b, to) };
    }

    /// # Safety
    /// As of [`BlockFn`](super::BlockFn).
    #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
    pub(super) unsafe fn avxvnni(b: &Block<'_>, to: Results) {
        // SAFETY: as there (`# Safety`).
        unsafe { block(AvxVnniDot::in_feature_region(), b, to) };
    }

    /// # Safety
    /// As of [`BlockFn`](super::BlockFn).
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    pub(super) unsafe fn avx512(b: &Block<'_>, to: Results) {
        // SAFETY: as there (`# Safety`).
        unsafe { block(Avx512Dot::in_feature_region(), b, to) };
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::{Block, Results, block};
    use crate::gemm::microkernel::aarch64_dot::NeonDot;
    use crate::simd::aarch64::neon_int::{Sdot, Widen};

    /// # Safety
    /// As of [`BlockFn`](super::BlockFn).
    #[target_feature(enable = "neon")]
    pub(super) unsafe fn neon(b: &Block<'_>, to: Results) {
        // SAFETY: as there (`# Safety`).
        unsafe { block(NeonDot(Widen), b, to) };
    }

    /// # Safety
    /// As of [`BlockFn`](super::BlockFn).
    #[target_feature(enable = "neon,dotprod")]
    pub(super) unsafe fn dotprod(b: &Block<'_>, to: Results) {
        // SAFETY: as there (`# Safety`).
        unsafe { block(NeonDot(Sdot), b, to) };
    }
}

/// The function of a tier.
pub(crate) fn block_fn(tier: Tier) -> BlockFn {
    match tier.level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => x86::avx2,
        #[cfg(target_arch = "x86_64")]
        Level::AvxVnni => x86::avxvnni,
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 | Level::Avx512Bf16 | Level::Amx => x86::avx512,
        #[cfg(target_arch = "aarch64")]
        Level::Neon => arm::neon,
        #[cfg(target_arch = "aarch64")]
        Level::DotProd | Level::I8mm => arm::dotprod,
        _ => plain,
    }
}
