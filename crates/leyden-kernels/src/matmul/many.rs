//! Many columns: the kernels that a format and level has for them, and how a task meets its panels with them.
//!
//! Where a tile has about as many columns as there can be, a level with registers for it multiplies two panels at a time:
//! an activation is loaded once for both. Where many tiles meet a panel, its codes may be taken apart once for all of them
//! ([`expanded`](super::expanded)).

use super::PackedMatrix;
use super::format::{Format, ROWS, TileFn};
use crate::activations::Activations;
use crate::isa::{Tier, prefetch_lines};
use crate::memory::Aligned;
use std::cell::Cell;
use std::ops::Range;

/// Panels that any level multiplies together, at most.
pub(super) const MAX_PANELS: usize = 2;

/// [`Expand::fewest`] of most levels, of AVX2, and there of formats whose packed tiles hold more sums than registers.
pub(crate) const FEWEST: usize = 4;
pub(crate) const FEWEST_AVX2: usize = 3;
pub(crate) const FEWEST_WITHOUT_REGISTERS: usize = 2;

/// Panels taken apart that lie in the second cache together, beside the activations of a group of tiles.
const AT_ONCE_BYTES: usize = 320 << 10;
/// Where instructions multiply matrices, whose processors have second caches of two MiB.
const AT_ONCE_OF_MATRICES: usize = 640 << 10;

/// With how many tiles the panels that are taken apart next are asked for: fewer than meet one set of them in turn.
const ASKED_FOR_IN: usize = 4;

/// Writes a panel as tiles of many columns read it, and raises `norms` to what `family::norms_of` says of it, where they
/// read that.
///
/// # Safety
/// As of [`TileFn`]; `out` has as many bytes as [`Expand::bytes`] says, `norms` one number for each 128 values.
pub(crate) type ExpandFn = unsafe fn(panel: &[u8], k: usize, out: &mut [u8], norms: &mut [f32]);

/// How panels are taken apart.
#[derive(Debug)]
pub(crate) struct Expand {
    /// Bytes of what is made of a panel of depth `k`, whole cache lines; None on overflow.
    pub(crate) bytes: fn(k: usize) -> Option<usize>,
    pub(crate) panel: ExpandFn,
    /// Tiles that must meet a panel for that to pay.
    pub(crate) fewest: usize,
    /// Tiles that read what was made, of as many columns as [`Many::tiles`].
    pub(crate) tiles: [TileFn; 2],
}

/// Kernels of a format and level for many columns.
#[derive(Debug)]
pub(crate) struct Many {
    /// Takes panels apart where enough tiles meet them.
    pub(crate) expand: Option<Expand>,
    /// Panels that a tile takes, one behind the other, into `out[panel][c][16]`.
    pub(crate) panels: usize,
    /// Tiles of the most columns and of one fewer, which is what many columns are divided into, that read panels as they are.
    pub(crate) tiles: Option<[TileFn; 2]>,
    /// Whether all these take tiles of any number of columns instead.
    pub(crate) any_columns: bool,
}

impl Many {
    /// The kernels that a matrix has for so many tiles, and how its panels are taken apart for them, if they are.
    fn of(
        weights: &PackedMatrix,
        tier: Tier,
        tiles: usize,
    ) -> Option<(&'static Many, Option<&'static Expand>)> {
        let many = (weights.format.many)(tier)?;
        let expand = many.expand.as_ref().filter(|expand| tiles >= expand.fewest);
        (expand.is_some() || many.tiles.is_some()).then_some((many, expand))
    }
}

/// The kernel of a format that reads panels as they are and takes tiles of any number of columns, of a tier that has such.
#[inline(always)]
pub(super) fn for_any_columns(format: &Format, tier: Tier) -> Option<TileFn> {
    if !tier.level().matrices() {
        return None;
    }
    let many = (format.many)(tier).filter(|many| many.any_columns)?;
    many.tiles.map(|[tile, _]| tile)
}

/// How many panels of a matrix meet each of so many tiles together.
pub(super) fn together(weights: &PackedMatrix, tier: Tier, tiles: usize) -> usize {
    Many::of(weights, tier, tiles).map_or(1, |(many, _)| many.panels)
}

thread_local! {
    /// What the last task of this thread took the panels of each of its matrices apart into.
    static ROOMS: Cell<Vec<Aligned<u8>>> = Cell::default();
}

/// Memory that a thread's tasks use one after the other, as its first one or the last left it.
pub(crate) struct Room(Aligned<u8>);

impl Room {
    /// Of so many bytes.
    pub(crate) fn of(bytes: usize) -> Room {
        let mut rooms = ROOMS.take();
        let mut room = rooms.pop().unwrap_or_default();
        ROOMS.set(rooms);
        room.resize(bytes);
        Room(room)
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut rooms = ROOMS.take();
        rooms.push(std::mem::take(&mut self.0));
        ROOMS.set(rooms);
    }
}

/// A matrix as one task meets it: some panels at a time, each with all tiles of a group after the other.
pub(super) struct Panels<'a> {
    weights: &'a PackedMatrix,
    tier: Tier,
    many: Option<&'static Many>,
    expand: Option<&'static Expand>,
    /// The task's panels, and how many others lie between them and those of the task that its thread likely gets next.
    task: Range<usize>,
    others: usize,
    /// Bytes of a panel taken apart, and room for [`at_once`](Self::at_once) of them.
    each: usize,
    bytes: Room,
    /// What was found of them, `[place][k / 128]`.
    norms: Vec<f32>,
    /// For each place, the panel plus 1 that begins there, alone or with those that meet a tile together.
    panels: Vec<usize>,
    /// The bytes of the matrix that are taken apart next, as far as they were not yet asked for, and how many to ask for with each
    /// tile.
    ahead: Range<usize>,
    at_a_time: usize,
}

impl<'a> Panels<'a> {
    /// For a task of some panels, each of which meets `tiles` tiles; `others` lie before the thread's next.
    pub(super) fn new(
        weights: &'a PackedMatrix,
        tier: Tier,
        panels: Range<usize>,
        others: usize,
        tiles: usize,
    ) -> Panels<'a> {
        let (many, expand) = Many::of(weights, tier, tiles).unzip();
        let expand = expand.flatten();
        // None where there is nothing to take apart.
        let each = many.and_then(|many| Some((many.panels, (expand?.bytes)(weights.k)?)));
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
            expand,
            others,
            each,
            bytes: Room::of(each * places),
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
    pub(super) fn tile(&mut self, panels: Range<usize>, input: &Activations, t: usize, out: &mut [f32]) {
        // Written once, field by field, and read so: a copy would read several fields at a time, and to do that wait
        // until everything that was stored before has reached the cache, the results of the last tile among it.
        let mut tile = input.tile(t);
        let (tier, weights, k) = (self.tier, self.weights, self.weights.k);
        let widest = tier.level().columns(weights.format.grid);
        if let Some(many) = self.many
            && panels.len() == many.panels
            && let Some(tiles) = self.expand.map(|expand| &expand.tiles).or(many.tiles.as_ref())
            && let Some(&function) = tiles.get(if many.any_columns { 0 } else { widest.wrapping_sub(tile.c) })
        {
            let bytes = match self.expand {
                Some(expand) => {
                    self.ask_ahead();
                    let (bytes, norms) = self.expanded(expand.panel, panels);
                    tile.norms = norms;
                    bytes
                }
                None => weights.panels_at(panels),
            };
            #[cfg(test)]
            super::tests::runs(tier.level(), function);
            // SAFETY: the Tier proves the features; the panels are whole and of this format and depth, and so is what was
            // made of them; the driver checked the tile's grid and depth; tile.c selected the function.
            return unsafe { function(bytes, k, &tile, out) };
        }
        for (p, out) in panels.zip(out.chunks_exact_mut(tile.c * ROWS)) {
            weights.tile(tier, p, &tile, out);
        }
    }

    /// Asks for some of what is taken apart next: it then comes from memory while the processor multiplies.
    #[inline(always)]
    fn ask_ahead(&mut self) {
        let some = self.ahead.start..self.ahead.end.min(self.ahead.start + self.at_a_time);
        self.ahead.start = some.end;
        prefetch_lines(&self.weights.as_bytes()[some]);
    }

    /// Panels that meet a tile together, taken apart, and what was found of them all.
    #[inline(always)]
    fn expanded(&mut self, expand: ExpandFn, panels: Range<usize>) -> (&[u8], &[f32]) {
        let (weights, k) = (self.weights, self.weights.k);
        let place = (panels.start - self.task.start) % self.panels.len();
        let bytes = &mut self.bytes.0[place * self.each..][..panels.len() * self.each];
        let norms = &mut self.norms[place * (k / 128)..][..k / 128];
        if self.panels[place] != panels.start + 1 {
            self.panels[place] = panels.start + 1;
            norms.fill(0.0);
            let (each, all) = (weights.panel_bytes, weights.panels());
            let next = if panels.end < self.task.end { panels.end } else { panels.end + self.others };
            self.ahead = next.min(all) * each..(next + panels.len()).min(all) * each;
            self.at_a_time = (self.ahead.len() / ASKED_FOR_IN).next_multiple_of(64);
            for (p, out) in panels.zip(bytes.chunks_exact_mut(self.each)) {
                // SAFETY: the Tier proves the features; the panel is whole, and the buffers were made for its format.
                unsafe { expand(weights.panel(p), k, out, norms) };
            }
        }
        (bytes, norms)
    }
}
