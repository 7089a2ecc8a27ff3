//! What weights take in memory, where that is more than in the file.

use leyden::ModelFile;
use leyden_kernels::gemm::packed_ratio;
use leyden_tensor::{HfQuantised, TensorInfo};

/// The types in which quantised folders have matrices, and by how much they grow at most: words of 4-bit integers to
/// Q5_0, bytes to Q8_0, 8-bit floats to F16.
const QUANTISED: [(&str, f64); 3] = [("I32", 22.0 / 16.0), ("I8", 34.0 / 32.0), ("F8_E4M3", 2.0)];
/// The types of what belongs to these, scales and shapes.
const BESIDE: [&str; 2] = ["I64", "F8_E8M0"];

/// Whether a model is a folder with quantised matrices that are read.
pub(super) fn is_quantised(file: &ModelFile) -> bool {
    match file {
        ModelFile::Hf(folder) => matches!(HfQuantised::of(folder.config()), Ok(Some(_))),
        ModelFile::Gguf(_) => false,
    }
}

/// Bytes of memory for each byte of a tensor; `None` if it is of a type that is not computed with.
pub(super) fn growth(tensor: &TensorInfo, quantised: bool) -> Option<f64> {
    if let Some(dtype) = tensor.dtype {
        return Some(packed_ratio(dtype).unwrap_or(1.0));
    }
    let found = QUANTISED.iter().find(|row| quantised && row.0 == tensor.type_name).map(|row| row.1);
    found.or((quantised && BESIDE.contains(&tensor.type_name)).then_some(1.0))
}

/// Bytes that all weights of a model take in memory.
pub(super) fn memory_bytes(file: &ModelFile) -> u64 {
    let quantised = is_quantised(file);
    let bytes = |tensor: &TensorInfo| (tensor.bytes as f64 * growth(tensor, quantised).unwrap_or(1.0)) as u64;
    file.weights().tensor_info().iter().map(bytes).fold(0, u64::saturating_add)
}
