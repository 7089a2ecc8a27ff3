//! `leyden run` with schemas and grammars.

use serde_json::Value;

use crate::program::{Files, leyden};

#[test]
fn answers_follow_schemas_and_grammars() {
    let schema = r#"{"type": "object", "properties": {"n": {"type": "integer", "maximum": 9, "minimum": 1}, "ok": {"type": "boolean"}}, "required": ["n", "ok"], "additionalProperties": false}"#;
    let files = Files::new();
    let file = files.add("s.json", schema.as_bytes());
    for given in [schema, &file] {
        let run = leyden(&["run", "-p", "Once", "--json-schema", given, "--seed", "3"]);
        assert_eq!(run.code, Some(0), "{run:?}");
        let answer: Value = serde_json::from_str(&run.out).unwrap();
        assert!((1..=9).contains(&answer["n"].as_i64().unwrap()) && answer["ok"].is_boolean(), "{answer}");
    }
    // Where the schema says nothing of further properties there are none, and no blanks that JSON does not need.
    let silent = r#"{"type": "object", "properties": {"n": {"type": "integer", "maximum": 9, "minimum": 1}}, "required": ["n"]}"#;
    for seed in ["1", "2", "3"] {
        let run = leyden(&["run", "-p", "Once", "--json-schema", silent, "--seed", seed]);
        let answer: Value = serde_json::from_str(&run.out).unwrap();
        assert!(answer.as_object().unwrap().len() == 1 && run.out.trim().len() <= 8, "{run:?}");
    }
    let open = leyden(&["run", "-p", "Once", "--json-schema", silent, "--open-schemas", "-n", "8"]);
    assert_eq!(open.code, Some(0), "{open:?}");
    let gbnf = files.add("g.gbnf", b"root ::= (\"yes\" | \"no\") \"!\"\n");
    let lark = files.add("g.lark", b"start: /yes|no/ \"!\"\n");
    for grammar in [gbnf, lark] {
        let run = leyden(&["run", "-p", "Once", "--grammar", &grammar]);
        assert!(run.code == Some(0) && ["yes!", "no!"].contains(&run.out.trim()), "{run:?}");
    }
}

#[test]
fn what_cannot_be_followed_is_refused_before_the_model_is_read() {
    let refused = |words: &[&str], what: &str| {
        let run = leyden(&[&["run", "-p", "Once"], words].concat());
        assert!(run.code != Some(0) && run.out.is_empty() && run.err.contains(what), "{run:?}");
    };
    refused(&["--json-schema", r#"{"items": {"uniqueItems": true}}"#], "/items: `uniqueItems`");
    refused(&["--json-schema", "{"], "not JSON");
    refused(&["--json-schema", "/nowhere.json"], "/nowhere.json: cannot read");
    refused(&["--grammar", "/nowhere.gbnf"], "cannot read");
    refused(&["--json-object", "--grammar", "x"], "cannot be used with");
    refused(&["--open-schemas"], "--json-schema");
}
