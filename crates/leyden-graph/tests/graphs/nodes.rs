//! ONNX's backend node tests, which ship in the package `onnx`: those of operators that we have pass, but for those in a
//! table with the reason.

use crate::cases::{Tolerance, check, load, read};
use leyden_kernels::Cpu;
use leyden_testkit::skip;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Beginnings of the names of tests that do not pass, with the reason.
const KNOWN: &[(&str, &str)] = &[
    ("test_bernoulli", "random numbers of another generator"),
    ("test_training_dropout", "training"),
    ("test_batchnorm_example_training_mode", "training"),
    ("test_batchnorm_epsilon_training_mode", "training"),
    ("test_dft_inverse", "expects rounding noise of 2e-7 where ours is 3e-15"),
    ("test_cast_", "types of 8 bits and fewer"),
    ("test_castlike_", "types of 8 bits and fewer"),
    ("test_quantizelinear_", "types of 8 bits and fewer"),
    ("test_dequantizelinear_", "types of 8 bits and fewer"),
];

/// Number of tests that pass at least; goes up with new operators.
const PASSED: usize = 1340;

/// Returns the folder of the tests, written by Python once for each build folder.
pub(crate) fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("onnx-nodes");
    if folder.join("tests.json").exists() {
        return Some(folder);
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/node_cases.py");
    match Command::new("python3").arg(script).arg(&folder).output() {
        Ok(output) if output.status.success() => Some(folder),
        Ok(output) => {
            skip(&format!("the package onnx is missing: {}", String::from_utf8_lossy(&output.stderr)));
            None
        }
        Err(e) => {
            skip(&format!("Python is missing: {e}"));
            None
        }
    }
}

/// Returns the relative tolerance of 16-bit floats, which differ in the last place as intermediate results are rounded
/// or not.
fn half(name: &str) -> f64 {
    if name.contains("bf16") || name.contains("bfloat16") {
        1.0 / 64.0
    } else if name.contains("fp16") || name.contains("float16") {
        1.0 / 512.0
    } else {
        0.0
    }
}

#[test]
fn node_tests_of_our_operators_pass() {
    let Some(folder) = folder() else { return };
    let list: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("tests.json")).unwrap()).unwrap();
    let cpu = Cpu::new(leyden_kernels::Tier::best(), 1).unwrap();
    let (mut passed, mut missing, mut failed) = (0, BTreeMap::<String, usize>::new(), Vec::new());
    for test in list["tests"].as_array().unwrap() {
        let name = test["name"].as_str().unwrap();
        let tolerance = Tolerance {
            absolute: test["atol"].as_f64().unwrap(),
            relative: test["rtol"].as_f64().unwrap().max(half(name)),
        };
        let run = || -> Result<(), String> {
            let model = load(&folder.join(format!("{name}.onnx")), &cpu)?;
            for set in 0..test["sets"].as_u64().unwrap() {
                check(&model, &cpu, read(&folder.join(format!("{name}.{set}.io.onnx")))?, tolerance)?;
            }
            Ok(())
        };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        match result.unwrap_or_else(|_| Err("panicked".to_owned())) {
            Ok(()) => passed += 1,
            Err(e) if e.contains("operators that are not supported: ") => {
                let what = e.split("not supported: ").nth(1).unwrap();
                *missing.entry(what.split(" (").next().unwrap().to_owned()).or_default() += 1;
            }
            Err(e) => failed.push(format!("{name}: {}", e.replace(folder.to_str().unwrap(), ""))),
        }
    }
    let unknown: Vec<&String> =
        failed.iter().filter(|f| !KNOWN.iter().any(|(prefix, _)| f.starts_with(prefix))).collect();
    eprintln!(
        "{passed} passed, {} failed, {} without operators: {missing:?}",
        failed.len(),
        missing.values().sum::<usize>()
    );
    assert!(unknown.is_empty(), "{} tests failed:\n{}", unknown.len(), failed.join("\n"));
    assert!(passed >= PASSED, "only {passed} tests passed");
}
