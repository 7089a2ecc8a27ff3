//! Conversion of a GGUF file to a Hugging Face folder.

use crate::error::Error;
use crate::files;
use crate::former;
use crate::templates;
use crate::tensors::{self, Form, Sparse};
use crate::tokenizer::{self, Document};
use crate::{Report, Watch};
use leyden_files::{OutputOptions, TemporaryFolder};
use leyden_models::{FolderTensor, HfModel, ToFolder, config_of};
use leyden_tensor::{DType, FolderFiles, Gguf, HfFile, HfFolder, WeightSource};
use serde_json::json;
use std::path::Path;
use std::time::SystemTime;

/// Writes the model of a GGUF file as a folder with `config.json`, safetensors and tokenizer. Quantised matrices
/// become F16; with `dtype` all matrices get that type. The folder appears complete or not at all.
///
/// # Errors
/// The folder exists, the architecture is not converted, a file cannot be read or written, the model or its
/// tokenizer cannot be expressed in a folder, or `watch` asked to stop.
pub fn to_folder(
    from: &Path,
    to: &Path,
    dtype: Option<DType>,
    watch: &mut Watch<'_>,
) -> Result<Report, Error> {
    made_folder(from, to, Form { dtype, sparse: None }, watch)
}

/// Writes the model of a GGUF file as a folder like [`to_folder`], with those matrices of layers that have many zeros in
/// the layout of `docs/sparse-files.md`, which leyden alone reads. `values` is the type of their values; the other
/// tensors are written as by [`to_folder`].
///
/// # Errors
/// As [`to_folder`], or the model is GLiNER's.
pub fn to_sparse_folder(
    from: &Path,
    to: &Path,
    values: Sparse,
    watch: &mut Watch<'_>,
) -> Result<Report, Error> {
    made_folder(from, to, Form { dtype: None, sparse: Some(values) }, watch)
}

fn made_folder(from: &Path, to: &Path, form: Form, watch: &mut Watch<'_>) -> Result<Report, Error> {
    if to.symlink_metadata().is_ok() {
        return Err(Error::unlike(to, "is there already; name another folder, or remove it"));
    }
    let source = Gguf::open(from)?;
    let model = ToFolder::new(&source)?;
    if let Some(files) = FolderFiles::of(source.metadata())? {
        return of_files(&source, &model, &files, (to, form), watch);
    }
    let Document { tokenizer, settings, rule, padding } = tokenizer::of_gguf(source.metadata(), from)?;
    let made = beside(to)?;
    let all: Vec<&FolderTensor> = model.tensors().iter().collect();
    let dense = all.iter().map(|tensor| tensors::place(tensor, form).0.bytes).sum();
    let mut done = 0;
    let bytes = tensors::write(&made.path().join("model.safetensors"), &model, &all, form, &mut |more| {
        done += more;
        if watch(done, dense).is_break() { Err(Error::Stopped) } else { Ok(()) }
    })?;
    source.check_intact()?;
    let tokens = leyden_text::from_gguf(source.metadata(), &from.display().to_string())?;
    let ids = json!({ "bos_token_id": tokens.bos(), "eos_token_id": tokens.eos(), "pad_token_id": padding });
    let mut config = model.config().clone();
    for (key, id) in ids.as_object().into_iter().flatten() {
        config[key] = id.clone();
    }
    if form.sparse.is_some() {
        config["quantization_config"] = tensors::description();
    }
    let main = all.iter().find(|tensor| tensor.shape.len() > 1).map(|tensor| tensor.written_as(form.dtype));
    config["torch_dtype"] = json!(match main {
        Some(DType::F32) => "float32",
        Some(DType::BF16) => "bfloat16",
        _ => "float16",
    });
    let write = |name: &str, text: &[u8]| {
        let path = made.path().join(name);
        leyden_files::write(&path, text, OutputOptions::new())
            .map_err(|error| Error::unlike(&path, format!("cannot write: {error}")))
    };
    for (name, value) in [
        ("config.json", &config),
        ("tokenizer.json", &tokenizer),
        ("tokenizer_config.json", &settings),
        ("generation_config.json", &ids),
    ] {
        let text = serde_json::to_vec_pretty(value)
            .map_err(|error| Error::unlike(&made.path().join(name), error))?;
        write(name, &text)?;
    }
    let template = templates::to_folder(source.metadata(), made.path())?;
    // Read back before the folder gets its name.
    let folder = HfFolder::open(made.path())?;
    let Some(note) = tokenizer::same(&folder, source.metadata(), from)? else {
        return Err(Error::unlike(from, format!("tokenizer.ggml.pre: {rule}: texts would be cut otherwise")));
    };
    HfModel::new(folder)?;
    finish(made, to)?;
    Ok(Report { tensors: all.len(), bytes, rule, template, note })
}

/// Creates a folder under a temporary name beside the wanted one.
fn beside(to: &Path) -> Result<TemporaryFolder, Error> {
    let made = TemporaryFolder::beside(to)
        .map_err(|error| Error::unlike(to, format!("cannot create a folder beside it: {error}")))?;
    if let (Some(parent), Ok(own)) = (made.path().parent(), made.path().metadata()) {
        former::sweep(parent, &own, SystemTime::now());
    }
    Ok(made)
}

/// Renames the finished folder.
fn finish(made: TemporaryFolder, to: &Path) -> Result<(), Error> {
    made.rename(to).map_err(|error| Error::unlike(to, format!("cannot rename the finished folder: {error}")))
}

/// Converts a model whose file has its folder's settings: writes these, and the tensors under their original names.
fn of_files(
    source: &Gguf,
    model: &ToFolder<'_>,
    files: &FolderFiles,
    (to, form): (&Path, Form),
    watch: &mut Watch<'_>,
) -> Result<Report, Error> {
    let made = beside(to)?;
    match form.sparse {
        Some(_) => files::write(&described(files, to)?, made.path())?,
        None => files::write(files, made.path())?,
    }
    let template = templates::to_folder(source.metadata(), made.path())?;
    let dense = model.tensors().iter().map(|tensor| tensors::place(tensor, form).0.bytes).sum();
    let mut names: Vec<&str> = model.tensors().iter().map(|tensor| tensor.file.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let (mut done, mut bytes) = (0, 0);
    for name in names {
        let of: Vec<&FolderTensor> = model.tensors().iter().filter(|tensor| tensor.file == name).collect();
        bytes += tensors::write(&made.path().join(name), model, &of, form, &mut |more| {
            done += more;
            if watch(done, dense).is_break() { Err(Error::Stopped) } else { Ok(()) }
        })?;
    }
    source.check_intact()?;
    // Read back before the folder gets its name.
    let folder = HfFolder::open(made.path())?;
    leyden_text::from_hf(&folder)?;
    config_of(&HfModel::new(folder)?)?;
    finish(made, to)?;
    let rule = "the folder's own tokenizer".to_owned();
    Ok(Report { tensors: model.tensors().len(), bytes, rule, template, note: None })
}

/// Returns a folder's files with the description of sparse matrices in `config.json`.
fn described(files: &FolderFiles, to: &Path) -> Result<FolderFiles, Error> {
    let config_name = HfFile::Config.name();
    if files.text(HfFile::Gliner.name()).is_some() {
        return Err(Error::unlike(to, "GLiNER models are not written sparse"));
    }
    let mut all = Vec::new();
    for (name, text) in files.iter() {
        let mut text = text.to_owned();
        if name == config_name {
            let failed = |error: serde_json::Error| Error::unlike(&to.join(config_name), error);
            let mut config: serde_json::Value = serde_json::from_str(&text).map_err(failed)?;
            config["quantization_config"] = tensors::description();
            text = serde_json::to_string_pretty(&config).map_err(failed)?;
        }
        all.push((name.to_owned(), text));
    }
    Ok(FolderFiles::new(all))
}
