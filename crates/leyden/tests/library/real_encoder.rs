//! A published encoder, where it is at hand: in `../models`, as `../shared/tools/fetch_models.py` lays it down. It is
//! no part of the shared data, so its absence is no failure.

use leyden::{LoadOptions, Model};
use leyden_testkit::emulated;
use serde_json::Value;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Returns the goldens, and the path of a model, if it is there.
fn found(name: Option<&str>) -> (Value, Option<PathBuf>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let golden = root.join("crates/leyden-engine/tests/golden/real_encoder.json");
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(golden).unwrap()).unwrap();
    let path = root.join("../models").join(name.unwrap_or(golden["folder"].as_str().unwrap()));
    if !path.exists() || emulated() {
        // Not `eprintln!`, whose output is captured in a passing test.
        let _ = writeln!(std::io::stderr(), "skipped: {} is absent (fetch_models.py minilm)", path.display());
        return (golden, None);
    }
    (golden, Some(path))
}

/// Returns the cosines of a model's vectors and those of sentence-transformers.
fn cosines(golden: &Value, model: &Path, options: &LoadOptions) -> Vec<f64> {
    let rows = golden["rows"].as_array().unwrap();
    let texts: Vec<&str> = rows.iter().map(|row| row["text"].as_str().unwrap()).collect();
    let numbers = |row: &Value| -> Vec<f64> {
        row["vector"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap() * 1e-5).collect()
    };
    let length = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
    let model = Model::open(model, options).unwrap();
    let found = model.embed(&texts).unwrap();
    let of = |(row, found): (&Value, Vec<f32>)| {
        let (want, found) = (numbers(row), found.iter().map(|x| f64::from(*x)).collect::<Vec<_>>());
        let dot: f64 = want.iter().zip(&found).map(|(a, b)| a * b).sum();
        dot / (length(&want) * length(&found))
    };
    rows.iter().zip(found).map(of).collect()
}

fn least(of: &[f64]) -> f64 {
    of.iter().fold(1.0_f64, |least, c| least.min(*c))
}

#[test]
fn vectors_are_those_of_sentence_transformers_in_floats_and_near_them_in_8_bit_integers() {
    let (golden, Some(folder)) = found(None) else { return };
    let floats = cosines(&golden, &folder, &LoadOptions::new());
    assert!(least(&floats) > 0.99999, "{floats:?}");
    let integers = cosines(&golden, &folder, &LoadOptions::new().int8(true));
    let mean = integers.iter().sum::<f64>() / integers.len() as f64;
    assert!(mean > 0.999 && least(&integers) > 0.9985, "mean {mean}: {integers:?}");
    // The vector of a text does not depend on the other texts, to the bit.
    let rows = golden["rows"].as_array().unwrap();
    let texts: Vec<&str> = rows.iter().map(|row| row["text"].as_str().unwrap()).collect();
    let model = Model::open(&folder, &LoadOptions::new().int8(true).threads(2)).unwrap();
    let all = model.embed(&texts).unwrap();
    for (text, among) in texts.iter().zip(&all) {
        assert!(model.embed(&[*text]).unwrap()[0] == *among, "{text}");
    }
}

/// ONNX export of the same model with weights in 8-bit integers, in the same folder.
#[test]
fn vectors_of_an_onnx_export_in_8_bit_integers_are_near_those_in_floats() {
    let (golden, Some(graph)) = found(Some("minilm-int8/minilm-int8.onnx")) else { return };
    let (_, Some(plain)) = found(None) else { return };
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(plain).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != "model.safetensors" {
            symlink(entry.path().canonicalize().unwrap(), folder.path().join(entry.file_name())).unwrap();
        }
    }
    std::fs::create_dir(folder.path().join("onnx")).unwrap();
    let file = folder.path().join("onnx/model_quantized.onnx");
    symlink(graph.canonicalize().unwrap(), &file).unwrap();
    let found = cosines(&golden, folder.path(), &LoadOptions::new());
    assert!(least(&found) > 0.999, "{found:?}");
    assert_eq!(found, cosines(&golden, &file, &LoadOptions::new()));
    let integers = cosines(&golden, &file, &LoadOptions::new().int8(true));
    assert!(least(&integers) > 0.998, "{integers:?}");
}
