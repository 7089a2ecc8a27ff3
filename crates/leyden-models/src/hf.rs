//! [`HfModel`]: a model as Hugging Face's libraries store it, as a source of weights.
//!
//! What loads and computes asks for tensors by GGUF's names; here they become the names in the files. The listing
//! and the views keep the names in the files, so that every message names what the user can find there.

use crate::arch::hf_model;
use crate::config::{ModelConfig, NormKind};
use crate::error::Error;
use crate::gliner::{self, Gliner};
use crate::hf_class::{HfClass, Stack};
use crate::input_form::InputForm;
use crate::modules::{MOST_TOKENS, Modules};
use crate::onnx::OnnxTensors;
use crate::prompts::Prompts;
use crate::vector_form::VectorForm;
use leyden_tensor::{
    DType, HfFile, HfFolder, HfQuantised, Json, Metadata, OwnedTensor, Safetensors, StackRows, Stacked,
    TensorInfo, TensorView, Value, WeightSource,
};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

/// The names in GGUF of the two matrices that may be one.
const EMBEDDING: &str = "token_embd.weight";
const HEAD: &str = "output.weight";

/// The norms' tensors in checkpoints from the time before PyTorch's names, and in others.
const OLD_NORMS: [(&str, &str); 2] =
    [("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")];

/// A folder with `config.json` and safetensors of a supported architecture, or with an ONNX model that computes a supported
/// encoder.
#[derive(Debug)]
pub struct HfModel {
    folder: HfFolder,
    class: &'static HfClass,
    /// The matrices and norms that have biases.
    biases: Vec<&'static str>,
    /// The experts of each layer that has some.
    experts: usize,
    /// Whether the files have only the head, which is the embedding too.
    only_head: bool,
    /// Whether the names lack the prefix of a model within one with a head, as where the model alone was saved: that of
    /// published models for vectors. transformers adds it too.
    bare: bool,
    /// Whether norms have their old names.
    old_norms: bool,
    metadata: Metadata,
    /// What stands behind the model.
    modules: Modules,
    /// How matrices are quantised.
    quantised: Option<HfQuantised>,
    /// The weights of a graph, which then stand for those of the folder.
    graph: Option<OnnxTensors>,
    /// What finds spans of labels behind the model, if it is GLiNER's.
    gliner: Option<Gliner>,
    /// Keys of files beside `config.json` that nothing is known of.
    unread: Vec<String>,
}

/// What files beside `config.json` say of texts and vectors.
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
        // GLiNER counts words.
        let sentence = !is_gliner && (modules.listed || config.needs_whole_texts());
        let form = InputForm::of_folder(folder, sentence)?;
        let (vectors, unread) = VectorForm::of_folder(folder)?;
        let vectors = VectorForm { unit: modules.unit, ..vectors };
        let prompts = Prompts::of_folder(folder)?;
        if config.classifier().is_some() {
            let refused = |file: &str, key: &str| {
                let file = folder.path().join(file).display().to_string();
                Err(Error::invalid(&file, key, "is not supported for a model that gives labels scores"))
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
    /// Opens a folder, and checks its configuration.
    ///
    /// # Errors
    /// A file is missing or not valid, the architecture or something that the configuration asks for is not
    /// supported, or embedding and head do not fit the configuration. The error names the file and the key or
    /// tensor.
    pub fn open(path: &Path) -> Result<HfModel, Error> {
        HfModel::new(HfFolder::open(path)?)
    }

    /// A model from a folder that is open.
    ///
    /// # Errors
    /// As [`open`](Self::open), except that the files are there and valid.
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

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &HfFolder {
        &self.folder
    }

    /// True if names of tensors lack the prefix of their class.
    pub(crate) fn has_bare_names(&self) -> bool {
        self.bare
    }

    /// True if files of sentence-transformers say how texts become vectors.
    pub(crate) fn is_for_vectors(&self) -> bool {
        self.modules.listed || self.modules.pooling.is_some()
    }

    /// Finds out which of embedding and head the files have. Where both are there, both are used, as
    /// transformers does whatever the configuration says.
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

    /// The folder's weights, as they lie in the files.
    #[must_use]
    pub fn weights(&self) -> &dyn WeightSource {
        self.folder.weights()
    }

    fn files(&self) -> Option<&Safetensors> {
        self.folder.safetensors().map(AsRef::as_ref)
    }

    /// The weights, and how a matrix of this name in the files is quantised, if it is.
    fn quantised(&self, name: &str) -> Option<(&Safetensors, HfQuantised)> {
        let found = self.files().zip(self.quantised);
        found.filter(|(files, quantised)| quantised.holds(files, name))
    }

    fn is_quantised(&self, name: &str) -> bool {
        self.quantised(name).is_some()
    }

    /// What the names of the model's own tensors begin with.
    fn prefix(&self) -> &'static str {
        match &self.gliner {
            Some(_) => gliner::ENCODER,
            None if self.bare => "",
            None => self.class.prefix,
        }
    }

    /// The stack of a layer with this name in GGUF, and the beginning of the names of the layer's tensors.
    fn stack(&self, name: &str) -> Option<(String, &'static str, &'static Stack)> {
        let (i, part) = name.strip_prefix("blk.")?.split_once('.')?;
        let (part, stack) = self.class.stacks.iter().find(|row| row.0 == part)?;
        let prefix = self.prefix();
        Some((format!("{prefix}{}.{i}.", self.class.layers), part, stack))
    }

    /// The names of the matrices of a stack's experts.
    fn each(&self, layer: &str, name: &str) -> Vec<String> {
        (0..self.experts).map(|e| format!("{layer}{}", name.replace("{}", &e.to_string()))).collect()
    }

    /// The type of a stack with this name in GGUF, and the tensors in the files that it is made of. Types that are computed with
    /// alone, not quantised ones but MXFP4.
    pub(crate) fn stack_parts(&self, name: &str) -> Result<(DType, Vec<String>), Error> {
        let Some((layer, part, stack)) = self.stack(name) else {
            return Err(Error::invalid(&self.path().display().to_string(), name, "is no stack of matrices"));
        };
        let weights = self.weights();
        match stack {
            Stack::Each(each) => {
                let names = self.each(&layer, each);
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

    /// The name in the files of a tensor with this name in GGUF; none if the architecture has no such tensor.
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
        // A row may have the whole name, where the last part is another one.
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
                // Only where a class has several names for it.
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
    /// The sizes under GGUF's keys, for those who ask about a model in these words. The description itself is
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

    /// Those of the weights, and behind them those of modules, whose tensors are not listed.
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

    /// All but those that no result depends on.
    fn tensor_names(&self) -> Vec<&str> {
        if let Some(graph) = &self.graph {
            return graph.infos().iter().map(|info| info.name.as_str()).collect();
        }
        let prefix = if self.gliner.is_some() { gliner::ENCODER } else { self.class.prefix };
        let unused = self.class.unused;
        let needed = |name: &&str| {
            let rest = name.strip_prefix(prefix).unwrap_or(name);
            // In a layer, behind its number.
            let layer = rest.strip_prefix(self.class.layers).and_then(|rest| rest.strip_prefix('.'));
            let part = layer.and_then(|rest| rest.split_once('.')).map_or(rest, |(_, part)| part);
            let needless = self.files().zip(self.quantised.as_ref());
            !unused.iter().any(|begin| rest.starts_with(begin) || part.starts_with(begin))
                && !needless.is_some_and(|(files, quantised)| quantised.is_needless(files, name))
        };
        self.weights().tensor_names().into_iter().filter(needed).collect()
    }

    fn composed(&self, name: &str, shape: &[usize]) -> Result<Option<OwnedTensor>, leyden_tensor::Error> {
        if let Some(graph) = &self.graph {
            return Ok(graph.composed(name));
        }
        let quantised = |called: &str, names: Vec<String>| {
            let found = names.first().and_then(|name| self.quantised(name));
            found.map(|(files, quantised)| quantised.compose(files, called, &names, shape)).transpose()
        };
        let Some(files) = self.files() else { return Ok(None) };
        let Some((layer, part, stack)) = self.stack(name) else {
            let Some(found) = self.name(name) else { return Ok(None) };
            return quantised(&found, vec![found.clone()]);
        };
        let called = format!("{layer}{part}");
        let (stacked, rows) = match stack {
            Stack::Each(name) => {
                let names = self.each(&layer, name);
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

    /// A bias that the configuration promises is an error if it is not there.
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

/// The configuration under GGUF's keys.
fn describe(
    label: &str,
    config: &ModelConfig,
    settings: Settings,
    modules: &Modules,
    gliner: Option<&Gliner>,
) -> Result<Metadata, Error> {
    let Settings { form, vectors, prompts, .. } = settings;
    let most_tokens =
        form.max_tokens.map(|n| (MOST_TOKENS, Value::U32(u32::try_from(n).unwrap_or(u32::MAX))));
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
        .chain(most_tokens.map(|(name, value)| (key(name), value)))
        .chain(form.entries().into_iter().map(|(name, value)| (key(name), value)))
        .chain(vectors.entries().into_iter().map(|(name, value)| (key(name), value)))
        .chain(prompts.entries().into_iter().map(|(name, value)| (key(name), value)))
        .chain(modules.entries().map(|(name, value)| (key(&name), value)))
        .chain(gliner.into_iter().flat_map(Gliner::entries).map(|(name, value)| (key(name), value)));
    Ok(Metadata::new(label, entries)?)
}
