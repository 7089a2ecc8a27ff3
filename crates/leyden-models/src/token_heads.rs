//! The files of M3-Embedding beside its weights: `sparse_linear` and `colbert_linear`, of PyTorch's or in safetensors, with a matrix
//! and its bias each.

use crate::config::{ModelConfig, SparseConfig};
use crate::error::Error;
use leyden_tensor::{HfFolder, Safetensors, TensorView, WeightSource};

/// The name of the file, and that of its matrix here.
const HEADS: [(&str, &str); 2] = [("sparse_linear", WEIGHT), ("colbert_linear", VECTOR)];
const WEIGHT: &str = "token_weight";
const VECTOR: &str = "token_vector";

/// A head and its file.
#[derive(Debug)]
pub(crate) struct TokenHead {
    name: &'static str,
    weights: Safetensors,
    /// The names of matrix and bias, with the file's.
    names: [String; 2],
}

/// Those that a folder has.
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

/// Name and file in a folder of a tensor of such a head, by its name here.
pub(crate) fn place(name: &str) -> Option<(String, String)> {
    let found =
        HEADS.iter().find_map(|(file, head)| Some((file, name.strip_prefix(head)?.strip_prefix('.')?)));
    found.map(|(file, part)| (part.to_owned(), format!("{file}.safetensors")))
}

impl TokenHead {
    /// The files of weights.
    pub(crate) fn weights(&self) -> &Safetensors {
        &self.weights
    }

    /// Its tensor of a name that begins with its own.
    pub(crate) fn tensor(&self, name: &str) -> Result<Option<TensorView<'_>>, leyden_tensor::Error> {
        let Some(part) = name.strip_prefix(self.name).and_then(|rest| rest.strip_prefix('.')) else {
            return Ok(None);
        };
        let Some(found) = self.weights.optional(part)? else { return Ok(None) };
        let name = &self.names[usize::from(part == "bias")];
        TensorView::new(name, found.dtype(), found.shape(), found.bytes()).map(Some)
    }
}

/// Completes a configuration with these heads.
pub(crate) fn complete(config: &mut ModelConfig, source: &dyn WeightSource) -> Result<(), Error> {
    if source.optional(&format!("{WEIGHT}.weight"))?.is_some() {
        config.sparse = Some(SparseConfig::Tokens);
    }
    if let Some(matrix) = source.optional(&format!("{VECTOR}.weight"))? {
        config.token_vectors = Some(matrix.rows());
    }
    Ok(())
}
