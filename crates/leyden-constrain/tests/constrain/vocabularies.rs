//! Vocabularies to test with.

use std::path::Path;
use std::sync::Arc;

use leyden_constrain::{Constraint, Vocabulary};
use leyden_tensor::{Array, Gguf, Metadata, Value, WeightSource};
use leyden_text::{Special, Tokenizer, from_gguf};

/// The embedded model's tokenizer.
pub(crate) fn storyteller() -> Box<dyn Tokenizer> {
    gguf_tokenizer(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../leyden/model/storyteller-q8_0.gguf"))
}

pub(crate) fn gguf_tokenizer(path: &Path) -> Box<dyn Tokenizer> {
    let file = Gguf::open(path).unwrap();
    from_gguf(file.metadata(), &path.display().to_string()).unwrap()
}

/// A vocabulary of all bytes, some words and some marks: `</s>` ends, `<|mark|>` does not, `<tool>` is a word.
pub(crate) fn bytes_and_words() -> Box<dyn Tokenizer> {
    let byte = |b: u8| match b {
        b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(b),
        // As byte-level vocabularies write bytes that are no letters: the n-th such byte is U+0100 + n.
        b => {
            let n = (0..b).filter(|b| !matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)).count();
            char::from_u32(0x100 + n as u32).unwrap()
        }
    };
    let mut texts: Vec<String> = (0..=255).map(|b| byte(b).to_string()).collect();
    let mut kinds = vec![1_i32; 256];
    for word in ["true", "{\"", "\":", "ab", "abc", "Ġ\"", "},", "12", "name", ">now", ">x"] {
        texts.push(word.into());
        kinds.push(1);
    }
    for (mark, kind) in [("</s>", 3), ("<|mark|>", 3), ("[CALLS]", 3), ("<tool>", 4)] {
        texts.push(mark.into());
        kinds.push(kind);
    }
    let eos = texts.iter().position(|t| t == "</s>").unwrap() as u32;
    let meta = Metadata::new(
        "m.gguf",
        [
            ("tokenizer.ggml.model".to_string(), Value::from("gpt2")),
            ("tokenizer.ggml.pre".to_string(), Value::from("gpt-2")),
            (
                "tokenizer.ggml.tokens".to_string(),
                Value::Array(Array::from_strs(texts.iter().map(String::as_str))),
            ),
            ("tokenizer.ggml.token_type".to_string(), Value::Array(Array::from_i32(&kinds))),
            ("tokenizer.ggml.merges".to_string(), Value::Array(Array::from_strs(["a b", "ab c"]))),
            ("tokenizer.ggml.eos_token_id".to_string(), Value::from(eos)),
        ],
    )
    .unwrap();
    from_gguf(&meta, "m.gguf").unwrap()
}

/// The only token of this text.
pub(crate) fn id(tokenizer: &dyn Tokenizer, text: &str) -> u32 {
    (0..tokenizer.vocab_size() as u32).find(|id| tokenizer.token_bytes(*id) == Some(text.as_bytes())).unwrap()
}

/// Returns whether a text follows a constraint to its end, token by token; masks and acceptance must agree.
pub(crate) fn follows(constraint: &Constraint, tokenizer: &dyn Tokenizer, text: &str) -> bool {
    let mut by_mask = constraint.clone();
    let mut unasked = constraint.clone();
    for id in tokenizer.encode(text, Special::AsText).unwrap() {
        let allowed = !by_mask.is_complete() && by_mask.mask().is_ok_and(|mask| mask.contains(id));
        assert_eq!(unasked.accept(id).is_ok(), allowed, "token {id} of {text:?}");
        if !allowed {
            return false;
        }
        by_mask.accept(id).unwrap();
    }
    by_mask.may_stop()
}

pub(crate) fn vocabulary(tokenizer: &dyn Tokenizer) -> Arc<Vocabulary> {
    Vocabulary::new(tokenizer).unwrap()
}
