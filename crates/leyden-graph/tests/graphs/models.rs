//! Real graphs against onnxruntime: floats agree within 1e-5 of the output's norm, integers are equal.

use crate::cases::{load, numbers, read};
use leyden_graph::Value;
use leyden_kernels::{Cpu, Tier};
use leyden_testkit::{shared, skip};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Largest relative L2 difference of floats.
const BOUND: f64 = 1e-5;

/// Graphs with another bound. onnxruntime's outputs of `ocr-detect` with and without its optimisations differ by 2.3e-5.
/// Kokoro in 8-bit integers quantises its activations anew in each of 12 layers, so the last bit of a softmax grows to a
/// tenth within them: its operators are compared alone, its waveform only in length.
const WIDER: &[(&str, f64)] = &[("ocr-detect", 4e-5), ("kokoro", 1e9)];

/// Returns the folder of inputs and expected outputs, computed by Python once for each build folder.
fn folder(data: &Path) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("onnx-models");
    if folder.join("models.json").exists() {
        return Some(folder);
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/model_cases.py");
    match Command::new("python3").arg(script).arg(&folder).arg(data).output() {
        Ok(output) if output.status.success() => Some(folder),
        Ok(output) => {
            skip(&format!("onnxruntime is missing: {}", String::from_utf8_lossy(&output.stderr)));
            None
        }
        Err(e) => {
            skip(&format!("Python is missing: {e}"));
            None
        }
    }
}

/// Returns the relative L2 difference of two outputs; infinity if types or shapes differ.
fn difference(got: &Value, want: &Value) -> f64 {
    let (Ok(got), Ok(want)) = (got.tensor(), want.tensor()) else { return f64::INFINITY };
    if got.shape() != want.shape() || got.ty() != want.ty() {
        return f64::INFINITY;
    }
    let (Some(g), Some(w)) = (numbers(got), numbers(want)) else { return f64::INFINITY };
    let sum = |f: &dyn Fn((&f64, &f64)) -> f64| g.iter().zip(&w).map(f).sum::<f64>();
    let (off, norm) = (sum(&|(g, w)| (g - w) * (g - w)), sum(&|(_, w)| w * w));
    if off == 0.0 { 0.0 } else { (off / norm).sqrt() }
}

#[test]
fn real_graphs_agree_with_onnxruntime() {
    let Some(data) = shared("data") else { return };
    let Some(folder) = folder(&data) else { return };
    let list: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("models.json")).unwrap()).unwrap();
    let cpu = Cpu::new(Tier::best(), 1).unwrap();
    let mut wrong = Vec::new();
    for model in list.as_array().unwrap() {
        let name = model["name"].as_str().unwrap();
        let result = (|| -> Result<String, String> {
            let model = load(Path::new(model["path"].as_str().unwrap()), &cpu)?;
            let case = read(&folder.join(format!("{name}.io.onnx")))?;
            let names: Vec<String> = model.inputs().into_iter().map(|input| input.name).collect();
            let given = || names.iter().cloned().zip(case.inputs.iter().cloned()).collect();
            let outputs = model.run(&cpu, given()).map_err(|e| e.to_string())?;
            let start = Instant::now();
            let (_, times) = model.run_traced(&cpu, given()).map_err(|e| e.to_string())?;
            let took = start.elapsed();
            let worst = outputs.iter().zip(&case.outputs).map(|(g, w)| difference(g, w)).fold(0.0, f64::max);
            let bound = WIDER.iter().find(|row| row.0 == name).map_or(BOUND, |row| row.1);
            let line = format!("{worst:.1e}, {:.2} ms, {} nodes", took.as_secs_f64() * 1e3, times.len());
            if worst <= bound {
                return Ok(line);
            }
            let each = outputs.iter().zip(&case.outputs).map(|(g, w)| format!("{:.1e}", difference(g, w)));
            Err(format!("differs: {line}; by output: {}", each.collect::<Vec<_>>().join(" ")))
        })();
        eprintln!("{name}: {result:?}");
        wrong.extend(result.err().map(|e| format!("{name}: {e}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
