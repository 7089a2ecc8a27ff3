//! IQ4_XS: 256 values in eight blocks of 32, each with a 6-bit scale (offset 32), one half-precision factor, and
//! quantised values that are indices of the sixteen values of IQ4_NL.
//!
//! Panel, per 256: `[16]` d, the high bits of the scales `[2][16]`, their low nibbles `[4][16]`, then per block four
//! vectors of nibbles.

use crate::gemm::format::iq4_nl::TABLE;
use crate::gemm::format::scalar::{self, SuperPanel, nibble};
use crate::gemm::format::traits::{QuantFormat, Superblock, SuperblockScales, uninit_scales};
use crate::gemm::format::{Format, half_at, nibbles, pack_nibbles};
use crate::quant::packed_a::Tile;
use crate::simd::int::IntSimd;
use crate::types::{ActFormat, PANEL_ROWS};
use leyden_tensor::DType;
use leyden_tensor::quant::IQ4_VALUES;

/// Bytes of 256 values of 16 rows; the next constants are the offsets of their parts.
const BYTES: usize = 136 * PANEL_ROWS;
const HIGH: usize = 2 * PANEL_ROWS;
const LOW: usize = 4 * PANEL_ROWS;
const CODES: usize = 8 * PANEL_ROWS;

pub(crate) const FORMAT: Format =
    Format { dtype: DType::IQ4XS, act_format: ActFormat::Q8Block128, panel_bytes: Iq4Xs::panel_bytes, pack };

pub(crate) struct Iq4Xs;

impl QuantFormat for Iq4Xs {
    const MAX: i32 = 127;
    const SIGNED: bool = true;
    const BYTES: usize = 16 * PANEL_ROWS;

    #[inline(always)]
    unsafe fn pair<D: IntSimd>(d: D, p: *const u8, g: usize) -> (D::Quants, D::Quants) {
        // SAFETY: the caller gives 256 bytes.
        let (low, high) = unsafe { nibbles(d, p, g) };
        (d.look_up(low, &TABLE), d.look_up(high, &TABLE))
    }
}

impl Superblock for Iq4Xs {
    const PARTS: usize = 1;
    const MAX_SCALE: i32 = 32;
    const SIGNED_SCALES: bool = true;
    const EXACT: bool = false;

    fn panel_bytes(k: usize) -> Option<usize> {
        (k / 256).checked_mul(BYTES)
    }

    #[inline(always)]
    unsafe fn factors<D: IntSimd>(d: D, panel: *const u8, _k: usize, sb: usize) -> SuperblockScales<D> {
        // SAFETY: the caller passes a whole panel, and this is its superblock sb.
        unsafe {
            let p = panel.add(sb * BYTES);
            let mut scales = uninit_scales::<D>();
            for b in 0..4 {
                // Blocks b and b + 4 have the same place in the two bytes of high bits.
                let top = |i: usize| {
                    let v = d.bytes(p.add(HIGH + i * PANEL_ROWS));
                    let v = match b {
                        0 => d.byte_shl::<4>(v),
                        1 => d.byte_shl::<2>(v),
                        2 => v,
                        _ => d.byte_shr::<2>(v),
                    };
                    d.byte_and(v, 0x30)
                };
                for half in 0..2 {
                    let block = half * 4 + b;
                    let low = d.bytes(p.add(LOW + block / 2 * PANEL_ROWS));
                    let low = if block % 2 == 0 { low } else { d.byte_shr::<4>(low) };
                    scales[block].write(d.byte_sub(d.byte_or(d.byte_and(low, 15), top(half)), 32));
                }
            }
            SuperblockScales {
                d: d.halves(p),
                dmin: d.zeros(),
                scales,
                minima: uninit_scales::<D>(),
                quants: p.add(CODES),
            }
        }
    }
}

fn pack(rows: &[&[u8]], _k: usize, panel: &mut [u8]) {
    for (r, row) in rows.iter().enumerate() {
        for (block, out) in row.as_chunks::<136>().0.iter().zip(panel.chunks_exact_mut(BYTES)) {
            out[r * 2..][..2].copy_from_slice(&block[..2]);
            for i in 0..6 {
                out[HIGH + i * PANEL_ROWS + r] = block[2 + i];
            }
            for b in 0..8 {
                pack_nibbles(&block[8 + b * 16..], r, &mut out[CODES + b * Iq4Xs::BYTES..]);
            }
        }
    }
}

struct Panel<'a>(&'a [u8]);

impl SuperPanel for Panel<'_> {
    const BLOCK: usize = 32;

    fn factors(&self, sb: usize, r: usize) -> (f32, f32) {
        (half_at(self.0, sb * BYTES + r * 2), 0.0)
    }

    fn scale(&self, sb: usize, block: usize, r: usize) -> (i32, i32) {
        let at = |i: usize| i32::from(self.0[sb * BYTES + i + r]);
        let low = at(LOW + block / 2 * PANEL_ROWS) >> (4 * (block % 2)) & 15;
        let high = at(HIGH + block / 4 * PANEL_ROWS) >> (2 * (block % 4)) & 3;
        ((low | high << 4) - 32, 0)
    }

    fn value(&self, sb: usize, i: usize, r: usize) -> i32 {
        let code = nibble(&self.0[sb * BYTES + CODES + i / 32 * Iq4Xs::BYTES..], i % 32, r);
        i32::from(IQ4_VALUES[usize::from(code)])
    }
}

pub(crate) fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    scalar::superblocks(&Panel(panel), k, tile, out, false);
}
