//! Choice of the kernel for a product, for reports.

use crate::gemm::blocking::{gemv_tile, together};
use crate::gemm::packed_weights::PackedWeights;
use crate::quant::packed_a::PackedA;
use std::fmt;

/// Kernel that [`multiply`](super::multiply) uses for a matrix and a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelChoice {
    /// Form of the weights: `packed`, or the registry's name of the unpacked form.
    pub variant: &'static str,
    /// Tokens of the batch's widest tile, and panels per call.
    pub tile: [usize; 2],
    /// Number of tiles of the batch.
    pub tiles: usize,
    /// Number of tiles from which the format's panels are unpacked on this tier, if they are at all.
    pub min_tiles: Option<usize>,
}

/// Returns the kernel for a matrix and a batch.
///
/// # Panics
/// If the matrix is not in panels.
#[must_use]
pub fn kernel_choice(weights: &PackedWeights, input: &PackedA) -> KernelChoice {
    let (tier, tiles) = (input.tier(), input.tiles());
    let weights = weights.as_panels();
    let widest = (0..tiles).map(|t| input.bounds(t)).map(|(first, end)| end - first).max().unwrap_or(0);
    let min_tiles = weights.kernels.gemm(tier).and_then(|row| Some(row.unpack.as_ref()?.min_tiles));
    let together = together(weights, tier, tiles);
    // One tile of few tokens takes the GEMV path; tiles with fewer tokens than the row's kernels support go panel by
    // panel.
    let chosen = weights.kernels.for_tiles(tier, tiles).filter(|(row, _)| {
        gemv_tile(input, together).is_none() && (row.any_columns || row.tokens - widest.min(row.tokens) < 2)
    });
    let (variant, panels) = match chosen {
        Some((row, Some(_))) => (row.variant.name(), row.panels),
        Some((row, None)) => ("packed", row.panels),
        None => ("packed", 1),
    };
    KernelChoice { variant, tile: [widest, panels], tiles, min_tiles }
}

impl fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KernelChoice { variant, tile: [tokens, panels], tiles, min_tiles } = self;
        write!(f, "{variant} {tokens}x{panels}, {tiles} tile{}", if *tiles == 1 { "" } else { "s" })?;
        match min_tiles {
            Some(min) if tiles < min => write!(f, " (unpacks from {min})"),
            Some(min) => write!(f, " (from {min})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Cpu;
    use crate::cpu::{Level, Tier};
    use leyden_tensor::{DType, TensorView};

    fn choice(tier: Tier, dtype: DType, tokens: usize) -> KernelChoice {
        let (rows, k) = (64, 256);
        let cpu = Cpu::new(tier, 1).unwrap();
        let bytes = vec![0; dtype.row_bytes(k).unwrap() * rows];
        let shape = [rows, k];
        let weights =
            PackedWeights::pack(&cpu, &TensorView::new("w", dtype, &shape, &bytes).unwrap()).unwrap();
        let mut input = PackedA::default();
        input.fill(tier, cpu.pool(), weights.act_format(), &vec![1.0; tokens * k], k);
        kernel_choice(&weights, &input)
    }

    #[test]
    fn one_token_takes_packed_panels_one_by_one() {
        for tier in Tier::available() {
            for dtype in [DType::Q4K, DType::Q8_0, DType::F16] {
                let choice = choice(tier, dtype, 1);
                assert_eq!((choice.variant, choice.tile, choice.tiles), ("packed", [1, 1], 1), "{dtype}");
            }
        }
        assert_eq!(choice(Tier::SCALAR, DType::Q4K, 1).to_string(), "packed 1x1, 1 tile");
    }

    #[test]
    fn many_tokens_take_the_row_of_their_level() {
        for (level, dtype, text) in [
            (Level::Avx2, DType::Q4K, "maddubs 6x1, 8 tiles (from 3)"),
            (Level::Avx2, DType::Q8_0, "madd 6x1, 8 tiles (from 3)"),
            (Level::AvxVnni, DType::Q4K, "unpacked 6x1, 8 tiles (from 4)"),
            (Level::Avx512, DType::Q6K, "unpacked 12x2, 4 tiles (from 4)"),
            (Level::Avx512, DType::F32, "packed 12x2, 4 tiles"),
            (Level::Amx, DType::Q4K, "amx planes 48x1, 1 tile (from 1)"),
        ] {
            let Some(tier) = Tier::new(level) else { continue };
            assert_eq!(choice(tier, dtype, 48).to_string(), text, "{dtype} on {level}");
        }
    }
}
