//! The texts that come with the public vocabulary files, and long inputs.
use leyden_testkit::{patience, shared};
use std::time::{Duration, Instant};

use leyden_tensor::{Gguf, WeightSource};
use leyden_text::{Special, Tokenizer, from_gguf};

const VOCABULARIES: &[&str] = &[
    "bert-bge",
    "command-r",
    "deepseek-coder",
    "deepseek-llm",
    "falcon",
    "gemma-4",
    "gpt-2",
    "llama-bpe",
    "llama-spm",
    "mpt",
    "phi-3",
    "qwen2",
    "qwen35",
    "refact",
    "starcoder",
];

fn open(name: &str) -> Option<Box<dyn Tokenizer>> {
    let path = shared(&format!("data/tokenizers/ggml-vocab/ggml-vocab-{name}.gguf"))?;
    let gguf = Gguf::open(&path).unwrap();
    Some(from_gguf(gguf.metadata(), name).unwrap())
}

/// The text of a sequence of tokens, from its beginning.
fn decode(tokenizer: &dyn Tokenizer, ids: &[u32]) -> Vec<u8> {
    let previous = [None].into_iter().chain(ids.iter().copied().map(Some));
    ids.iter()
        .zip(previous)
        .flat_map(|(&id, previous)| tokenizer.bytes_after(previous, id).unwrap().into_owned())
        .collect()
}

#[test]
fn reference_pairs_are_reproduced() {
    for name in VOCABULARIES {
        let Some(tokenizer) = open(name) else { return };
        let read = |what: &str| {
            let path = shared(&format!("data/tokenizers/ggml-vocab/ggml-vocab-{name}.gguf.{what}")).unwrap();
            std::fs::read_to_string(path).unwrap()
        };
        let (texts, ids) = (read("inp"), read("out"));
        // A separator may also end the last text.
        const SEPARATOR: &str = "\n__ggml_vocab_test__\n";
        let texts: Vec<&str> = texts.strip_suffix(SEPARATOR).unwrap_or(&texts).split(SEPARATOR).collect();
        let ids: Vec<&str> = ids.lines().collect();
        assert!(
            ids.len() >= 46 && texts.len() == ids.len(),
            "{name}: {} texts, {} ids",
            texts.len(),
            ids.len()
        );
        let mut failures = Vec::new();
        for (text, ids) in texts.iter().zip(ids) {
            let want: Vec<u32> = ids.split_whitespace().map(|id| id.parse().unwrap()).collect();
            let got = tokenizer.encode(text, Special::AsText).unwrap();
            let bytes = decode(&*tokenizer, &got);
            // BERT's vocabulary has no white space and no upper case.
            if got != want || (bytes != text.as_bytes() && *name != "bert-bge") {
                failures.push(format!("{text:?}: {got:?}, want {want:?}"));
            }
        }
        assert!(failures.is_empty(), "{name}: {}", failures.join("\n"));
    }
}

/// Returns the CPU time of this thread, which is independent of the machine's load; the time since `begin` if the
/// system does not report it.
fn busy(begin: Instant) -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split(' ').next().and_then(|nanos| nanos.parse().ok());
    nanos.map_or_else(|| begin.elapsed(), Duration::from_nanos)
}

#[test]
fn vocabularies_load_quickly() {
    for name in VOCABULARIES {
        let Some(path) = shared(&format!("data/tokenizers/ggml-vocab/ggml-vocab-{name}.gguf")) else {
            return;
        };
        let gguf = Gguf::open(&path).unwrap();
        let start = Instant::now();
        let before = busy(start);
        let tokenizer = from_gguf(gguf.metadata(), name).unwrap();
        let took = busy(start).saturating_sub(before);
        eprintln!("{name}: {} tokens in {took:?}", tokenizer.vocab_size());
        assert!(took < patience(Duration::from_secs(2)), "{name}: {took:?}");
    }
}

#[test]
fn long_inputs_take_time_in_proportion() {
    // Words of 300,000 bytes; with time in proportion to their square a minute would not do.
    for name in ["bert-bge", "command-r", "deepseek-llm", "falcon", "gemma-4", "gpt-2", "llama-spm"] {
        let Some(tokenizer) = open(name) else { return };
        for pattern in ["a", " ", "é", " a", "!", "\r\n ", "中", "🦙", "\u{13}"] {
            let text = pattern.repeat(300_000 / pattern.len());
            let start = Instant::now();
            let before = busy(start);
            let ids = tokenizer.encode(&text, Special::Parse).unwrap();
            let took = busy(start).saturating_sub(before);
            eprintln!("{name}: {pattern:?}: {} ids in {took:?}", ids.len());
            assert!(took < patience(Duration::from_secs(4)), "{name}: {pattern:?} took {took:?}");
            // BERT's vocabulary has no white space, Falcon's no U+0013.
            let exact = name != "bert-bge" && (name, pattern) != ("falcon", "\u{13}");
            assert!(decode(&*tokenizer, &ids) == text.as_bytes() || !exact);
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
