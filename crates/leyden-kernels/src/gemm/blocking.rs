//! Blocking: how a task visits panels and tiles of tokens so that both stay in L2, and where panels are unpacked.
//!
//! A level with registers for it multiplies two panels at a time with a full tile: an activation is loaded once for both. Where enough tiles
//! meet a panel it is unpacked once for all of them ([`panel`](crate::gemm::unpack::panel)).

use crate::context::Cpu;
use crate::cpu::isa::{Level, Tier};
use crate::gemm::microkernel::kernels::{GemmKernels, UnpackFn, UnpackKernel};
use crate::gemm::packed_weights::PackedWeights;
use crate::memory::scratch::Scratch;
use crate::prefetch::prefetch_lines;
use crate::quant::packed_a::{PackedA, Tile};
use crate::types::PANEL_ROWS;
use std::ops::Range;

/// Panels that any level multiplies together, at most.
pub(super) const MAX_PANELS: usize = 2;

/// Bytes of unpacked panels that lie in L2 together, beside the activations of a group of tiles.
const AT_ONCE_BYTES: usize = 320 << 10;
/// The same with AMX, whose processors have larger L2 caches.
const AT_ONCE_OF_MATRICES: usize = 640 << 10;

/// With how many tiles the panels that are unpacked next are prefetched: fewer than meet one set of them in turn.
const PREFETCH_TILES: usize = 4;

/// How many panels of a matrix meet each of so many tiles together.
pub(super) fn together(weights: &PackedWeights, tier: Tier, tiles: usize) -> usize {
    weights.kernels.for_tiles(tier, tiles).map_or(1, |(many, _)| many.panels)
}

/// The packed panels of one task: some at a time, each with all tiles of a group.
pub(super) struct Panels<'a> {
    weights: &'a PackedWeights,
    tier: Tier,
    many: Option<&'static GemmKernels>,
    unpack: Option<&'static UnpackKernel>,
    /// The task's panels, and how many others lie between them and those of the task that its thread likely gets next.
    task: Range<usize>,
    others: usize,
    /// Bytes of a panel unpacked, and room for [`at_once`](Self::at_once) of them.
    each: usize,
    bytes: Scratch,
    /// What was found of them, `[place][k / 128]`.
    norms: Vec<f32>,
    /// For each place, the panel plus 1 that begins there, alone or with those that meet a tile together.
    panels: Vec<usize>,
    /// The bytes of the matrix that are unpacked next, as far as they were not yet prefetched, and how many to prefetch with each
    /// tile.
    ahead: Range<usize>,
    at_a_time: usize,
}

impl<'a> Panels<'a> {
    /// For a task of some panels, each of which meets `tiles` tiles; `others` lie before the thread's next.
    pub(super) fn new(
        weights: &'a PackedWeights,
        tier: Tier,
        panels: Range<usize>,
        others: usize,
        tiles: usize,
    ) -> Panels<'a> {
        let (many, unpack) = weights.kernels.for_tiles(tier, tiles).unzip();
        let unpack = unpack.flatten();
        // None where there is nothing to unpack.
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

    /// The panels that should meet all tiles before the next do; `None` if it makes no difference.
    pub(super) fn at_once(&self) -> Option<usize> {
        (!self.panels.is_empty()).then_some(self.panels.len())
    }

    /// Multiplies up to [`together`] panels with tile `t` into `out[panel][c][16]`.
    #[inline(always)]
    pub(super) fn tile(&mut self, panels: Range<usize>, input: &PackedA, t: usize, out: &mut [f32]) {
        // Written once, field by field, and read so: a copy would read several fields at a time, and to do that wait
        // until everything that was stored before has reached the cache, the results of the last tile among it.
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
            // SAFETY: the Tier proves the features; the panels are whole and of this format and depth, and so is what was
            // made of them; the driver checked the tile's activation format and depth; tile.c selected the function.
            return unsafe { function(bytes, k, &tile, out) };
        }
        for (p, out) in panels.zip(out.chunks_exact_mut(tile.c * PANEL_ROWS)) {
            weights.tile(tier, p, &tile, out);
        }
    }

    /// Prefetches some of what is unpacked next: it then comes from memory while the processor multiplies.
    #[inline(always)]
    fn prefetch_next(&mut self) {
        let some = self.ahead.start..self.ahead.end.min(self.ahead.start + self.at_a_time);
        self.ahead.start = some.end;
        prefetch_lines(&self.weights.as_bytes()[some]);
    }

    /// Panels that meet a tile together, unpacked, and what was found of them all.
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

/// The widest tile of any tier.
pub(crate) const MAX_COLUMNS: usize = Level::MAX_COLUMNS;

/// Products of one tile with the panels that meet it together, at most: `[panel][c][16]`.
pub(super) const TILE: usize = MAX_PANELS * MAX_COLUMNS * PANEL_ROWS;

/// Products of one tile, no vector in two cache lines.
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

/// Quantised values or values of activations visited together, so that they stay in L2 while panels pass.
const GROUP_BYTES: usize = 128 << 10;

/// Below this many multiplications a product runs on the calling thread: waking the team costs more.
const SINGLE_THREAD_MACS: usize = 160 << 10;

/// Calls `task` for each of so many tasks of a product, on the calling thread if it is small.
pub(super) fn run_tasks(cpu: &Cpu, macs: usize, tasks: usize, task: impl Fn(usize) + Sync) {
    if macs < SINGLE_THREAD_MACS { (0..tasks).for_each(task) } else { cpu.pool().run(tasks, task) }
}

pub(super) fn check(w: &PackedWeights, input: &PackedA) {
    assert_eq!(w.count, 1, "a stack is no matrix");
    assert_eq!((w.act_format(), w.k), (input.act_format, input.k), "weights and activations belong together");
}

/// Panels per task: enough tasks to balance a preempted core, few enough to amortise taking one; where each member
/// has a second task still, a multiple of those that meet a tile together.
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

/// The GEMV path: the tile that is the whole batch, where packed panels meet it one by one.
pub(super) fn gemv_tile(input: &PackedA, together: usize) -> Option<Tile<'_>> {
    (input.tiles() == 1 && together == 1).then(|| input.tile(0)).filter(|tile| tile.c <= GEMV_MAX_COLUMNS)
}

/// Panels by as many as have room for so many tokens of theirs in that of one tile, so that what follows their products is
/// called less often.
pub(super) fn panel_runs(panels: Range<usize>, columns: usize) -> impl Iterator<Item = Range<usize>> {
    let (each, end) = (GEMV_MAX_COLUMNS / columns, panels.end);
    panels.step_by(each).map(move |first| first..end.min(first + each))
}

/// Tiles that are visited together.
pub(super) fn group_tiles(input: &PackedA) -> usize {
    if input.tier().level().matrices() {
        // Of a prompt's activations of a deep layer that is a quarter of L2, beside which panels lie.
        return 1;
    }
    let bytes = input.column_bytes() * Level::VECTOR_COLUMNS;
    (GROUP_BYTES / bytes).max(if input.act_format.is_float() { 1 } else { 4 })
}

/// Visits every (panels, tile) of a chunk, both by number: columns in groups that stay in cache, panels all at once or so
/// many, and so many of them together.
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
