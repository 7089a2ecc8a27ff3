//! Every decoder in `tests/golden/decoders` compared with transformers, as a folder, and with llama.cpp, as the GGUF
//! file of its converter. The weights follow from a formula (`tests/golden/make/decoders.py`).

use super::architectures::noise;
use super::shared::{difference, engine_on, greedy, numbers, one, own, rows_of_split};
use leyden_engine::{Engine, Outputs, StepEntry};
use leyden_kernels::attention::KvType;
use leyden_kernels::{Cpu, Tier};
use leyden_models::HfModel;
use leyden_tensor::{Array, DType, Gguf, GgufWriter, Value, WeightSource, quant};
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// The files, by name.
pub(crate) fn goldens() -> Vec<(String, Json)> {
    let mut paths: Vec<_> =
        std::fs::read_dir(own("tests/golden/decoders")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
    };
    paths.iter().map(read).collect()
}

pub(crate) fn ids(list: &Json) -> Vec<u32> {
    numbers(list).iter().map(|id| *id as u32).collect()
}

fn sizes(list: &Json) -> Vec<usize> {
    numbers(list).iter().map(|n| *n as usize).collect()
}

/// Names, sorted, with shapes and values.
pub(crate) fn tensors(kept: &Json) -> Vec<(String, Vec<usize>, Vec<f32>)> {
    let mut all = Vec::new();
    for row in kept.as_array().unwrap() {
        let pattern = row[0].as_str().unwrap();
        let (base, scale) = (row[3].as_f64().unwrap() as f32, row[4].as_f64().unwrap());
        let layers = sizes(&row[1]);
        let names = match layers[..] {
            [] => vec![pattern.to_owned()],
            _ => layers.iter().map(|i| pattern.replacen("{}", &i.to_string(), 1)).collect(),
        };
        all.extend(names.into_iter().map(|name| (name, sizes(&row[2]), base, scale)));
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let values = |(seed, (name, shape, base, scale)): (u64, (String, Vec<usize>, f32, f64))| {
        let n = shape.iter().product::<usize>() as u64;
        let values = (0..n).map(|i| noise(i, seed, base, scale)).collect();
        (name, shape, values)
    };
    (1..).zip(all).map(values).collect()
}

pub(crate) fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// The folder of a model.
pub(crate) fn folder(model: &Json) -> tempfile::TempDir {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape, values) in tensors(&model["tensors"]) {
        let start = data.len();
        data.extend(bytes(&values));
        header.insert(name, json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]}));
    }
    let header = Json::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("model.safetensors"), file).unwrap();
    std::fs::write(folder.path().join("config.json"), model["config"].to_string()).unwrap();
    folder
}

/// Reads a metadata value whose type is named beside it.
pub(crate) fn value(kind: &str, value: &Json) -> Value {
    let integers = || numbers(value).into_iter().map(|n| n as i64);
    match kind {
        "u32" => Value::U32(value.as_u64().unwrap() as u32),
        "i32" => Value::I32(value.as_i64().unwrap() as i32),
        "u64" => Value::U64(value.as_u64().unwrap()),
        "f32" => Value::F32(value.as_f64().unwrap() as f32),
        "bool" => Value::Bool(value.as_bool().unwrap()),
        "string" => Value::from(value.as_str().unwrap()),
        "array u32" => Value::Array(Array::from_u32(&integers().map(|n| n as u32).collect::<Vec<_>>())),
        "array i32" => Value::Array(Array::from_i32(&integers().map(|n| n as i32).collect::<Vec<_>>())),
        "array f32" => {
            Value::Array(Array::from_f32(&numbers(value).iter().map(|n| *n as f32).collect::<Vec<_>>()))
        }
        "array bool" => {
            let flags = value.as_array().unwrap().iter().map(|flag| flag.as_bool().unwrap());
            Value::Array(Array::from_bools(&flags.collect::<Vec<_>>()))
        }
        other => panic!("{other}"),
    }
}

/// The file that llama.cpp's converter makes of it, with matrices in one type.
pub(crate) fn gguf(kept: &Json, matrices: DType) -> Gguf {
    let mut file = GgufWriter::new();
    for (key, entry) in kept["meta"].as_object().unwrap() {
        file.set(key, value(entry[0].as_str().unwrap(), &entry[1]));
    }
    for (name, shape, values) in tensors(&kept["tensors"]) {
        // Tensors that llama.cpp keeps in F32 whatever the file's type.
        let small = ["conv1d", "shortconv.conv", "ssm_a", "ssm_d", "ssm_norm", "ffn_gate_inp", "bias"]
            .iter()
            .any(|part| name.contains(part));
        if shape.len() > 1 && matrices == DType::F16 && !small {
            let mut out = vec![0; values.len() * 2];
            quant::encode_row(DType::F16, &values, &mut out);
            file.add_tensor(&name, DType::F16, &shape, out).unwrap();
        } else {
            file.add_tensor(&name, DType::F32, &shape, bytes(&values)).unwrap();
        }
    }
    Gguf::from_vec(file.to_vec().unwrap(), "m.gguf").unwrap()
}

/// An engine that computes as torch does, which rounds no activation of these.
pub(crate) fn exact(source: Arc<dyn WeightSource>) -> Result<Engine, String> {
    leyden_models::config_of(source.as_ref()).map_err(|e| e.to_string())?;
    Ok(engine_on(source, Cpu::new(Tier::best(), 2).unwrap().with_exact(true), KvType::F32))
}

/// Returns whether a text's logits have the same bits in steps with other texts.
pub(crate) fn same_among_others(e: &mut Engine, tokens: &[u32]) -> bool {
    let alone = e.open();
    let output = e.step(&one(alone, tokens, Outputs::From(0))).unwrap();
    let want: Vec<f32> = output.rows().flat_map(|r| r.logits.to_vec()).collect();
    let among = [e.open(), e.open(), e.open()];
    let mut got = Vec::new();
    for part in tokens.chunks(30) {
        let mut plan = one(among[1], part, Outputs::From(0));
        // One before it, one behind.
        for at in [0, 2] {
            let tokens = part.iter().map(|t| (t * 3 + at) % 96).collect();
            let entry = StepEntry { sequence: among[at as usize], tokens, outputs: Outputs::None };
            plan.entries.insert(at as usize, entry);
        }
        got.extend(e.step(&plan).unwrap().rows().flat_map(|r| r.logits.to_vec()));
    }
    want.len() == got.len() && want.iter().zip(&got).all(|(a, b)| a.to_bits() == b.to_bits())
}

fn check_folder(model: &Json, tokens: &[u32]) -> Result<(), String> {
    let folder = folder(model);
    let source = HfModel::open(folder.path()).map_err(|e| e.to_string())?;
    let mut e = exact(Arc::new(source))?;
    for prompt in [100, 50, 1] {
        let off = difference(&rows_of_split(&mut e, tokens, prompt), &model["logits"]);
        if off >= 1e-4 {
            return Err(format!("split {prompt}: {off:e}"));
        }
    }
    if same_among_others(&mut e, tokens) { Ok(()) } else { Err("among others".to_owned()) }
}

fn check_gguf(kept: &Json, tokens: &[u32]) -> Result<(), String> {
    let mut e = exact(Arc::new(gguf(kept, DType::F32)))?;
    let off = difference(&rows_of_split(&mut e, tokens, 50), &kept["logits"]);
    if off >= kept["tolerance"].as_f64().unwrap() {
        return Err(format!("{off:e}"));
    }
    let mut e = exact(Arc::new(gguf(kept, DType::F16)))?;
    let want = ids(&kept["greedy"]);
    if want.len() < 8 {
        return Err(format!("{} greedy tokens are too few", want.len()));
    }
    let from = kept["prompt"].as_u64().unwrap_or(0) as usize;
    let got = greedy(&mut e, &tokens[from..from + 20], want.len());
    if got == want { Ok(()) } else { Err(format!("greedy {got:?}, not {want:?}")) }
}

#[test]
fn logits_are_those_of_transformers_and_llama_cpp() {
    let mut wrong = Vec::new();
    for (name, golden) in goldens() {
        let tokens = ids(&golden["tokens"]);
        let models = golden["models"].as_array().unwrap();
        assert!(models.len() >= 3, "{name}");
        for model in models {
            let mut note = |kind: &str, checked: Result<(), String>| {
                if let Err(why) = checked {
                    wrong.push(format!("{name}, {}, {kind}: {why}", model["name"]));
                }
            };
            note("folder", check_folder(model, &tokens));
            if model.get("gguf").is_some() {
                note("GGUF", check_gguf(&model["gguf"], &tokens));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
