//! Sparse and multi-vector heads of M3-Embedding (BGE-M3): the files `sparse_linear` and `colbert_linear` beside the
//! weights, in PyTorch's format or safetensors, each with a matrix and its bias.

use crate::config::{ModelConfig, SparseConfig};
use crate::error::Error;
use leyden_tensor::{HfFolder, Safetensors, TensorView, WeightSource};

/// File name of each head, and the prefix of its tensors' internal names.
const HEADS: [(&str, &str); 2] = [("sparse_linear", WEIGHT), ("colbert_linear", VECTOR)];
const WEIGHT: &str = "token_weight";
const VECTOR: &str = "token_vector";

/// Head with its opened file.
#[derive(Debug)]
pub(crate) struct TokenHead {
    name: &'static str,
    weights: Safetensors,
    /// Names of weight and bias, prefixed with the file's name.
    names: [String; 2],
}

/// Opens the heads that a folder has.
pub(crate) fn of_folder(folder: &HfFolder) -> Result<Vec<TokenHead>, Error> {
    let mut heads = Vec::new();
    for (file, name) in HEADS {
        let paths = ["safetensors", "pt"].map(|end| folder.path().join(format!("{file}.{end}")));
        if let Some(path) = paths.iter().find(|path| path.exists()) {
            let names = ["weight", "bias"].map(|part| format!("{file}.{part}"));
            heads.push(TokenHead { name, weights: Safetensors::open(path)?, names });
        }
    }
    Ok(heads)
}

/// Returns the name in the file, and the file in the folder, of a head's tensor with this internal name.
pub(crate) fn place(name: &str) -> Option<(String, String)> {
    let found =
        HEADS.iter().find_map(|(file, head)| Some((file, name.strip_prefix(head)?.strip_prefix('.')?)));
    found.map(|(file, part)| (part.to_owned(), format!("{file}.safetensors")))
}

impl TokenHead {
    /// Returns the head's weights.
    pub(crate) fn weights(&self) -> &Safetensors {
        &self.weights
    }

    /// Returns the head's tensor with this internal name; `None` if the name or the tensor is not the head's.
    pub(crate) fn tensor(&self, name: &str) -> Result<Option<TensorView<'_>>, leyden_tensor::Error> {
        let Some(part) = name.strip_prefix(self.name).and_then(|rest| rest.strip_prefix('.')) else {
            return Ok(None);
        };
        let Some(found) = self.weights.optional(part)? else { return Ok(None) };
        let name = &self.names[usize::from(part == "bias")];
        TensorView::new(name, found.dtype(), found.shape(), found.bytes()).map(Some)
    }
}

/// Adds the heads that the source has to the configuration.
pub(crate) fn complete(config: &mut ModelConfig, source: &dyn WeightSource) -> Result<(), Error> {
    if source.optional(&format!("{WEIGHT}.weight"))?.is_some() {
        config.sparse = Some(SparseConfig::Tokens);
    }
    if let Some(matrix) = source.optional(&format!("{VECTOR}.weight"))? {
        config.token_vectors = Some(matrix.rows());
    }
    Ok(())
}
