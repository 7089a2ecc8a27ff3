//! Matrices that follow from a configuration, against the tensors of every architecture's golden.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use leyden_plan::{ModelFacts, Role};
use leyden_tensor::{DType, Json};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Tensors that are no matrices of a step, or too small to count: convolutions, and AltUp's and LAuReL's products.
const SMALL: [&str; 9] =
    ["norm", "conv1d", "shortconv.conv", "altup", "laurel", "ssm_a", "ssm_d", "ssm_dt", "rope_freqs"];

/// Returns the numbers of values of all matrices of a golden's GGUF file.
fn stored(gguf: &Value) -> u64 {
    let tensors = gguf["tensors"].as_array().unwrap().iter();
    let values = tensors.map(|tensor| {
        let name = tensor[0].as_str().unwrap();
        let shape: Vec<u64> = tensor[2].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
        let count = tensor[1].as_array().unwrap().len().max(1) as u64;
        let matrix =
            shape.len() >= 2 && name.ends_with("weight") && !SMALL.iter().any(|part| name.contains(part));
        if matrix { count * shape.iter().product::<u64>() } else { 0 }
    });
    values.sum()
}

#[test]
fn matrices_have_the_sizes_of_the_tensors() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../leyden-engine/tests/golden/decoders");
    let (mut compared, mut wrong) = (0, Vec::new());
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let golden: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        for model in golden["models"].as_array().unwrap() {
            let (config, gguf) = (&model["config"], &model["gguf"]);
            if config.is_null() || gguf.is_null() {
                continue;
            }
            let label = format!("{} {}", path.file_stem().unwrap().display(), model["name"]);
            let json = Json::parse(config.to_string().as_bytes(), &label).unwrap();
            let facts = ModelFacts::of_json(&json, DType::F16).unwrap_or_else(|e| panic!("{label}: {e}"));
            let derived: u64 =
                facts.matrices.iter().filter(|m| m.role != Role::Small).map(|m| m.values()).sum();
            let wanted = stored(gguf);
            compared += 1;
            // A table of tiny models may differ by padding.
            if (derived as f64 / wanted as f64 - 1.0).abs() > 0.02 {
                wrong.push(format!("{label}: {derived} of {wanted}"));
            }
        }
    }
    assert!(compared > 30, "{compared}");
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
}
