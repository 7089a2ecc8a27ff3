//! A matrix with a bias, and products of several with one batch.

use crate::error::Error;
use crate::load::{Loader, Part};
use leyden_kernels::gemm::{PackedWeights, Product, Write, multiply};
use leyden_kernels::{Cpu, PackedA};

/// A matrix and its bias.
#[derive(Debug)]
pub(crate) struct Linear {
    /// The name of the matrix in GGUF; of a part, that of the whole.
    pub(crate) name: String,
    pub(crate) weights: PackedWeights,
    pub(crate) bias: Option<Vec<f32>>,
}

impl Linear {
    /// The matrix `name` with its bias, if it has one.
    pub(crate) fn load(loader: &Loader<'_>, name: &str, rows: usize, k: usize) -> Result<Linear, Error> {
        let weights = loader.matrix(&format!("{name}.weight"), rows, k)?;
        let bias = loader.vector(&format!("{name}.bias"), rows)?;
        Ok(Linear { name: format!("{name}.weight"), weights, bias })
    }

    /// Some rows of the matrix `name`, which consists of several, with their biases, if it has any.
    pub(crate) fn load_part(
        loader: &Loader<'_>,
        name: &str,
        rows: usize,
        k: usize,
        part: &Part,
    ) -> Result<Linear, Error> {
        let whole = loader.vector(&format!("{name}.bias"), rows)?;
        let name = format!("{name}.weight");
        let weights = loader.matrix_part(&name, rows, k, part)?;
        let bias = whole.map(|whole| part.rows.iter().flat_map(|r| &whole[r.clone()]).copied().collect());
        Ok(Linear { name, weights, bias })
    }

    /// Its product, with activations on the grid of its weights.
    pub(crate) fn product<'a>(&'a self, out: &'a mut [f32], write: Write) -> Product<'a> {
        Product { weights: &self.weights, bias: self.bias.as_deref(), out, write }
    }
}

/// Multiplies one batch with several matrices: one job per activation grid among them.
pub(crate) fn apply<'p>(
    cpu: &Cpu,
    activations: &mut PackedA,
    input: &[f32],
    write: Write,
    products: impl IntoIterator<Item = (&'p Linear, &'p mut [f32])>,
) {
    let mut rest: Vec<Product<'_>> = products.into_iter().map(|(l, out)| l.product(out, write)).collect();
    while let Some(first) = rest.first() {
        let (grid, k) = (first.weights.act_format(), first.weights.k());
        let (mut same, others): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|p| p.weights.act_format() == grid);
        activations.fill(cpu.tier(), cpu.pool(), grid, input, k);
        multiply(cpu, activations, &mut same);
        rest = others;
    }
}
