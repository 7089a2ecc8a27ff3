//! What weights take in memory, where that is more than in the file.

use leyden::ModelFile;
use leyden_kernels::gemm::packed_ratio;
use leyden_tensor::{DType, HfQuantised, TensorInfo};

/// The types in which only quantised folders have tensors that are read.
const QUANTISED: [&str; 5] = ["I32", "I8", "F8_E4M3", "I64", "F8_E8M0"];

/// The types of the weights of a quantised graph, whose values are a byte and become F32.
const INTEGERS: [&str; 2] = ["I8", "U8"];

/// How the matrices of a folder are quantised, if they are, and it is a way that is read.
fn quantised(file: &ModelFile) -> Option<HfQuantised> {
    match file {
        ModelFile::Hf(folder) => HfQuantised::of(folder.config()).ok().flatten(),
        ModelFile::Gguf(_) => None,
    }
}

/// Whether tensors of this type are computed with in a model. Of a graph those that are weights were found when it was opened; the
/// others are numbers that it computes sizes and positions with.
pub(super) fn is_read(file: &ModelFile) -> impl Fn(&TensorInfo) -> bool {
    let (is_graph, quantised) = (is_graph(file), quantised(file).is_some());
    move |tensor| tensor.dtype.is_some() || is_graph || quantised && QUANTISED.contains(&tensor.type_name)
}

fn is_graph(file: &ModelFile) -> bool {
    matches!(file, ModelFile::Hf(folder) if folder.onnx().is_some())
}

/// Bytes that all weights of a model take in memory.
pub(super) fn memory_bytes(file: &ModelFile) -> u64 {
    let (found, is_graph) = (quantised(file), is_graph(file));
    let floats = packed_ratio(DType::F32).unwrap_or(1.0) * size_of::<f32>() as f64;
    let bytes = |tensor: &TensorInfo| {
        if let (ModelFile::Hf(folder), Some(quantised)) = (file, found)
            && let Some(files) = folder.safetensors()
            && let Some(bytes) = quantised.memory_bytes(files, &tensor.name)
        {
            return bytes as u64;
        }
        if is_graph && INTEGERS.contains(&tensor.type_name) {
            return (tensor.bytes as f64 * floats) as u64;
        }
        let ratio = tensor.dtype.and_then(packed_ratio).unwrap_or(1.0);
        (tensor.bytes as f64 * ratio) as u64
    };
    file.weights().tensor_info().iter().map(bytes).fold(0, u64::saturating_add)
}
