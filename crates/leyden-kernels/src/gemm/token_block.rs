//! [`TokenBlock`]: chains of products of a few tokens in one task, with intermediate values that stay in L2.

use crate::cpu::isa::Tier;
use crate::gemm::packed_weights::PackedWeights;
use crate::gemm::product::Product;
use crate::gemm::token_products::multiply_here;
use crate::ops::Activation;
use crate::quant::token_rows::TokenRows;
use crate::types::ActFormat;

/// Activations of some tokens for matrices of INT8 rows, multiplied on the calling thread. Reuse it: it keeps its
/// memory.
#[derive(Debug, Default)]
pub struct TokenBlock(TokenRows);

impl TokenBlock {
    /// Quantises rows of values for a matrix of INT8 rows.
    ///
    /// # Panics
    /// If the matrix is of another kind, or `x` is not whole rows of its depth.
    pub fn fill(&mut self, tier: Tier, x: &[f32], weights: &PackedWeights) {
        let (k, ActFormat::Q8Token(outliers)) = (weights.k(), weights.act_format()) else {
            panic!("a matrix of INT8 rows");
        };
        assert!(k > 0 && x.len().is_multiple_of(k), "{} activations in rows of {k}", x.len());
        self.0.fill_here(tier, x, k, outliers);
    }

    /// Multiplies the tokens with the matrix for which they were quantised, and applies the activation function, if
    /// any, to the results.
    ///
    /// # Panics
    /// If the matrix has another depth, or its output or bias another length.
    pub fn multiply(&self, tier: Tier, mut product: Product<'_>, activation: Option<Activation>) {
        multiply_here(tier, &self.0, &mut product, activation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Cpu;
    use crate::gemm::epilogue::Write;
    use crate::gemm::linear::multiply;
    use crate::quant::packed_a::PackedA;
    use leyden_tensor::{DType, TensorView};

    #[test]
    fn a_block_of_tokens_gets_the_bits_of_the_whole_batch() {
        let (rows, k, m) = (200, 192, 17);
        let value = |i: usize| ((i * 7919 % 1013) as f32 - 506.0) * 0.003;
        let bytes: Vec<u8> = (0..rows * k).flat_map(|i| value(i).to_le_bytes()).collect();
        let (shape, x): (_, Vec<f32>) = ([rows, k], (0..m * k).map(|i| value(3 * i + 1)).collect());
        let view = TensorView::new("w", DType::F32, &shape, &bytes).unwrap();
        for tier in Tier::available() {
            let cpu = Cpu::new(tier, 2).unwrap();
            let weights = &PackedWeights::int8_rows(&cpu, &view).unwrap().unwrap().0;
            let (mut want, mut got) = (vec![1.0; m * rows], vec![1.0; m * rows]);
            let mut input = PackedA::default();
            input.fill(tier, cpu.pool(), weights.act_format(), &x, k);
            multiply(&cpu, &input, &mut [Product { weights, bias: None, out: &mut want, write: Write::Add }]);
            cpu.for_blocks(&mut got, rows, 5, |first, out| {
                let mut block = TokenBlock::default();
                block.fill(tier, &x[first * k..][..out.len() / rows * k], weights);
                block.multiply(tier, Product { weights, bias: None, out, write: Write::Add }, None);
            });
            assert!(got == want, "{}", tier.level());
        }
    }
}
