//! Any JSON as a schema, and any text as a grammar, gives an error or a grammar that can be followed for some tokens.
#![no_main]

use std::sync::{Arc, OnceLock};

use leyden_constrain::{Grammar, Vocabulary};

fn vocabulary() -> &'static Arc<Vocabulary> {
    static VOCABULARY: OnceLock<Arc<Vocabulary>> = OnceLock::new();
    VOCABULARY.get_or_init(|| {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/leyden/model/storyteller-q8_0.gguf");
        let gguf = leyden_tensor::Gguf::open(file.as_ref()).unwrap();
        let meta = leyden_tensor::WeightSource::metadata(&gguf);
        Vocabulary::new(leyden_text::from_gguf(meta, file).unwrap().as_ref()).unwrap()
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let grammar = match kind % 4 {
        0 => match serde_json::from_str(text) {
            Ok(value) => Grammar::json_schema(&value),
            Err(_) => return,
        },
        1 => Grammar::gbnf(text),
        2 => Grammar::lark(text),
        _ => Grammar::regex(text),
    };
    let compiled = grammar.and_then(|grammar| vocabulary().compile(&grammar));
    let mut constraint = match compiled {
        Ok(compiled) => compiled.start(),
        Err(error) => {
            let text = error.to_string();
            assert!(text.len() < 4096 && !text.contains(char::is_control), "{text:?}");
            return;
        }
    };
    for i in 0..8 {
        let Ok(mask) = constraint.mask() else { return };
        let tokens: Vec<u32> = mask.iter().collect();
        assert!(!tokens.is_empty());
        let token = tokens[(i * 7 + bytes.len()) % tokens.len()];
        if constraint.is_complete() || constraint.accept(token).is_err() {
            return;
        }
    }
});
