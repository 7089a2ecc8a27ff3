//! Languages: what schemas, expressions, grammars and tool calls let through, and what they do not.
use crate::vocabularies::{bytes_and_words, follows, id, vocabulary};
use leyden_constrain::{ErrorKind, Grammar, JsonForm, ToolRules};
use leyden_text::output::{CallBody, CallSyntax};
use serde_json::{Value, json};

const PARALLEL: ToolRules =
    ToolRules { parallel: true, loose: false, form: JsonForm { closed: false, compact: false } };

fn check(grammar: &Grammar, good: &[&str], bad: &[&str]) {
    let tokenizer = bytes_and_words();
    let compiled = vocabulary(tokenizer.as_ref()).compile(grammar).unwrap();
    let start = compiled.start();
    for text in good {
        assert!(follows(&start, tokenizer.as_ref(), text), "{text:?} should be allowed");
    }
    for text in bad {
        assert!(!follows(&start, tokenizer.as_ref(), text), "{text:?} should not be allowed");
    }
}

fn schema(value: &Value) -> Grammar {
    Grammar::json_schema(value).unwrap()
}

#[test]
fn schemas_let_through_what_they_say() {
    let object = schema(&json!({
        "type": "object",
        "properties": { "name": { "type": "string", "maxLength": 3 }, "n": { "type": "integer", "minimum": 1, "maximum": 20 } },
        "required": ["name"],
        "additionalProperties": false
    }));
    check(
        &object,
        &[r#"{"name":"ab"}"#, r#"{"name": "abc", "n": 12}"#, "{\n  \"name\": \"ä\"\n}"],
        &[
            r#"{"n": 12}"#,
            r#"{"name":"abcd"}"#,
            r#"{"name":"a","n":21}"#,
            r#"{"name":"a","x":1}"#,
            r#"{"name":"a"} x"#,
            "{  \"name\":\"a\"}",
        ],
    );
    check(&Grammar::json_object(), &["{}", r#"{"a": [1, null]}"#], &["[]", "1", ""]);
    let one_of = schema(&json!({ "oneOf": [{ "type": "string" }, { "type": "integer" }] }));
    check(&one_of, &["1", "\"a\""], &["1.5", "null"]);
    let tagged = schema(&json!({ "type": "object", "required": ["k"], "oneOf": [
        { "properties": { "k": { "const": "a" }, "x": { "type": "integer" } }, "required": ["x"] },
        { "properties": { "k": { "const": "b" } } },
    ] }));
    check(&tagged, &[r#"{"k":"a","x":1}"#, r#"{"k":"b"}"#], &[r#"{"k":"a"}"#, r#"{"k":"c"}"#]);
    let either = schema(
        &json!({ "type": "object", "properties": { "a": true, "b": true }, "additionalProperties": false,
        "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] }),
    );
    check(&either, &[r#"{"a":1}"#, r#"{"b":1}"#], &["{}", r#"{"a":1,"b":1}"#]);
    check(&schema(&json!({ "not": { "type": "string" } })), &["1", "null", "[]"], &["\"a\""]);
    let depends = schema(
        &json!({ "type": "object", "properties": { "a": { "type": "null" }, "b": { "type": "null" } },
        "additionalProperties": false, "dependentRequired": { "a": ["b"] } }),
    );
    check(&depends, &["{}", r#"{"b":null}"#, r#"{"a":null,"b":null}"#], &[r#"{"a":null}"#]);
    check(&schema(&json!({ "type": "integer", "format": "int32" })), &["2147483647"], &["2147483648"]);
    let list = json!({ "$defs": { "list": { "type": "object", "properties": { "next": { "$ref": "#/$defs/list" } },
        "additionalProperties": false } }, "$ref": "#/$defs/list" });
    check(&schema(&list), &["{}", r#"{"next":{"next":{}}}"#], &[r#"{"next":1}"#]);
}

#[test]
fn what_is_not_enforced_is_refused_by_name() {
    for (value, pointer, keyword) in [
        (json!({ "type": "array", "uniqueItems": true }), "", "uniqueItems"),
        (json!({ "properties": { "a/b": { "if": true, "then": false } } }), "/properties/a~1b", "if"),
        (json!({ "anyOf": [{ "$ref": "http://example.com/schema.json" }] }), "/anyOf/0", "$ref"),
        (json!({ "$ref": "#/nothing" }), "", "$ref"),
        (json!({ "items": { "type": "string", "format": "iri" } }), "/items", "format"),
        (json!({ "oneOf": [{ "type": "string" }, { "maxLength": 3 }] }), "", "oneOf"),
        (json!({ "x-guidance": { "lenient": true } }), "", "x-guidance"),
        (json!({ "type": "text" }), "", "type"),
        (json!({ "minLength": -1 }), "", "minLength"),
        (json!({ "enum": [] }), "", "enum"),
        (json!({ "const": 1e300 }), "", "const"),
        (
            json!({ "$defs": { "a": { "contains": {} } }, "items": { "$ref": "#/$defs/a" } }),
            "/$defs/a",
            "contains",
        ),
        (
            json!({ "patternProperties": { "^a": { "type": "null" }, "b$": { "type": "string" } }, "type": "object" }),
            "",
            "patternProperties",
        ),
    ] {
        let tokenizer = bytes_and_words();
        let e = Grammar::json_schema(&value)
            .and_then(|g| vocabulary(tokenizer.as_ref()).compile(&g))
            .unwrap_err();
        let ErrorKind::Schema { pointer: p, keyword: Some(k), .. } = e.kind() else { panic!("{value}: {e}") };
        assert_eq!((p.as_str(), k.as_str()), (pointer, keyword), "{e}");
    }
    assert!(Grammar::json_schema(&json!(3)).is_err());
}

#[test]
fn expressions_and_lark() {
    check(&Grammar::regex("(ab|abc)d/[0-9]{2}").unwrap(), &["abd/12", "abcd/00"], &["abd/1", "abd/123", "x"]);
    let lark = "start: \"a\" rest | \"b\"\nrest: /[0-9]+/ \"!\"";
    check(&Grammar::lark(lark).unwrap(), &["b", "a12!"], &["a12", "ab", ""]);
    assert!(Grammar::lark("start: %json {}").is_err());
    let tokenizer = bytes_and_words();
    for bad in ["start: (", "start: nothing", "", "start: /(/"] {
        let e = vocabulary(tokenizer.as_ref()).compile(&Grammar::lark(bad).unwrap()).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Grammar(_)), "{bad:?}: {e:?}");
    }
}

#[test]
fn gbnf_is_followed() {
    let json = r##"
        # JSON as llama.cpp's own example has it, in other words.
        root   ::= object
        value  ::= object | array | string | number | ("true" | "false" | "null") ws
        object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
        array  ::= "[" ws ( value ("," ws value)* )? "]" ws
        string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
        number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ws
        ws ::= | " " | "\n" [ \t]{0,20}
    "##;
    check(
        &Grammar::gbnf(json).unwrap(),
        &["{}", r#"{"a": [1, 2.5, {"b": "\n\u00e4ö"}], "c": true}"#, "{\n  \"a\": null\n}"],
        &["[]", r#"{"a"}"#, r#"{"a": 01}"#, r#"{"a": 1,}"#],
    );
    // Without recursion the longest word does not matter.
    check(
        &Grammar::gbnf("root ::= (\"ab\" \"cd\" | \"abc\" \"x\")\n").unwrap(),
        &["abcd", "abcx"],
        &["abc", "abcdx"],
    );
    check(
        &Grammar::gbnf("root ::= a{2,3} [^\\]a-c] .?\na ::= \"é\" |\n \"\\u4e2d\"").unwrap(),
        &["éédx", "é中éx\n"],
        &["éx", "ééa"],
    );
    check(&Grammar::gbnf("root ::= \"(\" root \")\" | \"x\"").unwrap(), &["x", "((x))"], &["(x", "x)"]);
    for (bad, line, what) in [
        ("root ::= a", 1, "no rule `a`"),
        ("root ::= \"a\"\nroot ::= \"b\"", 2, "twice"),
        ("root ::= \"a", 1, "expected `\"`"),
        ("root ::= (\"a\"\n", 2, "`)`"),
        ("root ::= *", 1, "nothing to repeat"),
        ("root ::= [b-a]", 1, "range"),
        ("\n\nroot ::= <[12]>", 3, "tokens"),
        ("a ::= \"x\"", 1, "no rule `root`"),
        ("root ::= \"\\q\"", 1, "escape"),
    ] {
        let e = Grammar::gbnf(bad).unwrap_err().to_string();
        assert!(e.contains(&format!("line {line}: ")) && e.contains(what), "{bad:?}: {e}");
    }
}

#[test]
fn ends_come_when_a_text_is_whole_and_marks_never() {
    let tokenizer = bytes_and_words();
    let t = tokenizer.as_ref();
    let (eos, mark) = (id(t, "</s>"), id(t, "<|mark|>"));
    let compiled = vocabulary(t).compile(&Grammar::regex("a*(</s>)?").unwrap()).unwrap();
    let mut c = compiled.start();
    assert!(c.may_stop() && c.mask().unwrap().contains(eos) && !c.mask().unwrap().contains(mark));
    c.accept(id(t, "a")).unwrap();
    let mut other = c.clone();
    c.accept(eos).unwrap();
    assert!(c.is_complete());
    assert_eq!(c.mask().unwrap().iter().collect::<Vec<_>>(), [eos]);
    assert!(matches!(other.accept(mark).unwrap_err().kind(), ErrorKind::Token(_)));
    assert!(matches!(other.accept(9_999_999).unwrap_err().kind(), ErrorKind::Token(_)));
    // The text of the end is text.
    for byte in "</s>".chars() {
        other.accept(id(t, &byte.to_string())).unwrap();
    }
    assert!(other.is_complete());

    let object = vocabulary(t).compile(&Grammar::json_object()).unwrap();
    let mut c = object.start();
    assert!(!c.mask().unwrap().contains(eos) && c.accept(eos).is_err());
    c.accept(id(t, "{")).unwrap();
    c.accept(id(t, "}")).unwrap();
    assert!(c.may_stop() && c.mask().unwrap().contains(eos));
}

#[test]
fn what_is_taken_back_was_never_there() {
    let tokenizer = bytes_and_words();
    let t = tokenizer.as_ref();
    let compiled = vocabulary(t).compile(&Grammar::json_object()).unwrap();
    let ids = t.encode(r#"{"name": [12, true], "ab": {"abc": null}}"#, leyden_text::Special::AsText).unwrap();
    for back in 1..ids.len() {
        let mut c = compiled.start();
        let mut masks = Vec::new();
        for id in &ids {
            masks.push(c.mask().unwrap().clone());
            c.accept(*id).unwrap();
        }
        c.rollback(back).unwrap();
        assert_eq!(c.accepted(), ids.len() - back);
        for (id, mask) in ids.iter().zip(&masks).skip(ids.len() - back) {
            assert_eq!(c.mask().unwrap(), mask);
            c.accept(*id).unwrap();
        }
        assert!(c.may_stop());
        c.accept(id(t, "</s>")).unwrap();
        c.rollback(1).unwrap();
        assert!(c.may_stop() && c.rollback(ids.len() + 1).is_err());
        c.rollback(ids.len()).unwrap();
        assert_eq!(c.mask().unwrap(), &masks[0]);
    }
}

fn tools() -> Value {
    json!([
        { "type": "function", "function": { "name": "get", "parameters": { "type": "object",
            "properties": { "city": { "type": "string" }, "n": { "type": "integer" } },
            "required": ["city"], "additionalProperties": false } } },
        { "type": "function", "function": { "name": "now" } },
    ])
}

fn syntax(section: (&str, &str), start: &str, end: &str, body: CallBody) -> CallSyntax {
    CallSyntax {
        section: (section.0.into(), section.1.into()),
        start: start.into(),
        other_start: None,
        end: end.into(),
        body,
    }
}

#[test]
fn tool_calls_are_forced_in_the_models_own_way() {
    let object = |list, id: Option<&str>| CallBody::Object {
        name: "name".into(),
        arguments: "arguments".into(),
        id: id.map(str::to_owned),
        list,
    };
    let hermes = syntax(("", ""), "<tool_call>", "</tool_call>", object(false, None));
    let one = |only, parallel| {
        let rules = ToolRules { parallel, ..ToolRules::default() };
        Grammar::tools(&hermes, &tools(), only, rules).unwrap()
    };
    let get = "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
    let now = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
    check(
        &one(None, false),
        &[get, now],
        &["{}", "hello", &format!("{get}\n{now}"), &get.replace("city", "town")],
    );
    check(&one(None, true), &[&format!("{get}\n{now}")], &[]);
    check(&one(Some("now"), false), &[now], &[get]);
    assert!(Grammar::tools(&hermes, &tools(), Some("other"), ToolRules::default()).is_err());
    let bad = json!([{ "name": "f", "parameters": { "properties": { "a": { "uniqueItems": true } } } }]);
    let e = Grammar::tools(&hermes, &bad, None, ToolRules::default()).unwrap_err().to_string();
    assert!(e.contains("/0/parameters/properties/a: `uniqueItems`"), "{e}");

    let bare = syntax(("", ""), "", "", object(false, None));
    check(
        &Grammar::tools(&bare, &tools(), None, PARALLEL).unwrap(),
        &["{\"name\": \"now\", \"arguments\": {}}"],
        &[get],
    );

    let tagged = CallBody::Tagged {
        separator: ">".into(),
        key_start: "<parameter=".into(),
        key_end: ">".into(),
        value_end: "</parameter>".into(),
        framed: true,
    };
    let coder = syntax(("", ""), "<tool_call>\n<function=", "</function>\n</tool_call>", tagged);
    let call = "<tool_call>\n<function=get>\n<parameter=city>\nOslo\n</parameter>\n<parameter=n>\n2\n</parameter>\n</function>\n</tool_call>";
    check(
        &Grammar::tools(&coder, &tools(), None, ToolRules::default()).unwrap(),
        &[call, "<tool_call>\n<function=now>\n</function>\n</tool_call>"],
        &[&call.replace("\n2\n", "\nx\n"), &call.replace("city", "n")],
    );
}

#[test]
fn a_tool_without_declared_parameters_takes_none() {
    let named =
        CallBody::Object { name: "name".into(), arguments: "arguments".into(), id: None, list: false };
    let syntax = syntax(("", ""), "<tool_call>", "</tool_call>", named);
    let call =
        |arguments: &str| format!("<tool_call>{{\"name\": \"f\", \"arguments\": {arguments}}}</tool_call>");
    let (none, one) = (call("{}"), call("{\"value\": \"123\"}"));
    for tool in [
        json!({ "name": "f" }),
        json!({ "name": "f", "parameters": null }),
        json!({ "name": "f", "parameters": {} }),
        json!({ "name": "f", "parameters": { "type": "object", "properties": {}, "required": [] } }),
        json!({ "name": "f", "strict": true, "parameters": { "type": "object", "additionalProperties": false } }),
    ] {
        let forced = Grammar::tools(&syntax, &json!([tool]), Some("f"), ToolRules::default()).unwrap();
        check(&forced, &[&none], &[&one]);
    }
    for parameters in [
        json!({ "type": "object" }),
        json!({ "type": "object", "properties": {}, "additionalProperties": { "type": "string" } }),
    ] {
        let tools = json!([{ "name": "f", "parameters": parameters }]);
        check(
            &Grammar::tools(&syntax, &tools, Some("f"), ToolRules::default()).unwrap(),
            &[&none, &one],
            &[],
        );
    }
}

#[test]
fn marks_of_a_call_are_the_models_tokens() {
    let tokenizer = bytes_and_words();
    let t = tokenizer.as_ref();
    let named =
        CallBody::Named { separator: "<|mark|>".into(), prefix: String::new(), numbered: false, id: None };
    let syntax = syntax(("", ""), "[CALLS]", "", named);
    let compiled = vocabulary(t)
        .compile(&Grammar::tools(&syntax, &tools(), Some("now"), ToolRules::default()).unwrap())
        .unwrap();
    let mut c = compiled.start();
    assert_eq!(c.mask().unwrap().iter().collect::<Vec<_>>(), [id(t, "[CALLS]")]);
    c.accept(id(t, "[CALLS]")).unwrap();
    for byte in ["n", "o", "w"] {
        c.accept(id(t, byte)).unwrap();
    }
    assert_eq!(c.mask().unwrap().iter().collect::<Vec<_>>(), [id(t, "<|mark|>")]);
    c.accept(id(t, "<|mark|>")).unwrap();
    c.accept(id(t, "{")).unwrap();
    c.accept(id(t, "}")).unwrap();
    assert!(c.may_stop() && c.mask().unwrap().contains(id(t, "</s>")));
}

#[test]
fn no_key_is_written_twice() {
    let counted = schema(&json!({ "type": "object", "minProperties": 2, "maxProperties": 3,
        "additionalProperties": { "type": "integer" } }));
    check(
        &counted,
        &[r#"{"a":1,"b":2}"#, r#"{"a":1,"aa":2,"A":3}"#],
        &[r#"{"a":1,"a":2}"#, r#"{"a":1}"#, r#"{"a":1,"b":2,"a":3}"#, r#"{"a":1,"b":1,"c":1,"d":1}"#],
    );
    let declared = schema(&json!({ "type": "object", "properties": { "a": { "type": "integer" } } }));
    check(&declared, &[r#"{"a":1,"b":"x"}"#, r#"{"b":"x"}"#], &[r#"{"a":1,"a":2}"#, r#"{"a":1,"\u0061":2}"#]);
    let nested = schema(&json!({ "type": "array", "items": { "type": "object" } }));
    check(
        &nested,
        &[r#"[{"a":{"a":1}},{"a":1}]"#],
        &[r#"[{"b":{"a":1,"a":1}}]"#, r#"[{"b":1,"c":{},"b":1}]"#],
    );
    check(&Grammar::json_object(), &[r#"{"a":"a","b":["a","a"]}"#], &[r#"{"a":"a","a":["a","a"]}"#]);
    let arguments = json!([{ "name": "f", "parameters": { "type": "object" } }]);
    let named =
        CallBody::Object { name: "name".into(), arguments: "arguments".into(), id: None, list: false };
    let call = syntax(("", ""), "<tool_call>", "</tool_call>", named);
    let text = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1, \"b\": 2}}</tool_call>";
    check(
        &Grammar::tools(&call, &arguments, None, ToolRules::default()).unwrap(),
        &[text],
        &[&text.replace("\"b\"", "\"a\"")],
    );
}

#[test]
fn texts_follow_patterns_and_formats() {
    let text = |rest: Value| {
        let mut schema = json!({ "type": "string" });
        schema.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        schema
    };
    for (rest, good, bad) in [
        (json!({ "pattern": "^a\"\\\\\\n$" }), vec![r#""a\"\\\n""#], vec![r#""a\"\\""#]),
        (json!({ "pattern": "b" }), vec![r#""abc""#, r#""b""#], vec![r#""ac""#]),
        (json!({ "pattern": "^(ab|c$)" }), vec![r#""abx""#, r#""c""#], vec![r#""cx""#]),
        (json!({ "pattern": "^[^\"]{2}$" }), vec![r#""\\é""#], vec![r#""\"a""#]),
        (
            json!({ "pattern": "^(?=.*\\d)(?=.*[a-z]).{3,4}$" }),
            vec![r#""a1b""#, r#""12ab""#],
            vec![r#""abc""#, r#""a1""#],
        ),
        (
            json!({ "pattern": "^(?!admin$)[a-z]+$" }),
            vec![r#""admins""#, r#""a""#],
            vec![r#""admin""#, r#""1""#],
        ),
        (
            json!({ "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 3 }),
            vec![r#""abc""#],
            vec![r#""a""#, r#""abcd""#],
        ),
        (json!({ "pattern": "^a", "allOf": [{ "pattern": "z$" }] }), vec![r#""abz""#], vec![r#""ab""#]),
        (json!({ "enum": ["abc", "b"], "minLength": 2 }), vec![r#""abc""#], vec![r#""b""#]),
        (
            json!({ "maxLength": 2 }),
            vec![r#""\"\\""#, r#""éé""#, r#""\u001f""#],
            vec![r#""abc""#, r#""\u0061""#],
        ),
        (
            json!({ "format": "ipv4network" }),
            vec![r#""10.0.0.0/8""#, r#""192.168.1.1""#],
            vec![r#""10.0.0.1/8""#],
        ),
        (
            json!({ "format": "ipv6" }),
            vec![r#""::""#, r#""1::2""#, r#""::ffff""#],
            vec![r#""1::2::3""#, r#"":1""#],
        ),
        (
            json!({ "format": "uri-reference" }),
            vec![r#""/a/b?c#d""#, r#""http://a.b/c""#, r#""""#],
            vec![r#""a b""#],
        ),
        (json!({ "format": "path" }), vec![r#""a/b c""#], vec![]),
        (json!({ "format": "password" }), vec![r#""x""#], vec![]),
        (json!({ "format": "date" }), vec![r#""2024-02-29""#], vec![r#""2024-02-30""#, r#""2024-13-01""#]),
        (json!({ "format": "regex" }), vec![r#""^[a-z]+(b|c)?\\d$""#], vec![r#""(""#, r#""[""#, r#""*a""#]),
    ] {
        check(&schema(&text(rest)), &good, &bad);
    }
}

#[test]
fn properties_are_counted_and_told_apart_by_pattern() {
    let counted = json!({ "type": "object", "properties": { "a": { "const": 1 }, "b": { "const": 2 }, "c": { "const": 3 } },
        "additionalProperties": false, "minProperties": 1, "maxProperties": 2 });
    check(
        &schema(&counted),
        &[r#"{"a":1}"#, r#"{"c":3}"#, r#"{"a":1,"c":3}"#, r#"{"b":2,"c":3}"#],
        &["{}", r#"{"a":1,"b":2,"c":3}"#, r#"{"b":2,"a":1}"#],
    );
    let mixed = json!({ "type": "object", "properties": { "a": { "const": 1 } }, "required": ["b"],
        "additionalProperties": { "type": "null" }, "minProperties": 3, "maxProperties": 4 });
    check(
        &schema(&mixed),
        &[r#"{"a":1,"b":null,"x":null}"#, r#"{"b":null,"x":null,"y":null,"z":null}"#],
        &[r#"{"a":1,"b":null}"#, r#"{"a":1,"b":null,"x":null,"y":null,"z":null}"#],
    );
    let patterns = json!({ "type": "object", "properties": { "x_a": { "minimum": 5 } },
        "patternProperties": { "^x_": { "type": "integer" }, "^(k|l)$": { "type": "null" } }, "additionalProperties": false });
    check(
        &schema(&patterns),
        &[r#"{"x_a":5}"#, r#"{"x_b":1,"x_c":2}"#, r#"{"k":null,"l":null}"#],
        &[r#"{"x_a":4}"#, r#"{"x_b":null}"#, r#"{"y":1}"#, r#"{"k":null,"k":null}"#, r#"{"x_b":1,"x_b":2}"#],
    );
    // Members of a set of constants, as in the schema of a set of an enumeration.
    let set = json!({ "type": "array", "uniqueItems": true, "items": { "enum": ["a", "b", 1] }, "minItems": 1, "maxItems": 2 });
    check(&schema(&set), &[r#"["a"]"#, r#"["a","b"]"#], &["[]", r#"["a","a"]"#, r#"["c"]"#]);
}

#[test]
fn texts_between_tags_keep_their_limits() {
    let parameters = json!({ "type": "object", "required": ["city"], "additionalProperties": false, "properties": {
        "city": { "type": "string", "maxLength": 5 },
        "code": { "type": "string", "pattern": "^[A-Z]{2}$" },
        "day": { "type": "string", "format": "date" },
        "n": { "type": "integer", "minimum": 1, "maximum": 9 },
        "kind": { "type": "string", "enum": ["a", "b"] },
    } });
    let tools = json!([{ "name": "get", "parameters": parameters }]);
    let tagged = |separator: &str, start: &str, end: &str, close: &str, framed: bool| CallBody::Tagged {
        separator: separator.into(),
        key_start: start.into(),
        key_end: end.into(),
        value_end: close.into(),
        framed,
    };
    let coder = syntax(
        ("", ""),
        "<tool_call>\n<function=",
        "</function>\n</tool_call>",
        tagged(">", "<parameter=", ">", "</parameter>", true),
    );
    let call = |key: &str, value: &str| {
        let city =
            if key == "city" { String::new() } else { "<parameter=city>\nOslo\n</parameter>\n".into() };
        format!(
            "<tool_call>\n<function=get>\n{city}<parameter={key}>\n{value}\n</parameter>\n</function>\n</tool_call>"
        )
    };
    let good = [
        ("city", "Oslo"),
        ("city", ""),
        ("city", "a\"<\\b"),
        ("code", "NO"),
        ("day", "2024-02-01"),
        ("n", "3"),
        ("kind", "b"),
    ];
    let bad = [
        ("city", "Bergen"),
        ("city", "a\n\nbcd"),
        ("code", "no"),
        ("code", "NOR"),
        ("day", "today"),
        ("n", "10"),
        ("kind", "c"),
        ("kind", "\nb"),
    ];
    let grammar = Grammar::tools(&coder, &tools, None, ToolRules::default()).unwrap();
    for (key, value) in good {
        check(&grammar, &[&call(key, value)], &[]);
    }
    for (key, value) in bad {
        check(&grammar, &[], &[&call(key, value)]);
    }
    // As GLM writes them, without line breaks, and with marks that are tokens.
    let body = tagged("", "<arg_key>", "</arg_key>\n<arg_value>", "<|mark|>", false);
    let glm = syntax(("", ""), "<tool_call>", "</tool_call>", body);
    let tokenizer = bytes_and_words();
    let compiled = vocabulary(tokenizer.as_ref())
        .compile(&Grammar::tools(&glm, &tools, None, ToolRules::default()).unwrap())
        .unwrap();
    let write = |value: &str| {
        let mut c = compiled.start();
        for byte in format!("<tool_call>get<arg_key>city</arg_key>\n<arg_value>{value}").bytes() {
            c.accept(id(tokenizer.as_ref(), std::str::from_utf8(&[byte]).unwrap())).ok()?;
        }
        c.accept(id(tokenizer.as_ref(), "<|mark|>")).ok()
    };
    assert!(write("Oslo").is_some() && write("\nOslo").is_some()); // A line break counts.
    assert!(write("\nOslo\n").is_none() && write("Bergen").is_none());
}

#[test]
fn no_item_of_a_set_is_written_twice() {
    let set = |items: Value| json!({ "type": "array", "uniqueItems": true, "items": items });
    for (value, good, bad) in [
        (
            set(json!({ "type": "string" })),
            vec![r#"["a", "b"]"#, r#"["a","aa","A"]"#, "[]"],
            vec![r#"["a","a"]"#, r#"["a","b", "a"]"#, r#"["",""]"#],
        ),
        (
            set(json!({ "type": "integer", "minimum": 0 })),
            vec!["[1,2,12]", "[0, 10]"],
            vec!["[1,1]", "[1, 2, 1]", "[0,0]", "[12,1,12]"],
        ),
        (
            set(json!({ "type": "number" })),
            vec!["[1,1.5,-1]"],
            vec!["[1,1.0]", "[1.5,1.50]", "[0,-0]", "[10,1e1]"],
        ),
        (
            set(json!({ "type": ["string", "integer", "null"] })),
            vec![r#"["1",1,null]"#, r#"["null",null]"#],
            vec!["[null,null]", r#"[1,"x",1]"#],
        ),
        (
            json!({ "type": "object", "properties": { "tags": set(json!({ "$ref": "#/$defs/tag" })), "list": {
                "type": "array", "items": { "type": "string" } }, "more": { "$ref": "#" } },
                "additionalProperties": false, "$defs": { "tag": { "type": "string", "minLength": 1 } } }),
            vec![r#"{"tags":["a","b"],"list":["a","a"],"more":{"tags":["a"]}}"#],
            vec![r#"{"tags":["a","a"]}"#, r#"{"more":{"more":{"tags":["b","b"]}}}"#],
        ),
    ] {
        check(&schema(&value), &good, &bad);
    }
    for items in [
        json!({}),
        json!({ "type": "integer", "maximum": 9 }),
        json!({ "type": "string", "maxLength": 20 }),
        json!({ "type": "string", "format": "date" }),
    ] {
        let e = Grammar::json_schema(&json!({ "properties": { "a": set(items) } })).unwrap_err().to_string();
        assert!(e.contains("/properties/a: `uniqueItems`"), "{e}");
    }
}
