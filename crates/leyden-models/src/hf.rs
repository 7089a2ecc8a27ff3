//! [`HfModel`]: a Hugging Face folder as a source of weights.
//!
//! Loader and layers request tensors by GGUF's names, which are mapped here to the names in the files. Listings and
//! views keep the names in the files, so that every message names a tensor that the user can find there.

use crate::arch::hf_model;
use crate::config::{ModelConfig, NormKind};
use crate::error::Error;
use crate::gliner::{self, Gliner};
use crate::hf_class::{HfClass, Stack};
use crate::input_form::InputForm;
use crate::modules::{MAX_TOKENS, Modules};
use crate::onnx::OnnxTensors;
use crate::prompts::Prompts;
use crate::vector_form::VectorForm;
use leyden_tensor::{
    DType, HfFile, HfFolder, HfQuantised, Json, Metadata, OwnedTensor, Run, Safetensors, StackRows, Stacked,
    TensorInfo, TensorView, Value, WeightSource,
};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

/// GGUF names of the embedding matrix and the output matrix, which may be tied.
const EMBEDDING: &str = "token_embd.weight";
const HEAD: &str = "output.weight";

/// Current and old suffixes of norm tensors. Checkpoints converted from TensorFlow, and some others, have the old
/// ones.
const OLD_NORMS: [(&str, &str); 2] =
    [("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")];

/// Folder with `config.json` and weights of a supported architecture: safetensors, or an ONNX model of a supported
/// encoder.
#[derive(Debug)]
pub struct HfModel {
    folder: HfFolder,
    class: &'static HfClass,
    /// GGUF names of the matrices and norms that have biases.
    biases: Vec<&'static str>,
    /// Number of experts in a mixture layer; 0 without experts.
    experts: usize,
    /// True if the files have only the output matrix, which is also the embedding matrix.
    only_head: bool,
    /// True if the tensors' names lack the class's prefix because the bare model was saved without a head, as
    /// published embedding models are. transformers adds the prefix, too.
    bare: bool,
    /// True if norm tensors have their old names.
    old_norms: bool,
    metadata: Metadata,
    /// Modules of sentence-transformers after the model.
    modules: Modules,
    /// Quantisation of the matrices, if any.
    quantised: Option<HfQuantised>,
    /// Weights of an ONNX model, which replace the folder's weights.
    graph: Option<OnnxTensors>,
    /// Span head of a GLiNER model.
    gliner: Option<Gliner>,
    /// Unknown keys of files other than `config.json`.
    unread: Vec<String>,
}

/// Settings for texts and embeddings from files other than `config.json`.
struct Settings {
    form: InputForm,
    vectors: VectorForm,
    prompts: Prompts,
    unread: Vec<String>,
}

impl Settings {
    fn of_folder(
        folder: &HfFolder,
        config: &ModelConfig,
        modules: &Modules,
        is_gliner: bool,
    ) -> Result<Settings, Error> {
        // GLiNER limits texts by words, not by tokens.
        let sentence = !is_gliner && (modules.listed || config.needs_whole_texts());
        let form = InputForm::of_folder(folder, sentence)?;
        let (vectors, unread) = VectorForm::of_folder(folder)?;
        let vectors = VectorForm { unit: modules.unit, ..vectors };
        let prompts = Prompts::of_folder(folder)?;
        if config.classifier().is_some() {
            let refused = |file: &str, key: &str| {
                let file = folder.path().join(file).display().to_string();
                Err(Error::invalid(&file, key, "is not supported for classification models"))
            };
            if form.message.is_some() {
                return refused("sentence_bert_config.json", "modality_config.message");
            }
            if prompts.get(None).is_some_and(|prompt| !prompt.is_empty()) {
                return refused(HfFile::SentenceTransformers.name(), "default_prompt_name");
            }
        }
        let file = HfFile::SentenceTransformers.name();
        let unread = unread.into_iter().map(|key| format!("{file}: {key}")).collect();
        Ok(Settings { form, vectors, prompts, unread })
    }
}

impl HfModel {
    /// Opens a folder and checks its configuration.
    ///
    /// # Errors
    /// A file is missing or not valid, the architecture or an option of the configuration is not supported, or the
    /// embedding or output matrix does not match the configuration. The error names the file and the key or tensor.
    pub fn open(path: &Path) -> Result<HfModel, Error> {
        HfModel::new(HfFolder::open(path)?)
    }

    /// Creates a model from an open folder.
    ///
    /// # Errors
    /// As [`open`](Self::open), except for missing or invalid files.
    pub fn new(folder: HfFolder) -> Result<HfModel, Error> {
        let json = folder.config();
        gliner::refuse_gliner2(json)?;
        let (config, class, biases) = hf_model(json)?;
        let quantised = HfQuantised::of(json)?;
        let modules = Modules::of_folder(&folder)?;
        let gliner = Gliner::of_folder(&folder)?;
        let settings = Settings::of_folder(&folder, &config, &modules, gliner.is_some())?;
        let of_gliner = gliner.iter().flat_map(|gliner| &gliner.unread);
        let of_gliner = of_gliner.map(|key| format!("{}: {key}", HfFile::Gliner.name()));
        let unread = settings.unread.iter().cloned().chain(of_gliner).collect();
        let label = folder.path().display().to_string();
        let metadata = describe(&label, &config, settings, &modules, gliner.as_ref())?;
        if folder.onnx().is_some() && modules.splade.is_some() {
            let file = folder.path().join(HfFile::Modules.name()).display().to_string();
            return Err(Error::invalid(&file, "SpladePooling", "is not computed of an ONNX model"));
        }
        let graph = folder.onnx().map(|onnx| OnnxTensors::new(onnx, &config, json)).transpose()?;
        let old_norms = folder.weights().tensor_names().iter().any(|name| name.ends_with(OLD_NORMS[0].1));
        let (only_head, bare) = (false, false);
        let experts = config.experts().map_or(0, |e| e.count);
        let mut model = HfModel {
            class,
            biases,
            experts,
            only_head,
            bare,
            old_norms,
            metadata,
            modules,
            quantised,
            graph,
            gliner,
            unread,
            folder,
        };
        let [bare, whole] = [true, false].map(|bare| {
            model.bare = bare;
            model.optional(EMBEDDING).map(|found| found.is_some())
        });
        model.bare = bare? && !whole?;
        if let Some(gliner) = &model.gliner {
            gliner.check_vocabulary(model.require(EMBEDDING)?.rows())?;
        }
        if config.generates() {
            model.tie()?;
        }
        let table = model.require(EMBEDDING)?;
        if let Some(wanted) = model.folder.config().opt_usize("vocab_size")?
            && wanted != table.rows()
        {
            let what = format!("{wanted} differs from the {} rows of {}", table.rows(), table.name());
            return Err(Error::invalid(model.folder.config().file(), "vocab_size", what));
        }
        Ok(model)
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &HfFolder {
        &self.folder
    }

    /// Returns true if tensor names lack the backbone prefix.
    pub(crate) fn has_bare_names(&self) -> bool {
        self.bare
    }

    /// Returns true if the folder has settings of sentence-transformers for pooling.
    pub(crate) fn is_for_vectors(&self) -> bool {
        self.modules.listed || self.modules.pooling.is_some()
    }

    /// Sets `only_head`, depending on which of the embedding and output matrices the files have. If both are present,
    /// both are used whatever the configuration says, as in transformers.
    fn tie(&mut self) -> Result<(), Error> {
        let key = "tie_word_embeddings";
        let json = self.folder.config();
        let tied = json.opt_bool(key)?.unwrap_or(self.class.tied);
        let embedding = self.optional(EMBEDDING)?.is_some();
        let head = self.is_composed(HEAD) || self.optional(HEAD)?.is_some();
        if !head && !tied {
            let name = self.name(HEAD).unwrap_or_default();
            let what = format!("is not true, but the weights lack {name}");
            return Err(Error::invalid(json.file(), key, what));
        }
        self.only_head = !embedding && head && tied;
        Ok(())
    }

    /// Returns the folder's weights under their names in the files.
    #[must_use]
    pub fn weights(&self) -> &dyn WeightSource {
        self.folder.weights()
    }

    fn files(&self) -> Option<&Safetensors> {
        self.folder.safetensors().map(AsRef::as_ref)
    }

    /// Returns the weights and the quantisation of the matrix with this name in the files; `None` if it is not
    /// quantised.
    fn quantised(&self, name: &str) -> Option<(&Safetensors, HfQuantised)> {
        let found = self.files().zip(self.quantised);
        found.filter(|(files, quantised)| quantised.holds(files, name))
    }

    fn is_quantised(&self, name: &str) -> bool {
        self.quantised(name).is_some()
    }

    /// Returns the backbone prefix of the tensor names; empty if they lack it.
    fn prefix(&self) -> &'static str {
        match &self.gliner {
            Some(_) => gliner::ENCODER,
            None if self.bare => "",
            None => self.class.prefix,
        }
    }

    /// Returns the expert stack with this GGUF name as the prefix of its layer's tensor names, the GGUF name without
    /// the layer, and the source of its matrices.
    fn stack(&self, name: &str) -> Option<(String, &'static str, &'static Stack)> {
        let (i, part) = name.strip_prefix("blk.")?.split_once('.')?;
        let (part, stack) = self.class.stacks.iter().find(|row| row.0 == part)?;
        let prefix = self.prefix();
        Some((format!("{prefix}{}.{i}.", self.class.layers), part, stack))
    }

    /// Returns the names of the matrices of all experts in a stack.
    fn expert_names(&self, layer: &str, name: &str) -> Vec<String> {
        (0..self.experts).map(|e| format!("{layer}{}", name.replace("{}", &e.to_string()))).collect()
    }

    /// Returns the data type of the expert stack with this GGUF name, and the names of the tensors in the files that it
    /// consists of. Quantised matrices are refused, except MXFP4.
    pub(crate) fn stack_parts(&self, name: &str) -> Result<(DType, Vec<String>), Error> {
        let Some((layer, part, stack)) = self.stack(name) else {
            return Err(Error::invalid(
                &self.path().display().to_string(),
                name,
                "is not a stack of matrices",
            ));
        };
        let weights = self.weights();
        match stack {
            Stack::Each(each) => {
                let names = self.expert_names(&layer, each);
                if names.first().is_some_and(|name| self.is_quantised(name)) {
                    let what = "is quantised; folders of F32, F16 and BF16 are converted";
                    return Err(Error::invalid(&self.path().display().to_string(), part, what));
                }
                let first = names.first().map(|name| weights.require(name)).transpose()?;
                Ok((first.map_or(DType::F32, |view| view.dtype()), names))
            }
            Stack::Rows(name, _) | Stack::Columns(name, _) => {
                let name = format!("{layer}{name}");
                let quantised = ["blocks", "scales"].map(|kind| format!("{name}_{kind}"));
                if self.files().is_some_and(|files| files.raw(&quantised[0]).is_some()) {
                    return Ok((DType::MXFP4, quantised.to_vec()));
                }
                Ok((weights.require(&name)?.dtype(), vec![name]))
            }
        }
    }

    /// Returns the name in the files of the tensor with this GGUF name; `None` if the architecture has no such
    /// tensor.
    fn name(&self, gguf: &str) -> Option<String> {
        if let Some(name) = self.gliner.as_ref().and_then(|_| gliner::tensor_name(gguf)) {
            return Some(name);
        }
        let gguf = if self.only_head && gguf == EMBEDDING { HEAD } else { gguf };
        let (layer, part) = match gguf.strip_prefix("blk.") {
            Some(rest) => rest.split_once('.').map(|(i, part)| (Some(i), part))?,
            None => (None, gguf),
        };
        let prefix = self.prefix();
        // A row may have the whole name, including the part after the last dot.
        if let (Some(i), Some((_, name))) = (layer, self.class.tensors.iter().find(|row| row.0 == part)) {
            return Some(format!("{prefix}{}.{i}.{name}", self.class.layers));
        }
        let (part, kind) = part.rsplit_once('.')?;
        if kind == "bias" && !self.biases.contains(&part) {
            return None;
        }
        let find = |table: &'static [(&str, &'static str)]| {
            table.iter().filter(|row| row.0 == part).map(|row| row.1)
        };
        let mut names = find(self.class.tensors).map(|name| match layer {
            Some(i) => format!("{prefix}{}.{i}.{name}.{kind}", self.class.layers),
            None => format!("{prefix}{name}.{kind}"),
        });
        let name = match (layer, find(self.class.head).next()) {
            (None, Some(name)) => format!("{name}.{kind}"),
            _ => {
                let first = names.next()?;
                let raw = |name: &String| self.files().is_some_and(|files| files.raw(name).is_some());
                let has = |name: &String| self.is_quantised(name) || raw(name);
                // Check for presence only if the class has several names for the tensor.
                match names.next() {
                    Some(second) if !has(&first) => {
                        std::iter::once(second).chain(names).find(has).unwrap_or(first)
                    }
                    _ => first,
                }
            }
        };
        let old = OLD_NORMS.iter().find(|(new, _)| self.old_norms && name.ends_with(new));
        Some(old.map_or(name.clone(), |(new, old)| name.replace(new, old)))
    }
}

impl WeightSource for HfModel {
    /// Returns the main sizes under GGUF's keys. The full configuration is
    /// [`config_json`](WeightSource::config_json).
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn config_json(&self) -> Option<&Json> {
        Some(self.folder.config())
    }

    fn unread_keys(&self) -> &[String] {
        &self.unread
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the paths of the weights, then those of the modules' weights, which
    /// [`tensor_info`](WeightSource::tensor_info) does not list.
    fn paths(&self) -> Vec<&Path> {
        self.weights().paths().into_iter().chain(self.modules.weights().flat_map(|w| w.paths())).collect()
    }

    fn file_metadata(&self) -> io::Result<Vec<fs::Metadata>> {
        let mut all = self.weights().file_metadata()?;
        for weights in self.modules.weights() {
            all.extend(weights.file_metadata()?);
        }
        Ok(all)
    }

    fn tensor_info(&self) -> &[TensorInfo] {
        match &self.graph {
            Some(graph) => graph.infos(),
            None => self.weights().tensor_info(),
        }
    }

    /// Returns all tensors except those that do not affect results.
    fn tensor_names(&self) -> Vec<&str> {
        if let Some(graph) = &self.graph {
            return graph.infos().iter().map(|info| info.name.as_str()).collect();
        }
        let prefix = if self.gliner.is_some() { gliner::ENCODER } else { self.class.prefix };
        let unused = self.class.unused;
        let needed = |name: &&str| {
            let rest = name.strip_prefix(prefix).unwrap_or(name);
            // The name within a layer, after the layer's number.
            let layer = rest.strip_prefix(self.class.layers).and_then(|rest| rest.strip_prefix('.'));
            let part = layer.and_then(|rest| rest.split_once('.')).map_or(rest, |(_, part)| part);
            let needless = self.files().zip(self.quantised.as_ref());
            !unused.iter().any(|begin| rest.starts_with(begin) || part.starts_with(begin))
                && !needless.is_some_and(|(files, quantised)| quantised.is_needless(files, name))
        };
        self.weights().tensor_names().into_iter().filter(needed).collect()
    }

    fn composed(
        &self,
        name: &str,
        shape: &[usize],
        run: &Run<'_>,
    ) -> Result<Option<OwnedTensor>, leyden_tensor::Error> {
        if let Some(graph) = &self.graph {
            return Ok(graph.composed(name));
        }
        let quantised = |called: &str, names: Vec<String>| {
            let found = names.first().and_then(|name| self.quantised(name));
            found.map(|(files, quantised)| quantised.compose(files, called, &names, shape, run)).transpose()
        };
        let Some(files) = self.files() else { return Ok(None) };
        let Some((layer, part, stack)) = self.stack(name) else {
            let Some(found) = self.name(name) else { return Ok(None) };
            return quantised(&found, vec![found.clone()]);
        };
        let called = format!("{layer}{part}");
        let (stacked, rows) = match stack {
            Stack::Each(name) => {
                let names = self.expert_names(&layer, name);
                if let Some(found) = quantised(&called, names.clone())? {
                    return Ok(Some(found));
                }
                (Stacked::Each(names), StackRows::All)
            }
            Stack::Rows(name, rows) => (Stacked::Rows(format!("{layer}{name}")), *rows),
            Stack::Columns(name, rows) => {
                let name = format!("{layer}{name}");
                let quantised = files.raw(&format!("{name}_blocks")).is_some();
                (if quantised { Stacked::Mxfp4(name) } else { Stacked::Columns(name) }, *rows)
            }
        };
        files.compose(&called, &stacked, rows).map(Some)
    }

    fn is_composed(&self, name: &str) -> bool {
        if let Some(graph) = &self.graph {
            return graph.is_composed(name);
        }
        self.stack(name).is_some() || self.name(name).is_some_and(|name| self.is_quantised(&name))
    }

    /// Returns a tensor by its GGUF name. A missing bias is an error if the configuration requires it.
    fn optional(&self, name: &str) -> Result<Option<TensorView<'_>>, leyden_tensor::Error> {
        if let Some(found) = self.modules.tensor(name)? {
            return Ok(Some(found));
        }
        if let Some(graph) = &self.graph {
            return graph.optional(name);
        }
        match self.name(name) {
            Some(found) if found.ends_with(".bias") => self.weights().require(&found).map(Some),
            Some(found) => self.weights().optional(&found),
            None => Ok(None),
        }
    }

    fn require(&self, name: &str) -> Result<TensorView<'_>, leyden_tensor::Error> {
        if let Some(found) = self.modules.tensor(name)? {
            return Ok(found);
        }
        if let Some(graph) = &self.graph {
            return graph.require(name);
        }
        self.weights().require(self.name(name).as_deref().unwrap_or(name))
    }

    fn check_intact(&self) -> Result<(), leyden_tensor::Error> {
        self.modules.weights().try_for_each(|weights| weights.check_intact())?;
        self.folder.check_intact()
    }

    fn advise_willneed(&self, name: &str) {
        if self.graph.is_some() {
            return;
        }
        if let Some(name) = self.name(name) {
            self.weights().advise_willneed(&name);
        }
    }

    fn advise_dontneed(&self, name: &str, bytes: Range<usize>) {
        if let Some(graph) = &self.graph {
            return graph.advise_dontneed(name, bytes);
        }
        if let Some(name) = self.name(name) {
            self.weights().advise_dontneed(&name, bytes);
        }
    }
}

/// Returns the configuration as metadata under GGUF's keys.
fn describe(
    label: &str,
    config: &ModelConfig,
    settings: Settings,
    modules: &Modules,
    gliner: Option<&Gliner>,
) -> Result<Metadata, Error> {
    let Settings { form, vectors, prompts, .. } = settings;
    let max_tokens = form.max_tokens.map(|n| (MAX_TOKENS, Value::U32(u32::try_from(n).unwrap_or(u32::MAX))));
    let layer = &config.layers[0];
    let sizes = [
        ("block_count", config.layers.len()),
        ("context_length", config.context),
        ("embedding_length", config.width),
        ("feed_forward_length", layer.ffn),
        ("attention.head_count", layer.heads),
        ("attention.head_count_kv", layer.kv_heads),
        ("attention.key_length", layer.head_dim),
    ];
    let eps = match config.norm.kind {
        NormKind::Rms => "attention.layer_norm_rms_epsilon",
        NormKind::Layer | NormKind::LayerWithoutBias => "attention.layer_norm_epsilon",
    };
    let base = layer.rope.as_ref().map(|rope| ("rope.freq_base", rope.base));
    let floats = [(eps, config.norm.eps)].into_iter().chain(base);
    let key = |name: &str| format!("{}.{name}", config.architecture);
    let entries = std::iter::once(("general.architecture".to_owned(), Value::from(config.architecture)))
        .chain(sizes.map(|(name, size)| (key(name), Value::U64(size as u64))))
        .chain(floats.map(|(name, value)| (key(name), Value::F32(value))))
        .chain(modules.pooling.map(|pooling| (key("pooling_type"), Value::U32(pooling.number()))))
        .chain(max_tokens.map(|(name, value)| (key(name), value)))
        .chain(form.entries().into_iter().map(|(name, value)| (key(name), value)))
        .chain(vectors.entries().into_iter().map(|(name, value)| (key(name), value)))
        .chain(prompts.entries().into_iter().map(|(name, value)| (key(name), value)))
        .chain(modules.entries().map(|(name, value)| (key(&name), value)))
        .chain(gliner.into_iter().flat_map(Gliner::entries).map(|(name, value)| (key(name), value)));
    Ok(Metadata::new(label, entries)?)
}
