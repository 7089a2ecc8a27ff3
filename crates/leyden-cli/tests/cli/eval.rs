//! `leyden eval`: perplexity beside llama.cpp's.

use crate::program::{Files, STORYTELLER, leyden};
use leyden_testkit::shared;

/// `llama-perplexity -m storyteller-f16.gguf -f heldout.txt -c 256 --chunks 8` says 91.7807 (llama.cpp of llama-cpp-python
/// 0.3.36).
#[test]
fn perplexity_is_llama_cpps() {
    let (Some(model), Some(text)) =
        (shared("demo-model/storyteller-f16.gguf"), shared("demo-model/heldout.txt"))
    else {
        return;
    };
    let (model, text) = (model.display().to_string(), text.display().to_string());
    let eval = ["eval", &model, "--perplexity", &text, "--ctx", "256", "--chunks", "8", "--json"];
    let report = leyden(&eval).json();
    let perplexity = report["perplexity"].as_f64().unwrap();
    assert!((perplexity / 91.7807 - 1.0).abs() < 0.005, "{report}");
    assert_eq!((report["windows"].as_u64(), report["tokens"].as_u64()), (Some(8), Some(8 * 127)));
    assert!(report["standard_error"].as_f64().unwrap() > 1.0);
}

/// Of the same file `llama-perplexity --kl-divergence` says 0.064761 ± 0.001785, 4.278 % and 82.776 %.
#[test]
fn divergence_is_llama_cpps_side_by_side_and_from_a_file() {
    let (Some(model), Some(text)) =
        (shared("demo-model/storyteller-f16.gguf"), shared("demo-model/heldout.txt"))
    else {
        return;
    };
    let (model, text, files) = (model.display().to_string(), text.display().to_string(), Files::new());
    let (small, kept) = (files.path("q4.gguf"), files.path("f16.kld"));
    leyden(&["quantize", &model, &small, "Q4_K_M"]).ok();
    let on = ["--perplexity", &text, "--ctx", "256", "--chunks", "8"];
    let beside =
        leyden(&[&["eval", &small, "--kld", "--reference", &model, "--json"], &on[..]].concat()).json();
    let near = |key: &str, wanted: f64| {
        let found = beside[key]["value"].as_f64().unwrap();
        assert!((found / wanted - 1.0).abs() < 0.05, "{key}: {found} {wanted}");
    };
    near("mean_kld", 0.064761);
    near("p_diff_rms", 0.04278);
    near("same_top", 0.82776);
    near("perplexity_reference", 91.780638);
    assert_eq!(beside["tokens"].as_u64(), Some(8 * 127));
    leyden(&[&["eval", &model, "--save-logits", &kept], &on[..]].concat()).ok();
    let stored = leyden(&["eval", &small, "--kld", "--reference", &kept, "--json"]).json();
    for key in ["mean_kld", "same_top", "perplexity_ratio", "kld_percentiles"] {
        assert_eq!(stored[key], beside[key], "{key}");
    }
    let told = leyden(&["eval", &small, "--kld", "--reference", &model]).failed(2);
    assert!(told.contains("on which text"), "{told}");
    let told =
        leyden(&[&["eval", STORYTELLER, "--kld", "--reference", &files.path("none")], &on[..]].concat());
    assert!(told.code == Some(1), "{told:?}");
}

#[test]
fn what_cannot_be_measured_is_named() {
    let files = Files::new();
    let short = files.add("short.txt", b"Once upon a time");
    let told = leyden(&["eval", STORYTELLER, "--perplexity", &short]).failed(1);
    assert!(told.contains("tokens do not fill a window of 512"), "{told}");
    let binary = files.add("binary.txt", b"\xff\xfe");
    let told = leyden(&["eval", STORYTELLER, "--perplexity", &binary]).failed(1);
    assert!(told.contains("binary.txt: cannot read"), "{told}");
    let told = leyden(&["eval", STORYTELLER, "--perplexity", &short, "--ctx", "2"]).failed(2);
    assert!(told.contains("at least 4 tokens"), "{told}");
}
