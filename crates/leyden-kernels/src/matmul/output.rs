//! Where finished products go.

use super::format::ROWS;
use crate::memory::Disjoint;
use std::ops::Range;

/// The results of a matrix, `[n][rows]`, of which each task writes some panels.
pub(super) struct Output<'a> {
    values: Disjoint<'a, f32>,
    rows: usize,
}

impl<'a> Output<'a> {
    pub(super) fn new(values: &'a mut [f32], rows: usize) -> Output<'a> {
        Output { values: Disjoint::new(values), rows }
    }

    /// Asks for the memory of some panels' results of some columns, which lie far from each other: that it comes while they
    /// are computed saves a twentieth of a prompt's products.
    #[inline(always)]
    pub(super) fn fetch(&self, panels: &Range<usize>, columns: Range<usize>) {
        for column in columns {
            for p in panels.clone() {
                self.values.fetch(column * self.rows + p * ROWS);
            }
        }
    }

    /// Calls `write(row, out, y)` with the results of each panel and column, from row `row` on, and what was computed of
    /// them: `y` is `[panel][column][16]`.
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
        let n = (panels.end * ROWS).min(self.rows) - first;
        for (c, column) in columns.clone().enumerate() {
            // SAFETY: the caller's promise.
            let out = unsafe { self.values.range(column * self.rows + first, n) };
            for (p, out) in out.chunks_mut(ROWS).enumerate() {
                let (row, y) = (first + p * ROWS, &y[(p * columns.len() + c) * ROWS..][..ROWS]);
                // A number that the compiler knows makes vectors.
                match <&mut [f32; ROWS]>::try_from(&mut *out) {
                    Ok(out) => write(row, out, y),
                    Err(_) => write(row, out, y),
                }
            }
        }
    }
}
