//! Conversion of a GGUF file to a Hugging Face folder.

use crate::error::Error;
use crate::files;
use crate::former;
use crate::safetensors::Writer;
use crate::templates;
use crate::tokenizer::{self, Document};
use crate::{Report, Watch};
use leyden_files::{OutputOptions, TemporaryFolder};
use leyden_models::{FolderTensor, HfModel, ToFolder, config_of};
use leyden_tensor::{DType, FolderFiles, Gguf, HfFolder, WeightSource};
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
    if to.symlink_metadata().is_ok() {
        return Err(Error::unlike(to, "is there already; name another folder, or remove it"));
    }
    let source = Gguf::open(from)?;
    let model = ToFolder::new(&source)?;
    if let Some(files) = FolderFiles::of(source.metadata())? {
        return of_files(&source, &model, &files, (to, dtype), watch);
    }
    let Document { tokenizer, settings, rule, padding } = tokenizer::of_gguf(source.metadata(), from)?;
    let made = beside(to)?;
    let mut bytes = 0;
    let mut tensors = Vec::new();
    for tensor in model.tensors() {
        let to = tensor.written_as(dtype);
        let rows = tensor.shape.iter().rev().skip(1).product::<usize>();
        let size = to.row_bytes(tensor.shape.last().copied().unwrap_or(1)).unwrap_or(0) * rows;
        tensors.push((tensor.name.clone(), to, tensor.shape.clone(), size));
        bytes += size;
    }
    let mut writer = Writer::create(&made.path().join("model.safetensors"), &tensors)?;
    let mut done = 0;
    for (tensor, (_, to, ..)) in model.tensors().iter().zip(&tensors) {
        let values = model.values(tensor, *to)?;
        writer.write(&values)?;
        done += values.len();
        if watch(done, bytes).is_break() {
            return Err(Error::Stopped);
        }
    }
    writer.finish()?;
    source.check_intact()?;
    let tokens = leyden_text::from_gguf(source.metadata(), &from.display().to_string())?;
    let ids = json!({ "bos_token_id": tokens.bos(), "eos_token_id": tokens.eos(), "pad_token_id": padding });
    let mut config = model.config().clone();
    for (key, id) in ids.as_object().into_iter().flatten() {
        config[key] = id.clone();
    }
    let main = tensors.iter().find(|(_, _, shape, _)| shape.len() > 1).map(|tensor| tensor.1);
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
    Ok(Report { tensors: tensors.len(), bytes, rule, template, note })
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
    (to, dtype): (&Path, Option<DType>),
    watch: &mut Watch<'_>,
) -> Result<Report, Error> {
    let made = beside(to)?;
    files::write(files, made.path())?;
    let template = templates::to_folder(source.metadata(), made.path())?;
    let place = |tensor: &FolderTensor| {
        let to = tensor.written_as(dtype);
        let rows = tensor.shape.iter().rev().skip(1).product::<usize>();
        let size = to.row_bytes(tensor.shape.last().copied().unwrap_or(1)).unwrap_or(0) * rows;
        (tensor.name.clone(), to, tensor.shape.clone(), size)
    };
    let bytes = model.tensors().iter().map(|tensor| place(tensor).3).sum();
    let mut names: Vec<&str> = model.tensors().iter().map(|tensor| tensor.file.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let mut done = 0;
    for name in names {
        let of: Vec<&FolderTensor> = model.tensors().iter().filter(|tensor| tensor.file == name).collect();
        let places: Vec<_> = of.iter().map(|tensor| place(tensor)).collect();
        let mut writer = Writer::create(&made.path().join(name), &places)?;
        for (tensor, (_, to, ..)) in of.iter().zip(&places) {
            let values = model.values(tensor, *to)?;
            writer.write(&values)?;
            done += values.len();
            if watch(done, bytes).is_break() {
                return Err(Error::Stopped);
            }
        }
        writer.finish()?;
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
