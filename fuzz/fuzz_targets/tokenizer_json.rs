//! Any bytes as a `tokenizer.json` are refused, or encode and decode texts, including the file's own text.
#![no_main]

use leyden_text::{Detokenizer, Special, from_tokenizer_json};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(tokenizer) = from_tokenizer_json(bytes, "fuzz.json") else { return };
    let own: String = String::from_utf8_lossy(bytes).chars().take(300).collect();
    for text in ["", "abc AB</s> fox<s>  's. éÂ 12\n\0", "▁ab 中文🦙\u{301}c\u{fffd} aaab", &own] {
        for special in [Special::Parse, Special::AsText] {
            let Ok(ids) = tokenizer.encode(text, special) else { continue };
            let mut detokenizer = Detokenizer::new();
            let mut previous = None;
            for id in ids {
                assert!((id as usize) < tokenizer.vocab_size());
                detokenizer.push(&tokenizer.bytes_after(previous, id).expect("a token that was written"));
                previous = Some(id);
            }
        }
    }
    let n = tokenizer.vocab_size();
    for (add, id) in [(tokenizer.add_bos(), tokenizer.bos()), (tokenizer.add_eos(), tokenizer.eos())] {
        assert!(!add || id.is_some_and(|id| (id as usize) < n));
    }
});
