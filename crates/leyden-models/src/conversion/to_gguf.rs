//! [`ToGguf`]: conversion of a Hugging Face folder's model to GGUF.

use super::changes::{Change, cast};
use super::gguf_keys::{describe, describe_encoder};
use super::{BARE_NAMES, Conversion};
use crate::arch::{hf_class, hf_model};
use crate::architecture::Architecture;
use crate::config::{HeadConfig, Labelled, LayerConfig, ModelConfig, RopeConfig, RopeScaling, SparseConfig};
use crate::error::Error;
use crate::frequencies::Frequencies;
use crate::gliner;
use crate::hf::HfModel;
use crate::hf_class::HfClass;
use crate::loader::needless;
use crate::source_config::{as_gguf_has, config_of};
use crate::stored::QkvRows;
use leyden_tensor::{DType, Value, WeightSource, run_sequentially};
use std::collections::HashSet;
use std::sync::Arc;

/// Tensors outside layers.
pub(super) const GLOBAL: [&str; 4] = ["token_embd", "position_embd", "output_norm", "output"];
/// Matrices that llama.cpp requires in F32.
const IN_F32: [&str; 5] =
    ["ffn_gate_inp.", "ffn_gate_inp_shexp.", "position_embd.", "token_types.", "rel_embd."];

/// Model of a folder as GGUF: metadata without the tokenizer's, and tensors.
#[derive(Debug)]
pub struct ToGguf<'a> {
    model: &'a HfModel,
    entries: Vec<(String, Value)>,
    tensors: Vec<GgufTensor>,
    needs_files: bool,
}

/// Tensor of the file.
#[derive(Clone, Debug)]
pub struct GgufTensor {
    /// Name in GGUF.
    pub name: String,
    /// Data type in the folder.
    pub dtype: DType,
    /// Shape in GGUF, the contiguous dimension last.
    pub shape: Vec<usize>,
    from: From,
    change: Change,
}

/// Source of a tensor.
#[derive(Clone, Debug)]
enum From {
    /// Tensor of the folder by its GGUF name, and its shape in the folder.
    Tensor(String, Vec<usize>),
    /// Matrices of all experts in a layer.
    Stack(String),
    /// Numbers computed from the configuration.
    Numbers(Vec<f32>),
}

impl<'a> ToGguf<'a> {
    /// Plans the conversion of a model. Values of tensors are not read.
    ///
    /// # Errors
    /// Models of this architecture are not converted, GGUF has no key for part of the configuration, the weights are
    /// quantised, or a tensor has no name in GGUF. The error names the file and the key or tensor.
    pub fn new(model: &'a HfModel) -> Result<ToGguf<'a>, Error> {
        let json = model.folder().config();
        let (arch, class) = hf_class(json)?;
        let (mut config, ..) = hf_model(json)?;
        let refused = |why: &str| {
            let what = format!("models of the architecture {} are not converted to GGUF: {why}", arch.name);
            Error::invalid(json.file(), "model_type", what)
        };
        if let Conversion::None(why) = arch.conversion {
            return Err(refused(why));
        }
        if model.folder().onnx().is_some() {
            return Err(refused(
                "the folder's weights are an ONNX model; safetensors and PyTorch files are converted",
            ));
        }
        let hf = class.config(json);
        let vocabulary = model.require("token_embd.weight")?.rows();
        // A decoder with a language model's head may have modules of sentence-transformers too.
        let needs_files = !config.generates() || model.is_for_vectors();
        let (entries, read) = match needs_files {
            false => describe(arch, &hf, &config, vocabulary)?,
            true => {
                // The configuration with the modules after the model.
                config = config_of(model)?;
                let mut entries = describe_encoder(arch, &hf, &config, vocabulary, model.metadata())?;
                entries.push((BARE_NAMES.to_owned(), Value::Bool(model.has_bare_names())));
                (entries, as_gguf_has(arch, class, config.clone()))
            }
        };
        let mut plan = Plan {
            model,
            class,
            arch,
            config: &config,
            read: &read,
            used: HashSet::new(),
            tensors: Vec::new(),
        };
        plan.collect(needs_files)?;
        Ok(ToGguf { model, entries, tensors: plan.tensors, needs_files })
    }

    /// Returns true if the file must embed the folder's configuration files, for settings without GGUF keys.
    #[must_use]
    pub fn needs_folder_files(&self) -> bool {
        self.needs_files
    }

    /// Returns the metadata: the architecture's name and its configuration keys.
    #[must_use]
    pub fn entries(&self) -> &[(String, Value)] {
        &self.entries
    }

    /// Returns the tensors in the order of the file.
    #[must_use]
    pub fn tensors(&self) -> &[GgufTensor] {
        &self.tensors
    }

    /// Returns the values of a tensor in a float type, or in its own type.
    ///
    /// # Errors
    /// The folder's tensor cannot be read, or its size does not match the shape.
    pub fn values(&self, tensor: &GgufTensor, to: DType) -> Result<Vec<u8>, Error> {
        Ok(match &tensor.from {
            From::Tensor(name, shape) => {
                let view = self.model.require(name)?;
                let made = tensor.change.apply(to, shape, cast(&view, to));
                self.model.advise_dontneed(name, 0..view.bytes().len());
                made
            }
            From::Stack(name) => {
                let stack = self.model.composed(name, &tensor.shape, &run_sequentially)?;
                let Some(stack) = stack.filter(|stack| stack.shape == tensor.shape) else {
                    let what = format!("the experts' matrices do not have the shape {:?}", tensor.shape);
                    return Err(Error::invalid(&self.model.path().display().to_string(), name, what));
                };
                cast(&stack.view()?, to)
            }
            From::Numbers(numbers) => numbers.iter().flat_map(|number| number.to_le_bytes()).collect(),
        })
    }
}

impl GgufTensor {
    /// Returns the data type to write for matrices: `wanted`, or without it, F32, F16, BF16 and MXFP4 unchanged and
    /// F16 for others.
    #[must_use]
    pub fn written_as(&self, wanted: Option<DType>) -> DType {
        let in_f32 = self.shape.len() == 1 || self.name.ends_with(".bias");
        if in_f32 || IN_F32.iter().any(|part| self.name.contains(part)) {
            return DType::F32;
        }
        match (wanted, self.dtype) {
            (Some(wanted), _) => wanted,
            (None, kept @ (DType::F32 | DType::F16 | DType::BF16 | DType::MXFP4)) => kept,
            (None, _) => DType::F16,
        }
    }
}

/// Plan of the file's tensors.
struct Plan<'a> {
    model: &'a HfModel,
    class: &'static HfClass,
    arch: &'static Architecture,
    config: &'a ModelConfig,
    /// Configuration as read back from the file.
    read: &'a ModelConfig,
    /// Names in the folder that are already converted.
    used: HashSet<String>,
    tensors: Vec<GgufTensor>,
}

impl Plan<'_> {
    fn collect(&mut self, for_vectors: bool) -> Result<(), Error> {
        for part in GLOBAL {
            self.add(part, None)?;
        }
        if for_vectors {
            self.outside_layers()?;
        }
        self.divisors()?;
        for i in 0..self.config.layers.len() {
            let mut known = HashSet::new();
            for (part, _) in self.class.tensors {
                if !GLOBAL.contains(part) && known.insert(*part) && self.has(part, i) {
                    self.add(part, Some(i))?;
                }
            }
            if self.config.layers[i].experts.is_some() {
                for (part, _) in self.class.stacks {
                    self.stack(part, i)?;
                }
            }
        }
        let names = self.model.tensor_names();
        let left = names.into_iter().find(|name| !self.used.contains(*name) && !needless(name, self.config));
        match left {
            Some(name) => Err(self.invalid(name, "has no name in GGUF files of this architecture")),
            None => Ok(()),
        }
    }

    fn invalid(&self, name: &str, what: &str) -> Error {
        Error::invalid(&self.model.path().display().to_string(), name, what)
    }

    /// Adds the tensors before and after the layers of encoders, embedding models and classifiers.
    fn outside_layers(&mut self) -> Result<(), Error> {
        for (part, _) in self.class.tensors {
            if !GLOBAL.contains(part) && !part.starts_with("cls") {
                self.add(part, None)?;
            }
        }
        let mut parts: Vec<&str> = Vec::new();
        if let HeadConfig::Classifier(classifier) = &self.config.head {
            if classifier.dense.is_some() {
                parts.extend(["cls", "cls.norm"]);
            }
            parts.push(if classifier.of == Labelled::Tokens { "cls.tokens" } else { "cls.output" });
        }
        if matches!(self.config.sparse, Some(SparseConfig::Vocabulary { .. })) {
            parts.extend(["mlm.dense", "mlm.norm", "mlm.decoder"]);
            self.add_kinds("mlm.output", &["bias"], None)?;
        }
        parts.extend(["token_weight", "token_vector"]);
        let dense: Vec<String> =
            (0..self.config.vector_dense.len()).map(|i| format!("dense_{}", i + 2)).collect();
        parts.extend(dense.iter().map(String::as_str));
        for part in parts {
            self.add_kinds(part, &["weight", "bias"], None)?;
        }
        if self.config.spans.is_some() {
            self.spans()?;
        }
        Ok(())
    }

    /// Adds the tensors of GLiNER's span head.
    fn spans(&mut self) -> Result<(), Error> {
        let names: Vec<String> = self.model.tensor_names().into_iter().map(str::to_owned).collect();
        for theirs in names {
            let Some(ours) = gliner::name_of_tensor(&theirs) else { continue };
            let view = self.model.require(&ours)?;
            let (dtype, shape) = (view.dtype(), view.shape().to_vec());
            self.used.insert(theirs);
            self.push(ours.clone(), &ours, dtype, &shape, Change::Keep);
        }
        Ok(())
    }

    /// Returns whether a layer may have a tensor, as some are only in mixture layers or only in dense ones.
    fn has(&self, part: &str, i: usize) -> bool {
        let mixture = self.config.layers[i].experts.is_some();
        match part {
            "ffn_gate" | "ffn_up" | "ffn_down" => !mixture,
            _ if part.starts_with("ffn_gate_inp") || part.starts_with("exp_") => mixture,
            _ => mixture || !part.ends_with("_shexp"),
        }
    }

    /// Adds a weight and its bias, those that the folder has.
    fn add(&mut self, part: &str, layer: Option<usize>) -> Result<(), Error> {
        match part.rsplit_once('.') {
            Some((part, "bias")) => self.add_kinds(part, &["bias"], layer),
            Some((part, _)) => self.add_kinds(part, &["weight"], layer),
            None => self.add_kinds(part, &["weight", "bias"], layer),
        }
    }

    /// Adds the weight, the bias or both, those that the folder has.
    fn add_kinds(&mut self, part: &str, kinds: &[&str], layer: Option<usize>) -> Result<(), Error> {
        let at = layer.map_or_else(String::new, |i| format!("blk.{i}."));
        for kind in kinds {
            let name = format!("{at}{part}.{kind}");
            if self.model.is_composed(&name) {
                let what = "is quantised; folders of F32, F16 and BF16 are converted";
                return Err(self.invalid(&name, what));
            }
            let Some(view) = self.model.optional(&name)? else { return Ok(()) };
            if !self.used.insert(view.name().to_owned()) {
                return Ok(());
            }
            let part = self.class.in_gguf.iter().find(|row| row.0 == part).map_or(part, |row| row.1);
            let whole = format!("{at}{part}.{kind}");
            let (dtype, shape) = (view.dtype(), view.shape().to_vec());
            if part == "ffn_up_shexp" && self.gate_is_in_up(layer)? {
                // GGUF has a separate matrix for the shared expert's gate.
                let halves = [(format!("{at}ffn_gate_shexp.{kind}"), false), (whole, true)];
                for (called, second) in halves {
                    self.push(called, &name, dtype, &shape, Change::Half { second });
                }
                continue;
            }
            let change = self.change(part, kind, layer, &shape)?;
            self.push(whole, &name, dtype, &shape, change);
        }
        Ok(())
    }

    fn push(&mut self, name: String, from: &str, dtype: DType, shape: &[usize], change: Change) {
        let from = From::Tensor(from.to_owned(), shape.to_vec());
        let shape = change.shape(shape);
        self.tensors.push(GgufTensor { name, dtype, shape, from, change });
    }

    fn gate_is_in_up(&self, layer: Option<usize>) -> Result<bool, Error> {
        let Some(i) = layer else { return Ok(false) };
        Ok(self.model.optional(&format!("blk.{i}.ffn_gate_shexp.weight"))?.is_none())
    }

    /// Returns the change of a tensor.
    fn change(&self, part: &str, kind: &str, layer: Option<usize>, shape: &[usize]) -> Result<Change, Error> {
        if part.contains("norm") {
            let offset = self.config.norm.offset;
            return Ok(if kind == "weight" && offset != 0.0 { Change::Add(offset) } else { Change::Keep });
        }
        let Some(i) = layer else {
            let first =
                self.config.learned_positions.filter(|_| part == "position_embd" && !self.config.generates());
            return Ok(first.filter(|rows| *rows > 0).map_or(Change::Keep, Change::DropRows));
        };
        let layer = &self.config.layers[i];
        let rows = shape[0];
        let heads = match part {
            "attn_q" => Some(layer.heads),
            "attn_k" => Some(layer.kv_heads),
            _ => None,
        };
        if let Some(heads) = heads.filter(|_| self.pairs_rows()) {
            let head = layer.head_dim;
            if rows != heads * head || !head.is_multiple_of(2) {
                let what = format!("{rows} rows are not {heads} heads of {head}");
                return Err(self.invalid(&format!("blk.{i}.{part}.{kind}"), &what));
            }
            return Ok(Change::PairRows { head });
        }
        if part == "attn_qkv" && self.class.stored.qkv == QkvRows::Grouped {
            let each = qkv(layer);
            if rows != each.iter().sum::<usize>() || layer.kv_heads == 0 {
                let what = format!("{rows} rows are not queries, keys and values of {each:?}");
                return Err(self.invalid(&format!("blk.{i}.{part}.{kind}"), &what));
            }
            return Ok(Change::Ungroup { groups: layer.kv_heads, rows: each });
        }
        Ok(if self.class.stored.transposed && shape.len() == 2 { Change::Transpose } else { Change::Keep })
    }

    /// Returns whether RoPE pairs other values in GGUF. Rows of all layers are then permuted, as in llama.cpp.
    fn pairs_rows(&self) -> bool {
        let pairs = |layer: &LayerConfig| layer.rope.as_ref().map(|rope| rope.pairs);
        self.config.layers.iter().zip(&self.read.layers).any(|(a, b)| pairs(a) != pairs(b))
    }

    /// Adds the matrices or biases of all experts in a layer.
    fn stack(&mut self, part: &str, i: usize) -> Result<(), Error> {
        let name = format!("blk.{i}.{part}");
        let layer = &self.config.layers[i];
        let (count, ffn, width) = (layer.experts.map_or(0, |e| e.count), layer.ffn, self.config.width);
        let down = part.starts_with("ffn_down");
        let shape = match (part.ends_with(".bias"), down) {
            (true, true) => vec![count, width],
            (true, false) => vec![count, ffn],
            (false, true) => vec![count, width, ffn],
            (false, false) => vec![count, ffn, width],
        };
        let (dtype, parts) = self.model.stack_parts(&name)?;
        self.used.extend(parts);
        self.tensors.push(GgufTensor {
            from: From::Stack(name.clone()),
            name,
            dtype,
            shape,
            change: Change::Keep,
        });
        Ok(())
    }

    /// Adds the divisors of RoPE frequencies as tensors.
    fn divisors(&mut self) -> Result<(), Error> {
        let ropes: Vec<&RopeConfig> =
            self.config.layers.iter().filter_map(|layer| layer.rope.as_ref()).collect();
        let mut numbers = |name: &str, numbers: Vec<f32>| {
            let (name, shape) = (name.to_owned(), vec![numbers.len()]);
            self.tensors.push(GgufTensor {
                name,
                dtype: DType::F32,
                shape,
                from: From::Numbers(numbers),
                change: Change::Keep,
            });
        };
        let Some(first) = ropes.first() else { return Ok(()) };
        match &first.scaling {
            RopeScaling::Llama3 { .. } => numbers("rope_freqs.weight", llama3(first)),
            RopeScaling::LongRope { divisors, .. } => {
                let divisors: &Arc<[Vec<f32>; 2]> = divisors;
                numbers("rope_factors_long.weight", divisors[1].clone());
                numbers("rope_factors_short.weight", divisors[0].clone());
            }
            _ => {}
        }
        let by_tensors = |rope: &&RopeConfig| {
            matches!(rope.scaling, RopeScaling::Llama3 { .. } | RopeScaling::LongRope { .. })
        };
        if ropes.iter().any(by_tensors) && ropes.iter().any(|rope| rope.scaling != first.scaling) {
            let config = self.model.folder().config().file();
            let what = "this type of scaling for some layers only, which GGUF has no key for";
            return Err(Error::invalid(config, "rope_parameters", format!("{what} ({})", self.arch.name)));
        }
        Ok(())
    }
}

/// Returns the numbers of rows of Q, K and V in a fused matrix.
pub(super) fn qkv(layer: &LayerConfig) -> [usize; 3] {
    [layer.heads * layer.head_dim, layer.kv_heads * layer.head_dim, layer.kv_heads * layer.value_dim]
}

/// Computes the divisor of each frequency in Llama 3.1's scaling.
pub(super) fn llama3(rope: &RopeConfig) -> Vec<f32> {
    let plain = Frequencies::new(&RopeConfig { scaling: RopeScaling::None, ..rope.clone() }, None);
    let scaled = Frequencies::new(rope, None);
    plain.values.iter().zip(&scaled.values).map(|(plain, scaled)| (plain / scaled) as f32).collect()
}
