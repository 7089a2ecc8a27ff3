//! Linear layers, and products of several with one input.

use crate::error::Error;
use crate::int8::Int8Finish;
use crate::loader::{Loader, Part};
use crate::lora::{StepAdapters, Target};
use crate::workspace::Workspace;
use leyden_kernels::gemm::{PackedWeights, Product, Write, multiply};
use leyden_kernels::{Cpu, PackedA};
use std::ops::Range;

/// Matrix and its bias.
#[derive(Debug)]
pub(crate) struct Linear {
    /// Name of the matrix in GGUF; for a part of a stored matrix, the name of the whole.
    pub(crate) name: String,
    pub(crate) weights: PackedWeights,
    pub(crate) bias: Option<Vec<f32>>,
    /// Rows of this layer in the stored matrix, and the number of rows of the stored matrix.
    rows: (Vec<Range<usize>>, usize),
    /// Index among the projections that adapters can change, if it is one of them.
    pub(crate) target: Option<usize>,
}

impl Linear {
    /// Returns a layer of a whole stored matrix.
    pub(crate) fn new(name: String, weights: PackedWeights, bias: Option<Vec<f32>>) -> Linear {
        let rows = weights.rows();
        Linear { name, weights, bias, rows: (std::iter::once(0..rows).collect(), rows), target: None }
    }

    /// Loads the matrix `name` `[rows, k]` with its bias, if it has one.
    pub(crate) fn load(loader: &Loader<'_>, name: &str, rows: usize, k: usize) -> Result<Linear, Error> {
        let weights = loader.matrix(&format!("{name}.weight"), rows, k)?;
        let bias = loader.vector(&format!("{name}.bias"), rows)?;
        Ok(Linear::new(format!("{name}.weight"), weights, bias))
    }

    /// Loads a part of the stored matrix `name` `[rows, k]`, with its biases if there are any.
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
        Ok(Linear { name, weights, bias, rows: (part.rows.clone(), rows), target: None })
    }

    /// Registers the layer as one that adapters can change. Its products must be computed by [`apply_adapted`].
    pub(crate) fn adaptable(mut self, loader: &Loader<'_>) -> Linear {
        let name = self.name.strip_suffix(".weight").unwrap_or(&self.name).to_owned();
        let (part, rows) = self.rows.clone();
        self.target = Some(loader.target(Target { name, rows, k: self.weights.k(), part }));
        self
    }

    /// Finishes its matrix if it is one of INT8 rows; `input` is the name of a matrix with the same input.
    pub(crate) fn finish_int8(
        &mut self,
        finish: &mut Int8Finish<'_>,
        input: &str,
    ) -> Result<(), leyden_kernels::Error> {
        finish.matrix(&mut self.weights, finish.sums.outliers(input))
    }

    /// Returns its product to `out`. The activations must have the format of its weights.
    pub(crate) fn product<'a>(&'a self, out: &'a mut [f32], write: Write) -> Product<'a> {
        Product { weights: &self.weights, bias: self.bias.as_deref(), out, write }
    }
}

/// Sublayer of an output projection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OutputOf {
    /// Attention, whose input of the projection is `work.attention.mixed`.
    Attention,
    /// Feed-forward layer, whose input of the projection is `work.mlp.hidden`.
    FeedForward,
}

impl Workspace {
    /// Computes the output projection of a sublayer with adapters, and adds its input to the activation sums if they
    /// are recorded.
    pub(crate) fn project_out(
        &mut self,
        cpu: &Cpu,
        of: OutputOf,
        matrix: &Linear,
        out: &mut [f32],
        write: Write,
    ) {
        let input: &[f32] = match of {
            OutputOf::Attention => &self.attention.mixed,
            OutputOf::FeedForward => &self.mlp.hidden,
        };
        if let Some(sums) = &mut self.sums {
            sums.add([&matrix.name], input, matrix.weights.k());
        }
        apply_adapted(cpu, &mut self.adapters, &mut self.activations, input, write, [(matrix, out)]);
    }
}

/// Multiplies one input with several matrices, in one job per activation format.
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

/// Multiplies one input with several matrices like [`apply`], and adds the products of the step's adapters.
pub(crate) fn apply_adapted<'p>(
    cpu: &Cpu,
    adapters: &mut StepAdapters,
    activations: &mut PackedA,
    input: &[f32],
    write: Write,
    products: impl IntoIterator<Item = (&'p Linear, &'p mut [f32])>,
) {
    if adapters.is_empty() {
        return apply(cpu, activations, input, write, products);
    }
    let mut products: Vec<(&Linear, &mut [f32])> = products.into_iter().collect();
    apply(cpu, activations, input, write, products.iter_mut().map(|(linear, out)| (*linear, &mut **out)));
    for (linear, out) in products {
        let shape = [linear.weights.k(), linear.weights.rows()];
        adapters.add(cpu, linear.target, shape, input, out);
    }
}
