//! `leyden tokenize`.

use crate::program::{BOS, END, Files, leyden, leyden_with_input, vocabulary};
use leyden_testkit::shared;

/// A folder with the vocabulary in it, and the path of that.
fn vocabulary_file() -> (Files, String) {
    let files = Files::new();
    let path = files.add("v.gguf", &vocabulary().to_vec().unwrap());
    (files, path)
}

#[test]
fn text_becomes_ids() {
    let (_files, v) = vocabulary_file();
    assert_eq!(leyden(&["tokenize", &v, "hello"]).ok(), "260 259\n");
    assert_eq!(leyden(&["tokenize", &v, "hello<|end|>"]).ok(), "260 259 261\n");
    assert_eq!(leyden(&["tokenize", "--no-special", &v, "hell"]).ok(), "258\n");
    assert_eq!(leyden(&["tokenize", "--no-special", &v, ""]).ok(), "\n");
    let plain = leyden(&["tokenize", "--no-special", &v, "<|end|>"]).ok();
    assert!(!plain.split_whitespace().any(|id| id == END.to_string()), "{plain}");
}

#[test]
fn json_holds_ids_and_tokens() {
    let (_files, v) = vocabulary_file();
    let object = leyden(&["tokenize", "--json", &v, "hello\n"]).json();
    assert_eq!(object["ids"], serde_json::json!([BOS, 259, 10]));
    assert_eq!(object["tokens"], serde_json::json!(["<|begin|>", "hello", "\n"]));
}

#[test]
fn text_comes_from_a_file_or_standard_input() {
    let (files, v) = vocabulary_file();
    let text = files.add("t.txt", b"hello\n");
    assert_eq!(leyden(&["tokenize", &v, "--file", &text]).ok(), "260 259 10\n");
    assert_eq!(leyden_with_input(&["tokenize", &v], b"hello\n").ok(), "260 259 10\n");
    assert_eq!(leyden_with_input(&["tokenize", &v, "--file", "-"], b"hello").ok(), "260 259\n");
    // A text on the command line means that standard input is not read.
    assert_eq!(leyden_with_input(&["tokenize", &v, "hello"], b"\xff").ok(), "260 259\n");
}

#[test]
fn decoding_undoes_encoding() {
    let (_files, v) = vocabulary_file();
    for text in ["hello", "Grüße, 世界 🎈\n", "<|end|>", "", "a\u{0}b"] {
        let ids = leyden_with_input(&["tokenize", &v], text.as_bytes()).ok();
        assert_eq!(leyden_with_input(&["tokenize", "--decode", &v], ids.as_bytes()).ok(), text, "{ids}");
        let object = leyden_with_input(&["tokenize", "--json", &v], text.as_bytes()).ok();
        let decoded = leyden_with_input(&["tokenize", "--decode", "--json", &v], object.as_bytes()).json();
        assert_eq!(decoded["text"], text);
    }
    assert_eq!(leyden(&["tokenize", "--decode", "--no-special", &v, "[259, 261]"]).ok(), "hello");
}

#[test]
fn decoding_takes_away_the_space_that_encoding_writes() {
    for name in ["llama-spm", "phi-3"] {
        let path = format!("data/tokenizers/ggml-vocab/ggml-vocab-{name}.gguf");
        let Some(path) = shared(&path) else { return };
        let v = path.to_str().unwrap();
        for text in ["Hello world", " Hello", "  a\n b ", "", "Hello</s>again", "é", "</s>"] {
            let ids = leyden(&["tokenize", v, text]).ok();
            assert!(ids.starts_with("1 ") || text.is_empty(), "{ids}");
            assert_eq!(leyden(&["tokenize", "--decode", v, &ids]).ok(), text, "{name}: {ids}");
            let plain = leyden(&["tokenize", "--no-special", v, text]).ok();
            assert_eq!(
                leyden(&["tokenize", "--decode", "--no-special", v, &plain]).ok(),
                text,
                "{name}: {plain}"
            );
        }
    }
}

#[test]
fn wrong_input_is_named() {
    let (files, v) = vocabulary_file();
    let cases: [(&[&str], &[u8], &str); 5] = [
        (&["tokenize", "--decode", &v, "1 262"], b"", "id 262 at position 1: the vocabulary has 262 tokens"),
        (&["tokenize", "--decode", &v, "1 two"], b"", "`two` is not a token id"),
        (&["tokenize", "--decode", &v, "{\"text\": 1}"], b"", "field `ids`"),
        (&["tokenize", &v], b"ab\xffc", "standard input: not UTF-8 text: byte 2"),
        (&["tokenize", &v, "--file", &files.path("no.txt")], b"", "no.txt: cannot read"),
    ];
    for (args, input, message) in cases {
        let err = leyden_with_input(args, input).failed(1);
        assert!(err.contains(message), "{args:?}\n{err}");
    }
}

#[test]
fn contradictions_are_wrong_usage() {
    let (_files, v) = vocabulary_file();
    for args in [vec!["tokenize", &v, "x", "--file", "y"], vec!["tokenize"], vec!["tokenize", &v, "a", "b"]] {
        leyden(&args).failed(2);
    }
}
