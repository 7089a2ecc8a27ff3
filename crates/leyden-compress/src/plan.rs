//! The plan of a quantisation: the type of each tensor.

use crate::error::Error;
use crate::imatrix::Imatrix;
use crate::pattern::Override;
use crate::target::{Place, Role, Target, narrower_blocks};
use leyden_tensor::{DType, WeightSource};

/// Options of a quantisation.
#[derive(Debug)]
#[non_exhaustive]
pub struct Options<'a> {
    /// Target mix of types.
    pub target: Target,
    /// Importance matrix.
    pub imatrix: Option<&'a Imatrix>,
    /// Types of tensors by name; the last match wins.
    pub overrides: Vec<Override>,
    /// True if every matrix gets the target's base type.
    pub pure: bool,
    /// True if weights that are quantised already may be quantised again.
    pub requantize: bool,
    /// Number of threads; 0 for one per processor.
    pub threads: usize,
}

impl Options<'_> {
    /// Returns the default options for a target.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Options { target, imatrix: None, overrides: Vec::new(), pure: false, requantize: false, threads: 0 }
    }
}

/// The type that a tensor gets.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Name of the tensor.
    pub name: String,
    /// Dimensions, the contiguous one last.
    pub shape: Vec<usize>,
    /// Current type.
    pub from: DType,
    /// New type.
    pub to: DType,
    /// Bytes in the new type.
    pub bytes: usize,
    /// True if the rule's type was replaced because the rows are not a whole number of its blocks.
    pub fallback: bool,
}

impl Choice {
    /// Returns true if the tensor is one of the matrices that get other types.
    #[must_use]
    pub fn is_matrix(&self) -> bool {
        is_matrix(&self.name, &self.shape)
    }

    /// Returns the number of its values.
    #[must_use]
    pub fn values(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Facts about a model that determine the type of each tensor in a target.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Target mix of types.
    pub target: Target,
    /// Number of layers.
    pub layers: usize,
    /// Number of query heads of the first layer.
    pub heads: usize,
    /// Number of KV heads of the first layer.
    pub kv_heads: usize,
    /// Number of experts; 0 without experts.
    pub experts: usize,
    /// True if the output matrix is the embedding matrix.
    pub tied: bool,
    /// True if there is an importance matrix.
    pub imatrix: bool,
}

impl Mix {
    /// Returns the type of a tensor by its name in GGUF and its shape, the contiguous dimension last, and whether it
    /// replaces the rule's because the rows are not a whole number of its blocks. `None` for tensors that keep their
    /// type.
    #[must_use]
    pub fn dtype(&self, name: &str, shape: &[usize]) -> Option<(DType, bool)> {
        let columns = *shape.last()?;
        is_matrix(name, shape).then(|| fitting(self.by_rule(name), columns))
    }

    /// Returns the type that the target's rule gives a tensor.
    fn by_rule(&self, name: &str) -> DType {
        self.target.dtype(&Place {
            role: role(name, self.tied),
            layer: layer(name).unwrap_or(0),
            layers: self.layers,
            group: self.heads.checked_div(self.kv_heads).unwrap_or(1),
            experts: self.experts,
            imatrix: self.imatrix,
        })
    }
}

/// Returns a type, or the nearest one whose blocks divide rows of `columns` values, and whether it is another.
fn fitting(mut dtype: DType, columns: usize) -> (DType, bool) {
    let mut fallback = false;
    while dtype.row_bytes(columns).is_none() {
        (dtype, fallback) = (narrower_blocks(dtype), true);
    }
    (dtype, fallback)
}

/// The type of each tensor.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Every tensor, in the order of the file.
    pub tensors: Vec<Choice>,
}

impl Plan {
    /// Chooses a type for every tensor of a GGUF file.
    ///
    /// # Errors
    /// A tensor has a type that cannot be read or is quantised already, or an override matches no tensor.
    pub fn new(source: &dyn WeightSource, options: &Options<'_>) -> Result<Plan, Error> {
        let file = source.path().display().to_string();
        let meta = source.metadata();
        let architecture = meta.opt_str("general.architecture")?.ok_or_else(|| Error::Model {
            file: file.clone(),
            what: "general.architecture: missing; only GGUF files of models are quantised".to_owned(),
        })?;
        // Some files have an array with one value per layer; its first counts.
        let number = |key: &str| -> usize {
            let key = format!("{architecture}.{key}");
            let list = || meta.opt_array_u32(&key).ok().flatten().and_then(|list| list.first().copied());
            meta.opt_u32(&key).ok().flatten().or_else(list).unwrap_or(0) as usize
        };
        let heads = number("attention.head_count");
        let kv_heads = number("attention.head_count_kv");
        let mix = Mix {
            target: options.target,
            layers: number("block_count"),
            heads,
            kv_heads,
            experts: number("expert_count"),
            tied: source.tensor("output.weight").is_none(),
            imatrix: options.imatrix.is_some(),
        };
        let mut used = vec![false; options.overrides.len()];
        let mut tensors = Vec::new();
        for info in source.tensor_info() {
            let view = source.require(&info.name)?;
            let from = view.dtype();
            let mut to = from;
            let mut fallback = false;
            if is_matrix(&info.name, &info.shape) {
                to = if options.pure { options.target.base() } else { mix.by_rule(&info.name) };
                for (i, chosen) in options.overrides.iter().enumerate().filter(|(_, o)| o.fits(&info.name)) {
                    (to, used[i]) = (chosen.dtype(), true);
                }
                (to, fallback) = fitting(to, view.cols());
                if to != from && from.block_len() > 1 && !options.requantize {
                    let (tensor, dtype) = (info.name.clone(), from.name());
                    return Err(Error::Quantised { file, tensor, dtype });
                }
            }
            let bytes = to.row_bytes(view.cols()).unwrap_or(0) * view.rows();
            tensors.push(Choice {
                name: info.name.clone(),
                shape: info.shape.clone(),
                from,
                to,
                bytes,
                fallback,
            });
        }
        if let Some((unused, _)) = options.overrides.iter().zip(used).find(|(_, used)| !used) {
            let what = format!("no matrix of {file} has such a name");
            return Err(Error::Override { text: unused.pattern().to_owned(), what });
        }
        Ok(Plan { tensors })
    }

    /// Returns the bytes of all tensors, a count.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.tensors.iter().map(|t| t.bytes).sum()
    }

    /// Returns the bits per value of all tensors together.
    #[must_use]
    pub fn bits_per_weight(&self) -> f64 {
        let values: usize = self.tensors.iter().map(Choice::values).sum();
        self.bytes() as f64 * 8.0 / values.max(1) as f64
    }
}

/// Returns true if a tensor is a weight matrix that is worth quantising. Routers of experts are not, since a small
/// error can select other experts; norms, positions and convolutions are small.
pub(crate) fn is_matrix(name: &str, shape: &[usize]) -> bool {
    const KEPT: [&str; 10] = [
        "_norm.weight",
        "ffn_gate_inp",
        "position_embd",
        "token_types",
        // Relative position embeddings, and the heads of span models, whose parts are decoded one by one.
        "rel_embd",
        "spans.",
        "ssm_conv1d",
        "altup",
        "laurel",
        "per_layer_model_proj",
    ];
    shape.len() >= 2 && name.ends_with("weight") && !KEPT.iter().any(|kept| name.contains(kept))
}

fn role(name: &str, tied: bool) -> Role {
    let ends = |part: &str| name.contains(part);
    match name {
        "output.weight" => Role::Output,
        "token_embd.weight" if tied => Role::Output,
        "token_embd.weight" => Role::Embedding,
        _ if ends("attn_v.weight") || ends("attn_kv_b.weight") => Role::AttnV,
        _ if ends("attn_k.weight") => Role::AttnK,
        _ if ends("attn_output.weight") => Role::AttnOutput,
        _ if ends("attn_qkv.weight") => Role::AttnQkv,
        _ if ends("ffn_down") => Role::FfnDown,
        _ => Role::Other,
    }
}

/// Returns the index of the layer to which a tensor belongs.
pub(crate) fn layer(name: &str) -> Option<usize> {
    name.strip_prefix("blk.")?.split('.').next()?.parse().ok()
}
