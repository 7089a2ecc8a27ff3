//! Matrix products: packed weights times activations.
//!
//! A [`PackedMatrix`] is made once from a tensor of the file. [`multiply`] runs several products that share a
//! batch as one parallel job, so that Q, K and V cost one barrier; [`multiply_gated`] computes
//! `activation(gate x) * (up x)` without storing either factor. A mixture of experts, where every token chooses some of a
//! stack of matrices, has its own driver, [`multiply_experts`].
//!
//! A task is a few panels times all columns. Columns are visited in groups whose activations fit the second
//! cache beside the panels. Which task computes an element never changes its value.

use crate::activations::{Activations, Tile};
use crate::error::Error;
use crate::isa::{Level, Tier};
use crate::memory::{Disjoint, HugeBuf};
use crate::{Cpu, Grid};
use format::{EXACT, FORMATS, Format, ROWS};
use leyden_tensor::{DType, FileBytes, TensorView};
use many::{Panels, together};
use output::Output;
use std::ops::Range;

#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
pub(crate) mod expanded;
pub(crate) mod family;
pub(crate) mod floats;
pub(crate) mod format;
mod gated;
mod grouped;
mod kept;
pub(crate) mod many;
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
pub(crate) mod matrices;
pub(crate) mod mixed;
mod output;
mod routing;
pub(crate) mod stream;

pub use gated::{Gated, multiply_gated, multiply_gated_onto};
pub use grouped::{Experts, GroupedWork, multiply_experts};
pub use kept::{CHECKED_BYTES, Kept, LAYOUT};
pub use routing::Routing;

/// The widest tile of any tier.
pub(crate) const MAX_COLUMNS: usize = Level::MAX_COLUMNS;

/// Products of one tile with the panels that meet it together, at most: `[panel][c][16]`.
const TILE: usize = many::MAX_PANELS * MAX_COLUMNS * ROWS;

/// Products of one tile, no vector in two cache lines.
#[repr(align(64))]
struct OfTile([f32; TILE]);

impl OfTile {
    #[inline(always)]
    fn new() -> OfTile {
        OfTile([0.0; TILE])
    }
}

/// Columns of a batch of one tile, at most, whose panels are multiplied as they are: with 48, of matrices, Q4_K was slower so.
const ONLY_COLUMNS: usize = 32;
const _: () = assert!(ONLY_COLUMNS >= Level::VECTOR_COLUMNS);

/// Codes or values of activations visited together, so that they stay in the second cache while panels pass.
const GROUP_BYTES: usize = 128 << 10;

/// Packed at once before the pages they came from are given back: little beside a model, much beside the cost of
/// a job for the team.
const SLICE_BYTES: usize = 16 << 20;

/// Below this many multiplications a product runs on the calling thread: waking the team costs more.
const ALONE: usize = 160 << 10;

/// The format row of a data type; `None` for types that files may hold and no kernel computes with.
pub(crate) fn layout_of(dtype: DType, exact: bool) -> Option<&'static Format> {
    let exact = EXACT.iter().filter(|_| exact);
    exact.chain(FORMATS).find(|f| f.dtype == dtype)
}

/// What activations become that are multiplied with weights of a type, by default or exactly ([`Cpu::with_exact`]); `None`
/// for types that no kernel computes with.
#[must_use]
pub fn grid_of(dtype: DType, exact: bool) -> Option<Grid> {
    layout_of(dtype, exact).map(|format| format.grid)
}

/// What the panels of a tensor are: of how many matrices, of which shape, and their bytes.
#[derive(Clone, Copy, Debug)]
struct Extent {
    count: usize,
    rows: usize,
    k: usize,
    panel_bytes: usize,
    bytes: usize,
}

impl Extent {
    /// The panels of a tensor `[rows, k]` or `[matrices, rows, k]`; `None` if the size overflows.
    fn of(format: &Format, tensor: &TensorView<'_>) -> Option<Extent> {
        let (count, rows) = match tensor.shape() {
            &[count, rows, _] => (count, rows),
            _ => (1, tensor.rows()),
        };
        let k = tensor.cols();
        let panel_bytes = (format.panel_bytes)(k)?;
        let bytes = panel_bytes.checked_mul(rows.div_ceil(ROWS))?.checked_mul(count)?;
        Some(Extent { count, rows, k, panel_bytes, bytes })
    }
}

/// Weights of one matrix, or of a stack of matrices of one shape, in the order the kernels read them. Holds the file's
/// bits, none changed. Every matrix of a stack begins with a panel of its own.
#[derive(Debug)]
pub struct PackedMatrix {
    format: &'static Format,
    name: String,
    count: usize,
    rows: usize,
    k: usize,
    panel_bytes: usize,
    data: Data,
}

/// Where packed weights are.
#[derive(Debug)]
enum Data {
    Memory(HugeBuf),
    File(FileBytes),
}

impl PackedMatrix {
    /// Packs a tensor of shape `[rows, k]`, or a stack of shape `[matrices, rows, k]`.
    ///
    /// # Errors
    /// No kernel computes with the tensor's type, no memory for the packed copy, or its size overflows.
    pub fn pack(cpu: &Cpu, tensor: &TensorView<'_>) -> Result<PackedMatrix, Error> {
        PackedMatrix::pack_in_slices(cpu, tensor, &mut |_| {})
    }

    /// As [`pack`](Self::pack). `packed` is told, in order, which bytes of the tensor will not be read again, so that
    /// a file's pages need not all be in memory beside the packed copy.
    ///
    /// # Errors
    /// No kernel computes with the tensor's type, no memory for the packed copy, or its size overflows.
    pub fn pack_in_slices(
        cpu: &Cpu,
        tensor: &TensorView<'_>,
        packed: &mut dyn FnMut(Range<usize>),
    ) -> Result<PackedMatrix, Error> {
        let format = layout_of(tensor.dtype(), cpu.is_exact())
            .ok_or_else(|| Error::no_kernel(tensor.name(), tensor.dtype()))?;
        let extent = Extent::of(format, tensor).ok_or_else(|| Error::too_large(tensor.name()))?;
        let Extent { count, rows, k, panel_bytes, bytes } = extent;
        let each = rows.div_ceil(ROWS);
        let panels = each * count;
        // The first row of a panel in the tensor.
        let first_row = |p: usize| if p == panels { rows * count } else { p / each * rows + p % each * ROWS };
        let mut data = HugeBuf::zeroed(bytes).map_err(|e| Error::memory(tensor.name(), bytes, e))?;
        cpu.place(&mut data);
        let out = Disjoint::new(data.as_mut_slice());
        let pack = |p: usize| {
            // SAFETY: panels do not overlap, and each task has its own.
            let panel = unsafe { out.range(p * panel_bytes, panel_bytes) };
            let mut source: [&[u8]; ROWS] = [&[]; ROWS];
            let n = ROWS.min(rows - p % each * ROWS);
            for (i, row) in source[..n].iter_mut().enumerate() {
                *row = tensor.row(first_row(p) + i);
            }
            (format.pack)(&source[..n], k, panel);
        };
        let slice = (SLICE_BYTES / panel_bytes.max(1)).max(1);
        for first in (0..panels).step_by(slice) {
            let last = panels.min(first + slice);
            cpu.pool().run(last - first, |p| pack(first + p));
            packed(first_row(first) * tensor.row_bytes()..first_row(last) * tensor.row_bytes());
        }
        let name = tensor.name().to_owned();
        Ok(PackedMatrix { format, name, count, rows, k, panel_bytes, data: Data::Memory(data) })
    }

    /// The tensor's name in the file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The weights as they are packed, of the layout [`LAYOUT`].
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.data {
            Data::Memory(data) => data.as_slice(),
            Data::File(data) => data.as_slice(),
        }
    }

    /// Matrices in the stack; 1 if it is none.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Output values, of each matrix in a stack.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Input values.
    #[must_use]
    pub fn k(&self) -> usize {
        self.k
    }

    /// The type of the weights in the file.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.format.dtype
    }

    /// The activation grid the weights are multiplied with.
    #[must_use]
    pub fn grid(&self) -> Grid {
        self.format.grid
    }

    /// Bytes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.as_bytes().len()
    }

    /// Panels of each matrix.
    fn panels(&self) -> usize {
        self.rows.div_ceil(ROWS)
    }

    fn panel(&self, p: usize) -> &[u8] {
        self.panels_at(p..p + 1)
    }

    /// Panels that lie one behind the other.
    fn panels_at(&self, panels: Range<usize>) -> &[u8] {
        &self.as_bytes()[panels.start * self.panel_bytes..panels.end * self.panel_bytes]
    }

    /// Multiplies panel `p` with one tile into `out[c][16]`.
    #[inline(always)]
    fn tile(&self, tier: Tier, p: usize, tile: &Tile<'_>, out: &mut [f32]) {
        self.by_tile(tier, tile)(p, out);
    }

    /// [`tile`](Self::tile) for many panels.
    #[inline(always)]
    fn by_tile<'a>(&'a self, tier: Tier, tile: &'a Tile<'a>) -> impl Fn(usize, &mut [f32]) + 'a {
        let function = match many::for_any_columns(self.format, tier) {
            Some(function) => function,
            None => (self.format.tiles)(tier)[tile.c - 1],
        };
        #[cfg(test)]
        tests::runs(tier.level(), function);
        // SAFETY: the Tier proves the features; the panel is whole and of this format and depth; the driver
        // checked the tile's grid and depth against this matrix, and tile.c selected the function.
        move |p, out| unsafe { function(self.panel(p), self.k, tile, out) }
    }
}

/// What happens to a finished product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Replaces the output.
    Set,
    /// Is added to the output (a residual connection).
    Add,
}

/// One matrix product: `out[n][rows]` from the batch's `n` columns.
#[derive(Debug)]
pub struct Product<'a> {
    /// The weights.
    pub weights: &'a PackedMatrix,
    /// Added to every column, if any; one value per row.
    pub bias: Option<&'a [f32]>,
    /// One row of `weights.rows()` values per column of the batch.
    pub out: &'a mut [f32],
    /// Set or add.
    pub write: Write,
}

/// Runs products that share one batch as a single job.
///
/// # Panics
/// If a matrix does not fit the batch (grid or depth), or an output or bias has the wrong length.
pub fn multiply(cpu: &Cpu, input: &Activations, products: &mut [Product<'_>]) {
    struct Part<'a> {
        weights: &'a PackedMatrix,
        out: Output<'a>,
        first_task: usize,
    }
    let panels: usize = products.iter().map(|p| p.weights.panels()).sum();
    let macs: usize = products.iter().map(|p| p.weights.rows * p.weights.k).sum::<usize>() * input.n;
    let together = |w| together(w, input.tier(), input.tiles());
    let most = products.iter().map(|p| together(p.weights)).max().unwrap_or(1);
    let chunk = chunk_panels(cpu, panels, most, macs);
    let mut tasks = 0;
    let parts: Vec<Part<'_>> = products
        .iter_mut()
        .map(|p| {
            check(p.weights, input);
            assert_eq!(p.out.len(), p.weights.rows * input.n, "output of a product");
            assert!(p.bias.is_none_or(|b| b.len() == p.weights.rows), "bias of a product");
            let first_task = tasks;
            tasks += p.weights.panels().div_ceil(chunk);
            let out = Output::new(p.out, p.weights.rows, p.bias, p.write);
            Part { weights: p.weights, out, first_task }
        })
        .collect();
    let work = |task: usize| {
        let part = &parts[parts.partition_point(|p| p.first_task <= task) - 1];
        let (w, results) = (part.weights, part.out.of_task());
        let start = (task - part.first_task) * chunk;
        let panels = start..(start + chunk).min(w.panels());
        if let Some(tile) = only_tile(input, together(w)) {
            let mut y = [0.0; ONLY_COLUMNS * ROWS];
            let multiply = w.by_tile(input.tier(), &tile);
            for panels in several(panels, tile.c) {
                for (p, y) in panels.clone().zip(y.chunks_exact_mut(tile.c * ROWS)) {
                    multiply(p, y);
                }
                // SAFETY: (column, panel) pairs belong to one task each.
                unsafe { results.write(cpu.tier(), panels, 0..tile.c, &y) };
            }
            return;
        }
        let OfTile(y) = &mut OfTile::new();
        let others = chunk * (cpu.pool().members() - 1);
        let mut weights = Panels::new(w, input.tier(), panels.clone(), others, input.tiles());
        let visits = (weights.at_once(), together(w));
        for_tile_indices(input, 0..input.tiles(), panels, visits, |panels, t| {
            let (first, end) = input.bounds(t);
            results.fetch(&panels, first..end);
            weights.tile(panels.clone(), input, t, y);
            // SAFETY: as above.
            unsafe { results.write(cpu.tier(), panels, first..end, y) };
        });
    };
    if macs < ALONE { (0..tasks).for_each(work) } else { cpu.pool().run(tasks, work) }
}

fn check(w: &PackedMatrix, input: &Activations) {
    assert_eq!(w.count, 1, "a stack is no matrix");
    assert_eq!((w.format.grid, w.k), (input.grid, input.k), "weights and activations belong together");
}

/// Panels per task: enough tasks to balance a preempted core, few enough to amortise taking one; where each member
/// has a second task still, a multiple of those that meet a tile together.
fn chunk_panels(cpu: &Cpu, panels: usize, together: usize, macs: usize) -> usize {
    let members = cpu.pool().members();
    let share = (panels / (members * 16)).clamp(1, 8);
    if macs < ALONE {
        panels.max(1)
    } else if panels >= members * 2 * together {
        share.next_multiple_of(together)
    } else {
        share
    }
}

/// The tile that is the whole batch, where panels meet it one by one, as they are. It has a loop of its own: with one column a panel of
/// depth 2,048 took 230 ns, and finding its way through the loop over panels and tiles 90 more.
fn only_tile(input: &Activations, together: usize) -> Option<Tile<'_>> {
    (input.tiles() == 1 && together == 1).then(|| input.tile(0)).filter(|tile| tile.c <= ONLY_COLUMNS)
}

/// Panels by as many as have room for so many columns of theirs in that of one tile, so that what follows their products is
/// called less often.
fn several(panels: Range<usize>, columns: usize) -> impl Iterator<Item = Range<usize>> {
    let (each, end) = (ONLY_COLUMNS / columns, panels.end);
    panels.step_by(each).map(move |first| first..end.min(first + each))
}

/// Tiles that are visited together.
fn group_tiles(input: &Activations) -> usize {
    if input.tier().level().matrices() {
        // Of a prompt's activations of a deep layer that is a quarter of the second cache, beside which panels lie.
        return 1;
    }
    let bytes = input.column_bytes() * Level::VECTOR_COLUMNS;
    (GROUP_BYTES / bytes).max(if input.grid.is_float() { 1 } else { 4 })
}

/// Visits every (panels, tile) of a chunk, both by number: columns in groups that stay in cache, panels all at once or so
/// many, and so many of them together.
fn for_tile_indices(
    input: &Activations,
    tiles: Range<usize>,
    panels: Range<usize>,
    (at_once, together): (Option<usize>, usize),
    mut visit: impl FnMut(Range<usize>, usize),
) {
    let group = group_tiles(input);
    let at_once = at_once.unwrap_or(panels.len()).max(1);
    for start in panels.clone().step_by(at_once) {
        let end = panels.end.min(start + at_once);
        for first in tiles.clone().step_by(group) {
            let last = (first + group).min(tiles.end);
            for p in (start..end).step_by(together) {
                for t in first..last {
                    visit(p..end.min(p + together), t);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
