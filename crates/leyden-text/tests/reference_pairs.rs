//! The texts that come with the public vocabulary files, and long inputs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod shared;

use std::time::{Duration, Instant};

use leyden_tensor::{Gguf, WeightSource};
use leyden_text::{Special, Tokenizer, from_gguf};
use shared::shared;

fn open(name: &str) -> Option<Box<dyn Tokenizer>> {
    let path = shared(&format!("data/tokenizers/ggml-vocab/ggml-vocab-{name}.gguf"))?;
    let gguf = Gguf::open(&path).unwrap();
    Some(from_gguf(gguf.metadata(), name).unwrap())
}

#[test]
fn reference_pairs_are_reproduced() {
    for name in ["gpt-2", "llama-bpe", "qwen2", "mpt"] {
        let Some(tokenizer) = open(name) else { return };
        let read = |what: &str| {
            let path = shared(&format!("data/tokenizers/ggml-vocab/ggml-vocab-{name}.gguf.{what}")).unwrap();
            std::fs::read_to_string(path).unwrap()
        };
        let (texts, ids) = (read("inp"), read("out"));
        let texts: Vec<&str> = texts.split("\n__ggml_vocab_test__\n").collect();
        let ids: Vec<&str> = ids.lines().collect();
        // The separator also ends the last text.
        assert!(
            ids.len() >= 46 && texts.len() == ids.len() + 1,
            "{name}: {} texts, {} ids",
            texts.len(),
            ids.len()
        );
        let mut failures = Vec::new();
        for (text, ids) in texts.iter().zip(ids) {
            let want: Vec<u32> = ids.split_whitespace().map(|id| id.parse().unwrap()).collect();
            let got = tokenizer.encode(text, Special::AsText).unwrap();
            let bytes: Vec<u8> =
                got.iter().flat_map(|&id| tokenizer.token_bytes(id).unwrap()).copied().collect();
            if got != want || bytes != text.as_bytes() {
                failures.push(format!("{text:?}: {got:?}, want {want:?}"));
            }
        }
        assert!(failures.is_empty(), "{name}: {}", failures.join("\n"));
    }
}

#[test]
fn vocabularies_load_quickly() {
    for name in ["gpt-2", "llama-bpe", "qwen2", "mpt"] {
        let Some(path) = shared(&format!("data/tokenizers/ggml-vocab/ggml-vocab-{name}.gguf")) else {
            return;
        };
        let gguf = Gguf::open(&path).unwrap();
        let begin = Instant::now();
        let tokenizer = from_gguf(gguf.metadata(), name).unwrap();
        let took = begin.elapsed();
        eprintln!("{name}: {} tokens in {took:?}", tokenizer.vocab_size());
        assert!(took < Duration::from_secs(1), "{name}: {took:?}");
    }
}

#[test]
fn long_inputs_take_time_in_proportion() {
    for name in ["gpt-2", "llama-bpe", "qwen2"] {
        let Some(tokenizer) = open(name) else { return };
        for pattern in ["a", " ", "é", " a", "!", "\r\n "] {
            let text = pattern.repeat(1_000_000 / pattern.len());
            let begin = Instant::now();
            let ids = tokenizer.encode(&text, Special::Parse).unwrap();
            let took = begin.elapsed();
            eprintln!("{name}: {pattern:?}: {} ids in {took:?}", ids.len());
            assert!(took < Duration::from_secs(4), "{name}: {pattern:?} took {took:?}");
            let bytes: Vec<u8> =
                ids.iter().flat_map(|&id| tokenizer.token_bytes(id).unwrap()).copied().collect();
            assert!(bytes == text.as_bytes());
        }
    }
}

#[test]
fn special_tokens_and_ends() {
    let Some(llama) = open("llama-bpe") else { return };
    assert_eq!(
        (llama.bos(), llama.eos(), llama.add_bos(), llama.add_eos()),
        (Some(128000), Some(128001), true, false)
    );
    let text = "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>";
    assert_eq!(llama.encode(text, Special::Parse).unwrap(), [128006, 882, 128007, 271, 13347, 128009]);
    let plain = llama.encode(text, Special::AsText).unwrap();
    assert!(plain.iter().all(|&id| id < 128000));
    assert!(llama.is_special(128009) && !llama.is_special(882) && !llama.is_special(u32::MAX));
    assert!(
        [128001, 128009].iter().all(|&id| llama.is_end(id))
            && !llama.is_end(128000)
            && !llama.is_end(u32::MAX)
    );
    assert_eq!(llama.token_bytes(128009), Some(&b"<|eot_id|>"[..]));
    assert_eq!((llama.token_bytes(128256), llama.vocab_size()), (None, 128256));

    let Some(qwen) = open("qwen2") else { return };
    assert!(!qwen.add_bos());
    assert!([151643, 151645].iter().all(|&id| qwen.is_end(id)) && !qwen.is_end(151644));
    assert_eq!(qwen.encode("[PAD151646]", Special::AsText).unwrap(), [151646]);
    assert_eq!(qwen.encode("<|im_end|>", Special::AsText).unwrap().len(), 6);
    assert!(!qwen.is_special(151646));
}
