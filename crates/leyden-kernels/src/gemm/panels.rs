//! Matrices in panels of 16 rows: packing, and products of panels with tiles of activations.

use crate::context::Cpu;
use crate::cpu::isa::Tier;
use crate::error::Error;
use crate::gemm::format::Format;
use crate::gemm::microkernel::kernels::TileFn;
use crate::gemm::packed_weights::{Data, Layout, PackedWeights};
use crate::gemm::registry::{Kernels, kernels_of};
use crate::memory::disjoint::Disjoint;
use crate::memory::huge::HugeBuf;
use crate::quant::packed_a::Tile;
use crate::types::PANEL_ROWS;
use leyden_tensor::TensorView;
use std::ops::Range;

/// Bytes of panels packed before the source pages are released: few compared with a model, many compared with the cost
/// of a parallel job.
pub(super) const SLICE_BYTES: usize = 16 << 20;

/// Panels of a tensor: the number of matrices, their shape, and the bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PanelSizes {
    pub(super) count: usize,
    pub(super) rows: usize,
    pub(super) k: usize,
    pub(super) panel_bytes: usize,
    pub(super) bytes: usize,
}

impl PanelSizes {
    /// Returns the panels of a tensor `[rows, k]` or `[matrices, rows, k]`; `None` if the size overflows.
    pub(super) fn of(format: &Format, tensor: &TensorView<'_>) -> Option<PanelSizes> {
        let (count, rows) = match tensor.shape() {
            &[count, rows, _] => (count, rows),
            _ => (1, tensor.rows()),
        };
        let k = tensor.cols();
        let panel_bytes = (format.panel_bytes)(k)?;
        let bytes = panel_bytes.checked_mul(rows.div_ceil(PANEL_ROWS))?.checked_mul(count)?;
        Some(PanelSizes { count, rows, k, panel_bytes, bytes })
    }
}

impl PackedWeights {
    /// Packs a tensor of shape `[rows, k]`, or a stack of shape `[matrices, rows, k]`.
    ///
    /// # Errors
    /// If there is no kernel for the tensor's type, no memory for the packed copy, or its size overflows.
    pub fn pack(cpu: &Cpu, tensor: &TensorView<'_>) -> Result<PackedWeights, Error> {
        PackedWeights::pack_in_slices(cpu, tensor, &mut |_| {})
    }

    /// Packs a tensor as [`pack`](Self::pack) does. Calls `packed` with each byte range of the tensor that will not be
    /// read again, in order, so that a file's pages need not all be in memory beside the packed copy.
    ///
    /// # Errors
    /// If there is no kernel for the tensor's type, no memory for the packed copy, or its size overflows.
    pub fn pack_in_slices(
        cpu: &Cpu,
        tensor: &TensorView<'_>,
        packed: &mut dyn FnMut(Range<usize>),
    ) -> Result<PackedWeights, Error> {
        let kernels = kernels_of(tensor.dtype(), cpu.is_exact())
            .ok_or_else(|| Error::no_kernel(tensor.name(), tensor.dtype()))?;
        let sizes = PanelSizes::of(&kernels.format, tensor).ok_or_else(|| Error::too_large(tensor.name()))?;
        let PanelSizes { count, rows, k, panel_bytes, bytes } = sizes;
        let each = rows.div_ceil(PANEL_ROWS);
        let panels = each * count;
        // First row of a panel in the tensor.
        let first_row =
            |p: usize| if p == panels { rows * count } else { p / each * rows + p % each * PANEL_ROWS };
        let mut data = HugeBuf::zeroed(bytes).map_err(|e| Error::memory(tensor.name(), bytes, e))?;
        cpu.place(&mut data);
        let out = Disjoint::new(data.as_mut_slice());
        let pack = |p: usize| {
            // SAFETY: panels do not overlap, and each task has its own.
            let panel = unsafe { out.range(p * panel_bytes, panel_bytes) };
            let mut source: [&[u8]; PANEL_ROWS] = [&[]; PANEL_ROWS];
            let n = PANEL_ROWS.min(rows - p % each * PANEL_ROWS);
            for (i, row) in source[..n].iter_mut().enumerate() {
                *row = tensor.row(first_row(p) + i);
            }
            (kernels.format.pack)(&source[..n], k, panel);
        };
        let slice = (SLICE_BYTES / panel_bytes.max(1)).max(1);
        for first in (0..panels).step_by(slice) {
            let last = panels.min(first + slice);
            cpu.pool().run(last - first, |p| pack(first + p));
            packed(first_row(first) * tensor.row_bytes()..first_row(last) * tensor.row_bytes());
        }
        let name = tensor.name().to_owned();
        let layout = Layout::Panels { kernels, panel_bytes };
        let dtype = tensor.dtype();
        Ok(PackedWeights { name, dtype, count, rows, k, data: Data::Memory(data), layout })
    }
}

impl PackedWeights {
    /// Returns the panels.
    ///
    /// # Panics
    /// If the layout is another one.
    pub(super) fn as_panels(&self) -> PanelMatrix<'_> {
        let Layout::Panels { kernels, panel_bytes } = self.layout else {
            panic!("{}: a matrix of panels", self.name);
        };
        PanelMatrix { kernels, bytes: self.as_bytes(), panel_bytes, rows: self.rows, k: self.k }
    }
}

/// Panels of a matrix, or of a stack of matrices.
#[derive(Clone, Copy, Debug)]
pub(super) struct PanelMatrix<'a> {
    pub(super) kernels: &'static Kernels,
    pub(super) bytes: &'a [u8],
    pub(super) panel_bytes: usize,
    /// Number of outputs of each matrix.
    pub(super) rows: usize,
    pub(super) k: usize,
}

impl<'a> PanelMatrix<'a> {
    /// Returns the number of panels of each matrix.
    pub(super) fn panels(self) -> usize {
        self.rows.div_ceil(PANEL_ROWS)
    }

    pub(super) fn panel(self, p: usize) -> &'a [u8] {
        self.panels_at(p..p + 1)
    }

    /// Returns the bytes of consecutive panels.
    pub(super) fn panels_at(self, panels: Range<usize>) -> &'a [u8] {
        &self.bytes[panels.start * self.panel_bytes..panels.end * self.panel_bytes]
    }

    /// Multiplies panel `p` with one tile into `out[c][16]`.
    #[inline(always)]
    pub(super) fn tile(self, tier: Tier, p: usize, tile: &Tile<'_>, out: &mut [f32]) {
        PanelMatrix::by_tile(self, tier, tile)(p, out);
    }

    /// Returns [`tile`](Self::tile) for many panels: a function of the panel and the output.
    #[inline(always)]
    pub(super) fn by_tile(self, tier: Tier, tile: &'a Tile<'a>) -> impl Fn(usize, &mut [f32]) + 'a {
        let function = match for_any_columns(self.kernels, tier) {
            Some(function) => function,
            None => (self.kernels.tiles)(tier)[tile.c - 1],
        };
        #[cfg(test)]
        super::tests::runs(tier.level(), function);
        // SAFETY: the Tier proves the features; the panel is whole and of this format and depth; the driver
        // checked the tile's activation format and depth against this matrix, and tile.c selected the function.
        move |p, out| unsafe { function(self.panel(p), self.k, tile, out) }
    }
}

/// Returns the kernel for packed panels and tiles of any number of columns, if the tier has one.
#[inline(always)]
fn for_any_columns(kernels: &Kernels, tier: Tier) -> Option<TileFn> {
    if !tier.level().matrices() {
        return None;
    }
    let many = kernels.gemm(tier).filter(|many| many.any_columns)?;
    many.tiles.map(|[tile, _]| tile)
}
