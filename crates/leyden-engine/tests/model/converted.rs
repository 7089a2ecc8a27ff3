//! Every decoder in `tests/golden/decoders` as a folder, converted to GGUF: the same logits, and the names and keys of llama.cpp's
//! converter.

use super::decoders::{exact, folder, gguf, goldens, ids};
use super::shared::rows_of_split;
use leyden_models::{ARCHITECTURES, Conversion, HfModel, ToGguf, config_of_json};
use leyden_tensor::{DType, Gguf, GgufWriter, Json, WeightSource};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The file that a folder becomes.
pub(crate) fn converted(model: &HfModel) -> Result<Gguf, String> {
    let made = ToGguf::new(model).map_err(|e| e.to_string())?;
    let mut file = GgufWriter::new();
    for (key, value) in made.entries() {
        file.set(key, value.clone());
    }
    for tensor in made.tensors() {
        let dtype = tensor.written_as(None);
        let values = made.values(tensor, dtype).map_err(|e| e.to_string())?;
        file.add_tensor(&tensor.name, dtype, &tensor.shape, values).map_err(|e| e.to_string())?;
    }
    Gguf::from_vec(file.to_vec().unwrap(), "converted.gguf").map_err(|e| e.to_string())
}

/// Names, shapes and values.
fn tensors(file: &Gguf) -> BTreeMap<String, (Vec<usize>, Vec<u8>)> {
    let view = |name: &str| file.require(name).unwrap();
    let tensor = |name: &str| (view(name).shape().to_vec(), view(name).bytes().to_vec());
    file.tensor_names().into_iter().map(|name| (name.to_owned(), tensor(name))).collect()
}

fn check(model: &Value, tokens: &[u32]) -> Result<(), String> {
    let folder = folder(model);
    let open = || HfModel::open(folder.path()).map_err(|e| e.to_string());
    let file = converted(&open()?)?;
    if let Some(kept) = model.get("gguf") {
        // What llama.cpp's converter wrote for the same folder; its weights follow from another formula.
        let theirs = gguf(kept, DType::F32);
        let shapes = |file: &Gguf| tensors(file).into_iter().map(|(name, t)| (name, t.0)).collect::<Vec<_>>();
        if shapes(&file) != shapes(&theirs) {
            return Err(format!("tensors {:?}, llama.cpp has {:?}", shapes(&file), shapes(&theirs)));
        }
        for (key, value) in theirs.metadata().iter() {
            // Without an effect, or said by the absence of another one.
            let silent =
                ["tensor_data_layout", "rope.scaling.type", "freq_base_swa", "sliding_window_pattern"];
            let off = value.as_integer() == Some(0) || value.as_integer() == Some(1);
            let same = file.metadata().get(key).is_some_and(|found| found == value);
            if !same && !off && !silent.iter().any(|name| key.ends_with(name)) {
                return Err(format!("{key}: {:?}, llama.cpp writes {value:?}", file.metadata().get(key)));
            }
        }
    }
    let was = rows_of_split(&mut exact(Arc::new(open()?))?, tokens, 50);
    let is = rows_of_split(&mut exact(Arc::new(file))?, tokens, 50);
    let off = was.iter().flatten().zip(is.iter().flatten()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    if was.len() == is.len() && off < 1e-4 { Ok(()) } else { Err(format!("logits are off by {off:e}")) }
}

#[test]
fn folders_of_all_decoders_become_files_with_the_same_logits() {
    let mut wrong = Vec::new();
    let mut done = BTreeSet::new();
    for (name, golden) in goldens() {
        let tokens = ids(&golden["tokens"]);
        for model in golden["models"].as_array().unwrap() {
            let json = Json::parse(model["config"].to_string().as_bytes(), "config.json").unwrap();
            let architecture = config_of_json(&json).unwrap().architecture;
            let row = ARCHITECTURES.iter().find(|row| row.name == architecture).unwrap();
            let has_file = model.get("gguf").is_some();
            match (row.conversion, check(model, &tokens)) {
                (Conversion::None(why), Err(told)) if told.contains(why) => {}
                (Conversion::Both | Conversion::ToGguf(_), Ok(())) => _ = done.insert(architecture),
                // What llama.cpp's converter leaves out is refused here.
                (Conversion::Both | Conversion::ToGguf(_), Err(told))
                    if !has_file && told.contains("config.json") && told.contains("have no key for") => {}
                (_, got) => wrong.push(format!("{name}: {}: {got:?}", model["name"])),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(done.len() >= 22, "{done:?}");
}
