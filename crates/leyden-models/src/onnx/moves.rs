//! Nodes that move values without computing, and `Shape`.

use super::eval::Eval;
use super::layout::{Layout, axis_of, count};
use super::nums::{Kind, Nums};
use super::value::Value;
use leyden_tensor::OnnxNode;
use std::sync::Arc;

impl Eval<'_> {
    fn shape(&self, value: Option<&Value>) -> Result<Vec<usize>, String> {
        Ok(match value {
            Some(Value::Nums(nums)) => nums.shape.clone(),
            Some(Value::Weight(weight)) => weight.shape(),
            Some(Value::Text(text) | Value::Codes(text) | Value::IntProduct(text, ..)) => text.shape.clone(),
            Some(Value::Quantised(inner)) => return self.shape(Some(inner)),
            _ => return Err("needs a shape, but the input has none".to_owned()),
        })
    }

    /// Returns a node's axes, which are an input in newer opsets and an attribute in older ones.
    pub(super) fn axes(&self, node: &OnnxNode, input: Option<&Value>) -> Result<Option<Vec<i64>>, String> {
        match self.opt_nums(input)? {
            Some(nums) => Ok(Some(nums.to_ints())),
            None => Ok(node.ints("axes").map(<[i64]>::to_vec)),
        }
    }

    /// Traces a node that moves values; `None` for other operations.
    pub(super) fn moves(&mut self, node: &OnnxNode, inputs: &[Value]) -> Result<Option<Value>, String> {
        let Some(first) = inputs.first() else { return Ok(None) };
        let second = inputs.get(1);
        let shape = || self.shape(Some(first));
        let layout = match node.op.as_str() {
            "Shape" => return self.shape_of(node, first).map(Some),
            "Reshape" => {
                let keeps_zeros = node.int("allowzero").unwrap_or(0) != 0;
                Layout::reshape(&shape()?, &self.nums(second)?.to_ints(), keeps_zeros)?
            }
            "Flatten" => {
                let shape = shape()?;
                let axis = node.int("axis").unwrap_or(1);
                let at = if axis == shape.len() as i64 { shape.len() } else { axis_of(axis, shape.len())? };
                let sides = [count(&shape[..at])?, count(&shape[at..])?].map(|n| n as i64);
                Layout::reshape(&shape, &sides, true)?
            }
            "Transpose" => {
                if let Value::Weight(weight) = first
                    && weight.stored.len() == 2
                    && node.ints("perm").is_none_or(|perm| perm == [1, 0])
                {
                    return Ok(Some(Value::Weight(weight.transpose())));
                }
                let shape = shape()?;
                let reversed = || (0..shape.len() as i64).rev().collect();
                Layout::transpose(&shape, &node.ints("perm").map_or_else(reversed, <[i64]>::to_vec))?
            }
            "Unsqueeze" => {
                let axes = self.axes(node, second)?.ok_or("lacks axes")?;
                Layout::unsqueeze(&shape()?, &axes)?
            }
            "Squeeze" => Layout::squeeze(&shape()?, self.axes(node, second)?.as_deref())?,
            "Expand" => Layout::expand(&shape()?, &self.nums(second)?.to_shape()?)?,
            "Slice" => {
                let shape = shape()?;
                let part = |i: usize| self.opt_nums(inputs.get(i)).map(|n| n.map(|n| n.to_ints()));
                let starts = part(1)?.ok_or("lacks where it starts")?;
                let ends = part(2)?.ok_or("lacks where it ends")?;
                let axes = part(3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
                let steps = part(4)?.unwrap_or_else(|| vec![1; starts.len()]);
                Layout::slice(&shape, &axes, [&starts, &ends, &steps])?
            }
            "Gather" => {
                let (axis, at) = (node.int("axis").unwrap_or(0), self.nums(second)?);
                if let Value::Weight(table) = first
                    && let [_, columns] = table.shape()[..]
                    && axis == 0
                {
                    return self.rows(table, &at, columns).map(Some);
                }
                Layout::gather(&shape()?, axis, (&at.to_ints(), &at.shape))?
            }
            _ => return Ok(None),
        };
        self.moved(first, &layout).map(Some)
    }

    fn shape_of(&self, node: &OnnxNode, of: &Value) -> Result<Value, String> {
        let shape = self.shape(Some(of))?;
        let rank = shape.len() as i64;
        let bound = |at: i64| (if at < 0 { at.saturating_add(rank) } else { at }).clamp(0, rank) as usize;
        let (start, end) = (bound(node.int("start").unwrap_or(0)), bound(node.int("end").unwrap_or(rank)));
        let part = shape.get(start..end).unwrap_or_default();
        let data = part.iter().map(|n| *n as f64).collect();
        Ok(Value::Nums(Arc::new(Nums { kind: Kind::Int, shape: vec![part.len()], data })))
    }
}
