//! Folders with quantised matrices compared with the same matrices in F32: every place where a network takes a matrix
//! is tested, with stacks and with matrices that are fused in the file too. The bit formats of the methods are tested
//! in the crates that read them.

use super::decoders::{bytes, exact, ids, tensors};
use super::mixtures::{folder, model};
use super::shared::rows_of_split;
use leyden_models::HfModel;
use leyden_tensor::quant::{self, f32_to_f16};
use leyden_tensor::{Safetensors, WeightSource, run_sequentially};
use serde_json::{Value as Json, json};
use std::sync::Arc;

type Tensors = Vec<(String, &'static str, Vec<usize>, Vec<u8>)>;

/// Some byte, another for each place.
fn byte(i: usize, salt: usize) -> u8 {
    ((i * 89 + salt * 7 + i / 13 * 31) ^ (i >> 5)) as u8
}

/// A matrix by GPTQ, in groups of all inputs, and its values.
fn gptq(stem: &str, [rows, k]: [usize; 2], out: &mut Tensors) -> Vec<f32> {
    let code = |row: usize, i: usize| byte(row * k + i, stem.len()) & 15;
    let scale = |row: usize| (1 + row % 3) as f32 / 128.0;
    let mut words = vec![0_u32; k / 8 * rows];
    for row in 0..rows {
        for i in 0..k {
            words[i / 8 * rows + row] |= u32::from(code(row, i)) << (i % 8 * 4);
        }
    }
    let words: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let scales = (0..rows).flat_map(|row| f32_to_f16(scale(row)).to_le_bytes()).collect();
    out.push((format!("{stem}.qweight"), "I32", vec![k / 8, rows], words));
    out.push((format!("{stem}.qzeros"), "I32", vec![1, rows / 8], vec![0x77; rows / 2]));
    out.push((format!("{stem}.scales"), "F16", vec![1, rows], scales));
    // Some programs give every matrix one.
    out.push((format!("{stem}.bias"), "F16", vec![rows], vec![0; 2 * rows]));
    (0..rows * k).map(|n| scale(n / k) * (f32::from(code(n / k, n % k)) - 8.0)).collect()
}

/// A matrix in FP8, with one scale, and its values.
fn fp8(stem: &str, [rows, k]: [usize; 2], out: &mut Tensors) -> Vec<f32> {
    // Numbers between 1/4 and 4 of either sign, scaled down.
    let code = |n: usize| byte(n, stem.len()) & 0x9f | 0x28;
    let codes: Vec<u8> = (0..rows * k).map(code).collect();
    let value = |code: &u8| {
        let size = (1.0 + f32::from(code & 7) / 8.0) * 2_f32.powi(i32::from(code >> 3 & 15) - 7);
        if *code >= 0x80 { -size / 32.0 } else { size / 32.0 }
    };
    let values = codes.iter().map(value).collect();
    out.push((format!("{stem}.weight"), "F8_E4M3", vec![rows, k], codes));
    out.push((format!("{stem}.weight_scale_inv"), "F32", vec![1, 1], bytes(&[1.0 / 32.0])));
    out.push((format!("{stem}.input_scale"), "F32", vec![1], bytes(&[3.0])));
    values
}

#[test]
fn quantised_folders_compute_what_their_values_do() {
    type Quantise = fn(&str, [usize; 2], &mut Tensors) -> Vec<f32>;
    let methods: [(Json, Quantise, f64); 2] = [
        // Activations are rounded to 8 bits where weights are integers.
        (json!({"quant_method": "gptq", "bits": 4, "sym": true}), gptq, 0.03),
        (json!({"quant_method": "fp8", "weight_block_size": [128, 128]}), fp8, 1e-5),
    ];
    // A stack of experts, and queries, keys and values in one matrix.
    for (architecture, name) in [("qwen3moe", "one of three"), ("phi3", "longrope")] {
        let (model, tokens) = model(architecture, name);
        let tokens = &tokens[..20];
        for (method, quantise, most) in &methods {
            let mut config = model["config"].clone();
            let (mut plain, mut quantised) = (Tensors::new(), Tensors::new());
            for (name, shape, values) in tensors(&model["tensors"]) {
                match (name.strip_suffix("_proj.weight"), &shape[..]) {
                    (Some(_), &[rows, k]) => {
                        let stem = name.strip_suffix(".weight").unwrap();
                        let values = quantise(stem, [rows, k], &mut quantised);
                        plain.push((name, "F32", shape, bytes(&values)));
                    }
                    _ => {
                        let entry = (name, "F32", shape, bytes(&values));
                        quantised.push(entry.clone());
                        plain.push(entry);
                    }
                }
            }
            let logits = |folder: tempfile::TempDir| {
                let mut e = exact(Arc::new(HfModel::open(folder.path()).unwrap())).unwrap();
                rows_of_split(&mut e, tokens, 15).concat()
            };
            let want = logits(folder(&config, &plain));
            config["quantization_config"] = method.clone();
            let got = logits(folder(&config, &quantised));
            let size = |x: &mut dyn Iterator<Item = f32>| x.map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt();
            let off = size(&mut want.iter().zip(&got).map(|(a, b)| a - b)) / size(&mut want.iter().copied());
            assert!(off < *most && want.iter().all(|x| x.is_finite()), "{architecture} {method}: {off}");
        }
    }
}

/// Compares with transformers, on folders that it decodes itself or on copies with other programs' values
/// (`make/quantised.py`). Matrices that stay integers are multiplied with activations of 8 bits; so the values that
/// each folder stands for are compared in F32, and the folder itself within the error of that rounding.
#[test]
fn quantised_folders_compute_what_transformers_does() {
    let golden = include_bytes!("../golden/quantised.safetensors");
    let file = Safetensors::from_vec(golden.to_vec(), "quantised.safetensors").unwrap();
    let meta = |key: &str| -> Json { serde_json::from_str(file.metadata().str(key).unwrap()).unwrap() };
    let (config, tokens, logits) = (meta("config"), ids(&meta("tokens")), meta("logits"));
    for (case, method) in meta("cases").as_object().unwrap() {
        let (mut stored, mut plain) = (Tensors::new(), Tensors::new());
        for info in file.tensor_info() {
            let (owner, name) = info.name.split_once('.').unwrap();
            let (info, data) = file.raw(&info.name).unwrap();
            let entry = (name.to_owned(), info.type_name, info.shape.clone(), data.to_vec());
            plain.extend((owner == "shared").then(|| entry.clone()));
            stored.extend((owner == "shared" || owner == case).then_some(entry));
        }
        let mut config = config.clone();
        config["quantization_config"] = method.clone();
        let quantised = folder(&config, &stored);
        let model = HfModel::open(quantised.path()).unwrap();
        let layer = [("attn_q", 32, 64), ("attn_k", 16, 64), ("attn_v", 16, 64), ("attn_output", 64, 32)];
        let mlp = [("ffn_gate", 32, 64), ("ffn_up", 32, 64), ("ffn_down", 64, 32)];
        for (name, rows, k) in layer.into_iter().chain(mlp) {
            let tensor = model
                .composed(&format!("blk.0.{name}.weight"), &[rows, k], &run_sequentially)
                .unwrap()
                .unwrap();
            let mut values = vec![0.0; rows * k];
            quant::decode_row(tensor.dtype, &tensor.bytes, &mut values);
            plain.push((tensor.name, "F32", vec![rows, k], bytes(&values)));
        }
        config.as_object_mut().unwrap().remove("quantization_config");
        let want: Vec<f64> = logits[case].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
        let size = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x.powi(2)).sum::<f64>().sqrt();
        for (name, folder, most) in [("values", folder(&config, &plain), 1e-4), ("folder", quantised, 0.03)] {
            let mut e = exact(Arc::new(HfModel::open(folder.path()).unwrap())).unwrap();
            let got = rows_of_split(&mut e, &tokens, 15).pop().unwrap();
            let off = size(&mut want.iter().zip(&got).map(|(a, b)| a - f64::from(*b)));
            let off = off / size(&mut want.iter().copied());
            assert!(off < most, "{case}, {name}: {off}");
        }
    }
}
