//! Checkpoints as `torch.save` writes them (`pytorch_model.bin`, `.pt`): a ZIP archive whose `data.pkl` describes the
//! tensors, and whose entries `data/N` are their bytes.
//!
//! No code of a checkpoint is run: the pickle machine here knows dictionaries, texts and tensors of their own
//! storage, and refuses everything else by name. Bytes stay in the file.

mod error;
mod pickle;
mod zip;

use super::TensorInfo;
use super::limits::MAX_TENSORS;
use super::metadata::Metadata;
use super::safetensors::file_type;
use super::source::Source;
use super::tensors::Parsed;
use crate::error::{Error, ErrorKind};
use crate::tensor_size::TensorSize;
use error::broken;
use pickle::Tensor;
use std::ops::Range;
use std::sync::Arc;
use zip::Archive;

/// Maximum size of the pickle in bytes: some hundred for each tensor.
const MAX_PICKLE_BYTES: usize = 32 << 20;
/// Maximum names for the same bytes: tied matrices have two; more could exceed the size of the file.
const SHARED: usize = 2;

pub(super) fn is_torch(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04")
}

/// Parses a checkpoint; tensors are in the order of their data.
pub(super) fn parse(source: &Arc<Source>) -> Result<Parsed, Error> {
    let bytes = source.bytes();
    let archive = Archive::read(bytes).map_err(|kind| Error::new(kind).item("archive"))?;
    let folder = archive.folder_of("data.pkl").ok_or_else(|| {
        Error::new(broken("has no data.pkl: an archive of something else, not a checkpoint")).item("archive")
    })?;
    let entry = |name: &str| archive.entry(&format!("{folder}{name}"));
    if let Some(order) = entry("byteorder").and_then(|range| bytes.get(range))
        && order != b"little"
    {
        return Err(Error::new(broken("is not `little`")).item("byteorder"));
    }
    let pickle = entry("data.pkl").and_then(|range| bytes.get(range)).unwrap_or_default();
    if pickle.len() > MAX_PICKLE_BYTES {
        return Err(Error::new(broken("is larger than 32 MiB")).item("data.pkl"));
    }
    // Copied, because the bytes of a mapped file can change while they are parsed.
    let pickle = pickle.to_vec();
    let table = pickle::read(&pickle).map_err(|kind| Error::new(kind).item("data.pkl"))?;
    let count = u64::try_from(table.len()).unwrap_or(u64::MAX);
    if count > MAX_TENSORS {
        let kind = ErrorKind::TooMany { what: "number of tensors", count, most: MAX_TENSORS };
        return Err(Error::new(kind).item("data.pkl"));
    }
    let mut tensors = Vec::with_capacity(table.len());
    for (name, tensor) in table {
        let storage = entry(&format!("data/{}", tensor.storage));
        let storage =
            storage.ok_or_else(|| broken(format!("the archive has no data/{}", tensor.storage)).into());
        let placed = storage.and_then(|range| place(&name, &tensor, &range));
        tensors.push(placed.map_err(|e| e.item(&name))?);
    }
    let all = tensors.iter().fold(0_usize, |sum, tensor| sum.saturating_add(tensor.bytes));
    if all > bytes.len().saturating_mul(SHARED) {
        return Err(Error::new(broken("many tensors share the same bytes")).item("data.pkl"));
    }
    tensors.sort_by_key(|tensor| (tensor.offset, tensor.bytes));
    Ok(Parsed { metadata: Metadata::from_entries(Arc::clone(&source.label), Vec::new())?, tensors })
}

/// Returns the description of a tensor in the file, from the range of its storage.
fn place(name: &str, tensor: &Tensor, storage: &Range<usize>) -> Result<TensorInfo, Error> {
    super::gguf::check_name("name", u64::try_from(name.len()).unwrap_or(u64::MAX))?;
    let ty = file_type(tensor.dtype).ok_or_else(|| ErrorKind::UnknownTypeName(tensor.dtype.into()))?;
    let size = TensorSize::new(&tensor.shape.iter().rev().copied(), ty)?;
    let mut step = 1_u64;
    for (&size, &stride) in tensor.shape.iter().zip(&tensor.strides).rev() {
        if size > 1 && stride != step {
            let what = "is not stored row by row: call contiguous() on it before it is saved";
            return Err(broken(what).into());
        }
        step = step.saturating_mul(size);
    }
    let outside = || Error::new(broken("lies beyond its storage"));
    let at = usize::try_from(tensor.offset).ok().and_then(|n| n.checked_mul(ty.block_bytes));
    let offset = at.and_then(|at| at.checked_add(storage.start)).ok_or_else(outside)?;
    if offset.checked_add(size.n_bytes).is_none_or(|end| end > storage.end) {
        return Err(outside());
    }
    let shape: Option<Vec<usize>> = tensor.shape.iter().map(|&n| usize::try_from(n).ok()).collect();
    Ok(TensorInfo {
        name: name.to_owned(),
        type_name: ty.name,
        type_id: ty.id,
        dtype: ty.dtype,
        shape: shape.ok_or_else(outside)?,
        file: 0,
        offset,
        bytes: size.n_bytes,
    })
}
