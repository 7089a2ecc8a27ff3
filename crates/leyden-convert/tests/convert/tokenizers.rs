//! All kinds of tokenizers: the converted file gives the same tokens.

use super::folder::{config, folder, size, tokenizer};
use leyden_convert::{to_folder, to_gguf};
use leyden_tensor::{Gguf, HfFolder, WeightSource};
use leyden_text::{Special, Tokenizer};
use serde_json::json;
use std::ops::ControlFlow;

const TEXTS: [&str; 12] = [
    "Hello world",
    " two  spaces   three\n\n\nlines \t tab",
    "don't we'll I'M 12345 3.14",
    "Über naïve café ﬁ",
    "多国語 русский हिन्दी",
    "🚀👩‍🚀🦙",
    "fn main() { println!(\"{}\", x_1 != y); }",
    "https://a.b/c?d=e&f=1",
    "a",
    " ",
    "    indented\r\n    code",
    "½ ² ١٢٣ \u{a0}\u{3000}x",
];

fn ids(tokenizer: &dyn Tokenizer) -> Vec<Vec<u32>> {
    TEXTS.iter().map(|text| tokenizer.encode(text, Special::Parse).unwrap()).collect()
}

/// Returns the rule that a folder's tokenizer becomes, and true if there is a note.
fn converted(name: &str) -> Result<(String, bool), String> {
    let mut document = tokenizer(name.split(' ').next().unwrap());
    if name.ends_with("as it is") {
        document["normalizer"] = json!(null);
    }
    let made = folder(&config(size(&document)), &document, &json!({ "bos_token": null }));
    let to = made.path().join("model.gguf");
    let report =
        to_gguf(made.path(), &to, None, &mut |_, _| ControlFlow::Continue(())).map_err(|e| e.to_string())?;
    let ours = leyden_text::from_hf(&HfFolder::open(made.path()).unwrap()).unwrap();
    let file = Gguf::open(&to).unwrap();
    let theirs = leyden_text::from_gguf(file.metadata(), "model.gguf").unwrap();
    for ((text, a), b) in TEXTS.iter().zip(ids(ours.as_ref())).zip(ids(theirs.as_ref())) {
        // Only the space before a text may differ, and then there is a note.
        assert!(a == b || report.note.is_some() && text.starts_with(' '), "{name}: {text:?}: {a:?}, {b:?}");
    }
    // If a folder does not name a special token it has none; a file has a default one.
    for (ours, theirs) in [(ours.bos(), theirs.bos()), (ours.eos(), theirs.eos())] {
        assert!(ours.is_none() || ours == theirs, "{name}: {ours:?}, {theirs:?}");
    }
    assert_eq!((ours.add_bos(), ours.add_eos()), (theirs.add_bos(), theirs.add_eos()), "{name}");
    // The folder converted back gives the same tokens as the file.
    let back = made.path().join("back");
    to_folder(&to, &back, None, &mut |_, _| ControlFlow::Continue(())).map_err(|e| format!("back: {e}"))?;
    let again = leyden_text::from_hf(&HfFolder::open(&back).unwrap()).unwrap();
    for ((text, a), b) in TEXTS.iter().zip(ids(theirs.as_ref())).zip(ids(again.as_ref())) {
        // For a text of spaces a Unigram model in a file gives one token less.
        let spaces = report.rule == "Unigram" && text.trim().is_empty();
        assert!(a == b || spaces, "{name}, back: {text:?}: {a:?}, {b:?}");
    }
    assert_eq!((again.bos(), again.add_bos()), (theirs.bos(), theirs.add_bos()), "{name}");
    assert_eq!((again.eos(), again.add_eos()), (theirs.eos(), theirs.add_eos()), "{name}");
    Ok((report.rule, report.note.is_some()))
}

#[test]
fn files_make_the_same_tokens() {
    let rows = [
        ("llama3", "llama-bpe", false),
        ("qwen2", "qwen2", false),
        ("starcoder", "smollm", false),
        ("gpt_neox", "gpt-2", false),
        ("o200k", "gpt-4o", false),
        ("tekken", "tekken", false),
        ("deepseek", "deepseek-v3", false),
        ("deepseek_coder", "deepseek-coder", false),
        ("falcon", "falcon", false),
        ("bloom", "bloom", false),
        ("llama2", "SentencePiece", false),
        // The space before a text is added only at its begin.
        ("mistral", "SentencePiece", true),
        ("t5 as it is", "Unigram", true),
    ];
    let mut wrong = Vec::new();
    for (name, rule, note) in rows {
        let got = converted(name);
        if got != Ok((rule.to_owned(), note)) {
            wrong.push(format!("{name}: {got:?}, not {rule}, {note}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_gguf_has_no_rule_for_is_refused() {
    for (name, what) in [
        ("clip", "no name for"),
        ("word_level", "want BPE, Unigram or WordPiece"),
        ("metaspace_first", "no name for"),
    ] {
        let told = converted(name).unwrap_err();
        assert!(told.contains("tokenizer.json") && told.contains(what), "{name}: {told}");
    }
}
