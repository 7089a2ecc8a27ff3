//! Where finished products go.

use super::Write;
use super::format::ROWS;
use crate::isa::{self, Isa, Tier, dispatch};
use crate::memory::{Disjoint, Strided};
use std::ops::Range;

/// Results of so many bytes do not stay in a second cache beside what they are computed from. They are written past it: each of a
/// prompt's lines that came from memory to be overwritten made products wait.
const BEYOND_CACHES: usize = 2 << 20;

/// The results of a matrix, `[n][rows]`, of which each task writes some panels.
pub(super) struct Output<'a> {
    values: Disjoint<'a, f32>,
    rows: usize,
    /// Added to every column, one value per row.
    bias: Option<&'a [f32]>,
    write: Write,
    past_caches: bool,
}

impl<'a> Output<'a> {
    /// Results that are replaced, or that are added to.
    pub(super) fn new(
        values: &'a mut [f32],
        rows: usize,
        bias: Option<&'a [f32]>,
        write: Write,
    ) -> Output<'a> {
        let whole_lines = values.as_ptr().addr().is_multiple_of(64) && rows.is_multiple_of(ROWS);
        let past_caches = whole_lines && write == Write::Set && size_of_val(values) >= BEYOND_CACHES;
        Output { values: Disjoint::new(values), rows, bias, write, past_caches }
    }

    #[cfg(test)]
    pub(super) fn is_past_caches(&self) -> bool {
        self.past_caches
    }

    /// The results as one task writes them.
    #[inline(always)]
    pub(super) fn of_task(&self) -> TaskOutput<'_> {
        TaskOutput(self)
    }
}

/// Where one task writes; others see what it wrote when this is dropped.
pub(super) struct TaskOutput<'a>(&'a Output<'a>);

impl Drop for TaskOutput<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0.past_caches {
            isa::publish();
        }
    }
}

impl TaskOutput<'_> {
    /// Asks for the memory of some panels' results of some columns, which lie far from each other: that it comes while they
    /// are computed saves a twentieth of a prompt's products.
    #[inline(always)]
    pub(super) fn fetch(&self, panels: &Range<usize>, columns: Range<usize>) {
        if self.0.past_caches {
            return;
        }
        for column in columns {
            for p in panels.clone() {
                self.0.values.fetch(column * self.0.rows + p * ROWS);
            }
        }
    }

    /// Writes or adds the results of some panels and columns, `y` in `[panel][column][16]`.
    ///
    /// # Safety
    /// No other task writes to these panels and columns.
    #[inline(always)]
    pub(super) unsafe fn write(&self, tier: Tier, panels: Range<usize>, columns: Range<usize>, y: &[f32]) {
        let Output { values, rows, bias, write, past_caches } = self.0;
        let first = panels.start * ROWS;
        let n = (panels.end * ROWS).min(*rows) - first;
        // SAFETY: the caller's promise.
        let out = unsafe { values.strided(columns.start * rows + first, n, *rows, columns.len()) };
        let bias = bias.map(|bias| &bias[first..first + n]);
        write_on(tier, out, columns.len(), y, bias, *write, *past_caches);
    }
}

/// Runs an expression of a panel's number, its rows of a column and the results for each panel and column, sixteen rows that the compiler
/// makes vectors of; of rows that a matrix lacks with zeros that go nowhere. A macro, as only what is inlined is compiled for the
/// tier's instructions, and a closure that is called in so many places is not.
macro_rules! lines {
    ($all:expr, $columns:expr, $y:expr, |$p:ident, $out:ident, $of:ident| $e:expr) => {{
        let y = $y.as_chunks::<ROWS>().0;
        for (c, column) in $all.enumerate() {
            let (whole, rest) = column.as_chunks_mut::<ROWS>();
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
fn write_lines<I: Isa>(
    isa: I,
    out: Strided<'_, f32>,
    columns: usize,
    y: &[f32],
    bias: Option<&[f32]>,
    write: Write,
    past_caches: bool,
) {
    let bias_of = |bias: &[f32], p: usize| line(&bias[p * ROWS..]);
    match (bias, write) {
        (None, Write::Set) if past_caches => {
            lines!(out, columns, y, |_p, out, y| isa.write_past_caches(out, y));
        }
        (None, Write::Set) => lines!(out, columns, y, |_p, out, y| *out = *y),
        (None, Write::Add) => lines!(out, columns, y, |_p, out, y| *out = sum(out, y)),
        (Some(bias), Write::Set) if past_caches => lines!(out, columns, y, |p, out, y| {
            isa.write_past_caches(out, &sum(y, &bias_of(bias, p)));
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
        past_caches: bool,
    )
}

/// What `lines` expects of results.
const EVERY: &str = "results of every panel and column";

/// The first sixteen values, or as many as there are and zeros.
#[inline(always)]
fn line(values: &[f32]) -> [f32; ROWS] {
    values.first_chunk().copied().unwrap_or_else(|| {
        let mut line = [0.0; ROWS];
        line[..values.len()].copy_from_slice(values);
        line
    })
}

#[inline(always)]
fn sum(a: &[f32; ROWS], b: &[f32; ROWS]) -> [f32; ROWS] {
    std::array::from_fn(|i| a[i] + b[i])
}
