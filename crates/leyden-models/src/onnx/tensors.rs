//! [`OnnxTensors`]: tensors of an ONNX graph under the names of a model's weights.

use super::recognise;
use super::weight::{Place, Weight};
use crate::config::ModelConfig;
use crate::error::Error;
use leyden_tensor::{DType, Json, Onnx, OwnedTensor, TensorInfo, TensorView, WeightSource};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Weights of an encoder in an ONNX model, by their names in GGUF.
#[derive(Debug)]
pub(crate) struct OnnxTensors {
    onnx: Arc<Onnx>,
    weights: HashMap<String, Kept>,
    /// Tensors in the file that they come from.
    infos: Vec<TensorInfo>,
}

#[derive(Debug)]
struct Kept {
    weight: Weight,
    shape: Vec<usize>,
    /// Values in F32 of a vector or table that the file stores in another form.
    values: Option<Vec<u8>>,
}

/// Tables that are read row by row during inference, so they are decoded at load if the file stores them in another
/// form.
const TABLES: [&str; 4] =
    ["token_embd.weight", "position_embd.weight", "token_types.weight", "rel_embd.weight"];

impl OnnxTensors {
    /// Finds the weights of the encoder that a configuration describes.
    ///
    /// # Errors
    /// The graph computes something else. The error names the node that differs.
    pub(crate) fn new(onnx: &Arc<Onnx>, config: &ModelConfig, json: &Json) -> Result<OnnxTensors, Error> {
        let found = recognise(onnx, config, json)?;
        let mut infos: Vec<TensorInfo> = Vec::new();
        let mut weights = HashMap::new();
        for (name, weight) in found {
            let info = onnx.tensor_info().iter().find(|info| info.name == *weight.name);
            if let Some(info) = info.filter(|info| infos.iter().all(|found| found.name != info.name)) {
                infos.push(info.clone());
            }
            let decoded = weight.stored.len() != 2 || TABLES.contains(&name.as_str());
            let values = (decoded && weight.view(onnx).is_none()).then(|| bytes(&weight.values(onnx)));
            weights.insert(name, Kept { shape: weight.shape(), weight, values });
        }
        onnx.check_intact()?;
        Ok(OnnxTensors { onnx: Arc::clone(onnx), weights, infos })
    }

    pub(crate) fn infos(&self) -> &[TensorInfo] {
        &self.infos
    }

    pub(crate) fn is_composed(&self, name: &str) -> bool {
        self.weights
            .get(name)
            .is_some_and(|kept| kept.values.is_none() && kept.weight.view(&self.onnx).is_none())
    }

    /// Builds a matrix that is stored quantised or transposed.
    pub(crate) fn composed(&self, name: &str) -> Option<OwnedTensor> {
        let weight = &self.weights.get(name).filter(|_| self.is_composed(name))?.weight;
        let transposed = weight.transposed_bytes(&self.onnx);
        let (dtype, bytes) = transposed.unwrap_or_else(|| (DType::F32, bytes(&weight.values(&self.onnx))));
        if let Place::Initialiser(name) = &weight.place {
            self.onnx.advise_dontneed(name, 0..usize::MAX);
        }
        let parts = vec![weight.name.as_ref().to_owned()];
        // The name is unique: another weight may use the same integers with other scales, or transposed.
        let name = format!("{}[{name}]", weight.name);
        Some(OwnedTensor { name, dtype, shape: weight.shape(), bytes, parts, loss: 0.0 })
    }

    pub(crate) fn optional(&self, name: &str) -> Result<Option<TensorView<'_>>, leyden_tensor::Error> {
        let Some(Kept { weight, shape, values }) = self.weights.get(name) else { return Ok(None) };
        match values {
            Some(values) => TensorView::new(&weight.name, DType::F32, shape, values).map(Some),
            None => Ok(weight.view(&self.onnx)),
        }
    }

    pub(crate) fn require(&self, name: &str) -> Result<TensorView<'_>, leyden_tensor::Error> {
        match self.optional(name)? {
            Some(found) => Ok(found),
            None => self.onnx.require(name),
        }
    }

    pub(crate) fn advise_dontneed(&self, name: &str, bytes: Range<usize>) {
        if let Some(Kept { weight, values: None, .. }) = self.weights.get(name)
            && let Place::Initialiser(name) = &weight.place
        {
            self.onnx.advise_dontneed(name, bytes);
        }
    }
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}
