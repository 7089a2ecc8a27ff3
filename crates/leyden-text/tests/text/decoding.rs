//! Decoding any sequence of tokens, cut anywhere.
use leyden_tensor::{Gguf, WeightSource};
use leyden_testkit::shared;
use leyden_text::{Detokenizer, Special, Tokenizer, from_gguf};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// One vocabulary of each kind.
fn vocabularies() -> Option<Vec<(&'static str, Box<dyn Tokenizer>)>> {
    let open = |name| {
        let path = match name {
            "unigram" => concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/unigram.gguf").into(),
            name => shared(&format!("data/tokenizers/ggml-vocab/ggml-vocab-{name}.gguf"))?,
        };
        Some((name, from_gguf(Gguf::open(&path).unwrap().metadata(), name).unwrap()))
    };
    ["gpt-2", "llama-spm", "phi-3", "bert-bge", "unigram", "gemma-4"].into_iter().map(open).collect()
}

fn bytes(tokenizer: &dyn Tokenizer, mut previous: Option<u32>, ids: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &id in ids {
        bytes.extend_from_slice(&tokenizer.bytes_after(previous, id).unwrap_or_default());
        previous = Some(id);
    }
    bytes
}

#[test]
fn any_chunks_of_any_tokens_join_to_the_same_text() {
    let Some(vocabularies) = vocabularies() else { return };
    for (name, tokenizer) in vocabularies {
        let n = u32::try_from(tokenizer.vocab_size()).unwrap();
        // The first ids hold the special tokens and the bytes; ids beyond the last are no tokens.
        let id = prop_oneof![0..n.min(300), 0..n, n - 5..n + 5, any::<u32>()];
        let sequence = prop::collection::vec(id, 0..40);
        let cuts = prop::collection::vec(any::<prop::sample::Index>(), 0..6);
        let mut runner = TestRunner::new(ProptestConfig::with_cases(2000));
        let checked = runner.run(&(sequence, cuts), |(ids, cuts)| {
            let whole = bytes(&*tokenizer, None, &ids);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(ids.len() + 1)).collect();
            cuts.extend([0, ids.len()]);
            cuts.sort_unstable();
            let mut joined = Vec::new();
            let mut detokenizer = Detokenizer::new();
            let mut text = String::new();
            for cut in cuts.windows(2) {
                let previous = cut[0].checked_sub(1).map(|last| ids[last]);
                let part = bytes(&*tokenizer, previous, &ids[cut[0]..cut[1]]);
                text += &detokenizer.push(&part);
                joined.extend(part);
            }
            text += &detokenizer.finish();
            prop_assert_eq!(&joined, &whole, "{}", name);
            prop_assert_eq!(text, String::from_utf8_lossy(&whole), "{}", name);
            for &id in &ids {
                prop_assert_eq!(tokenizer.token_bytes(id).is_some(), id < n, "{}", name);
            }
            Ok(())
        });
        checked.unwrap();
    }
}

#[test]
fn the_space_of_a_beginning_is_not_text() {
    let Some(vocabularies) = vocabularies() else { return };
    for (name, tokenizer) in &vocabularies {
        let decode = |text| bytes(&**tokenizer, None, &tokenizer.encode(text, Special::Parse).unwrap());
        assert_eq!(decode("hello world"), b"hello world", "{name}");
    }
    let (_, llama) = &vocabularies[1];
    let decode = |text| bytes(&**llama, None, &llama.encode(text, Special::Parse).unwrap());
    for text in [" hello", "  hello", " ", "hello</s>again", "</s> x", "\u{1}\n", "é"] {
        assert_eq!(decode(text), text.as_bytes());
    }
    // What goes on after other text keeps its space.
    assert_eq!(llama.bytes_after(Some(29871), 15043).as_deref(), Some(&b" Hello"[..]));
    assert_eq!(llama.bytes_after(Some(2), 15043).as_deref(), Some(&b"Hello"[..]));
    assert_eq!(llama.bytes_after(None, 15043).as_deref(), Some(&b"Hello"[..]));
    assert_eq!(llama.token_bytes(15043), Some(&b" Hello"[..]));
    assert_eq!((llama.token_bytes(13), llama.token_bytes(3)), (Some(&b"\n"[..]), Some(&b"\0"[..])));
    assert_eq!((llama.bos(), llama.eos(), llama.add_bos(), llama.add_eos()), (Some(1), Some(2), true, false));

    let (_, bert) = &vocabularies[3];
    assert_eq!((bert.bos(), bert.eos(), bert.add_bos(), bert.add_eos()), (Some(101), Some(102), true, true));
    let ids = bert.encode("Hello, unaffable[MASK]", Special::Parse).unwrap();
    assert_eq!(bytes(&**bert, None, &ids), b"hello , unaffable[MASK]");
    let (_, t5) = &vocabularies[4];
    assert_eq!((t5.bos(), t5.eos(), t5.add_bos(), t5.add_eos()), (None, Some(1), false, true));
    let (_, gemma) = &vocabularies[5];
    assert_eq!((gemma.bos(), gemma.add_bos()), (Some(2), true));
}
