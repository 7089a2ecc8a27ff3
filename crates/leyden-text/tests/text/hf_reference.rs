//! Tokenizers out of `tokenizer.json` write texts as the `tokenizers` library does (see `data/hf/make.py`).
use leyden_testkit::{patience, shared};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use leyden_text::{Detokenizer, Special, Tokenizer, from_tokenizer_json};
use serde_json::Value;

fn data(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/hf")).join(name)
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn tokenizer(path: &Path) -> Box<dyn Tokenizer> {
    from_tokenizer_json(&std::fs::read(path).unwrap(), &path.display().to_string()).unwrap()
}

struct Fnv1a(u32);

impl Fnv1a {
    fn new() -> Self {
        Fnv1a(0x811c_9dc5)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }

    fn ids(&mut self, ids: &[u32]) {
        ids.iter().for_each(|id| self.bytes(&id.to_le_bytes()));
    }

    fn end(&mut self) {
        self.bytes(&[0xff; 4]);
    }
}

/// The text of tokens, one after the other.
fn text(tokenizer: &dyn Tokenizer, ids: impl Iterator<Item = u32>) -> String {
    let mut detokenizer = Detokenizer::new();
    let mut text = String::new();
    let mut previous = None;
    for id in ids {
        text += &detokenizer.push(&tokenizer.bytes_after(previous, id).unwrap());
        previous = Some(id);
    }
    text + &detokenizer.finish()
}

fn check(name: &str, path: &Path, strings: &[String], want: &str) {
    let tokenizer = tokenizer(path);
    let tokenizer = tokenizer.as_ref();
    let want: Vec<&str> = want.split(' ').collect();
    assert_eq!(want.len(), strings.len().div_ceil(10));
    for (block, want) in strings.chunks(10).zip(want) {
        let mut hash = Fnv1a::new();
        for string in block {
            let ids = tokenizer.encode(string, Special::Parse).unwrap();
            hash.ids(&ids);
            hash.end();
            hash.ids(&tokenizer.encode(string, Special::AsText).unwrap());
            hash.end();
            hash.bytes(text(tokenizer, ids.iter().copied()).as_bytes());
            hash.end();
            let printed = ids.iter().copied().filter(|&id| !tokenizer.is_special(id));
            hash.bytes(text(tokenizer, printed).as_bytes());
            hash.end();
        }
        assert_eq!(format!("{:08x}", hash.0), want, "{name}: one of {block:#?}");
    }
}

fn strings() -> Vec<String> {
    let strings: Vec<String> = serde_json::from_value(json(&data("strings.json"))).unwrap();
    assert_eq!(strings.len(), 2000);
    strings
}

#[test]
fn ids_and_texts_equal_those_of_the_library() {
    let (golden, strings) = (json(&data("golden.json")), strings());
    let mut checked = 0;
    for (name, want) in golden["hashes"].as_object().unwrap() {
        let path = data(&format!("{name}.json"));
        if path.exists() {
            check(name, &path, &strings, want.as_str().unwrap());
            checked += 1;
        }
    }
    assert!(checked >= 24, "{checked} tokenizers");
}

#[test]
fn ids_and_texts_of_real_vocabularies_equal_those_of_the_library() {
    let (golden, strings) = (json(&data("golden.json")), strings());
    for (name, path) in [
        ("gpt2", "data/tokenizers/hf-reftests/reftests/models/gpt2/tokenizer.json"),
        ("phi3-v", "data/tokenizers/phi3-v/tokenizer.json"),
        ("TinyStories-656K", "data/llm/TinyStories-656K/tokenizer.json"),
    ] {
        let Some(path) = shared(path) else { return };
        check(name, &path, &strings, golden["hashes"][name].as_str().unwrap());
    }
}

#[test]
fn components_treat_characters_as_the_library_does() {
    let (golden, file) = (json(&data("golden.json")), json(&data("characters.json")));
    let every: Vec<char> =
        (0..0x20000).chain(0x2f800..0x30000).chain(0xe0000..0xe1000).filter_map(char::from_u32).collect();
    for (name, want) in golden["characters"].as_object().unwrap() {
        let mut state = file["tokenizers"][name].clone();
        state["model"]["vocab"] = file["model"]["vocab"].clone();
        let tokenizer = from_tokenizer_json(state.to_string().as_bytes(), name).unwrap();
        let want: Vec<&str> = want.as_str().unwrap().split(' ').collect();
        assert_eq!(want.len(), every.chunks(1024).len());
        for (block, want) in every.chunks(1024).zip(want) {
            let text: String = block.iter().flat_map(|&c| ['a', c, 'b']).collect();
            let mut hash = Fnv1a::new();
            hash.ids(&tokenizer.encode(&text, Special::Parse).unwrap());
            assert_eq!(format!("{:08x}", hash.0), want, "{name}: from {:?}", block[0]);
        }
    }
}

/// The texts of a reference test with the ids that Python has for them.
fn reftest(text: &str, ids: &str) -> Option<(String, Vec<u32>)> {
    let folder = shared("data/tokenizers/hf-reftests/reftests")?;
    let text = std::fs::read_to_string(folder.join(text)).unwrap();
    let ids = serde_json::from_value(json(&folder.join(ids))["token_ids"].clone()).unwrap();
    Some((text, ids))
}

#[test]
fn reference_texts_of_gpt2() {
    let Some(path) = shared("data/tokenizers/hf-reftests/reftests/models/gpt2/tokenizer.json") else {
        return;
    };
    let Some((text, want)) = reftest("monty-python-credits.txt", "monty-python-credits-gpt2.json") else {
        return;
    };
    assert_eq!(tokenizer(&path).encode(&text, Special::Parse).unwrap(), want);
}

/// A BERT tokenizer of a list of tokens.
fn bert(tokens: &Path, lowercase: bool) -> Box<dyn Tokenizer> {
    let tokens = std::fs::read_to_string(tokens).unwrap();
    let vocab: serde_json::Map<String, Value> =
        tokens.lines().zip(0..).map(|(token, id)| (token.into(), Value::from(id))).collect();
    let (cls, sep) = (vocab["[CLS]"].clone(), vocab["[SEP]"].clone());
    let state = serde_json::json!({
        "version": "1.0",
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                       "strip_accents": null, "lowercase": lowercase},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", sep], "cls": ["[CLS]", cls]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": vocab},
    });
    from_tokenizer_json(state.to_string().as_bytes(), "bert").unwrap()
}

/// The ids of a text with the tokens around it.
fn with_ends(tokenizer: &dyn Tokenizer, text: &str) -> Vec<u32> {
    let ids = tokenizer.encode(text, Special::Parse).unwrap();
    let before = tokenizer.bos().filter(|_| tokenizer.add_bos());
    let after = tokenizer.eos().filter(|_| tokenizer.add_eos());
    before.into_iter().chain(ids).chain(after).collect()
}

#[test]
fn reference_texts_of_bert() {
    let Some(models) = shared("data/tokenizers/hf-reftests/reftests/models") else { return };
    let uncased = bert(&models.join("bert-base-uncased/vocab.txt"), true);
    for (text, ids) in [
        ("monty-python-credits.txt", "monty-python-credits-bert-base-uncased.json"),
        ("Metal_umlaut.txt", "Metal_umlaut-bert-base-uncased.json"),
    ] {
        let Some((text, want)) = reftest(text, ids) else { return };
        assert_eq!(with_ends(uncased.as_ref(), &text), want, "{ids}");
    }
    let cased = bert(&models.join("bert-base-cased/vocab.txt"), false);
    let ids = cased.encode("Mötley Crüe 123", Special::Parse).unwrap();
    assert_eq!(text(cased.as_ref(), ids.into_iter()), "Mötley Crüe 123");
}

#[test]
fn reference_word_piece_files() {
    for name in ["wordpiece.json", "wordpiece-lower.json"] {
        let Some(path) = shared(&format!("data/tokenizers/hf-reftests/tokenizer-json/{name}")) else {
            return;
        };
        let file = json(&path);
        let tokenizer = from_tokenizer_json(file["tokenizer"].to_string().as_bytes(), name).unwrap();
        for case in file["cases"].as_array().unwrap() {
            let want: Vec<u32> = serde_json::from_value(case["token_ids"].clone()).unwrap();
            // The file has no post-processor; its expectations begin with [CLS] and end with [SEP].
            let got = tokenizer.encode(case["text"].as_str().unwrap(), Special::Parse).unwrap();
            assert_eq!([&[3][..], &got, &[4]].concat(), want, "{name}");
        }
    }
}

#[test]
fn tokens_around_a_text_come_from_the_post_processor() {
    for (name, bos, eos) in [
        ("llama3", Some("<|begin_of_text|>"), None),
        ("t5", None, Some("</s>")),
        ("xlm_roberta", Some("<s>"), Some("</s>")),
        ("bert_cased", Some("[CLS]"), Some("[SEP]")),
        ("clip", Some("<|startoftext|>"), Some("<|endoftext|>")),
        ("qwen2", None, None),
    ] {
        let tokenizer = tokenizer(&data(&format!("{name}.json")));
        let added = |add: bool, id: Option<u32>| {
            id.filter(|_| add).map(|id| String::from_utf8(tokenizer.token_bytes(id).unwrap().into()).unwrap())
        };
        assert_eq!(added(tokenizer.add_bos(), tokenizer.bos()).as_deref(), bos, "{name}");
        assert_eq!(added(tokenizer.add_eos(), tokenizer.eos()).as_deref(), eos, "{name}");
    }
    let qwen2 = tokenizer(&data("qwen2.json"));
    let ends: Vec<&[u8]> = (0..qwen2.vocab_size() as u32)
        .filter(|&id| qwen2.is_end(id))
        .map(|id| qwen2.token_bytes(id).unwrap())
        .collect();
    assert_eq!(ends, [&b"<|endoftext|>"[..], b"<|im_end|>"]);
}

#[test]
fn long_texts_take_time_in_proportion() {
    let text =
        "aé 1\u{301}".repeat(40_000) + &"a".repeat(100_000) + &" ".repeat(100_000) + &"\n".repeat(50_000);
    for name in
        ["llama3", "qwen2", "llama2", "gemma", "mistral", "t5", "albert", "bert_uncased", "gpt_neox", "o200k"]
    {
        let tokenizer = tokenizer(&data(&format!("{name}.json")));
        let start = Instant::now();
        let ids = tokenizer.encode(&text, Special::Parse).unwrap();
        assert!(!ids.is_empty());
        // A quadratic step takes minutes.
        assert!(start.elapsed() < patience(Duration::from_secs(20)), "{name}: {:?}", start.elapsed());
    }
}
