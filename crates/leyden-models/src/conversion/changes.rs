//! [`Change`]: change of a tensor's layout between folders and GGUF.

use leyden_tensor::{DType, TensorView, quant};

/// Change of a folder's tensor on the way to GGUF.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    /// No change.
    Keep,
    /// Rows of Q or K permuted per head: rows of the first and second half alternate, so that the two values of a
    /// RoPE pair are adjacent.
    PairRows {
        /// Number of rows per head.
        head: usize,
    },
    /// Rows of a fused QKV matrix that are grouped by KV head, reordered to all queries, all keys, all values.
    Ungroup {
        /// Number of groups.
        groups: usize,
        /// Numbers of rows of Q, K and V in all groups.
        rows: [usize; 3],
    },
    /// Transposition.
    Transpose,
    /// Addition of a number to each value.
    Add(f32),
    /// Removal of the rows before the first position's.
    DropRows(usize),
    /// First or second half of the rows.
    Half {
        /// True for the second half.
        second: bool,
    },
}

impl Change {
    /// Returns the shape after the change.
    pub(super) fn shape(&self, shape: &[usize]) -> Vec<usize> {
        let mut shape = shape.to_vec();
        match self {
            Change::Transpose => shape.reverse(),
            Change::Half { .. } => shape[0] /= 2,
            Change::DropRows(count) => shape[0] = shape[0].saturating_sub(*count),
            _ => {}
        }
        shape
    }

    /// Applies the change to a tensor of this shape in a float type, and returns the changed values.
    pub(super) fn apply(&self, dtype: DType, shape: &[usize], bytes: Vec<u8>) -> Vec<u8> {
        let rows = shape.first().copied().unwrap_or(1).max(1);
        let row = bytes.len() / rows;
        match *self {
            Change::Keep => bytes,
            Change::PairRows { head } => rows_in(&bytes, row, paired(rows, head)),
            Change::Ungroup { groups, rows } => rows_in(&bytes, row, ungrouped(groups, rows)),
            Change::Transpose => {
                let columns = shape.last().copied().unwrap_or(1).max(1);
                let size = row / columns;
                let values = (0..columns).flat_map(|c| (0..rows).map(move |r| r * columns + c));
                rows_in(&bytes, size, values)
            }
            Change::Add(number) => {
                let mut values = vec![0.0; shape.iter().product()];
                quant::decode_row(dtype, &bytes, &mut values);
                values.iter_mut().for_each(|value| *value += number);
                let mut out = vec![0; bytes.len()];
                quant::encode_row(dtype, &values, &mut out);
                out
            }
            Change::DropRows(count) => bytes[(count.min(rows) * row)..].to_vec(),
            Change::Half { second } => {
                let half = bytes.len() / 2;
                if second { bytes[half..].to_vec() } else { bytes[..half].to_vec() }
            }
        }
    }
    /// Reverts the change, and returns the values of a tensor that has this shape without it.
    pub(super) fn back(&self, dtype: DType, shape: &[usize], bytes: Vec<u8>) -> Vec<u8> {
        let rows = shape.first().copied().unwrap_or(1).max(1);
        match *self {
            Change::Keep | Change::Half { .. } => bytes,
            Change::PairRows { head } => rows_back(&bytes, rows, paired(rows, head)),
            Change::Ungroup { groups, rows: each } => rows_back(&bytes, rows, ungrouped(groups, each)),
            Change::Transpose => {
                let shape: Vec<usize> = shape.iter().rev().copied().collect();
                Change::Transpose.apply(dtype, &shape, bytes)
            }
            Change::Add(number) => Change::Add(-number).apply(dtype, shape, bytes),
            // These positions never occur.
            Change::DropRows(count) => {
                let row = bytes.len() / rows.saturating_sub(count).max(1);
                let mut out = vec![0; count * row];
                out.extend(bytes);
                out
            }
        }
    }
}

/// Returns the rows in the order before they were reordered by `order`.
fn rows_back(bytes: &[u8], rows: usize, order: impl Iterator<Item = usize>) -> Vec<u8> {
    let row = bytes.len() / rows.max(1);
    let mut out = vec![0; bytes.len()];
    for (from, to) in order.enumerate() {
        out[to * row..(to + 1) * row].copy_from_slice(&bytes[from * row..(from + 1) * row]);
    }
    out
}

fn rows_in(bytes: &[u8], row: usize, order: impl Iterator<Item = usize>) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    order.for_each(|from| out.extend_from_slice(&bytes[from * row..(from + 1) * row]));
    out
}

/// Returns the source row of each row for [`Change::PairRows`].
fn paired(rows: usize, head: usize) -> impl Iterator<Item = usize> {
    let head = head.max(2);
    (0..rows).map(move |at| at / head * head + at % head / 2 + at % 2 * (head / 2))
}

/// Returns the source row of each row for [`Change::Ungroup`].
fn ungrouped(groups: usize, rows: [usize; 3]) -> impl Iterator<Item = usize> {
    let each = rows.map(|rows| rows / groups.max(1));
    let group: usize = each.iter().sum();
    (0..3).flat_map(move |part| {
        let before: usize = each[..part].iter().sum();
        (0..groups).flat_map(move |g| (0..each[part]).map(move |r| g * group + before + r))
    })
}

/// Converts a tensor's values to a float type; copies them if they already have it.
pub(super) fn cast(view: &TensorView<'_>, to: DType) -> Vec<u8> {
    if view.dtype() == to {
        return view.bytes().to_vec();
    }
    let row_bytes = to.row_bytes(view.cols()).unwrap_or(0);
    let mut bytes = vec![0; row_bytes * view.rows()];
    let mut row = vec![0.0; view.cols()];
    for (i, out) in bytes.chunks_exact_mut(row_bytes.max(1)).enumerate() {
        quant::decode_row(view.dtype(), view.row(i), &mut row);
        quant::encode_row(to, &row, out);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_put_in_order() {
        let rows: Vec<u8> = (0..8).collect();
        let changed = |change: Change, shape: &[usize]| change.apply(DType::F16, shape, rows.clone());
        assert_eq!(changed(Change::PairRows { head: 4 }, &[8, 1]), [0, 2, 1, 3, 4, 6, 5, 7]);
        let qkv = Change::Ungroup { groups: 2, rows: [4, 2, 2] };
        assert_eq!(changed(qkv, &[8, 1]), [0, 1, 4, 5, 2, 6, 3, 7]);
        assert_eq!(changed(Change::Transpose, &[2, 2]), [0, 1, 4, 5, 2, 3, 6, 7]);
        assert_eq!(changed(Change::Half { second: true }, &[4, 1]), [4, 5, 6, 7]);
        assert_eq!(Change::Half { second: false }.shape(&[6, 2]), [3, 2]);
        assert_eq!(changed(Change::DropRows(5), &[8, 1]), [5, 6, 7]);
        assert_eq!(Change::DropRows(5).shape(&[8, 1]), [3, 1]);
        assert_eq!(Change::DropRows(2).back(DType::F16, &[3, 1], vec![9]), [0, 0, 9]);
    }

    #[test]
    fn changes_are_undone() {
        let values: Vec<u8> = (0..48).collect();
        for (change, shape) in [
            (Change::PairRows { head: 4 }, [8, 3]),
            (Change::Ungroup { groups: 2, rows: [4, 2, 2] }, [8, 3]),
            (Change::Transpose, [4, 6]),
        ] {
            let there = change.apply(DType::F16, &shape, values.clone());
            assert_eq!(change.back(DType::F16, &shape, there), values, "{change:?}");
        }
    }

    #[test]
    fn numbers_are_added() {
        let bytes: Vec<u8> = [0.5_f32, -1.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let added = Change::Add(1.0).apply(DType::F32, &[2], bytes);
        assert_eq!(added, [1.5_f32, 0.0].iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>());
    }
}
