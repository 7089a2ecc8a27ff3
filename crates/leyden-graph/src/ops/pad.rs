//! Values around a tensor.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs, one};
use crate::inputs::Inputs;
use crate::shape::{Shape, axis, strides};
use crate::tensor::Tensor;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Constant,
    Reflect,
    Edge,
    Wrap,
}

#[derive(Debug)]
struct Pad {
    mode: Mode,
    /// Widths and value of old versions.
    fixed: Option<(Vec<i64>, f32)>,
}

/// Returns the index that a position outside `n` elements takes its value from.
fn source(mode: Mode, i: i64, n: usize) -> Option<usize> {
    let n = n as i64;
    if (0..n).contains(&i) {
        return Some(i as usize);
    }
    match mode {
        _ if n == 0 => None,
        Mode::Constant => None,
        Mode::Edge => Some(i.clamp(0, n - 1) as usize),
        Mode::Wrap => Some(i.rem_euclid(n) as usize),
        Mode::Reflect if n == 1 => Some(0),
        Mode::Reflect => {
            let period = 2 * (n - 1);
            let i = i.rem_euclid(period);
            Some((if i < n { i } else { period - i }) as usize)
        }
    }
}

impl Operator for Pad {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let rank = x.rank();
        let mut widths = vec![0_i64; 2 * rank];
        let fill = match &self.fixed {
            Some((pads, value)) => {
                if pads.len() != 2 * rank {
                    return Err(format!("{} widths for {rank} dimensions", pads.len()).into());
                }
                widths.clone_from(pads);
                crate::ops::cast::cast(Tensor::vector(vec![*value]), x.ty())?
            }
            None => {
                let pads = inputs.ints(1)?;
                let list = match inputs.optional_ints(3)? {
                    Some(list) => list.iter().map(|a| axis(*a, rank)).collect::<Result<Vec<_>, _>>()?,
                    None => (0..rank).collect(),
                };
                if pads.len() != 2 * list.len() {
                    return Err(format!("{} widths for {} dimensions", pads.len(), list.len()).into());
                }
                for (i, at) in list.iter().enumerate() {
                    widths[*at] = pads[i];
                    widths[rank + at] = pads[list.len() + i];
                }
                match inputs.optional(2)?.filter(|v| !v.is_empty()) {
                    Some(value) => value.clone(),
                    None => crate::ops::cast::cast(Tensor::vector(vec![0.0_f32]), x.ty()).or_else(|_| {
                        Tensor::new(&[1], crate::tensor::Data::Text(vec![String::new()].into()))
                    })?,
                }
            }
        };
        if fill.ty() != x.ty() {
            return Err(
                format!("the value has type {} where {} should be", fill.ty().name(), x.ty().name()).into()
            );
        }
        let mut shape = Shape::new();
        for (i, n) in x.shape().iter().enumerate() {
            let size = widths[i].checked_add(widths[rank + i]).and_then(|w| w.checked_add(*n as i64));
            let size = size.and_then(|n| usize::try_from(n).ok());
            shape.push(size.ok_or_else(|| format!("widths {widths:?} do not fit shape {:?}", x.shape()))?);
        }
        let n = ctx.elements(&shape, x.ty().bytes())?;
        let own = strides(x.shape());
        // Offset of each index of each dimension in the source; none where the value is the fill's.
        let maps: Vec<Vec<Option<usize>>> = (0..rank)
            .map(|d| {
                let at = |i: usize| source(self.mode, i as i64 - widths[d], x.shape()[d]).map(|i| i * own[d]);
                (0..shape[d]).map(at).collect()
            })
            .collect();
        let inner = maps.last().map_or(1, Vec::len);
        let outer_shape = &shape[..rank.saturating_sub(1)];
        let unit = strides(outer_shape);
        let value = &fill;
        macro_rules! filled {
            ($v:expr, $fill:expr) => {{
                let mut out = Vec::with_capacity(n);
                if n > 0 && rank == 0 {
                    out.push($v[0].clone());
                } else if n > 0 {
                    let (row, left) = (&maps[rank - 1], widths[rank - 1]);
                    let copied = x.shape()[rank - 1].min(inner);
                    for flat in 0..outer_shape.iter().product() {
                        let index = |d: usize| flat / unit[d] % outer_shape[d];
                        let base = (0..rank - 1).try_fold(0, |sum, d| Some(sum + maps[d][index(d)]?));
                        match base {
                            None => out.extend(std::iter::repeat_n($fill.clone(), inner)),
                            Some(base) if left >= 0 && widths[2 * rank - 1] >= 0 => {
                                let left = left as usize;
                                let at =
                                    |i: &Option<usize>| i.map_or($fill.clone(), |i| $v[base + i].clone());
                                out.extend(row[..left].iter().map(at));
                                out.extend_from_slice(&$v[base..base + copied]);
                                out.extend(row[left + copied..].iter().map(at));
                            }
                            Some(base) => {
                                out.extend(
                                    row.iter().map(|i| i.map_or($fill.clone(), |i| $v[base + i].clone())),
                                );
                            }
                        }
                    }
                }
                out
            }};
        }
        let data = crate::tensor::both_types!(x.data(), value.data(), (v, f) => filled!(v, f[0]), {
            return Err("the value has another type".into());
        });
        one(Tensor::with(shape, data))
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

const MODES: [&str; 4] = ["constant", "reflect", "edge", "wrap"];

fn mode(a: &Attributes<'_, '_>) -> Result<Mode, Error> {
    Ok([Mode::Constant, Mode::Reflect, Mode::Edge, Mode::Wrap][a.choice("mode", &MODES)?])
}

/// Makes `Pad` of versions before 11, whose widths are attributes.
pub(crate) fn pad_1(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let name = if a.opset < 2 { "paddings" } else { "pads" };
    let pads = a.ints(name)?.ok_or_else(|| format!("attribute `{name}` is missing"))?;
    Ok(Box::new(Pad { mode: mode(a)?, fixed: Some((pads, a.float_or("value", 0.0)?)) }))
}

pub(crate) fn pad(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Pad { mode: mode(a)?, fixed: None }))
}
