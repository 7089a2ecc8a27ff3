//! Schemas and grammars made to take time or memory: an error, or something that can be followed, and soon.
use leyden_testkit::emulated;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::vocabularies::{bytes_and_words, vocabulary};
use leyden_constrain::{Error, ErrorKind, Grammar, Vocabulary};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Far beyond what any of it takes; a hang, not a slow machine, is what fails.
fn guard() -> Duration {
    Duration::from_secs(if emulated() { 2000 } else { 20 })
}

/// Compiles and follows for some tokens, the lowest or the highest that is allowed.
fn follow(vocabulary: &Arc<Vocabulary>, grammar: Result<Grammar, Error>) -> Result<(), Error> {
    let compiled = vocabulary.compile(&grammar?)?;
    for highest in [false, true] {
        let mut constraint = compiled.start();
        for _ in 0..6 {
            let mask = constraint.mask()?;
            let token = if highest { mask.iter().last() } else { mask.iter().next() };
            if constraint.is_complete() {
                break;
            }
            constraint.accept(token.unwrap())?;
        }
    }
    Ok(())
}

fn check(vocabulary: &Arc<Vocabulary>, name: &str, grammar: impl FnOnce() -> Result<Grammar, Error>) {
    let start = Instant::now();
    let result = follow(vocabulary, grammar());
    let took = start.elapsed();
    eprintln!("{name}: {took:?} {}", result.as_ref().err().map(ToString::to_string).unwrap_or_default());
    assert!(took < guard(), "{name}: {took:?}");
    if let Err(e) = result {
        let text = e.to_string();
        assert!(!matches!(e.kind(), ErrorKind::Internal(_)) && !text.contains("panic"), "{name}: {text}");
        assert!(text.len() < 3000 && !text.contains(char::is_control), "{name}: {text}");
    }
}

fn nested(depth: usize, around: impl Fn(Value) -> Value) -> Value {
    (0..depth).fold(json!({ "type": "null" }), |inner, _| around(inner))
}

fn schemas() -> Vec<(&'static str, Value)> {
    let many = |n: usize| -> Vec<Value> { (0..n).map(|i| json!({ "const": format!("v{i}") })).collect() };
    let objects = |n: usize, keys: usize| -> Vec<Value> {
        let properties = |i: usize| -> Value {
            (0..keys)
                .map(|k| (format!("k{k}"), json!({ "enum": [i, k, "x"] })))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        (0..n).map(|i| json!({ "type": "object", "properties": properties(i) })).collect()
    };
    let chain: serde_json::Map<String, Value> =
        (0..2000).map(|i| (format!("d{i}"), json!({ "$ref": format!("#/$defs/d{}", i + 1) }))).collect();
    let properties: serde_json::Map<String, Value> =
        (0..100_000).map(|i| (format!("p{i}"), json!(true))).collect();
    vec![
        ("deep items", nested(150, |inner| json!({ "items": inner, "type": "array" }))),
        ("deeper items", nested(400, |inner| json!({ "items": inner }))),
        ("deep anyOf", nested(90, |inner| json!({ "anyOf": [inner, { "type": "string" }] }))),
        ("deep allOf", nested(90, |inner| json!({ "allOf": [inner, true] }))),
        ("deep value", json!({ "const": nested(1000, |inner| json!([inner])) })),
        ("deep not", nested(90, |inner| json!({ "not": inner }))),
        (
            "exponential anyOf",
            json!({ "allOf": (0..12).map(|_| json!({ "anyOf": objects(6, 2) })).collect::<Vec<_>>() }),
        ),
        ("wide product", json!({ "allOf": [{ "anyOf": objects(200, 20) }, { "anyOf": objects(200, 20) }] })),
        ("long enum", json!({ "enum": (0..100_000).collect::<Vec<_>>() })),
        (
            "long enum of texts",
            json!({ "enum": (0..5_000).map(|i| format!("value {i}")).collect::<Vec<_>>() }),
        ),
        ("many alternatives", json!({ "anyOf": many(10_000) })),
        ("many of one", json!({ "oneOf": many(1_000) })),
        ("maxItems", json!({ "type": "array", "maxItems": 1_000_000_000_u64 })),
        ("minItems", json!({ "type": "array", "minItems": 1_000_000_000_u64 })),
        ("some minItems", json!({ "type": "array", "minItems": 10_000, "items": { "enum": ["a", "b"] } })),
        ("nested minItems", nested(5, |inner| json!({ "type": "array", "minItems": 5000, "items": inner }))),
        ("maxLength", json!({ "type": "string", "maxLength": 1_000_000_000_u64 })),
        ("minLength", json!({ "type": "string", "minLength": 1_000_000_000_u64 })),
        (
            "maxProperties",
            json!({ "type": "object", "minProperties": 1_000_000, "maxProperties": 1_000_000_000_u64 }),
        ),
        ("many properties", json!({ "properties": properties })),
        (
            "many required",
            json!({ "type": "object", "required": (0..3000).map(|i| format!("r{i}")).collect::<Vec<_>>() }),
        ),
        ("reference to itself", json!({ "$ref": "#" })),
        (
            "references in circles",
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } } }),
        ),
        (
            "circle of allOf",
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "allOf": [{ "$ref": "#/$defs/a" }, { "type": "object" }] } } }),
        ),
        (
            "endless object",
            json!({ "type": "object", "properties": { "a": { "$ref": "#" } }, "required": ["a"] }),
        ),
        ("long chain of references", json!({ "$ref": "#/$defs/d0", "$defs": chain })),
        ("remote reference", json!({ "$ref": "http://127.0.0.1:1/schema" })),
        ("file reference", json!({ "$ref": "file:///etc/passwd" })),
        ("nested repeats", json!({ "type": "string", "pattern": "^((a{1,1000}){1,1000}){1,1000}$" })),
        ("nested stars", json!({ "type": "string", "pattern": "^(a*)*(a*)*(a*)*b$" })),
        ("look-behind", json!({ "type": "string", "pattern": "(?<!a)b" })),
        ("impossible pattern", json!({ "type": "string", "pattern": "^a$", "minLength": 5 })),
        ("classes", json!({ "type": "string", "pattern": "^[\\p{L}\\p{N}]{1,500}\\p{Greek}+$" })),
        ("exponential pattern", json!({ "type": "string", "pattern": "(a|b)*a(a|b){40}c" })),
        (
            "patterns that meet",
            json!({ "type": "object", "patternProperties": { "(a|b)*a(a|b){30}": true, "(b|a)*b(a|b){30}": false } }),
        ),
        ("numbers", json!({ "type": "number", "multipleOf": 1e-300 })),
        ("multiples", json!({ "type": "integer", "multipleOf": 999_983 })),
        ("false", json!(false)),
        ("no value", json!({ "allOf": [{ "type": "string" }, { "type": "null" }] })),
        ("bounds", json!({ "type": "integer", "minimum": -9.0e15, "maximum": 9.0e15 })),
        ("no integer", json!({ "type": "integer", "minimum": 0.2, "maximum": 0.7 })),
    ]
}

#[test]
fn hostile_schemas_are_refused_or_bounded() {
    let tokenizer = bytes_and_words();
    let vocabulary = vocabulary(tokenizer.as_ref());
    for (name, schema) in schemas() {
        check(&vocabulary, name, || Grammar::json_schema(&schema));
    }
}

#[test]
fn hostile_grammars_are_refused_or_bounded() {
    let tokenizer = bytes_and_words();
    let vocabulary = vocabulary(tokenizer.as_ref());
    let deep = |n: usize| format!("{}\"a\"{}", "(".repeat(n), ")".repeat(n));
    let chain = |n: usize| {
        (0..n).map(|i| format!("r{i}: r{}\n", i + 1)).collect::<String>() + &format!("r{n}: \"a\"\n")
    };
    let words = |n: usize| {
        (0..n).map(|i| format!("W{i}: W{}\n", i + 1)).collect::<String>() + &format!("W{n}: \"a\"\n")
    };
    let lark = [
        ("parentheses", format!("start: {}", deep(60_000))),
        ("fewer parentheses", format!("start: {}", deep(1_000))),
        ("parentheses in a word", format!("start: W\nW: {}", deep(1_000))),
        ("chain of rules", format!("start: r0\n{}", chain(5_000))),
        ("chain of words", format!("start: W0\n{}", words(5_000))),
        ("rule of itself", "start: start".into()),
        ("left recursion", "start: start \"a\" | \"b\"".into()),
        ("ambiguous", "start: start start | \"a\" | \"\"".into()),
        ("repeats", "start: (((\"a\"{1,1000}){1,1000}){1,1000})".into()),
        (
            "many alternatives",
            format!("start: {}", (0..10_000).map(|i| format!("\"w{i}\"")).collect::<Vec<_>>().join(" | ")),
        ),
        ("word of itself", "start: W\nW: \"a\" W".into()),
    ];
    for (name, source) in lark {
        check(&vocabulary, &format!("lark: {name}"), || Grammar::lark(&source));
    }
    let chain = |n: usize| {
        (0..n).map(|i| format!("r{i} ::= r{}\n", i + 1)).collect::<String>() + &format!("r{n} ::= \"a\"\n")
    };
    let gbnf = [
        ("parentheses", format!("root ::= {}", deep(60_000))),
        ("chain", format!("root ::= r0\n{}", chain(1_900))),
        ("too many rules", format!("root ::= r0\n{}", chain(5_000))),
        ("left recursion", "root ::= root \"a\" | \"b\"".into()),
        ("only itself", "root ::= root".into()),
        ("nothing", "root ::= ".into()),
        ("repeats", "root ::= ((\"a\"{1,10000}){1,10000}){1,10000}".into()),
        ("repeats of a rule", "root ::= x{1,10000}\nx ::= \"(\" x \")\" | \"y\"".into()),
        ("repeated repeats", format!("root ::= \"a\"{}", "*".repeat(10_000))),
    ];
    for (name, source) in gbnf {
        check(&vocabulary, &format!("gbnf: {name}"), || Grammar::gbnf(&source));
    }
    let regex = [
        ("nested", "((((a{1,100}){1,100}){1,100}){1,100}){1,100}".to_owned()),
        ("parentheses", format!("{}a{}", "(".repeat(5_000), ")".repeat(5_000))),
        ("alternatives", (0..2_000).map(|i| format!("{i}x*")).collect::<Vec<_>>().join("|")),
        ("exponential", "(a|b)*a(a|b){60}".into()),
        ("anchors", "^a$".into()),
        ("long", "a".repeat(100_000)),
        ("empty", String::new()),
    ];
    for (name, source) in regex {
        check(&vocabulary, &format!("regex: {name}"), || Grammar::regex(&source));
    }
}

fn any_schema() -> impl Strategy<Value = Value> {
    let plain = prop::sample::select(vec![
        json!(true),
        json!(false),
        json!({}),
        json!({ "type": "string" }),
        json!({ "type": ["integer", "null"] }),
        json!({ "const": [1, { "a": null }] }),
        json!({ "enum": ["a", 1, 1.5, null] }),
        json!({ "$ref": "#" }),
        json!({ "$ref": "#/$defs/x" }),
        json!({ "minimum": 2, "maximum": 1 }),
        json!({ "pattern": "^[a-z]+$" }),
        json!({ "type": "string", "format": "date" }),
        json!({ "multipleOf": 0 }),
        json!({ "maxItems": 2 }),
        json!({ "required": ["a"] }),
        json!(7),
        json!({ "minLength": 3, "maxLength": 2 }),
        json!({ "type": "object" }),
    ]);
    plain.prop_recursive(4, 40, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..4);
        let key = prop::sample::select(vec!["anyOf", "oneOf", "allOf", "prefixItems", "items"]);
        let one = prop::sample::select(vec!["items", "additionalProperties", "not", "if", "additionalItems"]);
        let map = prop::sample::select(vec!["properties", "patternProperties", "$defs"]);
        let name = prop::sample::select(vec!["a", "b", "x", "^x", ""]);
        prop_oneof![
            (key, list).prop_map(|(k, v)| json!({ k: v })),
            (one, inner.clone()).prop_map(|(k, v)| json!({ k: v })),
            (map, prop::collection::vec((name, inner.clone()), 0..4))
                .prop_map(|(k, v)| json!({ k: v.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<serde_json::Map<_, _>>() })),
            (inner.clone(), inner).prop_map(|(a, b)| match (a, b) {
                (Value::Object(mut a), Value::Object(b)) => {
                    a.extend(b);
                    Value::Object(a)
                }
                (a, _) => a,
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if emulated() { 10 } else { 150 }))]

    #[test]
    fn any_schema_is_refused_or_followed(schema in any_schema()) {
        let tokenizer = bytes_and_words();
        let vocabulary = vocabulary(tokenizer.as_ref());
        let start = Instant::now();
        if let Err(e) = follow(&vocabulary, Grammar::json_schema(&schema)) {
            prop_assert!(!matches!(e.kind(), ErrorKind::Internal(_)) && !e.to_string().contains("panic"), "{schema}: {e}");
        }
        prop_assert!(start.elapsed() < guard());
    }
}
