//! `leyden quantize`: a smaller model that answers, and what is refused.

use crate::program::{Files, built, command, leyden};
use leyden_tensor::{Gguf, WeightSource};
use leyden_testkit::shared;
use std::path::Path;

#[test]
fn a_model_is_made_smaller_and_answers() {
    let Some(model) = shared("demo-model/storyteller-f16.gguf") else { return };
    let (model, files) = (model.display().to_string(), Files::new());
    let small = files.path("small.gguf");
    let usage = leyden(&["quantize", &model, "small.gguf", "--dry-run"]).failed(2);
    assert!(usage.contains("TYPE is missing"), "{usage}");
    let short = leyden(&["quantize", &model, "Q4_K_M", "--dry-run"]).ok();
    let plan = leyden(&["quantize", &model, &small, "Q4_K_M", "--dry-run"]).ok();
    assert!(plan.contains("blk.0.attn_q.weight") && plan.contains("bits per weight"), "{plan}");
    assert_eq!(short, plan, "a dry run needs no file");
    assert!(!Path::new(&small).exists(), "a dry run writes nothing");
    let report =
        leyden(&["quantize", &model, &small, "q4_k_m", "--tensor-type", "attn_q=Q8_0", "--json"]).json();
    assert_eq!(report["type"], "Q4_K_M");
    let tensors = report["tensors"].as_array().unwrap();
    assert!(tensors.iter().all(|t| t["to"] == "Q8_0" || !t["name"].as_str().unwrap().contains("attn_q")));
    let answer = leyden(&["run", &small, "Once upon a time", "-n", "8", "--temp", "0", "--json"]);
    assert!(answer.code == Some(0) && answer.out.contains("\"tokens\""), "{answer:?}");
    for (arguments, code, words) in [
        (vec!["quantize", &small, &files.path("x.gguf"), "Q2_K"], 1, "--allow-requantize"),
        (vec!["quantize", &model, &model, "Q4_0"], 2, "this is the input"),
        (vec!["quantize", &model, &files.path("x.gguf"), "Q9"], 2, "known types"),
        (
            vec!["quantize", &model, &files.path("no/x.gguf"), "Q4_0"],
            1,
            "cannot write: there is no such folder",
        ),
        (
            vec!["quantize", &model, &files.path("x.gguf"), "Q4_0", "--imatrix", &model],
            1,
            "not an importance matrix",
        ),
    ] {
        let told = leyden(&arguments).failed(code);
        assert!(told.contains(words), "{arguments:?}: {told}");
    }
    assert!(!Path::new(&files.path("x.gguf")).exists());
}

/// The sums of `llama-imatrix` on the same text, by gguf-py.
#[test]
fn importances_are_llama_imatrixs_and_make_a_better_file() {
    let (Some(model), Some(text)) =
        (shared("demo-model/storyteller-f16.gguf"), shared("demo-model/heldout.txt"))
    else {
        return;
    };
    let (model, text, files) = (model.display().to_string(), text.display().to_string(), Files::new());
    let (importances, with, without) = (files.path("i.gguf"), files.path("a.gguf"), files.path("b.gguf"));
    let of = ["imatrix", &model, &text, "-o", &importances, "--ctx", "256", "--chunks", "16", "--json"];
    let report = leyden(&of).json();
    assert_eq!((report["matrices"].as_u64(), report["windows"].as_u64()), (Some(28), Some(16)));
    let file = Gguf::open(Path::new(&importances)).unwrap();
    for (name, wanted) in [
        ("blk.0.attn_q.weight", 139_373.498),
        ("blk.0.ffn_up.weight", 139_708.349),
        ("blk.0.ffn_down.weight", 4_679_472.63),
        ("blk.3.attn_output.weight", 2_591_392.82),
        ("blk.3.ffn_down.weight", 51_284_344.1),
    ] {
        let sums = file.require(&format!("{name}.in_sum2")).unwrap();
        let sum: f64 =
            sums.bytes().chunks_exact(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap()))).sum();
        assert!((sum / wanted - 1.0).abs() < 1e-3, "{name}: {sum}");
    }
    leyden(&["quantize", &model, &with, "Q4_0", "--imatrix", &importances]).ok();
    leyden(&["quantize", &model, &without, "Q4_0"]).ok();
    let on =
        ["--kld", "--reference", &model, "--perplexity", &text, "--ctx", "256", "--chunks", "8", "--json"];
    let kld = |file: &str| {
        leyden(&[&["eval", file], &on[..]].concat()).json()["mean_kld"]["value"].as_f64().unwrap()
    };
    let (with, without) = (kld(&with), kld(&without));
    assert!(with < 0.98 * without, "{with} {without}");
}

/// After a kill at any moment the final name has the whole file or no file.
#[test]
fn faults_leave_nothing_under_the_final_name() {
    let Some(model) = shared("demo-model/storyteller-f16.gguf") else { return };
    let (model, files) = (model.display().to_string(), Files::new());
    let (whole, out) = (files.path("whole.gguf"), files.path("out.gguf"));
    leyden(&["quantize", &model, &whole, "Q4_0"]).ok();
    let wanted = std::fs::read(&whole).unwrap();
    for wait in [0, 10, 40, 120] {
        let mut child = command(&["quantize", &model, &out, "Q4_0"]).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(wait));
        child.kill().unwrap();
        child.wait().unwrap();
        if let Ok(found) = std::fs::read(&out) {
            assert!(found == wanted, "{} of {} bytes", found.len(), wanted.len());
            std::fs::remove_file(&out).unwrap();
        }
    }
    // As on a full disk: no file may have more than 512 kB.
    let full = std::process::Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 1000; exec \"$@\"", "sh"])
        .args(built(env!("CARGO_BIN_EXE_leyden")))
        .args(["quantize", &model, &out, "Q4_0"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&full.stderr);
    assert!(full.status.code() == Some(1) && told.contains("out.gguf: cannot write: "), "{full:?}");
    let told = leyden(&["quantize", &model, "/proc/out.gguf", "Q4_0"]).failed(1);
    assert!(told.contains("/proc/out.gguf: cannot write: cannot create a file in the folder"), "{told}");
    let left = |name: &std::ffi::OsString| !name.to_string_lossy().contains("tmp");
    let names = std::fs::read_dir(Path::new(&out).parent().unwrap()).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).filter(left).collect();
    assert_eq!(names, ["whole.gguf"]);
}

/// The bits go where a text shows that they matter most.
#[test]
fn a_mix_of_a_size_loses_less_than_a_named_one() {
    let (Some(model), Some(text)) =
        (shared("demo-model/storyteller-f16.gguf"), shared("demo-model/heldout.txt"))
    else {
        return;
    };
    let (model, text, files) = (model.display().to_string(), text.display().to_string(), Files::new());
    let (named, mixed) = (files.path("named.gguf"), files.path("mixed.gguf"));
    leyden(&["quantize", &model, &named, "Q4_K_M"]).ok();
    let size = std::fs::metadata(&named).unwrap().len();
    let with = ["--target-size", &size.to_string(), "--calibration", &text, "--calibration-chunks", "2"];
    let report = leyden(&[&["quantize", &model, &mixed, "--json"], &with[..]].concat()).json();
    assert_eq!(report["type"], "mix");
    assert!(std::fs::metadata(&mixed).unwrap().len() <= size);
    let on =
        ["--kld", "--reference", &model, "--perplexity", &text, "--ctx", "256", "--chunks", "8", "--json"];
    let kld = |file: &str| {
        leyden(&[&["eval", file], &on[..]].concat()).json()["mean_kld"]["value"].as_f64().unwrap()
    };
    let (named, mixed) = (kld(&named), kld(&mixed));
    assert!(mixed < 0.97 * named, "{mixed} {named}");
    let told = leyden(&["quantize", &model, &files.path("x.gguf"), "--target-bpw", "4.5"]).failed(2);
    assert!(told.contains("needs --calibration FILE"), "{told}");
    let told =
        leyden(&[&["quantize", &model, &files.path("x.gguf"), "--target-bpw", "1"], &with[2..]].concat());
    assert!(told.code == Some(1) && told.err.contains("the smallest types need"), "{told:?}");
}

/// Under whatever name: `convert`, `quantize` and `imatrix` write over none of their inputs.
#[test]
#[cfg(unix)]
fn an_output_that_is_an_input_is_refused() {
    let Some(model) = shared("demo-model/storyteller-f16.gguf") else { return };
    let files = Files::new();
    let path = |name: &str| files.path(name);
    let (own, linked, twin, text) =
        (path("own.gguf"), path("linked.gguf"), path("twin.gguf"), path("text.txt"));
    std::fs::copy(&model, &own).unwrap();
    std::os::unix::fs::symlink(&own, &linked).unwrap();
    std::fs::hard_link(&own, &twin).unwrap();
    std::fs::write(&text, "Once upon a time").unwrap();
    let before = std::fs::read(&own).unwrap();
    for output in [&own, &linked, &twin] {
        for arguments in [
            vec!["quantize", &own, output, "Q4_1"],
            vec!["convert", &own, output],
            vec!["imatrix", &own, &text, "-o", output],
        ] {
            let told = leyden(&arguments).failed(2);
            assert!(told.contains("this is the input"), "{arguments:?}: {told}");
        }
    }
    let told = leyden(&["imatrix", &own, &text, "-o", &text]).failed(2);
    assert!(told.contains("this is the input"), "{told}");
    assert!(std::fs::read(&own).unwrap() == before && Path::new(&linked).is_symlink());
}
