//! GELU of a sum with a bias (onnxruntime's FastGelu and BiasGelu).

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs, one};
use crate::inputs::Inputs;
use crate::ops::binary::{Arithmetic, combine};
use crate::ops::unary::Function;
use crate::tensor::Data;

#[derive(Debug)]
struct BiasGelu(Function);

impl Operator for BiasGelu {
    fn run(&self, ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        let mut x = inputs.take(0)?;
        if inputs.has(1) {
            x = combine(ctx, Arithmetic::Add, x, inputs.take(1)?)?;
        }
        match x.data_mut() {
            Data::F32(v) => self.0.apply(ctx, v.make_mut()),
            other => return Err(format!("does not take values of type {}", other.ty().name()).into()),
        }
        one(x)
    }
}

pub(crate) fn fast(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(BiasGelu(Function::GeluTanh)))
}

pub(crate) fn bias(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(BiasGelu(Function::Gelu)))
}
