//! [`ToFolder`]: conversion of a GGUF file's model to a Hugging Face folder.

use super::changes::{Change, cast};
use super::gguf_keys::difference;
use super::hf_keys::{self, Facts};
use super::to_gguf::{GLOBAL, llama3, qkv};
use super::{BARE_NAMES, Conversion};
use crate::arch::{ARCHITECTURES, gguf_config, hf_class, hf_model};
use crate::architecture::Architecture;
use crate::config::{LayerConfig, ModelConfig, RopeConfig, RopeScaling};
use crate::error::Error;
use crate::frequencies::Frequencies;
use crate::gliner;
use crate::hf_class::{HfClass, Stack};
use crate::loader::needless;
use crate::modules::dense_paths;
use crate::source_config::config_of;
use crate::stored::QkvRows;
use crate::token_heads;
use leyden_tensor::{DType, FolderFiles, Gguf, HfFile, Json, StackRows, TensorView, WeightSource, quant};
use serde_json::Value;
use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::sync::Arc;

/// Tensors with divisors of RoPE frequencies.
const DIVISORS: &str = "rope_freqs.weight";
const SHORT: &str = "rope_factors_short.weight";
const LONG: &str = "rope_factors_long.weight";

/// Model of a GGUF file as a folder: `config.json` without the tokenizer's keys, and tensors.
#[derive(Debug)]
pub struct ToFolder<'a> {
    source: &'a Gguf,
    config: Value,
    tensors: Vec<FolderTensor>,
}

/// Tensor of the folder.
#[derive(Clone, Debug)]
pub struct FolderTensor {
    /// Name in the folder.
    pub name: String,
    /// Data type in the GGUF file.
    pub dtype: DType,
    /// Shape in the folder, the contiguous dimension last.
    pub shape: Vec<usize>,
    /// File of the folder that contains the tensor.
    pub file: String,
    from: From,
}

/// File of most tensors.
const MAIN: &str = "model.safetensors";

/// Source of a tensor: names in GGUF.
#[derive(Clone, Debug)]
enum From {
    /// Tensor with this change to revert.
    Tensor(String, Change),
    /// Expert of an expert stack, by its index.
    Expert(String, usize),
    /// For each expert, the rows of the first tensor, then those of the second; with the number of experts.
    Both([String; 2], usize),
}

impl<'a> ToFolder<'a> {
    /// Plans the conversion of a model. Values of tensors are not read, except RoPE divisors.
    ///
    /// # Errors
    /// Models of this architecture are not converted, no class can express the file's metadata, or a tensor has no
    /// name in folders. The error names the file and the key or tensor.
    pub fn new(source: &'a Gguf) -> Result<ToFolder<'a>, Error> {
        let file = source.metadata().file();
        if let Some(json) = source.config_json() {
            return ToFolder::of_files(source, json);
        }
        let config = gguf_config(source.metadata())?;
        let known = ARCHITECTURES.iter().find(|arch| arch.name == config.architecture);
        let arch = known.ok_or_else(|| Error::invalid(file, "general.architecture", "is not known"))?;
        let refused = |why: &str| {
            let what =
                format!("models of the architecture {} are not converted to folders: {why}", arch.name);
            Error::invalid(file, "general.architecture", what)
        };
        match arch.conversion {
            Conversion::Both => {}
            Conversion::ToGguf(why) | Conversion::None(why) => return Err(refused(why)),
        }
        if !config.generates() {
            return Err(refused(
                "encoders, embedding models and classifiers need the key leyden.folder.config, which leyden writes",
            ));
        }
        let facts = facts(source, &config)?;
        let mut why = None;
        // Classes with experts have expert stacks.
        let fits = |class: &&HfClass| class.stacks.is_empty() != config.experts().is_some();
        let mut classes: Vec<&HfClass> = arch.hf.iter().filter(fits).collect();
        // If classes differ in a shared expert, the last one has it.
        if config.experts().is_some_and(|experts| experts.shared.is_some()) {
            classes.reverse();
        }
        for class in classes {
            match hf_keys::describe(arch, class, &config, &facts, |read| difference(read, &config)) {
                Ok((description, read)) => {
                    let plan =
                        Plan { source, arch, class, config: &config, read: &read, facts: &facts, own: None };
                    return Ok(ToFolder { source, config: description, tensors: plan.collect()? });
                }
                Err(error) => why = why.or(Some(error)),
            }
        }
        let why = why.map_or_else(|| "no class fits".to_owned(), |error| error.to_string());
        Err(refused(&why))
    }

    /// Plans the conversion of a file that embeds the configuration files of its folder.
    fn of_files(source: &'a Gguf, json: &Json) -> Result<ToFolder<'a>, Error> {
        let (arch, class) = hf_class(json)?;
        let (read, ..) = hf_model(json)?;
        let config = config_of(source)?;
        let named = json.opt_array_str("architectures")?.unwrap_or_default();
        let files = FolderFiles::of(source.metadata())?.unwrap_or_default();
        let modules =
            files.text(HfFile::Modules.name()).map(|text| dense_paths(text.as_bytes(), json.file()));
        // transformers saves a headless body without the prefix.
        let usual = named.iter().any(|name| name.ends_with("Model")) && config.spans.is_none();
        let own = Naming {
            bare: source.metadata().opt_bool(BARE_NAMES)?.unwrap_or(usual),
            dense: modules.transpose()?.unwrap_or_default(),
            spans: config.spans.is_some(),
        };
        let facts = facts(source, &config)?;
        let own = Some(own);
        let plan = Plan { source, arch, class, config: &config, read: &read, facts: &facts, own };
        let tensors = plan.collect()?;
        Ok(ToFolder { source, config: Value::Object(json.object().clone()), tensors })
    }

    /// Returns `config.json` without the tokenizer's keys.
    #[must_use]
    pub fn config(&self) -> &Value {
        &self.config
    }

    /// Returns the tensors.
    #[must_use]
    pub fn tensors(&self) -> &[FolderTensor] {
        &self.tensors
    }

    /// Returns the values of a tensor in a float type.
    ///
    /// # Errors
    /// The file's tensor cannot be read, or its size does not match the shape.
    pub fn values(&self, tensor: &FolderTensor, to: DType) -> Result<Vec<u8>, Error> {
        let unfit = || {
            let what = format!("the file's tensors do not make the shape {:?}", tensor.shape);
            Error::invalid(&self.source.path().display().to_string(), &tensor.name, what)
        };
        let made = match &tensor.from {
            From::Tensor(name, change) => {
                let view = self.source.require(name)?;
                // Subtract the offset before rounding.
                let between = if matches!(change, Change::Add(_)) { DType::F32 } else { to };
                let values = change.back(between, &tensor.shape, cast(&view, between));
                self.source.advise_dontneed(name, 0..view.bytes().len());
                if between == to || view.shape() != tensor.shape {
                    values
                } else {
                    cast(&TensorView::new(name, between, view.shape(), &values)?, to)
                }
            }
            From::Expert(name, i) => {
                let view = self.source.require(name)?;
                let count = view.shape().first().copied().unwrap_or(1).max(1);
                let size = view.bytes().len() / count;
                let one = view.bytes().get(i * size..(i + 1) * size).ok_or_else(unfit)?;
                let made = cast(&TensorView::new(name, view.dtype(), &tensor.shape, one)?, to);
                self.source.advise_dontneed(name, i * size..(i + 1) * size);
                made
            }
            From::Both(names, count) => {
                let [a, b] =
                    [self.source.require(&names[0])?, self.source.require(&names[1])?].map(|v| cast(&v, to));
                let halves = |bytes: &[u8]| (bytes.len() / count).max(1);
                let pairs = a.chunks_exact(halves(&a)).zip(b.chunks_exact(halves(&b)));
                pairs.flat_map(|(a, b)| [a, b]).flatten().copied().collect()
            }
        };
        let last = tensor.shape.last().copied().unwrap_or(1);
        let rows = tensor.shape.iter().rev().skip(1).product::<usize>();
        if to.row_bytes(last).map(|bytes| bytes * rows) == Some(made.len()) { Ok(made) } else { Err(unfit()) }
    }
}

impl FolderTensor {
    /// Returns true for a matrix of a layer in the folder's own order, which readers also take sparse. Embeddings, norms,
    /// heads and transposed matrices are none.
    #[must_use]
    pub fn is_layer_matrix(&self) -> bool {
        let of_layer = |name: &str| name.starts_with("blk.");
        let is_matrix = self.shape.len() == 2 && self.name.ends_with(".weight");
        is_matrix
            && match &self.from {
                From::Tensor(name, Change::Keep | Change::PairRows { .. } | Change::Ungroup { .. }) => {
                    of_layer(name)
                }
                From::Tensor(..) | From::Both(..) => false,
                From::Expert(name, _) => of_layer(name),
            }
    }

    /// Returns the data type to write: `wanted`, or without it, F32, F16 and BF16 unchanged and F16 for others.
    #[must_use]
    pub fn written_as(&self, wanted: Option<DType>) -> DType {
        match (wanted, self.dtype) {
            (Some(wanted), _) => wanted,
            (None, kept @ (DType::F32 | DType::F16 | DType::BF16)) => kept,
            (None, _) => DType::F16,
        }
    }
}

/// Reads the properties that tensors imply.
fn facts(source: &Gguf, config: &ModelConfig) -> Result<Facts, Error> {
    let names = source.tensor_names();
    let biased = names.iter().filter_map(|name| {
        let part =
            name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')).map_or(*name, |(_, part)| part);
        let part = part.strip_suffix(".bias")?;
        (!part.ends_with("_exps") && part != "exp_probs_b").then(|| part.to_owned())
    });
    let mut biases: Vec<String> = biased.collect();
    biases.sort();
    biases.dedup();
    Ok(Facts {
        vocabulary: source.require("token_embd.weight")?.rows(),
        tied: source.optional("output.weight")?.is_none(),
        biases,
        two_norms: source.optional("blk.0.attn_norm_2.weight")?.is_some(),
        qk_norm: source.optional("blk.0.attn_q_norm.weight")?.is_some(),
        scaling: scaling(source, config)?,
    })
}

/// Reads the RoPE scaling from tensors, in the form of a folder's configuration.
fn scaling(source: &Gguf, config: &ModelConfig) -> Result<Option<RopeScaling>, Error> {
    let Some(rope) = config.layers.iter().find_map(|layer| layer.rope.as_ref()) else { return Ok(None) };
    let numbers = |name: &str| -> Result<Option<Vec<f32>>, Error> {
        let Some(view) = source.optional(name)? else { return Ok(None) };
        let mut out = vec![0.0; view.shape().iter().product()];
        quant::decode_row(view.dtype(), view.bytes(), &mut out);
        Ok(Some(out))
    };
    if let RopeScaling::LongRope { original_context, .. } = rope.scaling {
        let (Some(short), Some(long)) = (numbers(SHORT)?, numbers(LONG)?) else {
            let what = "is missing, and the rotation is scaled by it";
            return Err(Error::invalid(source.metadata().file(), SHORT, what));
        };
        let (divisors, attention) = (Arc::new([short, long]), f64::from(rope.magnitude));
        return Ok(Some(RopeScaling::LongRope { original_context, divisors, attention }));
    }
    let Some(found) = numbers(DIVISORS)? else { return Ok(None) };
    if let Some(scaling) = llama3_of(rope, &found, config.context) {
        return Ok(Some(scaling));
    }
    let what = "is not a scaling like Llama 3.1's, and config.json has no key for it";
    Err(Error::invalid(source.metadata().file(), DIVISORS, what))
}

/// Returns parameters of Llama 3.1's scaling that give these divisors, if any do. Original context and two bounds are
/// three parameters for two degrees of freedom: the usual values are tried first, then bounds for the usual context.
fn llama3_of(rope: &RopeConfig, found: &[f32], context: usize) -> Option<RopeScaling> {
    const USUAL: usize = 8192;
    let factor = found.iter().copied().fold(1.0, f32::max);
    let mut tried = vec![(1.0, 4.0, USUAL), (1.0, 4.0, context)];
    let plain = Frequencies::new(&RopeConfig { scaling: RopeScaling::None, ..rope.clone() }, None).values;
    // Fraction of each frequency that is kept: between the bounds, linear in the frequency.
    let kept = |divisor: f32| {
        (f64::from(divisor).recip() - f64::from(factor).recip()) / (1.0 - f64::from(factor).recip())
    };
    let points: Vec<(f64, f64)> = plain.iter().zip(found).map(|(f, d)| (*f, kept(*d))).collect();
    let ramp: Vec<(f64, f64)> =
        points.iter().copied().filter(|(_, kept)| (0.001..0.999).contains(kept)).collect();
    // Frequencies at which the line is 0 and 1.
    let bounds: Vec<(f64, f64)> = match ramp[..] {
        [] => {
            let last_kept = points.iter().rev().find(|point| point.1 > 0.5).map(|point| point.0);
            let first_divided = points.iter().find(|point| point.1 <= 0.5).map(|point| point.0);
            last_kept.zip(first_divided).map(|(kept, divided)| (divided, kept)).into_iter().collect()
        }
        // With a steep line, only this frequency is between the bounds.
        [(f, kept)] => {
            [0.5, 0.1, 0.01].map(|part| (f * (1.0 - part), f * (1.0 - part + part / kept))).to_vec()
        }
        [first, .., last] => {
            let slope = (first.1 - last.1) / (first.0 - last.0);
            let at_zero = first.0 - first.1 / slope;
            vec![(at_zero, at_zero + slope.recip())]
        }
    };
    let turns = |f: f64| (f * USUAL as f64 / TAU) as f32;
    tried.extend(bounds.into_iter().map(|(low, high)| (turns(low), turns(high), USUAL)));
    let fits = |&(low, high, original_context): &(f32, f32, usize)| {
        let scaling = RopeScaling::Llama3 { factor, low, high, original_context };
        let made = llama3(&RopeConfig { scaling, ..rope.clone() });
        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * b.abs();
        low > 0.0 && high > low && made.len() == found.len() && made.iter().zip(found).all(near)
    };
    let (low, high, original_context) = tried.into_iter().find(fits)?;
    Some(RopeScaling::Llama3 { factor, low, high, original_context })
}

/// Plan of the folder's tensors.
struct Plan<'a> {
    source: &'a Gguf,
    arch: &'static Architecture,
    class: &'static HfClass,
    config: &'a ModelConfig,
    /// Configuration as read back from the folder.
    read: &'a ModelConfig,
    facts: &'a Facts,
    /// Tensor naming of the original folder, for a file that embeds its configuration files.
    own: Option<Naming>,
}

/// Tensor naming of a folder, by its files.
struct Naming {
    /// True if names lack the class's prefix.
    bare: bool,
    /// Folders of the dense modules after pooling.
    dense: Vec<String>,
    /// True if the model is the encoder of GLiNER.
    spans: bool,
}

impl Naming {
    /// Returns name and file of a tensor outside the transformer.
    fn beside(&self, name: &str) -> Option<(String, String)> {
        if let Some(theirs) = gliner::tensor_name(name) {
            return Some((theirs, MAIN.to_owned()));
        }
        if let Some((theirs, file)) = token_heads::place(name) {
            return Some((theirs, file));
        }
        let (number, kind) = name.strip_prefix("dense_")?.split_once('.')?;
        let folder = self.dense.get(number.parse::<usize>().ok()?.checked_sub(2)?)?;
        Some((format!("linear.{kind}"), format!("{folder}/{MAIN}")))
    }
}

impl Plan<'_> {
    fn collect(&self) -> Result<Vec<FolderTensor>, Error> {
        // In the order of the file; a tensor made of several is at the position of the first of them.
        let mut tensors: BTreeMap<(usize, String), FolderTensor> = BTreeMap::new();
        for (at, name) in self.source.tensor_names().into_iter().enumerate() {
            if [DIVISORS, SHORT, LONG].contains(&name) || needless(name, self.config) {
                continue;
            }
            let made = self.of(name)?;
            if made.is_empty() {
                let what = format!("has no name in folders of the type {}", self.class.model_type);
                return Err(self.invalid(name, &what));
            }
            for tensor in made {
                // Modules have files of their own, with the same names in them.
                if !tensors.values().any(|known| known.name == tensor.name && known.file == tensor.file) {
                    tensors.insert((at, tensor.name.clone()), tensor);
                }
            }
        }
        Ok(tensors.into_values().collect())
    }

    fn invalid(&self, name: &str, what: &str) -> Error {
        Error::invalid(&self.source.path().display().to_string(), name, what)
    }

    /// Returns the folder's tensors for a tensor of the file.
    fn of(&self, name: &str) -> Result<Vec<FolderTensor>, Error> {
        if let Some((called, file)) = self.own.as_ref().and_then(|own| own.beside(name)) {
            let view = self.source.require(name)?;
            let (dtype, shape) = (view.dtype(), view.shape().to_vec());
            let from = From::Tensor(name.to_owned(), Change::Keep);
            return Ok(vec![FolderTensor { name: called, dtype, shape, file, from }]);
        }
        let (layer, rest) = match name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
            Some((i, rest)) => (i.parse::<usize>().ok().filter(|i| *i < self.config.layers.len()), rest),
            None => (None, name),
        };
        if let Some(i) = layer
            && let Some((part, stack)) = self.class.stacks.iter().find(|row| row.0 == rest)
        {
            return self.stack(name, i, part, stack);
        }
        let Some((part, kind)) = rest.rsplit_once('.') else { return Ok(Vec::new()) };
        let view = self.source.require(name)?;
        // The name in the class's table.
        let renamed = self.class.in_gguf.iter().find(|row| row.1 == part).map_or(part, |row| row.0);
        let both = matches!(part, "ffn_gate_shexp" | "ffn_up_shexp") && !self.names("ffn_gate_shexp");
        let wanted = if both { "ffn_up_shexp" } else { renamed };
        let Some(called) = self.name(wanted, kind, layer) else { return Ok(Vec::new()) };
        let (dtype, mut shape) = (view.dtype(), view.shape().to_vec());
        if both {
            let i = layer.unwrap_or_default();
            let names = ["gate", "up"].map(|part| format!("blk.{i}.ffn_{part}_shexp.{kind}"));
            shape[0] *= 2;
            return Ok(vec![FolderTensor {
                name: called,
                dtype,
                shape,
                file: MAIN.to_owned(),
                from: From::Both(names, 1),
            }]);
        }
        if part == "ffn_gate_inp_shexp" && shape.len() == 1 {
            shape.insert(0, 1);
        }
        let change = self.change(name, part, kind, layer, &shape)?;
        let shape = match change {
            Change::DropRows(count) => [&[shape[0] + count][..], &shape[1..]].concat(),
            _ => change.shape(&shape),
        };
        let file = MAIN.to_owned();
        Ok(vec![FolderTensor {
            name: called,
            dtype,
            shape,
            file,
            from: From::Tensor(name.to_owned(), change),
        }])
    }

    /// Returns the backbone prefix: the prefix of all tensor names but the head's.
    fn prefix(&self) -> &'static str {
        match &self.own {
            Some(own) if own.spans => gliner::ENCODER,
            Some(own) if own.bare => "",
            _ => self.class.prefix,
        }
    }

    /// Returns whether the class has a name for this GGUF name.
    fn names(&self, part: &str) -> bool {
        self.class.tensors.iter().any(|row| row.0 == part)
    }

    /// Returns the name in the folder for this GGUF name.
    fn name(&self, part: &str, kind: &str, layer: Option<usize>) -> Option<String> {
        let class = self.class;
        if let (None, Some((_, name))) = (layer, class.head.iter().find(|row| row.0 == part)) {
            return Some(format!("{name}.{kind}"));
        }
        if self.own.is_none() && layer.is_none() != GLOBAL.contains(&part) {
            return None;
        }
        let prefix = self.prefix();
        let at = layer.map_or_else(|| prefix.to_owned(), |i| format!("{prefix}{}.{i}.", class.layers));
        let whole = format!("{part}.{kind}");
        if let Some((_, name)) = class.tensors.iter().find(|row| row.0 == whole) {
            return Some(format!("{at}{name}"));
        }
        let mut names = class.tensors.iter().filter(|row| row.0 == part).map(|row| row.1);
        let chosen = class.written.iter().find(|row| row.0 == part).map(|row| row.1);
        // Falcon's attention norm in models with two norms.
        let last = (part == "attn_norm" && self.facts.two_norms).then(|| names.clone().next_back()).flatten();
        let name = chosen.or(last).or_else(|| names.next())?;
        Some(format!("{at}{name}.{kind}"))
    }

    /// Returns the change that was applied to a tensor for GGUF.
    fn change(
        &self,
        name: &str,
        part: &str,
        kind: &str,
        layer: Option<usize>,
        shape: &[usize],
    ) -> Result<Change, Error> {
        if part.contains("norm") {
            let offset = self.read.norm.offset;
            return Ok(if kind == "weight" && offset != 0.0 { Change::Add(offset) } else { Change::Keep });
        }
        let Some(i) = layer else {
            let first = self.read.learned_positions.filter(|_| self.own.is_some() && part == "position_embd");
            return Ok(first.filter(|rows| *rows > 0).map_or(Change::Keep, Change::DropRows));
        };
        let layer = &self.config.layers[i];
        let rows = shape.first().copied().unwrap_or(0);
        let pairs = |layer: &LayerConfig| layer.rope.as_ref().map(|rope| rope.pairs);
        let differ = self.config.layers.iter().zip(&self.read.layers).any(|(a, b)| pairs(a) != pairs(b));
        let heads = match part {
            "attn_q" => Some(layer.heads),
            "attn_k" => Some(layer.kv_heads),
            _ => None,
        };
        if let Some(heads) = heads.filter(|_| differ) {
            let head = layer.head_dim;
            if rows != heads * head || !head.is_multiple_of(2) {
                return Err(self.invalid(name, &format!("{rows} rows are not {heads} heads of {head}")));
            }
            return Ok(Change::PairRows { head });
        }
        if part == "attn_qkv" && self.class.stored.qkv == QkvRows::Grouped {
            let each = qkv(layer);
            if rows != each.iter().sum::<usize>() || layer.kv_heads == 0 {
                let what = format!("{rows} rows are not queries, keys and values of {each:?}");
                return Err(self.invalid(name, &what));
            }
            return Ok(Change::Ungroup { groups: layer.kv_heads, rows: each });
        }
        Ok(if self.class.stored.transposed && shape.len() == 2 { Change::Transpose } else { Change::Keep })
    }

    /// Returns the folder's tensors for an expert stack.
    fn stack(&self, name: &str, i: usize, part: &str, stack: &Stack) -> Result<Vec<FolderTensor>, Error> {
        let view = self.source.require(name)?;
        let [count, rows, k] = *view.shape() else {
            return Err(self.invalid(name, "want [experts, rows, k]"));
        };
        let at = format!("{}{}.{i}.", self.prefix(), self.class.layers);
        let dtype = view.dtype();
        let one = |e: usize, called: &str| FolderTensor {
            name: format!("{at}{}", called.replace("{}", &e.to_string())),
            dtype,
            shape: vec![rows, k],
            file: MAIN.to_owned(),
            from: From::Expert(name.to_owned(), e),
        };
        match stack {
            Stack::Each(called) => Ok((0..count).map(|e| one(e, called)).collect()),
            Stack::Rows(called, StackRows::All) => Ok(vec![FolderTensor {
                name: format!("{at}{called}"),
                dtype,
                shape: view.shape().to_vec(),
                file: MAIN.to_owned(),
                from: From::Tensor(name.to_owned(), Change::Keep),
            }]),
            Stack::Rows(called, StackRows::First | StackRows::Second) => {
                let names = ["gate", "up"].map(|part| format!("blk.{i}.ffn_{part}_exps.weight"));
                let (name, shape) = (format!("{at}{called}"), vec![count, 2 * rows, k]);
                Ok(vec![FolderTensor {
                    name,
                    dtype,
                    shape,
                    file: MAIN.to_owned(),
                    from: From::Both(names, count),
                }])
            }
            _ => Err(self.invalid(part, &format!("has another layout in folders of {}", self.arch.name))),
        }
    }
}
