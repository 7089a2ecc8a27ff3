//! Folders from the hub against transformers: tiny checkpoints of every class, in both dialects of `config.json`
//! and with every scaling of positions (`tests/golden/make/hf_checkpoints.py`).

use super::shared::{at_every_split, engine_on, numbers, own};
use leyden_kernels::attention::KvType;
use leyden_kernels::{Cpu, Tier};
use leyden_models::HfModel;
use serde_json::Value as Json;
use std::path::Path;
use std::sync::Arc;

pub(crate) fn golden() -> Json {
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

/// The folder of a model of the golden.
pub(crate) fn of(model: &Json) -> tempfile::TempDir {
    folder(&own("tests/fixtures/hf").join(model["folder"].as_str().unwrap()), &model["config"])
}

#[test]
fn logits_are_those_of_transformers_at_every_split_of_prompt_and_decode() {
    let golden = golden();
    let tokens: Vec<u32> = numbers(&golden["tokens"]).iter().map(|t| *t as u32).collect();
    let mut seen: Vec<&Json> = Vec::new();
    for model in golden["models"].as_array().unwrap() {
        let name = model["name"].as_str().unwrap();
        let folder = of(model);
        let source = Arc::new(HfModel::open(folder.path()).unwrap());
        // As torch computes them: it rounds no activation of these in F32.
        let cpu = Cpu::new(Tier::best(), 2).unwrap().with_exact(true);
        let mut e = engine_on(source, cpu, KvType::F32);
        at_every_split(&mut e, &tokens, &model["logits"], name);
        seen.push(&model["logits"]);
    }
    // A scaling that does nothing would prove nothing: only dialects and classes of the same model agree.
    seen.dedup();
    assert_eq!(seen.len(), 13, "different results");
}
