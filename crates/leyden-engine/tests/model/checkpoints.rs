//! Folders from the hub against transformers: tiny checkpoints of every class, in both dialects of `config.json`
//! and with every scaling of positions (`tests/golden/make/hf_checkpoints.py`).

use super::shared::{engine, one, own};
use leyden_engine::Outputs;
use leyden_kernels::Tier;
use leyden_kernels::attention::KvType;
use leyden_models::HfModel;
use serde_json::Value as Json;
use std::path::Path;
use std::sync::Arc;

fn golden() -> Json {
    let path = own("tests/golden/hf_logits.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The weights of a checkpoint with another configuration.
fn folder(checkpoint: &Path, config: &Json) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(checkpoint).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
    }
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    folder
}

#[test]
fn logits_are_those_of_transformers_at_every_split_of_prompt_and_decode() {
    let golden = golden();
    let numbers =
        |v: &Json| -> Vec<f64> { v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect() };
    let tokens: Vec<u32> = numbers(&golden["tokens"]).iter().map(|t| *t as u32).collect();
    let mut seen: Vec<&Json> = Vec::new();
    for model in golden["models"].as_array().unwrap() {
        let name = model["name"].as_str().unwrap();
        let checkpoint = own("tests/fixtures/hf").join(model["folder"].as_str().unwrap());
        let folder = folder(&checkpoint, &model["config"]);
        let source = Arc::new(HfModel::open(folder.path()).unwrap());
        let mut e = engine(source, Tier::best(), 2, KvType::F32);
        for prompt in [100, 50, 1] {
            let sequence = e.open();
            let mut rows: Vec<Vec<f32>> = Vec::new();
            for part in [&tokens[..prompt]].into_iter().chain(tokens[prompt..].chunks(1)) {
                let output = e.step(&one(sequence, part, Outputs::All)).unwrap();
                rows.extend(output.rows().map(|r| r.logits.to_vec()));
            }
            e.close(sequence);
            for at in [0, 49, 99] {
                let want = numbers(&model["logits"][at.to_string()]);
                let size = want.iter().map(|x| x * x).sum::<f64>().sqrt();
                let error: f64 = want.iter().zip(&rows[at]).map(|(w, g)| (w - f64::from(*g)).powi(2)).sum();
                let relative = error.sqrt() / size;
                assert!(relative < 1e-4, "{name} split {prompt} position {at}: {relative:e}");
            }
        }
        seen.push(&model["logits"]);
    }
    // A scaling that does nothing would prove nothing: only dialects and classes of the same model agree.
    seen.dedup();
    assert_eq!(seen.len(), 13, "different results");
}
