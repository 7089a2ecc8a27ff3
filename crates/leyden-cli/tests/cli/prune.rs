//! `leyden prune`: pruned models that answer, sparse folders, and what is refused.

use crate::program::{Files, command, leyden};
use leyden_tensor::{Gguf, WeightSource, quant};
use leyden_testkit::shared;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

const ASK: [&str; 6] = ["Once upon a time", "-n", "12", "--temp", "0", "--json"];

/// Returns the tokens of an answer.
fn answer(model: &str) -> String {
    let run = leyden(&[&["run", model], &ASK[..]].concat());
    assert_eq!(run.code, Some(0), "{run:?}");
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    json["text"].to_string()
}

#[test]
fn a_model_is_pruned_and_answers() {
    let (Some(model), Some(text)) =
        (shared("demo-model/storyteller-f16.gguf"), shared("demo-model/heldout.txt"))
    else {
        return;
    };
    let (model, text, files) = (model.display().to_string(), text.display().to_string(), Files::new());
    let mut errors = Vec::new();
    for method in ["magnitude", "wanda", "sparsegpt"] {
        let out = files.path(&format!("{method}.gguf"));
        let report = leyden(&[
            "prune",
            &model,
            &out,
            "--method",
            method,
            "--calibration",
            &text,
            "--calibration-tokens",
            "2048",
            "--ctx",
            "256",
            "--json",
        ])
        .json();
        assert_eq!((&report["method"], &report["calibration_tokens"]), (&method.into(), &2048.into()));
        let matrices = report["matrices"].as_array().unwrap();
        assert!(matrices.iter().all(|m| (m["sparsity"].as_f64().unwrap() - 0.5).abs() < 0.005), "{report}");
        let error = |m: &serde_json::Value| m["relative_output_error"].as_f64().unwrap();
        errors.push(matrices.iter().map(error).sum::<f64>() / matrices.len() as f64);
        let file = Gguf::open(Path::new(&out)).unwrap();
        let dense = Gguf::open(Path::new(&model)).unwrap();
        let bytes = |file: &Gguf, name: &str| file.require(name).unwrap().bytes().to_vec();
        for name in ["token_embd.weight", "output_norm.weight", "blk.0.attn_norm.weight"] {
            assert_eq!(bytes(&file, name), bytes(&dense, name), "{name} stays");
        }
        answer(&out);
    }
    // Magnitude, Wanda, SparseGPT.
    assert!(errors[2] < errors[1] && errors[1] < errors[0], "{errors:?}");
    let out = files.path("int8.gguf");
    let arguments = ["--pattern", "2:4", "--method", "magnitude", "--int8"];
    let told = leyden(&[&["prune", &model, &out], &arguments[..]].concat()).ok();
    assert!(told.contains("50.00 % of the weights"), "{told}");
    let file = Gguf::open(Path::new(&out)).unwrap();
    let view = file.require("blk.0.ffn_up.weight").unwrap();
    let mut row = vec![0.0; view.cols()];
    quant::decode_row(view.dtype(), view.row(3), &mut row);
    assert!(row.chunks_exact(4).all(|four| four.iter().filter(|w| **w == 0.0).count() >= 2));
    assert_eq!(view.dtype().name(), "Q8_0");
}

/// Folders with sparse matrices give the answers of the dense file with the same values.
#[test]
fn sparse_folders_are_small_and_answer_alike() {
    let Some(model) = shared("demo-model/storyteller-f16.gguf") else { return };
    let (model, files) = (model.display().to_string(), Files::new());
    let [dense, sparse, again, int8] = ["d.gguf", "sparse", "again", "int8"].map(|name| files.path(name));
    let common = ["--method", "magnitude", "--sparsity", "0.8"];
    leyden(&[&["prune", &model, &dense], &common[..]].concat()).ok();
    leyden(&[&["prune", &model, &sparse, "--sparse", "float"], &common[..]].concat()).ok();
    leyden(&["convert", &dense, &again, "--sparse", "float"]).ok();
    leyden(&["convert", &dense, &int8, "--sparse", "int8"]).ok();
    let file = |folder: &str| std::fs::read(Path::new(folder).join("model.safetensors")).unwrap();
    assert!(file(&sparse) == file(&again), "prune and convert write the same folder");
    assert!(!Path::new(&sparse).join("model.data").exists());
    assert_eq!(answer(&sparse), answer(&dense));
    answer(&int8);
    for folder in [&sparse, &int8] {
        let report = leyden(&["inspect", folder, "--json"]).json();
        assert_eq!((&report["supported"], &report["problems"]), (&true.into(), &serde_json::json!([])));
    }
    let size = std::fs::metadata(&dense).unwrap().len() as usize;
    assert!(file(&sparse).len() < size * 6 / 10 && file(&int8).len() < file(&sparse).len() * 9 / 10);
    // A tensor that lies is named.
    let mut bytes = file(&sparse);
    let end = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..end]).unwrap();
    let name = "model.layers.0.mlp.up_proj.sparse_positions";
    let at = header[name]["data_offsets"][0].as_u64().unwrap() as usize + end;
    bytes[at..at + 64].fill(0xff);
    std::fs::write(Path::new(&sparse).join("model.safetensors"), bytes).unwrap();
    let told = leyden(&[&["run", &sparse], &ASK[..]].concat()).failed(1);
    assert!(told.contains(name) && told.contains("codes of as many blocks"), "{told}");
}

#[test]
fn what_cannot_be_pruned_is_refused() {
    let Some(model) = shared("demo-model/storyteller-f16.gguf") else { return };
    let (model, files) = (model.display().to_string(), Files::new());
    let [gguf, folder] = ["x.gguf", "x"].map(|name| files.path(name));
    let short = files.add("short.txt", b"a few words");
    std::fs::create_dir(files.path("there")).unwrap();
    let there = files.path("there");
    let cases: [(&[&str], i32, &str); 11] = [
        (&[&gguf], 2, "--method sparsegpt: no calibration text"),
        (&[&gguf, "--method", "best"], 2, "want magnitude, wanda or sparsegpt"),
        (&[&gguf, "--method", "magnitude", "--sparsity", "1"], 2, "want a share above 0 and below 1"),
        (&[&gguf, "--method", "magnitude", "--pattern", "3:6"], 2, "want unstructured, 1x4, 4x1"),
        (&[&gguf, "--method", "magnitude", "--pattern", "2:4", "--sparsity", "0.6"], 2, "every matrix gets"),
        (&[&gguf, "--method", "magnitude", "--allocation", "sensitivity"], 2, "no calibration text"),
        (&[&gguf, "--method", "magnitude", "--sparse", "int8"], 2, "a GGUF file has no sparse matrices"),
        (&[&folder, "--method", "magnitude", "--int8"], 2, "a folder has no such type"),
        (&[&gguf, "--calibration", &short], 1, "no window of"),
        (&[&there, "--method", "magnitude"], 1, "is there already"),
        (&[&model, "--method", "magnitude"], 2, "this is the input"),
    ];
    for (arguments, code, words) in cases {
        let told = leyden(&[&["prune", &model], arguments].concat()).failed(code);
        assert!(told.contains(words), "{arguments:?}: {told}");
    }
    assert!(!Path::new(&gguf).exists() && !Path::new(&folder).exists());
}

/// After an interrupt neither the output nor a temporary folder is there.
#[test]
fn an_interrupt_leaves_nothing() {
    let (Some(model), Some(text)) =
        (shared("demo-model/storyteller-f16.gguf"), shared("demo-model/heldout.txt"))
    else {
        return;
    };
    let (model, text, files) = (model.display().to_string(), text.display().to_string(), Files::new());
    let out = files.path("out/x.gguf");
    std::fs::create_dir(files.path("out")).unwrap();
    let arguments = ["prune", &model, &out, "--calibration", &text, "--layers", "1"];
    let mut command = command(&arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The temporary folder is made after Ctrl-C is taken over.
    let begin = Instant::now();
    while std::fs::read_dir(files.path("out")).unwrap().next().is_none() {
        assert!(begin.elapsed() < Duration::from_secs(120), "no temporary folder");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(130), &b""[..]), "{output:?}");
    assert!(std::fs::read_dir(files.path("out")).unwrap().next().is_none());
}
