//! Parts of both stacks: linear layers, norms, and the feed-forward layer.

use super::precision::Precision;
use super::source::Source;
use super::work::Work;
use crate::error::Error;
use leyden_kernels::gemm::{PackedWeights, Product, Write, multiply, multiply_activated};
use leyden_kernels::ops::{Activation, layer_norm};
use leyden_kernels::{Cpu, OutlierChannels, PackedA};
use leyden_tensor::{DType, TensorView};

/// Reader of weights for a team of threads.
#[derive(Clone, Copy)]
pub(super) struct Loader<'a> {
    pub(super) cpu: &'a Cpu,
    pub(super) source: &'a Source,
    pub(super) precision: Precision,
}

impl Loader<'_> {
    /// Loads a vector.
    pub(super) fn vector(&self, name: &str, n: usize) -> Result<Vec<f32>, Error> {
        self.source.tensor(name, &[n])?.floats(name)
    }

    /// Loads a matrix `[rows, k]` as floats.
    pub(super) fn floats(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        self.source.tensor(name, shape)?.floats(name)
    }

    /// Packs a matrix `[rows, k]`. `norm` is the norm before it, whose large channels INT8 rows treat separately.
    pub(super) fn matrix(
        &self,
        name: &str,
        rows: usize,
        k: usize,
        norm: Option<&Norm>,
    ) -> Result<PackedWeights, Error> {
        let tensor = self.source.tensor(name, &[rows, k])?;
        let view = TensorView::new(name, tensor.dtype, &tensor.shape, tensor.bytes)?;
        self.packed(&view, norm)
    }

    /// Packs a matrix of floats `[rows, k]`, whatever the precision.
    pub(super) fn float_matrix(
        &self,
        name: &str,
        rows: usize,
        values: &[f32],
    ) -> Result<PackedWeights, Error> {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let shape = [rows, values.len() / rows];
        Ok(PackedWeights::pack(self.cpu, &TensorView::new(name, DType::F32, &shape, &bytes)?)?)
    }

    fn packed(&self, view: &TensorView<'_>, norm: Option<&Norm>) -> Result<PackedWeights, Error> {
        let k = view.cols();
        match self.precision {
            Precision::Int8 => {
                if let Some((mut packed, _)) = PackedWeights::int8_rows(self.cpu, view)? {
                    packed.set_outliers(norm.map_or(OutlierChannels::LAST, Norm::outliers));
                    return Ok(packed);
                }
            }
            Precision::Q8_0 if k.is_multiple_of(32) && is_float(view.dtype()) => {
                return self.pack_q8(view);
            }
            Precision::Q8_0 | Precision::Stored => {}
        }
        Ok(PackedWeights::pack(self.cpu, view)?)
    }

    fn pack_q8(&self, view: &TensorView<'_>) -> Result<PackedWeights, Error> {
        let (rows, k) = (view.rows(), view.cols());
        let each = DType::Q8_0.row_bytes(k).unwrap_or_default();
        let mut bytes = vec![0; each * rows];
        self.cpu.for_blocks(&mut bytes, each, 16, |first, out| {
            let mut x = vec![0.0; k];
            for (i, out) in out.chunks_exact_mut(each).enumerate() {
                leyden_kernels::decode_row(self.cpu.tier(), view.dtype(), view.row(first + i), &mut x);
                leyden_tensor::quant::encode_row(DType::Q8_0, &x, out);
            }
        });
        let shape = [rows, k];
        Ok(PackedWeights::pack(self.cpu, &TensorView::new(view.name(), DType::Q8_0, &shape, &bytes)?)?)
    }
}

fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

/// Layer norm.
#[derive(Debug)]
pub(super) struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Norm {
    pub(super) fn load(loader: &Loader<'_>, name: &str, width: usize) -> Result<Norm, Error> {
        let vector = |part: &str| loader.vector(&format!("{name}.{part}"), width);
        Ok(Norm { weight: vector("weight")?, bias: vector("bias")? })
    }

    /// Normalises rows of `x` to `out`.
    pub(super) fn apply(&self, cpu: &Cpu, x: &[f32], out: &mut Vec<f32>) {
        /// Epsilon of PyTorch's layer norm.
        const EPS: f32 = 1e-5;
        let width = self.weight.len();
        resize(out, x.len());
        cpu.for_rows(out, width, |i, row| {
            layer_norm(cpu.tier(), &x[i * width..][..width], &self.weight, &self.bias, EPS, row);
        });
    }

    /// Returns the channels whose results are largest: a normalised channel is near its bias, as far as its weight.
    fn outliers(&self) -> OutlierChannels {
        let size = |(w, b): (&f32, &f32)| f64::from(w.abs()) * 3.0 + f64::from(b.abs());
        let sizes: Vec<f64> = self.weight.iter().zip(&self.bias).map(size).collect();
        OutlierChannels::of(&sizes)
    }
}

/// Matrix and its bias.
#[derive(Debug)]
pub(super) struct Linear {
    weights: PackedWeights,
    bias: Option<Vec<f32>>,
}

impl Linear {
    pub(super) fn new(weights: PackedWeights, bias: Option<Vec<f32>>) -> Linear {
        Linear { weights, bias }
    }

    /// Loads the matrix `name` `[rows, k]` with its bias; keys have none.
    pub(super) fn load(
        loader: &Loader<'_>,
        name: &str,
        (rows, k): (usize, usize),
        biased: bool,
        norm: Option<&Norm>,
    ) -> Result<Linear, Error> {
        let weights = loader.matrix(&format!("{name}.weight"), rows, k, norm)?;
        let bias = biased.then(|| loader.vector(&format!("{name}.bias"), rows)).transpose()?;
        Ok(Linear { weights, bias })
    }

    pub(super) fn bytes(&self) -> usize {
        self.weights.bytes()
    }

    /// Computes `out = x * weights + bias`, or adds it.
    pub(super) fn apply(
        &self,
        cpu: &Cpu,
        activations: &mut PackedA,
        x: &[f32],
        out: &mut [f32],
        write: Write,
    ) {
        apply(cpu, activations, x, write, &mut [(self, out)]);
    }

    /// Computes `gelu(x * weights + bias)`.
    pub(super) fn apply_gelu(&self, cpu: &Cpu, activations: &mut PackedA, x: &[f32], out: &mut Vec<f32>) {
        let cpu = cpu.for_tokens(x.len() / self.weights.k());
        resize(out, x.len() / self.weights.k() * self.weights.rows());
        activations.fill(cpu.tier(), cpu.pool(), self.weights.act_format(), x, self.weights.k());
        // Results of INT8 rows become 8-bit integers at once.
        let exact = !self.weights.is_int8_rows();
        let activation = if exact { Activation::Gelu } else { Activation::GeluPolynomial };
        let product = Product { weights: &self.weights, bias: self.bias.as_deref(), out, write: Write::Set };
        multiply_activated(cpu, activations, product, activation);
    }
}

/// Multiplies one input with several matrices, in one job per activation format.
pub(super) fn apply(
    cpu: &Cpu,
    activations: &mut PackedA,
    x: &[f32],
    write: Write,
    all: &mut [(&Linear, &mut [f32])],
) {
    let same = |a: &(&Linear, &mut [f32]), b: &(&Linear, &mut [f32])| {
        a.0.weights.act_format() == b.0.weights.act_format()
    };
    for group in all.chunk_by_mut(same) {
        let first = &group[0].0.weights;
        let (format, k) = (first.act_format(), first.k());
        let cpu = cpu.for_tokens(x.len() / k);
        activations.fill(cpu.tier(), cpu.pool(), format, x, k);
        let mut products: Vec<Product<'_>> = group
            .iter_mut()
            .map(|(linear, out)| Product {
                weights: &linear.weights,
                bias: linear.bias.as_deref(),
                out,
                write,
            })
            .collect();
        multiply(cpu, activations, &mut products);
    }
}

/// Projections of one attention sublayer.
#[derive(Debug)]
pub(super) struct Projections {
    pub(super) norm: Norm,
    pub(super) query: Linear,
    pub(super) key: Linear,
    pub(super) value: Linear,
    pub(super) out: Linear,
}

impl Projections {
    /// Loads the sublayer `name` with the norm `norm`. `crossed` is true if keys and values are of the encoder, whose
    /// states are normalised elsewhere.
    pub(super) fn load(
        loader: &Loader<'_>,
        name: &str,
        norm: &str,
        width: usize,
        crossed: bool,
    ) -> Result<Projections, Error> {
        let norm = Norm::load(loader, norm, width)?;
        let of = |part: &str, biased: bool, norm: Option<&Norm>| {
            Linear::load(loader, &format!("{name}.{part}"), (width, width), biased, norm)
        };
        let own = (!crossed).then_some(&norm);
        Ok(Projections {
            query: of("q_proj", true, Some(&norm))?,
            key: of("k_proj", false, own)?,
            value: of("v_proj", true, own)?,
            out: of("out_proj", true, None)?,
            norm,
        })
    }

    pub(super) fn bytes(&self) -> usize {
        [&self.query, &self.key, &self.value, &self.out].map(Linear::bytes).iter().sum()
    }
}

/// Feed-forward sublayer.
#[derive(Debug)]
pub(super) struct FeedForward {
    norm: Norm,
    up: Linear,
    down: Linear,
}

impl FeedForward {
    pub(super) fn load(
        loader: &Loader<'_>,
        layer: &str,
        width: usize,
        hidden: usize,
    ) -> Result<FeedForward, Error> {
        let norm = Norm::load(loader, &format!("{layer}.final_layer_norm"), width)?;
        let up = Linear::load(loader, &format!("{layer}.fc1"), (hidden, width), true, Some(&norm))?;
        let down = Linear::load(loader, &format!("{layer}.fc2"), (width, hidden), true, None)?;
        Ok(FeedForward { norm, up, down })
    }

    /// Adds the sublayer's results to `x`.
    pub(super) fn add(&self, cpu: &Cpu, x: &mut [f32], work: &mut Work) {
        self.norm.apply(cpu, x, &mut work.normed);
        self.up.apply_gelu(cpu, &mut work.activations, &work.normed, &mut work.hidden);
        self.down.apply(cpu, &mut work.activations, &work.hidden, x, Write::Add);
    }

    pub(super) fn bytes(&self) -> usize {
        self.up.bytes() + self.down.bytes()
    }
}

/// Sets the length of a buffer whose contents are replaced.
pub(super) fn resize(buffer: &mut Vec<f32>, n: usize) {
    buffer.resize(n, 0.0);
}
