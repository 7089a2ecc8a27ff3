//! What sentence-transformers puts behind a model: `modules.json` and the folders that it names. What normalises vectors is
//! always done where they go out.

use crate::config::{DenseActivation, ModelConfig, SparseConfig, VectorDense};
use crate::error::Error;
use crate::gliner;
use crate::token_heads::{self, TokenHead};
use leyden_tensor::{Escaped, HfFile, HfFolder, Json, Safetensors, TensorView, Value, WeightSource};
use std::path::PathBuf;

/// A matrix behind the pooling of vectors, with its file.
#[derive(Debug)]
pub(crate) struct DenseModule {
    /// The name of its function; empty for none.
    pub(crate) activation: String,
    weights: Safetensors,
    /// The names of weights and biases, with the folder.
    names: [String; 2],
}

/// The modules of a folder beside transformer and pooling.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    pub(crate) dense: Vec<DenseModule>,
    pub(crate) splade: Option<Splade>,
    pub(crate) token_heads: Vec<TokenHead>,
}

/// How a vector with a number for each token is made of a language model's logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Splade {
    /// Whether numbers of tokens are summed; otherwise the greatest counts.
    pub(crate) sum: bool,
    /// Whether the logarithm is taken twice.
    pub(crate) twice: bool,
}

/// What stands in files where a matrix has no function.
const IDENTITY: &str = "Identity";
const ACTIVATIONS: [(&str, Option<DenseActivation>); 4] = [
    ("Tanh", Some(DenseActivation::Tanh)),
    (IDENTITY, None),
    ("ReLU", Some(DenseActivation::Relu)),
    ("GELU", Some(DenseActivation::Gelu)),
];

/// The function of a name, or what there is instead.
fn activation_named(file: &str, key: &str, name: &str) -> Result<Option<DenseActivation>, Error> {
    let found = ACTIVATIONS.iter().find(|(known, _)| *known == name);
    found.map(|(_, activation)| *activation).ok_or_else(|| {
        let known = ACTIVATIONS.map(|(known, _)| known).join(", ");
        Error::invalid(file, key, format!("`{}` is not supported; supported: {known}", Escaped(name)))
    })
}

impl Modules {
    /// What a folder says in the files of sentence-transformers, if it has any.
    ///
    /// # Errors
    /// There is a module that is not computed; the error names it.
    pub(crate) fn of_folder(folder: &HfFolder) -> Result<Modules, Error> {
        let mut modules = Modules { token_heads: token_heads::of_folder(folder)?, ..Modules::default() };
        let Some(list) = folder.read(HfFile::Modules)? else { return Ok(modules) };
        let label = folder.path().join(HfFile::Modules.name()).display().to_string();
        // Accessors and errors want an object.
        let bytes = [br#"{"modules":"#, &list[..], b"}"].concat();
        for (class, path) in listed(&Json::parse(&bytes, &label)?)? {
            match class.as_str() {
                "Dense" => modules.dense.push(DenseModule::open(folder, &path)?),
                "SpladePooling" => modules.splade = Some(Splade::read(folder, &path)?),
                _ => {}
            }
        }
        Ok(modules)
    }

    /// A tensor of a head of tokens, or `dense_N.weight` or `dense_N.bias`, N from 2 on, as GGUF calls them.
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
        // Under its folder's name, so that those of several modules are told apart.
        TensorView::new(&module.names[which], found.dtype(), found.shape(), found.bytes()).map(Some)
    }

    /// What is said of them in the words of GGUF.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (String, Value)> {
        let dense = self.dense.iter().enumerate();
        let dense = dense.map(|(i, module)| (activation_key(i), Value::from(module.activation.as_str())));
        let splade = self.splade.iter().flat_map(|splade| {
            [("splade.sum", splade.sum), ("splade.log_twice", splade.twice)]
                .map(|(key, flag)| (key.to_owned(), Value::Bool(flag)))
        });
        dense.chain(splade)
    }

    /// The files of weights.
    pub(crate) fn weights(&self) -> impl Iterator<Item = &Safetensors> {
        let heads = self.token_heads.iter().map(TokenHead::weights);
        self.dense.iter().map(|module| &module.weights).chain(heads)
    }
}

/// The key of a matrix's function.
fn activation_key(i: usize) -> String {
    format!("dense_{}.activation", i + 2)
}

/// Completes a configuration with what stands behind the model.
pub(crate) fn complete(config: &mut ModelConfig, source: &dyn WeightSource) -> Result<(), Error> {
    let meta = source.metadata();
    let key = |name: &str| format!("{}.{name}", config.architecture);
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
    token_heads::complete(config, source)?;
    gliner::complete(config, source)
}

/// Classes and folders of the modules. Classes are told by their last names, as the paths to them have changed.
fn listed(json: &Json) -> Result<Vec<(String, String)>, Error> {
    const KNOWN: [&str; 6] =
        ["Transformer", "MLMTransformer", "Pooling", "Dense", "Normalize", "SpladePooling"];
    let modules = json.get("modules").and_then(|list| list.as_array());
    let Some(modules) = modules else { return Err(json.wrong_type("modules", "array").into()) };
    let mut all = Vec::new();
    for (i, module) in modules.iter().enumerate() {
        let text = |key: &str| module.get(key).and_then(|value| value.as_str()).unwrap_or_default();
        let class = text("type").rsplit('.').next().unwrap_or_default();
        let at = |key: &str| format!("modules[{i}].{key}");
        if !KNOWN.contains(&class) {
            let what = format!("`{}` is not supported; supported: {}", Escaped(class), KNOWN.join(", "));
            return Err(Error::invalid(json.file(), &at("type"), what));
        }
        let path = text("path");
        let wanted = HfFile::Pooling.name().split('/').next().unwrap_or_default();
        if class == "Pooling" && path != wanted {
            let what = format!("`{}` is not supported; supported: {wanted}", Escaped(path));
            return Err(Error::invalid(json.file(), &at("path"), what));
        }
        // A folder beside the list, and nothing else.
        let inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !path.chars().all(inside) {
            return Err(Error::invalid(json.file(), &at("path"), "is no folder of this folder"));
        }
        all.push((class.to_owned(), path.to_owned()));
    }
    Ok(all)
}

/// The configuration of a module.
fn config(folder: &HfFolder, path: &str) -> Result<(PathBuf, Json), Error> {
    let folder = folder.path().join(path);
    let json = HfFolder::json_at(&folder, HfFile::Config)?.ok_or_else(|| {
        let file = folder.join(HfFile::Config.name()).display().to_string();
        Error::invalid(&file, "", "missing")
    })?;
    Ok((folder, json))
}

impl DenseModule {
    fn open(folder: &HfFolder, path: &str) -> Result<DenseModule, Error> {
        let (folder, json) = config(folder, path)?;
        for (key, usual) in
            [("module_input_name", "sentence_embedding"), ("module_output_name", "sentence_embedding")]
        {
            if let Some(other) = json.opt_str(key)?.filter(|name| *name != usual) {
                let what = format!("`{}` is not supported; supported: {usual}", Escaped(other));
                return Err(Error::invalid(json.file(), key, what));
            }
        }
        if json.opt_bool("use_residual")?.unwrap_or(false) {
            return Err(Error::invalid(json.file(), "use_residual", "true is not supported"));
        }
        let key = "activation_function";
        let name = json.opt_str(key)?.unwrap_or("Tanh").rsplit('.').next().unwrap_or_default().to_owned();
        activation_named(json.file(), key, &name)?;
        let activation = if name == IDENTITY { String::new() } else { name };
        let names = ["linear.weight", "linear.bias"].map(|name| format!("{path}/{name}"));
        Ok(DenseModule { activation, weights: Safetensors::open(&folder)?, names })
    }
}

impl Splade {
    fn read(folder: &HfFolder, path: &str) -> Result<Splade, Error> {
        let (_, json) = config(folder, path)?;
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

    #[test]
    fn modules_are_known_by_their_last_names() {
        let modules = |types: &[(&str, &str)]| {
            let list: Vec<String> = types
                .iter()
                .map(|(t, path)| format!(r#"{{"type": "sentence_transformers.{t}", "path": "{path}"}}"#))
                .collect();
            let text = format!(r#"{{"modules": [{}]}}"#, list.join(","));
            listed(&Json::parse(text.as_bytes(), "modules.json").unwrap()).map_err(|e| e.to_string())
        };
        let known = modules(&[
            ("models.Transformer", ""),
            ("base.Pooling", "1_Pooling"),
            ("models.Dense", "2_Dense"),
        ]);
        assert_eq!(known.unwrap()[2], ("Dense".to_owned(), "2_Dense".to_owned()));
        for (list, wanted) in [
            (("models.LSTM", "1_LSTM"), "modules.json: modules[0].type: `LSTM` is not supported"),
            (("models.Pooling", "2_Pooling"), "modules.json: modules[0].path: `2_Pooling` is not supported"),
            (("models.Dense", "../x"), "modules.json: modules[0].path: is no folder of this folder"),
        ] {
            let error = modules(&[list]).unwrap_err();
            assert!(error.starts_with(wanted), "{error}");
        }
    }
}
