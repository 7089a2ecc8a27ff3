//! [`Nums`]: constants of a graph, such as shapes, positions, masks and factors.

use super::layout::{Layout, broadcast, count};

/// Kind of a tensor's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Float,
    Int,
    Bool,
}

/// Tensor of constants. Integers in graphs are sizes and positions, which `f64` holds exactly; larger bounds saturate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Nums {
    pub(super) kind: Kind,
    pub(super) shape: Vec<usize>,
    pub(super) data: Vec<f64>,
}

impl Nums {
    pub(super) fn ints(shape: &[usize], data: impl IntoIterator<Item = usize>) -> Nums {
        let data = data.into_iter().map(|n| n as f64).collect();
        Nums { kind: Kind::Int, shape: shape.to_vec(), data }
    }

    /// Returns a tensor filled with one number.
    pub(super) fn filled(kind: Kind, shape: &[usize], value: f64) -> Result<Nums, String> {
        Ok(Nums { kind, shape: shape.to_vec(), data: vec![value; count(shape)?] })
    }

    /// Returns the number of a tensor with one value.
    pub(super) fn one(&self) -> Option<f64> {
        match self.data[..] {
            [one] => Some(one),
            _ => None,
        }
    }

    /// Returns the common number, if all are equal.
    pub(super) fn same(&self) -> Option<f64> {
        let first = *self.data.first()?;
        self.data.iter().all(|x| *x == first).then_some(first)
    }

    pub(super) fn to_ints(&self) -> Vec<i64> {
        self.data.iter().map(|x| *x as i64).collect()
    }

    /// Converts the numbers to a shape.
    pub(super) fn to_shape(&self) -> Result<Vec<usize>, String> {
        let size = |n: i64| usize::try_from(n).map_err(|_| format!("has the size {n}"));
        self.to_ints().into_iter().map(size).collect()
    }

    pub(super) fn moved(&self, layout: &Layout) -> Result<Nums, String> {
        Ok(Nums { kind: self.kind, shape: layout.shape.clone(), data: layout.apply(&self.data)? })
    }

    pub(super) fn map(&self, kind: Kind, f: impl Fn(f64) -> f64) -> Nums {
        Nums { kind, shape: self.shape.clone(), data: self.data.iter().map(|x| f(*x)).collect() }
    }

    /// Converts to another kind.
    pub(super) fn cast(&self, kind: Kind) -> Nums {
        self.map(kind, |x| match kind {
            Kind::Float => x,
            Kind::Int => x.trunc(),
            Kind::Bool => f64::from(x != 0.0),
        })
    }

    /// Applies a binary function to two tensors, broadcast to a common shape.
    pub(super) fn zip(&self, kind: Kind, b: &Nums, f: impl Fn(f64, f64) -> f64) -> Result<Nums, String> {
        let shape = broadcast(&self.shape, &b.shape)?;
        let [a, b] = [self, b].map(|x| x.moved(&Layout::expand(&x.shape, &shape)?));
        let (a, b) = (a?, b?);
        let data = a.data.iter().zip(&b.data).map(|(a, b)| f(*a, *b)).collect();
        Ok(Nums { kind, shape, data })
    }

    /// Concatenates tensors along an axis.
    pub(super) fn concat(parts: &[&Nums], axis: usize) -> Result<Nums, String> {
        let [first, ..] = parts else { return Err("joins nothing".to_owned()) };
        let mut shape = first.shape.clone();
        let unlike = |x: &&&Nums| {
            x.shape.len() != shape.len()
                || x.shape.iter().zip(&shape).enumerate().any(|(i, (a, b))| i != axis && a != b)
        };
        if axis >= shape.len() || parts.iter().any(|x| unlike(&x)) {
            return Err("joins tensors of shapes that do not fit each other".to_owned());
        }
        shape[axis] = parts.iter().fold(0, |n, x| n + x.shape[axis]);
        count(&shape)?;
        let outer = count(&shape[..axis])?;
        let mut data = Vec::new();
        for o in 0..outer {
            for part in parts {
                let n = part.data.len() / outer.max(1);
                data.extend_from_slice(&part.data[o * n..(o + 1) * n]);
            }
        }
        Ok(Nums { kind: first.kind, shape, data })
    }
}
