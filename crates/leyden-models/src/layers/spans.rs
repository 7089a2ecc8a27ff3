//! Head that scores spans of words for labels (GLiNER; Zaratiana et al., 2023): a bidirectional LSTM over words; an MLP
//! each on the first and on the last word of a span, and one on both together; and a product with labels, which an MLP
//! projects too.

use super::classifier::activate;
use super::linear::{Linear, apply};
use crate::config::SpanConfig;
use crate::config::{DenseActivation, ModelConfig};
use crate::error::Error;
use crate::loader::Loader;
use crate::pooling::Pooling;
use leyden_kernels::gemm::{PackedWeights, Write};
use leyden_kernels::ops::{dot_rows, sigmoid, sum_rows};
use leyden_kernels::{Cpu, PackedA};
use leyden_tensor::DType;
use std::ops::Range;

/// Ratio of the hidden size of an MLP to its input size.
const EXPANSION: usize = 4;
/// Words whose spans are computed at a time.
const WORDS: usize = 16;

/// Span head of a model.
#[derive(Debug)]
pub(crate) struct Spans {
    config: SpanConfig,
    projection: Option<Linear>,
    rnn: Vec<[Direction; 2]>,
    start: Mlp,
    end: Mlp,
    /// First layer of the span MLP in two parts: the columns of first words, with the bias, and those of last words.
    parts: [Linear; 2],
    /// Second layer of the span MLP `[hidden, EXPANSION * hidden]`.
    out: Vec<f32>,
    out_bias: Vec<f32>,
    label: Mlp,
}

/// MLP of two layers with ReLU between them.
#[derive(Debug)]
struct Mlp([Linear; 2]);

/// Direction of a layer of the LSTM (Hochreiter and Schmidhuber, 1997): projections to its four gates from the
/// input and from the previous state.
#[derive(Debug)]
struct Direction {
    input: Linear,
    state: Linear,
}

impl Mlp {
    fn load(loader: &Loader<'_>, name: &str, hidden: usize) -> Result<Mlp, Error> {
        // Modules 1 and 2 between them are ReLU and dropout.
        let first = Linear::load(loader, &format!("{name}.0"), EXPANSION * hidden, hidden)?;
        Ok(Mlp([first, Linear::load(loader, &format!("{name}.3"), hidden, EXPANSION * hidden)?]))
    }

    fn forward(&self, cpu: &Cpu, activations: &mut PackedA, x: &[f32]) -> Vec<f32> {
        let [first, second] = &self.0;
        let mut between = product(cpu, activations, first, x);
        activate(cpu, DenseActivation::Relu, &mut between);
        product(cpu, activations, second, &between)
    }
}

/// Multiplies rows `x` `[n, k]` with a matrix.
fn product(cpu: &Cpu, activations: &mut PackedA, linear: &Linear, x: &[f32]) -> Vec<f32> {
    let mut out = vec![0.0; x.len() / linear.weights.k() * linear.weights.rows()];
    if !x.is_empty() {
        apply(cpu, activations, x, Write::Set, [(linear, &mut out[..])]);
    }
    out
}

impl Direction {
    fn load(loader: &Loader<'_>, end: &str, inputs: usize, half: usize) -> Result<Direction, Error> {
        let bias = |kind: &str| loader.required_vector(&format!("spans.rnn.bias_{kind}_{end}"), 4 * half);
        // Both biases are added to the same sums.
        let bias = bias("ih")?.iter().zip(bias("hh")?).map(|(a, b)| a + b).collect();
        let matrix = |kind: &str, k: usize, bias| {
            let name = format!("spans.rnn.weight_{kind}_{end}");
            let weights = loader.matrix(&name, 4 * half, k)?;
            Ok::<_, Error>(Linear::new(name, weights, bias))
        };
        Ok(Direction { input: matrix("ih", inputs, Some(bias))?, state: matrix("hh", half, None)? })
    }

    /// Writes the state after each word to its half of the rows of `out` `[words, 2 * half]`, which both directions
    /// share.
    fn run(&self, cpu: &Cpu, activations: &mut PackedA, x: &[f32], out: &mut [f32], backwards: bool) {
        let half = self.state.weights.k();
        let rows = out.len() / (2 * half);
        let gates = product(cpu, activations, &self.input, x);
        let (mut state, mut cell, mut step) = (vec![0.0; half], vec![0.0; half], vec![0.0; 4 * half]);
        for i in 0..rows {
            let word = if backwards { rows - 1 - i } else { i };
            step.copy_from_slice(&gates[word * 4 * half..][..4 * half]);
            // The state before the first word is zero.
            if i > 0 {
                apply(cpu, activations, &state, Write::Add, [(&self.state, &mut step[..])]);
            }
            // Input, forget, candidate, output.
            let (open, rest) = step.split_at_mut(2 * half);
            let (candidate, output) = rest.split_at_mut(half);
            sigmoid(cpu.tier(), open);
            sigmoid(cpu.tier(), output);
            activate(cpu, DenseActivation::Tanh, candidate);
            let (input, forget) = open.split_at(half);
            for j in 0..half {
                cell[j] = forget[j] * cell[j] + input[j] * candidate[j];
            }
            state.copy_from_slice(&cell);
            activate(cpu, DenseActivation::Tanh, &mut state);
            state.iter_mut().zip(output).for_each(|(state, output)| *state *= *output);
            out[word * 2 * half + if backwards { half } else { 0 }..][..half].copy_from_slice(&state);
        }
    }
}

impl Spans {
    pub(crate) fn load(loader: &Loader<'_>, c: &ModelConfig) -> Result<Option<Spans>, Error> {
        let Some(config) = &c.spans else { return Ok(None) };
        let hidden = config.hidden;
        let projection = (hidden != c.width)
            .then(|| Linear::load(loader, "spans.projection", hidden, c.width))
            .transpose()?;
        let layer = |i: usize| {
            let one = |end: &str| Direction::load(loader, &format!("l{i}{end}"), hidden, hidden / 2);
            Ok([one("")?, one("_reverse")?])
        };
        let two = |name: &str| Mlp::load(loader, name, hidden);
        let wide = EXPANSION * hidden;
        let first = loader.values("spans.out.0.weight", &[wide, 2 * hidden])?;
        let columns = |which: usize, bias: Option<Vec<f32>>| {
            let rows = first.chunks_exact(2 * hidden).map(|row| &row[which * hidden..][..hidden]);
            let bytes: Vec<u8> = rows.flatten().flat_map(|x| x.to_le_bytes()).collect();
            let name = format!("spans.out.0.weight[{}]", ["start", "end"][which]);
            let weights = loader.made(&name, DType::F32, &[wide, hidden], &bytes)?;
            Ok::<_, Error>(Linear::new(name, weights, bias))
        };
        let bias = loader.required_vector("spans.out.0.bias", wide)?;
        Ok(Some(Spans {
            config: config.clone(),
            projection,
            rnn: (0..config.rnn_layers).map(layer).collect::<Result<_, Error>>()?,
            start: two("spans.start")?,
            end: two("spans.end")?,
            parts: [columns(0, Some(bias))?, columns(1, None)?],
            out: loader.values("spans.out.3.weight", &[hidden, wide])?,
            out_bias: loader.required_vector("spans.out.3.bias", hidden)?,
            label: two("spans.label")?,
        }))
    }

    /// Returns the parameters of the head.
    pub(crate) fn config(&self) -> &SpanConfig {
        &self.config
    }

    /// Returns its matrices, in the order of the computation.
    pub(crate) fn matrices(&self) -> impl Iterator<Item = &PackedWeights> {
        let rnn = self.rnn.iter().flatten().flat_map(|direction| [&direction.input, &direction.state]);
        let layers = [&self.start, &self.end].into_iter().flat_map(|two| &two.0);
        let all = self.projection.iter().chain(rnn).chain(layers).chain(&self.parts).chain(&self.label.0);
        all.map(|linear| &linear.weights)
    }

    /// Computes the logits of all labels for each span of `words`, given as ranges of tokens: ordered by first word,
    /// then by length.
    /// `labels` are the indices of the labels' tokens.
    pub(crate) fn logits(
        &self,
        cpu: &Cpu,
        states: &[f32],
        words: &[Range<usize>],
        labels: &[usize],
    ) -> Vec<f32> {
        if words.is_empty() || labels.is_empty() {
            return Vec::new();
        }
        let hidden = self.config.hidden;
        let mut activations = PackedA::default();
        let projected = self.projection.as_ref().map(|p| product(cpu, &mut activations, p, states));
        let states = projected.as_deref().unwrap_or(states);
        let mut x: Vec<f32> =
            words.iter().flat_map(|tokens| pooled(self.config.pooling, states, tokens, hidden)).collect();
        for directions in &self.rnn {
            let mut out = vec![0.0; x.len()];
            for (direction, backwards) in directions.iter().zip([false, true]) {
                direction.run(cpu, &mut activations, &x, &mut out, backwards);
            }
            x = out;
        }
        let mut part = |two: &Mlp, first: &Linear| {
            let mut ends = two.forward(cpu, &mut activations, &x);
            activate(cpu, DenseActivation::Relu, &mut ends);
            product(cpu, &mut activations, first, &ends)
        };
        let (starts, ends) = (part(&self.start, &self.parts[0]), part(&self.end, &self.parts[1]));
        // The results of the span MLP's last layer are only multiplied with labels, so labels are multiplied with that
        // layer first: once for each label instead of once for each span.
        let of_label = |at: &usize| &states[at * hidden..][..hidden];
        let labels: Vec<f32> = labels.iter().flat_map(of_label).copied().collect();
        let labels = self.label.forward(cpu, &mut activations, &labels);
        let count = labels.len() / hidden;
        let wide = EXPANSION * hidden;
        let mut weights = vec![0.0; count * wide];
        cpu.for_rows(&mut weights, wide, |i, row| {
            sum_rows(cpu.tier(), &labels[i * hidden..][..hidden], &self.out, wide, row);
        });
        let mut biases = vec![0.0; count];
        dot_rows(cpu.tier(), &self.out_bias, &labels, hidden, &mut biases);
        self.products(cpu, [&starts, &ends], (&weights, &biases), words.len())
    }

    /// Computes the logits of spans from the results of the span MLP's first layer for first and for last words.
    fn products(
        &self,
        cpu: &Cpu,
        [starts, ends]: [&[f32]; 2],
        (weights, biases): (&[f32], &[f32]),
        words: usize,
    ) -> Vec<f32> {
        let (wide, count) = (EXPANSION * self.config.hidden, biases.len());
        let mut logits = Vec::new();
        for first in (0..words).step_by(WORDS) {
            let chunk = first..words.min(first + WORDS);
            let spans: Vec<(usize, usize)> = chunk
                .flat_map(|start| {
                    (start..words.min(start + self.config.max_width)).map(move |end| (start, end))
                })
                .collect();
            // Each row has the hidden values of a span, then its logits.
            let mut rows = vec![0.0; spans.len() * (wide + count)];
            cpu.for_rows(&mut rows, wide + count, |i, row| {
                let (start, end) = spans[i];
                let (between, out) = row.split_at_mut(wide);
                let both = starts[start * wide..].iter().zip(&ends[end * wide..]);
                between.iter_mut().zip(both).for_each(|(x, (a, b))| *x = (a + b).max(0.0));
                dot_rows(cpu.tier(), between, weights, wide, out);
                out.iter_mut().zip(biases).for_each(|(out, bias)| *out += bias);
            });
            logits.extend(rows.chunks_exact(wide + count).flat_map(|row| &row[wide..]));
        }
        logits
    }
}

/// Pools the hidden states of a word's tokens; zeros for a word without tokens.
fn pooled(pooling: Pooling, states: &[f32], tokens: &Range<usize>, width: usize) -> Vec<f32> {
    let rows = || states[tokens.start * width..tokens.end * width].chunks_exact(width);
    let mut out = vec![0.0; width];
    match pooling {
        Pooling::Max => {
            out.fill(f32::NEG_INFINITY);
            rows().for_each(|row| out.iter_mut().zip(row).for_each(|(out, x)| *out = out.max(*x)));
        }
        Pooling::Mean | Pooling::WeightedMean | Pooling::MeanSqrtLen => {
            rows().for_each(|row| out.iter_mut().zip(row).for_each(|(out, x)| *out += x));
            out.iter_mut().for_each(|out| *out /= tokens.len() as f32);
        }
        Pooling::Cls | Pooling::Last => {
            let row = if pooling == Pooling::Cls { rows().next() } else { rows().next_back() };
            row.into_iter().for_each(|row| out.copy_from_slice(row));
        }
    }
    if tokens.is_empty() { vec![0.0; width] } else { out }
}
