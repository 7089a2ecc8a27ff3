//! Sequences of tensors, and optional values.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs, one};
use crate::inputs::Inputs;
use crate::ops::concat::{joined, part};
use crate::shape::{Shape, axis, size};
use crate::tensor::Tensor;
use crate::value::Value;
use std::sync::Arc;

#[derive(Debug)]
enum Sequence {
    Construct,
    Empty,
    At,
    Erase,
    Insert,
    Length,
    /// Dimension, and whether it is new.
    Join {
        axis: i64,
        new: bool,
    },
    Split {
        axis: i64,
        keep: bool,
    },
    Optional,
    HasElement,
    GetElement,
}

/// Returns a position, which may count from the back; `end` is allowed too if `insert`.
fn position(at: i64, n: usize, insert: bool) -> Result<usize, Error> {
    let found = if at < 0 { at.saturating_add(n as i64) } else { at };
    let most = n + usize::from(insert);
    usize::try_from(found)
        .ok()
        .filter(|i| *i < most)
        .ok_or_else(|| format!("position {at} is outside {n}").into())
}

impl Operator for Sequence {
    fn run(&self, ctx: &Context<'_>, mut inputs: Inputs) -> Result<Outputs, Error> {
        match self {
            Sequence::Construct => {
                let values = (0..inputs.len()).map(|i| inputs.take_value(i)).collect::<Result<_, _>>()?;
                one(Value::Sequence(Arc::new(values)))
            }
            Sequence::Empty => one(Value::Sequence(Arc::default())),
            Sequence::At => {
                let list = inputs.value(0)?.sequence()?;
                one(list[position(inputs.int(1)?, list.len(), false)?].clone())
            }
            Sequence::Length => one(Tensor::scalar(inputs.value(0)?.sequence()?.len() as i64)),
            Sequence::Erase => {
                let mut list = inputs.value(0)?.sequence()?.to_vec();
                let at = if inputs.has(1) { inputs.int(1)? } else { -1 };
                list.remove(position(at, list.len(), false)?);
                one(Value::Sequence(Arc::new(list)))
            }
            Sequence::Insert => {
                let mut list = inputs.value(0)?.sequence()?.to_vec();
                let at = if inputs.has(2) { position(inputs.int(2)?, list.len(), true)? } else { list.len() };
                list.insert(at, inputs.take_value(1)?);
                one(Value::Sequence(Arc::new(list)))
            }
            Sequence::Join { axis: at, new } => {
                let list = inputs.value(0)?.sequence()?;
                let mut tensors = list.iter().map(|v| v.tensor().cloned()).collect::<Result<Vec<_>, _>>()?;
                let rank = tensors.first().map_or(0, Tensor::rank) + usize::from(*new);
                let at = axis(*at, rank)?;
                if *new {
                    for tensor in &mut tensors {
                        let mut shape = Shape::from_slice(tensor.shape());
                        if at > shape.len() {
                            return Err(format!("axis {at} is outside shape {shape:?}").into());
                        }
                        shape.insert(at, 1);
                        *tensor = tensor.clone().reshaped(shape)?;
                    }
                }
                one(joined(ctx, &tensors.iter().collect::<Vec<_>>(), at)?)
            }
            Sequence::Split { axis: at, keep } => {
                let x = inputs.tensor(0)?;
                let at = axis(*at, x.rank())?;
                let n = x.shape()[at];
                let sizes: Vec<usize> = match inputs.optional(1)? {
                    None => vec![1; n],
                    Some(split) if split.rank() == 0 => {
                        let each = size(split.int()?)?.max(1);
                        (0..n.div_ceil(each)).map(|i| each.min(n - i * each)).collect()
                    }
                    Some(split) => split.ints()?.into_iter().map(size).collect::<Result<_, _>>()?,
                };
                if sizes.iter().try_fold(0_usize, |n, s| n.checked_add(*s)) != Some(n) {
                    return Err(format!("sizes {sizes:?} do not add up to {n}").into());
                }
                let mut start = 0;
                let mut list = Vec::new();
                for n in sizes {
                    let mut found = part(x, at, start, n);
                    start += n;
                    if !keep && !inputs.has(1) {
                        let mut shape = Shape::from_slice(found.shape());
                        shape.remove(at);
                        found = found.reshaped(shape)?;
                    }
                    list.push(Value::Tensor(found));
                }
                one(Value::Sequence(Arc::new(list)))
            }
            Sequence::Optional => one(if inputs.has(0) { inputs.take_value(0)? } else { Value::Absent }),
            Sequence::HasElement => {
                let has = inputs.has(0) && !matches!(inputs.value(0)?, Value::Absent);
                one(Tensor::bools(Shape::new(), vec![u8::from(has)]))
            }
            Sequence::GetElement => match inputs.take_value(0)? {
                Value::Absent => Err("the optional value is absent".into()),
                value => one(value),
            },
        }
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

macro_rules! sequences {
    ($($make:ident $a:ident => $kind:expr,)*) => {
        $(pub(crate) fn $make($a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
            Ok(Box::new($kind))
        })*
    };
}
sequences! {
    construct _a => Sequence::Construct,
    empty a => { a.ignore(&["dtype"]); Sequence::Empty },
    at _a => Sequence::At,
    erase _a => Sequence::Erase,
    insert _a => Sequence::Insert,
    length _a => Sequence::Length,
    join a => Sequence::Join { axis: a.int_or("axis", 0)?, new: a.flag("new_axis", false)? },
    split a => Sequence::Split { axis: a.int_or("axis", 0)?, keep: a.flag("keepdims", true)? },
    optional a => { a.ignore(&["type"]); Sequence::Optional },
    has_element _a => Sequence::HasElement,
    get_element _a => Sequence::GetElement,
}
