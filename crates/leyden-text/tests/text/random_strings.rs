//! Random strings of mixed scripts, emoji and controls get the ids of llama.cpp (see `data/random_ids.py`).
use leyden_testkit::shared;
use std::collections::{BTreeMap, BTreeSet};

use leyden_tensor::{Array, Gguf, Metadata, Value, WeightSource};
use leyden_text::{ErrorKind, Special, Tokenizer, from_gguf};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    block: usize,
    vocabularies: Vec<Vocabulary>,
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Vocabulary {
    name: String,
    /// Changes of the metadata.
    #[serde(default)]
    set: BTreeMap<String, serde_json::Value>,
    #[serde(flatten)]
    result: Expected,
}

#[derive(Deserialize)]
struct Rule {
    /// Names of the pre-tokenizer.
    names: Vec<String>,
    vocabulary: String,
    #[serde(flatten)]
    result: Expected,
}

#[derive(Deserialize)]
struct Expected {
    add_bos: bool,
    hashes: String,
}

fn data<T: for<'a> Deserialize<'a>>(name: &str) -> T {
    let path = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

struct Fnv1a(u32);

impl Fnv1a {
    fn add(&mut self, ids: &[u32]) {
        for byte in ids.iter().flat_map(|id| id.to_le_bytes()) {
            self.0 = (self.0 ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
    }
}

/// The text of a sequence of tokens, from its beginning.
fn decode(tokenizer: &dyn Tokenizer, ids: &[u32]) -> Vec<u8> {
    let previous = [None].into_iter().chain(ids.iter().copied().map(Some));
    let bytes = |(&id, previous): (&u32, _)| tokenizer.bytes_after(previous, id).unwrap().into_owned();
    ids.iter().zip(previous).flat_map(bytes).collect()
}

/// Compares block by block; what differs is put into `failures`. `exact` says that decoding restores every text.
fn compare(what: &str, tokenizer: &dyn Tokenizer, exact: bool, want: &Expected, failures: &mut Vec<String>) {
    let strings: Vec<String> = data("random_strings.json");
    let block: usize = data::<Golden>("random_ids.json").block;
    assert_eq!(strings.len(), 2000);
    if tokenizer.add_bos() != want.add_bos {
        failures.push(format!("{what}: add_bos is {}", tokenizer.add_bos()));
    }
    let hashes: Vec<&str> = want.hashes.split(' ').collect();
    assert_eq!(hashes.len(), strings.len().div_ceil(block));
    for (n, (strings, want)) in strings.chunks(block).zip(hashes).enumerate() {
        let mut hash = Fnv1a(0x811c_9dc5);
        for string in strings {
            let parsed = tokenizer.encode(string, Special::Parse).unwrap();
            let text = tokenizer.encode(string, Special::AsText).unwrap();
            for ids in [&parsed, &text] {
                let bytes = decode(tokenizer, ids);
                if exact {
                    assert_eq!(bytes, string.as_bytes(), "{what}: {ids:?}");
                }
            }
            hash.add(&parsed);
            hash.add(&[u32::MAX]);
            hash.add(&text);
            hash.add(&[u32::MAX - 1]);
        }
        if format!("{:08x}", hash.0) != want {
            let first = n * block;
            failures.push(format!("{what}: strings {first} to {}", first + strings.len() - 1));
        }
    }
}

#[test]
fn ids_equal_those_of_llama_cpp() {
    let golden: Golden = data("random_ids.json");
    let mut failures = Vec::new();
    for Vocabulary { name, set, result } in &golden.vocabularies {
        let meta = match name.as_str() {
            "storyteller" => shared("demo-model/storyteller-f16.gguf"),
            "unigram" => Some(format!("{}/tests/data/unigram.gguf", env!("CARGO_MANIFEST_DIR")).into()),
            "o200k" | "pairs" => None,
            name => shared(&format!("data/tokenizers/ggml-vocab/ggml-vocab-{name}.gguf")),
        };
        let meta = match (name.as_str(), meta) {
            ("pairs", _) => byte_level_pairs("gpt-2"),
            ("o200k", _) => match shared("data/tokenizers/tiktoken/o200k_base.tiktoken") {
                Some(path) => o200k(&std::fs::read_to_string(path).unwrap()),
                None => return,
            },
            (_, Some(path)) => Gguf::open(&path).unwrap().metadata().clone(),
            (_, None) => return,
        };
        let old = meta.iter().filter(|(key, _)| !set.contains_key(*key));
        let new = set.iter().map(|(key, value)| {
            let value = match value {
                serde_json::Value::Bool(value) => Value::Bool(*value),
                value => Value::from(value.as_str().unwrap()),
            };
            (key.clone(), value)
        });
        let entries = old.map(|(key, value)| (key.to_string(), value.clone())).chain(new);
        let meta = Metadata::new(name, entries.collect::<Vec<_>>()).unwrap();
        let tokenizer = from_gguf(&meta, name).unwrap();
        // WordPiece and Unigram normalise; Phi 3 and some variants drop white space beside special tokens; `▁` becomes a
        // space; and some vocabularies lack bytes.
        let exact = !matches!(
            name.as_str(),
            "bert-bge"
                | "unigram"
                | "phi-3"
                | "llama-spm"
                | "gemma-4"
                | "pairs"
                | "falcon"
                | "refact"
                | "starcoder"
        );
        compare(&format!("{name} {set:?}"), &*tokenizer, exact, result, &mut failures);
    }
    assert!(failures.is_empty(), "{} blocks differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn rules_cut_where_llama_cpp_does() {
    let golden: Golden = data("random_ids.json");
    let mut failures = Vec::new();
    let mut names = BTreeSet::new();
    for rule in &golden.rules {
        for name in &rule.names {
            let (meta, exact) = match rule.vocabulary.as_str() {
                "pairs" => (byte_level_pairs(name), !name.starts_with("jina-v2")),
                _ => (raw_pairs(name), false),
            };
            let tokenizer = from_gguf(&meta, name).unwrap();
            compare(name, &*tokenizer, exact, &rule.result, &mut failures);
            assert!(names.insert(name.as_str()), "{name}");
        }
    }
    assert!(failures.is_empty(), "{} blocks differ:\n{}", failures.len(), failures.join("\n"));
    // Every name that is supported has been compared.
    let error = from_gguf(&byte_level_pairs("?"), "?").err().unwrap();
    let ErrorKind::UnsupportedPreTokenizer { known, .. } = error.kind() else { panic!("{error}") };
    assert_eq!(names, known.iter().copied().collect());
}

/// The character for each byte in byte-level vocabularies.
fn letters() -> [String; 256] {
    let is_printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let mut others = '\u{100}'..;
    std::array::from_fn(|byte| {
        let byte = byte as u8;
        if is_printable(byte) { char::from(byte).to_string() } else { others.next().unwrap().to_string() }
    })
}

fn vocabulary(pre: &str, tokens: &[String], types: &[i32], merges: &[String]) -> Metadata {
    let strings = |items: &[String]| Value::Array(Array::from_strs(items));
    let entries = [
        ("general.architecture", Value::from("gpt2")),
        ("tokenizer.ggml.model", Value::from("gpt2")),
        ("tokenizer.ggml.pre", Value::from(pre)),
        ("tokenizer.ggml.tokens", strings(tokens)),
        ("tokenizer.ggml.token_type", Value::Array(Array::from_i32(types))),
        ("tokenizer.ggml.merges", strings(merges)),
        ("tokenizer.ggml.bos_token_id", Value::U32(0)),
        ("tokenizer.ggml.eos_token_id", Value::U32(0)),
    ];
    Metadata::new("made up", entries.map(|(key, value)| (key.to_string(), value))).unwrap()
}

/// Every byte and every pair of bytes is a token; so are some words that no merges lead to.
fn byte_level_pairs(pre: &str) -> Metadata {
    let letters = letters();
    let mut tokens = letters.to_vec();
    let mut merges = Vec::new();
    for k in 0..65536 {
        let pair = k * 40503 % 65536;
        let (left, right) = (&letters[pair / 256], &letters[pair % 256]);
        tokens.push(format!("{left}{right}"));
        merges.push(format!("{left} {right}"));
    }
    for word in ["Hello", " the", " привет", " \n\n", "中文", "365", "don't"] {
        tokens.push(word.bytes().map(|byte| letters[usize::from(byte)].as_str()).collect());
    }
    let mut types = vec![1; tokens.len()];
    for (text, kind) in [
        ("<mask>", 3),
        ("[MASK]", 3),
        ("<|im_end|>", 3),
        ("<unk>", 2),
        ("<|endoftext|>", 3),
        ("<s>", 3),
        ("</s>", 3),
        ("<think>", 4),
    ] {
        tokens.push(text.into());
        types.push(kind);
    }
    vocabulary(pre, &tokens, &types, &merges)
}

/// Printable ASCII and some other characters, every pair of them, runs of line feeds, and the bytes.
fn raw_pairs(pre: &str) -> Metadata {
    let mut tokens: Vec<String> = (0..256).map(|byte| format!("<0x{byte:02X}>")).collect();
    let mut types = vec![6; 256];
    let chars: Vec<char> = ('!'..='~').chain("▁é中и".chars()).collect();
    let n = chars.len();
    tokens.extend(chars.iter().map(char::to_string));
    let mut merges = Vec::new();
    for k in 0..n * n {
        let pair = k * 4391 % (n * n);
        let (left, right) = (chars[pair / n], chars[pair % n]);
        tokens.push(format!("{left}{right}"));
        merges.push(format!("{left} {right}"));
    }
    tokens.extend(["\n", "\n\n", "\n\n\n", "\n\n\n\n\n"].map(String::from));
    merges.push("\n \n".into());
    types.resize(tokens.len(), 1);
    for (text, kind) in [("<mask>", 3), ("<|im_end|>", 3), ("  ", 4)] {
        tokens.push(text.into());
        types.push(kind);
    }
    vocabulary(pre, &tokens, &types, &merges)
}

/// The vocabulary of a tiktoken file. The merge that makes a token joins the two parts that are left of it after merging
/// with the ranks below its own.
fn o200k(file: &str) -> Metadata {
    let letters = letters();
    let spell =
        |bytes: &[u8]| bytes.iter().map(|&byte| letters[usize::from(byte)].as_str()).collect::<String>();
    let ordered: Vec<Vec<u8>> = file.lines().map(|line| base64(line.split_once(' ').unwrap().0)).collect();
    let ranks: std::collections::HashMap<&[u8], usize> =
        ordered.iter().enumerate().map(|(rank, token)| (token.as_slice(), rank)).collect();
    let mut merges = Vec::new();
    for (rank, token) in ordered.iter().enumerate() {
        // Where the parts begin, and the end.
        let mut cuts: Vec<usize> = (0..=token.len()).collect();
        while cuts.len() > 3 {
            let joined =
                cuts.windows(3).map(|cuts| ranks.get(&token[cuts[0]..cuts[2]]).copied().unwrap_or(rank));
            let (best, at) = joined.zip(1..).min().unwrap();
            assert!(best < rank);
            cuts.remove(at);
        }
        if let &[start, middle, end] = &cuts[..] {
            merges.push(format!("{} {}", spell(&token[start..middle]), spell(&token[middle..end])));
        }
    }
    let mut tokens: Vec<String> = ordered.iter().map(|token| spell(token)).collect();
    let mut types = vec![1; tokens.len()];
    tokens.extend(["<|endoftext|>", "<|endofprompt|>"].map(String::from));
    types.extend([3, 3]);
    vocabulary("gpt-4o", &tokens, &types, &merges)
}

fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: Vec<u32> = text
        .bytes()
        .filter(|&byte| byte != b'=')
        .map(|byte| DIGITS.iter().position(|&digit| digit == byte).unwrap() as u32)
        .collect();
    let bytes = digits.chunks(4).flat_map(|digits| {
        let bits = (0..4).fold(0, |bits, i| bits << 6 | digits.get(i).copied().unwrap_or(0));
        bits.to_be_bytes().into_iter().skip(1).take(digits.len() - 1)
    });
    bytes.collect()
}
