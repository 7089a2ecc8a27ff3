//! Epilogue of a product: bias, residual, and the stores of results.

use crate::cpu::isa::Tier;
use crate::memory::disjoint::{Disjoint, Strided};
use crate::simd::dispatch::dispatch;
use crate::simd::{Simd, store_fence};
use crate::types::PANEL_ROWS;
use std::ops::Range;

/// Output size in bytes from which results do not stay in L2 and are written by non-temporal stores.
const NON_TEMPORAL_BYTES: usize = 2 << 20;

/// Results of a matrix, `[n][rows]`; each task writes some panels.
pub(super) struct Epilogue<'a> {
    values: Disjoint<'a, f32>,
    rows: usize,
    /// Bias added to every column, one value per row.
    bias: Option<&'a [f32]>,
    write: Write,
    non_temporal: bool,
}

impl<'a> Epilogue<'a> {
    /// Creates an epilogue that replaces `values`, or adds to them.
    pub(super) fn new(
        values: &'a mut [f32],
        rows: usize,
        bias: Option<&'a [f32]>,
        write: Write,
    ) -> Epilogue<'a> {
        let whole_lines = values.as_ptr().addr().is_multiple_of(64) && rows.is_multiple_of(PANEL_ROWS);
        let non_temporal = whole_lines && write == Write::Set && size_of_val(values) >= NON_TEMPORAL_BYTES;
        Epilogue { values: Disjoint::new(values), rows, bias, write, non_temporal }
    }

    #[cfg(test)]
    pub(super) fn is_non_temporal(&self) -> bool {
        self.non_temporal
    }

    /// Returns the results for one task.
    #[inline(always)]
    pub(super) fn of_task(&self) -> TaskEpilogue<'_> {
        TaskEpilogue(self)
    }
}

/// Results for one task; its stores become visible to other threads when this is dropped.
pub(super) struct TaskEpilogue<'a>(&'a Epilogue<'a>);

impl Drop for TaskEpilogue<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0.non_temporal {
            store_fence();
        }
    }
}

impl TaskEpilogue<'_> {
    /// Prefetches the results of some panels and columns for writing: columns lie far from each other.
    #[inline(always)]
    pub(super) fn fetch(&self, panels: &Range<usize>, columns: Range<usize>) {
        if self.0.non_temporal {
            return;
        }
        for column in columns {
            for p in panels.clone() {
                self.0.values.fetch(column * self.0.rows + p * PANEL_ROWS);
            }
        }
    }

    /// Writes or adds the results of some panels and columns, `y` in `[panel][column][16]`.
    ///
    /// # Safety
    /// No other task writes to these panels and columns.
    #[inline(always)]
    pub(super) unsafe fn write(&self, tier: Tier, panels: Range<usize>, columns: Range<usize>, y: &[f32]) {
        let Epilogue { values, rows, bias, write, non_temporal } = self.0;
        let first = panels.start * PANEL_ROWS;
        let n = (panels.end * PANEL_ROWS).min(*rows) - first;
        // SAFETY: no other task writes to these panels and columns (`# Safety`).
        let out = unsafe { values.strided(columns.start * rows + first, n, *rows, columns.len()) };
        let bias = bias.map(|bias| &bias[first..first + n]);
        write_on(tier, out, columns.len(), y, bias, *write, *non_temporal);
    }
}

/// Evaluates an expression for each panel and column, given the panel's index, its 16 rows of the column and the 16
/// results, so that the compiler makes vectors of them. Rows beyond the matrix are replaced by zeros, and their results
/// dropped. A macro, because only inlined code is compiled for the tier's instructions, and a closure with so many call
/// sites is not inlined.
macro_rules! lines {
    ($all:expr, $columns:expr, $y:expr, |$p:ident, $out:ident, $of:ident| $e:expr) => {{
        let y = $y.as_chunks::<PANEL_ROWS>().0;
        for (c, column) in $all.enumerate() {
            let (whole, rest) = column.as_chunks_mut::<PANEL_ROWS>();
            let mut y = y[c..].iter().step_by($columns);
            for ($p, $out) in whole.iter_mut().enumerate() {
                let $of = y.next().expect(EVERY);
                $e;
            }
            if !rest.is_empty() {
                let ($p, $of) = (whole.len(), y.next().expect(EVERY));
                let mut last = line(rest);
                {
                    let $out = &mut last;
                    $e;
                }
                rest.copy_from_slice(&last[..rest.len()]);
            }
        }
    }};
}

/// Writes or adds `[panel][column][16]` to the rows of each column.
#[inline(always)]
fn write_lines<I: Simd>(
    isa: I,
    out: Strided<'_, f32>,
    columns: usize,
    y: &[f32],
    bias: Option<&[f32]>,
    write: Write,
    non_temporal: bool,
) {
    let bias_of = |bias: &[f32], p: usize| line(&bias[p * PANEL_ROWS..]);
    match (bias, write) {
        (None, Write::Set) if non_temporal => {
            lines!(out, columns, y, |_p, out, y| isa.store_non_temporal(out, y));
        }
        (None, Write::Set) => lines!(out, columns, y, |_p, out, y| *out = *y),
        (None, Write::Add) => lines!(out, columns, y, |_p, out, y| *out = sum(out, y)),
        (Some(bias), Write::Set) if non_temporal => lines!(out, columns, y, |p, out, y| {
            isa.store_non_temporal(out, &sum(y, &bias_of(bias, p)));
        }),
        (Some(bias), Write::Set) => {
            lines!(out, columns, y, |p, out, y| *out = sum(y, &bias_of(bias, p)));
        }
        (Some(bias), Write::Add) => {
            lines!(out, columns, y, |p, out, y| *out = sum(out, &sum(y, &bias_of(bias, p))));
        }
    }
}

dispatch! {
    fn write_on => write_lines(
        out: Strided<'_, f32>,
        columns: usize,
        y: &[f32],
        bias: Option<&[f32]>,
        write: Write,
        non_temporal: bool,
    )
}

/// Message of `lines` if results are missing.
const EVERY: &str = "results of every panel and column";

/// Returns the first 16 values, padded with zeros.
#[inline(always)]
fn line(values: &[f32]) -> [f32; PANEL_ROWS] {
    values.first_chunk().copied().unwrap_or_else(|| {
        let mut line = [0.0; PANEL_ROWS];
        line[..values.len()].copy_from_slice(values);
        line
    })
}

#[inline(always)]
fn sum(a: &[f32; PANEL_ROWS], b: &[f32; PANEL_ROWS]) -> [f32; PANEL_ROWS] {
    std::array::from_fn(|i| a[i] + b[i])
}

/// Store operation of the epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Replaces the output.
    Set,
    /// Adds to the output (a residual connection).
    Add,
}
