//! Every decoder of the goldens as a folder, converted to GGUF and back: the same logits and tensors, and the names and
//! keys of llama.cpp's converter.

use super::decoders::{exact, folder, gguf, goldens, ids};
use super::shared::rows_of_split;
use super::{checkpoints, converted_encoders, gemma3};
use leyden_models::{ARCHITECTURES, Conversion, FolderTensor, HfModel, ToFolder, ToGguf, config_of_json};
use leyden_tensor::{DType, FolderFiles, Gguf, GgufWriter, Json, WeightSource, quant};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// A folder, the tokens that it is run with, and the file that llama.cpp's converter made of it, if it did.
struct Case {
    name: String,
    config: Value,
    folder: TempDir,
    tokens: Vec<u32>,
    file: Option<Value>,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, golden) in goldens() {
        for model in golden["models"].as_array().unwrap() {
            cases.push(Case {
                name: format!("{name}, {}", model["name"]),
                config: model["config"].clone(),
                folder: folder(model),
                tokens: ids(&golden["tokens"]),
                file: model.get("gguf").cloned(),
            });
        }
    }
    for (golden, made) in [
        (checkpoints::golden(), checkpoints::of as fn(&Value) -> TempDir),
        (gemma3::golden(), |model| gemma3::folder(&model["config"])),
    ] {
        for model in golden["models"].as_array().unwrap() {
            cases.push(Case {
                name: model["name"].to_string(),
                config: model["config"].clone(),
                folder: made(model),
                tokens: ids(&golden["tokens"]),
                file: None,
            });
        }
    }
    cases
}

/// The settings of a folder and of the folders in it.
fn settings(folder: &Path) -> FolderFiles {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        let inner = entry.path().join("config.json");
        match name.ends_with(".json") {
            true => all.push((name, std::fs::read_to_string(entry.path()).unwrap())),
            false if inner.is_file() => {
                all.push((format!("{name}/config.json"), std::fs::read_to_string(inner).unwrap()));
            }
            false => {}
        }
    }
    FolderFiles::new(all)
}

/// The file that a folder becomes.
pub(crate) fn converted(model: &HfModel) -> Result<Gguf, String> {
    let made = ToGguf::new(model).map_err(|e| e.to_string())?;
    let mut file = GgufWriter::new();
    for (key, value) in made.entries() {
        file.set(key, value.clone());
    }
    if made.needs_folder_files() {
        for (key, value) in settings(model.path()).entries(model.folder().config()) {
            file.set(&key, value);
        }
    }
    for tensor in made.tensors() {
        let dtype = tensor.written_as(None);
        let values = made.values(tensor, dtype).map_err(|e| e.to_string())?;
        file.add_tensor(&tensor.name, dtype, &tensor.shape, values).map_err(|e| e.to_string())?;
    }
    Gguf::from_vec(file.to_vec().unwrap(), "converted.gguf").map_err(|e| e.to_string())
}

/// The folder that a file becomes.
pub(crate) fn back(file: &Gguf) -> Result<TempDir, String> {
    let made = ToFolder::new(file).map_err(|e| e.to_string())?;
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    match FolderFiles::of(file.metadata()).unwrap() {
        Some(files) => files.iter().for_each(|(name, text)| write(name, text.as_bytes())),
        None => write("config.json", made.config().to_string().as_bytes()),
    }
    let mut by_file: BTreeMap<&str, Vec<&FolderTensor>> = BTreeMap::new();
    made.tensors().iter().for_each(|tensor| by_file.entry(&tensor.file).or_default().push(tensor));
    for (name, tensors) in by_file {
        let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
        for tensor in tensors {
            let start = data.len();
            data.extend(made.values(tensor, DType::F32).map_err(|e| e.to_string())?);
            let entry = json!({ "dtype": "F32", "shape": tensor.shape, "data_offsets": [start, data.len()] });
            header.insert(tensor.name.clone(), entry);
        }
        let header = Value::Object(header).to_string();
        write(name, &[&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat());
    }
    Ok(folder)
}

/// Shapes and values by names.
fn tensors(
    source: &dyn WeightSource,
    require: impl Fn(&str) -> (Vec<usize>, DType, Vec<u8>),
) -> BTreeMap<String, (Vec<usize>, Vec<f32>)> {
    let tensor = |name: &str| {
        let (shape, dtype, bytes) = require(name);
        let mut values = vec![0.0; shape.iter().product()];
        quant::decode_row(dtype, &bytes, &mut values);
        (shape, values)
    };
    source.tensor_names().into_iter().map(|name| (name.to_owned(), tensor(name))).collect()
}

fn of_file(file: &Gguf) -> BTreeMap<String, (Vec<usize>, Vec<f32>)> {
    tensors(file, |name| {
        let view = file.require(name).unwrap();
        (view.shape().to_vec(), view.dtype(), view.bytes().to_vec())
    })
}

fn of_folder(folder: &Path) -> BTreeMap<String, (Vec<usize>, Vec<f32>)> {
    let model = HfModel::open(folder).unwrap();
    tensors(&model, |name| {
        let view = model.weights().require(name).unwrap();
        (view.shape().to_vec(), view.dtype(), view.bytes().to_vec())
    })
}

/// Checks that names and keys are those of llama.cpp's converter; its weights follow from another formula.
fn as_llama_cpp(file: &Gguf, kept: &Value) -> Result<(), String> {
    let theirs = gguf(kept, DType::F32);
    let shapes = |file: &Gguf| of_file(file).into_iter().map(|(name, t)| (name, t.0)).collect::<Vec<_>>();
    if shapes(file) != shapes(&theirs) {
        return Err(format!("tensors {:?}, llama.cpp has {:?}", shapes(file), shapes(&theirs)));
    }
    for (key, value) in theirs.metadata().iter() {
        // Keys without effect, or implied by the absence of another.
        let silent = ["tensor_data_layout", "rope.scaling.type", "freq_base_swa", "sliding_window_pattern"];
        let off = value.as_integer() == Some(0) || value.as_integer() == Some(1);
        let same = file.metadata().get(key).is_some_and(|found| found == value);
        if !same && !off && !silent.iter().any(|name| key.ends_with(name)) {
            return Err(format!("{key}: {:?}, llama.cpp writes {value:?}", file.metadata().get(key)));
        }
    }
    Ok(())
}

/// Checks that a source has the logits of a folder.
fn same_logits(case: &Case, source: Arc<dyn WeightSource>) -> Result<(), String> {
    let open = HfModel::open(case.folder.path()).map_err(|e| e.to_string())?;
    let at = case.tokens.len() / 2;
    let was = rows_of_split(&mut exact(Arc::new(open))?, &case.tokens, at);
    let is = rows_of_split(&mut exact(source)?, &case.tokens, at);
    let off = was.iter().flatten().zip(is.iter().flatten()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    if was.len() == is.len() && off < 1e-4 { Ok(()) } else { Err(format!("logits are off by {off:e}")) }
}

/// Compares the tensors of two folders.
pub(crate) fn same_tensors(was: &Path, is: &Path) -> Result<(), String> {
    let (was, is) = (of_folder(was), of_folder(is));
    let names = |all: &BTreeMap<String, _>| all.keys().cloned().collect::<Vec<_>>();
    if names(&was) != names(&is) {
        return Err(format!("back: tensors {:?}, there were {:?}", names(&is), names(&was)));
    }
    for (name, (shape, values)) in &was {
        // The offset added for GGUF is subtracted again, with one rounding.
        let near = |(a, b): (&f32, &f32)| {
            // GGUF leaves out rows of tables of positions that no token has.
            (a - b).abs() <= 1e-6 * a.abs().max(1.0) || *b == 0.0 && name.contains("position_embeddings")
        };
        if *shape != is[name].0 || !values.iter().zip(&is[name].1).all(near) {
            return Err(format!("back: {name}: {:?}, was {shape:?}, or other values", is[name].0));
        }
    }
    Ok(())
}

fn check(case: &Case, and_back: bool) -> Result<(), String> {
    let file = converted(&HfModel::open(case.folder.path()).map_err(|e| e.to_string())?)?;
    if let Some(kept) = &case.file {
        as_llama_cpp(&file, kept)?;
    }
    if and_back {
        let made = back(&file).map_err(|why| format!("back: {why}"))?;
        same_tensors(case.folder.path(), made.path())?;
        same_logits(case, Arc::new(HfModel::open(made.path()).map_err(|e| format!("back: {e}"))?))
            .map_err(|why| format!("back: {why}"))?;
    } else {
        let told = ToFolder::new(&file).unwrap_err().to_string();
        assert!(told.contains("not converted to folders"), "{told}");
    }
    same_logits(case, Arc::new(file))
}

#[test]
fn folders_of_all_decoders_become_files_and_folders_with_the_same_logits() {
    let mut wrong = Vec::new();
    let mut done = BTreeSet::new();
    for case in cases() {
        let json = Json::parse(case.config.to_string().as_bytes(), "config.json").unwrap();
        let architecture = config_of_json(&json).unwrap().architecture;
        let row = ARCHITECTURES.iter().find(|row| row.name == architecture).unwrap();
        match (row.conversion, check(&case, row.conversion == Conversion::Both)) {
            (Conversion::None(why), Err(told)) if told.contains(why) => {}
            (Conversion::Both | Conversion::ToGguf(_), Ok(())) => _ = done.insert(architecture),
            // Models with settings that llama.cpp's converter drops are refused here.
            (Conversion::Both | Conversion::ToGguf(_), Err(told))
                if case.file.is_none()
                    && told.contains("config.json")
                    && told.contains("have no key for") => {}
            (_, got) => wrong.push(format!("{}: {got:?}", case.name)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let wanted = ARCHITECTURES.iter().filter(|row| !matches!(row.conversion, Conversion::None(_)));
    // The others are encoders, whose test is beside this one.
    done.extend(converted_encoders::architectures());
    assert_eq!(done, wanted.map(|row| row.name).collect::<BTreeSet<&str>>());
}
