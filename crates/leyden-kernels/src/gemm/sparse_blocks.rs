//! Sparse blocks: INT8 rows of which only the nonzero blocks of four consecutive inputs are kept.
//!
//! A matrix of dense INT8 rows whose outlier channels are set is packed for any tier (`gemm::microkernel::sparse_blocks`).
//! Its products have the bits of the dense ones. Outlier channels and the last channels, which change places, take a few
//! blocks more than in the order of the file.

use crate::context::Cpu;
use crate::cpu::isa::Tier;
use crate::error::Error;
use crate::gemm::microkernel::int8_rows::{GROUP_ROWS, Results, SCALES_BYTES, STEP_BYTES};
use crate::gemm::microkernel::sparse_blocks::{
    BlocksPart, CONSTANTS_BYTES, SEGMENTS, SparseBlocks, WIDTH, blocks_fn, section_bytes, unit,
};
use crate::gemm::packed_weights::{Data, Layout, PackedWeights};
use crate::gemm::product::RowsPart;
use crate::memory::disjoint::Disjoint;
use crate::memory::huge::HugeBuf;
use crate::quant::token_rows::ZERO_POINT;
use crate::types::{OUTLIERS, places_of};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Minimum share of nonzero weights in blocks.
const MIN_SHARED: f64 = 0.6;

/// Returns the blocks of a segment of a row of `k` values.
fn segment(k: usize, i: usize) -> Range<usize> {
    let (places, main) = (places_of(k) / WIDTH, (places_of(k) - OUTLIERS) / WIDTH);
    if i == 0 { 0..main } else { main..places }
}

/// Calls `each` for the nonzero blocks of a row of a group of dense rows, in order.
fn for_blocks(group: &[u8], row: usize, blocks: Range<usize>, mut each: impl FnMut(usize, [i8; WIDTH])) {
    const ZEROS: [u8; WIDTH] = [ZERO_POINT as u8; WIDTH];
    for block in blocks {
        let quants = &group[SCALES_BYTES + block * STEP_BYTES + WIDTH * row..][..WIDTH];
        if quants != ZEROS {
            each(block, std::array::from_fn(|i| (quants[i] ^ ZERO_POINT as u8) as i8));
        }
    }
}

/// Returns the number of blocks of each segment of a row, padded, and the number of those that are not zero.
fn counts(group: &[u8], row: usize, k: usize) -> ([usize; SEGMENTS], usize) {
    let mut nonzero = 0;
    let padded = std::array::from_fn(|s| {
        let mut count = 0_usize;
        for_blocks(group, row, segment(k, s), |_, _| count += 1);
        nonzero += count;
        count.next_multiple_of(unit(places_of(k)))
    });
    (padded, nonzero)
}

impl PackedWeights {
    /// Returns the matrix as sparse blocks; `None` if it is not one of dense INT8 rows whose outlier channels are set, or
    /// its nonzero weights do not lie in blocks.
    ///
    /// # Errors
    /// If there is no memory for the packed copy, or its size overflows.
    pub fn as_sparse_blocks(&self, cpu: &Cpu) -> Result<Option<PackedWeights>, Error> {
        self.sparse_blocks_with(cpu, MIN_SHARED)
    }

    /// Returns the matrix as sparse blocks like [`as_sparse_blocks`](Self::as_sparse_blocks), if at least this share of the
    /// weights in blocks is not zero.
    fn sparse_blocks_with(&self, cpu: &Cpu, min_shared: f64) -> Result<Option<PackedWeights>, Error> {
        let Layout::Int8Rows { group_bytes, outliers: Some(outliers) } = self.layout else { return Ok(None) };
        let (rows, k, groups) = (self.rows, self.k, self.rows.div_ceil(GROUP_ROWS));
        let group = |g: usize| &self.as_bytes()[g * group_bytes..][..group_bytes];
        let mut all = vec![([0; SEGMENTS], 0); rows];
        let counted = Disjoint::new(&mut all);
        cpu.pool().run(groups, |g| {
            let first = g * GROUP_ROWS;
            // SAFETY: each task writes the counts of its own rows.
            let own = unsafe { counted.range(first, (rows - first).min(GROUP_ROWS)) };
            own.iter_mut().enumerate().for_each(|(row, own)| *own = counts(group(g), row, k));
        });
        let nonzero = all.iter().map(|(_, nonzero)| nonzero * WIDTH).sum::<usize>() as f64;
        if (1.0 - self.zeros()) * ((rows * k) as f64) < min_shared * nonzero {
            return Ok(None);
        }
        // Rows of each group in the order of their numbers of blocks.
        let mut order: Vec<usize> = (0..rows).collect();
        for own in order.chunks_mut(GROUP_ROWS) {
            own.sort_by_key(|row| all[*row].0);
        }
        let (mut ends, mut blocks) = (Vec::with_capacity(rows * SEGMENTS), 0_u32);
        for count in order.iter().flat_map(|row| all[*row].0) {
            let end = u32::try_from(count).ok().and_then(|count| blocks.checked_add(count));
            blocks = end.ok_or_else(|| Error::too_large(&self.name))?;
            ends.push(blocks);
        }
        let blocks = blocks as usize;
        let sections = section_bytes(rows, blocks).ok_or_else(|| Error::too_large(&self.name))?;
        let bytes = sections.iter().try_fold(0_usize, |sum, bytes| sum.checked_add(*bytes));
        let bytes = bytes.ok_or_else(|| Error::too_large(&self.name))?;
        let mut data = HugeBuf::zeroed(bytes).map_err(|e| Error::memory(&self.name, bytes, e))?;
        cpu.place(&mut data);
        let (table, rest) = data.as_mut_slice().split_at_mut(sections[0]);
        let (constants, rest) = rest.split_at_mut(sections[1]);
        let (places, weights) = rest.split_at_mut(sections[2]);
        for (to, end) in table.as_chunks_mut().0.iter_mut().zip(&ends) {
            *to = end.to_le_bytes();
        }
        let (constants, places) = (Disjoint::new(constants), Disjoint::new(places));
        let weights = Disjoint::new(weights);
        cpu.pool().run(rows, |i| {
            let row = order[i] % GROUP_ROWS;
            let of_group = group(order[i] / GROUP_ROWS);
            // SAFETY: each task writes the constants of its own row.
            let constants = unsafe { constants.range(i * CONSTANTS_BYTES, CONSTANTS_BYTES) };
            let constants = constants.as_chunks_mut::<4>().0;
            constants[0] = (row as u32).to_le_bytes();
            constants[1 + SEGMENTS].copy_from_slice(&of_group[4 * row..][..4]);
            for s in 0..SEGMENTS {
                let at = i * SEGMENTS + s;
                let first = at.checked_sub(1).map_or(0, |before| ends[before] as usize);
                let count = ends[at] as usize - first;
                // SAFETY: the blocks of each segment have room of their own.
                let (places, weights) = unsafe {
                    (places.range(2 * first, 2 * count), weights.range(WIDTH * first, WIDTH * count))
                };
                let mut room = places.as_chunks_mut::<2>().0.iter_mut().zip(weights.chunks_exact_mut(WIDTH));
                let mut sum = 0_i32;
                for_blocks(of_group, row, segment(k, s), |block, weights| {
                    let (place, to) = room.next().expect("room for every block");
                    *place = (block as u16).to_le_bytes();
                    to.copy_from_slice(&weights.map(|weight| weight as u8));
                    sum += weights.iter().map(|weight| i32::from(*weight)).sum::<i32>();
                });
                constants[1 + s] = sum.wrapping_mul(-ZERO_POINT).to_le_bytes();
            }
        });
        let layout = Layout::SparseBlocks { blocks, outliers };
        let (name, data) = (self.name.clone(), Data::Memory(data));
        Ok(Some(PackedWeights { name, dtype: self.dtype, count: 1, rows, k, data, layout }))
    }

    /// Returns the sections of a matrix of sparse blocks.
    ///
    /// # Panics
    /// If the matrix has another layout.
    pub(super) fn sparse_blocks(&self) -> SparseBlocks<'_> {
        let Layout::SparseBlocks { blocks, .. } = self.layout else { panic!("a matrix of sparse blocks") };
        SparseBlocks::new(self.as_bytes(), self.rows, blocks).expect("whole sections")
    }
}

/// Returns true if the bytes are a matrix of sparse blocks: blocks are counted in order and in whole units, every row of
/// a group is there once, places lie within segments and ascend, so that none is there twice, and initial sums are those of
/// the weights.
pub(super) fn is_valid(cpu: &Cpu, bytes: &[u8], (rows, k): (usize, usize), blocks: usize) -> bool {
    let Some(matrix) = SparseBlocks::new(bytes, rows, blocks) else { return false };
    let segments = rows * SEGMENTS;
    let end = |i: usize| matrix.end(i / SEGMENTS, i % SEGMENTS);
    let whole = (0..segments).all(|i| end(i).is_multiple_of(unit(places_of(k))));
    if !whole || !(0..segments).is_sorted_by_key(end) || segments.checked_sub(1).map_or(0, end) != blocks {
        return false;
    }
    let valid = AtomicBool::new(true);
    cpu.pool().run(rows.div_ceil(GROUP_ROWS), |g| {
        let mut there = [false; GROUP_ROWS];
        let of_group = g * GROUP_ROWS..rows.min((g + 1) * GROUP_ROWS);
        let n = of_group.len();
        let mut whole = true;
        for row in of_group {
            let number = matrix.number(row);
            whole &= number < n && !std::mem::replace(&mut there[number.min(GROUP_ROWS - 1)], true);
            for s in 0..SEGMENTS {
                let (mut sum, mut next) = (0_i32, 0);
                for block in matrix.range(row, s) {
                    let (place, weights) = (matrix.place(block), &matrix.weights[block * WIDTH..][..WIDTH]);
                    // Padding has no weights, and any place in the row.
                    whole &= place < places_of(k) / WIDTH;
                    if weights != [0; WIDTH] {
                        whole &= segment(k, s).contains(&place) && place >= next;
                        next = place + 1;
                    }
                    sum += weights.iter().map(|weight| i32::from(*weight as i8)).sum::<i32>();
                }
                whole &= matrix.start(row, s) == sum.wrapping_mul(-ZERO_POINT);
            }
        }
        if !whole {
            valid.store(false, Ordering::Relaxed);
        }
    });
    valid.into_inner()
}

/// Multiplies a part of a product of sparse blocks.
///
/// # Safety
/// The output has room for each token, and no other thread uses it.
pub(super) unsafe fn multiply_part(tier: Tier, part: &RowsPart<'_>, to: Results) {
    let w = part.weights;
    let rows = part.groups.start * GROUP_ROWS..w.rows.min(part.groups.end * GROUP_ROWS);
    let blocks = BlocksPart {
        matrix: w.sparse_blocks(),
        rows: rows.clone(),
        tokens: part.input.tokens(part.tokens.clone()),
        unsigned: part.input.unsigned(part.tokens.clone()),
        bias: part.bias.map(|bias| &bias[rows]),
        activation: part.activation,
        add: part.add,
    };
    // SAFETY: the Tier proves the features; the matrix was packed here or found valid, for the tokens' depth (their
    // driver compares `k`); the output is valid and not shared (`# Safety`).
    unsafe { blocks_fn(tier)(&blocks, to) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::sparse_rows::tests::{Pattern, dense, matrix, products, tokens};

    #[test]
    fn sparse_blocks_have_the_bits_of_dense_rows_on_every_tier() {
        let shapes = [
            (70, 384, 13, Pattern::Blocks(1, 4), [0, 50, 80, 90, 100].as_slice()),
            (64, 384, 70, Pattern::Blocks(1, 4), &[90]),
            (16, 33, 1, Pattern::Any, &[0, 95]),
            (1, 16, 2, Pattern::Any, &[80]),
            (3, 7, 5, Pattern::Any, &[60]),
            (130, 800, 50, Pattern::Blocks(1, 4), &[80]),
            (20, 1536, 33, Pattern::Any, &[90]),
        ];
        for (rows, k, m, pattern, all) in shapes {
            let x = tokens(m, k);
            for &zeros in all {
                let w = matrix(rows, k, zeros, pattern);
                let scalar = Cpu::new(Tier::SCALAR, 1).unwrap();
                let want = products(&scalar, &dense(&scalar, &w, rows, k), &x);
                for tier in Tier::available() {
                    let cpu = Cpu::new(tier, 2).unwrap();
                    let dense = dense(&cpu, &w, rows, k);
                    let sparse = dense.sparse_blocks_with(&cpu, 0.0).unwrap().unwrap();
                    assert_eq!(sparse.zeros(), dense.zeros());
                    let got = products(&cpu, &sparse, &x);
                    assert!(got == want, "{rows}x{k}, {zeros} % zeros, {}", tier.level());
                }
            }
        }
    }

    #[test]
    fn only_weights_in_blocks_are_packed_as_blocks() {
        let cpu = Cpu::new(Tier::SCALAR, 1).unwrap();
        let of = |pattern| {
            let dense = dense(&cpu, &matrix(64, 384, 80, pattern), 64, 384);
            dense.as_sparse_blocks(&cpu).unwrap().is_some()
        };
        assert!(of(Pattern::Blocks(1, 4)) && !of(Pattern::Any) && !of(Pattern::Blocks(4, 1)));
    }

    #[test]
    fn damaged_sparse_blocks_are_found() {
        let (rows, k) = (70, 100);
        let cpu = Cpu::new(Tier::SCALAR, 2).unwrap();
        let dense = dense(&cpu, &matrix(rows, k, 70, Pattern::Blocks(1, 4)), rows, k);
        let sparse = dense.as_sparse_blocks(&cpu).unwrap().unwrap();
        let Layout::SparseBlocks { blocks, .. } = sparse.layout else { panic!("sparse blocks") };
        let good = sparse.as_bytes().to_vec();
        let valid = |bytes: &[u8]| is_valid(&cpu, bytes, (rows, k), blocks);
        assert!(valid(&good));
        assert!(!valid(&good[1..]) && !valid(&[]), "another length");
        assert!(
            !is_valid(&cpu, &good, (rows, k), usize::MAX) && !is_valid(&cpu, &good, (rows + 64, k), blocks)
        );
        let [ends, constants, places, _] = section_bytes(rows, blocks).unwrap();
        let damaged = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            assert_ne!(bytes[at], byte);
            bytes[at] = byte;
            valid(&bytes)
        };
        assert!(!damaged(0, good[0] + 1) && !damaged(1, 255), "counts");
        assert!(!damaged(ends, 64) && !damaged(ends, good[ends + CONSTANTS_BYTES]), "numbers of rows");
        assert!(!damaged(ends + 4, good[ends + 4] ^ 1), "initial sums");
        let last = blocks - 1;
        assert!(!damaged(ends + constants + 2 * last, 200), "a place beyond the row");
        let weight =
            (0..blocks * WIDTH).map(|i| ends + constants + places + i).find(|at| good[*at] != 0).unwrap();
        assert!(!damaged(weight, good[weight] ^ 1), "a weight");
    }
}
