//! Products of two matrices of 32-bit floats, both of them unquantised: of graphs.
//!
//! The order of sums: the depth is cut into blocks of [`DEPTH`]; one block is one chain of fused multiplications and
//! additions that begins at zero, and the blocks' sums are added in order. Threads, tiers and batch change no bit.

use crate::context::Cpu;
use crate::gemm::microkernel::dense::{DenseSimd, PANEL, Results, Tile};
use crate::memory::disjoint::Disjoint;
use crate::simd::dispatch::dispatch;
use std::ops::Range;

/// Depth of a block.
pub const DEPTH: usize = 256;
/// Columns of the right matrix that a panel has.
pub const COLUMNS: usize = PANEL;
/// Panels of a task, at most: the panels of one block take 64 KiB then.
const TASK_PANELS: usize = 4;
/// Rows of a task, at least, before the rows are divided.
const TASK_ROWS: usize = 48;

/// Right matrix of a product, `[k, n]`, given panel by panel.
pub trait Panels: Sync {
    /// Returns the rows `k` of panel `p`: 16 columns each, zeros beyond the last. `scratch` has room for them.
    fn panel<'p>(&'p self, p: usize, k: Range<usize>, scratch: &'p mut [f32]) -> &'p [f32];
}

/// A right matrix in memory, packed into panels.
#[derive(Debug)]
pub struct DensePanels {
    k: usize,
    n: usize,
    panels: Vec<f32>,
}

impl DensePanels {
    /// Packs a matrix of `k` rows and `n` columns, whose values are `strides` apart along rows and columns.
    ///
    /// # Panics
    /// If the values do not reach.
    #[must_use]
    pub fn pack(values: &[f32], [k, n]: [usize; 2], strides: [usize; 2]) -> DensePanels {
        let mut panels = vec![0.0; n.div_ceil(PANEL) * PANEL * k];
        for (p, panel) in panels.chunks_exact_mut((k * PANEL).max(1)).enumerate() {
            pack_panel(values, strides, p * PANEL..((p + 1) * PANEL).min(n), 0..k, panel);
        }
        DensePanels { k, n, panels }
    }

    /// Returns the number of rows and columns.
    #[must_use]
    pub fn size(&self) -> [usize; 2] {
        [self.k, self.n]
    }

    /// Returns the bytes of the panels.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(self.panels.as_slice())
    }
}

/// Copies rows and columns of a matrix to a panel.
fn pack_panel(values: &[f32], strides: [usize; 2], n: Range<usize>, k: Range<usize>, panel: &mut [f32]) {
    let columns = n.len();
    for (row, out) in k.zip(panel.as_chunks_mut::<PANEL>().0) {
        let from = row * strides[0] + n.start * strides[1];
        if strides[1] == 1 {
            out[..columns].copy_from_slice(&values[from..from + columns]);
        } else {
            for (i, out) in out[..columns].iter_mut().enumerate() {
                *out = values[from + i * strides[1]];
            }
        }
        out[columns..].fill(0.0);
    }
}

impl Panels for DensePanels {
    fn panel<'p>(&'p self, p: usize, k: Range<usize>, _scratch: &'p mut [f32]) -> &'p [f32] {
        &self.panels[(p * self.k + k.start) * PANEL..(p * self.k + k.end) * PANEL]
    }
}

/// A right matrix in memory, whose panels are packed while they are used.
#[derive(Clone, Copy, Debug)]
pub struct DenseMatrix<'a> {
    /// Values from the first on.
    pub values: &'a [f32],
    /// Number of columns.
    pub n: usize,
    /// Distance of values along a column, and along a row.
    pub strides: [usize; 2],
}

impl Panels for DenseMatrix<'_> {
    fn panel<'p>(&'p self, p: usize, k: Range<usize>, scratch: &'p mut [f32]) -> &'p [f32] {
        pack_panel(self.values, self.strides, p * PANEL..((p + 1) * PANEL).min(self.n), k, scratch);
        scratch
    }
}

/// Left matrix, `[m, k]`, its rows contiguous and `stride` apart.
#[derive(Clone, Copy, Debug)]
pub struct DenseRows<'a> {
    /// Values from the first on.
    pub values: &'a [f32],
    /// Number of rows.
    pub m: usize,
    /// Number of columns.
    pub k: usize,
    /// Distance of rows.
    pub stride: usize,
}

/// Changes of finished results, in this order.
#[derive(Clone, Copy, Debug, Default)]
pub struct DenseEpilogue<'a> {
    /// Added to each row's results.
    pub row_bias: Option<&'a [f32]>,
    /// Added to each column's results.
    pub column_bias: Option<&'a [f32]>,
    /// Lower and upper bound of results.
    pub bounds: Option<[f32; 2]>,
}

/// Computes `out = a * b`, with `out` of `n` columns and rows `out_stride` apart.
///
/// # Panics
/// If a matrix, bias or the output is too short.
pub fn dense_multiply(
    cpu: &Cpu,
    a: DenseRows<'_>,
    b: &dyn Panels,
    n: usize,
    out: (&mut [f32], usize),
    epilogue: DenseEpilogue<'_>,
) {
    let (out, out_stride) = out;
    let DenseRows { m, k, .. } = a;
    if m == 0 || n == 0 {
        return;
    }
    assert!(a.values.len() >= (m - 1) * a.stride + k, "left matrix of a product");
    assert!(out_stride >= n && out.len() >= (m - 1) * out_stride + n, "output of a product");
    assert!(epilogue.row_bias.is_none_or(|b| b.len() >= m), "bias of rows");
    assert!(epilogue.column_bias.is_none_or(|b| b.len() >= n), "bias of columns");
    let panels = n.div_ceil(PANEL);
    // Columns are divided first: panels that are packed while they are used are then packed once.
    let members = cpu.pool().members();
    let wanted = 4 * members;
    let task_panels = if members == 1 { TASK_PANELS } else { panels.div_ceil(wanted).clamp(1, TASK_PANELS) };
    let columns = panels.div_ceil(task_panels);
    let parts = wanted.div_ceil(columns).min(m.div_ceil(TASK_ROWS)).max(1);
    // Whole tiles of 12 rows.
    let task_rows = if members == 1 || parts == 1 { m } else { m.div_ceil(parts).next_multiple_of(12) };
    let rows = m.div_ceil(task_rows);
    let out = Disjoint::new(out);
    cpu.pool().run(rows * columns, |task| {
        let (row, column) = (task % rows, task / rows);
        let part = Part {
            rows: row * task_rows..((row + 1) * task_rows).min(m),
            panels: column * task_panels..((column + 1) * task_panels).min(panels),
            n,
            out_stride,
        };
        multiply_part(cpu.tier(), a, b, &part, &out, epilogue);
    });
}

/// Results of one task.
struct Part {
    rows: Range<usize>,
    panels: Range<usize>,
    n: usize,
    out_stride: usize,
}

#[inline(always)]
fn part_impl<I: DenseSimd>(
    isa: I,
    a: DenseRows<'_>,
    b: &dyn Panels,
    part: &Part,
    out: &Disjoint<'_, f32>,
    epilogue: DenseEpilogue<'_>,
) {
    let (tile_rows, tile_panels) = isa.dense_tile();
    let mut scratch = vec![0.0_f32; TASK_PANELS * DEPTH.min(a.k) * PANEL];
    let mut results: Results = [[[0.0; PANEL]; 2]; 12];
    let blocks = a.k.div_ceil(DEPTH).max(1);
    for block in 0..blocks {
        let k = block * DEPTH..((block + 1) * DEPTH).min(a.k);
        let mut panels: [&[f32]; TASK_PANELS] = [&[]; TASK_PANELS];
        if !k.is_empty() {
            for ((p, panel), scratch) in
                part.panels.clone().zip(&mut panels).zip(scratch.chunks_exact_mut(DEPTH.min(a.k) * PANEL))
            {
                *panel = b.panel(p, k.clone(), &mut scratch[..k.len() * PANEL]);
            }
        }
        let last = block + 1 == blocks;
        for row in part.rows.clone().step_by(tile_rows) {
            let rows = tile_rows.min(part.rows.end - row);
            for first in (0..part.panels.len()).step_by(tile_panels) {
                let count = tile_panels.min(part.panels.len() - first);
                let second = panels.get(first + 1).copied().unwrap_or_default();
                let at = (row * a.stride + k.start).min(a.values.len());
                let tile = Tile {
                    a: &a.values[at..],
                    stride: a.stride,
                    rows,
                    k: k.len(),
                    panels: [panels[first], second],
                };
                isa.dense(tile, count, &mut results);
                for (r, results) in results.iter().enumerate().take(rows) {
                    for (p, results) in results.iter().enumerate().take(count) {
                        let column = (part.panels.start + first + p) * PANEL;
                        let width = PANEL.min(part.n - column);
                        // SAFETY: each row of each panel belongs to one task.
                        let out = unsafe { out.range((row + r) * part.out_stride + column, width) };
                        write(results, out, block > 0, last.then_some((epilogue, row + r, column)));
                    }
                }
            }
        }
    }
}

/// Writes or adds the results of a block, and finishes those of the last one.
#[inline(always)]
fn write(results: &[f32; PANEL], out: &mut [f32], add: bool, end: Option<(DenseEpilogue<'_>, usize, usize)>) {
    let mut values = *results;
    let n = out.len();
    if add {
        for (v, o) in values.iter_mut().zip(&*out) {
            *v += o;
        }
    }
    if let Some((epilogue, row, column)) = end {
        if let Some(bias) = epilogue.row_bias {
            let bias = bias[row];
            for v in &mut values {
                *v += bias;
            }
        }
        if let Some(bias) = epilogue.column_bias {
            for (v, bias) in values.iter_mut().zip(&bias[column..column + n]) {
                *v += bias;
            }
        }
        if let Some([low, high]) = epilogue.bounds {
            for v in &mut values {
                *v = if *v < low { low } else { *v };
                *v = if *v > high { high } else { *v };
            }
        }
    }
    match <&mut [f32; PANEL]>::try_from(&mut *out) {
        Ok(out) => *out = values,
        Err(_) => out.copy_from_slice(&values[..n]),
    }
}

dispatch! {
    fn multiply_part => part_impl(
        a: DenseRows<'_>,
        b: &dyn Panels,
        part: &Part,
        out: &Disjoint<'_, f32>,
        epilogue: DenseEpilogue<'_>
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Tier;

    fn values(n: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..n).map(next).collect()
    }

    /// Computes by the definition: chains of blocks, then their sum.
    fn defined(a: &[f32], b: &[f32], [m, k, n]: [usize; 3]) -> Vec<f32> {
        let one = |i: usize| {
            let (row, column) = (i / n, i % n);
            let block = |start: usize| {
                let end = (start + DEPTH).min(k);
                (start..end).fold(0.0_f32, |sum, j| a[row * k + j].mul_add(b[j * n + column], sum))
            };
            (0..k).step_by(DEPTH).map(block).reduce(|a, b| b + a).unwrap_or(0.0)
        };
        (0..m * n).map(one).collect()
    }

    #[test]
    fn products_are_those_of_the_definition_on_every_tier() {
        for size in
            [[1, 1, 1], [13, 300, 33], [5, 0, 7], [64, 256, 16], [100, 77, 5], [7, 513, 130], [1, 40, 200]]
        {
            let [m, k, n] = size;
            let (a, b) = (values(m * k, 1), values(k * n, 2));
            let want = defined(&a, &b, size);
            let packed = DensePanels::pack(&b, [k, n], [n, 1]);
            let turned: Vec<f32> = (0..k * n).map(|i| b[i % k.max(1) * n + i / k.max(1)]).collect();
            let rows = DenseRows { values: &a, m, k, stride: k };
            for tier in Tier::available() {
                for threads in [1, 3] {
                    let cpu = Cpu::new(tier, threads).unwrap();
                    let direct = DenseMatrix { values: &b, n, strides: [n, 1] };
                    let columns = DenseMatrix { values: &turned, n, strides: [1, k] };
                    for b in [&packed as &dyn Panels, &direct, &columns] {
                        let mut got = vec![f32::NAN; m * n];
                        dense_multiply(&cpu, rows, b, n, (&mut got, n), DenseEpilogue::default());
                        assert_eq!(got, want, "{size:?} {} {threads}", tier.level());
                    }
                }
            }
        }
    }

    #[test]
    fn the_epilogue_adds_and_bounds() {
        let cpu = Cpu::new(Tier::best(), 1).unwrap();
        let b = DensePanels::pack(&[1.0, 2.0, 3.0, 4.0], [2, 2], [2, 1]);
        let a = DenseRows { values: &[1.0, 0.0, 0.0, 1.0], m: 2, k: 2, stride: 2 };
        let epilogue = DenseEpilogue {
            row_bias: Some(&[10.0, 20.0]),
            column_bias: Some(&[0.5, 0.25]),
            bounds: Some([12.0, 24.0]),
        };
        let mut out = [0.0; 4];
        dense_multiply(&cpu, a, &b, 2, (&mut out, 2), epilogue);
        assert_eq!(out, [12.0, 12.25, 23.5, 24.0]);
    }
}
