//! `leyden quantize`: a smaller model that answers, and what is refused.

use crate::program::{Files, leyden};
use leyden_testkit::shared;
use std::path::Path;

#[test]
fn a_model_is_made_smaller_and_answers() {
    let Some(model) = shared("demo-model/storyteller-f16.gguf") else { return };
    let (model, files) = (model.display().to_string(), Files::new());
    let small = files.path("small.gguf");
    let usage = leyden(&["quantize", &model, "Q4_K_M", "--dry-run"]).failed(2);
    assert!(usage.contains("<TYPE>"), "{usage}");
    let plan = leyden(&["quantize", &model, &small, "Q4_K_M", "--dry-run"]).ok();
    assert!(plan.contains("blk.0.attn_q.weight") && plan.contains("bits per weight"), "{plan}");
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
        (vec!["quantize", &model, &files.path("no/x.gguf"), "Q4_0"], 1, "cannot create a file in the folder"),
        (
            vec!["quantize", &model, &files.path("x.gguf"), "Q4_0", "--imatrix", &model],
            1,
            "no importance matrix",
        ),
    ] {
        let told = leyden(&arguments).failed(code);
        assert!(told.contains(words), "{arguments:?}: {told}");
    }
    assert!(!Path::new(&files.path("x.gguf")).exists());
}
