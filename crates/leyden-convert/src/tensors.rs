//! Writes the tensors of a folder's file, dense or sparse.

use crate::error::Error;
use crate::safetensors::{Place, Writer, name};
use leyden_models::{FolderTensor, ToFolder};
use leyden_tensor::{
    DType, HfQuantised, Json, Safetensors, SparseTensor, SparseValues, quant, run_sequentially,
};
use serde_json::json;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Type of the values of sparse matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sparse {
    /// The float type that the matrix has.
    Float,
    /// 8-bit integers with one scale for each row.
    Int8,
    /// 4-bit integers with a scale for each 128 columns.
    Int4,
}

/// Form of the tensors of a folder.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Form {
    /// Type of all dense matrices, if not their own.
    pub(crate) dtype: Option<DType>,
    /// Type of the values of sparse matrices, if there are to be some.
    pub(crate) sparse: Option<Sparse>,
}

/// Share of the dense size up to which a matrix is stored sparse.
const WORTHWHILE: f64 = 0.9;
/// Share of zeros from which it is tried.
const MIN_ZEROS: f64 = 0.2;
/// Bytes that are copied at a time.
const COPY: usize = 1 << 20;

/// Returns the `quantization_config` of a folder with sparse matrices.
pub(crate) fn description() -> serde_json::Value {
    json!({ "quant_method": "leyden-sparse", "version": 1 })
}

/// Describes a tensor as it is written dense.
pub(crate) fn place(tensor: &FolderTensor, form: Form) -> (Place, DType) {
    let to = tensor.written_as(form.dtype);
    let rows = tensor.shape.iter().rev().skip(1).product::<usize>();
    let bytes = to.row_bytes(tensor.shape.last().copied().unwrap_or(1)).unwrap_or(0) * rows;
    (Place { name: tensor.name.clone(), type_name: name(to), shape: tensor.shape.clone(), bytes }, to)
}

/// Writes these tensors to one file. Returns the bytes that they take, and calls `report` with the bytes of each tensor in
/// its dense form.
pub(crate) fn write(
    path: &Path,
    model: &ToFolder<'_>,
    tensors: &[&FolderTensor],
    form: Form,
    report: &mut dyn FnMut(usize) -> Result<(), Error>,
) -> Result<usize, Error> {
    let Some(sparse) = form.sparse else {
        let places: Vec<_> = tensors.iter().map(|tensor| place(tensor, form)).collect();
        let all: Vec<Place> = places.iter().map(|place| place.0.clone()).collect();
        let mut writer = Writer::create(path, &all)?;
        for (tensor, (place, to)) in tensors.iter().zip(&places) {
            writer.write(&model.values(tensor, *to)?)?;
            report(place.bytes)?;
        }
        writer.finish()?;
        return Ok(all.iter().map(|place| place.bytes).sum());
    };
    // Sizes are known only after encoding, so the data is written first, to a file of its own.
    let data = path.with_extension("data");
    let mut writer = Writer::empty(&data)?;
    let mut places: Vec<Place> = Vec::new();
    for tensor in tensors {
        let (place, to) = place(tensor, form);
        let dense = place.bytes;
        match encoded(model, tensor, sparse, (to, dense))? {
            Some(found) => {
                let stem = tensor.name.strip_suffix(".weight").unwrap_or(&tensor.name);
                for part in found.parts(stem) {
                    writer.write(&part.bytes)?;
                    let (name, bytes) = (part.name, part.bytes.len());
                    places.push(Place { name, type_name: part.type_name, shape: part.shape, bytes });
                }
            }
            None => {
                writer.write(&model.values(tensor, to)?)?;
                places.push(place);
            }
        }
        report(dense)?;
    }
    writer.finish()?;
    let mut writer = Writer::create(path, &places)?;
    let failed = |error: std::io::Error| Error::unlike(&data, format!("cannot read: {error}"));
    let mut from = File::open(&data).map_err(failed)?;
    let mut piece = vec![0; COPY];
    loop {
        match from.read(&mut piece).map_err(failed)? {
            0 => break,
            n => writer.write(&piece[..n])?,
        }
    }
    writer.finish()?;
    std::fs::remove_file(&data).map_err(failed)?;
    read_back(path, tensors)?;
    Ok(places.iter().map(|place| place.bytes).sum())
}

/// Encodes a matrix if that makes it smaller.
fn encoded(
    model: &ToFolder<'_>,
    tensor: &FolderTensor,
    sparse: Sparse,
    (to, dense): (DType, usize),
) -> Result<Option<SparseTensor>, Error> {
    let (true, &[rows, k]) = (tensor.is_layer_matrix(), &tensor.shape[..]) else { return Ok(None) };
    let mut weights = vec![0.0_f32; rows * k];
    quant::decode_row(DType::F32, &model.values(tensor, DType::F32)?, &mut weights);
    let zeros = weights.iter().filter(|w| **w == 0.0).count();
    if (zeros as f64) < MIN_ZEROS * weights.len() as f64 || !weights.iter().all(|w| w.is_finite()) {
        return Ok(None);
    }
    let values = match sparse {
        Sparse::Float => SparseValues::Float(to),
        Sparse::Int8 => SparseValues::Int8,
        Sparse::Int4 => SparseValues::Int4,
    };
    let made = SparseTensor::encode(&weights, [rows, k], values);
    Ok(made.filter(|made| made.bytes() as f64 <= WORTHWHILE * dense as f64))
}

/// Reads every sparse matrix of a file back.
fn read_back(path: &Path, tensors: &[&FolderTensor]) -> Result<(), Error> {
    let file = Safetensors::open(path)?;
    let text = json!({ "quantization_config": description() }).to_string();
    let Some(method) = HfQuantised::of(&Json::parse(text.as_bytes(), "config.json")?)? else { return Ok(()) };
    for tensor in tensors.iter().filter(|tensor| method.holds(&file, &tensor.name)) {
        method.compose(
            &file,
            &tensor.name,
            std::slice::from_ref(&tensor.name),
            &tensor.shape,
            &run_sequentially,
        )?;
    }
    Ok(())
}
