//! Any text as a GBNF grammar: refused with its line, or a grammar that can be followed for some tokens.
#![no_main]

use std::sync::{Arc, OnceLock};

use leyden_constrain::{ErrorKind, Grammar, Vocabulary};

fn vocabulary() -> &'static Arc<Vocabulary> {
    static VOCABULARY: OnceLock<Arc<Vocabulary>> = OnceLock::new();
    VOCABULARY.get_or_init(|| {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/leyden/model/storyteller-q8_0.gguf");
        let gguf = leyden_tensor::Gguf::open(file.as_ref()).unwrap();
        let meta = leyden_tensor::WeightSource::metadata(&gguf);
        Vocabulary::new(leyden_text::from_gguf(meta, file).unwrap().as_ref()).unwrap()
    })
}

libfuzzer_sys::fuzz_target!(|source: &str| {
    let grammar = match Grammar::gbnf(source) {
        Ok(grammar) => grammar,
        Err(error) => {
            let text = error.to_string();
            assert!(text.len() < 4096 && !text.contains(char::is_control), "{text:?}");
            if let ErrorKind::Grammar(what) = error.kind() {
                assert!(what.starts_with("line "), "{what:?}");
            }
            return;
        }
    };
    let Ok(compiled) = vocabulary().compile(&grammar) else { return };
    let mut constraint = compiled.start();
    for i in 0..16 {
        let Ok(mask) = constraint.mask() else { return };
        let tokens: Vec<u32> = mask.iter().collect();
        assert!(!tokens.is_empty());
        let token = tokens[(i * 7 + source.len()) % tokens.len()];
        // Errors of limits are possible, refusals of a token of the mask are not.
        match constraint.accept(token) {
            Err(error) => {
                assert!(!matches!(error.kind(), ErrorKind::Token(_)), "{error}");
                return;
            }
            Ok(()) if constraint.is_complete() => return,
            Ok(()) => {}
        }
    }
});
