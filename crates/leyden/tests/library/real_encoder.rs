//! A published encoder, where it is at hand: in `../models`, as `../shared/tools/fetch_models.py` lays it down. It is no part of the
//! shared data, so its absence is no failure.

use leyden::{LoadOptions, Model};
use leyden_testkit::emulated;
use serde_json::Value;
use std::io::Write;
use std::path::Path;

#[test]
fn vectors_are_those_of_sentence_transformers_in_floats_and_near_them_in_8_bit_integers() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let golden = root.join("crates/leyden-engine/tests/golden/real_encoder.json");
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(golden).unwrap()).unwrap();
    let folder = root.join("../models").join(golden["folder"].as_str().unwrap());
    if !folder.exists() || emulated() {
        // Not `eprintln!`, which a test that passes keeps to itself.
        let _ =
            writeln!(std::io::stderr(), "skipped: {} is absent (fetch_models.py minilm)", folder.display());
        return;
    }
    let rows = golden["rows"].as_array().unwrap();
    let texts: Vec<&str> = rows.iter().map(|row| row["text"].as_str().unwrap()).collect();
    let numbers = |row: &Value| -> Vec<f64> {
        row["vector"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap() * 1e-5).collect()
    };
    let length = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
    let cosines = |options: &LoadOptions| -> Vec<f64> {
        let model = Model::open(&folder, options).unwrap();
        let found = model.embed(&texts).unwrap();
        let of = |(row, found): (&Value, Vec<f32>)| {
            let (want, found) = (numbers(row), found.iter().map(|x| f64::from(*x)).collect::<Vec<_>>());
            let dot: f64 = want.iter().zip(&found).map(|(a, b)| a * b).sum();
            dot / (length(&want) * length(&found))
        };
        rows.iter().zip(found).map(of).collect()
    };
    let least = |of: &[f64]| of.iter().fold(1.0_f64, |least, c| least.min(*c));
    let floats = cosines(&LoadOptions::new());
    assert!(least(&floats) > 0.99999, "{floats:?}");
    let integers = cosines(&LoadOptions::new().int8(true));
    let mean = integers.iter().sum::<f64>() / integers.len() as f64;
    assert!(mean > 0.999 && least(&integers) > 0.9985, "mean {mean}: {integers:?}");
}
