//! Modules of sentence-transformers after the model, from `modules.json` and the folders that it names. Normalisation
//! of embeddings is always applied on output.

use crate::config::{DenseActivation, ModelConfig, SparseConfig, VectorDense};
use crate::error::{Error, checked};
use crate::gliner;
use crate::pooling::Pooling;
use crate::token_heads::{self, TokenHead};
use crate::vector_form;
use leyden_tensor::{
    Escaped, HfFile, HfFolder, Json, KnownKeys, Safetensors, TensorView, Value, WeightSource, choice_key,
    empty_key, harmless_key, read_key,
};

/// Dense layer after pooling, with its weights.
#[derive(Debug)]
pub(crate) struct DenseModule {
    /// Name of the activation; empty for none.
    pub(crate) activation: String,
    weights: Safetensors,
    /// Names of weight and bias, prefixed with the module's folder.
    names: [String; 2],
}

/// Modules of a folder other than the transformer.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    /// True if the folder has a `modules.json`.
    pub(crate) listed: bool,
    pub(crate) pooling: Option<Pooling>,
    /// True if embeddings are normalised to unit length.
    pub(crate) unit: bool,
    pub(crate) dense: Vec<DenseModule>,
    pub(crate) splade: Option<Splade>,
    pub(crate) token_heads: Vec<TokenHead>,
}

/// SPLADE pooling of a language model's logits into a sparse vector with one number per vocabulary entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Splade {
    /// True to sum over the tokens; false to take the maximum.
    pub(crate) sum: bool,
    /// True to apply the logarithm twice.
    pub(crate) twice: bool,
}

/// Name of the identity activation in files.
const IDENTITY: &str = "Identity";
const ACTIVATIONS: [(&str, Option<DenseActivation>); 4] = [
    ("Tanh", Some(DenseActivation::Tanh)),
    (IDENTITY, None),
    ("ReLU", Some(DenseActivation::Relu)),
    ("GELU", Some(DenseActivation::Gelu)),
];

/// Returns the activation with this name; `None` for the identity.
fn activation_named(file: &str, key: &str, name: &str) -> Result<Option<DenseActivation>, Error> {
    let found = ACTIVATIONS.iter().find(|(known, _)| *known == name);
    found.map(|(_, activation)| *activation).ok_or_else(|| {
        let known = ACTIVATIONS.map(|(known, _)| known).join(", ");
        Error::invalid(file, key, format!("`{}` is not supported; supported: {known}", Escaped(name)))
    })
}

impl Modules {
    /// Reads the modules of a folder from the files of sentence-transformers, if it has any.
    ///
    /// # Errors
    /// A module is not supported; the error names it.
    pub(crate) fn of_folder(folder: &HfFolder) -> Result<Modules, Error> {
        let mut modules = Modules { token_heads: token_heads::of_folder(folder)?, ..Modules::default() };
        let Some(list) = folder.read(HfFile::Modules)? else {
            // Without a list, sentence-transformers ignores `1_Pooling`, but other programs read it.
            modules.pooling = Pooling::of_folder(folder)?;
            return Ok(modules);
        };
        modules.listed = true;
        let label = folder.path().join(HfFile::Modules.name()).display().to_string();
        // `Json` needs an object at the top.
        let bytes = [br#"{"modules":"#, &list[..], b"}"].concat();
        for (class, path) in listed(&Json::parse(&bytes, &label)?)? {
            match class.as_str() {
                "Dense" => modules.dense.push(DenseModule::open(folder, &path)?),
                "SpladePooling" => modules.splade = Some(Splade::read(folder, &path)?),
                "Pooling" => modules.pooling = Some(Pooling::of_json(&config(folder, &path)?)?),
                "Normalize" => {
                    modules.unit = true;
                    if let Some(json) = folder.settings(&format!("{path}/{CONFIG}"))? {
                        checked(&json, NORMALIZE)?;
                    }
                }
                _ => {}
            }
        }
        Ok(modules)
    }

    /// Returns a tensor of a token head, or GGUF's `dense_N.weight` or `dense_N.bias` with N from 2 on.
    pub(crate) fn tensor(&self, name: &str) -> Result<Option<TensorView<'_>>, leyden_tensor::Error> {
        for head in &self.token_heads {
            if let Some(found) = head.tensor(name)? {
                return Ok(Some(found));
            }
        }
        let Some((number, kind)) = name.strip_prefix("dense_").and_then(|rest| rest.split_once('.')) else {
            return Ok(None);
        };
        let module = number.parse::<usize>().ok().and_then(|n| self.dense.get(n.checked_sub(2)?));
        let Some(module) = module else { return Ok(None) };
        let which = usize::from(kind == "bias");
        let Some(found) = module.weights.optional(["linear.weight", "linear.bias"][which])? else {
            return Ok(None);
        };
        // Prefixed with the module's folder, to distinguish the tensors of several modules.
        TensorView::new(&module.names[which], found.dtype(), found.shape(), found.bytes()).map(Some)
    }

    /// Returns the modules as metadata entries, whose keys lack the architecture's name.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (String, Value)> {
        let dense = self.dense.iter().enumerate();
        let dense = dense.map(|(i, module)| (activation_key(i), Value::from(module.activation.as_str())));
        let splade = self.splade.iter().flat_map(|splade| {
            [("splade.sum", splade.sum), ("splade.log_twice", splade.twice)]
                .map(|(key, flag)| (key.to_owned(), Value::Bool(flag)))
        });
        dense.chain(splade)
    }

    /// Returns the weights of the modules.
    pub(crate) fn weights(&self) -> impl Iterator<Item = &Safetensors> {
        let heads = self.token_heads.iter().map(TokenHead::weights);
        self.dense.iter().map(|module| &module.weights).chain(heads)
    }
}

/// GGUF key of the maximum number of tokens in a text, if a folder's files limit it below the configuration's.
pub(crate) const MAX_TOKENS: &str = "vector.max_tokens";
/// Former name of [`MAX_TOKENS`], in files that were converted before.
const FORMER_MAX_TOKENS: &str = "vector.most_tokens";

/// Returns the GGUF key of the activation of dense layer `i`.
fn activation_key(i: usize) -> String {
    format!("dense_{}.activation", i + 2)
}

/// Adds the modules after the model to its configuration.
pub(crate) fn complete(config: &mut ModelConfig, source: &dyn WeightSource) -> Result<(), Error> {
    let meta = source.metadata();
    let architecture = config.architecture;
    let key = |name: &str| format!("{architecture}.{name}");
    let mut width = config.width;
    let mut dense = Vec::new();
    while let Some(matrix) = source.optional(&format!("dense_{}.weight", dense.len() + 2))? {
        if matrix.shape().len() != 2 || matrix.cols() != width || matrix.rows() == 0 {
            let what = format!("shape {:?} does not match vectors of {width} numbers", matrix.shape());
            return Err(Error::invalid(&source.path().display().to_string(), matrix.name(), what));
        }
        let key = key(&activation_key(dense.len()));
        let activation = match meta.opt_str(&key)?.filter(|name| !name.is_empty()) {
            Some(name) => activation_named(meta.file(), &key, name)?,
            None => None,
        };
        dense.push(VectorDense { inputs: width, outputs: matrix.rows(), activation });
        width = matrix.rows();
    }
    if let Some(sum) = meta.opt_bool(&key("splade.sum"))? {
        let log_twice = meta.opt_bool(&key("splade.log_twice"))?.unwrap_or(false);
        config.sparse = Some(SparseConfig::Vocabulary { sum, log_twice });
    }
    config.vector_dense = dense;
    config.vectors = vector_form::read(config.architecture, meta)?;
    if source.config_json().is_some()
        && let Some(tokens) = meta.opt_u32(&key(MAX_TOKENS))?.or(meta.opt_u32(&key(FORMER_MAX_TOKENS))?)
    {
        config.context = config.context.min((tokens as usize).max(1));
    }
    token_heads::complete(config, source)?;
    gliner::complete(config, source)
}

/// Supported classes of modules, with their position in the pipeline: positions never decrease.
const KNOWN: [(&str, u8); 7] = [
    ("Transformer", 0),
    ("MLMTransformer", 0),
    ("Pooling", 1),
    ("SpladePooling", 1),
    ("Dense", 2),
    ("Normalize", 3),
    // Used in training only.
    ("Dropout", ANYWHERE),
];
const ANYWHERE: u8 = u8::MAX;
/// Position at which several modules may follow each other.
const SEVERAL: u8 = 2;

/// Keys of an entry in `modules.json`.
const ENTRY: KnownKeys = KnownKeys(&[
    read_key("type"),
    read_key("path"),
    harmless_key("idx"),
    harmless_key("name"),
    empty_key("kwargs", "arguments of a call"),
]);
/// Input and output of modules: the embedding of the text.
const VECTOR: &[&str] = &["sentence_embedding"];
const DENSE: KnownKeys = KnownKeys(&[
    read_key("in_features"),
    read_key("out_features"),
    read_key("bias"),
    read_key("activation_function"),
    choice_key("module_input_name", VECTOR, "another input"),
    choice_key("module_output_name", VECTOR, "another output"),
    empty_key("use_residual", "its input added to its output"),
]);
const NORMALIZE: KnownKeys = KnownKeys(&[
    choice_key("module_input_name", VECTOR, "another input"),
    choice_key("module_output_name", VECTOR, "another output"),
]);
const SPLADE: KnownKeys = KnownKeys(&[
    read_key("pooling_strategy"),
    read_key("activation_function"),
    // Given by the rows of the embedding matrix.
    harmless_key("embedding_dimension"),
    harmless_key("word_embedding_dimension"),
    // Number of tokens per step of the computation.
    harmless_key("chunk_size"),
]);

/// Returns the classes and folders of the modules. Classes are identified by the last part of their path, as the
/// paths have changed between versions.
fn listed(json: &Json) -> Result<Vec<(String, String)>, Error> {
    let modules = json.get("modules").and_then(|list| list.as_array());
    let Some(modules) = modules else { return Err(json.wrong_type("modules", "array").into()) };
    let mut all: Vec<(String, String)> = Vec::new();
    let mut before = 0;
    for (i, module) in modules.iter().enumerate() {
        let at = |key: &str| format!("modules[{i}].{key}");
        let entry = Json::parse(module.to_string().as_bytes(), &format!("{}: modules[{i}]", json.file()))?;
        checked(&entry, ENTRY)?;
        let text = |key: &str| entry.opt_str(key).map(Option::unwrap_or_default);
        let class = text("type")?.rsplit('.').next().unwrap_or_default();
        let Some((_, place)) = KNOWN.iter().find(|row| row.0 == class) else {
            let known = KNOWN.map(|row| row.0).join(", ");
            let what = format!("`{}` is not supported; supported: {known}", Escaped(class));
            return Err(Error::invalid(json.file(), &at("type"), what));
        };
        if *place != ANYWHERE {
            if all.is_empty() != (*place == 0) {
                let what = format!("`{class}` is not supported here: a model begins with one Transformer");
                return Err(Error::invalid(json.file(), &at("type"), what));
            }
            if *place < before || *place == before && *place != SEVERAL && !all.is_empty() {
                let last = all.last().map_or("", |row| row.0.as_str());
                let what = format!("`{class}` after `{last}` is not supported");
                return Err(Error::invalid(json.file(), &at("type"), what));
            }
            before = *place;
        }
        let path = text("path")?;
        if *place == 0 && !path.is_empty() {
            let what =
                format!("`{}` is not supported: the transformer lies in the folder itself", Escaped(path));
            return Err(Error::invalid(json.file(), &at("path"), what));
        }
        // A direct subfolder, and nothing else.
        let inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !path.chars().all(inside) || path.is_empty() != (*place == 0) {
            return Err(Error::invalid(json.file(), &at("path"), "is not a subfolder"));
        }
        if *place != ANYWHERE {
            all.push((class.to_owned(), path.to_owned()));
        }
    }
    Ok(all)
}

const CONFIG: &str = "config.json";

/// Returns the folders of the dense modules in a list of modules, in its order.
pub(crate) fn dense_paths(list: &[u8], label: &str) -> Result<Vec<String>, Error> {
    let bytes = [br#"{"modules":"#, list, b"}"].concat();
    let all = listed(&Json::parse(&bytes, label)?)?;
    Ok(all.into_iter().filter(|row| row.0 == "Dense").map(|row| row.1).collect())
}

/// Reads the configuration of a module.
fn config(folder: &HfFolder, path: &str) -> Result<Json, Error> {
    let name = format!("{path}/{CONFIG}");
    let missing = || Error::invalid(&folder.path().join(&name).display().to_string(), "", "missing");
    folder.settings(&name)?.ok_or_else(missing)
}

impl DenseModule {
    fn open(folder: &HfFolder, path: &str) -> Result<DenseModule, Error> {
        let json = config(folder, path)?;
        checked(&json, DENSE)?;
        let key = "activation_function";
        let whole = json.opt_str(key)?.unwrap_or("torch.nn.Tanh");
        if !whole.starts_with("torch.") {
            let what = format!("`{}` is not a function of PyTorch", Escaped(whole));
            return Err(Error::invalid(json.file(), key, what));
        }
        let name = whole.rsplit('.').next().unwrap_or_default().to_owned();
        activation_named(json.file(), key, &name)?;
        let activation = if name == IDENTITY { String::new() } else { name };
        let names = ["linear.weight", "linear.bias"].map(|name| format!("{path}/{name}"));
        let weights = Safetensors::open(&folder.path().join(path))?;
        let has_bias = weights.optional("linear.bias")?.is_some();
        if let Some(said) = json.opt_bool("bias")?.filter(|said| *said != has_bias) {
            let what = format!(
                "{said} does not fit the weights, which have {}",
                if has_bias { "one" } else { "none" }
            );
            return Err(Error::invalid(json.file(), "bias", what));
        }
        let shape = weights.require("linear.weight")?.shape().to_vec();
        for (key, found) in [("out_features", shape.first()), ("in_features", shape.get(1))] {
            if let Some(wanted) = json.opt_usize(key)?.filter(|wanted| Some(wanted) != found) {
                let what = format!("{wanted} does not fit the weights' shape {shape:?}");
                return Err(Error::invalid(json.file(), key, what));
            }
        }
        Ok(DenseModule { activation, weights, names })
    }
}

impl Splade {
    fn read(folder: &HfFolder, path: &str) -> Result<Splade, Error> {
        let json = config(folder, path)?;
        checked(&json, SPLADE)?;
        let one_of = |key: &str, usual: &str, other: &str| match json.opt_str(key)? {
            None => Ok(false),
            Some(name) if name == usual => Ok(false),
            Some(name) if name == other => Ok(true),
            Some(name) => {
                let what = format!("`{}` is not supported; supported: {usual}, {other}", Escaped(name));
                Err(Error::invalid(json.file(), key, what))
            }
        };
        Ok(Splade {
            sum: one_of("pooling_strategy", "max", "sum")?,
            twice: one_of("activation_function", "relu", "log1p_relu")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(modules: &[(&str, &str)]) -> Result<Vec<(String, String)>, String> {
        let list: Vec<String> = modules
            .iter()
            .map(|(t, path)| {
                format!(r#"{{"idx": 0, "name": "0", "type": "sentence_transformers.{t}", "path": "{path}"}}"#)
            })
            .collect();
        read_list(&list.join(","))
    }

    fn read_list(entries: &str) -> Result<Vec<(String, String)>, String> {
        let text = format!(r#"{{"modules": [{entries}]}}"#);
        listed(&Json::parse(text.as_bytes(), "modules.json").unwrap()).map_err(|e| e.to_string())
    }

    const FIRST: (&str, &str) = ("models.Transformer", "");

    #[test]
    fn modules_are_known_by_their_last_names() {
        let known = list(&[
            FIRST,
            ("base.Pooling", "1_Pooling"),
            ("models.Dropout", "4_Dropout"),
            ("models.Dense", "2_Dense"),
            ("sentence_transformer.modules.dense.Dense", "3_Dense"),
            ("models.Normalize", "5_Normalize"),
        ]);
        let known: Vec<String> = known.unwrap().into_iter().map(|row| row.1).collect();
        assert_eq!(known, ["", "1_Pooling", "2_Dense", "3_Dense", "5_Normalize"]);
        assert_eq!(list(&[FIRST, ("models.Pooling", "2_Pooling")]).unwrap()[1].1, "2_Pooling");
    }

    #[test]
    fn modules_that_compute_something_else_are_refused_by_their_places() {
        let (pooling, normalize) = (("models.Pooling", "1_Pooling"), ("models.Normalize", "2_Normalize"));
        for (modules, wanted) in [
            (
                &[FIRST, ("models.LSTM", "1_LSTM")][..],
                "modules[1].type: `LSTM` is not supported; supported: ",
            ),
            (&[("models.Router", "")], "modules[0].type: `Router` is not supported"),
            (&[("models.WordEmbeddings", "0_WordEmbeddings")], "modules[0].type: `WordEmbeddings` is not"),
            (&[("models.StaticEmbedding", "")], "modules[0].type: `StaticEmbedding` is not supported"),
            (
                &[FIRST, pooling, ("x.LayerNorm", "2_LayerNorm")],
                "modules[2].type: `LayerNorm` is not supported",
            ),
            (
                &[FIRST, ("models.LogitScore", "1_LogitScore")],
                "modules[1].type: `LogitScore` is not supported",
            ),
            (&[("models.Transformer", "0_Transformer")], "modules[0].path: `0_Transformer` is not supported"),
            (&[FIRST, ("models.Dense", "../x")], "modules[1].path: is not a subfolder"),
            (&[FIRST, ("models.Pooling", "")], "modules[1].path: is not a subfolder"),
            (&[pooling], "modules[0].type: `Pooling` is not supported here"),
            (&[FIRST, FIRST], "modules[1].type: `Transformer` is not supported here"),
            (&[FIRST, pooling, pooling], "modules[2].type: `Pooling` after `Pooling` is not supported"),
            (
                &[FIRST, pooling, normalize, ("models.Dense", "3_Dense")],
                "modules[3].type: `Dense` after `Normalize` is not supported",
            ),
            (
                &[FIRST, ("models.Dense", "1_Dense"), pooling],
                "modules[2].type: `Pooling` after `Dense` is not",
            ),
        ] {
            let error = list(modules).unwrap_err();
            assert!(error.starts_with(&format!("modules.json: {wanted}")), "{error}");
        }
        for (entry, wanted) in [
            (r#"{"type": "x.Transformer", "path": "", "kwargs": ["task"]}"#, "kwargs: this value asks for"),
            (r#"{"type": "x.Transformer", "path": "", "warp": 1}"#, "warp: is not a known key"),
            (r#"{"type": 3, "path": ""}"#, "type: want"),
            ("3", "want object"),
        ] {
            let error = read_list(entry).unwrap_err();
            assert!(error.starts_with(&format!("modules.json: modules[0]: {wanted}")), "{error}");
        }
    }

    #[test]
    fn every_key_of_a_modules_configuration_is_honoured_or_refused() {
        let check = |keys: KnownKeys, text: &str| {
            checked(&Json::parse(text.as_bytes(), "config.json").unwrap(), keys).map_err(|e| e.to_string())
        };
        let dense = r#"{"in_features": 8, "out_features": 4, "bias": true, "activation_function": "torch.nn.Tanh",
            "module_input_name": "sentence_embedding", "module_output_name": null, "use_residual": false}"#;
        assert_eq!(check(DENSE, dense), Ok(()));
        assert_eq!(check(NORMALIZE, r#"{"module_input_name": "sentence_embedding"}"#), Ok(()));
        let splade = r#"{"pooling_strategy": "max", "activation_function": "relu", "word_embedding_dimension": 9, "chunk_size": 4}"#;
        assert_eq!(check(SPLADE, splade), Ok(()));
        for (keys, text, wanted) in [
            (
                DENSE,
                r#"{"module_input_name": "token_embeddings"}"#,
                "module_input_name: `token_embeddings` asks for",
            ),
            (DENSE, r#"{"module_output_name": "x"}"#, "module_output_name: `x` asks for another output"),
            (DENSE, r#"{"use_residual": true}"#, "use_residual: true asks for its input added to its output"),
            (DENSE, r#"{"scale": 2}"#, "scale: is not a known key"),
            (
                NORMALIZE,
                r#"{"module_input_name": "token_embeddings"}"#,
                "module_input_name: `token_embeddings` asks",
            ),
            (NORMALIZE, r#"{"p": 1}"#, "p: is not a known key"),
            (SPLADE, r#"{"top": 4}"#, "top: is not a known key"),
        ] {
            let error = check(keys, text).unwrap_err();
            assert!(error.starts_with(&format!("config.json: {wanted}")), "{error}");
        }
    }
}
