//! No text costs more than its length justifies, it can be known beforehand that one is too long, and work on one ends
//! when nobody waits for it: for every kind of tokenizer.
use leyden_testkit::shared;
use std::cell::Cell;
use std::path::Path;

use leyden_tensor::{Gguf, WeightSource};
use leyden_text::{
    Bounds, ErrorKind, Special, Tokenizer, encode_prompt_within, from_gguf, from_tokenizer_json,
};

/// A tokenizer of each kind, and whether something is certain about the length of texts.
fn all() -> Vec<(String, Box<dyn Tokenizer>, bool)> {
    let mut all = Vec::new();
    let files = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data"));
    for (name, certain) in [
        ("bert_uncased", false),
        ("t5", false),
        ("xlm_roberta", false),
        ("word_level", false),
        ("clip", false),
        ("gpt1", false),
        ("bloom", true),
        ("llama2", true),
        ("llama3", true),
        ("o200k", true),
        ("qwen2", true),
    ] {
        let bytes = std::fs::read(files.join(format!("hf/{name}.json"))).unwrap();
        all.push((name.to_owned(), from_tokenizer_json(&bytes, name).unwrap(), certain));
    }
    let unigram = Gguf::open(&files.join("unigram.gguf")).unwrap();
    all.push(("unigram".to_owned(), from_gguf(unigram.metadata(), "unigram").unwrap(), false));
    // Phi-3's special tokens take white space with them; Falcon's vocabulary lacks some bytes.
    for (name, certain) in [
        ("bert-bge", false),
        ("gemma-4", true),
        ("llama-spm", true),
        ("phi-3", true),
        ("gpt-2", true),
        ("falcon", true),
    ] {
        let Some(path) = shared(&format!("data/tokenizers/ggml-vocab/ggml-vocab-{name}.gguf")) else {
            continue;
        };
        let gguf = Gguf::open(&path).unwrap();
        all.push((name.to_owned(), from_gguf(gguf.metadata(), name).unwrap(), certain));
    }
    all
}

/// Texts of one word, or of nothing else but what tokenizers treat in a way of its own.
const TEXTS: [&str; 18] = [
    " ", "a", "\n", "😀", "1", "中", "한", "e\u{301}", "\u{212a}", "ﷺ", "▁", "\t ", "'s", "<|", "\0", "-",
    "\u{a0}", "hi the",
];

#[test]
fn the_least_number_of_tokens_is_never_more_than_there_are() {
    for (name, tokenizer, certain) in all() {
        let longest = (0..tokenizer.vocab_size() as u32)
            .filter_map(|id| tokenizer.token_bytes(id))
            .max_by_key(|b| b.len());
        let longest = String::from_utf8_lossy(longest.unwrap()).into_owned();
        let special: String = (0..600)
            .filter(|id| tokenizer.is_special(*id))
            .filter_map(|id| tokenizer.token_bytes(id))
            .map(String::from_utf8_lossy)
            .fold(String::new(), |all, one| all + &one + "  \n  ");
        let texts = TEXTS.iter().map(|text| text.repeat(3000 / text.len()));
        for text in texts.chain([longest.repeat(20), special, String::new()]) {
            let shown: String = text.chars().take(9).collect();
            let Ok(ids) = tokenizer.encode(&text, Special::Parse) else { continue };
            let least = tokenizer.least_tokens(&text);
            assert!(least <= ids.len(), "{name}: {shown:?}: {least} of {}", ids.len());
            // What is given up is what is too long, and nothing else changes.
            let within = |most| tokenizer.encode_within(&text, Special::Parse, &Bounds::tokens(most));
            assert_eq!(within(ids.len()).unwrap(), ids, "{name}: {shown:?}");
            if let Some(fewer) = ids.len().checked_sub(1) {
                assert!(
                    matches!(within(fewer).unwrap_err().kind(), ErrorKind::TooManyTokens(most) if *most == fewer)
                );
            }
        }
        let spaces = tokenizer.least_tokens(&"a".repeat(100_000));
        assert_eq!(spaces > 0, certain, "{name}: {spaces}");
    }
}

#[test]
fn work_ends_within_a_word_when_nobody_waits() {
    for (name, tokenizer, _) in all() {
        for text in ["a", " ", "中", "1"] {
            let text = text.repeat(400_000 / text.len());
            let asked = Cell::new(0);
            let stop = || {
                asked.set(asked.get() + 1);
                asked.get() > 3
            };
            let result = encode_prompt_within(&*tokenizer, &text, &Bounds::NONE.until(&stop));
            // Texts in which nothing is merged are done before anybody asks so often.
            match result {
                Err(error) => assert!(matches!(error.kind(), ErrorKind::Stopped), "{name}: {error}"),
                Ok(_) => assert!(asked.get() <= 3, "{name}: asked {} times", asked.get()),
            }
            assert!(asked.get() <= 4, "{name}: asked {} times", asked.get());
        }
    }
}
