//! Alternating updates (AltUp; Baykal et al., 2023) as in Gemma 3n: each token has several residual streams, and a
//! layer computes one of them, the active one. Before the layer all streams are predicted as mixtures of each other;
//! after it all are corrected by the error of the active one's prediction. Parallel to attention is a low-rank product
//! (LAuReL, a learned augmented residual layer).
//!
//! `work.altup.streams` and `work.altup.predicted` are `[rows, streams * width]`; the active stream is `work.stream`,
//! as in other models.

use super::attention::keep;
use super::linear::{Linear, apply};
use super::norm::Norm;
use crate::config::{AltUpConfig, ModelConfig};
use crate::error::Error;
use crate::loader::Loader;
use crate::workspace::Workspace;
use leyden_kernels::Cpu;
use leyden_kernels::gemm::{PackedWeights, Product, Write, multiply};
use leyden_kernels::memory::Aligned;
use leyden_kernels::ops::{add_scaled, dot_rows, soft_cap};

/// Projections from the embedding to all streams, and from all streams to the head.
#[derive(Debug)]
pub(crate) struct Streams {
    width: usize,
    count: usize,
    /// Projection to each stream but the first.
    spread: Vec<PackedWeights>,
    /// Projection from each stream but the first.
    join: Vec<PackedWeights>,
}

/// Lower bound of a stream's mean square, as a divisor.
const MIN_SQUARE: f32 = 1e-5;

fn mean_square(cpu: &Cpu, row: &[f32]) -> f32 {
    let mut sum = [0.0];
    dot_rows(cpu.tier(), row, row, row.len(), &mut sum);
    sum[0] / row.len() as f32
}

/// Returns the factor that gives `row` the root mean square of `target`.
fn to_magnitude(cpu: &Cpu, target: &[f32], row: &[f32]) -> f32 {
    mean_square(cpu, target).sqrt() / mean_square(cpu, row).max(MIN_SQUARE).sqrt()
}

impl Streams {
    pub(crate) fn load(loader: &Loader<'_>, c: &ModelConfig, altup: AltUpConfig) -> Result<Streams, Error> {
        let (width, count) = (c.width, altup.streams);
        let stack = |name: &str| loader.each_of_stack(name, [count - 1, width, width]);
        Ok(Streams { width, count, spread: stack("altup_proj")?, join: stack("altup_unembd_proj")? })
    }

    pub(crate) fn matrices(&self) -> impl Iterator<Item = &PackedWeights> {
        self.spread.iter().chain(&self.join)
    }

    /// Computes all streams: the first is the stream, the others are projections of it, scaled to its magnitude.
    pub(crate) fn spread(&self, cpu: &Cpu, work: &mut Workspace) {
        let (width, all) = (self.width, self.width * self.count);
        work.altup.streams.resize(work.stream.len() * self.count);
        let stream = &work.stream;
        cpu.for_rows(&mut work.altup.streams, all, |i, row| {
            row[..width].copy_from_slice(&stream[i * width..(i + 1) * width]);
        });
        work.branch.resize(work.stream.len());
        for (s, weights) in (1..).zip(&self.spread) {
            work.activations.fill(cpu.tier(), cpu.pool(), weights.act_format(), &work.stream, width);
            let product = Product { weights, bias: None, out: &mut work.branch, write: Write::Set };
            multiply(cpu, &work.activations, &mut [product]);
            let branch = &work.branch;
            cpu.for_rows(&mut work.altup.streams, all, |i, row| {
                let (first, others) = row.split_at_mut(width);
                let other = &branch[i * width..(i + 1) * width];
                let factor = to_magnitude(cpu, first, other);
                let to = &mut others[(s - 1) * width..s * width];
                to.iter_mut().zip(other).for_each(|(to, x)| *to = x * factor);
            });
        }
    }

    /// Sets the stream to the mean of all streams, each but the first projected and scaled to the magnitude of the
    /// first.
    pub(crate) fn join(&self, cpu: &Cpu, work: &mut Workspace) {
        let (width, all) = (self.width, self.width * self.count);
        let rows = work.altup.streams.len() / all;
        work.stream.resize(rows * width);
        work.branch.resize(rows * width);
        let mut input = Aligned::default();
        input.resize(rows * width);
        let streams = &work.altup.streams;
        for (s, weights) in (1..).zip(&self.join) {
            cpu.for_rows(&mut input, width, |i, row| {
                row.copy_from_slice(&streams[i * all + s * width..][..width]);
            });
            work.activations.fill(cpu.tier(), cpu.pool(), weights.act_format(), &input, width);
            let product = Product { weights, bias: None, out: &mut work.branch, write: Write::Set };
            multiply(cpu, &work.activations, &mut [product]);
            let branch = &work.branch;
            cpu.for_rows(&mut work.stream, width, |i, row| {
                let (first, other) = (&streams[i * all..][..width], &branch[i * width..(i + 1) * width]);
                if s == 1 {
                    row.copy_from_slice(first);
                }
                add_scaled(cpu.tier(), to_magnitude(cpu, first, other), other, row);
            });
        }
        let share = 1.0 / self.count as f32;
        cpu.for_rows(&mut work.stream, width, |_, row| row.iter_mut().for_each(|x| *x *= share));
    }
}

/// Alternating updates and augmented residual layer of one layer.
#[derive(Debug)]
pub(crate) struct AltUp {
    width: usize,
    streams: usize,
    active: usize,
    /// Router of the active stream, whose results (modes) set the factors of prediction and correction.
    router_norm: Norm,
    router: Linear,
    /// Matrix from modes to factors of the prediction `[to, from, modes]`.
    predict: Vec<f32>,
    /// Matrix from modes to factors of the correction `[to, modes]`.
    correct: Vec<f32>,
    /// Scale of the corrected active stream as the input of the per-layer embedding `[width]`.
    scale: Option<Vec<f32>>,
    /// Low-rank product of the augmented residual layer.
    left: Linear,
    right: Linear,
    laurel_norm: Norm,
}

impl AltUp {
    pub(crate) fn load(
        loader: &Loader<'_>,
        c: &ModelConfig,
        altup: AltUpConfig,
        i: usize,
    ) -> Result<AltUp, Error> {
        let (width, streams) = (c.width, altup.streams);
        let name = |part: &str| format!("blk.{i}.{part}");
        let rank = loader.rows_of(&name("laurel_l.weight"), width)?;
        Ok(AltUp {
            width,
            streams,
            active: altup.active,
            router_norm: Norm::load(loader, c.norm, &name("altup_router_norm"), width)?
                .scaled(1.0 / width as f32),
            router: Linear::load(loader, &name("altup_router"), streams, width)?,
            predict: loader.table(&name("altup_predict_coef.weight"), streams * streams, streams)?,
            correct: loader.table(&name("altup_correct_coef.weight"), streams, streams)?,
            scale: match altup.scaled {
                true => Some(loader.required_vector(&name("altup_correct_scale.weight"), width)?),
                false => {
                    loader.ignore(&name("altup_correct_scale.weight"))?;
                    None
                }
            },
            left: Linear::load(loader, &name("laurel_l"), rank, width)?,
            right: Linear::load(loader, &name("laurel_r"), width, rank)?,
            laurel_norm: Norm::load(loader, c.norm, &name("laurel_post_norm"), width)?,
        })
    }

    pub(crate) fn matrices(&self) -> [&PackedWeights; 3] {
        [&self.router, &self.left, &self.right].map(|l| &l.weights)
    }

    /// Computes the modes of the rows of the stream, into `work.altup.modes`.
    fn route(&self, cpu: &Cpu, work: &mut Workspace) {
        self.router_norm.rows(cpu, &work.stream, &mut work.normed);
        if let Some(sums) = &mut work.sums {
            sums.add([&self.router.name[..]], &work.normed, self.width);
        }
        work.altup.modes.resize(work.normed.len() / self.width * self.streams);
        let product = (&self.router, &mut work.altup.modes[..]);
        apply(cpu, &mut work.activations, &work.normed, Write::Set, [product]);
        // A soft cap of one is the hyperbolic tangent.
        soft_cap(cpu.tier(), &mut work.altup.modes, 1.0);
    }

    /// Predicts all streams, and sets the stream to the active one's prediction.
    pub(crate) fn predict(&self, cpu: &Cpu, work: &mut Workspace) {
        let (n, width) = (self.streams, self.width);
        let all = n * width;
        let active = self.active * width..(self.active + 1) * width;
        work.stream.resize(work.altup.streams.len() / n);
        let streams = &work.altup.streams;
        cpu.for_rows(&mut work.stream, width, |i, row| {
            row.copy_from_slice(&streams[i * all..][active.clone()])
        });
        self.route(cpu, work);
        work.altup.predicted.resize(work.altup.streams.len());
        let (streams, modes) = (&work.altup.streams, &work.altup.modes);
        cpu.for_rows(&mut work.altup.predicted, all, |i, row| {
            let from = &streams[i * all..(i + 1) * all];
            row.copy_from_slice(from);
            let mut factors = [0.0; 1];
            for (to, rows) in row.chunks_exact_mut(width).zip(self.predict.chunks_exact(n * n)) {
                for (from, factor) in from.chunks_exact(width).zip(rows.chunks_exact(n)) {
                    dot_rows(cpu.tier(), &modes[i * n..(i + 1) * n], factor, n, &mut factors);
                    add_scaled(cpu.tier(), factors[0], from, to);
                }
            }
        });
        let predicted = &work.altup.predicted;
        cpu.for_rows(&mut work.stream, width, |i, row| {
            row.copy_from_slice(&predicted[i * all..][active.clone()]);
        });
    }

    /// Computes the augmented residual layer for `work.normed`, which holds `rows` of the batch, into
    /// `work.altup.laurel`.
    pub(crate) fn laurel(&self, cpu: &Cpu, rows: &[usize], work: &mut Workspace) {
        let (width, rank) = (self.width, self.left.weights.rows());
        let had = work.altup.predicted.len() / (self.streams * width);
        if rows.len() < had {
            keep(rows, self.streams * width, &mut work.altup.predicted);
        }
        if let Some(sums) = &mut work.sums {
            sums.add([&self.left.name[..]], &work.normed, width);
        }
        work.altup.low.resize(rows.len() * rank);
        let left = (&self.left, &mut work.altup.low[..]);
        apply(cpu, &mut work.activations, &work.normed, Write::Set, [left]);
        if let Some(sums) = &mut work.sums {
            sums.add([&self.right.name[..]], &work.altup.low, rank);
        }
        work.altup.laurel.resize(rows.len() * width);
        let right = (&self.right, &mut work.altup.laurel[..]);
        apply(cpu, &mut work.activations, &work.altup.low, Write::Set, [right]);
        let normed = &work.normed;
        cpu.for_rows(&mut work.altup.laurel, width, |i, row| {
            self.laurel_norm.heads(cpu.tier(), row);
            row.iter_mut().zip(&normed[i * width..(i + 1) * width]).for_each(|(x, n)| *x += n);
        });
    }

    /// Adds the results of the augmented residual layer to the stream after attention, and scales the sum.
    pub(crate) fn add_laurel(&self, cpu: &Cpu, work: &mut Workspace) {
        let (width, laurel) = (self.width, &work.altup.laurel);
        cpu.for_rows(&mut work.stream, width, |i, row| {
            for (x, l) in row.iter_mut().zip(&laurel[i * width..(i + 1) * width]) {
                *x = (*x + l) * std::f32::consts::FRAC_1_SQRT_2;
            }
        });
    }

    /// Corrects all streams by the layer's result. The stream is then the corrected active one, scaled: the input of
    /// the per-layer embedding.
    pub(crate) fn correct(&self, cpu: &Cpu, work: &mut Workspace) {
        let (n, width) = (self.streams, self.width);
        let all = n * width;
        let active = self.active * width..(self.active + 1) * width;
        self.route(cpu, work);
        // The error of the prediction.
        let predicted = &work.altup.predicted;
        cpu.for_rows(&mut work.stream, width, |i, row| {
            row.iter_mut().zip(&predicted[i * all..][active.clone()]).for_each(|(x, p)| *x -= p);
        });
        work.altup.streams.resize(work.altup.predicted.len());
        let (predicted, modes, off) = (&work.altup.predicted, &work.altup.modes, &work.stream);
        cpu.for_rows(&mut work.altup.streams, all, |i, row| {
            row.copy_from_slice(&predicted[i * all..(i + 1) * all]);
            let mut factor = [0.0; 1];
            for (to, factors) in row.chunks_exact_mut(width).zip(self.correct.chunks_exact(n)) {
                dot_rows(cpu.tier(), &modes[i * n..(i + 1) * n], factors, n, &mut factor);
                add_scaled(cpu.tier(), factor[0] + 1.0, &off[i * width..(i + 1) * width], to);
            }
        });
        let streams = &work.altup.streams;
        cpu.for_rows(&mut work.stream, width, |i, row| {
            row.copy_from_slice(&streams[i * all..][active.clone()]);
            if let Some(scale) = &self.scale {
                row.iter_mut().zip(scale).for_each(|(x, s)| *x *= s);
            }
        });
    }

    /// Adds `work.branch` to all streams but the first.
    pub(crate) fn add_to_others(&self, cpu: &Cpu, work: &mut Workspace) {
        let (width, branch) = (self.width, &work.branch);
        cpu.for_rows(&mut work.altup.streams, self.streams * width, |i, row| {
            for to in row[width..].chunks_exact_mut(width) {
                to.iter_mut().zip(&branch[i * width..(i + 1) * width]).for_each(|(x, b)| *x += b);
            }
        });
    }
}
