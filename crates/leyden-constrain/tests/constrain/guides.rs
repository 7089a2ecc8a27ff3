//! Answers that are free until a call of a tool begins, byte by byte.
use crate::vocabularies::{bytes_and_words, follows, id, vocabulary};
use leyden_constrain::{Grammar, Guide, JsonForm, ToolRules};
use leyden_text::output::{CallSyntax, CallWatch, OutputFormat};
use leyden_text::{ChatTemplate, Special, Tokenizer};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

const PARALLEL: ToolRules =
    ToolRules { parallel: true, loose: false, form: JsonForm { closed: false, compact: false } };

const NAMED: &str = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls or [] %}\
    <call>{{ c.function.name }}<sep>{{ c.function.arguments | tojson }}</call>{% endfor %}[end]\n{% endfor %}";
const BARE: &str = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in (m.tool_calls or [])[:1] %}\
    {{ {'name': c.function.name, 'parameters': c.function.arguments} | tojson }}{% endfor %}[end]\n{% endfor %}";
const HARMONY: &str = "<|channel|>analysis<|message|>";

fn tools() -> Value {
    let city = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"],
        "additionalProperties": false });
    let unique = json!({ "type": "object", "properties": { "a": { "type": "array", "uniqueItems": true } } });
    json!([{ "name": "get", "parameters": city }, { "name": "now" }, { "name": "free", "parameters": unique }])
}

fn format(template: &str) -> OutputFormat {
    OutputFormat::detect(&ChatTemplate::new(template, "", "", "t").unwrap())
}

fn guide(tokenizer: &dyn Tokenizer, template: &str, once: bool) -> Guide {
    let format = format(template);
    let grammar = Grammar::opened_tools(format.calls(), &tools(), PARALLEL).unwrap();
    let names = ["get", "now", "free"].map(str::to_owned);
    let watch = CallWatch::new(&format, "", &names);
    Guide::new(Arc::new(vocabulary(tokenizer).compile(&grammar).unwrap()), watch, once).unwrap()
}

/// Says a text. How much of it is allowed, how much of that a grammar decided, and whether the answer ended.
fn say(guide: &mut Guide, tokenizer: &dyn Tokenizer, text: &str) -> (String, String, bool) {
    let (mut said, mut bound) = (String::new(), String::new());
    for token in tokenizer.encode(text, Special::AsText).unwrap() {
        let bytes = tokenizer.token_bytes(token).unwrap();
        let piece = std::str::from_utf8(bytes).unwrap();
        let allowed = match guide.constraint() {
            Some(constraint) => {
                let allowed = constraint.mask().unwrap().contains(token);
                bound += if allowed { piece } else { "" };
                allowed
            }
            None => !guide.refuses(bytes, false),
        };
        if !allowed {
            break;
        }
        said += piece;
        if guide.accept(token, bytes).unwrap() {
            return (said, bound, true);
        }
    }
    (said, bound, false)
}

#[test]
fn text_is_free_and_calls_are_not() {
    let tokenizer = bytes_and_words();
    let t = tokenizer.as_ref();
    let text = "So <sep>{}: <call>now<sep>{}</call> and <call>get<sep>{\"city\": \"a\"}</call> then </call>.";
    let (said, bound, ended) = say(&mut guide(t, NAMED, false), t, text);
    assert_eq!((said.as_str(), ended), (text, false));
    assert_eq!(bound, "now<sep>{}</call>get<sep>{\"city\": \"a\"}</call>");
    let end = text.find(" and").unwrap();
    assert_eq!(
        say(&mut guide(t, NAMED, true), t, text),
        (text[..end].into(), "now<sep>{}</call>".into(), true)
    );
    for (wrong, behind) in [
        ("<call>nobody<sep>", "<call>no"),
        ("<call>get<sep>{\"town\": 1}", "<call>get<sep>{\""),
        ("<call> now", "<call>"),
    ] {
        assert_eq!(say(&mut guide(t, NAMED, false), t, wrong).0, behind);
    }
    // A schema that cannot be enforced leaves its own arguments free, and no others.
    let free = "<call>free<sep>{\"x\": [1, 1]}</call>";
    assert_eq!(say(&mut guide(t, NAMED, false), t, free).0, free);
    let mut strict = tools();
    strict[2]["strict"] = true.into();
    let format = format(NAMED);
    let refused = Grammar::opened_tools(format.calls(), &strict, PARALLEL).unwrap_err().to_string();
    assert!(refused.contains("/2/parameters/properties/a: `uniqueItems`"), "{refused}");
    let loose =
        Grammar::opened_tools(format.calls(), &tools(), ToolRules { loose: true, ..PARALLEL }).unwrap();
    let watch = CallWatch::new(&format, "", &[]);
    let mut loose = Guide::new(Arc::new(vocabulary(t).compile(&loose).unwrap()), watch, false).unwrap();
    let other = "<call>get<sep>{\"town\": 1}</call>";
    assert_eq!(say(&mut loose, t, other).0, other);
}

#[test]
fn a_token_that_opens_a_call_must_go_on_with_one() {
    let tokenizer = bytes_and_words();
    let t = tokenizer.as_ref();
    let mut guide = guide(t, NAMED, false);
    assert_eq!(say(&mut guide, t, "a <call").0, "a <call");
    assert!(guide.refuses(b">x", false) && !guide.refuses(b">now", false) && !guide.refuses(b"x", false));
    let mask = guide.allowed(|id| (Cow::Borrowed(t.token_bytes(id).unwrap()), t.is_end(id)));
    assert!(!mask.contains(id(t, ">x")) && mask.contains(id(t, ">now")) && mask.contains(id(t, "x")));
    assert_eq!(mask.len(), t.vocab_size() - 1);
    assert!(guide.clone().accept(id(t, ">x"), b">x").is_err());
    guide.accept(id(t, ">now"), b">now").unwrap();
    assert!(guide.constraint().unwrap().mask().unwrap().iter().eq([id(t, "<")]));
}

#[test]
fn a_bare_call_is_one_from_the_name_of_a_tool_on() {
    let tokenizer = bytes_and_words();
    let t = tokenizer.as_ref();
    for (text, allowed, bound) in [
        ("{\"name\":\"now\", \"parameters\": {}} x", "{\"name\":\"now\", \"parameters\": {}} x", 19),
        ("{\"name\": \"get\", \"parameters\": {\"town\"", "{\"name\": \"get\", \"parameters\": {\"", 18),
        ("{\"name\": \"Ada\", \"age\": 36}", "{\"name\": \"Ada\", \"age\": 36}", 0),
        ("As {\"name\": \"get\", \"x\"", "As {\"name\": \"get\", \"x\"", 0),
    ] {
        let said = say(&mut guide(t, BARE, false), t, text);
        assert_eq!((said.0.as_str(), said.1.len()), (allowed, bound), "{text}");
    }
}

#[test]
fn harmony_thinks_and_then_calls() {
    let tokenizer = bytes_and_words();
    let t = tokenizer.as_ref();
    assert!(format(HARMONY).is_harmony());
    let mut tools = tools();
    tools.as_array_mut().unwrap().pop();
    let required = |only| {
        let grammar = Grammar::harmony_tools(&tools, only, JsonForm::default()).unwrap();
        Guide::harmony(Arc::new(vocabulary(t).compile(&grammar).unwrap())).unwrap()
    };
    let think = "<|channel|>analysis<|message|>now or get <|end|><|start|>assistant";
    let call = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>";
    for whole in [call.to_owned(), format!("{think}{call}"), call.replace(" <|constrain|>json", "")] {
        assert_eq!(
            say(&mut required(None), t, &whole),
            (whole.clone(), say(&mut required(None), t, &whole).1, true)
        );
        let get = say(&mut required(Some("get")), t, &whole);
        assert!(get.0.ends_with("functions.") && !get.2, "{get:?}");
    }
    let mut thinks = required(None);
    assert_eq!(say(&mut thinks, t, &think[..45]).1, "<|channel|>analysis<|message|>");
    assert!(thinks.refuses(b"</s>", true), "the answer ends with a call");
    assert_eq!(say(&mut required(None), t, "<|channel|>final<|message|>").0, "<|channel|>");
    // Where the model decides, its own headers open a call.
    let auto =
        format!("{think} to=functions.get<|channel|>commentary json<|message|>{{\"city\": \"a\"}}<|call|>");
    let mut opened = guide(t, HARMONY, true);
    let said = say(&mut opened, t, &auto);
    assert_eq!((said.0.as_str(), said.2), (auto.as_str(), true));
    assert!(said.1.starts_with("get<|channel|>"), "{}", said.1);
    let plain = "<|channel|>final<|message|>to=functions.x";
    assert_eq!(say(&mut guide(t, HARMONY, true), t, plain), (plain.into(), String::new(), false));
}

#[test]
fn a_call_or_an_answer_with_a_form() {
    let tokenizer = bytes_and_words();
    let t = tokenizer.as_ref();
    let content =
        Grammar::json_schema(&json!({ "type": "object", "properties": { "sum": { "type": "integer" } },
        "required": ["sum"], "additionalProperties": false }))
        .unwrap();
    let answer = "{\"sum\": 3}";
    let call = "<call>get<sep>{\"city\": \"a\"}</call>";
    let wrong = ["<call>get<sep>{\"town\": 1}</call>", "{\"sum\": \"x\"}", "Sum", "{\"sum\": 3} <call>"];
    let or = |syntax: Option<&CallSyntax>| {
        Grammar::tools_or(&content, syntax, &tools(), ToolRules::default()).unwrap()
    };
    let named = format(NAMED);
    let compiled = vocabulary(t).compile(&or(named.calls())).unwrap();
    for text in [answer, call] {
        assert!(follows(&compiled.start(), t, text), "{text}");
    }
    for text in wrong {
        assert!(!follows(&compiled.start(), t, text), "{text}");
    }
    // In harmony the answer is a message in the channel `final`, and thinking may come first.
    let think = "<|channel|>analysis<|message|>now <|end|><|start|>assistant";
    let last = format!("<|channel|>final<|message|>{answer}");
    let called = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>";
    let compiled = Arc::new(vocabulary(t).compile(&or(None)).unwrap());
    for text in [last.clone(), format!("{think}{last}"), called.into(), format!("{think}{called}")] {
        let mut guide = Guide::harmony(Arc::clone(&compiled)).unwrap();
        let said = say(&mut guide, t, &text);
        assert_eq!((said.0.as_str(), said.2), (text.as_str(), true), "{text}");
    }
    let other = last.replace("sum", "town");
    assert_eq!(say(&mut Guide::harmony(compiled).unwrap(), t, &other).0, "<|channel|>final<|message|>{\"");
    // Only JSON can stand beside calls.
    assert!(Grammar::tools_or(&Grammar::regex("a").unwrap(), None, &tools(), ToolRules::default()).is_err());
}
