//! Tile of a product of two matrices of 32-bit floats, as scalar definition and over the vectors of an instruction set.
//!
//! One result is one chain of fused multiplications and additions along the depth, so neither the tile's size nor the
//! instruction set changes a bit.

use crate::simd::int::F32Simd;
use crate::simd::scalar::Scalar;
use crate::simd::{Simd, VectorSimd};

/// Columns of a panel of the right matrix.
pub(crate) const PANEL: usize = 16;
/// Rows of a tile of the left matrix, where many accumulators fit the registers, and where few do.
const WIDE_ROWS: usize = 12;
const NARROW_ROWS: usize = 6;

/// Operands of one tile, checked by [`Tile::check`].
#[derive(Clone, Copy)]
pub(crate) struct Tile<'a> {
    /// Left matrix from the tile's first value on: rows `stride` apart.
    pub(crate) a: &'a [f32],
    pub(crate) stride: usize,
    pub(crate) rows: usize,
    pub(crate) k: usize,
    /// Panels of the right matrix, `[k][16]` each; one or two.
    pub(crate) panels: [&'a [f32]; 2],
}

impl Tile<'_> {
    /// Panics unless the buffers are as long as the loops will read.
    #[inline(always)]
    fn check(&self, rows: usize, panels: usize) {
        assert!(self.rows <= rows && self.rows > 0 && self.a.len() >= (self.rows - 1) * self.stride + self.k);
        assert!(self.panels[..panels].iter().all(|panel| panel.len() >= self.k * PANEL));
    }
}

/// Results of a tile: 16 columns of each panel for every row.
pub(crate) type Results = [[[f32; PANEL]; 2]; WIDE_ROWS];

/// Computation of tiles on an instruction set.
pub(crate) trait DenseSimd: Simd {
    /// Returns the maximum number of rows of a tile, and of panels.
    #[inline(always)]
    fn dense_tile(self) -> (usize, usize) {
        if Self::WIDE_REGISTER_FILE { (WIDE_ROWS, 2) } else { (NARROW_ROWS, 1) }
    }

    /// Computes the products of a tile.
    #[inline(always)]
    fn dense(self, tile: Tile<'_>, panels: usize, out: &mut Results) {
        tile.check(WIDE_ROWS, panels);
        for (r, out) in out.iter_mut().enumerate().take(tile.rows) {
            for (panel, out) in tile.panels.iter().zip(out).take(panels) {
                *out = [0.0; PANEL];
                let row = &tile.a[r * tile.stride..][..tile.k];
                for (x, w) in row.iter().zip(panel.as_chunks::<PANEL>().0) {
                    for i in 0..PANEL {
                        out[i] = x.mul_add(w[i], out[i]);
                    }
                }
            }
        }
    }
}

impl DenseSimd for Scalar {}

impl<S: VectorSimd> DenseSimd for S {
    #[inline(always)]
    fn dense(self, tile: Tile<'_>, panels: usize, out: &mut Results) {
        let d = self.vectors();
        macro_rules! rows {
            ($p:literal, $($r:literal)*) => {
                match tile.rows {
                    $($r => vector_tile::<_, $r, $p>(d, tile, out),)*
                    other => unreachable!("a tile of {other} rows"),
                }
            };
        }
        if panels == 2 { rows!(2, 1 2 3 4 5 6 7 8 9 10 11 12) } else { rows!(1, 1 2 3 4 5 6 7 8 9 10 11 12) }
    }
}

#[inline(always)]
fn vector_tile<D: F32Simd, const R: usize, const P: usize>(d: D, tile: Tile<'_>, out: &mut Results) {
    tile.check(R, P);
    let mut sums = [[d.zeros(); P]; R];
    let rows: [*const f32; R] = {
        let mut rows = [tile.a.as_ptr(); R];
        for (r, row) in rows.iter_mut().enumerate() {
            *row = row.wrapping_add(r * tile.stride);
        }
        rows
    };
    for k in 0..tile.k {
        let mut w = [d.zeros(); P];
        for p in 0..P {
            // SAFETY: `check` has compared the panel's length with the depth.
            w[p] = unsafe { d.load_floats(tile.panels[p].as_ptr().add(k * PANEL).cast()) };
        }
        for r in 0..R {
            // SAFETY: `check` has compared the rows' length with the depth.
            let x = unsafe { d.splat(rows[r].add(k)) };
            for p in 0..P {
                sums[r][p] = d.fma(w[p], x, sums[r][p]);
            }
        }
    }
    for r in 0..R {
        for p in 0..P {
            // SAFETY: room for 16 floats.
            unsafe { d.store(sums[r][p], out[r][p].as_mut_ptr()) };
        }
    }
}
