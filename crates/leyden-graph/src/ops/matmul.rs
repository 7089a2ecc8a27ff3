//! Products of matrices.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs, one};
use crate::inputs::Inputs;
use crate::ops::binary::Number;
use crate::ops::elementwise::Joined;
use crate::ops::layout::transposed;
use crate::ops::unary::Function;
use crate::shape::{Shape, broadcast, broadcast_strides, for_offsets, product};
use crate::tensor::{Data, Tensor, each_number};
use leyden_kernels::Cpu;
use leyden_kernels::gemm::{DenseEpilogue, DenseMatrix, DensePanels, DenseRows, dense_multiply};

/// Product of stacks of matrices.
#[derive(Debug, Default)]
pub(crate) struct MatMul {
    /// Factor, and whether the last two dimensions are exchanged first (onnxruntime's FusedMatMul).
    pub(crate) alpha: Option<f32>,
    pub(crate) turned: [bool; 2],
    /// The second matrix, packed at load.
    packed: Option<DensePanels>,
    /// Function of the results, and whether input 2 is a bias of the columns; filled by fusion.
    pub(crate) bias: bool,
    pub(crate) activation: Option<Function>,
}

/// Shapes of a product of stacks: batch, and `[m, k, n]`.
struct Sizes {
    batch: Shape,
    a: Shape,
    b: Shape,
    m: usize,
    k: usize,
    n: usize,
    shape: Shape,
}

fn sizes(ctx: &Context<'_>, a: &[usize], b: &[usize]) -> Result<Sizes, Error> {
    let unlike = || Error::invalid(format!("shapes {a:?} and {b:?} cannot be multiplied"));
    if a.is_empty() || b.is_empty() {
        return Err(unlike());
    }
    // A vector is a row on the left and a column on the right.
    let (mut am, mut bm) = (Shape::from_slice(a), Shape::from_slice(b));
    if a.len() == 1 {
        am.insert(0, 1);
    }
    if b.len() == 1 {
        bm.push(1);
    }
    let (m, k, n) = (am[am.len() - 2], am[am.len() - 1], bm[bm.len() - 1]);
    if bm[bm.len() - 2] != k {
        return Err(unlike());
    }
    let (ab, bb) = (Shape::from_slice(&am[..am.len() - 2]), Shape::from_slice(&bm[..bm.len() - 2]));
    let batch = broadcast(&ab, &bb)?;
    let mut shape = batch.clone();
    if a.len() > 1 {
        shape.push(m);
    }
    if b.len() > 1 {
        shape.push(n);
    }
    ctx.elements(&shape, 8)?;
    let scaled = |s: &Shape, size: usize| broadcast_strides(s, &batch).iter().map(|v| v * size).collect();
    let (a, b) = (scaled(&ab, m * k), scaled(&bb, k * n));
    Ok(Sizes { batch, a, b, m, k, n, shape })
}

/// Computes a product of stacks of 32-bit floats.
fn floats(
    ctx: &Context<'_>,
    a: &[f32],
    b: &[f32],
    s: &Sizes,
    packed: Option<&DensePanels>,
    epilogue: DenseEpilogue<'_>,
) -> Result<Vec<f32>, Error> {
    let mut out = ctx.zeros::<f32>(&s.shape)?;
    let (m, k, n) = (s.m, s.k, s.n);
    if out.is_empty() {
        return Ok(out);
    }
    // One right matrix for all of a stack: its rows are those of one product.
    if s.b.iter().all(|v| *v == 0)
        && s.a
            .iter()
            .zip(crate::shape::strides(&s.batch))
            .zip(&s.batch)
            .all(|((a, w), n)| *n == 1 || *a == w * m * k)
    {
        let rows = DenseRows { values: a, m: product(&s.batch) * m, k, stride: k };
        match packed {
            Some(packed) => dense_multiply(ctx.cpu, rows, packed, n, (&mut out, n), epilogue),
            None => {
                let right = DenseMatrix { values: b, n, strides: [n, 1] };
                dense_multiply(ctx.cpu, rows, &right, n, (&mut out, n), epilogue);
            }
        }
        return Ok(out);
    }
    let mut at = 0;
    for_offsets(&s.batch, [&s.a, &s.b], |[i, j]| {
        let rows = DenseRows { values: &a[i..i + m * k], m, k, stride: k };
        let right = DenseMatrix { values: &b[j..j + k * n], n, strides: [n, 1] };
        dense_multiply(ctx.cpu, rows, &right, n, (&mut out[at..at + m * n], n), epilogue);
        at += m * n;
    });
    Ok(out)
}

/// Computes a product of stacks by its definition.
fn plain<T: Number>(ctx: &Context<'_>, a: &[T], b: &[T], s: &Sizes) -> Result<Tensor, Error> {
    let mut out = ctx.zeros::<T>(&s.shape)?;
    let (m, k, n) = (s.m, s.k, s.n);
    let mut at = 0;
    if !out.is_empty() {
        for_offsets(&s.batch, [&s.a, &s.b], |[i, j]| {
            for r in 0..m {
                let row = &mut out[at + r * n..at + (r + 1) * n];
                for l in 0..k {
                    let x = a[i + r * k + l];
                    for (o, w) in row.iter_mut().zip(&b[j + l * n..j + (l + 1) * n]) {
                        *o = o.add(x.mul(*w));
                    }
                }
            }
            at += m * n;
        });
    }
    Ok(Tensor::of(s.shape.clone(), out))
}

/// Exchanges the last two dimensions.
fn turned(x: &Tensor) -> Tensor {
    let mut order: Vec<usize> = (0..x.rank()).collect();
    if x.rank() > 1 {
        order.swap(x.rank() - 2, x.rank() - 1);
    }
    transposed(x, &order)
}

impl Operator for MatMul {
    fn run(&self, ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let mut a = inputs.take(0)?;
        let mut b = inputs.take(1)?;
        if self.turned[0] {
            a = turned(&a);
        }
        if self.turned[1] {
            b = turned(&b);
        }
        let s = sizes(ctx, a.shape(), b.shape())?;
        let unlike = || {
            Error::invalid(format!("does not take values of types {} and {}", a.ty().name(), b.ty().name()))
        };
        let Data::F32(x) = a.data() else {
            return one(each_number!(a.data(), v => {
                fn of<T: Number>(ctx: &Context<'_>, v: &[T], b: &Tensor, s: &Sizes) -> Result<Tensor, Error> {
                    plain(ctx, v, b.values::<T>()?, s)
                }
                of(ctx, v, &b, &s)?
            }, return Err(unlike())));
        };
        let bias = if self.bias { Some(inputs.values::<f32>(2)?) } else { None };
        if bias.is_some_and(|bias| bias.len() != s.n) {
            return Err(format!("a bias for {} columns has another length", s.n).into());
        }
        let bounds = match self.activation {
            Some(Function::Relu) if self.alpha.is_none() => Some([0.0, f32::INFINITY]),
            _ => None,
        };
        let epilogue = DenseEpilogue { row_bias: None, column_bias: bias, bounds };
        let mut out = floats(ctx, x, b.f32s()?, &s, self.packed.as_ref(), epilogue)?;
        if let Some(alpha) = self.alpha {
            out.iter_mut().for_each(|v| *v *= alpha);
        }
        if let (Some(function), None) = (self.activation, bounds) {
            function.apply(ctx, &mut out);
        }
        one(Tensor::of(s.shape, out))
    }

    fn prepare(&mut self, _cpu: &Cpu, constants: &[Option<&Tensor>]) -> Result<(), Error> {
        if let Some(Some(b)) = constants.get(1)
            && let (&[k, n], Data::F32(v), false) = (b.shape(), b.data(), self.turned[1])
        {
            self.packed = Some(DensePanels::pack(v, [k, n], [n, 1]));
        }
        Ok(())
    }
}

pub(crate) fn matmul(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(MatMul::default()))
}

/// Makes onnxruntime's FusedMatMul.
pub(crate) fn fused_matmul(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    if a.int_or("transBatchA", 0)? != 0 || a.int_or("transBatchB", 0)? != 0 {
        return Err("exchanged batches are not supported".into());
    }
    let alpha = a.float("alpha")?.filter(|alpha| *alpha != 1.0);
    let turned = [a.flag("transA", false)?, a.flag("transB", false)?];
    Ok(Box::new(MatMul { alpha, turned, ..MatMul::default() }))
}

/// `alpha * a * b + beta * c` of matrices, each of which may be transposed.
#[derive(Debug)]
pub(crate) struct Gemm {
    alpha: f32,
    beta: f32,
    turned: [bool; 2],
    packed: Option<DensePanels>,
    /// Function of the results; filled by fusion.
    pub(crate) activation: Option<Function>,
}

impl Operator for Gemm {
    fn run(&self, ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let mut a = inputs.take(0)?;
        if self.turned[0] {
            a = turned(&a);
        }
        let b = inputs.tensor(1)?;
        let (&[m, k], &[b0, b1]) = (a.shape(), b.shape()) else {
            return Err(format!("shapes {:?} and {:?} are no matrices", a.shape(), b.shape()).into());
        };
        let (bk, n) = if self.turned[1] { (b1, b0) } else { (b0, b1) };
        if bk != k {
            return Err(format!("shapes {:?} and {:?} cannot be multiplied", a.shape(), b.shape()).into());
        }
        let shape: Shape = [m, n].into_iter().collect();
        let c = inputs.optional(2)?.filter(|c| !c.is_empty());
        if !matches!(a.data(), Data::F32(_)) {
            let b = if self.turned[1] { turned(b) } else { b.clone() };
            let s = sizes(ctx, a.shape(), b.shape())?;
            return one(each_number!(a.data(), v => {
                fn of<T: Number>(ctx: &Context<'_>, v: &[T], b: &Tensor, c: Option<&Tensor>, s: &Sizes, g: &Gemm)
                    -> Result<Tensor, Error>
                {
                    let out = plain(ctx, v, b.values::<T>()?, s)?;
                    let (alpha, beta) = (T::from_f64(f64::from(g.alpha)), T::from_f64(f64::from(g.beta)));
                    let scaled: Vec<T> = out.values::<T>()?.iter().map(|v| v.mul(alpha)).collect();
                    let Some(c) = c else { return Ok(Tensor::of(out.shape(), scaled)) };
                    let joined = Joined::new(out.shape(), c.shape())?;
                    Ok(Tensor::of(out.shape(), joined.map(&scaled, c.values::<T>()?, |v, c| v.add(c.mul(beta)))))
                }
                of(ctx, v, &b, c, &s, self)?
            }, return Err(format!("does not take values of type {}", a.ty().name()).into())));
        }
        let mut out = ctx.zeros::<f32>(&shape)?;
        let rows = DenseRows { values: a.f32s()?, m, k, stride: k };
        // A bias of the columns is added with the product.
        let row = c.filter(|c| {
            c.len() == n && (c.rank() == 1 || c.shape()[0] == 1) && self.alpha == 1.0 && self.beta == 1.0
        });
        let bias = row.map(Tensor::f32s).transpose()?;
        let epilogue = DenseEpilogue { row_bias: None, column_bias: bias, bounds: None };
        match &self.packed {
            Some(packed) => dense_multiply(ctx.cpu, rows, packed, n, (&mut out, n), epilogue),
            None => {
                let strides = if self.turned[1] { [1, k] } else { [n, 1] };
                let right = DenseMatrix { values: b.f32s()?, n, strides };
                dense_multiply(ctx.cpu, rows, &right, n, (&mut out, n), epilogue);
            }
        }
        if self.alpha != 1.0 {
            out.iter_mut().for_each(|v| *v *= self.alpha);
        }
        if let (Some(c), None) = (c, bias) {
            let joined = Joined::new(&shape, c.shape())?;
            if joined.shape != shape {
                return Err(format!("input 2 of shape {:?} does not fit {shape:?}", c.shape()).into());
            }
            joined.map_in_place(&mut out, c.f32s()?, |v, c| v + self.beta * c);
        }
        if let Some(function) = self.activation {
            function.apply(ctx, &mut out);
        }
        one(Tensor::of(shape, out))
    }

    fn prepare(&mut self, _cpu: &Cpu, constants: &[Option<&Tensor>]) -> Result<(), Error> {
        if let Some(Some(b)) = constants.get(1)
            && let (&[b0, b1], Data::F32(v)) = (b.shape(), b.data())
        {
            let (size, strides) = if self.turned[1] { ([b1, b0], [1, b1]) } else { ([b0, b1], [b1, 1]) };
            self.packed = Some(DensePanels::pack(v, size, strides));
        }
        Ok(())
    }
}

pub(crate) fn gemm(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    a.ignore(&["broadcast"]);
    Ok(Box::new(Gemm {
        alpha: a.float_or("alpha", 1.0)?,
        beta: a.float_or("beta", 1.0)?,
        turned: [a.int_or("transA", 0)? != 0, a.int_or("transB", 0)? != 0],
        packed: None,
        activation: None,
    }))
}
