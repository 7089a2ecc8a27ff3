//! Sparse blocks: the nonzero blocks of four consecutive inputs of a row of INT8 rows, times rows of activations.
//!
//! Lanes are tokens: the four activations of each of 16 tokens stand side by side, and a block's four weights, the same
//! for all lanes, are multiplied with them by the operations of dense rows ([`ByteDot`]), where activations take the place
//! of weights. So any instruction set for dense rows multiplies blocks. Sums are exact, and float operations have the
//! order of dense rows (`gemm::microkernel::int8_rows`), so results are the same bits.
//!
//! The rows of a group are computed in the order of their numbers of blocks, so that loops of the same length follow each
//! other. Their sums are transposed at the end of the group.

use crate::gemm::microkernel::byte_dot::ByteDot;
use crate::gemm::microkernel::byte_dot_kernel::byte_dot_kernel;
use crate::gemm::microkernel::int8_rows::{GROUP_ROWS, Identity, Plain, Results, write};
use crate::memory::scratch::Scratch;
use crate::ops::{Activation, Function, Lanes, with_function};
use crate::quant::token_rows::{Tokens, UnsignedTokens};
use crate::types::PANEL_ROWS;
use std::ops::Range;

/// Number of inputs of a block.
pub(crate) const WIDTH: usize = 4;
/// Number of segments of a row.
pub(crate) const SEGMENTS: usize = 2;
/// Bytes of a row's constants: its number in the group, the initial sum of each segment, and its scale.
pub(crate) const CONSTANTS_BYTES: usize = 16;
/// Number of tokens of a tile: the lanes of a vector.
const LANES: usize = PANEL_ROWS;
/// Maximum number of tiles that any instruction set multiplies together.
const MAX_TILES: usize = 4;
/// Depths up to which four tiles and two tiles of activations fit L1.
const DEPTHS: [usize; 2] = [512, 1024];

/// Returns the number of blocks that a row's segment is padded to a multiple of: as many are multiplied side by side,
/// fewer where there are more tiles.
pub(crate) fn unit(depth: usize) -> usize {
    if depth <= DEPTHS[0] { 2 } else { 4 }
}

/// Matrix of sparse blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SparseBlocks<'a> {
    /// Number of blocks up to the end of each segment, `[row][segment]`, in 32 bits; rows in the order in which they are
    /// computed.
    pub(crate) ends: &'a [u8],
    /// Constants of each row.
    pub(crate) constants: &'a [u8],
    /// Index of each block in a row of the matrix, in 16 bits.
    pub(crate) places: &'a [u8],
    /// Weights.
    pub(crate) weights: &'a [u8],
}

/// Bytes of the sections of a matrix, each in whole cache lines; `None` if a size overflows.
pub(crate) fn section_bytes(rows: usize, blocks: usize) -> Option<[usize; 4]> {
    let lines = |bytes: usize| bytes.checked_next_multiple_of(64);
    Some([
        lines(rows.checked_mul(4 * SEGMENTS)?)?,
        lines(rows.checked_mul(CONSTANTS_BYTES)?)?,
        lines(blocks.checked_mul(2)?)?,
        lines(blocks.checked_mul(WIDTH)?)?,
    ])
}

/// Returns the `i`-th integer of 32 bits.
#[inline(always)]
fn word(bytes: &[u8], i: usize) -> u32 {
    u32::from_le_bytes(bytes.as_chunks().0[i])
}

impl<'a> SparseBlocks<'a> {
    /// Returns the sections of a matrix; `None` if its length differs.
    pub(crate) fn new(bytes: &'a [u8], rows: usize, blocks: usize) -> Option<SparseBlocks<'a>> {
        let [ends, constants, places, all] = section_bytes(rows, blocks)?;
        let (ends, rest) = bytes.split_at_checked(ends)?;
        let (constants, rest) = rest.split_at_checked(constants)?;
        let (places, weights) = rest.split_at_checked(places)?;
        (weights.len() == all).then_some(SparseBlocks { ends, constants, places, weights })
    }

    /// Returns the number of blocks up to the end of a segment of a row.
    pub(crate) fn end(&self, row: usize, segment: usize) -> usize {
        word(self.ends, row * SEGMENTS + segment) as usize
    }

    /// Returns the blocks of a segment of a row.
    #[inline(always)]
    pub(crate) fn range(&self, row: usize, segment: usize) -> Range<usize> {
        let first = match (row * SEGMENTS + segment).checked_sub(1) {
            None => 0,
            Some(before) => word(self.ends, before) as usize,
        };
        first..self.end(row, segment)
    }

    /// Returns a row's number in its group.
    #[inline(always)]
    pub(crate) fn number(&self, row: usize) -> usize {
        word(self.constants, 4 * row) as usize
    }

    /// Returns the initial sum of a segment of a row.
    #[inline(always)]
    pub(crate) fn start(&self, row: usize, segment: usize) -> i32 {
        word(self.constants, 4 * row + 1 + segment).cast_signed()
    }

    /// Returns a row's scale.
    #[inline(always)]
    fn scale(&self, row: usize) -> f32 {
        f32::from_bits(word(self.constants, 4 * row + 1 + SEGMENTS))
    }

    /// Returns the index of a block in a row of the matrix.
    #[inline(always)]
    pub(crate) fn place(&self, block: usize) -> usize {
        usize::from(u16::from_le_bytes(self.places.as_chunks().0[block]))
    }
}

/// Groups of rows, tokens, and the epilogue of their products.
#[derive(Clone, Debug)]
pub(crate) struct BlocksPart<'a> {
    pub(crate) matrix: SparseBlocks<'a>,
    /// Rows, whole groups but for the last one.
    pub(crate) rows: Range<usize>,
    pub(crate) tokens: Tokens<'a>,
    pub(crate) unsigned: UnsignedTokens<'a>,
    /// Bias, one value per row.
    pub(crate) bias: Option<&'a [f32]>,
    /// Activation function, applied before results are written.
    pub(crate) activation: Option<Activation>,
    /// True if results are added to the output.
    pub(crate) add: bool,
}

/// Multiplies a part of a matrix.
///
/// # Safety
/// The processor supports the tier that the function belongs to; the matrix is valid for the tokens' depth; the output
/// has room for each token, and no other thread uses it.
pub(crate) type BlocksFn = unsafe fn(part: &BlocksPart<'_>, to: Results);

/// [`ByteDot`] with operations on whole vectors of tokens.
pub(crate) trait BlockDot: ByteDot {
    /// Maximum number of tiles whose sums are kept in registers together.
    const TILES: usize;

    /// Adds sums.
    fn join(self, a: Self::Acc, b: Self::Acc) -> Self::Acc;

    /// Transposes 16 vectors of 16 words, each at its address in `from`, into vectors that are `stride` words apart.
    ///
    /// # Safety
    /// The addresses are of 16 words each, and there is room for the results.
    #[inline(always)]
    unsafe fn transpose(self, from: &[*const u32; LANES], to: *mut u32, stride: usize) {
        for j in 0..LANES {
            for i in 0..LANES {
                // SAFETY: 16 vectors of 16 words, and room for as many (`# Safety`).
                unsafe { to.add(j * stride + i).write(from[i].add(j).read_unaligned()) };
            }
        }
    }
}

impl BlockDot for Plain {
    const TILES: usize = 1;

    #[inline(always)]
    fn join(self, a: [i32; LANES], b: [i32; LANES]) -> [i32; LANES] {
        std::array::from_fn(|i| a[i].wrapping_add(b[i]))
    }
}

/// Sums of a group's rows times their scales, `[row][token]`, and vectors of tokens or rows.
struct Buffers<'a> {
    /// Activations `[block][token][WIDTH]` of all tiles.
    columns: &'a mut [u8],
    totals: &'a mut [f32],
}

/// Vectors of one tile, transposed.
#[repr(align(64))]
struct Turned([Lanes; LANES]);

/// Computes the results of `T` tiles from token `t` on, `U` blocks of a row side by side.
///
/// # Safety
/// As in [`BlocksFn`].
#[inline(always)]
unsafe fn tiles<D: BlockDot, const T: usize, const U: usize>(
    d: D,
    part: &BlocksPart<'_>,
    t: usize,
    buffers: &mut Buffers<'_>,
    to: Results,
) {
    let (matrix, stride) = (&part.matrix, part.unsigned.stride);
    let count = part.tokens.count();
    // Lanes after the last token repeat it, and are not written.
    let token = |i: usize| (t + i).min(count - 1);
    let (line, n_lines) = (T * LANES * WIDTH, stride / WIDTH);
    let Buffers { columns, totals } = buffers;
    assert!(columns.len() >= n_lines * line && totals.len() >= GROUP_ROWS * T * LANES, "room of a tile");
    let mut scales = [[[0.0; LANES]; T]; SEGMENTS];
    for i in 0..T * LANES {
        for s in 0..SEGMENTS {
            scales[s][i / LANES][i % LANES] = part.tokens.scales[token(i) * SEGMENTS + s];
        }
    }
    for tile in 0..T {
        for first in (0..n_lines).step_by(LANES) {
            let mut rows = [std::ptr::null(); LANES];
            for (i, row) in rows.iter_mut().enumerate() {
                let at = token(tile * LANES + i) * stride + first * WIDTH;
                *row = part.unsigned.quants[at..at + LANES * WIDTH].as_ptr().cast::<u32>();
            }
            let at = first * line + tile * LANES * WIDTH;
            // SAFETY: 64 bytes of each token, and room for as many (checked above): rows are whole cache lines.
            unsafe { d.transpose(&rows, columns.as_mut_ptr().add(at).cast(), line / 4) };
        }
    }
    let (activations, weights) = (columns.as_ptr(), matrix.weights.as_ptr().cast::<i8>());
    let places = matrix.places.as_ptr().cast::<u16>();
    for group in part.rows.clone().step_by(GROUP_ROWS) {
        let end = part.rows.end.min(group + GROUP_ROWS);
        let mut row_scales = [[0.0; LANES]; GROUP_ROWS / LANES];
        for row in group..end {
            let number = matrix.number(row);
            row_scales.as_flattened_mut()[number] = matrix.scale(row);
            let of_row = &mut totals[number * T * LANES..][..T * LANES];
            // SAFETY: the matrix is valid (`# Safety`), so its blocks exist, in whole units, and their places lie within the
            // tokens; scales and totals are of whole tiles.
            unsafe {
                let mut sums = [[d.begin(0); T]; U];
                for s in 0..SEGMENTS {
                    sums[0] = [d.begin(matrix.start(row, s)); T];
                    for own in sums.iter_mut().skip(1) {
                        *own = [d.begin(0); T];
                    }
                    let blocks = matrix.range(row, s);
                    let mut block = blocks.start;
                    while block < blocks.end {
                        for u in 0..U {
                            let word = d.word(weights.add((block + u) * WIDTH));
                            let place = usize::from(places.add(block + u).read_unaligned());
                            let column = activations.add(place * line);
                            for tile in 0..T {
                                let four = d.weights(column.add(tile * LANES * WIDTH));
                                sums[u][tile] = d.dot(sums[u][tile], four, word);
                            }
                        }
                        block += U;
                    }
                    for tile in 0..T {
                        let mut sum = sums[0][tile];
                        for u in 1..U {
                            sum = d.join(sum, sums[u][tile]);
                        }
                        let total = of_row.as_mut_ptr().add(tile * LANES);
                        let zeros = d.read([0.0; LANES].as_ptr());
                        let before = if s == 0 { zeros } else { d.read(total) };
                        // Times one and added to zero, sums are what their conversion to floats is.
                        let converted = d.add_scaled(sum, 1.0, zeros);
                        d.write(d.fma(converted, d.read(scales[s][tile].as_ptr()), before), total);
                    }
                }
            }
        }
        let mut bias = [[0.0; LANES]; GROUP_ROWS / LANES];
        if let Some(all) = part.bias {
            let own = &all[group - part.rows.start..end - part.rows.start];
            bias.as_flattened_mut()[..own.len()].copy_from_slice(own);
        }
        let mut turned = Turned([[0.0; LANES]; LANES]);
        for (q, row) in (group..end).step_by(LANES).enumerate() {
            for tile in 0..T {
                let first = t + tile * LANES;
                let tokens = count.saturating_sub(first).min(LANES);
                let mut rows = [std::ptr::null(); LANES];
                for (i, row) in rows.iter_mut().enumerate() {
                    let at = ((q * LANES + i) * T + tile) * LANES;
                    *row = totals[at..at + LANES].as_ptr().cast::<u32>();
                }
                // SAFETY: vectors of 16 floats; tokens and rows exist, and the output is valid and not shared (`# Safety`).
                unsafe {
                    d.transpose(&rows, turned.0.as_mut_ptr().cast(), LANES);
                    let (scale, bias) = (d.read(row_scales[q].as_ptr()), d.read(bias[q].as_ptr()));
                    for y in &mut turned.0[..tokens] {
                        d.write(d.fma(d.read(y.as_ptr()), scale, bias), y.as_mut_ptr());
                    }
                    let at = first * to.stride + (row - part.rows.start);
                    let out = Results { first: to.first.add(at), n: (end - row).min(LANES), ..to };
                    let results = &mut turned.0[..tokens];
                    match part.activation {
                        None => write_all::<Identity>(results, part.add, out),
                        Some(function) => {
                            with_function!(function, F => write_all::<F>(results, part.add, out));
                        }
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
unsafe fn write_all<F: Function>(results: &mut [Lanes], add: bool, to: Results) {
    for (m, result) in results.iter_mut().enumerate() {
        // SAFETY: the output is valid and not shared (`# Safety`).
        unsafe { write::<F>(std::slice::from_mut(result), m, add, to) };
    }
}

/// Computes a [`BlocksFn`] with the products of one instruction set.
///
/// # Safety
/// As in [`BlocksFn`].
#[inline(always)]
unsafe fn multiply<D: BlockDot>(d: D, part: &BlocksPart<'_>, to: Results) {
    let (tokens, stride) = (part.tokens.count(), part.unsigned.stride);
    let depth = part.tokens.depth();
    let (mut columns, mut totals) = (
        Scratch::of(MAX_TILES * LANES * stride),
        Scratch::of(MAX_TILES * LANES * GROUP_ROWS * size_of::<f32>()),
    );
    let mut buffers = Buffers { columns: columns.bytes(), totals: totals.floats() };
    let in_l1 = if depth <= DEPTHS[0] {
        4
    } else if depth <= DEPTHS[1] {
        2
    } else {
        1
    };
    let mut t = 0;
    while t < tokens {
        let left = (tokens - t).div_ceil(LANES).min(in_l1).min(D::TILES);
        // SAFETY: as in `BlocksFn` (`# Safety`).
        let tiles = unsafe {
            match (left, unit(depth)) {
                (4.., 2) if D::TILES >= 4 => {
                    tiles::<D, 4, 2>(d, part, t, &mut buffers, to);
                    4
                }
                (2.., 2) if D::TILES >= 2 => {
                    tiles::<D, 2, 2>(d, part, t, &mut buffers, to);
                    2
                }
                (2.., _) if D::TILES >= 4 => {
                    tiles::<D, 2, 4>(d, part, t, &mut buffers, to);
                    2
                }
                (_, 2) => {
                    tiles::<D, 1, 2>(d, part, t, &mut buffers, to);
                    1
                }
                _ => {
                    tiles::<D, 1, 4>(d, part, t, &mut buffers, to);
                    1
                }
            }
        };
        t += tiles * LANES;
    }
}

byte_dot_kernel! {
    /// Returns the function of a tier.
    pub(crate) fn blocks_fn() -> BlocksFn = multiply(BlocksPart<'_>)
}
