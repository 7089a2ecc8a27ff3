//! `leyden inspect`.

use leyden_tensor::{DType, Value};

use crate::program::{Files, STORYTELLER, leyden, model, vocabulary};

#[test]
fn describes_a_model() {
    let files = Files::new();
    let path = files.add("m.gguf", &model());
    let out = leyden(&["inspect", &path]).ok();
    for part in [
        "GGUF version 3",
        "architecture   llama",
        "9.41 K (9408)",
        "64 tokens",
        "gpt2 with pre-tokenizer gpt-2, 262 tokens",
        "260 <|begin|>, added to every text",
        "261 <|end|>, not added to texts",
        "F16         1      8.38 K  16.4 KiB",
        "Q8_0        1      1.02 K  1.06 KiB",
        "llama.attention.layer_norm_rms_epsilon  0.00001",
        "tokenizer.ggml.tokens                   [262 x string]",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    assert!(!out.contains("blk.0.attn_q.weight"));
    let listed = leyden(&["inspect", "--tensors", &path]).ok();
    assert!(listed.contains("blk.0.attn_q.weight") && listed.contains("[32, 32]"), "{listed}");
}

#[test]
fn json_has_every_field() {
    let files = Files::new();
    let path = files.add("m.gguf", &model());
    let report = leyden(&["inspect", "--json", "--tensors", &path]).json();
    assert_eq!(report["format"]["version"], 3);
    assert_eq!(report["parameters"], 9408);
    assert_eq!(report["context_length"], 64);
    assert_eq!(report["hyperparameters"]["context_length"], 64);
    assert_eq!(report["types"][0]["type"], "F16");
    assert_eq!(report["types"][0]["bytes"], 262 * 64);
    assert_eq!(report["tensors"][1]["shape"], serde_json::json!([32, 32]));
    assert_eq!(report["tokenizer"]["bos"]["id"], 260);
    assert_eq!(report["tokenizer"]["supported"], true);
    assert_eq!(report["metadata"]["tokenizer.ggml.merges"][3], "hell o");
    assert_eq!(report["bytes"].as_u64().unwrap(), std::fs::metadata(&path).unwrap().len());
    assert!(leyden(&["inspect", "--json", &path]).json().get("tensors").is_none());
    let problems = report["problems"].to_string();
    assert!(problems.contains("m.gguf: llama."), "a size that the architecture needs is missing: {problems}");
}

#[test]
fn an_unsupported_architecture_is_said_first() {
    let files = Files::new();
    let mut writer = vocabulary();
    writer.set("general.architecture", Value::from("mystery"));
    writer.add_tensor("token_embd.weight", DType::F32, &[1, 32], vec![0; 128]).unwrap();
    let path = files.add("odd.gguf", &writer.to_vec().unwrap());
    let out = leyden(&["inspect", &path]).ok();
    let first = out.lines().next().unwrap();
    assert!(first.starts_with("not supported: ") && first.contains("mystery"), "{out}");
    let report = leyden(&["inspect", "--json", &path]).json();
    assert_eq!((&report["supported"], report["architecture"].as_str()), (&false.into(), Some("mystery")));
    assert!(report["problems"][0].as_str().unwrap().contains("mystery"), "{report}");
}

#[test]
fn a_good_model_has_no_problems() {
    let report = leyden(&["inspect", "--json", STORYTELLER]).json();
    assert_eq!(report["supported"], true);
    assert_eq!(
        (&report["problems"], &report["types"][0]["type"]),
        (&serde_json::json!([]), &serde_json::json!("Q8_0"))
    );
}

#[test]
fn a_vocabulary_is_enough() {
    let files = Files::new();
    let path = files.add("v.gguf", &vocabulary().to_vec().unwrap());
    assert!(leyden(&["inspect", &path]).ok().contains("none: no tensors"));
    let report = leyden(&["inspect", "--json", &path]).json();
    assert_eq!(report["supported"], serde_json::Value::Null);
    assert_eq!((&report["parameters"], &report["types"]), (&serde_json::json!(0), &serde_json::json!([])));
}

#[test]
fn the_template_comes_out_alone() {
    let files = Files::new();
    let path = files.add("m.gguf", &model());
    assert_eq!(leyden(&["inspect", "--template", &path]).ok(), "{{ bos_token }}{{ messages[0].content }}\n");
    let bare = files.add("v.gguf", &vocabulary().to_vec().unwrap());
    assert!(leyden(&["inspect", "--template", &bare]).failed(1).contains("no chat template"));
}

#[test]
fn oddities_are_shown_and_named() {
    let files = Files::new();
    let mut writer = vocabulary();
    writer
        .set("general.name", Value::from("red\x1b[31m\u{202e}alert"))
        .set("general.architecture", Value::U32(7))
        .set("tokenizer.ggml.model", Value::from("mystery"));
    let path = files.add("odd.gguf", &writer.to_vec().unwrap());
    let out = leyden(&["inspect", &path]).ok();
    assert!(!out.contains('\x1b') && !out.contains('\u{202e}') && out.contains("\\u{1b}[31m"), "{out}");
    let report = leyden(&["inspect", "--json", &path]).json();
    let problems = report["problems"].to_string();
    assert!(problems.contains("general.architecture: want string, found u32"), "{problems}");
    assert!(problems.contains("mystery"), "{problems}");
    assert_eq!(report["tokenizer"]["supported"], false);
}

#[test]
fn wrong_files_are_refused_with_a_hint() {
    let files = Files::new();
    let whole = model();
    let cases = [
        (files.path("absent.gguf"), "No such file", "check the path"),
        (
            files.folder().to_str().unwrap().to_owned(),
            "the folder has no config.json",
            "a model is a .gguf file",
        ),
        (files.add("note.txt", b"Dear reader, this is no model.\n"), "not a GGUF file", "convert"),
        (files.add("half.gguf", &whole[..whole.len() / 2]), "half.gguf", "incomplete"),
        (files.add("cut.gguf", &whole[..100]), "cut.gguf", "truncated download? the file seems incomplete"),
        (files.add("empty.gguf", b""), "empty.gguf", ""),
    ];
    for (path, message, hint) in cases {
        for args in [vec!["inspect", &path], vec!["inspect", "--json", &path], vec!["tokenize", &path, "x"]] {
            let err = leyden(&args).failed(1);
            assert!(err.contains(message) && err.contains(hint), "{args:?}\n{err}");
        }
    }
}

#[test]
fn truncation_anywhere_is_an_error_and_not_a_crash() {
    let files = Files::new();
    let whole = model();
    for at in (0..whole.len()).step_by(whole.len() / 40) {
        let path = files.add("cut.gguf", &whole[..at]);
        let err = leyden(&["inspect", &path]).failed(1);
        assert!(err.contains("cut.gguf"), "{at}: {err}");
    }
}
