//! Sparse rows: INT8 rows of which only the nonzero weights are kept.
//!
//! A matrix of dense INT8 rows whose outlier channels are set is packed for the windows of a tier
//! (`gemm::microkernel::sparse_rows`). Its products have the bits of the dense ones. A group's window begins
//! as late as the first weight that is not yet in a group allows, and takes up to four weights of each row, so rows with
//! few weights run ahead of others, and groups are fuller than those of fixed windows.

use crate::context::Cpu;
use crate::cpu::isa::Tier;
use crate::error::Error;
use crate::gemm::microkernel::int8_rows::{GROUP_ROWS, Results, SCALES_BYTES, STEP_BYTES};
use crate::gemm::microkernel::sparse_rows::{
    DEPTH, LANES, MAX_TALL, PLACES_BYTES, SEGMENTS, SparseBlock, SparseKernel, SparseRows, constants_bytes,
    group_bytes, section_bytes,
};
use crate::gemm::packed_weights::{Data, Layout, PackedWeights};
use crate::gemm::product::RowsPart;
use crate::gemm::sparse_form::SparseForm;
use crate::memory::disjoint::Disjoint;
use crate::memory::huge::HugeBuf;
use crate::quant::token_rows::{ZERO_POINT, unsigned_stride};
use crate::types::{OUTLIERS, places_of};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Minimum share of nonzero weights at the places of lanes of four rows.
const MIN_SHARED: f64 = 0.7;

/// Place of a lane's rows, and their weights there.
type Weights = (usize, [i8; MAX_TALL]);

/// Group of weights of a panel.
struct Group {
    /// First place of its window.
    window: usize,
    places: [[u8; DEPTH]; LANES],
    /// Weights `[row of a lane][lane][DEPTH]`.
    weights: [[[i8; DEPTH]; LANES]; MAX_TALL],
}

/// Returns the places of a segment of a row of `k` values.
fn segment(k: usize, i: usize) -> Range<usize> {
    let (places, main) = (places_of(k), places_of(k) - OUTLIERS);
    if i == 0 { 0..main } else { main..places }
}

/// Dense INT8 rows of a matrix.
#[derive(Clone, Copy)]
struct Dense<'a> {
    bytes: &'a [u8],
    group_bytes: usize,
    /// Number of rows of a lane.
    tall: usize,
}

impl Dense<'_> {
    /// Returns the group of a panel's rows, and the first of these rows in it.
    fn rows(&self, panel: usize) -> (&[u8], usize) {
        let panels = GROUP_ROWS / (LANES * self.tall);
        let group = &self.bytes[panel / panels * self.group_bytes..][..self.group_bytes];
        (group, panel % panels * LANES * self.tall)
    }

    /// Returns the bytes of the scales of a panel's rows.
    fn scales(&self, panel: usize) -> &[u8] {
        let (group, row) = self.rows(panel);
        &group[4 * row..][..4 * LANES * self.tall]
    }

    /// Returns the weights of a segment of each lane of a panel, with their places in ascending order.
    fn weights(&self, panel: usize, segment: Range<usize>) -> [Vec<Weights>; LANES] {
        let (group, row) = self.rows(panel);
        let quants = &group[SCALES_BYTES..];
        let mut all = std::array::from_fn(|_| Vec::new());
        for place in segment {
            let of_rows = &quants[place / DEPTH * STEP_BYTES + DEPTH * row..][..DEPTH * LANES * self.tall];
            for (own, rows) in all.iter_mut().zip(of_rows.chunks_exact(DEPTH * self.tall)) {
                let mut weights = [0; MAX_TALL];
                for (weight, four) in weights.iter_mut().zip(rows.as_chunks::<DEPTH>().0) {
                    *weight = (four[place % DEPTH] ^ ZERO_POINT as u8) as i8;
                }
                if weights != [0; MAX_TALL] {
                    own.push((place, weights));
                }
            }
        }
        all
    }
}

/// Divides the weights of a panel's lanes into groups for a kernel. Windows begin so early that they end within `limit`
/// places.
fn divide(lanes: &[Vec<Weights>; LANES], kernel: SparseKernel, limit: usize, mut each: impl FnMut(&Group)) {
    let mut next = [0; LANES];
    while let Some(first) = (0..LANES).filter_map(|r| lanes[r].get(next[r])).map(|w| w.0).min() {
        let window = (first / kernel.step * kernel.step).min(limit - kernel.window);
        let mut group =
            Group { window, places: [[0; DEPTH]; LANES], weights: [[[0; DEPTH]; LANES]; MAX_TALL] };
        for r in 0..LANES {
            let within = lanes[r][next[r]..].iter().take_while(|w| w.0 < window + kernel.window);
            for (i, (place, weights)) in within.take(DEPTH).enumerate() {
                group.places[r][i] = (place - window) as u8;
                for (to, weight) in group.weights.iter_mut().zip(weights) {
                    to[r][i] = *weight;
                }
                next[r] += 1;
            }
        }
        each(&group);
    }
}

/// Returns the number of places in a window of a tier.
pub(super) fn window_of(tier: Tier) -> usize {
    SparseKernel::of(tier).window
}

/// Returns the number of places within which windows of this length end: those of unsigned tokens, or of signed ones.
fn limit(window: usize, k: usize) -> usize {
    if window > OUTLIERS { unsigned_stride(k) } else { places_of(k) }
}

/// Returns the initial sum of a row: minus the sum of its weights times the zero point, modulo 2^32.
fn initial_sum(weights: i32) -> [u8; 4] {
    weights.wrapping_mul(-ZERO_POINT).to_le_bytes()
}

impl PackedWeights {
    /// Returns the share of weights that are zero, of INT8 rows, dense or sparse; 0 for other layouts.
    #[must_use]
    pub fn zeros(&self) -> f64 {
        let all = (self.rows * self.k).max(1) as f64;
        let nonzero = match self.layout {
            Layout::Panels { .. } => return 0.0,
            Layout::Int8Rows { group_bytes, .. } => {
                let groups = self.as_bytes().chunks_exact(group_bytes);
                let quants = groups.flat_map(|group| &group[SCALES_BYTES..]);
                quants.filter(|quant| **quant != ZERO_POINT as u8).count()
            }
            Layout::SparseBlocks { .. } => {
                self.sparse_blocks().weights.iter().filter(|weight| **weight != 0).count()
            }
            Layout::SparseRows { form, .. } => {
                let groups = self.sparse().groups.chunks_exact(group_bytes(form.tall));
                groups.flat_map(|group| &group[PLACES_BYTES..]).filter(|weight| **weight != 0).count()
            }
        };
        1.0 - nonzero as f64 / all
    }

    /// Returns the matrix as sparse rows; `None` if it is not one of dense INT8 rows whose outlier channels are set.
    ///
    /// # Errors
    /// If there is no memory for the packed copy, or its size overflows.
    pub fn as_sparse_rows(&self, cpu: &Cpu) -> Result<Option<PackedWeights>, Error> {
        self.sparse_for(cpu, SparseKernel::of(cpu.tier()), 1)
    }

    /// Returns the matrix as sparse rows, four of which share their places; `None` as in
    /// [`as_sparse_rows`](Self::as_sparse_rows), or if the rows have too few places in common.
    ///
    /// # Errors
    /// If there is no memory for the packed copy, or its size overflows.
    pub fn as_sparse_fours(&self, cpu: &Cpu) -> Result<Option<PackedWeights>, Error> {
        let Layout::Int8Rows { group_bytes, .. } = self.layout else { return Ok(None) };
        // A sample is enough: other matrices are only packed in vain.
        let dense = Dense { bytes: self.as_bytes(), group_bytes, tall: MAX_TALL };
        let (mut nonzero, mut places) = (0, 0);
        for panel in (0..self.rows.div_ceil(LANES * MAX_TALL)).step_by(4) {
            for (_, weights) in dense.weights(panel, 0..places_of(self.k)).iter().flatten() {
                nonzero += weights.iter().filter(|weight| **weight != 0).count();
                places += MAX_TALL;
            }
        }
        if (nonzero as f64) < MIN_SHARED * places as f64 {
            return Ok(None);
        }
        self.sparse_for(cpu, SparseKernel::of(cpu.tier()), MAX_TALL)
    }

    /// Returns the matrix as sparse rows for a kernel, with lanes of `tall` rows.
    fn sparse_for(
        &self,
        cpu: &Cpu,
        kernel: SparseKernel,
        tall: usize,
    ) -> Result<Option<PackedWeights>, Error> {
        let Layout::Int8Rows { group_bytes: dense_bytes, outliers: Some(outliers) } = self.layout else {
            return Ok(None);
        };
        let dense = Dense { bytes: self.as_bytes(), group_bytes: dense_bytes, tall };
        let (panels, k, limit) = (self.rows.div_ceil(LANES * tall), self.k, limit(kernel.window, self.k));
        let mut ends = vec![0_u32; panels * SEGMENTS];
        let counts = Disjoint::new(&mut ends);
        cpu.pool().run(panels, |panel| {
            // SAFETY: each task writes the counts of its own panel.
            let counts = unsafe { counts.range(panel * SEGMENTS, SEGMENTS) };
            for (s, count) in counts.iter_mut().enumerate() {
                divide(&dense.weights(panel, segment(k, s)), kernel, limit, |_| *count += 1);
            }
        });
        let mut groups = 0_u32;
        for end in &mut ends {
            groups = groups.checked_add(*end).ok_or_else(|| Error::too_large(&self.name))?;
            *end = groups;
        }
        let groups = groups as usize;
        let sections = section_bytes(tall, panels, groups).ok_or_else(|| Error::too_large(&self.name))?;
        let bytes = sections.iter().try_fold(0_usize, |sum, bytes| sum.checked_add(*bytes));
        let bytes = bytes.ok_or_else(|| Error::too_large(&self.name))?;
        let mut data = HugeBuf::zeroed(bytes).map_err(|e| Error::memory(&self.name, bytes, e))?;
        cpu.place(&mut data);
        let (table, rest) = data.as_mut_slice().split_at_mut(sections[0]);
        let (constants, rest) = rest.split_at_mut(sections[1]);
        let (windows, all) = rest.split_at_mut(sections[2]);
        for (to, end) in table.as_chunks_mut().0.iter_mut().zip(&ends) {
            *to = end.to_le_bytes();
        }
        let (constants, windows, all) =
            (Disjoint::new(constants), Disjoint::new(windows), Disjoint::new(all));
        cpu.pool().run(panels, |panel| {
            let own = constants_bytes(tall);
            // SAFETY: each task writes the constants of its own panel.
            let constants = unsafe { constants.range(panel * own, own) };
            let (scales, sums) = constants.split_at_mut(4 * LANES * tall);
            scales.copy_from_slice(dense.scales(panel));
            for (s, sums) in sums.chunks_exact_mut(4 * LANES * tall).enumerate() {
                let lanes = dense.weights(panel, segment(k, s));
                for (i, to) in sums.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                    let of_row = lanes[i % LANES].iter().map(|w| i32::from(w.1[i / LANES]));
                    *to = initial_sum(of_row.sum());
                }
                let i = panel * SEGMENTS + s;
                let (mut at, size) =
                    (i.checked_sub(1).map_or(0, |before| ends[before] as usize), group_bytes(tall));
                divide(&lanes, kernel, limit, |group| {
                    // SAFETY: the groups of each segment have room of their own.
                    let (window, to) = unsafe { (windows.range(4 * at, 4), all.range(at * size, size)) };
                    window.copy_from_slice(&(group.window as u32).to_le_bytes());
                    let (places, weights) = to.split_at_mut(PLACES_BYTES);
                    places.copy_from_slice(group.places.as_flattened());
                    for (to, weight) in weights.iter_mut().zip(group.weights.as_flattened().as_flattened()) {
                        *to = *weight as u8;
                    }
                    at += 1;
                });
            }
        });
        let layout =
            Layout::SparseRows { form: SparseForm { window: kernel.window, tall, groups }, outliers };
        let (name, data) = (self.name.clone(), Data::Memory(data));
        Ok(Some(PackedWeights { name, dtype: self.dtype, count: 1, rows: self.rows, k, data, layout }))
    }

    /// Returns the sections of a matrix of sparse rows.
    ///
    /// # Panics
    /// If the matrix has another layout.
    fn sparse(&self) -> SparseRows<'_> {
        let Layout::SparseRows { form: SparseForm { tall, groups, .. }, .. } = self.layout else {
            panic!("a matrix of sparse rows");
        };
        let panels = self.rows.div_ceil(LANES * tall);
        SparseRows::new(self.as_bytes(), tall, panels, groups).expect("whole sections")
    }
}

/// Returns true if the bytes are a matrix of sparse rows: groups are counted in order, windows lie within the tokens,
/// places within windows and segments, a lane's places ascend, so that none is there twice, and initial sums are those
/// of the weights.
pub(super) fn is_valid(cpu: &Cpu, bytes: &[u8], (rows, k): (usize, usize), form: SparseForm) -> bool {
    let SparseForm { window, tall, groups } = form;
    let limit = limit(window, k);
    if window == 0 || window > limit || ![1, MAX_TALL].contains(&tall) {
        return false;
    }
    let panels = rows.div_ceil(LANES * tall);
    let Some(matrix) = SparseRows::new(bytes, tall, panels, groups) else { return false };
    let segments = panels * SEGMENTS;
    let end = |i: usize| matrix.end(i / SEGMENTS, i % SEGMENTS);
    if !(0..segments).is_sorted_by_key(end) || segments.checked_sub(1).map_or(0, end) != groups {
        return false;
    }
    let valid = AtomicBool::new(true);
    cpu.pool().run(segments, |i| {
        let (panel, s) = (i / SEGMENTS, i % SEGMENTS);
        let (of_segment, mut sums, mut next) = (segment(k, s), [[0_i32; LANES]; MAX_TALL], [0; LANES]);
        let mut whole = true;
        for g in matrix.range(panel, s) {
            let first = matrix.window(g);
            whole &= first <= limit - window;
            let (places, weights) =
                matrix.groups[g * group_bytes(tall)..][..group_bytes(tall)].split_at(PLACES_BYTES);
            for (i, place) in places.iter().enumerate() {
                whole &= usize::from(*place) < window;
                let (lane, place) = (i / DEPTH, first.saturating_add(usize::from(*place)));
                let own: [i32; MAX_TALL] = std::array::from_fn(|j| {
                    weights.get(j * PLACES_BYTES + i).map_or(0, |w| i32::from(*w as i8))
                });
                if own != [0; MAX_TALL] {
                    whole &= of_segment.contains(&place) && place >= next[lane];
                    next[lane] = place.saturating_add(1);
                }
                for (sums, weight) in sums.iter_mut().zip(own) {
                    sums[lane] = sums[lane].wrapping_add(weight);
                }
            }
        }
        let stored = &matrix.constants_of(panel)[(1 + s) * 4 * LANES * tall..][..4 * LANES * tall];
        let own = sums[..tall].as_flattened().iter().map(|sum| initial_sum(*sum));
        if !whole || !own.eq(stored.as_chunks().0.iter().copied()) {
            valid.store(false, Ordering::Relaxed);
        }
    });
    valid.into_inner()
}

/// Multiplies a part of a product of sparse rows.
///
/// # Safety
/// The output has room for each token, and no other thread uses it.
pub(super) unsafe fn multiply_part(tier: Tier, part: &RowsPart<'_>, to: Results) {
    let w = part.weights;
    let Layout::SparseRows { form: SparseForm { window, tall, .. }, .. } = w.layout else {
        panic!("a matrix of sparse rows");
    };
    let (of_group, rows) = (GROUP_ROWS / (LANES * tall), part.groups.start * GROUP_ROWS);
    let panels = w.rows.div_ceil(LANES * tall);
    let block = SparseBlock {
        matrix: w.sparse(),
        panels: part.groups.start * of_group..panels.min(part.groups.end * of_group),
        tokens: part.input.tokens(part.tokens.clone()),
        unsigned: part.input.unsigned(part.tokens.clone()),
        bias: part.bias.map(|bias| &bias[rows..w.rows.min(part.groups.end * GROUP_ROWS)]),
        activation: part.activation,
        add: part.add,
    };
    // SAFETY: the Tier proves the features; the matrix was packed here or found valid, for the tokens' depth (their
    // driver compares `k`) and for windows of this length; the output is valid and not shared (`# Safety`).
    unsafe { SparseKernel::function_for(tier, window)(&block, to) };
}

#[cfg(test)]
pub(super) mod tests;
