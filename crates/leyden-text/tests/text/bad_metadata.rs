//! Tokenizer metadata that is incomplete or contradicts itself is an error that names file and key.
use std::collections::BTreeMap;

use leyden_tensor::{Array, Gguf, Metadata, Value, WeightSource};
use leyden_text::{ChatTemplate, Special, Tokenizer, encode_prompt, encode_whole, from_gguf};
use proptest::prelude::*;

type Entries = BTreeMap<String, Value>;

fn key(name: &str) -> String {
    format!("tokenizer.ggml.{name}")
}

fn strings(items: &[String]) -> Value {
    Value::Array(Array::from_strs(items))
}

fn texts(items: &[&str]) -> Value {
    Value::Array(Array::from_strs(items))
}

fn items(value: &Value) -> Vec<String> {
    let Value::Array(array) = value else { return Vec::new() };
    let strings = array.strings().unwrap();
    strings.iter().map(|text| String::from_utf8(text.to_vec()).unwrap()).collect()
}

/// A small vocabulary in which everything is right: 256 bytes, four merged tokens, three special ones.
fn valid() -> Entries {
    let alphabet = (b'!'..=b'~').chain(0xa1..=0xac).chain(0xae..=0xff).map(char::from);
    let mut tokens: Vec<String> = alphabet.chain('\u{100}'..='\u{143}').map(String::from).collect();
    tokens.extend(["ab", "abc", "Ġab", "Ġabc", "<|endoftext|>", "<|im_end|>", "<think>"].map(String::from));
    let mut types = vec![1; tokens.len()];
    let n = types.len();
    types[n - 3..].copy_from_slice(&[3, 3, 4]);
    [
        ("model", Value::from("gpt2")),
        ("pre", Value::from("gpt-2")),
        ("tokens", strings(&tokens)),
        ("token_type", Value::Array(Array::from_i32(&types))),
        ("merges", texts(&["a b", "ab c", "Ġ ab", "Ġab c", "Ġ abc"])),
        ("bos_token_id", Value::U32(260)),
        ("eos_token_id", Value::U32(260)),
        ("eot_token_id", Value::U32(261)),
        ("add_bos_token", Value::Bool(true)),
    ]
    .map(|(name, value)| (key(name), value))
    .into()
}

/// Small vocabularies of the other kinds in which everything is right.
fn others() -> Vec<(&'static str, Entries)> {
    let entries = |model: &str, tokens: &[&str], types: &[i32], more: &[(&str, Value)]| -> Entries {
        let common = [
            ("model", Value::from(model)),
            ("tokens", texts(tokens)),
            ("token_type", Value::Array(Array::from_i32(types))),
        ];
        common.iter().chain(more).map(|(name, value)| (key(name), value.clone())).collect()
    };
    let scores = |scores: &[f32]| Value::Array(Array::from_f32(scores));
    let llama = entries(
        "llama",
        &[
            "<unk>",
            "<s>",
            "</s>",
            "<0x0A>",
            "▁",
            "a",
            "b",
            "ab",
            "▁ab",
            "<|im_end|>",
            "<think>",
            "<0xC3>",
            "<0xA9>",
            "c",
        ],
        &[2, 3, 3, 6, 1, 1, 1, 1, 1, 3, 4, 6, 6, 1],
        &[
            ("scores", scores(&[0., 0., 0., 0., -1., -2., -3., -4., -5., 0., 0., 0., 0., -6.])),
            ("bos_token_id", Value::U32(1)),
            ("eos_token_id", Value::U32(2)),
            ("add_space_prefix", Value::Bool(true)),
        ],
    );
    let bert = entries(
        "bert",
        &["[UNK]", "[CLS]", "[SEP]", "▁ab", "c", "▁abc", "▁e"],
        &[2, 3, 3, 1, 1, 1, 1],
        &[
            ("unknown_token_id", Value::U32(0)),
            ("bos_token_id", Value::U32(1)),
            ("seperator_token_id", Value::U32(2)),
            ("normalizer.lowercase", Value::Bool(true)),
        ],
    );
    let gemma4 = entries(
        "gemma4",
        &["<pad>", "<eos>", "<bos>", "▁", "a", "b", "ab", "▁ab", "<0x0A>", "\n\n", "c", "<0xC3>", "<0xA9>"],
        &[3, 3, 3, 1, 1, 1, 1, 1, 6, 1, 1, 6, 6],
        &[
            ("merges", texts(&["a b", "▁ ab"])),
            ("bos_token_id", Value::U32(2)),
            ("eos_token_id", Value::U32(1)),
        ],
    );
    let unigram =
        Gguf::open(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/unigram.gguf").as_ref()).unwrap();
    let unigram = unigram.metadata().iter().filter(|(key, _)| key.starts_with("tokenizer."));
    let unigram = unigram.map(|(key, value)| (key.to_string(), value.clone())).collect();
    vec![("llama", llama), ("bert", bert), ("gemma4", gemma4), ("t5", unigram)]
}

/// The bytes of the map that comes with the Unigram vocabulary.
fn charsmap() -> Vec<u8> {
    let Value::Array(map) = &others()[3].1[&key("precompiled_charsmap")] else { return Vec::new() };
    map.iter().map(|byte| u8::try_from(byte.as_integer().unwrap()).unwrap()).collect()
}

fn read(entries: &Entries) -> Result<(), leyden_text::Error> {
    let meta = Metadata::new("bad.gguf", entries.clone()).unwrap();
    let tokenizer = from_gguf(&meta, "bad.gguf")?;
    let _ = ChatTemplate::from_gguf(&meta, &*tokenizer, "bad.gguf")?;
    // What is accepted must work.
    for special in [Special::Parse, Special::AsText] {
        if let Ok(ids) = tokenizer.encode("abc ab<|im_end|><think>\n é\u{fb01}", special) {
            assert!(ids.iter().all(|&id| tokenizer.token_bytes(id).is_some()));
            let mut previous = None;
            for id in ids {
                let bytes = tokenizer.bytes_after(previous, id).unwrap();
                assert!(bytes.len() <= tokenizer.token_bytes(id).unwrap().len());
                previous = Some(id);
            }
        }
    }
    for id in [0, 260, 261, 262, 263, u32::MAX] {
        let known = tokenizer.token_bytes(id).is_some();
        assert_eq!(known, (id as usize) < tokenizer.vocab_size());
        assert!(known || !(tokenizer.is_end(id) || tokenizer.is_special(id)));
    }
    assert!(!tokenizer.add_bos() || tokenizer.bos().is_some());
    assert!(!tokenizer.add_eos() || tokenizer.eos().is_some());
    Ok(())
}

#[test]
fn every_fault_names_file_and_key() {
    read(&valid()).unwrap();
    let tokens = items(&valid()[&key("tokens")]);
    let with = |at: usize, text: &str| {
        let mut tokens = tokens.clone();
        tokens[at] = text.into();
        strings(&tokens)
    };
    let cases: Vec<(&str, Option<Value>, &str)> = vec![
        ("model", None, "tokenizer.ggml.model: required metadata key is missing"),
        (
            "model",
            Some("rwkv".into()),
            "tokenizer.ggml.model: tokenizer \"rwkv\" is not supported (supported: gpt2, gemma4, llama, bert, t5)",
        ),
        (
            "model",
            Some("plamo2".into()),
            "tokenizer.ggml.model: tokenizer \"plamo2\" is not supported (supported: gpt2,",
        ),
        ("model", Some(Value::U32(1)), "tokenizer.ggml.model: want string, found u32"),
        ("pre", None, "tokenizer.ggml.pre: required metadata key is missing"),
        (
            "pre",
            Some("default".into()),
            "tokenizer.ggml.pre: pre-tokenizer \"default\" is none of the 89 that are known, and",
        ),
        ("pre", Some("gpt-3\u{1b}".into()), "tokenizer.ggml.pre: pre-tokenizer \"gpt-3\\u{1b}\" is none of"),
        ("tokens", None, "tokenizer.ggml.tokens: required metadata key is missing"),
        ("tokens", Some(texts(&[])), "tokenizer.ggml.tokens: the vocabulary is empty"),
        (
            "tokens",
            Some(Value::Array(Array::from_i32(&[1]))),
            "tokenizer.ggml.tokens: want array of string, found array of i32",
        ),
        (
            "tokens",
            Some(with(256, "xy")),
            "tokenizer.ggml.merges: merge 0, \"a b\", makes a token that the vocabulary lacks",
        ),
        (
            "tokens",
            Some(with(64, "xy")),
            "tokenizer.ggml.merges: merge 0, \"a b\", names a token that the vocabulary lacks",
        ),
        (
            "token_type",
            Some(Value::Array(Array::from_i32(&[1, 1]))),
            "tokenizer.ggml.token_type: 2 types for 263 tokens",
        ),
        ("token_type", Some("1".into()), "tokenizer.ggml.token_type: want array of i32, found string"),
        ("merges", None, "tokenizer.ggml.merges: required metadata key is missing"),
        (
            "merges",
            Some(texts(&["ab"])),
            "tokenizer.ggml.merges: merge 0, \"ab\", is not two texts with a space between them",
        ),
        (
            "merges",
            Some(texts(&["a b", ""])),
            "tokenizer.ggml.merges: merge 1, \"\", is not two texts with a space between them",
        ),
        (
            "merges",
            Some(texts(&["a b", "ab "])),
            "tokenizer.ggml.merges: merge 1, \"ab \", names a token that the vocabulary lacks",
        ),
        (
            "merges",
            Some(texts(&["a x y"])),
            "tokenizer.ggml.merges: merge 0, \"a x y\", names a token that the vocabulary lacks",
        ),
        (
            "merges",
            Some(texts(&["a a"])),
            "tokenizer.ggml.merges: merge 0, \"a a\", makes a token that the vocabulary lacks",
        ),
        ("bos_token_id", None, "tokenizer.ggml.bos_token_id: required, because every text gets this token"),
        (
            "bos_token_id",
            Some(Value::U32(263)),
            "tokenizer.ggml.bos_token_id: required, because every text gets this token",
        ),
        ("eos_token_ids", Some(Value::U32(1)), "tokenizer.ggml.eos_token_ids: want array of i32, found u32"),
        ("eom_token_id", Some(Value::Bool(true)), "tokenizer.ggml.eom_token_id: want u32, found bool"),
        ("add_bos_token", Some(Value::U32(1)), "tokenizer.ggml.add_bos_token: want bool, found u32"),
        ("add_eos_token", Some("yes".into()), "tokenizer.ggml.add_eos_token: want bool, found string"),
    ];
    let mut failures = Vec::new();
    for (name, value, want) in cases {
        let mut entries = valid();
        match value {
            Some(value) => entries.insert(key(name), value),
            None => entries.remove(&key(name)),
        };
        let got = read(&entries).err().map_or("no error".into(), |error| error.to_string());
        if !got.starts_with(&format!("bad.gguf: {want}")) {
            failures.push(format!("{name}: {got}"));
        }
    }
    let mut entries = valid();
    entries.insert("tokenizer.chat_template".into(), "{% if %}".into());
    let got = read(&entries).unwrap_err().to_string();
    assert_eq!(got, "bad.gguf: tokenizer.chat_template: line 1: want an expression, found `%}`");
    entries.insert("tokenizer.chat_template".into(), Value::Bool(true));
    let got = read(&entries).unwrap_err().to_string();
    assert_eq!(got, "bad.gguf: tokenizer.chat_template: want string, found bool");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn oddities_that_files_have_are_accepted() {
    // Empty tokens pad a vocabulary; merges repeat; eos is absent; a token lies outside of the alphabet.
    let mut tokens = items(&valid()[&key("tokens")]);
    tokens.extend(["", "", "<｜end▁of▁sentence｜>"].map(String::from));
    let mut entries = valid();
    entries.insert(key("tokens"), strings(&tokens));
    entries.remove(&key("token_type"));
    entries.remove(&key("eos_token_id"));
    entries.insert(key("merges"), texts(&["a b", "a b", "ab c"]));
    let meta = Metadata::new("odd.gguf", entries).unwrap();
    let tokenizer = from_gguf(&meta, "odd.gguf").unwrap();
    assert_eq!(tokenizer.eos(), None);
    assert_eq!(tokenizer.token_bytes(263), Some(&b""[..]));
    assert!(tokenizer.is_end(265) && tokenizer.is_special(265), "known by its text");
    assert_eq!(tokenizer.encode("abc<｜end▁of▁sentence｜>", Special::Parse).unwrap(), [257, 265]);
    assert_eq!(tokenizer.encode(" abc", Special::Parse).unwrap(), [220, 257]);
}

fn read_with(changes: Vec<(&str, Value)>) -> Box<dyn Tokenizer> {
    let mut entries = valid();
    entries.extend(changes.into_iter().map(|(name, value)| (key(name), value)));
    from_gguf(&Metadata::new("odd.gguf", entries).unwrap(), "odd.gguf").unwrap()
}

/// As llama.cpp fills its table from texts to ids, and Ollama; official files of Gemma 4 repeat three texts.
#[test]
fn of_tokens_with_one_text_the_last_is_written_and_all_are_read() {
    let mut tokens = items(&valid()[&key("tokens")]);
    tokens.extend(["ab", "<|im_end|>"].map(String::from));
    let mut types = vec![1; 265];
    types[260..].copy_from_slice(&[3, 3, 4, 1, 3]);
    let types = Value::Array(Array::from_i32(&types));
    let tokenizer = read_with(vec![("tokens", strings(&tokens)), ("token_type", types)]);
    assert_eq!(tokenizer.encode("ab", Special::AsText).unwrap(), [263]);
    assert_eq!(tokenizer.encode("abc ab", Special::AsText).unwrap(), [257, 258]);
    assert_eq!(tokenizer.encode("ab<|im_end|>", Special::Parse).unwrap(), [263, 264]);
    assert_eq!(
        (tokenizer.token_bytes(256), tokenizer.token_bytes(263)),
        (Some(&b"ab"[..]), Some(&b"ab"[..]))
    );
    assert!(tokenizer.is_end(261) && tokenizer.is_end(264), "one by its key, one by its text");
}

/// llama.cpp warns of them and goes on.
#[test]
fn tokens_that_do_not_exist_are_as_if_not_named() {
    for none in [Value::I32(-1), Value::U32(u32::MAX), Value::U32(263), Value::U64(1 << 40)] {
        for name in ["eos_token_id", "eot_token_id", "padding_token_id", "fim_pre_token_id"] {
            let tokenizer = read_with(vec![(name, none.clone())]);
            assert!(tokenizer.is_end(260) && tokenizer.is_end(261), "{name}: known by their texts");
        }
    }
    let (kinds, more) =
        (Value::Array(Array::from_i32(&[9; 300])), Value::Array(Array::from_f32(&[0.0; 300])));
    let tokenizer = read_with(vec![("token_type", kinds), ("scores", more)]);
    assert_eq!(tokenizer.encode("ab", Special::AsText).unwrap(), [256]);
}

/// Ollama's files have a list where a model ends its answers with one of several.
#[test]
fn a_list_of_ends_is_read_beside_the_one() {
    let list = Value::Array(Array::from_i32(&[260, 7, -1, 5000]));
    let tokenizer = read_with(vec![("eos_token_ids", list)]);
    assert_eq!([7, 8, 260, 261].map(|id| tokenizer.is_end(id)), [true, false, true, true]);
    assert_eq!(tokenizer.eos(), Some(260));
}

#[test]
fn a_whole_text_has_what_begins_and_ends_it_once() {
    let both = |changes| {
        let tokenizer = read_with(changes);
        let of = |encode: fn(&dyn Tokenizer, &str) -> Result<Vec<u32>, leyden_text::Error>, text| {
            encode(tokenizer.as_ref(), text).unwrap()
        };
        ["ab", "<|endoftext|>ab<|im_end|>", ""].map(|t| (of(encode_whole, t), of(encode_prompt, t)))
    };
    let (eos, flag) = (("eos_token_id", Value::U32(261)), |name, on| (name, Value::Bool(on)));
    let add = both(vec![eos.clone(), flag("add_eos_token", true)]);
    // An answer follows a prompt, so it has no end.
    assert_eq!(add[0], (vec![260, 256, 261], vec![260, 256]));
    assert_eq!(add[1], (vec![260, 256, 261], vec![260, 256, 261]));
    assert_eq!(add[2], (vec![260, 261], vec![260]));
    let only = both(vec![eos.clone(), flag("add_eos_token", true), flag("add_bos_token", false)]);
    assert_eq!((&only[0].0, &only[2].0), (&vec![256, 261], &vec![261]));
    let plain = both(vec![eos, flag("add_bos_token", false)]);
    assert_eq!((&plain[0].0, &plain[2].0), (&vec![256], &vec![]));
    // BOS and EOS may be one token.
    assert_eq!(both(vec![flag("add_eos_token", true)])[2], (vec![260, 260], vec![260]));
}

/// Values of every type, and arrays with absurd contents.
fn any_value() -> impl Strategy<Value = Value> {
    let number = prop_oneof![Just(0), Just(1), Just(262), Just(263), Just(i64::MAX), Just(-1), any::<i64>()];
    let text = prop_oneof![Just(String::new()), "[ab Ġ<>|]{0,8}".prop_map(String::from), any::<String>()];
    let one =
        prop_oneof![Just("gpt2"), Just("gpt-2"), Just("llama-bpe"), Just("llama"), Just("bert"), Just("t5")]
            .prop_map(Value::from);
    prop_oneof![
        number.clone().prop_map(Value::I64),
        number.prop_map(|n| Value::U32(n as u32)),
        any::<bool>().prop_map(Value::Bool),
        any::<f64>().prop_map(Value::F64),
        text.clone().prop_map(Value::String),
        one,
        prop::collection::vec(text, 0..300).prop_map(|texts| strings(&texts)),
        prop::collection::vec(prop_oneof![0..7, any::<i32>()], 0..270)
            .prop_map(|numbers| Value::Array(Array::from_i32(&numbers))),
        prop::collection::vec(1..5, 263).prop_map(|numbers| Value::Array(Array::from_i32(&numbers))),
    ]
}

/// A change of one entry: replaced, removed, or a string of an array replaced.
fn mutate(entries: &mut Entries, name: &str, change: u8, at: usize, value: Value) {
    match (change % 4, entries.get(name)) {
        (0, _) => drop(entries.remove(name)),
        (1 | 2, Some(old @ Value::Array(array))) if array.strings().is_some() => {
            let mut items = items(old);
            let at = at % items.len().max(1);
            match value {
                Value::String(text) if at < items.len() => items[at] = text,
                Value::Bool(true) => items.truncate(at),
                _ if at + 1 < items.len() => items.swap(at, at + 1),
                _ => {}
            }
            entries.insert(name.into(), strings(&items));
        }
        _ => drop(entries.insert(name.into(), value)),
    }
}

#[test]
fn every_fault_of_the_other_kinds_names_file_and_key() {
    let floats = |scores: &[f32]| Value::Array(Array::from_f32(scores));
    let bytes = |bytes: &[u8]| Value::Array(Array::from_u8(bytes));
    // The child of the root for an `a` has the root's children.
    let mut circle = vec![0u32; 257];
    circle[0] = 256 * 4;
    circle[1 + 97] = 97 | 97 << 10;
    let circle: Vec<u8> = circle.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let long = "x".repeat(513);
    let raw = |tokens: &[&[u8]]| Value::Array(Array::from_strs(tokens));
    let cases: Vec<(&str, &str, Option<Value>, &str)> = vec![
        ("llama", "tokens", None, "tokenizer.ggml.tokens: required metadata key is missing"),
        ("llama", "tokens", Some(raw(&[b"a", b"\xff"])), "tokenizer.ggml.tokens: token 1 is not UTF-8"),
        ("llama", "scores", Some(floats(&[0.0; 13])), "tokenizer.ggml.scores: 13 scores for 14 tokens"),
        (
            "llama",
            "scores",
            Some(floats(&[f32::NAN; 14])),
            "tokenizer.ggml.scores: the score of token 0 is NaN",
        ),
        (
            "llama",
            "scores",
            Some(floats(&[f32::NEG_INFINITY; 14])),
            "tokenizer.ggml.scores: the score of token 0 is -inf",
        ),
        ("llama", "scores", Some("0".into()), "tokenizer.ggml.scores: want array of f32, found string"),
        ("llama", "scores", Some(bytes(&[])), "tokenizer.ggml.scores: want array of f32, found array of u8"),
        (
            "llama",
            "add_space_prefix",
            Some(Value::U32(1)),
            "tokenizer.ggml.add_space_prefix: want bool, found u32",
        ),
        (
            "bert",
            "unknown_token_id",
            None,
            "tokenizer.ggml.unknown_token_id: required, because the vocabulary does not have every character",
        ),
        (
            "bert",
            "unknown_token_id",
            Some(Value::U32(7)),
            "tokenizer.ggml.unknown_token_id: required, because the vocabulary does not have every character",
        ),
        (
            "bert",
            "seperator_token_id",
            None,
            "tokenizer.ggml.seperator_token_id: required, because every text gets this token",
        ),
        (
            "bert",
            "bos_token_id",
            None,
            "tokenizer.ggml.bos_token_id: required, because every text gets this token",
        ),
        (
            "bert",
            "normalizer.lowercase",
            Some("no".into()),
            "tokenizer.ggml.normalizer.lowercase: want bool, found string",
        ),
        (
            "bert",
            "tokens",
            Some(texts(&["a", &long])),
            "tokenizer.ggml.tokens: token 1 has 513 bytes, at most 512 are supported",
        ),
        (
            "t5",
            "tokens",
            Some(texts(&[&long])),
            "tokenizer.ggml.tokens: token 0 has 513 bytes, at most 512 are supported",
        ),
        (
            "t5",
            "precompiled_charsmap",
            Some("".into()),
            "tokenizer.ggml.precompiled_charsmap: want array of i32, found string",
        ),
        (
            "t5",
            "precompiled_charsmap",
            Some(Value::Array(Array::from_i32(&[256; 9]))),
            "tokenizer.ggml.precompiled_charsmap: want bytes, found larger numbers",
        ),
        (
            "t5",
            "precompiled_charsmap",
            Some(bytes(&[0; 3])),
            "tokenizer.ggml.precompiled_charsmap: too short for the size of its trie",
        ),
        (
            "t5",
            "precompiled_charsmap",
            Some(bytes(&charsmap()[..300])),
            "tokenizer.ggml.precompiled_charsmap: its trie is longer than the map",
        ),
        (
            "t5",
            "precompiled_charsmap",
            Some(bytes(&circle)),
            "tokenizer.ggml.precompiled_charsmap: its trie leads in a circle",
        ),
        ("gemma4", "merges", None, "tokenizer.ggml.merges: required metadata key is missing"),
        (
            "gemma4",
            "merges",
            Some(texts(&["a é"])),
            "tokenizer.ggml.merges: merge 0, \"a é\", names a token that the vocabulary lacks",
        ),
        (
            "gemma4",
            "bos_token_id",
            None,
            "tokenizer.ggml.bos_token_id: required, because every text gets this token",
        ),
    ];
    let mut failures = Vec::new();
    for (model, name, value, want) in cases {
        let (_, mut entries) = others().into_iter().find(|(other, _)| *other == model).unwrap();
        read(&entries).unwrap();
        match value {
            Some(value) => entries.insert(key(name), value),
            None => entries.remove(&key(name)),
        };
        let got = read(&entries).err().map_or("no error".into(), |error| error.to_string());
        if !got.starts_with(&format!("bad.gguf: {want}")) {
            failures.push(format!("{model}: {name}: {got}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_special_token_has_at_most_256_bytes() {
    let (_, mut entries) = others().swap_remove(2);
    let mut tokens = items(&entries[&key("tokens")]);
    tokens[0] = "x".repeat(257);
    entries.insert(key("tokens"), strings(&tokens));
    let error = read(&entries).unwrap_err().to_string();
    assert_eq!(
        error,
        "bad.gguf: tokenizer.ggml.tokens: special token 0 has 257 bytes, at most 256 are supported"
    );
}

#[test]
fn a_text_cannot_grow_without_bound() {
    // A map whose one rule makes sixty characters of an `a`.
    let mut units = vec![0u32; 1024];
    let (at, children) = (256 ^ u32::from(b'a'), 512 ^ u32::from(b'a'));
    units[0] = 256 << 10;
    units[at as usize] = u32::from(b'a') | 1 << 8 | (at ^ children) << 10;
    units[children as usize] = 1 << 31;
    let mut map = (units.len() as u32 * 4).to_le_bytes().to_vec();
    map.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
    map.extend([b'x'; 60]);
    map.push(0);
    let (_, mut entries) = others().swap_remove(3);
    entries.insert(key("precompiled_charsmap"), Value::Array(Array::from_u8(&map)));
    let meta = Metadata::new("bad.gguf", entries).unwrap();
    let tokenizer = from_gguf(&meta, "bad.gguf").unwrap();
    assert!(tokenizer.encode("abcdefgh", Special::AsText).is_ok());
    let error = tokenizer.encode(&"a".repeat(1_000_000), Special::AsText).unwrap_err().to_string();
    let want = "bad.gguf: tokenizer.ggml.precompiled_charsmap: normalization makes the text more than 16 times longer";
    assert_eq!(error, want);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6000))]
    #[test]
    fn mutations_never_panic(
        changes in prop::collection::vec((0usize..14, any::<u8>(), any::<prop::sample::Index>(), any_value()), 1..4),
    ) {
        let names = ["model", "pre", "tokens", "tokens", "tokens", "token_type", "merges", "merges", "merges",
            "bos_token_id", "eos_token_id", "eot_token_id", "add_bos_token", "add_eos_token"];
        let mut entries = valid();
        for (name, change, at, value) in changes {
            mutate(&mut entries, &key(names[name]), change, at.index(1000), value);
        }
        if let Err(error) = read(&entries) {
            let message = error.to_string();
            prop_assert!(message.starts_with("bad.gguf: tokenizer.ggml."), "{}", message);
            prop_assert!(message.len() < 1500, "{}", message);
        }
    }

    #[test]
    fn mutations_of_the_other_kinds_never_panic(
        kind in 0usize..4,
        changes in prop::collection::vec((0usize..14, any::<u8>(), any::<prop::sample::Index>(), any_value()), 1..4),
        bytes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let names = ["model", "tokens", "tokens", "token_type", "scores", "scores", "merges", "bos_token_id", "eos_token_id",
            "add_space_prefix", "remove_extra_whitespaces", "unknown_token_id", "seperator_token_id", "normalizer.lowercase"];
        let (_, mut entries) = others().swap_remove(kind);
        for (name, change, at, value) in changes {
            mutate(&mut entries, &key(names[name]), change, at.index(1000), value);
        }
        if kind == 3 {
            let mut map = charsmap();
            for (at, byte) in bytes {
                let at = at.index(map.len());
                map[at] = byte;
            }
            entries.insert(key("precompiled_charsmap"), Value::Array(Array::from_u8(&map)));
        }
        if let Err(error) = read(&entries) {
            let message = error.to_string();
            prop_assert!(message.starts_with("bad.gguf: tokenizer.ggml."), "{}", message);
            prop_assert!(message.len() < 1500, "{}", message);
        }
    }
}
