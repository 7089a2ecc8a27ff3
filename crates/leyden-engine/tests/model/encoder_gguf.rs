//! Encoders as GGUF files compared with llama.cpp, on the output of its converter for tiny folders
//! (`tests/golden/make/encoder_gguf.py`).

use super::decoders::{gguf, ids};
use super::encoders::{distance, states};
use super::shared::{engine_on, own};
use leyden_kernels::attention::KvType;
use leyden_kernels::{Cpu, Tier};
use leyden_tensor::DType;
use serde_json::Value as Json;
use std::sync::Arc;

#[test]
fn states_of_gguf_files_are_those_of_llama_cpp() {
    let path = own("tests/golden/encoder_gguf.json");
    let golden: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let text = ids(&golden["tokens"]);
    for model in golden["models"].as_array().unwrap() {
        let file = Arc::new(gguf(model, DType::F32));
        let cpu = Cpu::new(Tier::best(), 2).unwrap().with_exact(true);
        let got = states(&mut engine_on(file, cpu, KvType::F32), &[&text]);
        for (at, want) in model["states"].as_object().unwrap() {
            let off = distance(&got[0][at.parse::<usize>().unwrap()], want);
            let most = model["tolerance"].as_f64().unwrap();
            assert!(off < most, "{}, token {at}: {off:e}", model["name"]);
        }
    }
}
