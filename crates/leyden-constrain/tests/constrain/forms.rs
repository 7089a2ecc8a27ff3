//! Closed objects, compact JSON, and values that are checked against a schema without a grammar.
use crate::vocabularies::{bytes_and_words, follows, vocabulary};
use leyden_constrain::{CallCheck, Grammar, JsonForm, ToolRules};
use leyden_text::output::{CallBody, CallSyntax};
use serde_json::{Value, json};

const CLOSED: JsonForm = JsonForm { closed: true, compact: false };

fn check(form: JsonForm, schema: &Value, good: &[&str], bad: &[&str]) {
    let grammar = Grammar::json_schema_as(schema, form).unwrap();
    let tokenizer = bytes_and_words();
    let start = vocabulary(tokenizer.as_ref()).compile(&grammar).unwrap().start();
    for text in good {
        assert!(follows(&start, tokenizer.as_ref(), text), "{schema}: {text:?} should be allowed");
    }
    for text in bad {
        assert!(!follows(&start, tokenizer.as_ref(), text), "{schema}: {text:?} should not be allowed");
    }
}

#[test]
fn objects_are_closed_where_the_schema_is_silent() {
    let a = json!({ "type": "object", "properties": { "a": { "type": "integer" } } });
    check(JsonForm::default(), &a, &["{}", r#"{"a":1}"#, r#"{"x":1}"#], &[]);
    check(CLOSED, &a, &["{}", r#"{"a":1}"#], &[r#"{"x":1}"#, r#"{"a":1,"x":1}"#]);
    // At any depth, behind references and in lists.
    let deep = json!({ "type": "object", "properties": { "l": { "type": "array", "items": { "$ref": "#/$defs/p" } } },
        "$defs": { "p": { "type": "object", "properties": { "b": { "type": "null" } } } } });
    check(CLOSED, &deep, &[r#"{"l":[{"b":null},{}]}"#], &[r#"{"l":[{"x":1}]}"#, r#"{"m":1}"#]);
    // What the schema says counts.
    let open = json!({ "type": "object", "properties": { "a": true }, "additionalProperties": true });
    check(CLOSED, &open, &[r#"{"a":1,"x":1}"#], &[]);
    let whole =
        json!({ "type": "object", "properties": { "a": true }, "additionalProperties": { "type": "null" } });
    check(CLOSED, &whole, &[r#"{"x":null}"#], &[r#"{"x":1}"#]);
    let map = json!({ "type": "object", "additionalProperties": { "type": "integer" } });
    check(CLOSED, &map, &[r#"{"x":1}"#], &[r#"{"x":null}"#]);
    // An object of which nothing is named is any.
    for any in [json!({ "type": "object" }), json!({ "type": "object", "properties": {} }), json!({})] {
        check(CLOSED, &any, &[r#"{"x":{"y":1}}"#], &[]);
    }
    check(
        CLOSED,
        &json!({ "type": "object", "patternProperties": { "^x": true } }),
        &[r#"{"xy":1}"#],
        &[r#"{"y":1}"#],
    );
}

#[test]
fn schemas_that_combine_are_closed_together() {
    let both = json!({ "allOf": [
        { "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] },
        { "properties": { "b": { "type": "integer" } }, "required": ["b"] } ] });
    check(CLOSED, &both, &[r#"{"a":1,"b":2}"#], &[r#"{"a":1}"#, r#"{"a":1,"b":2,"c":3}"#]);
    let either = json!({ "type": "object", "properties": { "k": { "type": "string" } }, "anyOf": [
        { "properties": { "a": { "type": "null" } }, "required": ["a"] }, { "required": ["k"] } ] });
    check(CLOSED, &either, &[r#"{"k":"x","a":null}"#, r#"{"k":"x"}"#], &["{}", r#"{"k":"x","z":1}"#]);
    let one = json!({ "oneOf": [
        { "type": "object", "properties": { "k": { "const": "a" } }, "required": ["k"] },
        { "type": "object", "properties": { "k": { "const": "b" }, "n": { "type": "null" } }, "required": ["k"] } ] });
    check(CLOSED, &one, &[r#"{"k":"a"}"#, r#"{"k":"b","n":null}"#], &[r#"{"k":"a","n":null}"#]);
}

/// A closed object that had no value is not made: what must be there may be.
#[test]
fn a_closed_object_keeps_what_it_asks_for() {
    let required = json!({ "type": "object", "properties": { "a": { "type": "null" } }, "required": ["b"] });
    check(CLOSED, &required, &[r#"{"b":1}"#, r#"{"a":null,"b":1}"#], &["{}", r#"{"b":1,"c":1}"#]);
    let many = json!({ "type": "object", "properties": { "a": { "type": "null" } }, "minProperties": 2 });
    check(CLOSED, &many, &[r#"{"a":null,"x":1}"#], &[r#"{"a":null}"#]);
    let absent = json!({ "type": "object", "not": { "required": ["x"] } });
    check(CLOSED, &absent, &[r#"{"y":1}"#], &[r#"{"x":1}"#]);
}

#[test]
fn compact_json_has_one_space_at_most() {
    let schema = json!({ "type": "object", "required": ["a"],
        "properties": { "a": { "type": "array", "items": { "type": "integer" } }, "b": {} } });
    let good = [r#"{"a":[1,2]}"#, r#"{"a": [1, 2], "b": {"x": 1}}"#, r#"{"a":[]}"#];
    let bad =
        ["{ \"a\":[1]}", "{\"a\":[1] }", "{\"a\":\n[1]}", "{\"a\":  [1]}", "{\"a\" :[1]}", "{\"a\":[1 ,2]}"];
    check(JsonForm::CLOSED, &schema, &good, &bad);
    let tokenizer = bytes_and_words();
    let object = Grammar::json_object_as(JsonForm::CLOSED);
    let start = vocabulary(tokenizer.as_ref()).compile(&object).unwrap().start();
    assert!(follows(&start, tokenizer.as_ref(), r#"{"a": [1, {"b":","}]}"#));
    assert!(!follows(&start, tokenizer.as_ref(), "{\n\"a\": 1}"));
}

#[test]
fn arguments_of_tools_are_closed_by_their_form_or_by_strict() {
    let parameters = json!({ "type": "object", "properties": { "a": { "type": "integer" } } });
    let tools = |strict: bool| json!([{ "name": "f", "strict": strict, "parameters": parameters }]);
    let body = CallBody::Object { name: "name".into(), arguments: "arguments".into(), id: None, list: false };
    let syntax = CallSyntax {
        section: Default::default(),
        start: "<call>".into(),
        other_start: None,
        end: "</call>".into(),
        body,
    };
    let tokenizer = bytes_and_words();
    for (strict, form, open) in [
        (false, JsonForm::default(), true),
        (false, JsonForm::CLOSED, false),
        (true, JsonForm::default(), false),
    ] {
        let rules = ToolRules { form, ..ToolRules::default() };
        let grammar = Grammar::tools(&syntax, &tools(strict), None, rules).unwrap();
        let start = vocabulary(tokenizer.as_ref()).compile(&grammar).unwrap().start();
        let call = |arguments| format!("<call>{{\"name\": \"f\", \"arguments\": {arguments}}}</call>");
        assert!(follows(&start, tokenizer.as_ref(), &call(r#"{"a":1}"#)));
        assert_eq!(follows(&start, tokenizer.as_ref(), &call(r#"{"x":1}"#)), open, "{strict} {form:?}");
    }
}

/// A value fits exactly when the grammar of its schema lets it through.
#[test]
fn values_fit_as_grammars_let_them_through() {
    let cases: &[(Value, &[&str], &[&str])] = &[
        (
            json!({ "type": "integer", "minimum": 1, "maximum": 20 }),
            &["1", "20"],
            &["0", "21", "1.5", "\"1\""],
        ),
        (
            json!({ "type": "number", "exclusiveMaximum": 0.3, "multipleOf": 0.1 }),
            &["0.2", "-0.7"],
            &["0.3", "0.15"],
        ),
        (json!({ "type": "integer", "multipleOf": 30 }), &["0", "60", "-90"], &["20", "15"]),
        (json!({ "type": "string", "minLength": 2, "pattern": "^a" }), &["\"ab\""], &["\"a\"", "\"ba\""]),
        (
            json!({ "enum": ["a", 1, null, [1, {"b": 2}]] }),
            &["\"a\"", "1", "null", "[1,{\"b\":2}]"],
            &["\"b\"", "2", "[1]"],
        ),
        (
            json!({ "type": "array", "items": { "type": "integer" }, "minItems": 1, "maxItems": 2 }),
            &["[1]", "[1,2]"],
            &["[]", "[1,2,3]", "[\"a\"]"],
        ),
        (
            json!({ "type": "array", "prefixItems": [{ "type": "null" }], "items": { "type": "boolean" } }),
            &["[null,true]"],
            &["[true]"],
        ),
        (
            json!({ "type": "array", "uniqueItems": true, "items": { "enum": [1, 2] } }),
            &["[1,2]"],
            &["[1,1]"],
        ),
        (
            json!({ "anyOf": [{ "type": "null" }, { "$ref": "#/$defs/t" }], "$defs": { "t": { "type": "object",
            "properties": { "t": { "$ref": "#" } }, "additionalProperties": false } } }),
            &["null", "{\"t\":{\"t\":null}}"],
            &["{\"x\":1}", "{\"t\":1}"],
        ),
        (
            json!({ "type": "object", "minProperties": 1, "maxProperties": 1 }),
            &["{\"a\":1}"],
            &["{}", "{\"a\":1,\"b\":1}"],
        ),
    ];
    for (schema, good, bad) in cases {
        check(JsonForm::default(), schema, good, bad);
        let tool = json!([{ "name": "f", "parameters": { "type": "object", "properties": { "v": schema },
            "required": ["v"], "$defs": schema.get("$defs").cloned().unwrap_or(json!({})) } }]);
        // References go from the root.
        let tool: Value =
            serde_json::from_str(&tool.to_string().replace("\"#\"", "\"#/properties/v\"")).unwrap();
        let checks = CallCheck::new(&tool).unwrap();
        for (text, want) in good.iter().map(|t| (t, true)).chain(bad.iter().map(|t| (t, false))) {
            let value: Value = serde_json::from_str(text).unwrap();
            let Value::Object(arguments) = json!({ "v": value }) else { unreachable!() };
            assert_eq!(checks.fits("f", &arguments), want, "{schema}: {text}");
            assert!(!checks.fits("g", &arguments));
        }
    }
}

#[test]
fn a_tool_without_parameters_takes_none() {
    let checks = CallCheck::new(&json!([{ "name": "now" },
        { "name": "free", "parameters": { "type": "object", "if": { "required": ["a"] }, "then": false } },
        { "name": "s", "strict": true, "parameters": { "type": "object", "properties": { "a": {} } } }]))
    .unwrap();
    let of = |value: Value| value.as_object().unwrap().clone();
    assert!(checks.fits("now", &of(json!({}))) && !checks.fits("now", &of(json!({ "a": 1 }))));
    assert!(checks.fits("free", &of(json!({ "a": 1 }))));
    assert!(checks.fits("s", &of(json!({ "a": 1 }))) && !checks.fits("s", &of(json!({ "b": 1 }))));
    assert!(CallCheck::new(&json!({})).is_err());
}
