//! INT8 rows: weights with one scale per output row times rows of activations whose segments have a scale each.
//!
//! The sums of a segment's products are exact 32-bit integers, so every instruction set gives the same, and the float
//! operations on them are written once. Weights are stored as unsigned bytes with the zero point
//! [`ZERO_POINT`](crate::quant::token_rows::ZERO_POINT), because `VPDPBUSD` multiplies unsigned bytes with signed ones;
//! each accumulator begins at the negated sum that the zero point adds (`quant::token_rows`). Nothing saturates:
//! saturating instructions are not used on values that could overflow.
//!
//! A result begins at zero. Each segment's sum times its scale is added to it in turn, with one rounding. Then it is
//! multiplied by the row's scale and the bias is added, with one rounding, and the activation function, if any, is
//! applied.

use crate::cpu::isa::Tier;
use crate::gemm::microkernel::byte_dot::ByteDot;
use crate::gemm::microkernel::byte_dot_kernel::byte_dot_kernel;
#[cfg(target_arch = "x86_64")]
use crate::gemm::microkernel::x86_64;
use crate::ops::{Activation, Function, Lanes, with_function};
use crate::prefetch::prefetch_lines;
use crate::quant::token_rows::{StepTokens, Tokens};
use crate::types::PANEL_ROWS;

/// Number of rows of a group, the unit in which a matrix is packed: four panels, so that a token's results are whole,
/// consecutive cache lines. A group begins with the rows' scales, one float each, followed by the weights,
/// `[depth / 4][64 rows][4]`.
pub(crate) const GROUP_ROWS: usize = PANELS * PANEL_ROWS;

/// Bytes of a group's scales.
pub(crate) const SCALES_BYTES: usize = 4 * GROUP_ROWS;

/// Returns the bytes of a group of rows of `depth` values.
pub(crate) const fn group_bytes(depth: usize) -> usize {
    SCALES_BYTES + depth * GROUP_ROWS
}

/// Bytes of four consecutive depths of a group.
pub(crate) const STEP_BYTES: usize = 4 * GROUP_ROWS;

/// Maximum number of tokens that any instruction set multiplies together.
pub(crate) const MAX_TOKENS: usize = 6;
/// Number of panels in a group.
const PANELS: usize = 4;

/// Groups of a matrix, tokens, and the epilogue of their products.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a> {
    /// Whole groups, contiguous.
    pub(crate) groups: &'a [u8],
    pub(crate) group_bytes: usize,
    /// Offset of the tokens' first depth within the groups, in units of four.
    pub(crate) skip: usize,
    /// Memory that the thread likely reads next, prefetched during the product.
    pub(crate) next: &'a [u8],
    pub(crate) tokens: Tokens<'a>,
    /// Bias, one value per row of the groups.
    pub(crate) bias: Option<&'a [f32]>,
    /// Activation function, applied before results are written.
    pub(crate) activation: Option<Activation>,
    /// True if results are added to the output.
    pub(crate) add: bool,
}

/// Output: `n` values per token, `stride` apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Results {
    pub(crate) first: *mut f32,
    pub(crate) n: usize,
    pub(crate) stride: usize,
}

/// Multiplies a block.
///
/// # Safety
/// The processor supports the tier that the function belongs to; the groups are whole, have the tokens' depth after
/// `skip`, and hold `n` rows; the output has room for each token, and no other thread uses it.
pub(crate) type BlockFn = unsafe fn(block: &Block<'_>, to: Results);

/// Multiplies a block whose tokens are in steps, too.
///
/// # Safety
/// As in [`BlockFn`]; the steps are those of the block's tokens.
pub(crate) type StepsFn = unsafe fn(block: &Block<'_>, steps: StepTokens<'_>, to: Results);

/// Returns the function of a tier with matrix registers.
pub(crate) fn steps_fn(tier: Tier) -> Option<StepsFn> {
    #[cfg(target_arch = "x86_64")]
    if tier.level().matrices() {
        return Some(x86_64::amx_rows::rows);
    }
    let _ = tier;
    None
}

/// Results of one tile, `[token][panel]`.
#[repr(align(64))]
struct TileResults([[Lanes; PANELS]; MAX_TOKENS]);

/// Group of a block, the first of its panels to compute, and the bias of its rows.
#[derive(Clone, Copy)]
struct Group<'a> {
    bytes: &'a [u8],
    number: usize,
    first: usize,
    bias: &'a Biases,
}

/// Bias of a group's rows; zeros if there is none.
#[repr(align(64))]
struct Biases([Lanes; PANELS]);

/// Computes the results of `M` tokens from `t` on and `P` panels of a group.
///
/// # Safety
/// As in [`BlockFn`].
#[inline(always)]
unsafe fn tile<D: ByteDot, const M: usize, const P: usize>(
    d: D,
    b: &Block<'_>,
    group: Group<'_>,
    t: usize,
    sums: &mut TileResults,
    to: Results,
) {
    let tokens = b.tokens;
    let (stride, segments) = (tokens.stride, tokens.segments.len());
    let mut after = [0; M];
    for m in 0..M {
        after[m] = m * stride;
        sums.0[m][group.first..group.first + P].fill([0.0; PANEL_ROWS]);
    }
    let (scales, starts) = (&tokens.scales[t * segments..], &tokens.starts[t * segments..]);
    assert!(scales.len() >= M * segments && starts.len() >= M * segments, "scales of tokens");
    let row = group.number * GROUP_ROWS + group.first * PANEL_ROWS;
    let direct = b.activation.is_none() && row + P * PANEL_ROWS <= to.n;
    let q0 = group.first;
    // SAFETY: a whole group of the tokens' depth (`# Safety`), which is the length of a row of `quants` and of all
    // segments; the lengths of scales and starts were checked above; the output is valid and not shared (`# Safety`).
    unsafe {
        let rows = group.bytes.as_ptr().cast::<f32>().add(q0 * PANEL_ROWS);
        let weights = group.bytes.as_ptr().add(SCALES_BYTES + b.skip * STEP_BYTES + q0 * 4 * PANEL_ROWS);
        let first = tokens.quants.as_ptr().add(t * stride);
        let (mut w, mut a) = (weights, first);
        for (s, words) in tokens.segments.iter().enumerate() {
            let mut acc = [[d.begin(0); P]; M];
            for m in 0..M {
                acc[m] = [d.begin(*starts.get_unchecked(m * segments + s)); P];
            }
            for _ in 0..*words {
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
            // Opaque to the compiler, which would otherwise keep all totals in registers that are already taken.
            let totals = std::hint::black_box(&mut *sums);
            for m in 0..M {
                let scale = *scales.get_unchecked(m * segments + s);
                for q in 0..P {
                    let total = totals.0[m][q0 + q].as_mut_ptr();
                    d.write(d.add_scaled(acc[m][q], scale, d.read(total)), total);
                }
            }
        }
        let totals = std::hint::black_box(&mut *sums);
        let mut result = to.first.add(t * to.stride + row);
        for m in 0..M {
            for q in 0..P {
                let total = totals.0[m][q0 + q].as_mut_ptr();
                let (scale, bias) = (d.read(rows.add(q * PANEL_ROWS)), d.read(group.bias.0[q0 + q].as_ptr()));
                let y = d.fma(d.read(total), scale, bias);
                let place = result.add(q * PANEL_ROWS);
                match (direct, b.add) {
                    (false, _) => d.write(y, total),
                    (true, false) => d.write(y, place),
                    (true, true) => d.write(d.add(y, d.read(place)), place),
                }
            }
            result = result.add(to.stride);
        }
        if !direct {
            let results = Results {
                first: to.first.add(t * to.stride + row),
                n: (to.n - row).min(P * PANEL_ROWS),
                ..to
            };
            for m in 0..M {
                let sums = &mut sums.0[m][q0..q0 + P];
                match b.activation {
                    None => write::<Identity>(sums, m, b.add, results),
                    Some(activation) => with_function!(activation, F => write::<F>(sums, m, b.add, results)),
                }
            }
        }
    }
}

/// Identity function.
pub(super) struct Identity;

impl Function for Identity {
    #[inline(always)]
    fn of(x: &Lanes) -> Lanes {
        *x
    }
}

/// Hides everything but the address of `y` from the compiler, which would otherwise compute 16 vectors at once, one
/// lane of each, with gathers and scatters.
#[inline(always)]
fn one_by_one<T>(y: &mut T) -> &mut T {
    std::hint::black_box(y)
}

/// Applies a function to the panels of a token and writes the results.
///
/// # Safety
/// The output is valid and not shared.
#[inline(always)]
pub(super) unsafe fn write<F: Function>(sums: &mut [Lanes], token: usize, add: bool, to: Results) {
    // SAFETY: the output is valid and not shared (`# Safety`).
    let out = unsafe { std::slice::from_raw_parts_mut(to.first.add(token * to.stride), to.n) };
    for (sum, out) in sums.iter_mut().zip(out.chunks_mut(PANEL_ROWS)) {
        let mut y = F::of(one_by_one(sum));
        let mut before = [0.0; PANEL_ROWS];
        match out.first_chunk_mut::<PANEL_ROWS>() {
            Some(out) => {
                if add {
                    before = *out;
                }
                for j in 0..PANEL_ROWS {
                    y[j] += before[j];
                }
                *out = y;
            }
            None => {
                for (out, y) in out.iter_mut().zip(y) {
                    *out = if add { *out + y } else { y };
                }
            }
        }
    }
}

/// Calls `tile` with `$m` tokens, and with as many panels as are left if the instruction set takes several.
macro_rules! tile_of {
    ($d:ident, $D:ident, $m:expr, $panels:expr, $args:tt, [$($M:literal)*]) => {
        match $m {
            $($M if $M <= $D::TOKENS => tile_of!(@ $d, $D, $M, $panels, $args),)*
            _ => {}
        }
    };
    (@ $d:ident, $D:ident, $M:literal, $panels:expr, ($($arg:expr),*)) => {
        if $D::PANELS == 1 {
            tile::<$D, $M, 1>($d, $($arg),*)
        } else if $panels <= 2 {
            tile::<$D, $M, 2>($d, $($arg),*)
        } else {
            tile::<$D, $M, PANELS>($d, $($arg),*)
        }
    };
}

/// Computes a [`BlockFn`] with the products of one instruction set: group after group, each with all tokens.
///
/// # Safety
/// As in [`BlockFn`].
#[inline(always)]
unsafe fn block<D: ByteDot>(d: D, b: &Block<'_>, to: Results) {
    const { assert!(D::TOKENS <= MAX_TOKENS && (D::PANELS == 1 || D::PANELS == PANELS)) };
    let tokens = b.tokens.count();
    // As few tiles as possible, of about the same size.
    let tiles = tokens.div_ceil(D::TOKENS);
    let mut sums = TileResults([[[0.0; PANEL_ROWS]; PANELS]; MAX_TOKENS]);
    for (g, bytes) in b.groups.chunks_exact(b.group_bytes).enumerate() {
        let next = b.groups.chunks_exact(b.group_bytes).nth(g + 1).unwrap_or(b.next);
        let share = next.len().div_ceil(tiles.max(1)).next_multiple_of(64);
        let mut bias = Biases([[0.0; PANEL_ROWS]; PANELS]);
        if let Some(all) = b.bias.and_then(|bias| bias.get(g * GROUP_ROWS..)) {
            let n = all.len().min(GROUP_ROWS);
            bias.0.as_flattened_mut()[..n].copy_from_slice(&all[..n]);
        }
        let panels = (to.n - g * GROUP_ROWS).div_ceil(PANEL_ROWS).min(PANELS);
        for i in 0..tiles {
            prefetch_lines(next.get(i * share..).map_or(&[], |rest| &rest[..share.min(rest.len())]));
            let (t, end) = (tokens * i / tiles, tokens * (i + 1) / tiles);
            for first in (0..panels).step_by(D::PANELS) {
                let group = Group { bytes, number: g, first, bias: &bias };
                // SAFETY: the group and the tokens exist, and the other conditions hold (`# Safety`).
                unsafe { tile_of!(d, D, end - t, panels, (b, group, t, &mut sums, to), [1 2 3 4 5 6]) };
            }
        }
    }
}

/// Scalar definition of the products.
#[derive(Clone, Copy)]
pub(super) struct Plain;

impl ByteDot for Plain {
    type Weights = [[u8; 4]; PANEL_ROWS];
    type Word = [i8; 4];
    type Acc = [i32; PANEL_ROWS];
    type Floats = Lanes;
    const TOKENS: usize = 1;
    const PANELS: usize = 1;

    #[inline(always)]
    fn begin(self, start: i32) -> Self::Acc {
        [start; PANEL_ROWS]
    }
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
    fn add_scaled(self, acc: Self::Acc, scale: f32, total: Lanes) -> Lanes {
        std::array::from_fn(|i| (acc[i] as f32).mul_add(scale, total[i]))
    }
    #[inline(always)]
    unsafe fn read(self, p: *const f32) -> Lanes {
        // SAFETY: 16 floats (`# Safety`).
        unsafe { p.cast::<Lanes>().read() }
    }
    #[inline(always)]
    fn fma(self, a: Lanes, b: Lanes, c: Lanes) -> Lanes {
        std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
    }
    #[inline(always)]
    fn add(self, a: Lanes, b: Lanes) -> Lanes {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn write(self, a: Lanes, p: *mut f32) {
        // SAFETY: room for 16 floats (`# Safety`).
        unsafe { p.cast::<Lanes>().write(a) }
    }
}

byte_dot_kernel! {
    /// Returns the function of a tier.
    pub(crate) fn block_fn() -> BlockFn = block(Block<'_>)
}
