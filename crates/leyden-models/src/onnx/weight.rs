//! [`Weight`]: tensor of weights in a graph, and its form in the file.

use super::nums::{Kind, Nums};
use leyden_tensor::{DType, FileBytes, Onnx, TensorView, quant};
use std::sync::Arc;

/// Location of the stored values.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// Initialiser of this name.
    Initialiser(Arc<str>),
    /// Value of a `Constant` node.
    Constant(FileBytes),
    /// Folded constants.
    Known(Arc<Nums>),
}

/// Quantisation of integers: they stand for `(q - zero) * scale`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Grid {
    /// Axis of the stored shape along which scales differ, unless there is one scale.
    pub(super) axis: Option<usize>,
    pub(super) scales: Vec<f32>,
    /// Zero point of each scale; empty if they are 0.
    pub(super) zeros: Vec<f32>,
}

/// Tensor of weights.
#[derive(Clone, Debug)]
pub(super) struct Weight {
    pub(super) name: Arc<str>,
    pub(super) place: Place,
    pub(super) type_name: &'static str,
    /// Shape as stored; for a part, the shape of the part.
    pub(super) stored: Vec<usize>,
    /// True if the graph uses the stored matrix transposed.
    pub(super) transposed: bool,
    pub(super) grid: Option<Grid>,
    /// First column and number of columns of the stored matrix, for a part that has some of its columns.
    pub(super) part: Option<[usize; 2]>,
}

/// Maximum number of values of a weight that is used as constants.
const MAX_CONSTANTS: usize = 1 << 16;

/// Names of integer types.
const INTEGERS: [&str; 3] = ["I8", "U8", "I32"];
/// Names of floating-point types.
const FLOATS: [(&str, DType); 3] = [("F32", DType::F32), ("F16", DType::F16), ("BF16", DType::BF16)];

impl Weight {
    /// Returns folded constants as a weight.
    pub(super) fn known(name: &str, nums: &Arc<Nums>) -> Weight {
        Weight {
            name: name.into(),
            place: Place::Known(Arc::clone(nums)),
            type_name: "F32",
            stored: nums.shape.clone(),
            transposed: false,
            grid: None,
            part: None,
        }
    }

    /// Returns `n` columns of a stored matrix, from `first` on.
    pub(super) fn columns(&self, first: usize, n: usize) -> Result<Weight, String> {
        match (&self.stored[..], self.transposed, &self.part, &self.place) {
            (&[rows, all], false, None, Place::Initialiser(_) | Place::Constant(_))
                if first.checked_add(n).is_some_and(|end| end <= all) =>
            {
                Ok(Weight { stored: vec![rows, n], part: Some([first, all]), ..self.clone() })
            }
            _ => Err(format!("takes columns of `{}`, which is no matrix of the file", self.name)),
        }
    }

    /// Returns `n` values of a vector, from `first` on.
    pub(super) fn values_from(&self, onnx: &Onnx, first: usize, n: usize) -> Result<Weight, String> {
        let all = self.to_nums(onnx)?;
        let data = all.data.get(first..first + n).ok_or("takes values beyond the end of its input")?.to_vec();
        Ok(Weight::known(&self.name, &Arc::new(Nums { kind: Kind::Float, shape: vec![n], data })))
    }

    /// Returns true if it may be used as constants.
    pub(super) fn is_small(&self) -> bool {
        super::layout::count(&self.stored).is_ok_and(|n| n <= MAX_CONSTANTS)
    }

    /// Returns true if it has integers without scales.
    pub(super) fn is_codes(&self) -> bool {
        INTEGERS.contains(&self.type_name) && self.grid.is_none()
    }

    /// Returns true if it has floats, or integers with scales.
    pub(super) fn is_floats(&self) -> bool {
        self.grid.is_some() || FLOATS.iter().any(|row| row.0 == self.type_name)
    }

    /// Returns the shape in the graph.
    pub(super) fn shape(&self) -> Vec<usize> {
        let mut shape = self.stored.clone();
        if self.transposed {
            shape.reverse();
        }
        shape
    }

    /// Returns the transposed weight.
    pub(super) fn transpose(&self) -> Weight {
        Weight { transposed: !self.transposed, ..self.clone() }
    }

    /// Returns integers with scales along `axis` of the shape in the graph, or with one scale.
    pub(super) fn on_grid(&self, scales: &Nums, zeros: Option<&Nums>, axis: i64) -> Result<Weight, String> {
        if !self.is_codes() || self.part.is_some() {
            return Err("scales values that are not integers, or already scaled".to_owned());
        }
        let shape = self.shape();
        let axis = match scales.data.len() {
            1 => None,
            n => {
                // If scales have the rank of the weights, their shape gives the axis.
                let own = |i: &usize| scales.shape[*i] == n && scales.shape.len() == shape.len();
                let axis = match (0..scales.shape.len()).find(own).filter(|_| shape.len() > 1) {
                    Some(axis) => axis,
                    None if scales.shape.len() == 1 => super::layout::axis_of(axis, shape.len())?,
                    None => return Err(format!("has scales of shape {:?}", scales.shape)),
                };
                if shape[axis] != n {
                    return Err(format!("has {n} scales for {} values of axis {axis}", shape[axis]));
                }
                Some(if self.transposed { shape.len() - 1 - axis } else { axis })
            }
        };
        let zeros = match zeros {
            None => Vec::new(),
            Some(zeros) => match zeros.data.len() {
                n if n == scales.data.len() => zeros.data.iter().map(|z| *z as f32).collect(),
                1 => vec![zeros.data[0] as f32; scales.data.len()],
                n => return Err(format!("has {n} zero points for {} scales", scales.data.len())),
            },
        };
        let scales: Vec<f32> = scales.data.iter().map(|x| *x as f32).collect();
        if !scales.iter().all(|x| x.is_finite()) {
            return Err("has a scale that is not a finite number".to_owned());
        }
        Ok(Weight { grid: Some(Grid { axis, scales, zeros }), ..self.clone() })
    }

    fn bytes<'a>(&'a self, onnx: &'a Onnx) -> &'a [u8] {
        match &self.place {
            Place::Initialiser(name) => onnx.raw(name).map_or(&[], |(_, bytes)| bytes),
            Place::Constant(bytes) => bytes.as_slice(),
            Place::Known(_) => &[],
        }
    }

    /// Returns the tensor in the file, if the graph uses it in its stored form.
    pub(super) fn view<'a>(&'a self, onnx: &'a Onnx) -> Option<TensorView<'a>> {
        let dtype = FLOATS.iter().find(|row| row.0 == self.type_name)?.1;
        if self.transposed || self.part.is_some() || matches!(self.place, Place::Known(_)) {
            return None;
        }
        TensorView::new(&self.name, dtype, &self.stored, self.bytes(onnx)).ok()
    }

    /// Returns all values, dequantised, in their stored order.
    fn stored_values(&self, onnx: &Onnx) -> Vec<f32> {
        if let Place::Known(nums) = &self.place {
            return nums.data.iter().map(|x| *x as f32).collect();
        }
        let bytes = self.bytes(onnx);
        let mut values: Vec<f32> = match self.type_name {
            "I8" => bytes.iter().map(|b| f32::from(b.cast_signed())).collect(),
            "U8" => bytes.iter().map(|b| f32::from(*b)).collect(),
            "I32" => bytes.as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b) as f32).collect(),
            name => {
                let dtype = FLOATS.iter().find(|row| row.0 == name).map_or(DType::F32, |row| row.1);
                let mut values = vec![0.0; bytes.len() / dtype.block_bytes()];
                quant::decode_row(dtype, bytes, &mut values);
                values
            }
        };
        if let Some(grid) = &self.grid {
            let whole = self.whole();
            let inner: usize = grid.axis.map_or(1, |axis| whole[axis + 1..].iter().product());
            let of = |i: usize| (i / inner.max(1)) % grid.scales.len().max(1);
            for (i, value) in values.iter_mut().enumerate() {
                let group = if grid.axis.is_some() { of(i) } else { 0 };
                *value = (*value - grid.zeros.get(group).unwrap_or(&0.0)) * grid.scales[group];
            }
        }
        match (self.part, &self.stored[..]) {
            (Some([first, all]), &[_, n]) => values
                .chunks_exact(all.max(1))
                .flat_map(|row| row[first..first + n].iter().copied())
                .collect(),
            _ => values,
        }
    }

    /// Returns the shape of the whole stored tensor.
    fn whole(&self) -> Vec<usize> {
        match (self.part, &self.stored[..]) {
            (Some([_, all]), &[rows, _]) => vec![rows, all],
            _ => self.stored.clone(),
        }
    }

    /// Returns all values, dequantised, in the order of the graph.
    pub(super) fn values(&self, onnx: &Onnx) -> Vec<f32> {
        let stored = self.stored_values(onnx);
        let [rows, columns] = self.stored[..] else { return stored };
        if !self.transposed {
            return stored;
        }
        let mut out = Vec::with_capacity(stored.len());
        for column in 0..columns {
            out.extend((0..rows).filter_map(|row| stored.get(row * columns + column)));
        }
        out
    }

    /// Returns the first row of a small table.
    pub(super) fn first_row(&self, onnx: &Onnx) -> Result<Weight, String> {
        let all = self.to_nums(onnx)?;
        let columns = all.shape.last().copied().unwrap_or(0);
        let data = all.data.iter().take(columns).copied().collect();
        Ok(Weight::known(&self.name, &Arc::new(Nums { kind: Kind::Float, shape: vec![1, columns], data })))
    }

    /// Returns the bytes of a transposed matrix of floats in the order of the graph; `None` for other weights.
    pub(super) fn transposed_bytes(&self, onnx: &Onnx) -> Option<(DType, Vec<u8>)> {
        let dtype = FLOATS.iter().find(|row| row.0 == self.type_name)?.1;
        let [rows, columns] = self.stored[..] else { return None };
        if !self.transposed || matches!(self.place, Place::Known(_)) {
            return None;
        }
        let (bytes, size) = (self.bytes(onnx), dtype.block_bytes());
        let [first, all] = self.part.unwrap_or([0, columns]);
        let mut out = Vec::with_capacity(rows * columns * size);
        for column in first..first + columns {
            out.extend(
                (0..rows)
                    .filter_map(|row| bytes.get((row * all + column) * size..))
                    .flat_map(|value| value.iter().take(size)),
            );
        }
        Some((dtype, out))
    }

    /// Returns the values as constants, if there are few.
    pub(super) fn to_nums(&self, onnx: &Onnx) -> Result<Nums, String> {
        if !self.is_small() {
            return Err(format!("computes with the {:?} values of `{}`", self.stored, self.name));
        }
        let data = self.values(onnx).into_iter().map(f64::from).collect();
        let kind = if self.is_codes() { Kind::Int } else { Kind::Float };
        Ok(Nums { kind, shape: self.shape(), data })
    }
}
