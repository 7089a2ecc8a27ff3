//! Where finished products go.

use super::Write;
use super::format::ROWS;
use crate::isa;
use crate::memory::Disjoint;
use std::ops::Range;

/// Results of so many bytes do not stay in a second cache beside what they are computed from. They are written past it: each of a
/// prompt's lines that came from memory to be overwritten made products wait.
const BEYOND_CACHES: usize = 2 << 20;

/// The results of a matrix, `[n][rows]`, of which each task writes some panels.
pub(super) struct Output<'a> {
    values: Disjoint<'a, f32>,
    rows: usize,
    past_caches: bool,
}

impl<'a> Output<'a> {
    /// Results that are replaced, or that are added to.
    pub(super) fn new(values: &'a mut [f32], rows: usize, write: Write) -> Output<'a> {
        let whole_lines = values.as_ptr().addr().is_multiple_of(64) && rows.is_multiple_of(ROWS);
        let past_caches = whole_lines && write == Write::Set && size_of_val(values) >= BEYOND_CACHES;
        Output { values: Disjoint::new(values), rows, past_caches }
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

    /// Calls `write(row, out, y)` with the results of each panel and column, from row `row` on, and what was computed of
    /// them: `y` is `[panel][column][16]`. Where results are replaced, `out` need not hold the old ones.
    ///
    /// # Safety
    /// No other task writes to these panels and columns.
    #[inline(always)]
    pub(super) unsafe fn write(
        &self,
        panels: Range<usize>,
        columns: Range<usize>,
        y: &[f32],
        write: impl Fn(usize, &mut [f32], &[f32]),
    ) {
        let first = panels.start * ROWS;
        let n = (panels.end * ROWS).min(self.0.rows) - first;
        for (c, column) in columns.clone().enumerate() {
            // SAFETY: the caller's promise.
            let out = unsafe { self.0.values.range(column * self.0.rows + first, n) };
            for (p, out) in out.chunks_mut(ROWS).enumerate() {
                let (row, y) = (first + p * ROWS, &y[(p * columns.len() + c) * ROWS..][..ROWS]);
                // A number that the compiler knows makes vectors.
                match <&mut [f32; ROWS]>::try_from(&mut *out) {
                    Ok(out) if self.0.past_caches => {
                        let mut line = [0.0; ROWS];
                        write(row, &mut line, y);
                        isa::write_past_caches(out, &line);
                    }
                    Ok(out) => write(row, out, y),
                    Err(_) => write(row, out, y),
                }
            }
        }
    }
}
