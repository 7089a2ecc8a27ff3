//! Renderings of real templates, compared with Python's jinja2 (see `data/chat_golden.py`).
use leyden_testkit::shared;
use std::time::{Duration, SystemTime};

use leyden_tensor::{Gguf, WeightSource};
use leyden_text::{ChatTemplate, ErrorKind, RenderOptions, Rendered};
use serde_json::{Map, Value};

/// Templates with which Python fails on some cases, but we do not, with the reason.
const MORE_THAN_PYTHON: &[(&str, &str)] = &[
    ("llama-cpp-deepseek-r1.jinja", "`map` gives a generator in Python, which `tojson` refuses; a list here"),
    ("deepseek-ai-DeepSeek-V3.2.jinja", "`from_json` is a filter of llama.cpp's, which Jinja lacks"),
    ("deepseek-ai-DeepSeek-V4.jinja", "`from_json` is a filter of llama.cpp's, which Jinja lacks"),
];

fn data(name: &str) -> Value {
    let path = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The templates of the shared data, and the one that a vocabulary file brings.
fn source(name: &str) -> Option<String> {
    if name != "chatml" {
        return Some(
            std::fs::read_to_string(shared(&format!("data/tokenizers/chat_templates/{name}"))?).unwrap(),
        );
    }
    let gguf = Gguf::open(&shared("data/tokenizers/ggml-vocab/ggml-vocab-qwen2.gguf")?).unwrap();
    Some(gguf.metadata().str("tokenizer.chat_template").unwrap().to_string())
}

fn render(source: &str, case: &Value) -> Result<String, leyden_text::Error> {
    let mut extra = case.get("variables").and_then(Value::as_object).cloned().unwrap_or_else(Map::new);
    let options = RenderOptions {
        add_generation_prompt: case.get("add_generation_prompt").is_some_and(|flag| flag == true),
        tools: extra.remove("tools"),
        extra,
        // 2026-11-21 10:30
        now: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_257_000)),
        ..RenderOptions::default()
    };
    ChatTemplate::new(source, "<|bos|>", "<|eos|>", "t")?
        .render_json(&case["messages"], &options)
        .map(Rendered::into_text)
}

fn fnv1a(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    format!("{hash:016x}")
}

#[test]
fn renderings_equal_those_of_jinja2() {
    let (cases, golden) = (data("chat_cases.json"), data("chat_golden.json"));
    let (mut same, mut more, mut failures) = (0, 0, Vec::new());
    for (name, renderings) in golden["renderings"].as_object().unwrap() {
        let Some(source) = source(name) else { return };
        for (case, want) in renderings.as_object().unwrap() {
            let rendered = render(&source, &cases[case]);
            let got = match &rendered {
                Ok(text) => fnv1a(text),
                Err(error) => match error.kind() {
                    ErrorKind::TemplateRaised(message) => format!("raised: {message}"),
                    _ => "error".into(),
                },
            };
            if got == *want {
                same += 1;
            } else if want == "error" && rendered.is_ok() && MORE_THAN_PYTHON.iter().any(|(t, _)| t == name) {
                more += 1;
            } else {
                failures.push(format!("{name}: {case}: want {want}, got {got}: {rendered:?}"));
            }
        }
    }
    eprintln!("{same} renderings equal, {more} more than Python gives");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn whole_texts_equal_those_of_jinja2() {
    let (cases, full) = (data("chat_cases.json"), data("chat_full.json"));
    for (name, renderings) in full["renderings"].as_object().unwrap() {
        let Some(source) = source(name) else { return };
        for (case, want) in renderings.as_object().unwrap() {
            let got = render(&source, &cases[case]).unwrap();
            assert_eq!(got, want.as_str().unwrap(), "{name}: {case}");
        }
    }
}

/// Short templates that give something else than with Python, with the reason.
const SNIPPET_DIFFERENCES: &[(&str, &str)] = &[
    ("{{ s.upper }}", "printing a function is an error; Python prints an address"),
    ("{{ d.items }}", "printing a function is an error; Python prints an address"),
    ("{{ d['items'] }}", "printing a function is an error; Python prints an address"),
    ("{{ 1.5.real }}", "numbers have no attributes"),
    ("{{ 'ǆ'.title() }}", "upper case stands for title case, which differs for a few digraphs"),
    ("{{ 'ﬁ' | capitalize }}", "upper case stands for title case, which differs for a few digraphs"),
    ("{% if false %}{{ 1 | nope }}{% endif %}", "what is not there is refused when the model is loaded"),
    ("{{ l | random is defined }}", "rendering is deterministic"),
    ("{{ lipsum() }}", "rendering is deterministic"),
    ("{{ d | pprint }}", "it is a debugging aid"),
    ("{% for loop in l %}{{ loop }}{% endfor %}", "the name is not refused"),
];

#[test]
fn snippets_equal_those_of_jinja2() {
    let (snippets, golden) = (data("jinja_snippets.json"), data("jinja_golden.json"));
    let case = serde_json::json!({
        "messages": [{"role": "user", "content": "Hi"}],
        "variables": {"s": "hello", "l": [1, 2, 3], "d": {"a": 1, "b": {"c": [{"d": 4}]}}},
    });
    let mut failures = Vec::new();
    for (snippet, want) in snippets.as_array().unwrap().iter().zip(golden["renderings"].as_array().unwrap()) {
        let snippet = snippet.as_str().unwrap();
        let got = render(snippet, &case);
        if got.as_deref().ok() != want.as_str() && !SNIPPET_DIFFERENCES.iter().any(|(s, _)| *s == snippet) {
            let got = got.map_err(|error| error.to_string());
            failures.push(format!("{snippet:?}: want {want}, got {got:?}"));
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}

/// Missing filters, tests and functions are errors at load, with name and line.
#[test]
fn what_is_not_there_is_refused_at_load() {
    for (source, want) in [
        ("a\n{{ 1 | nope }}", "line 2: there is no filter \"nope\""),
        ("{% if messages %}\n\n{{ messages | nope(1) }}{% endif %}", "line 3: there is no filter \"nope\""),
        ("{{ messages | map('nope') }}", "line 1: there is no filter \"nope\""),
        ("{% filter nope %}{% endfilter %}", "line 1: there is no filter \"nope\""),
        ("{{ messages is nope }}", "line 1: there is no test \"nope\""),
        ("{{ messages | selectattr('a', 'nope') }}", "line 1: there is no test \"nope\""),
        ("{% for m in messages %}\n{{ nope(m) }}{% endfor %}", "line 2: there is no function \"nope\""),
        ("{{ messages | random }}", "there is no filter \"random\": rendering is deterministic"),
        ("{{ lipsum() }}", "there is no function \"lipsum\""),
        ("{% include 'x' %}", "`include` needs another template"),
        ("{% call m %}{% endcall %}", "`call` needs a call"),
    ] {
        let error = ChatTemplate::new(source, "", "", "m.gguf").unwrap_err().to_string();
        assert!(
            error.starts_with("m.gguf: tokenizer.chat_template: ") && error.contains(want),
            "{source}: {error}"
        );
    }
    for source in [
        "{% if nope is defined %}{{ nope() }}{% endif %}",
        "{% if 'nope' is filter %}{{ 1 | nope }}{% endif %}",
        "{% macro m() %}{% endmacro %}{{ m() }}{% set f = m %}{{ f() }}",
        "{% for f in [range] %}{{ f(2) }}{% endfor %}",
    ] {
        assert!(ChatTemplate::new(source, "", "", "t").is_ok(), "{source}");
    }
}

/// The template for conversations with tools is used when there are some, and the default one otherwise.
#[test]
fn tools_choose_their_template() {
    let template = ChatTemplate::new("plain {{ (tools or []) | length }}", "", "", "t").unwrap();
    let template = template.with_tool_use("tools {{ tools | length }}").unwrap();
    let render = |tools: Option<Value>| {
        let options = RenderOptions { tools, ..RenderOptions::default() };
        template.render(&[], &options).unwrap().into_text()
    };
    let tool = serde_json::json!([{ "type": "function", "function": { "name": "f" } }]);
    assert_eq!(
        [render(Some(tool)), render(Some(serde_json::json!([]))), render(None)],
        ["tools 1", "plain 0", "plain 0"]
    );
    assert_eq!(
        (template.source(), template.tool_use_source()),
        ("plain {{ (tools or []) | length }}", Some("tools {{ tools | length }}"))
    );
    let error = ChatTemplate::new("", "", "", "m")
        .unwrap()
        .with_tool_use("\n{{ 1 | nope }}")
        .unwrap_err()
        .to_string();
    assert_eq!(error, "m: tokenizer.chat_template.tool_use: line 2: there is no filter \"nope\"");
}
