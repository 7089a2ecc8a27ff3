//! Sessions answer the same with and without speculation.

use leyden::{GenerateOptions, Generation, Grammar, LoadOptions, Model, Session, SessionOptions};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// The embedded model as a file.
fn storyteller() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("model/storyteller-q8_0.gguf")
}

/// A smaller form of the same model.
fn small() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../leyden-engine/tests/fixtures/storyteller-q4_0.gguf")
}

fn answer(session: &mut Session, prompt: &[u32], options: &GenerateOptions) -> Generation {
    session.generate(prompt, options, &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn answers_are_the_same_with_a_draft_model() {
    let model = Model::open(storyteller(), &LoadOptions::new().threads(2).draft(small())).unwrap();
    let mut plain = model.session(&SessionOptions::new().speculation(false)).unwrap();
    let mut drafting = model.session(&SessionOptions::new()).unwrap();
    let compiled = model.compile(&Grammar::regex("(the |a )?[a-z ]{20,60}\\.").unwrap()).unwrap();
    let base = || GenerateOptions::new().max_tokens(48);
    let all = [
        base().temperature(0.0),
        base().temperature(0.9).seed(3).logprobs(2),
        base().temperature(0.0).stop(" the").logprobs(1),
        base().temperature(0.7).seed(9).follow(&compiled),
    ];
    let mut said = "Once upon a time".to_owned();
    // Later prompts begin with earlier ones, as the turns of a conversation do.
    for options in all.iter().chain(&all) {
        let prompt = model.tokenize(&said).unwrap();
        let (want, got) = (answer(&mut plain, &prompt, options), answer(&mut drafting, &prompt, options));
        assert_eq!((&want.text, &want.tokens, want.finish), (&got.text, &got.tokens, got.finish));
        assert_eq!(want.logprobs, got.logprobs);
        assert_eq!((want.drafted_tokens, want.accepted_tokens), (0, 0));
        assert!(got.accepted_tokens <= got.drafted_tokens && got.accepted_tokens <= got.tokens.len());
        said = format!("{said}{} And then", want.text);
    }
}

#[test]
fn a_draft_model_needs_the_same_vocabulary() {
    let model = Model::open(storyteller(), &LoadOptions::new()).unwrap();
    let mut bytes = std::fs::read(storyteller()).unwrap();
    // Two digits change places: neither is part of a merge.
    let token = |digit: u8| [&1_u64.to_le_bytes()[..], &[digit]].concat();
    let (digits, swapped) = ([token(b'7'), token(b'8')].concat(), [token(b'8'), token(b'7')].concat());
    let at = bytes.windows(digits.len()).position(|window| window == digits).unwrap();
    bytes[at..at + digits.len()].copy_from_slice(&swapped);
    let id = (0..4000).find(|id| model.tokenizer().token_bytes(*id) == Some(b"7")).unwrap();
    let other = std::env::temp_dir().join(format!("leyden-other-vocabulary-{}.gguf", std::process::id()));
    std::fs::write(&other, bytes).unwrap();
    let opened = Model::open(storyteller(), &LoadOptions::new().draft(other.clone()));
    std::fs::remove_file(&other).unwrap();
    let error = opened.unwrap_err().to_string();
    assert!(error.starts_with("draft: ") && error.contains(&format!("its token {id} is `8`")), "{error}");
    let error =
        Model::open(storyteller(), &LoadOptions::new().draft(PathBuf::from("/no/such.gguf"))).unwrap_err();
    assert!(error.to_string().contains("/no/such.gguf"), "{error}");
}
