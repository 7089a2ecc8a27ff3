//! Formats without integer kernels: a panel keeps the file's blocks, and is decoded to an F32 panel when it is
//! multiplied, once for all tiles of a batch. The products are those of F32 weights of the same values, bit for bit.
//!
//! Panel: the type's GGUF id, 32 bits, then for each block along the depth the blocks of the 16 rows. One set of tiles
//! serves all formats, so they read the type from the panel.

use crate::gemm::format::Format;
use crate::gemm::format::float::scalar_f32;
use crate::memory::scratch::Scratch;
use crate::quant::packed_a::Tile;
use crate::types::{ActFormat, PANEL_ROWS};
use leyden_tensor::DType;
use leyden_tensor::quant::{self, Block};

/// Bytes of the type's id.
const ID: usize = 4;
/// Maximum number of values in a block.
const MAX_BLOCK_VALUES: usize = 256;

/// Returns the format of blocks `B`.
pub(crate) const fn format<B: Block>() -> Format {
    assert!(B::LEN <= MAX_BLOCK_VALUES && B::LEN.is_multiple_of(2));
    Format {
        dtype: B::DTYPE,
        act_format: ActFormat::F32,
        panel_bytes: |k| (k / B::LEN).checked_mul(B::BYTES * PANEL_ROWS)?.checked_add(ID),
        pack: pack::<B>,
    }
}

fn pack<B: Block>(rows: &[&[u8]], _k: usize, panel: &mut [u8]) {
    let (id, blocks) = panel.split_at_mut(ID);
    id.copy_from_slice(&B::DTYPE.gguf_id().to_le_bytes());
    for (r, row) in rows.iter().enumerate() {
        for (b, block) in row.chunks_exact(B::BYTES).enumerate() {
            blocks[(b * PANEL_ROWS + r) * B::BYTES..][..B::BYTES].copy_from_slice(block);
        }
    }
}

/// Decodes a panel of depth `k` to an F32 panel.
///
/// # Panics
/// If `panel` is not such a panel, or `out` does not have `k * 64` bytes.
pub(crate) fn decode(panel: &[u8], k: usize, out: &mut [u8]) {
    let (id, blocks) = panel
        .as_chunks::<ID>()
        .0
        .split_first()
        .map_or((0, &[][..]), |(id, _)| (u32::from_le_bytes(*id), &panel[ID..]));
    let dtype = DType::from_gguf_id(id).unwrap_or_else(|e| panic!("a decoded panel: {e}"));
    let (len, bytes) = (dtype.block_len(), dtype.block_bytes());
    assert!(len <= MAX_BLOCK_VALUES && blocks.len() == k / len * bytes * PANEL_ROWS, "a whole decoded panel");
    assert!(out.len() == k * PANEL_ROWS * 4, "room for a panel of floats");
    let mut values = [[0.0; MAX_BLOCK_VALUES]; PANEL_ROWS];
    let groups = blocks.chunks_exact(bytes * PANEL_ROWS);
    for (group, out) in groups.zip(out.chunks_exact_mut(len * PANEL_ROWS * 4)) {
        for (block, row) in group.chunks_exact(bytes).zip(&mut values) {
            quant::decode_row(dtype, block, &mut row[..len]);
        }
        for (i, out) in out.as_chunks_mut::<{ PANEL_ROWS * 4 }>().0.iter_mut().enumerate() {
            for (out, row) in out.as_chunks_mut::<4>().0.iter_mut().zip(&values) {
                *out = row[i].to_le_bytes();
            }
        }
    }
}

/// Decodes a panel of depth `k` to an F32 panel in thread-local scratch memory.
pub(crate) fn decoded(panel: &[u8], k: usize) -> Scratch {
    let mut room = Scratch::of(k * PANEL_ROWS * 4);
    decode(panel, k, room.bytes());
    room
}

pub(crate) fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    scalar_f32(decoded(panel, k).bytes(), k, tile, out);
}
