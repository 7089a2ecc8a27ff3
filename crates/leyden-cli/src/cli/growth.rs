//! Size of weights in memory, where it exceeds that in the file.

use std::collections::HashSet;

use leyden::ModelFile;
use leyden_kernels::gemm::packed_ratio;
use leyden_models::HfModel;
use leyden_tensor::{DType, HfQuantised, TensorInfo, WeightSource};

/// The types in which only quantised folders have tensors that are read.
const QUANTISED: [&str; 5] = ["I32", "I8", "F8_E4M3", "I64", "F8_E8M0"];

/// The types of the weights of a quantised graph, whose values are a byte and become F32.
const INTEGERS: [&str; 2] = ["I8", "U8"];

/// Returns the quantisation of the matrices of a folder, if they have a supported one.
fn quantised(file: &ModelFile) -> Option<HfQuantised> {
    match file {
        ModelFile::Hf(folder) => HfQuantised::of(folder.config()).ok().flatten(),
        ModelFile::Gguf(_) => None,
    }
}

/// Tells tensors of which a type that is not computed with is no problem: those of types that are, and those that no result depends
/// on, such as the `position_ids` of BERT. Of a graph, weights were found when it was opened; its other numbers are sizes and
/// positions.
pub(super) fn is_read(file: &ModelFile) -> impl Fn(&TensorInfo) -> bool {
    let (is_graph, quantised) = (is_graph(file), quantised(file).is_some());
    let needed = needed(file);
    move |tensor| {
        let known = tensor.dtype.is_some() || is_graph || quantised && QUANTISED.contains(&tensor.type_name);
        known || needed.as_ref().is_some_and(|needed| !needed.contains(&tensor.name))
    }
}

/// Names of the tensors of a folder that results depend on; `None` where that is not known.
fn needed(file: &ModelFile) -> Option<HashSet<String>> {
    let ModelFile::Hf(folder) = file else { return None };
    let model = HfModel::new(folder.clone()).ok()?;
    Some(model.tensor_names().into_iter().map(str::to_owned).collect())
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
