//! Sparse rows: the nonzero weights of INT8 rows and their places, times rows of activations.
//!
//! A panel has 16 lanes, each of one row, or of four consecutive rows whose nonzero weights have the same places. The
//! weights of a panel are divided into groups. A group holds up to four places of each lane, which lie within one window
//! of consecutive inputs, and the weights there; free places have weight zero. For a token, one instruction copies the
//! activations at these places out of the window, and others add four products to the sum of each row. Windows overlap,
//! so a lane with few weights need not wait at the end of a window for lanes with more.
//!
//! Results are the same bits as those of dense INT8 rows (`gemm::microkernel::int8_rows`): sums are the same exact
//! integers, modulo 2^32 while they are computed, and float operations have the same order. Where activations are
//! multiplied as unsigned bytes, each row's sums begin at minus the sum of its weights times the zero point.

use crate::cpu::isa::{Level, Tier};
use crate::gemm::microkernel::byte_dot::ByteDot;
use crate::gemm::microkernel::int8_rows::{Identity, Plain, Results, write};
use crate::gemm::microkernel::sparse_dot::{SparseDot, Sums};
use crate::ops::{Activation, Function, Lanes, with_function};
use crate::quant::token_rows::{Tokens, UnsignedTokens};
use crate::types::PANEL_ROWS;
use std::ops::Range;

/// Number of weights of a row in a group.
pub(crate) const DEPTH: usize = 4;
/// Bytes of the places of a group, and of the weights of one row of each lane: `[lane][DEPTH]`.
pub(crate) const PLACES_BYTES: usize = LANES * DEPTH;
/// Number of segments of a row, which have a scale each: the main part and the outlier channels.
pub(crate) const SEGMENTS: usize = 2;
/// Number of lanes of a panel.
pub(crate) const LANES: usize = PANEL_ROWS;
/// Maximum number of rows of a lane.
pub(crate) const MAX_TALL: usize = 4;
/// Maximum number of tokens that any instruction set multiplies together.
const MAX_TOKENS: usize = 12;

/// Returns the bytes of a group of lanes of `tall` rows: places, then the weights of each row of the lanes.
pub(crate) const fn group_bytes(tall: usize) -> usize {
    (1 + tall) * PLACES_BYTES
}

/// Returns the bytes of a panel's constants: scales of its rows in order, then the initial sums of each segment,
/// `[segment][row of a lane][lane]`.
pub(crate) const fn constants_bytes(tall: usize) -> usize {
    (1 + SEGMENTS) * 4 * LANES * tall
}

/// Matrix of sparse rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SparseRows<'a> {
    /// Number of consecutive rows with the same places: 1 or [`MAX_TALL`].
    pub(crate) tall: usize,
    /// Number of groups up to the end of each segment, `[panel][segment]`, in 32 bits.
    pub(crate) ends: &'a [u8],
    /// Constants of each panel.
    pub(crate) constants: &'a [u8],
    /// First place of each group's window, in 32 bits.
    pub(crate) windows: &'a [u8],
    /// Groups.
    pub(crate) groups: &'a [u8],
}

/// Bytes of the sections of a matrix, each in whole cache lines; `None` if a size overflows.
pub(crate) fn section_bytes(tall: usize, panels: usize, groups: usize) -> Option<[usize; 4]> {
    let lines = |bytes: usize| bytes.checked_next_multiple_of(64);
    Some([
        lines(panels.checked_mul(4 * SEGMENTS)?)?,
        panels.checked_mul(constants_bytes(tall))?,
        lines(groups.checked_mul(4)?)?,
        groups.checked_mul(group_bytes(tall))?,
    ])
}

impl<'a> SparseRows<'a> {
    /// Returns the sections of a matrix; `None` if its length differs.
    pub(crate) fn new(bytes: &'a [u8], tall: usize, panels: usize, groups: usize) -> Option<SparseRows<'a>> {
        let [ends, constants, windows, all] = section_bytes(tall, panels, groups)?;
        let (ends, rest) = bytes.split_at_checked(ends)?;
        let (constants, rest) = rest.split_at_checked(constants)?;
        let (windows, groups) = rest.split_at_checked(windows)?;
        (groups.len() == all).then_some(SparseRows { tall, ends, constants, windows, groups })
    }

    /// Returns the number of groups up to the end of a segment of a panel.
    #[inline(always)]
    pub(crate) fn end(&self, panel: usize, segment: usize) -> usize {
        word(self.ends, panel * SEGMENTS + segment)
    }

    /// Returns the groups of a segment of a panel.
    #[inline(always)]
    pub(crate) fn range(&self, panel: usize, segment: usize) -> Range<usize> {
        let first = match (panel * SEGMENTS + segment).checked_sub(1) {
            None => 0,
            Some(before) => word(self.ends, before),
        };
        first..self.end(panel, segment)
    }

    /// Returns the constants of a panel.
    #[inline(always)]
    pub(crate) fn constants_of(&self, panel: usize) -> &'a [u8] {
        let bytes = constants_bytes(self.tall);
        &self.constants[panel * bytes..][..bytes]
    }

    /// Returns the first place of a group's window.
    #[inline(always)]
    pub(crate) fn window(&self, group: usize) -> usize {
        word(self.windows, group)
    }
}

/// Returns the `i`-th integer of 32 bits.
#[inline(always)]
fn word(bytes: &[u8], i: usize) -> usize {
    u32::from_le_bytes(bytes.as_chunks().0[i]) as usize
}

/// Panels of a matrix, tokens, and the epilogue of their products.
#[derive(Clone, Debug)]
pub(crate) struct SparseBlock<'a> {
    pub(crate) matrix: SparseRows<'a>,
    pub(crate) panels: Range<usize>,
    pub(crate) tokens: Tokens<'a>,
    pub(crate) unsigned: UnsignedTokens<'a>,
    /// Bias, one value per row of the panels.
    pub(crate) bias: Option<&'a [f32]>,
    /// Activation function, applied before results are written.
    pub(crate) activation: Option<Activation>,
    /// True if results are added to the output.
    pub(crate) add: bool,
}

/// Multiplies a block.
///
/// # Safety
/// The processor supports the tier that the function belongs to; the matrix is valid for the tokens' depth, and its
/// windows are as long as the function's; the output has room for each token, and no other thread uses it.
pub(crate) type SparseFn = unsafe fn(block: &SparseBlock<'_>, to: Results);

/// Products of sparse rows on a tier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SparseKernel {
    /// Number of places in a window.
    pub(crate) window: usize,
    /// Number that the first place of a window is a multiple of, if it does not end with the row.
    pub(crate) step: usize,
    function: SparseFn,
}

/// Windows of 64 places, for instruction sets that choose among as many bytes. Reads that cross cache lines take twice
/// as long; half of those do that begin at multiples of 32.
pub(crate) const WIDE: (usize, usize) = (64, 32);
/// Windows of 16 places.
pub(crate) const NARROW: (usize, usize) = (16, 1);

/// Results of one tile, `[token][row]`.
#[repr(align(64))]
struct TileResults([[Lanes; MAX_TALL]; MAX_TOKENS]);

/// Panel of a block: its index, its first row in the output, and the bias of its rows.
#[derive(Clone, Copy)]
struct Panel<'a> {
    index: usize,
    row: usize,
    bias: &'a [Lanes; MAX_TALL],
}

/// Computes the results of `M` tokens from `t` on and a panel with lanes of `J` rows. Returns true if they are written to
/// the output, else they are left in `results`.
///
/// # Safety
/// As in [`SparseFn`].
#[inline(always)]
unsafe fn tile<D: SparseDot, const J: usize, const M: usize>(
    d: D,
    b: &SparseBlock<'_>,
    panel: Panel<'_>,
    t: usize,
    results: &mut TileResults,
    to: Results,
) -> bool {
    let f = d.dense();
    let (tokens, matrix) = (&b.tokens, &b.matrix);
    let scales = &tokens.scales[t * SEGMENTS..];
    assert!(scales.len() >= M * SEGMENTS, "scales of tokens");
    let (first, stride) = if D::UNSIGNED {
        (b.unsigned.quants.as_ptr().wrapping_add(t * b.unsigned.stride), b.unsigned.stride)
    } else {
        (tokens.quants.as_ptr().cast::<u8>().wrapping_add(t * tokens.stride), tokens.stride)
    };
    let constants = matrix.constants_of(panel.index).as_ptr();
    let direct = b.activation.is_none() && panel.row + J * LANES <= to.n;
    // SAFETY: a valid matrix, so groups and windows exist, and windows lie within the tokens; the output is valid and not
    // shared (`# Safety`); the lengths of scales and constants were checked above.
    unsafe {
        let mut totals = [[f.read([0.0; LANES].as_ptr()); J]; M];
        for s in 0..SEGMENTS {
            let mut begin = [f.begin(0); J];
            if D::UNSIGNED {
                for j in 0..J {
                    begin[j] = d.sums(constants.add((J + s * J + j) * 4 * LANES));
                }
            }
            let mut sums: [[Sums<D>; J]; M] = [begin; M];
            for g in matrix.range(panel.index, s) {
                let start = matrix.windows.as_ptr().cast::<u32>().add(g).read_unaligned();
                let window = first.add(start as usize);
                let group = matrix.groups.as_ptr().add(g * group_bytes(J));
                let places = d.places(group);
                for m in 0..M {
                    let chosen = d.choose(places, window.add(m * stride));
                    for j in 0..J {
                        sums[m][j] = d.add_products(sums[m][j], chosen, group.add((1 + j) * PLACES_BYTES));
                    }
                }
            }
            for m in 0..M {
                let scale = *scales.get_unchecked(m * SEGMENTS + s);
                for j in 0..J {
                    totals[m][j] = f.add_scaled(sums[m][j], scale, totals[m][j]);
                }
            }
        }
        let mut out = to.first.add(t * to.stride + panel.row);
        for m in 0..M {
            if J == MAX_TALL {
                let own = d.interleave([totals[m][0], totals[m][1 % J], totals[m][2 % J], totals[m][3 % J]]);
                totals[m].copy_from_slice(&own[..J]);
            }
            for j in 0..J {
                let scale = f.read(constants.cast::<f32>().add(j * LANES));
                let y = f.fma(totals[m][j], scale, f.read(panel.bias[j].as_ptr()));
                let place = out.add(j * LANES);
                match (direct, b.add) {
                    (false, _) => f.write(y, results.0[m][j].as_mut_ptr()),
                    (true, false) => f.write(y, place),
                    (true, true) => f.write(f.add(y, f.read(place)), place),
                }
            }
            out = out.wrapping_add(to.stride);
        }
    }
    direct
}

/// Calls [`tile`] with `$m` tokens; true if there are none.
macro_rules! tile_of {
    ($d:ident, $D:ident, $J:literal, $most:expr, $m:expr, $args:tt, [$($M:literal)*]) => {
        match $m {
            $($M if $M <= $most => tile_of!(@ $d, $D, $J, $M, $args),)*
            _ => true,
        }
    };
    (@ $d:ident, $D:ident, $J:literal, $M:literal, ($($arg:expr),*)) => {
        tile::<$D, $J, $M>($d, $($arg),*)
    };
}

/// Computes a [`SparseFn`] with the products of one instruction set. The tokens of a tile stay in L1 while the panels
/// change.
///
/// # Safety
/// As in [`SparseFn`].
#[inline(always)]
unsafe fn block<D: SparseDot>(d: D, b: &SparseBlock<'_>, to: Results) {
    const { assert!(D::TOKENS[0] <= MAX_TOKENS && D::TOKENS[1] <= 6) };
    let (tokens, tall) = (b.tokens.count(), b.matrix.tall);
    let (panel_rows, most) = (tall * LANES, D::TOKENS[usize::from(tall > 1)]);
    // As few tiles as possible, of about the same size.
    let tiles = tokens.div_ceil(most);
    let mut results = TileResults([[[0.0; LANES]; MAX_TALL]; MAX_TOKENS]);
    for i in 0..tiles {
        let (t, end) = (tokens * i / tiles, tokens * (i + 1) / tiles);
        for (row, panel) in (0..to.n).step_by(panel_rows).zip(b.panels.clone()) {
            let n = (to.n - row).min(panel_rows);
            let mut bias = [[0.0; LANES]; MAX_TALL];
            if let Some(all) = b.bias {
                bias.as_flattened_mut()[..n].copy_from_slice(&all[row..row + n]);
            }
            let panel = Panel { index: panel, row, bias: &bias };
            // SAFETY: panel and tokens exist, the output is valid and not shared, and the other conditions hold
            // (`# Safety`).
            unsafe {
                let written = if tall > 1 {
                    tile_of!(d, D, 4, D::TOKENS[1], end - t, (b, panel, t, &mut results, to), [1 2 3 4 5 6])
                } else {
                    tile_of!(d, D, 1, D::TOKENS[0], end - t, (b, panel, t, &mut results, to),
                        [1 2 3 4 5 6 7 8 9 10 11 12])
                };
                if written {
                    continue;
                }
                let out = Results { first: to.first.add(t * to.stride + row), n, ..to };
                let results = &mut results.0[..end - t];
                match b.activation {
                    None => write_all::<Identity>(results, tall, b.add, out),
                    Some(activation) => {
                        with_function!(activation, F => write_all::<F>(results, tall, b.add, out));
                    }
                }
            }
        }
    }
}

/// Applies a function to the results of some tokens and writes them.
///
/// # Safety
/// The output is valid and not shared.
#[inline(always)]
unsafe fn write_all<F: Function>(results: &mut [[Lanes; MAX_TALL]], tall: usize, add: bool, to: Results) {
    for (m, results) in results.iter_mut().enumerate() {
        // SAFETY: the output is valid and not shared (`# Safety`).
        unsafe { write::<F>(&mut results[..tall], m, add, to) };
    }
}

/// Scalar definition of the products.
impl SparseDot for Plain {
    type Dense = Plain;
    type Places = [[u8; DEPTH]; LANES];
    type Chosen = [[i8; DEPTH]; LANES];
    const TOKENS: [usize; 2] = [1, 1];
    const UNSIGNED: bool = false;

    #[inline(always)]
    fn dense(self) -> Plain {
        self
    }
    #[inline(always)]
    unsafe fn sums(self, p: *const u8) -> [i32; LANES] {
        // SAFETY: 16 integers (`# Safety`).
        unsafe { p.cast::<[i32; LANES]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn places(self, p: *const u8) -> Self::Places {
        // SAFETY: 64 bytes (`# Safety`).
        unsafe { p.cast::<Self::Places>().read() }
    }
    #[inline(always)]
    unsafe fn choose(self, places: Self::Places, window: *const u8) -> Self::Chosen {
        // SAFETY: places lie in the window (`# Safety`).
        places.map(|four| four.map(|place| unsafe { window.add(usize::from(place)).cast::<i8>().read() }))
    }
    #[inline(always)]
    unsafe fn add_products(
        self,
        mut sums: [i32; LANES],
        chosen: Self::Chosen,
        weights: *const u8,
    ) -> [i32; LANES] {
        // SAFETY: 64 bytes (`# Safety`).
        let weights = unsafe { weights.cast::<[[i8; DEPTH]; LANES]>().read() };
        for r in 0..LANES {
            for (weight, activation) in weights[r].iter().zip(chosen[r]) {
                sums[r] = sums[r].wrapping_add(i32::from(*weight) * i32::from(activation));
            }
        }
        sums
    }
}

/// # Safety
/// As in [`SparseFn`].
unsafe fn plain(b: &SparseBlock<'_>, to: Results) {
    // SAFETY: as in `SparseFn` (`# Safety`).
    unsafe { block(Plain, b, to) };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Results, SparseBlock, block};
    use crate::gemm::microkernel::x86_64::sparse_dot::{ChooseAvx2, ChooseAvx512, ChooseAvxVnni, ChooseVbmi};

    /// # Safety
    /// As in [`SparseFn`](super::SparseFn).
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn avx2(b: &SparseBlock<'_>, to: Results) {
        // SAFETY: as in `SparseFn` (`# Safety`).
        unsafe { block(ChooseAvx2::in_feature_region(), b, to) };
    }

    /// # Safety
    /// As in [`SparseFn`](super::SparseFn).
    #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
    pub(super) unsafe fn avxvnni(b: &SparseBlock<'_>, to: Results) {
        // SAFETY: as in `SparseFn` (`# Safety`).
        unsafe { block(ChooseAvxVnni::in_feature_region(), b, to) };
    }

    /// # Safety
    /// As in [`SparseFn`](super::SparseFn).
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    pub(super) unsafe fn avx512(b: &SparseBlock<'_>, to: Results) {
        // SAFETY: as in `SparseFn` (`# Safety`).
        unsafe { block(ChooseAvx512::in_feature_region(), b, to) };
    }

    /// # Safety
    /// As in [`SparseFn`](super::SparseFn); the processor has AVX-512 VBMI.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi")]
    pub(super) unsafe fn vbmi(b: &SparseBlock<'_>, to: Results) {
        // SAFETY: as in `SparseFn` (`# Safety`).
        unsafe { block(ChooseVbmi::in_feature_region(), b, to) };
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::{Results, SparseBlock, block};
    use crate::gemm::microkernel::aarch64_sparse::ChooseNeon;
    use crate::simd::aarch64::neon_int::{Sdot, Widen};

    /// # Safety
    /// As in [`SparseFn`](super::SparseFn).
    #[target_feature(enable = "neon")]
    pub(super) unsafe fn neon(b: &SparseBlock<'_>, to: Results) {
        // SAFETY: as in `SparseFn` (`# Safety`).
        unsafe { block(ChooseNeon(Widen), b, to) };
    }

    /// # Safety
    /// As in [`SparseFn`](super::SparseFn).
    #[target_feature(enable = "neon,dotprod")]
    pub(super) unsafe fn dotprod(b: &SparseBlock<'_>, to: Results) {
        // SAFETY: as in `SparseFn` (`# Safety`).
        unsafe { block(ChooseNeon(Sdot), b, to) };
    }
}

impl SparseKernel {
    const fn new((window, step): (usize, usize), function: SparseFn) -> SparseKernel {
        SparseKernel { window, step, function }
    }

    /// Returns the fastest products of a tier.
    pub(crate) fn of(tier: Tier) -> SparseKernel {
        SparseKernel::all(tier).next().expect("the scalar one")
    }

    /// Returns the products that a tier can compute, the fastest first.
    pub(crate) fn all(tier: Tier) -> impl Iterator<Item = SparseKernel> {
        let wide = match tier.level() {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 | Level::Avx512Bf16 | Level::Amx if tier.permutes_bytes() => {
                Some(x86::vbmi as SparseFn)
            }
            _ => None,
        };
        let narrow = match tier.level() {
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => Some(x86::avx2 as SparseFn),
            #[cfg(target_arch = "x86_64")]
            Level::AvxVnni => Some(x86::avxvnni as SparseFn),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 | Level::Avx512Bf16 | Level::Amx => Some(x86::avx512 as SparseFn),
            #[cfg(target_arch = "aarch64")]
            Level::Neon => Some(arm::neon as SparseFn),
            #[cfg(target_arch = "aarch64")]
            Level::DotProd | Level::I8mm => Some(arm::dotprod as SparseFn),
            _ => None,
        };
        let (wide, narrow) = (
            wide.map(|function| SparseKernel::new(WIDE, function)),
            narrow.map(|function| SparseKernel::new(NARROW, function)),
        );
        wide.into_iter()
            .chain(narrow)
            .chain([SparseKernel::new(NARROW, plain), SparseKernel::new(WIDE, plain)])
    }

    /// Returns the function of a tier for windows of this length.
    pub(crate) fn function_for(tier: Tier, window: usize) -> SparseFn {
        SparseKernel::all(tier).find(|kernel| kernel.window == window).map_or(plain, |kernel| kernel.function)
    }
}
