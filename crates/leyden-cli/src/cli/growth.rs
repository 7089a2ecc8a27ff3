//! What weights take in memory, where that is more than in the file.

use leyden::ModelFile;
use leyden_kernels::gemm::packed_ratio;
use leyden_tensor::{HfQuantised, TensorInfo};

/// The types in which only quantised folders have tensors that are read.
const QUANTISED: [&str; 5] = ["I32", "I8", "F8_E4M3", "I64", "F8_E8M0"];

/// How the matrices of a folder are quantised, if they are, and it is a way that is read.
pub(super) fn quantised(file: &ModelFile) -> Option<HfQuantised> {
    match file {
        ModelFile::Hf(folder) => HfQuantised::of(folder.config()).ok().flatten(),
        ModelFile::Gguf(_) => None,
    }
}

/// Whether tensors of this type are computed with, in a folder that is quantised or not.
pub(super) fn is_read(tensor: &TensorInfo, quantised: bool) -> bool {
    tensor.dtype.is_some() || quantised && QUANTISED.contains(&tensor.type_name)
}

/// Bytes that all weights of a model take in memory.
pub(super) fn memory_bytes(file: &ModelFile) -> u64 {
    let found = quantised(file);
    let bytes = |tensor: &TensorInfo| {
        if let (ModelFile::Hf(folder), Some(quantised)) = (file, found)
            && let Some(files) = folder.safetensors()
            && let Some(bytes) = quantised.memory_bytes(files, &tensor.name)
        {
            return bytes as u64;
        }
        let ratio = tensor.dtype.and_then(packed_ratio).unwrap_or(1.0);
        (tensor.bytes as f64 * ratio) as u64
    };
    file.weights().tensor_info().iter().map(bytes).fold(0, u64::saturating_add)
}
