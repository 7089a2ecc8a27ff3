//! [`Layout`]: movement of a tensor's values by reshape, transposition, slice, gather and broadcast.

/// Maximum number of values of a tensor.
pub(super) const MAX_VALUES: usize = 1 << 23;

/// New shape, and the previous index of each value; `None` if the order does not change.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layout {
    pub(super) shape: Vec<usize>,
    pub(super) from: Option<Vec<usize>>,
}

/// Returns the number of values of a shape.
pub(super) fn count(shape: &[usize]) -> Result<usize, String> {
    let n = shape.iter().try_fold(1_usize, |n, &dim| n.checked_mul(dim));
    n.filter(|n| *n <= MAX_VALUES)
        .ok_or_else(|| format!("a tensor of shape {shape:?} is too large to be traced"))
}

/// Resolves an axis, or an index, that counts from the end if negative.
pub(super) fn axis_of(axis: i64, rank: usize) -> Result<usize, String> {
    let from_end = i64::try_from(rank).ok().and_then(|rank| rank.checked_add(axis)).filter(|_| axis < 0);
    let found = usize::try_from(from_end.unwrap_or(axis)).ok().filter(|axis| *axis < rank);
    found.ok_or_else(|| format!("has no axis {axis} in {rank} dimensions"))
}

fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1_usize; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i].saturating_mul(shape[i]);
    }
    strides
}

/// Returns the shape that two shapes broadcast to.
pub(super) fn broadcast(a: &[usize], b: &[usize]) -> Result<Vec<usize>, String> {
    let rank = a.len().max(b.len());
    let dim = |shape: &[usize], i: usize| match (i + shape.len()).checked_sub(rank) {
        Some(at) => shape[at],
        None => 1,
    };
    let join = |i| match (dim(a, i), dim(b, i)) {
        (a, b) if a == b || b == 1 => Ok(a),
        (1, b) => Ok(b),
        _ => Err(format!("shapes {a:?} and {b:?} do not fit each other")),
    };
    (0..rank).map(join).collect()
}

impl Layout {
    /// Returns a layout with the same values in the same order.
    fn same_order(shape: Vec<usize>) -> Layout {
        Layout { shape, from: None }
    }

    /// Returns a layout of the values at `offset` plus multiples of `steps` along each axis.
    fn strided(shape: Vec<usize>, offset: usize, steps: &[isize]) -> Result<Layout, String> {
        let mut from = Vec::with_capacity(count(&shape)?);
        let mut at = vec![0_usize; shape.len()];
        let mut place = offset as isize;
        if !shape.contains(&0) {
            loop {
                from.push(place as usize);
                let Some(axis) = (0..shape.len()).rev().find(|&axis| {
                    at[axis] += 1;
                    place += steps[axis];
                    if at[axis] < shape[axis] {
                        return true;
                    }
                    place -= steps[axis] * shape[axis] as isize;
                    at[axis] = 0;
                    false
                }) else {
                    break;
                };
                debug_assert!(axis < shape.len());
            }
        }
        Ok(Layout { shape, from: Some(from) })
    }

    pub(super) fn reshape(shape: &[usize], target: &[i64], keeps_zeros: bool) -> Result<Layout, String> {
        let all = count(shape)?;
        let unlike = || format!("values of shape {shape:?} do not take the shape {target:?}");
        let mut to = Vec::with_capacity(target.len());
        for (i, &dim) in target.iter().enumerate() {
            to.push(match dim {
                -1 => None,
                0 if !keeps_zeros => Some(*shape.get(i).ok_or_else(unlike)?),
                dim => Some(usize::try_from(dim).map_err(|_| unlike())?),
            });
        }
        let known = to.iter().flatten().try_fold(1_usize, |n, &dim| n.checked_mul(dim)).ok_or_else(unlike)?;
        let free = to.iter().filter(|dim| dim.is_none()).count();
        let rest = if free == 1 && known > 0 && all.is_multiple_of(known) { all / known } else { 1 };
        let to: Vec<usize> = to.into_iter().map(|dim| dim.unwrap_or(rest)).collect();
        if free > 1 || count(&to)? != all {
            return Err(unlike());
        }
        Ok(Layout::same_order(to))
    }

    pub(super) fn transpose(shape: &[usize], perm: &[i64]) -> Result<Layout, String> {
        let axes = perm.iter().map(|&axis| axis_of(axis, shape.len())).collect::<Result<Vec<_>, _>>()?;
        let mut sorted = axes.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..shape.len()) {
            return Err(format!("{perm:?} is no order of {} axes", shape.len()));
        }
        let strides = strides(shape);
        let steps: Vec<isize> = axes.iter().map(|&axis| strides[axis] as isize).collect();
        Layout::strided(axes.iter().map(|&axis| shape[axis]).collect(), 0, &steps)
    }

    pub(super) fn unsqueeze(shape: &[usize], axes: &[i64]) -> Result<Layout, String> {
        let rank = shape.len() + axes.len();
        let mut to = vec![None; rank];
        for &axis in axes {
            to[axis_of(axis, rank)?] = Some(1);
        }
        if to.iter().flatten().count() != axes.len() {
            return Err(format!("names an axis twice: {axes:?}"));
        }
        let mut rest = shape.iter();
        Ok(Layout::same_order(
            to.into_iter().filter_map(|dim| dim.or_else(|| rest.next().copied())).collect(),
        ))
    }

    /// Removes some axes of length 1, or all of them.
    pub(super) fn squeeze(shape: &[usize], axes: Option<&[i64]>) -> Result<Layout, String> {
        let gone = match axes {
            Some(axes) => {
                axes.iter().map(|&axis| axis_of(axis, shape.len())).collect::<Result<Vec<_>, _>>()?
            }
            None => (0..shape.len()).filter(|&i| shape[i] == 1).collect(),
        };
        if let Some(axis) = gone.iter().find(|&&axis| shape[axis] != 1) {
            return Err(format!("axis {axis} of shape {shape:?} has more than one value"));
        }
        Ok(Layout::same_order((0..shape.len()).filter(|i| !gone.contains(i)).map(|i| shape[i]).collect()))
    }

    /// Slices along each of `axes` from `starts` to `ends` with the steps `by`.
    pub(super) fn slice(
        shape: &[usize],
        axes: &[i64],
        [starts, ends, by]: [&[i64]; 3],
    ) -> Result<Layout, String> {
        if axes.len() != starts.len() || axes.len() != ends.len() || axes.len() != by.len() {
            return Err("has bounds of another number than axes".to_owned());
        }
        let strides = strides(shape);
        let (mut to, mut offset) = (shape.to_vec(), 0);
        let mut steps: Vec<isize> = strides.iter().map(|&n| n as isize).collect();
        for (i, &axis) in axes.iter().enumerate() {
            let axis = axis_of(axis, shape.len())?;
            let n = shape[axis] as i64;
            let bound = |at: i64, min: i64, max: i64| {
                (if at < 0 { at.saturating_add(n) } else { at }).clamp(min, max.max(min))
            };
            let (start, len) = match by[i] {
                0 => return Err("has the step 0".to_owned()),
                step if step > 0 => {
                    let (start, end) = (bound(starts[i], 0, n), bound(ends[i], 0, n));
                    (start, ((end - start).max(0) as u64).div_ceil(step.unsigned_abs()))
                }
                step => {
                    let (start, end) = (bound(starts[i], -1, n - 1), bound(ends[i], -1, n - 1));
                    (start, ((start - end).max(0) as u64).div_ceil(step.unsigned_abs()))
                }
            };
            to[axis] = len as usize;
            if len > 0 {
                offset += start as usize * strides[axis];
            }
            steps[axis] = if len > 1 { steps[axis] * by[i] as isize } else { 0 };
        }
        Layout::strided(to, offset, &steps)
    }

    /// Takes the values at `indices`, a tensor of shape `of`, along an axis.
    pub(super) fn gather(
        shape: &[usize],
        axis: i64,
        (indices, of): (&[i64], &[usize]),
    ) -> Result<Layout, String> {
        let axis = axis_of(axis, shape.len())?;
        let at = indices.iter().map(|&i| axis_of(i, shape[axis])).collect::<Result<Vec<_>, _>>()?;
        let inner = count(&shape[axis + 1..])?;
        let outer = count(&shape[..axis])?;
        let to: Vec<usize> = [&shape[..axis], of, &shape[axis + 1..]].concat();
        count(&to)?;
        let place = |o: usize, i: usize| ((o * shape[axis] + i) * inner..).take(inner);
        let from = (0..outer).flat_map(|o| at.iter().flat_map(move |&i| place(o, i))).collect();
        Ok(Layout { shape: to, from: Some(from) })
    }

    pub(super) fn expand(shape: &[usize], target: &[usize]) -> Result<Layout, String> {
        let to = broadcast(shape, target)?;
        if to == shape {
            return Ok(Layout::same_order(to));
        }
        let (strides, missing) = (strides(shape), to.len() - shape.len());
        let step = |i: usize| match i.checked_sub(missing) {
            Some(at) if shape[at] > 1 => strides[at] as isize,
            _ => 0,
        };
        let steps: Vec<isize> = (0..to.len()).map(step).collect();
        Layout::strided(to, 0, &steps)
    }

    /// Returns the values in their new order.
    pub(super) fn apply<T: Clone>(&self, values: &[T]) -> Result<Vec<T>, String> {
        let outside = || "takes values beyond the end of its input".to_owned();
        match &self.from {
            None => Ok(values.to_vec()),
            Some(from) => from.iter().map(|&at| values.get(at).cloned().ok_or_else(outside)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(layout: Result<Layout, String>, n: usize) -> (Vec<usize>, Vec<usize>) {
        let layout = layout.unwrap();
        let all: Vec<usize> = (0..n).collect();
        let values = layout.apply(&all).unwrap();
        assert_eq!(values.len(), count(&layout.shape).unwrap());
        (layout.shape, values)
    }

    #[test]
    fn values_go_where_onnx_puts_them() {
        assert_eq!(moved(Layout::transpose(&[2, 3], &[1, 0]), 6), (vec![3, 2], vec![0, 3, 1, 4, 2, 5]));
        assert_eq!(moved(Layout::reshape(&[2, 3], &[0, -1, 1], false), 6).0, [2, 3, 1]);
        assert_eq!(moved(Layout::unsqueeze(&[2, 3], &[0, -1]), 6).0, [1, 2, 3, 1]);
        assert_eq!(moved(Layout::squeeze(&[1, 2, 1], None), 2).0, [2]);
        let back = Layout::slice(&[2, 3], &[1], [&[-1], &[i64::MIN], &[-1]]);
        assert_eq!(moved(back, 6), (vec![2, 3], vec![2, 1, 0, 5, 4, 3]));
        let first = Layout::slice(&[5], &[0], [&[1], &[i64::MAX], &[3]]);
        assert_eq!(moved(first, 5), (vec![2], vec![1, 4]));
        assert_eq!(moved(Layout::gather(&[2, 3], 1, (&[-1, 0], &[2])), 6), (vec![2, 2], vec![2, 0, 5, 3]));
        assert_eq!(moved(Layout::expand(&[2, 1], &[3, 1, 2]), 2).1, [0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1]);
        assert_eq!(moved(Layout::slice(&[3], &[0], [&[2], &[1], &[1]]), 3), (vec![0], vec![]));
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        for (layout, wanted) in [
            (Layout::reshape(&[2, 3], &[4, -1], false), "do not take the shape"),
            (Layout::reshape(&[2, 3], &[-1, -1], false), "do not take the shape"),
            (Layout::reshape(&[2, 3], &[i64::MIN], false), "do not take the shape"),
            (Layout::transpose(&[2, 3], &[0, 0]), "is no order"),
            (Layout::expand(&[2], &[3]), "do not fit"),
            (Layout::expand(&[1], &[usize::MAX, 2]), "too large"),
            (Layout::gather(&[2], 0, (&[2], &[1])), "has no axis 2"),
            (Layout::slice(&[2], &[0], [&[0], &[1], &[0]]), "the step 0"),
            (Layout::squeeze(&[2], Some(&[0])), "more than one"),
            (Layout::unsqueeze(&[2], &[0, 0]), "twice"),
        ] {
            let error = layout.unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
