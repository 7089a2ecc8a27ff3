//! Real schemas: how many compile, and that those which do not are refused with keyword and place.

use std::collections::BTreeMap;
use std::fs;

use leyden_constrain::{Error, ErrorKind, Grammar, Vocabulary};
use serde_json::Value;

/// A keyword and the place of a refusal; `None` for another kind of error.
fn blamed(e: &Error) -> Option<(String, String)> {
    match e.kind() {
        ErrorKind::Schema { pointer, keyword: Some(keyword), .. } => Some((keyword.clone(), pointer.clone())),
        _ => None,
    }
}

#[test]
fn real_schemas_compile_or_are_refused_by_name() {
    let Some(path) = leyden_testkit::shared("data/schemas/jsonschemabench-sample.jsonl") else { return };
    let tokenizer = crate::vocabularies::bytes_and_words();
    let vocabulary = Vocabulary::new(tokenizer.as_ref()).unwrap();
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let step = if leyden_testkit::emulated() { 8 } else { 1 };
    let (mut compiled, mut refused, mut all) = (0, BTreeMap::<String, usize>::new(), 0);
    for line in lines.iter().step_by(step) {
        let row: Value = serde_json::from_str(line).unwrap();
        all += 1;
        match Grammar::json_schema(&row["json"]).and_then(|grammar| vocabulary.compile(&grammar)) {
            Ok(c) => {
                c.start().mask().unwrap();
                compiled += 1;
            }
            Err(e) => {
                let Some((keyword, pointer)) = blamed(&e) else { panic!("{}: {e}", row["name"]) };
                assert!(row["json"].pointer(&pointer).is_some_and(|s| s.get(&keyword).is_some()), "{e}");
                *refused.entry(keyword).or_default() += 1;
            }
        }
    }
    eprintln!("{compiled} of {all} compile; refused: {refused:?}");
    // 300 of 320, counted on 2026-11-27.
    assert!(step > 1 || compiled >= 300, "{compiled} of {all}; {refused:?}");
    assert!(compiled * 10 >= all * 8, "{compiled} of {all}; {refused:?}");
}
