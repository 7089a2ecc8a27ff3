//! [`ModelFacts`]: sizes and types of a model's tensors, without its weights.

use crate::error::Error;
use crate::matrices;
use crate::matrix::{EMBEDDING, HEAD, Matrix, Role, is_stored};
use leyden_compress::{Mix, Target};
use leyden_models::{ModelConfig, config_of, config_of_json, ties_embeddings};
use leyden_tensor::{DType, Json, TensorInfo, WeightSource};
use std::collections::BTreeMap;

/// Sizes of a model.
#[derive(Clone, Debug)]
pub struct ModelFacts {
    /// File or name of the model, for messages.
    pub file: String,
    /// Configuration.
    pub config: ModelConfig,
    /// Tensors.
    pub matrices: Vec<Matrix>,
    /// Rows of the embedding matrix.
    pub vocabulary: usize,
    /// True if the output matrix is the embedding matrix.
    pub tied: bool,
    /// Mix of types by name, if all tensors were given those of a mix.
    pub mix: Option<&'static str>,
}

impl ModelFacts {
    /// Reads the sizes of an open model. Of GGUF files, all tensors are listed; of folders, the matrices follow from
    /// the configuration and have the types of the tensors with these names.
    ///
    /// # Errors
    /// The architecture is not supported, or the configuration is not valid.
    pub fn of_source(source: &dyn WeightSource) -> Result<ModelFacts, Error> {
        let config = config_of(source)?;
        let file = source.path().display().to_string();
        let table = source.optional(EMBEDDING)?;
        let head = source.optional(HEAD)?;
        let vocabulary = match (&table, &head) {
            (Some(table), _) => table.rows(),
            (None, Some(head)) => head.rows(),
            (None, None) => 0,
        };
        let tied = config.generates() && head.is_none();
        let is_gguf = source.metadata().opt_str("general.architecture").ok().flatten().is_some()
            && source.tensor_info().iter().any(|t| t.name == EMBEDDING);
        if is_gguf {
            let matrices = source.tensor_info().iter().map(|t| stored(t, &config, tied)).collect();
            return Ok(ModelFacts { file, config, matrices, vocabulary, tied, mix: None });
        }
        let usual = usual_type(source.tensor_info());
        let mut matrices = matrices::of_config(&config, vocabulary, tied, usual);
        for matrix in &mut matrices {
            // Fused and composed tensors have the usual type.
            if let Ok(Some(view)) = source.optional(&matrix.name) {
                matrix.dtype = view.dtype();
            }
        }
        Ok(ModelFacts { file, config, matrices, vocabulary, tied, mix: None })
    }

    /// Reads the sizes of the model that a `config.json` describes, with all matrices of one type.
    ///
    /// # Errors
    /// The architecture is not supported, the configuration is not valid, or it lacks the size of the vocabulary.
    pub fn of_json(json: &Json, dtype: DType) -> Result<ModelFacts, Error> {
        let config = config_of_json(json)?;
        let file = json.file().to_owned();
        let nested = ["text_config", "encoder_config"].map(|key| json.nested(key).ok().flatten());
        let all = || std::iter::once(json).chain(nested.iter().flatten());
        let vocabulary = all().find_map(|json| json.opt_u32("vocab_size").ok().flatten());
        let vocabulary = vocabulary.filter(|n| *n > 0).ok_or_else(|| Error::Missing {
            file: file.clone(),
            key: "vocab_size",
            what: "the size of the vocabulary is missing".to_owned(),
        })? as usize;
        let tied = config.generates() && ties_embeddings(json)?;
        let matrices = matrices::of_config(&config, vocabulary, tied, dtype);
        Ok(ModelFacts { file, config, matrices, vocabulary, tied, mix: None })
    }

    /// Returns the model with the types of a mix, as `leyden quantize` gives them.
    #[must_use]
    pub fn with_types(&self, target: Target) -> ModelFacts {
        let first = self.config.layers.first();
        let mix = Mix {
            target,
            layers: self.config.layers.len(),
            heads: first.map_or(0, |l| l.heads),
            kv_heads: first.map_or(0, |l| l.kv_heads),
            experts: self.config.experts().map_or(0, |e| e.count),
            tied: self.tied,
            imatrix: false,
        };
        let mut model = self.clone();
        for matrix in model.matrices.iter_mut().filter(|m| m.role != Role::Small) {
            let shape: &[usize] = match matrix.count {
                1 => &[matrix.rows, matrix.columns],
                count => &[count, matrix.rows, matrix.columns],
            };
            if let Some((dtype, _)) = mix.dtype(&matrix.name, shape) {
                matrix.dtype = dtype;
            }
        }
        model.mix = Some(target.name());
        model
    }

    /// Returns the number of values of all tensors.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        self.matrices.iter().fold(0, |sum, m| sum.saturating_add(m.values()))
    }

    /// Returns the bytes of all weights in memory, without tensors that are not computed with.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        let used = self.matrices.iter().filter(|m| m.role != Role::Unused);
        used.fold(0, |sum, m| sum.saturating_add(m.bytes()))
    }

    /// Returns the type of most values.
    #[must_use]
    pub fn main_type(&self) -> DType {
        let mut sums: BTreeMap<DType, u64> = BTreeMap::new();
        for matrix in &self.matrices {
            *sums.entry(matrix.dtype).or_default() += matrix.values();
        }
        sums.into_iter().max_by_key(|(_, n)| *n).map_or(DType::F32, |(dtype, _)| dtype)
    }

    /// Returns the name of the model's types: that of the mix, or of the type of most values.
    #[must_use]
    pub fn types_name(&self) -> &'static str {
        self.mix.unwrap_or(self.main_type().name())
    }
}

/// Returns a tensor of a GGUF file.
fn stored(tensor: &TensorInfo, config: &ModelConfig, tied: bool) -> Matrix {
    let layer =
        tensor.name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse::<usize>().ok());
    let (count, rows, columns) = match tensor.shape[..] {
        [] => (1, 1, 1),
        [n] => (1, 1, n),
        [rows, columns] => (1, rows, columns),
        [ref outer @ .., rows, columns] => (outer.iter().product(), rows, columns),
    };
    let matrix = tensor.shape.len() >= 2 && tensor.name.ends_with("weight");
    let role = match &tensor.name[..] {
        _ if layer.is_some_and(|i| i >= config.layers.len()) => Role::Unused,
        EMBEDDING if tied => Role::Head,
        EMBEDDING | "position_embd.weight" | "token_types.weight" | "per_layer_token_embd.weight" => {
            Role::Lookup
        }
        HEAD if config.generates() => Role::Head,
        HEAD => Role::Unused,
        name if name.contains("ssm_conv1d") || name.contains("shortconv.conv") => Role::Small,
        _ if !matrix => Role::Small,
        name if name.contains("_exps.") => Role::Experts,
        name if is_stored(name) => Role::Stored,
        _ => Role::Layer,
    };
    let dtype = tensor.dtype.unwrap_or(DType::F32);
    Matrix { name: tensor.name.clone(), layer, role, dtype, count, rows, columns }
}

/// Returns the type of most values of the tensors with two dimensions; F16 if none is known.
fn usual_type(tensors: &[TensorInfo]) -> DType {
    let mut sums: BTreeMap<DType, u64> = BTreeMap::new();
    for tensor in tensors.iter().filter(|t| t.shape.len() >= 2) {
        let values = tensor.shape.iter().fold(1_u64, |n, &d| n.saturating_mul(d as u64));
        if let Some(dtype) = tensor.dtype {
            *sums.entry(dtype).or_default() += values;
        }
    }
    sums.into_iter().max_by_key(|(_, n)| *n).map_or(DType::F16, |(dtype, _)| dtype)
}
