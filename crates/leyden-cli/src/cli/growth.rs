//! Size of weights in memory, which may be larger than in the file.

use std::collections::HashSet;

use leyden::ModelFile;
use leyden_kernels::gemm::packed_ratio;
use leyden_models::HfModel;
use leyden_tensor::{DType, HfQuantised, TensorInfo, WeightSource};

/// Types of tensors that only quantised folders have.
const QUANTISED: [&str; 6] = ["I32", "I8", "U8", "F8_E4M3", "I64", "F8_E8M0"];

/// Types of weights in quantised ONNX graphs; each byte becomes an F32 value.
const INTEGERS: [&str; 2] = ["I8", "U8"];

/// Returns the quantisation of the matrices of a folder, if they have a supported one.
fn quantised(file: &ModelFile) -> Option<HfQuantised> {
    match file {
        ModelFile::Hf(folder) => HfQuantised::of(folder.config()).ok().flatten(),
        ModelFile::Gguf(_) => None,
    }
}

/// Returns a predicate that is false for tensors of unsupported types. It is true for tensors that no result depends
/// on, such as `position_ids` of BERT, and for all tensors of a graph, whose weights are checked when it is opened.
pub(super) fn is_read(file: &ModelFile) -> impl Fn(&TensorInfo) -> bool {
    let (is_graph, quantised) = (is_graph(file), quantised(file).is_some());
    let needed = needed(file);
    move |tensor| {
        let known = tensor.dtype.is_some() || is_graph || quantised && QUANTISED.contains(&tensor.type_name);
        known || needed.as_ref().is_some_and(|needed| !needed.contains(&tensor.name))
    }
}

/// Returns the names of a folder's tensors that results depend on; `None` if they are not known.
fn needed(file: &ModelFile) -> Option<HashSet<String>> {
    let ModelFile::Hf(folder) = file else { return None };
    let model = HfModel::new(folder.clone()).ok()?;
    Some(model.tensor_names().into_iter().map(str::to_owned).collect())
}

fn is_graph(file: &ModelFile) -> bool {
    matches!(file, ModelFile::Hf(folder) if folder.onnx().is_some())
}

/// Returns the bytes that all weights of a model take in memory.
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
