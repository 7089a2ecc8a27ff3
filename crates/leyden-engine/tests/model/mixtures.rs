//! Forms in which files hold a mixture's experts and latent attention, beside those of `decoders.rs`.

use super::decoders::{bytes, exact, goldens, ids, tensors, value};
use super::shared::rows_of_split;
use leyden_models::HfModel;
use leyden_tensor::{DType, Gguf, GgufWriter, Value, quant};
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// A model of the goldens, and their text.
pub(crate) fn model(architecture: &str, name: &str) -> (Json, Vec<u32>) {
    let (_, golden) = goldens().into_iter().find(|(found, _)| found == architecture).unwrap();
    let model = golden["models"].as_array().unwrap().iter().find(|model| model["name"] == name);
    (model.unwrap().clone(), ids(&golden["tokens"]))
}

pub(crate) fn folder(config: &Json, tensors: &[(String, &str, Vec<usize>, Vec<u8>)]) -> tempfile::TempDir {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, dtype, shape, bytes) in tensors {
        let start = data.len();
        data.extend(bytes);
        let entry = json!({"dtype": dtype, "shape": shape, "data_offsets": [start, data.len()]});
        header.insert(name.clone(), entry);
    }
    let header = Json::Object(header).to_string();
    let folder = tempfile::tempdir().unwrap();
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
    std::fs::write(folder.path().join("model.safetensors"), file).unwrap();
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    folder
}

/// As the published folders of gpt-oss have it: experts in blocks and scales, and the method in the configuration.
#[test]
fn experts_in_mxfp4_are_those_numbers() {
    const FFN: usize = 96;
    let (model, tokens) = model("gpt-oss", "a window beyond the text");
    let mut config = model["config"].clone();
    config["intermediate_size"] = json!(FFN);
    let (mut plain, mut blocks) = (Vec::new(), Vec::new());
    for (name, mut shape, values) in tensors(&model["tensors"]) {
        let byte = |i: usize| (i * 89 + name.len() * 7 + i / 13 * 31) as u8;
        let (width, experts) = (64, shape[0]);
        let rows_k = if name.ends_with("gate_up_proj") {
            (2 * FFN, width)
        } else if name.ends_with("experts.down_proj") {
            (width, FFN)
        } else {
            let values = match name.ends_with("gate_up_proj_bias") {
                true => {
                    shape[1] = 2 * FFN;
                    (0..experts * 2 * FFN).map(|i| values[i % values.len()]).collect()
                }
                false => values,
            };
            let entry = (name.clone(), "F32", shape, bytes(&values));
            blocks.push(entry.clone());
            plain.push(entry);
            continue;
        };
        let (rows, k) = rows_k;
        let codes: Vec<u8> = (0..experts * rows * k / 2).map(byte).collect();
        let powers: Vec<u8> = (0..experts * rows * k / 32).map(|i| 122 + byte(i) % 4).collect();
        let mut turned = vec![0.0; experts * rows * k];
        for (i, code) in codes.iter().flat_map(|c| [c & 15, c >> 4]).enumerate() {
            let power = 2_f32.powi(i32::from(powers[i / 32]) - 128);
            let (matrix, row, column) = (i / (rows * k), i / k % rows, i % k);
            turned[(matrix * k + column) * rows + row] =
                power * f32::from(quant::MXFP4_VALUES[usize::from(code)]);
        }
        plain.push((name.clone(), "F32", vec![experts, k, rows], bytes(&turned)));
        blocks.push((format!("{name}_blocks"), "U8", vec![experts, rows, k / 32, 16], codes));
        blocks.push((format!("{name}_scales"), "U8", vec![experts, rows, k / 32], powers));
    }
    let logits = |folder: tempfile::TempDir| {
        let mut e = exact(Arc::new(HfModel::open(folder.path()).unwrap())).unwrap();
        rows_of_split(&mut e, &tokens, 100).concat()
    };
    let want = logits(folder(&config, &plain));
    config["quantization_config"] = json!({"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]});
    let got = logits(folder(&config, &blocks));
    // Activations are rounded to 8 bits where weights are quantised.
    let size = |x: &mut dyn Iterator<Item = f32>| x.map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    let off = size(&mut want.iter().zip(&got).map(|(a, b)| a - b)) / size(&mut want.iter().copied());
    assert!(off > 0.0 && off < 0.03, "{off}");
}

/// As files had it before the matrix of keys and values was parted.
#[test]
fn latent_attention_of_older_files_is_the_same() {
    let (model, tokens) = model("deepseek2", "V3 with groups");
    let kept = &model["gguf"];
    let write = |old: bool| {
        let mut file = GgufWriter::new();
        for (key, entry) in kept["meta"].as_object().unwrap() {
            file.set(key, value(entry[0].as_str().unwrap(), &entry[1]));
        }
        let number = |name: &str| kept["meta"][format!("deepseek2.attention.{name}")][1].as_u64().unwrap();
        if old {
            for part in ["key_length", "value_length"] {
                let n = Value::U32(number(&format!("{part}_mla")) as u32);
                file.set(&format!("deepseek2.attention.{part}"), n.clone());
                file.set(&format!("deepseek2.attention.{part}_mla"), Value::U32(0));
            }
            file.set("deepseek2.attention.head_count_kv", Value::U32(3));
        }
        let all = tensors(&kept["tensors"]);
        for (name, shape, values) in &all {
            if !old || !name.contains("attn_k_b") && !name.contains("attn_v_b") {
                file.add_tensor(name, DType::F32, shape, bytes(values)).unwrap();
                continue;
            }
            let Some(layer) = name.strip_suffix("attn_k_b.weight") else { continue };
            let (heads, rank, plain) = (shape[0], shape[1], shape[2]);
            let (_, of_values, v) = all.iter().find(|t| t.0 == format!("{layer}attn_v_b.weight")).unwrap();
            let mut joined = Vec::new();
            for h in 0..heads {
                joined.extend((0..plain * rank).map(|i| values[(h * rank + i % rank) * plain + i / rank]));
                joined.extend(&v[h * of_values[1] * rank..][..of_values[1] * rank]);
            }
            let shape = [heads * (plain + of_values[1]), rank];
            file.add_tensor(&format!("{layer}attn_kv_b.weight"), DType::F32, &shape, bytes(&joined)).unwrap();
        }
        Gguf::from_vec(file.to_vec().unwrap(), "m.gguf").unwrap()
    };
    let [new, old] = [false, true].map(|old| {
        let mut e = exact(Arc::new(write(old))).unwrap();
        rows_of_split(&mut e, &tokens, 100).concat()
    });
    assert!(new.iter().zip(&old).all(|(a, b)| a.to_bits() == b.to_bits()));
}
