//! Softmax and its kin, along a dimension.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs, one};
use crate::inputs::Inputs;
use crate::ops::layout::transposed;
use crate::ops::reduce::sum_lanes;
use crate::shape::{axis, product};
use crate::tensor::{Data, Tensor};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Softmax,
    LogSoftmax,
    Hardmax,
}

#[derive(Debug)]
struct Softmax {
    kind: Kind,
    axis: i64,
    /// Before version 13 all dimensions from the axis on are one.
    flat: bool,
}

/// Replaces a row by its softmax. Values of minus infinity become zero.
pub(crate) fn softmax_row(tier: leyden_kernels::Tier, row: &mut [f32]) {
    let most = row.iter().fold(f32::NEG_INFINITY, |a, b| if *b > a { *b } else { a });
    if most == f32::NEG_INFINITY {
        // Nothing but minus infinity, or NaN.
        row.fill(f32::NAN);
        return;
    }
    row.iter_mut().for_each(|v| *v -= most);
    // The exponential is clamped from below; -87 is where it would leave the normal numbers.
    let cut: Vec<usize> = if row.iter().any(|v| *v < -87.0) {
        (0..row.len()).filter(|i| row[*i] < -87.0).collect()
    } else {
        Vec::new()
    };
    leyden_kernels::ops::exp(tier, row);
    cut.into_iter().for_each(|i| row[i] = 0.0);
    let sum = sum_lanes(row, |v| v);
    row.iter_mut().for_each(|v| *v /= sum);
}

impl Softmax {
    fn rows(&self, ctx: &Context<'_>, x: &mut Tensor, width: usize) -> Result<(), Error> {
        if width == 0 {
            return Ok(());
        }
        let tier = ctx.cpu.tier();
        match x.data_mut() {
            Data::F32(v) => {
                let block = (8192 / width).max(1);
                ctx.cpu.for_blocks(v.make_mut(), width, block, |_, rows| {
                    for row in rows.chunks_exact_mut(width) {
                        match self.kind {
                            Kind::Softmax => softmax_row(tier, row),
                            Kind::LogSoftmax => {
                                let most = row.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
                                let sum: f64 = row.iter().map(|v| libm::exp(f64::from(*v - most))).sum();
                                let log = f64::from(most) + libm::log(sum);
                                row.iter_mut().for_each(|v| *v = (f64::from(*v) - log) as f32);
                            }
                            Kind::Hardmax => hard(row, 0.0, 1.0),
                        }
                    }
                });
            }
            Data::F64(v) => {
                for row in v.make_mut().chunks_exact_mut(width) {
                    if self.kind == Kind::Hardmax {
                        hard(row, 0.0, 1.0);
                        continue;
                    }
                    let most = row.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
                    let sum: f64 = row.iter().map(|v| libm::exp(*v - most)).sum();
                    let log = libm::log(sum);
                    for v in row {
                        *v = match self.kind {
                            Kind::Softmax => libm::exp(*v - most) / sum,
                            _ => *v - most - log,
                        };
                    }
                }
            }
            other => return Err(format!("does not take values of type {}", other.ty().name()).into()),
        }
        Ok(())
    }
}

/// Sets the first of the greatest values to one and the others to zero.
fn hard<T: PartialOrd + Copy>(row: &mut [T], zero: T, one: T) {
    let mut best = 0;
    for i in 1..row.len() {
        if row[i] > row[best] {
            best = i;
        }
    }
    row.fill(zero);
    row[best] = one;
}

impl Operator for Softmax {
    fn run(&self, ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let mut x = inputs.take(0)?;
        if x.rank() == 0 {
            self.rows(ctx, &mut x, 1)?;
            return one(x);
        }
        let at =
            if self.flat && self.axis == x.rank() as i64 { x.rank() } else { axis(self.axis, x.rank())? };
        if self.flat || at + 1 == x.rank() {
            let width = product(&x.shape()[at..]);
            self.rows(ctx, &mut x, width)?;
            return one(x);
        }
        let mut order: Vec<usize> = (0..x.rank()).filter(|d| *d != at).collect();
        order.push(at);
        let mut turned = transposed(&x, &order);
        let width = x.shape()[at];
        self.rows(ctx, &mut turned, width)?;
        let mut back: Vec<usize> = (0..x.rank() - 1).collect();
        back.insert(at, x.rank() - 1);
        one(transposed(&turned, &back))
    }
}

fn make(a: &Attributes<'_, '_>, kind: Kind) -> Result<Box<dyn Operator>, Error> {
    let flat = a.opset < 13;
    Ok(Box::new(Softmax { kind, axis: a.int_or("axis", if flat { 1 } else { -1 })?, flat }))
}

pub(crate) fn softmax(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    make(a, Kind::Softmax)
}

pub(crate) fn log_softmax(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    make(a, Kind::LogSoftmax)
}

pub(crate) fn hardmax(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    make(a, Kind::Hardmax)
}
