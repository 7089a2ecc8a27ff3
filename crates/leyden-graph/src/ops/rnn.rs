//! Recurrent layers: LSTM, GRU and RNN, in both directions, also with weights of 8-bit integers (onnxruntime's).
//!
//! Shapes: input `[steps, batch, inputs]`, weights `[directions, gates * hidden, inputs]`, recurrent weights
//! `[directions, gates * hidden, hidden]`. The products of all inputs are one product before the steps.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs};
use crate::inputs::Inputs;
use crate::ops::layout::transposed;
use crate::ops::quantize::{dynamic, widened};
use crate::ops::unary::Function;
use crate::shape::Shape;
use crate::tensor::Tensor;
use leyden_kernels::Cpu;
use leyden_kernels::gemm::{DenseEpilogue, DensePanels, DenseRows, dense_multiply};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Lstm,
    Gru,
    Rnn,
}

impl Kind {
    fn gates(self) -> usize {
        match self {
            Kind::Lstm => 4,
            Kind::Gru => 3,
            Kind::Rnn => 1,
        }
    }

    /// Number of functions of a direction, with those that count unless others are given.
    fn functions(self) -> &'static [Function] {
        match self {
            Kind::Lstm => &[Function::Sigmoid, Function::Tanh, Function::Tanh],
            Kind::Gru => &[Function::Sigmoid, Function::Tanh],
            Kind::Rnn => &[Function::Tanh],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Reverse,
    Both,
}

#[derive(Debug)]
struct Recurrent {
    kind: Kind,
    direction: Direction,
    hidden: usize,
    functions: Vec<Function>,
    clip: Option<f32>,
    /// Input and forget gate are one (LSTM).
    coupled: bool,
    /// The reset gate is applied after the product (GRU).
    reset_after: bool,
    /// The batch is the first dimension.
    batch_first: bool,
    /// Weights are 8-bit integers, and inputs are quantised while it runs.
    quantised: bool,
    /// Weights of inputs and of states by direction, packed at load where they are constant.
    packed: [Option<Vec<Arc<DensePanels>>>; 2],
}

/// Weights of one direction.
struct Weights<'a> {
    w: Matrix,
    r: Matrix,
    bias: Vec<f32>,
    peepholes: Option<&'a [f32]>,
}

/// Weights of a product, `[rows, k]`, or integers `[k, rows]` with a scale and a zero point for each or all rows.
enum Matrix {
    Floats(Arc<DensePanels>),
    Bytes { values: Vec<i32>, scales: Vec<f32>, k: usize, rows: usize },
}

impl Matrix {
    /// Computes the products of rows of `k` values: `[m, rows]`.
    fn multiply(&self, ctx: &Context<'_>, x: &[f32], m: usize) -> Vec<f32> {
        match self {
            Matrix::Floats(panels) => {
                let [k, n] = panels.size();
                let mut out = vec![0.0; m * n];
                let rows = DenseRows { values: x, m, k, stride: k };
                dense_multiply(ctx.cpu, rows, &**panels, n, (&mut out, n), DenseEpilogue::default());
                out
            }
            Matrix::Bytes { values, scales, k, rows } => {
                let (bytes, scale, zero) = dynamic(x);
                let mut out = vec![0.0; m * rows];
                let mut sums = vec![0_i32; *rows];
                for (row, out) in bytes.chunks_exact((*k).max(1)).zip(out.chunks_exact_mut((*rows).max(1))) {
                    sums.fill(0);
                    for (q, w) in row.iter().zip(values.chunks_exact(*rows)) {
                        let q = i32::from(*q) - i32::from(zero);
                        sums.iter_mut().zip(w).for_each(|(s, w)| *s += q * w);
                    }
                    for (i, (o, s)) in out.iter_mut().zip(&sums).enumerate() {
                        *o = *s as f32 * (scale * scales[if scales.len() == 1 { 0 } else { i }]);
                    }
                }
                out
            }
        }
    }
}

impl Recurrent {
    /// Reads weights of direction `d`.
    fn weights<'a>(&self, inputs: &'a Inputs, d: usize, width: usize) -> Result<Weights<'a>, Error> {
        let (gates, hidden) = (self.kind.gates(), self.hidden);
        let rows = gates * hidden;
        let matrix = |i: usize, k: usize, at: usize| -> Result<Matrix, Error> {
            let x = inputs.tensor(i)?;
            let unlike = || {
                Error::invalid(format!(
                    "input {i} has shape {:?}, not [{rows}, {k}] per direction",
                    x.shape()
                ))
            };
            let &[_, a, b] = x.shape() else { return Err(unlike()) };
            if !self.quantised {
                if (a, b) != (rows, k) {
                    return Err(unlike());
                }
                if let Some(panels) = self.packed[i - 1].as_ref().and_then(|p| p.get(d)) {
                    return Ok(Matrix::Floats(Arc::clone(panels)));
                }
                let v = &x.f32s()?[d * rows * k..(d + 1) * rows * k];
                return Ok(Matrix::Floats(Arc::new(DensePanels::pack(v, [k, rows], [1, k]))));
            }
            if (a, b) != (k, rows) {
                return Err(unlike());
            }
            let (scales, zeros) = (inputs.tensor(at)?, inputs.tensor(at + 1)?);
            let each = scales.len() / x.shape()[0].max(1);
            if scales.len() != zeros.len() || each != 1 && each != rows {
                return Err(format!("input {at} has {} scales", scales.len()).into());
            }
            let zeros = widened(zeros)?;
            let mut values = widened(x)?[d * rows * k..(d + 1) * rows * k].to_vec();
            for (j, v) in values.iter_mut().enumerate() {
                *v -= zeros[d * each + if each == 1 { 0 } else { j % rows }];
            }
            let scales = scales.f32s()?[d * each..(d + 1) * each].to_vec();
            Ok(Matrix::Bytes { values, scales, k, rows })
        };
        let part = |i: usize, n: usize| -> Result<Option<&'a [f32]>, Error> {
            let Some(v) = inputs.optional_values::<f32>(i)? else { return Ok(None) };
            v.get(d * n..(d + 1) * n)
                .map(Some)
                .ok_or_else(|| format!("input {i} has {} values", v.len()).into())
        };
        let bias = part(3, 2 * rows)?.map_or(vec![0.0; 2 * rows], <[f32]>::to_vec);
        let peepholes = if self.kind == Kind::Lstm { part(7, 3 * hidden)? } else { None };
        Ok(Weights { w: matrix(1, width, 8)?, r: matrix(2, hidden, 10)?, bias, peepholes })
    }

    fn function(&self, d: usize, i: usize) -> Function {
        self.functions[d * self.kind.functions().len() + i]
    }

    fn apply(&self, ctx: &Context<'_>, function: Function, x: &mut [f32]) {
        if let Some(clip) = self.clip {
            x.iter_mut().for_each(|v| *v = v.clamp(-clip.abs(), clip.abs()));
        }
        if !x.is_empty() {
            function.apply(ctx, x);
        }
    }

    /// Computes one step of one example; `g` are the products and biases of the gates.
    fn cell(
        &self,
        ctx: &Context<'_>,
        d: usize,
        g: &mut [f32],
        h: &mut [f32],
        c: &mut [f32],
        w: &Weights<'_>,
    ) {
        let n = self.hidden;
        match self.kind {
            Kind::Rnn => {
                self.apply(ctx, self.function(d, 0), g);
                h.copy_from_slice(&g[..n]);
            }
            Kind::Lstm => {
                // Gates in the order input, output, forget, cell.
                if let Some(p) = w.peepholes {
                    for j in 0..n {
                        g[j] += p[j] * c[j];
                        g[2 * n + j] += p[2 * n + j] * c[j];
                    }
                }
                let (gates, cell) = g.split_at_mut(3 * n);
                let (input, rest) = gates.split_at_mut(n);
                let (output, forget) = rest.split_at_mut(n);
                self.apply(ctx, self.function(d, 0), input);
                self.apply(ctx, self.function(d, 0), forget);
                if self.coupled {
                    forget.iter_mut().zip(&*input).for_each(|(f, i)| *f = 1.0 - i);
                }
                self.apply(ctx, self.function(d, 1), cell);
                for j in 0..n {
                    c[j] = forget[j] * c[j] + input[j] * cell[j];
                }
                if let Some(p) = w.peepholes {
                    (0..n).for_each(|j| output[j] += p[n + j] * c[j]);
                }
                self.apply(ctx, self.function(d, 0), output);
                cell.copy_from_slice(c);
                self.function(d, 2).apply(ctx, cell);
                for j in 0..n {
                    h[j] = output[j] * cell[j];
                }
            }
            Kind::Gru => unreachable!("computed with its second product"),
        }
    }

    /// Computes one step of a GRU for a batch; `x` are the inputs' products `[batch, 3 * hidden]` with their biases.
    fn gru(
        &self,
        ctx: &Context<'_>,
        d: usize,
        x: &[f32],
        h: &mut [f32],
        w: &Weights<'_>,
        r: [&DensePanels; 2],
    ) {
        let n = self.hidden;
        let batch = h.len() / n.max(1);
        let bias = &w.bias[3 * n..];
        let product = |panels: &DensePanels, from: &[f32], columns: usize| {
            let mut out = vec![0.0; batch * columns];
            let rows = DenseRows { values: from, m: batch, k: n, stride: n };
            dense_multiply(ctx.cpu, rows, panels, columns, (&mut out, columns), DenseEpilogue::default());
            out
        };
        let zr = product(r[0], h, 2 * n);
        let mut gates = vec![0.0; batch * 2 * n];
        for b in 0..batch {
            for j in 0..2 * n {
                gates[b * 2 * n + j] = x[b * 3 * n + j] + zr[b * 2 * n + j] + bias[j];
            }
        }
        self.apply(ctx, self.function(d, 0), &mut gates);
        let mut candidate = vec![0.0; batch * n];
        let reset = |b: usize, j: usize| gates[b * 2 * n + n + j];
        if self.reset_after {
            let rh = product(r[1], h, n);
            for b in 0..batch {
                for j in 0..n {
                    candidate[b * n + j] =
                        x[b * 3 * n + 2 * n + j] + reset(b, j) * (rh[b * n + j] + bias[2 * n + j]);
                }
            }
        } else {
            let scaled: Vec<f32> = (0..batch * n).map(|i| reset(i / n, i % n) * h[i]).collect();
            let rh = product(r[1], &scaled, n);
            for b in 0..batch {
                for j in 0..n {
                    candidate[b * n + j] = x[b * 3 * n + 2 * n + j] + rh[b * n + j] + bias[2 * n + j];
                }
            }
        }
        self.apply(ctx, self.function(d, 1), &mut candidate);
        for b in 0..batch {
            for j in 0..n {
                let z = gates[b * 2 * n + j];
                h[b * n + j] = (1.0 - z) * candidate[b * n + j] + z * h[b * n + j];
            }
        }
    }
}

impl Operator for Recurrent {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = match self.batch_first {
            true if inputs.tensor(0)?.rank() == 3 => transposed(inputs.tensor(0)?, &[1, 0, 2]),
            _ => inputs.tensor(0)?.clone(),
        };
        let &[steps, batch, width] = x.shape() else {
            return Err(format!("input 0 has shape {:?} where three dimensions should be", x.shape()).into());
        };
        let n = self.hidden;
        let directions = if self.direction == Direction::Both { 2 } else { 1 };
        let lengths = match inputs.optional_ints(4)? {
            Some(lengths) if lengths.len() != batch => return Err("input 4 does not fit the batch".into()),
            Some(lengths) => lengths.into_iter().map(|l| (l.max(0) as usize).min(steps)).collect(),
            None => vec![steps; batch],
        };
        let state = |i: usize| -> Result<Vec<f32>, Error> {
            let Some(x) = inputs.optional(i)? else { return ctx.zeros(&[directions, batch, n]) };
            let x = if self.batch_first && x.rank() == 3 { transposed(x, &[1, 0, 2]) } else { x.clone() };
            if x.len() != directions * batch * n {
                return Err(format!("input {i} has shape {:?}", x.shape()).into());
            }
            Ok(x.f32s()?.to_vec())
        };
        let mut h_all = state(5)?;
        let mut c_all = if self.kind == Kind::Lstm { state(6)? } else { ctx.zeros(&[directions, batch, n])? };
        let mut y = ctx.zeros::<f32>(&[steps, directions, batch, n])?;
        let gates = self.kind.gates() * n;
        for d in 0..directions {
            let reverse = self.direction == Direction::Reverse || d == 1;
            let w = self.weights(&inputs, d, width)?;
            let mut products = w.w.multiply(ctx, x.f32s()?, steps * batch);
            for row in products.chunks_exact_mut(gates.max(1)) {
                row.iter_mut().zip(&w.bias[..gates]).for_each(|(v, b)| *v += b);
            }
            let halves = if self.kind == Kind::Gru {
                let r = &inputs.values::<f32>(2)?[d * gates * n..(d + 1) * gates * n];
                Some([
                    DensePanels::pack(r, [n, 2 * n], [1, n]),
                    DensePanels::pack(&r[2 * n * n..], [n, n], [1, n]),
                ])
            } else {
                None
            };
            let h = &mut h_all[d * batch * n..(d + 1) * batch * n];
            let c = &mut c_all[d * batch * n..(d + 1) * batch * n];
            for t in 0..steps {
                ctx.count()?;
                // Each example runs over its own length; in reverse from its end.
                let at: Vec<Option<usize>> =
                    lengths.iter().map(|l| (t < *l).then(|| if reverse { l - 1 - t } else { t })).collect();
                let before = h.to_vec();
                if let Some([zr, candidate]) = &halves {
                    let mut rows = vec![0.0; batch * gates];
                    for (b, at) in at.iter().enumerate() {
                        if let Some(at) = at {
                            rows[b * gates..(b + 1) * gates]
                                .copy_from_slice(&products[(at * batch + b) * gates..][..gates]);
                        }
                    }
                    self.gru(ctx, d, &rows, h, &w, [zr, candidate]);
                } else {
                    let recurrent = w.r.multiply(ctx, h, batch);
                    for (b, at) in at.iter().enumerate() {
                        let Some(at) = at else { continue };
                        let mut g = recurrent[b * gates..(b + 1) * gates].to_vec();
                        let row = &products[(at * batch + b) * gates..][..gates];
                        for j in 0..gates {
                            g[j] += row[j] + w.bias[gates + j];
                        }
                        let (h, c) = (&mut h[b * n..(b + 1) * n], &mut c[b * n..(b + 1) * n]);
                        self.cell(ctx, d, &mut g, h, c, &w);
                    }
                }
                for (b, at) in at.iter().enumerate() {
                    match at {
                        Some(at) => {
                            let to = ((at * directions + d) * batch + b) * n;
                            y[to..to + n].copy_from_slice(&h[b * n..(b + 1) * n]);
                        }
                        None => h[b * n..(b + 1) * n].copy_from_slice(&before[b * n..(b + 1) * n]),
                    }
                }
            }
        }
        let y = Tensor::of([steps, directions, batch, n].into_iter().collect::<Shape>(), y);
        let state = |v: Vec<f32>| Tensor::of([directions, batch, n].into_iter().collect::<Shape>(), v);
        let mut all = vec![y, state(h_all)];
        if self.kind == Kind::Lstm {
            all.push(state(c_all));
        }
        if self.batch_first {
            all[0] = transposed(&all[0], &[2, 0, 1, 3]);
            all.iter_mut().skip(1).for_each(|s| *s = transposed(s, &[1, 0, 2]));
        }
        Ok(all.into_iter().map(Into::into).collect())
    }

    fn prepare(&mut self, _cpu: &Cpu, constants: &[Option<&Tensor>]) -> Result<(), Error> {
        for i in 1..3 {
            let Some(Some(w)) = constants.get(i) else { continue };
            if let (&[directions, rows, k], Ok(v)) = (w.shape(), w.f32s())
                && !self.quantised
                && rows * k > 0
            {
                let pack = |v: &[f32]| Arc::new(DensePanels::pack(v, [k, rows], [1, k]));
                debug_assert_eq!(v.len(), directions * rows * k, "weights of each direction");
                self.packed[i - 1] = Some(v.chunks_exact(rows * k).map(pack).collect());
            }
        }
        Ok(())
    }
}

/// Returns a function by its name, with its parameters.
fn named(name: &str, alpha: Option<f32>, beta: Option<f32>) -> Result<Function, Error> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "sigmoid" => Function::Sigmoid,
        "tanh" => Function::Tanh,
        "relu" => Function::Relu,
        "affine" => Function::Affine(alpha.unwrap_or(1.0), beta.unwrap_or(0.0)),
        "leakyrelu" => Function::LeakyRelu(alpha.unwrap_or(0.01)),
        "thresholdedrelu" => Function::ThresholdedRelu(alpha.unwrap_or(1.0)),
        "scaledtanh" => Function::ScaledTanh(alpha.unwrap_or(1.0), beta.unwrap_or(1.0)),
        "hardsigmoid" => Function::HardSigmoid(alpha.unwrap_or(0.2), beta.unwrap_or(0.5)),
        "elu" => Function::Elu(alpha.unwrap_or(1.0)),
        "softsign" => Function::Softsign,
        "softplus" => Function::Softplus,
        other => return Err(format!("activation `{other}` is not supported").into()),
    })
}

fn make(a: &Attributes<'_, '_>, kind: Kind, quantised: bool) -> Result<Box<dyn Operator>, Error> {
    let direction = a.choice("direction", &["forward", "reverse", "bidirectional"])?;
    let direction = [Direction::Forward, Direction::Reverse, Direction::Both][direction];
    let directions = if direction == Direction::Both { 2 } else { 1 };
    let wanted = kind.functions().len() * directions;
    let functions = match a.texts("activations")? {
        None => kind.functions().repeat(directions),
        Some(names) => {
            let (alphas, betas) = (a.floats("activation_alpha")?, a.floats("activation_beta")?);
            let at = |v: &Option<Vec<f32>>, i: usize| v.as_ref().and_then(|v| v.get(i).copied());
            let found = names.iter().enumerate().map(|(i, name)| named(name, at(&alphas, i), at(&betas, i)));
            found.collect::<Result<Vec<_>, _>>()?
        }
    };
    if functions.len() != wanted {
        return Err(format!("{} activations where {wanted} should be", functions.len()).into());
    }
    a.ignore(&["activation_alpha", "activation_beta", "output_sequence"]);
    Ok(Box::new(Recurrent {
        kind,
        direction,
        hidden: crate::shape::size(a.int("hidden_size")?.ok_or("attribute `hidden_size` is missing")?)?,
        functions,
        clip: a.float("clip")?,
        coupled: kind == Kind::Lstm && a.int_or("input_forget", 0)? != 0,
        reset_after: kind == Kind::Gru && a.int_or("linear_before_reset", 0)? != 0,
        batch_first: a.int_or("layout", 0)? == 1,
        quantised,
        packed: [None, None],
    }))
}

pub(crate) fn lstm(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    make(a, Kind::Lstm, false)
}

pub(crate) fn gru(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    make(a, Kind::Gru, false)
}

pub(crate) fn rnn(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    make(a, Kind::Rnn, false)
}

/// Makes onnxruntime's LSTM with weights of 8-bit integers.
pub(crate) fn dynamic_quantize_lstm(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    make(a, Kind::Lstm, true)
}
