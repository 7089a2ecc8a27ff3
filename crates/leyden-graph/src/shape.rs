//! Shapes: sizes of dimensions, outermost first; tensors are contiguous in this order.

use crate::error::Error;
use smallvec::SmallVec;

/// Sizes of a tensor's dimensions, outermost first.
pub type Shape = SmallVec<[usize; 6]>;

/// Maximum number of dimensions.
pub(crate) const MAX_RANK: usize = 16;

/// Returns the number of elements.
///
/// # Errors
/// The number exceeds 2^48, or there are too many dimensions.
pub(crate) fn elements(shape: &[usize]) -> Result<usize, Error> {
    if shape.len() > MAX_RANK {
        return Err(format!("{} dimensions; at most {MAX_RANK} are supported", shape.len()).into());
    }
    if shape.contains(&0) {
        return Ok(0);
    }
    let n = shape.iter().try_fold(1_usize, |n, &d| n.checked_mul(d)).filter(|n| *n <= 1 << 48);
    n.ok_or_else(|| format!("shape {shape:?} is too large").into())
}

/// Returns the number of elements of part of a checked shape.
pub(crate) fn product(dims: &[usize]) -> usize {
    dims.iter().product()
}

/// Returns an axis counted from the front; `axis` may count from the back.
pub(crate) fn axis(axis: i64, rank: usize) -> Result<usize, Error> {
    let n = rank as i64;
    if axis < -n || axis >= n {
        return Err(format!("axis {axis} is outside the {rank} dimensions").into());
    }
    Ok(if axis < 0 { axis + n } else { axis } as usize)
}

/// Returns axes counted from the front, sorted.
///
/// # Errors
/// An axis is out of range or given twice.
pub(crate) fn axes(list: &[i64], rank: usize) -> Result<SmallVec<[usize; 6]>, Error> {
    let mut found = list.iter().map(|a| axis(*a, rank)).collect::<Result<SmallVec<[usize; 6]>, _>>()?;
    found.sort_unstable();
    if found.windows(2).any(|w| w[0] == w[1]) {
        return Err(format!("axes {list:?} name a dimension twice").into());
    }
    Ok(found)
}

/// Returns the shape of the broadcast of two shapes: aligned at the end, sizes are equal or one of them is 1.
pub(crate) fn broadcast(a: &[usize], b: &[usize]) -> Result<Shape, Error> {
    let rank = a.len().max(b.len());
    let at = |s: &[usize], i: usize| if i + s.len() >= rank { s[i + s.len() - rank] } else { 1 };
    let dims = (0..rank).map(|i| match (at(a, i), at(b, i)) {
        (x, y) if x == y => Ok(x),
        (1, y) => Ok(y),
        (x, 1) => Ok(x),
        _ => Err(Error::invalid(format!("shapes {a:?} and {b:?} cannot be broadcast"))),
    });
    dims.collect()
}

/// Returns the strides of a contiguous tensor, in elements.
pub(crate) fn strides(shape: &[usize]) -> Shape {
    let mut strides: Shape = SmallVec::from_elem(1, shape.len());
    for i in (0..shape.len().saturating_sub(1)).rev() {
        strides[i] = strides[i + 1] * shape[i + 1];
    }
    strides
}

/// Returns the strides with which a tensor of `shape` is read as one of the broadcast shape `to`.
pub(crate) fn broadcast_strides(shape: &[usize], to: &[usize]) -> Shape {
    let own = strides(shape);
    let missing = to.len() - shape.len();
    (0..to.len()).map(|i| if i < missing || shape[i - missing] == 1 { 0 } else { own[i - missing] }).collect()
}

/// Calls `f(offset)` with the offset of each row (the last dimension left out) of a strided view, in order.
pub(crate) fn for_offsets<const N: usize>(
    shape: &[usize],
    strides: [&[usize]; N],
    mut f: impl FnMut([usize; N]),
) {
    if shape.contains(&0) {
        return;
    }
    let mut index: Shape = SmallVec::from_elem(0, shape.len());
    let mut at = [0_usize; N];
    loop {
        f(at);
        let mut dim = shape.len();
        loop {
            if dim == 0 {
                return;
            }
            dim -= 1;
            index[dim] += 1;
            for n in 0..N {
                at[n] += strides[n][dim];
            }
            if index[dim] < shape[dim] {
                break;
            }
            for n in 0..N {
                at[n] -= strides[n][dim] * shape[dim];
            }
            index[dim] = 0;
        }
    }
}

/// Returns a size that is given as an integer.
pub(crate) fn size(n: i64) -> Result<usize, Error> {
    usize::try_from(n).map_err(|_| format!("size {n} is negative").into())
}
