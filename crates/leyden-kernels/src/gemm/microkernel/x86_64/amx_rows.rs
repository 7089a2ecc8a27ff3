//! INT8 rows in AMX tile registers: up to 32 tokens by 32 rows at a time.
//!
//! The sums of a segment are the same exact integers as in [`int8_rows`](crate::gemm::microkernel::int8_rows), and
//! float operations have the same order, so results are the same bits. Tile registers multiply the main segment in steps
//! of 64 places ([`StepTokens`]), while vectors multiply the outlier channels of the tile before and convert its sums to
//! results. Outlier channels in tile registers would take another step, and another store of all sums.

use crate::gemm::microkernel::byte_dot::ByteDot;
use crate::gemm::microkernel::int8_rows::{
    Block, GROUP_ROWS, Identity, Results, SCALES_BYTES, STEP_BYTES, write,
};
use crate::gemm::microkernel::x86_64::amx::{self, Matrices, Shapes, read, zero};
use crate::gemm::microkernel::x86_64::int8_dot::Avx512Dot;
use crate::memory::scratch::Scratch;
use crate::ops::{Function, Lanes, with_function};
use crate::quant::token_rows::{STEP, STEP_TOKENS, StepTokens, main_steps, step_place};
use crate::types::{OUTLIERS, PANEL_ROWS};
use std::arch::asm;
use std::arch::x86_64::*;

/// Number of segments of a row: the main part and the outlier channels.
const SEGMENTS: usize = 2;
/// Number of panels that are multiplied together.
const PANELS: usize = 2;
/// Maximum number of tokens that are multiplied together.
const TOKENS: usize = 2 * STEP_TOKENS;
/// Number of words of a row's outlier channels.
const WORDS: usize = OUTLIERS / 4;
/// Number of sums of a tile register.
const SUMS: usize = STEP_TOKENS * PANEL_ROWS;

/// Stored sums of a tile's main segment, `[register of tokens][panel][token][row]`.
type Sums = [[[i32; SUMS]; PANELS]; 2];

/// Sums of two tiles: the current one and the one before it.
#[repr(align(4096))]
struct Buffers([Sums; 2]);

/// Tile whose sums are computed: tokens, and two panels.
#[derive(Clone, Copy)]
struct Tile {
    /// First token and number of tokens.
    tokens: (usize, usize),
    /// Row of the output.
    row: usize,
    /// Group of the panels: scales, then weights.
    group: *const u8,
    /// Index of the first panel in its group.
    first: usize,
    /// Index of the panels among those of the block.
    panel: usize,
}

/// Block, the bias of its rows in whole groups, and the output.
#[derive(Clone, Copy)]
struct Task<'a> {
    block: &'a Block<'a>,
    bias: &'a [Lanes],
    to: Results,
}

/// Function that converts the sums of a tile's tokens in a range to results.
trait Finish {
    /// True if tokens are finished between the steps of the next tile, false if all are before its second step.
    const BETWEEN: bool;

    /// # Safety
    /// The tile's tokens and rows exist; the output is valid and not shared.
    unsafe fn finish(d: Avx512Dot, task: Task<'_>, sums: &Sums, tile: Tile, tokens: std::ops::Range<usize>);
}

/// Results of a token, before its activation function.
#[repr(align(64))]
struct OfToken([Lanes; PANELS]);

/// Constants of the rows of a tile.
#[derive(Clone, Copy)]
struct Rows {
    /// Weights of the outlier channels.
    outliers: [[__m512i; WORDS]; PANELS],
    scales: [__m512; PANELS],
    bias: [__m512; PANELS],
}

impl Rows {
    /// # Safety
    /// The tile's panels exist.
    #[inline(always)]
    unsafe fn new(d: Avx512Dot, task: Task<'_>, tile: Tile) -> Rows {
        let places = task.block.tokens.depth() - OUTLIERS;
        // SAFETY: the panels exist, with weights of all places (`# Safety`).
        unsafe {
            let scales = tile.group.cast::<f32>().add(tile.first * PANEL_ROWS);
            let weights =
                tile.group.add(SCALES_BYTES + places / 4 * STEP_BYTES + tile.first * 4 * PANEL_ROWS);
            let mut outliers = [[_mm512_setzero_si512(); WORDS]; PANELS];
            for q in 0..PANELS {
                for i in 0..WORDS {
                    outliers[q][i] = d.weights(weights.add(i * STEP_BYTES + q * 4 * PANEL_ROWS));
                }
            }
            Rows {
                outliers,
                scales: [d.read(scales), d.read(scales.add(PANEL_ROWS))],
                bias: [d.read(task.bias[tile.panel].as_ptr()), d.read(task.bias[tile.panel + 1].as_ptr())],
            }
        }
    }
}

/// Computes the results of a token and two panels.
///
/// # Safety
/// The token exists.
#[inline(always)]
unsafe fn of_token(
    d: Avx512Dot,
    b: &Block<'_>,
    sums: &Sums,
    tile: Tile,
    m: usize,
    rows: &Rows,
) -> [__m512; PANELS] {
    let (half, line) = (m / STEP_TOKENS, m % STEP_TOKENS * PANEL_ROWS);
    let (tokens, token) = (&b.tokens, tile.tokens.0 + m);
    // SAFETY: the token exists (`# Safety`), and sums have whole tiles; AVX-512 is there, by the token of the type.
    unsafe {
        let (scale, start) =
            (tokens.scales.as_ptr().add(token * SEGMENTS), tokens.starts.as_ptr().add(token * SEGMENTS));
        let outliers = tokens.quants.as_ptr().add(token * tokens.stride + tokens.depth() - OUTLIERS);
        let mut y = rows.bias;
        for q in 0..PANELS {
            let sum = sums.get_unchecked(half).get_unchecked(q).as_ptr().add(line);
            let main = _mm512_add_epi32(_mm512_load_si512(sum.cast()), _mm512_set1_epi32(*start));
            let mut last = d.begin(*start.add(1));
            for i in 0..WORDS {
                last = d.dot(last, rows.outliers[q][i], d.word(outliers.add(4 * i)));
            }
            let total = d.add_scaled(main, *scale, _mm512_setzero_ps());
            y[q] = d.fma(d.add_scaled(last, *scale.add(1), total), rows.scales[q], rows.bias[q]);
        }
        y
    }
}

/// Results that are written whole: [`Write::Set`](crate::gemm::Write) or added.
struct Whole<const ADD: bool>;

impl<const ADD: bool> Finish for Whole<ADD> {
    const BETWEEN: bool = true;

    #[inline(always)]
    unsafe fn finish(d: Avx512Dot, task: Task<'_>, sums: &Sums, tile: Tile, tokens: std::ops::Range<usize>) {
        let Task { block, to, .. } = task;
        // SAFETY: the tile's tokens and panels exist; the output is valid and not shared (`# Safety`).
        unsafe {
            let rows = Rows::new(d, task, tile);
            for m in tokens {
                let y = of_token(d, block, sums, tile, m, &rows);
                let place = to.first.add((tile.tokens.0 + m) * to.stride + tile.row);
                for q in 0..PANELS {
                    let place = place.add(q * PANEL_ROWS);
                    d.write(if ADD { d.add(y[q], d.read(place)) } else { y[q] }, place);
                }
            }
        }
    }
}

/// Results to which a function is applied.
struct Of<F>(F);

impl<F: Function> Finish for Of<F> {
    const BETWEEN: bool = false;

    #[inline(always)]
    unsafe fn finish(d: Avx512Dot, task: Task<'_>, sums: &Sums, tile: Tile, tokens: std::ops::Range<usize>) {
        let Task { block, to, .. } = task;
        let mut results = OfToken([[0.0; PANEL_ROWS]; PANELS]);
        let n = (to.n - tile.row).min(PANELS * PANEL_ROWS);
        // SAFETY: the tile's tokens and panels exist; the output is valid and not shared (`# Safety`).
        unsafe {
            let rows = Rows::new(d, task, tile);
            for m in tokens {
                let y = of_token(d, block, sums, tile, m, &rows);
                for q in 0..PANELS {
                    d.write(y[q], results.0[q].as_mut_ptr());
                }
                let first = to.first.add((tile.tokens.0 + m) * to.stride + tile.row);
                write::<F>(&mut results.0, 0, block.add, Results { first, n, ..to });
            }
        }
    }
}

/// Stores tile register `$n`.
macro_rules! store {
    ($n:literal, $sums:expr) => {
        amx::write!($n, $sums.as_mut_ptr())
    };
}

/// Computes the sums of a tile of `T` registers of tokens, and the results of the tile before it.
///
/// # Safety
/// The level was detected and its tile registers are configured; `tokens` points at `T` registers of tokens, `stride` bytes
/// each, `weights` at a panel with another one after it, both of `depth` places; `before` can be finished.
#[inline(always)]
unsafe fn multiply<F: Finish, const T: usize>(
    (tokens, stride): (*const i8, usize),
    (weights, depth): (*const u8, usize),
    sums: &mut Sums,
    (d, task, before): (Avx512Dot, Task<'_>, Option<(&Sums, Tile)>),
) {
    let steps = main_steps(depth);
    let of_before = before.map_or(0, |(_, tile)| tile.tokens.1);
    let share = if F::BETWEEN { of_before.div_ceil(steps) } else { of_before };
    // SAFETY: the rows of both have `depth` places, at least one step (`# Safety`), and each step ends within them.
    unsafe {
        zero!("0");
        zero!("1");
        if T == 2 {
            zero!("2");
            zero!("3");
        }
        for step in 0..steps {
            let w = weights.add(step_place(step, depth) / 4 * STEP_BYTES);
            let a = tokens.add(step * STEP);
            read!("6", w, STEP_BYTES);
            read!("4", a, stride);
            amx::add!(unsigned, "0", "4", "6");
            read!("7", w.add(4 * PANEL_ROWS), STEP_BYTES);
            amx::add!(unsigned, "1", "4", "7");
            if T == 2 {
                read!("5", a.add(STEP_TOKENS * stride), stride);
                amx::add!(unsigned, "2", "5", "6");
                amx::add!(unsigned, "3", "5", "7");
            }
            if let Some((sums, tile)) = before {
                let range = (step * share).min(of_before)..((step + 1) * share).min(of_before);
                F::finish(d, task, sums, tile, range);
            }
        }
        store!("0", sums[0][0]);
        store!("1", sums[0][1]);
        if T == 2 {
            store!("2", sums[1][0]);
            store!("3", sums[1][1]);
        }
    }
}

/// Computes all tiles of a block.
///
/// # Safety
/// As in [`rows`]; the lengths were checked.
#[inline(always)]
unsafe fn tiles<F: Finish>(d: Avx512Dot, task: Task<'_>, steps: StepTokens<'_>) {
    let b = task.block;
    let (count, depth) = (b.tokens.count(), b.tokens.depth());
    let mut buffers = Buffers([[[[0; SUMS]; PANELS]; 2]; 2]);
    let [mut now, mut other] = buffers.0.each_mut();
    let mut before = None;
    let matrices = Matrices::new();
    // SAFETY: the level was detected (`# Safety`).
    unsafe { matrices.shape(const { &Shapes::new(STEP_TOKENS, STEP) }) };
    for (g, group) in b.groups.chunks_exact(b.group_bytes).enumerate() {
        for q in (0..GROUP_ROWS / PANEL_ROWS).step_by(PANELS) {
            let row = g * GROUP_ROWS + q * PANEL_ROWS;
            if row >= task.to.n {
                break;
            }
            let weights = group.as_ptr().wrapping_add(SCALES_BYTES + q * 4 * PANEL_ROWS);
            for t in (0..count).step_by(TOKENS) {
                let tokens = (steps.quants.as_ptr().wrapping_add(t * steps.stride), steps.stride);
                let rest = (d, task, before.map(|tile| (&*other, tile)));
                // SAFETY: registers of tokens exist, and the group is whole (`# Safety`); so do those of the tile before.
                unsafe {
                    if count - t > STEP_TOKENS {
                        multiply::<F, 2>(tokens, (weights, depth), now, rest);
                    } else {
                        multiply::<F, 1>(tokens, (weights, depth), now, rest);
                    }
                }
                let (tokens, panel) = ((t, (count - t).min(TOKENS)), row / PANEL_ROWS);
                before = Some(Tile { tokens, row, group: group.as_ptr(), first: q, panel });
                std::mem::swap(&mut now, &mut other);
            }
        }
    }
    drop(matrices);
    if let Some(tile) = before {
        // SAFETY: the tile's tokens and panels exist; the output is valid and not shared (`# Safety`).
        unsafe { F::finish(d, task, other, tile, 0..tile.tokens.1) };
    }
}

/// Computes a [`BlockFn`](crate::gemm::microkernel::int8_rows::BlockFn) of tokens in steps.
///
/// # Safety
/// As in `BlockFn`; `steps` are the block's tokens.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(crate) unsafe fn rows(b: &Block<'_>, steps: StepTokens<'_>, to: Results) {
    let d = Avx512Dot::in_feature_region();
    let (count, depth) = (b.tokens.count(), b.tokens.depth());
    assert!(b.skip == 0 && b.tokens.segments.len() == SEGMENTS && depth >= STEP, "segments of a row");
    assert!(steps.stride == main_steps(depth) * STEP, "steps of a row");
    assert!(steps.quants.len() >= count.next_multiple_of(STEP_TOKENS) * steps.stride, "tokens in steps");
    assert!(b.tokens.scales.len() >= count * SEGMENTS && b.tokens.starts.len() >= count * SEGMENTS, "scales");
    let mut bias = Scratch::of(b.groups.len() / b.group_bytes * GROUP_ROWS * size_of::<f32>());
    let bias = bias.floats();
    let given = b.bias.unwrap_or_default();
    let n = given.len().min(bias.len());
    bias[..n].copy_from_slice(&given[..n]);
    bias[n..].fill(0.0);
    let task = Task { block: b, bias: bias.as_chunks().0, to };
    // SAFETY: lengths were checked above; otherwise as here (`# Safety`).
    unsafe {
        match b.activation {
            None if !to.n.is_multiple_of(PANELS * PANEL_ROWS) => tiles::<Of<Identity>>(d, task, steps),
            None if b.add => tiles::<Whole<true>>(d, task, steps),
            None => tiles::<Whole<false>>(d, task, steps),
            Some(activation) => with_function!(activation, F => tiles::<Of<F>>(d, task, steps)),
        }
    }
}
