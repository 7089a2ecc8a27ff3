//! Blocking: the order in which a task multiplies panels with tiles of tokens so that both stay in L2, and the
//! unpacking of panels.
//!
//! A level with enough registers multiplies two panels at a time with a full tile: each activation is loaded once for
//! both. If enough tiles use a panel, it is unpacked once for all of them ([`panel`](crate::gemm::unpack::panel)).

use crate::context::Cpu;
use crate::cpu::isa::{Level, Tier};
use crate::gemm::microkernel::kernels::{GemmKernels, UnpackFn, UnpackKernel};
use crate::gemm::packed_weights::PackedWeights;
use crate::gemm::panels::PanelMatrix;
use crate::memory::scratch::Scratch;
use crate::prefetch::prefetch_lines;
use crate::quant::packed_a::{PackedA, Tile};
use crate::types::PANEL_ROWS;
use std::ops::Range;

/// Maximum number of panels that any level multiplies together.
pub(super) const MAX_PANELS: usize = 2;

/// Bytes of unpacked panels that are kept in L2 together, beside the activations of a group of tiles.
const AT_ONCE_BYTES: usize = 320 << 10;
/// Same limit with AMX, whose processors have larger L2 caches.
const AT_ONCE_OF_MATRICES: usize = 640 << 10;

/// Number of tiles over which the next panels are prefetched: fewer than the number that use one set of panels in turn.
const PREFETCH_TILES: usize = 4;

/// Returns the number of panels of a matrix that are multiplied together with each of `tiles` tiles.
pub(super) fn together(weights: PanelMatrix<'_>, tier: Tier, tiles: usize) -> usize {
    weights.kernels.for_tiles(tier, tiles).map_or(1, |(many, _)| many.panels)
}

/// Panels of one task, unpacked a few at a time and multiplied with all tiles of a group.
pub(super) struct Panels<'a> {
    weights: PanelMatrix<'a>,
    tier: Tier,
    many: Option<&'static GemmKernels>,
    unpack: Option<&'static UnpackKernel>,
    /// Panels of the task, and number of panels between them and the next task of the same thread, if tasks are taken
    /// in turn.
    task: Range<usize>,
    others: usize,
    /// Bytes of an unpacked panel, and room for [`at_once`](Self::at_once) of them.
    each: usize,
    bytes: Scratch,
    /// Norms found while unpacking, `[place][k / 128]`.
    norms: Vec<f32>,
    /// Content of each place: index plus 1 of the (first) panel that is unpacked there, or 0.
    panels: Vec<usize>,
    /// Byte range of the matrix that is unpacked next and not yet prefetched, and number of bytes to prefetch per tile.
    ahead: Range<usize>,
    at_a_time: usize,
}

impl<'a> Panels<'a> {
    /// Prepares a task of `panels`, each multiplied with `tiles` tiles; `others` panels lie before the thread's next
    /// task.
    pub(super) fn new(
        weights: PanelMatrix<'a>,
        tier: Tier,
        panels: Range<usize>,
        others: usize,
        tiles: usize,
    ) -> Panels<'a> {
        let (many, unpack) = weights.kernels.for_tiles(tier, tiles).unzip();
        let unpack = unpack.flatten();
        // `None` if panels are not unpacked.
        let each = many.and_then(|many| Some((many.panels, (unpack?.bytes)(weights.k)?)));
        let places = each.map_or(0, |(together, each)| {
            let bytes = if tier.level().matrices() { AT_ONCE_OF_MATRICES } else { AT_ONCE_BYTES };
            let room = bytes / each.max(1) / together * together;
            room.min(panels.len().next_multiple_of(together)).max(together)
        });
        let each = each.map_or(0, |(_, each)| each);
        Panels {
            weights,
            tier,
            many,
            unpack,
            others,
            each,
            bytes: Scratch::of(each * places),
            norms: vec![0.0; weights.k / 128 * places],
            panels: vec![0; places],
            task: panels,
            ahead: 0..0,
            at_a_time: 0,
        }
    }

    /// Returns the number of panels to multiply with all tiles before the next ones; `None` if it makes no difference.
    pub(super) fn at_once(&self) -> Option<usize> {
        (!self.panels.is_empty()).then_some(self.panels.len())
    }

    /// Multiplies up to [`together`] panels with tile `t` into `out[panel][c][16]`.
    #[inline(always)]
    pub(super) fn tile(&mut self, panels: Range<usize>, input: &PackedA, t: usize, out: &mut [f32]) {
        // Written and read field by field: a copy would read several fields at a time, and so would wait until all
        // earlier stores, the results of the last tile among them, have reached the cache.
        let mut tile = input.tile(t);
        let (tier, weights, k) = (self.tier, self.weights, self.weights.k);
        if let Some(many) = self.many
            && panels.len() == many.panels
            && let Some(tiles) = self.unpack.map(|unpack| &unpack.tiles).or(many.tiles.as_ref())
            && let Some(&function) =
                tiles.get(if many.any_columns { 0 } else { many.tokens.wrapping_sub(tile.c) })
        {
            let bytes = match self.unpack {
                Some(unpack) => {
                    self.prefetch_next();
                    let (bytes, norms) = self.unpacked(unpack.panel, panels);
                    tile.norms = norms;
                    bytes
                }
                None => weights.panels_at(panels),
            };
            #[cfg(test)]
            crate::gemm::tests::runs(tier.level(), function);
            // SAFETY: the Tier proves the features; the panels, or their unpacked form, are whole and of this format
            // and depth; the driver checked the tile's activation format and depth; tile.c selected the function.
            return unsafe { function(bytes, k, &tile, out) };
        }
        for (p, out) in panels.zip(out.chunks_exact_mut(tile.c * PANEL_ROWS)) {
            weights.tile(tier, p, &tile, out);
        }
    }

    /// Prefetches a part of the panels that are unpacked next, so that memory is read while the processor multiplies.
    #[inline(always)]
    fn prefetch_next(&mut self) {
        let some = self.ahead.start..self.ahead.end.min(self.ahead.start + self.at_a_time);
        self.ahead.start = some.end;
        prefetch_lines(&self.weights.bytes[some]);
    }

    /// Returns panels that are multiplied together in unpacked form, and their norms.
    #[inline(always)]
    fn unpacked(&mut self, unpack: UnpackFn, panels: Range<usize>) -> (&[u8], &[f32]) {
        let (weights, k) = (self.weights, self.weights.k);
        let place = (panels.start - self.task.start) % self.panels.len();
        let bytes = &mut self.bytes.bytes()[place * self.each..][..panels.len() * self.each];
        let norms = &mut self.norms[place * (k / 128)..][..k / 128];
        if self.panels[place] != panels.start + 1 {
            self.panels[place] = panels.start + 1;
            norms.fill(0.0);
            let (each, all) = (weights.panel_bytes, weights.panels());
            let next = if panels.end < self.task.end { panels.end } else { panels.end + self.others };
            self.ahead = next.min(all) * each..(next + panels.len()).min(all) * each;
            self.at_a_time = (self.ahead.len() / PREFETCH_TILES).next_multiple_of(64);
            for (p, out) in panels.zip(bytes.chunks_exact_mut(self.each)) {
                // SAFETY: the Tier proves the features; the panel is whole, and the buffers were made for its format.
                unsafe { unpack(weights.panel(p), k, out, norms) };
            }
        }
        (bytes, norms)
    }
}

/// Columns of the widest tile of any tier.
pub(crate) const MAX_COLUMNS: usize = Level::MAX_COLUMNS;

/// Maximum number of products of one tile with the panels multiplied together: `[panel][c][16]`.
pub(super) const TILE: usize = MAX_PANELS * MAX_COLUMNS * PANEL_ROWS;

/// Products of one tile, aligned so that no vector crosses a cache line.
#[repr(align(64))]
pub(super) struct TileBuffer(pub(super) [f32; TILE]);

impl TileBuffer {
    #[inline(always)]
    pub(super) fn new() -> TileBuffer {
        TileBuffer([0.0; TILE])
    }
}

/// Columns up to which a batch of one tile takes the GEMV path.
pub(super) const GEMV_MAX_COLUMNS: usize = 32;

const _: () = assert!(GEMV_MAX_COLUMNS >= Level::VECTOR_COLUMNS);

/// Bytes of the activations that are visited together, so that they stay in L2 while panels change.
const GROUP_BYTES: usize = 128 << 10;

/// Number of multiplications below which a product runs on the calling thread: waking the team costs more.
const SINGLE_THREAD_MACS: usize = 160 << 10;

/// Calls `task` for each of `tasks` tasks of a product, on the calling thread if the product is small.
pub(super) fn run_tasks(cpu: &Cpu, macs: usize, tasks: usize, task: impl Fn(usize) + Sync) {
    if macs < SINGLE_THREAD_MACS { (0..tasks).for_each(task) } else { cpu.pool().run(tasks, task) }
}

pub(super) fn check(w: &PackedWeights, input: &PackedA) {
    assert_eq!(w.count, 1, "one matrix, not a stack");
    assert_eq!(
        (w.act_format(), w.k),
        (input.act_format, input.k),
        "activation format and depth of weights and activations"
    );
}

/// Returns the panels per task: enough tasks to balance a preempted core, few enough to amortise taking one. A multiple
/// of `together` if each member still gets two tasks.
pub(super) fn chunk_panels(cpu: &Cpu, panels: usize, together: usize, macs: usize) -> usize {
    let members = cpu.pool().members();
    let share = (panels / (members * 16)).clamp(1, 8);
    if macs < SINGLE_THREAD_MACS {
        panels.max(1)
    } else if panels >= members * 2 * together {
        share.next_multiple_of(together)
    } else {
        share
    }
}

/// Returns the tile of a batch on the GEMV path: a single narrow tile whose packed panels are multiplied one by one.
pub(super) fn gemv_tile(input: &PackedA, together: usize) -> Option<Tile<'_>> {
    (input.tiles() == 1 && together == 1).then(|| input.tile(0)).filter(|tile| tile.c <= GEMV_MAX_COLUMNS)
}

/// Splits panels into runs whose products with `columns` columns fit the buffer of one tile, so that the epilogue is
/// called less often.
pub(super) fn panel_runs(panels: Range<usize>, columns: usize) -> impl Iterator<Item = Range<usize>> {
    let (each, end) = (GEMV_MAX_COLUMNS / columns, panels.end);
    panels.step_by(each).map(move |first| first..end.min(first + each))
}

/// Returns the number of tiles that are visited together.
pub(super) fn group_tiles(input: &PackedA) -> usize {
    if input.tier().level().matrices() {
        // One tile of a deep layer's activations takes a quarter of L2, and panels need the rest.
        return 1;
    }
    let bytes = input.column_bytes() * Level::VECTOR_COLUMNS;
    (GROUP_BYTES / bytes).max(if input.act_format.is_float() { 1 } else { 4 })
}

/// Calls `visit` for every (panels, tile) of a chunk, by index: tiles in groups that stay in cache, panels `at_once` at
/// a time and `together` of them per visit.
pub(super) fn for_tile_indices(
    input: &PackedA,
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
