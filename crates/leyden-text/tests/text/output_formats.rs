//! Formats detected from real chat templates, and answers in each format, however they are split.
use leyden_testkit::shared;
use leyden_text::ChatTemplate;
use leyden_text::output::{OutputEvent, OutputFormat};
use proptest::prelude::*;
use serde_json::{Value, json};

fn tools() -> Value {
    let tool = |name: &str| {
        let properties = json!({
            "city": { "type": "string" }, "days": { "type": "integer" },
            "note": { "anyOf": [{ "type": "string" }, { "type": "null" }] }, "code": { "type": ["string", "integer"] }
        });
        let parameters = json!({ "type": "object", "properties": properties });
        json!({ "type": "function", "function": { "name": name, "parameters": parameters } })
    };
    json!([tool("weather"), tool("now")])
}

fn format(name: &str) -> Option<OutputFormat> {
    let path = shared(&format!("data/tokenizers/chat_templates/{name}.jinja"))?;
    let source = std::fs::read_to_string(path).unwrap();
    Some(OutputFormat::detect(&ChatTemplate::new(&source, "<s>", "</s>", "t").unwrap()))
}

/// Joined parts of an answer: reasoning, content, and each call as `name(arguments)`, with `…` after an unfinished
/// one.
#[derive(Debug, Default, PartialEq, Eq, Clone)]
struct Answer {
    reasoning: String,
    content: String,
    calls: Vec<String>,
}

fn joined(events: &[OutputEvent]) -> Answer {
    let mut answer = Answer::default();
    let mut whole = 0;
    for event in events {
        match event {
            OutputEvent::Reasoning(text) => answer.reasoning.push_str(text),
            OutputEvent::Content(text) => answer.content.push_str(text),
            OutputEvent::ToolCallStart { index, name, .. } => {
                assert_eq!(*index, answer.calls.len());
                answer.calls.push(format!("{name}("));
            }
            OutputEvent::ToolCallArguments { index, fragment } => answer.calls[*index].push_str(fragment),
            OutputEvent::ToolCallEnd { index } => {
                let call = &mut answer.calls[*index];
                let arguments = &call[call.find('(').unwrap() + 1..];
                assert!(serde_json::from_str::<Value>(arguments).unwrap().is_object(), "{call}");
                call.push(')');
                whole += 1;
            }
            OutputEvent::ToolCallUnfinished { index } => answer.calls[*index].push('…'),
        }
    }
    assert!(whole <= answer.calls.len());
    answer
}

fn parse(format: &OutputFormat, prompt: &str, pieces: &[&str]) -> Answer {
    let mut parser = format.parser(prompt, Some(&tools()));
    let mut events: Vec<OutputEvent> = pieces.iter().flat_map(|piece| parser.push(piece)).collect();
    events.extend(parser.finish());
    joined(&events)
}

/// Template, prompt, answer, and its expected parts.
type Case = (&'static str, &'static str, &'static str, (&'static str, &'static str, &'static [&'static str]));

const CALL: &str = r#"weather({"city": "Oslo", "days": 2})"#;

const CASES: &[Case] = &[
    (
        "Qwen-Qwen2.5-7B-Instruct",
        "",
        "Let me see.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 2}}\n</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
        ("", "Let me see.", &[CALL, "now({})"]),
    ),
    (
        "Qwen-Qwen3-0.6B",
        "<|im_start|>assistant\n",
        "<think>\nHm, 1 < 2.\n</think>\n\nHello <b>you</b>, <tool_call> me.",
        ("Hm, 1 < 2.", "Hello <b>you</b>, <tool_call> me.", &[]),
    ),
    // The prompt has opened the reasoning.
    ("Qwen-QwQ-32B", "<|im_start|>assistant\n<think>\n", "So.</think>Yes.", ("So.", "Yes.", &[])),
    ("Qwen-QwQ-32B", "<|im_start|>assistant\n<think>\n", "never done", ("never done", "", &[])),
    (
        "Qwen3-Coder",
        "",
        "<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>",
        ("", "", &[r#"weather({"city":"Oslo","days":2})"#]),
    ),
    (
        "Qwen3-Coder",
        "",
        "<function=weather>\n<parameter=city>\n12\n</parameter>\n</function>",
        ("", "", &[r#"weather({"city":"12"})"#]),
    ),
    (
        "meta-llama-Llama-3.1-8B-Instruct",
        "",
        "{\"name\": \"weather\", \"parameters\": {\"city\": \"Oslo\", \"days\": 2}}",
        ("", "", &[CALL]),
    ),
    (
        "meta-llama-Llama-3.1-8B-Instruct",
        "",
        "<|python_tag|>{\"name\": \"now\", \"parameters\": {}}",
        ("", "", &["now({})"]),
    ),
    // JSON that is not a call of a known tool.
    (
        "meta-llama-Llama-3.1-8B-Instruct",
        "",
        "{\"name\": \"Ada\", \"parameters\": {\"a\": 1}} is it",
        ("", "{\"name\": \"Ada\", \"parameters\": {\"a\": 1}} is it", &[]),
    ),
    (
        "mistralai-Mistral-Nemo-Instruct-2407",
        "",
        "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 2}, \"id\": \"abc\"}, {\"name\": \"now\", \"arguments\": {}, \"id\": \"d\"}]",
        ("", "", &[CALL, "now({})"]),
    ),
    (
        "unsloth-mistral-Devstral-Small-2507",
        "",
        "[TOOL_CALLS]weather[ARGS]{\"city\": \"Oslo\", \"days\": 2}[TOOL_CALLS]now[ARGS]{}",
        ("", "", &[CALL, "now({})"]),
    ),
    (
        "Mistral-Small-3.2-24B-Instruct-2506",
        "",
        "[TOOL_CALLS]weather[CALL_ID]a1b2c3d4e[ARGS]{\"city\": \"Oslo\", \"days\": 2}",
        ("", "", &[CALL]),
    ),
    (
        "deepseek-ai-DeepSeek-V3.1",
        "<｜Assistant｜></think>",
        "Ja.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": \"Oslo\", \"days\": 2}<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        ("", "Ja.", &[CALL, "now({})"]),
    ),
    (
        "llama-cpp-deepseek-r1",
        "<｜Assistant｜><think>\n",
        "a\n</think>\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\": \"Oslo\", \"days\": 2}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        ("a", "", &[CALL]),
    ),
    (
        "moonshotai-Kimi-K2",
        "",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{\"city\": \"Oslo\", \"days\": 2}<|tool_call_end|><|tool_calls_section_end|>",
        ("", "", &[CALL]),
    ),
    (
        "GLM-4.6",
        "",
        "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
        ("", "", &[r#"weather({"city":"Oslo","days":2})"#]),
    ),
    (
        "openai-gpt-oss-120b",
        "<|start|>assistant",
        "<|channel|>analysis<|message|>Need it.<|end|><|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\": \"Oslo\", \"days\": 2}",
        ("Need it.", "", &[CALL]),
    ),
    (
        "openai-gpt-oss-120b",
        "<|start|>assistant",
        "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>Done < that.",
        ("a", "Done < that.", &[]),
    ),
    ("openai-gpt-oss-120b", "<|start|>assistant", "plain text", ("", "plain text", &[])),
    // Truncated by the end.
    (
        "Qwen-Qwen2.5-7B-Instruct",
        "",
        "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Os",
        ("", "", &["weather({\"city\": \"Os…"]),
    ),
    ("Qwen-Qwen2.5-7B-Instruct", "", "  yes  <tool_c", ("", "  yes  <tool_c", &[])),
    // After a marker, text truncated before a name is known is not content either.
    ("Qwen-Qwen2.5-7B-Instruct", "", "So. <tool_call>\n{\"name\"", ("", "So.", &[])),
    ("Qwen-Qwen2.5-7B-Instruct", "", "<tool_call>\n{\"name\": \"weath", ("", "", &[])),
    ("Qwen-Qwen2.5-7B-Instruct", "", "<tool_call>\n{\"name\": \"weather\"", ("", "", &["weather(…"])),
    ("Qwen3-Coder", "", "<tool_call>\n<function=wea", ("", "", &[])),
    ("GLM-4.6", "", "<tool_call>weather\n<arg_k", ("", "", &[])),
    ("mistralai-Mistral-Nemo-Instruct-2407", "", "[TOOL_CALLS][{\"na", ("", "", &[])),
    ("unsloth-mistral-Devstral-Small-2507", "", "[TOOL_CALLS]weath", ("", "", &[])),
    ("deepseek-ai-DeepSeek-V3.1", "", "Ja.<｜tool▁calls▁begin｜><｜tool▁call▁be", ("", "Ja.", &[])),
    ("meta-llama-Llama-3.1-8B-Instruct", "", "{\"na", ("", "{\"na", &[])),
    ("meta-llama-Llama-3.1-8B-Instruct", "", "<|python_tag|>{\"na", ("", "", &[])),
    (
        "openai-gpt-oss-120b",
        "",
        "<|channel|>commentary to=functions.now<|message|>{\"a\": ",
        ("", "", &["now({\"a\": …"]),
    ),
    (
        "Qwen3-Coder",
        "",
        "<function=weather><parameter=city>\nOslo \"S\"\n</para",
        ("", "", &[r#"weather({"city":"Oslo \"S\"…"#]),
    ),
    (
        "Qwen3-Coder",
        "",
        "<function=weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n12",
        ("", "", &[r#"weather({"city":"Oslo","days":12…"#]),
    ),
    ("Qwen3-Coder", "", "<function=now><parameter=a>wor", ("", "", &[r#"now({"a":"wor…"#])),
    ("Qwen3-Coder", "", "<function=now><parameter=a>[1, tr", ("", "", &[r#"now({"a":[1, tr…"#])),
    (
        "Qwen3-Coder",
        "",
        "<function=now><parameter=a>1</parameter><parameter=wor",
        ("", "", &[r#"now({"a":1,"wor…"#]),
    ),
    ("Qwen3-Coder", "", "<function=now><parameter=a>1</parameter>\n<param", ("", "", &[r#"now({"a":1…"#])),
    // Lists truncated within a call, between two calls and after one.
    (
        "mistralai-Mistral-Nemo-Instruct-2407",
        "",
        "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}, {\"name\": \"weather\", \"arguments\": {\"city\": \"Os",
        ("", "", &["now({})", "weather({\"city\": \"Os…"]),
    ),
    (
        "mistralai-Mistral-Nemo-Instruct-2407",
        "",
        "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}, ",
        ("", "", &["now({})"]),
    ),
    (
        "mistralai-Mistral-Nemo-Instruct-2407",
        "",
        "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}, {\"na",
        ("", "", &["now({})"]),
    ),
    (
        "mistralai-Mistral-Nemo-Instruct-2407",
        "",
        "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}, \"id\": \"12",
        ("", "", &["now({}…"]),
    ),
    // Duplicate keys, kept as in JSON calls.
    (
        "Qwen3-Coder",
        "",
        "<function=now><parameter=a>1</parameter><parameter=a>2</parameter></function>",
        ("", "", &[r#"now({"a":1,"a":2})"#]),
    ),
    // Invalid calls, after which the rest is content.
    (
        "Qwen-Qwen2.5-7B-Instruct",
        "",
        "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": oops}} then",
        ("", "oops}} then", &["now({\"a\": …"]),
    ),
    (
        "Qwen-Qwen2.5-7B-Instruct",
        "",
        "<tool_call>{\"name\": \"now\" oops} then",
        ("", " oops} then", &["now(…"]),
    ),
    (
        "Qwen-Qwen2.5-7B-Instruct",
        "",
        "<tool_call>{\"name\": \"nobody\", \"arguments\": 5} then",
        ("", "<tool_call>{\"name\": \"nobody\", \"arguments\": 5} then", &[]),
    ),
    (
        "mistralai-Mistral-Nemo-Instruct-2407",
        "",
        "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}} and",
        ("", " and", &["now({})"]),
    ),
    // Names after arguments, arguments in a string, no arguments, and unknown members.
    (
        "Qwen-Qwen2.5-7B-Instruct",
        "",
        "<tool_call>{\"arguments\": {\"a\": 1}, \"x\": [1, {}], \"name\": \"now\"}</tool_call>",
        ("", "", &["now({\"a\": 1})"]),
    ),
    (
        "Qwen-Qwen2.5-7B-Instruct",
        "",
        "<tool_call>{\"name\": \"now\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>",
        ("", "", &["now({\"a\": 1})"]),
    ),
    ("Qwen-Qwen2.5-7B-Instruct", "", "<tool_call>{\"name\": \"now\"}</tool_call>", ("", "", &["now({})"])),
    // String values keep text that resembles markers, line breaks and quotation marks.
    (
        "Qwen3-Coder",
        "",
        "<function=weather>\n<parameter=city>\n\na \"b\"\\\n</p> é\n\n</parameter>\n</function>",
        ("", "", &[r#"weather({"city":"\na \"b\"\\\n</p> é\n"})"#]),
    ),
    (
        "Qwen3-Coder",
        "",
        "<function=weather>\n<parameter=city>\n</parameter>\n</function>",
        ("", "", &[r#"weather({"city":""})"#]),
    ),
    // White space of a value is part of it (vLLM's issue 48753), except the line breaks of the format.
    (
        "Qwen3-Coder",
        "",
        "<function=weather>\n<parameter=city>\n  if x:\n    y\n\n</parameter>\n</function>",
        ("", "", &[r#"weather({"city":"  if x:\n    y\n"})"#]),
    ),
    (
        "GLM-4.6",
        "",
        "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>\n  x\n</arg_value>\n</tool_call>",
        ("", "", &[r#"weather({"city":"\n  x\n"})"#]),
    ),
    // If a string or another type is allowed, a value that is not of the other type is the string.
    (
        "Qwen3-Coder",
        "",
        "<function=weather><parameter=note>\n12\n</parameter><parameter=code>\n12\n</parameter><parameter=days>\nmany\n</parameter></function>",
        ("", "", &[r#"weather({"note":"12","code":12,"days":"many"})"#]),
    ),
    (
        "Qwen3-Coder",
        "",
        "<function=weather><parameter=note>null</parameter><parameter=code>true</parameter></function>",
        ("", "", &[r#"weather({"note":null,"code":"true"})"#]),
    ),
    ("Qwen3-Coder", "", "<function=now>\n</function>\n</tool_call>", ("", "", &["now({})"])),
    (
        "openai-gpt-oss-120b",
        "<|start|>assistant",
        "<|channel|>commentary to=functions.now<|message|><|call|>",
        ("", "", &["now({})"]),
    ),
    // Not JSON.
    (
        "Qwen-Qwen3-0.6B",
        "",
        "<tool_call>{see [{\"name\": \"now\"}]",
        ("", "<tool_call>{see [{\"name\": \"now\"}]", &[]),
    ),
    (
        "Qwen-Qwen2.5-7B-Instruct",
        "",
        "<tool_call>{'name': 1}</tool_call>",
        ("", "<tool_call>{'name': 1}</tool_call>", &[]),
    ),
];

#[test]
fn answers_in_every_format_are_read() {
    for (name, prompt, text, (reasoning, content, calls)) in CASES {
        let Some(format) = format(name) else { return };
        let want = Answer {
            reasoning: (*reasoning).into(),
            content: (*content).into(),
            calls: calls.iter().map(|call| (*call).to_owned()).collect(),
        };
        assert_eq!(parse(&format, prompt, &[text]), want, "{name}: {text:?}");
        // Byte by byte, as far as characters allow, and in two pieces at every position.
        let chars: Vec<String> = text.chars().map(String::from).collect();
        let chars: Vec<&str> = chars.iter().map(String::as_str).collect();
        assert_eq!(parse(&format, prompt, &chars), want, "{name}: {text:?}");
        for (at, _) in text.char_indices() {
            assert_eq!(parse(&format, prompt, &[&text[..at], &text[at..]]), want, "{name}: {text:?} at {at}");
        }
    }
}

/// Returns the parts that were output before an answer's last character.
fn early(name: &str, text: &str) -> Option<Answer> {
    let format = format(name)?;
    let mut parser = format.parser("", Some(&tools()));
    let mut events = Vec::new();
    for c in text.chars() {
        events.extend(parser.push(&c.to_string()));
    }
    Some(joined(&events))
}

#[test]
fn calls_are_told_of_while_they_are_written() {
    let cases = [
        ("Qwen-Qwen2.5-7B-Instruct", "<tool_call>\n{\"name\": \"weather\"", "weather("),
        (
            "Qwen-Qwen2.5-7B-Instruct",
            "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"ci",
            "weather({\"ci",
        ),
        (
            "Qwen-Qwen2.5-7B-Instruct",
            "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"O\"}",
            "weather({\"city\": \"O\"}",
        ),
        (
            "meta-llama-Llama-3.1-8B-Instruct",
            "{\"name\": \"weather\", \"parameters\": {\"city",
            "weather({\"city",
        ),
        (
            "mistralai-Mistral-Nemo-Instruct-2407",
            "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": {\"city",
            "weather({\"city",
        ),
        ("unsloth-mistral-Devstral-Small-2507", "[TOOL_CALLS]weather[ARGS]", "weather("),
        (
            "unsloth-mistral-Devstral-Small-2507",
            "[TOOL_CALLS]weather[ARGS]{\"city\": ",
            "weather({\"city\": ",
        ),
        (
            "deepseek-ai-DeepSeek-V3.1",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"ci",
            "weather({\"ci",
        ),
        ("Qwen3-Coder", "<tool_call>\n<function=weather>", "weather({"),
        (
            "Qwen3-Coder",
            "<tool_call>\n<function=weather>\n<parameter=city>\nOslo, \"N",
            "weather({\"city\":\"Oslo, \\\"N",
        ),
        ("Qwen3-Coder", "<tool_call>\n<function=weather>\n<parameter=days>\n1", "weather({\"days\":"),
        ("GLM-4.6", "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Os", "weather({\"city\":\"Os"),
        (
            "openai-gpt-oss-120b",
            "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\": \"O",
            "weather({\"city\": \"O",
        ),
    ];
    for (name, text, want) in cases {
        let Some(answer) = early(name, text) else { return };
        assert_eq!((answer.calls, answer.content.as_str()), (vec![want.to_owned()], ""), "{name}: {text}");
    }
}

#[test]
fn where_a_call_is_required_its_beginning_is_no_content() {
    for (name, text) in [
        ("Qwen-Qwen2.5-7B-Instruct", "<tool_call>\n{\"name\": \"f"),
        ("Qwen-Qwen2.5-7B-Instruct", "<tool_c"),
        ("mistralai-Mistral-Nemo-Instruct-2407", "[TOOL_CALLS][{\"name\""),
        ("mistralai-Mistral-Nemo-Instruct-2407", "[TOOL"),
        ("Qwen3-Coder", "<tool_call>\n<fun"),
        ("Qwen3-Coder", "<tool_"),
        ("meta-llama-Llama-3.1-8B-Instruct", "{\"name\": \"wea"),
        ("GLM-4.6", "<tool_call>weat"),
        ("deepseek-ai-DeepSeek-V3.1", "<｜tool▁calls▁beg"),
    ] {
        let Some(format) = format(name) else { return };
        for required in [true, false] {
            let mut parser = format.parser("", Some(&tools()));
            if required {
                parser = parser.with_call_required();
            }
            let mut events: Vec<OutputEvent> =
                text.chars().flat_map(|c| parser.push(&c.to_string())).collect();
            events.extend(parser.finish());
            let answer = joined(&events);
            assert!(answer.calls.is_empty(), "{name}: {text}");
            // If the model may choose, an incomplete marker may be anything.
            assert!(answer.content.is_empty() || !required && answer.content == text, "{name}: {answer:?}");
        }
    }
}

/// Templates whose calls are not detected: written in Python's notation or one of their own, with the id in place
/// of the name, or only for messages of another structure.
const UNKNOWN: &[&str] = &[
    "Apertus-8B-Instruct",
    "Kimi-K2-Instruct",
    "Kimi-K2-Thinking",
    "MiroThinker",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
    "fireworks-ai-llama-3-firefunction-v2",
    "google-gemma-4-31B-it",
    "google-gemma-4-31B-it-interleaved",
    "meetkai-functionary-medium-v3.2",
];

#[test]
fn most_templates_show_their_calls() {
    let Some(dir) = shared("data/tokenizers/chat_templates") else { return };
    let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    let (mut known, mut unknown) = (0, Vec::new());
    for path in names.iter().filter(|p| p.extension().is_some_and(|e| e == "jinja")) {
        let source = std::fs::read_to_string(path).unwrap();
        let template = ChatTemplate::new(&source, "<s>", "</s>", "t").unwrap();
        let format = OutputFormat::detect(&template);
        if format.calls().is_some() || format.is_harmony() {
            known += 1;
        } else if source.contains("tool_calls") {
            unknown.push(path.file_stem().unwrap().display().to_string());
        }
        if let Some(calls) = format.calls() {
            eprintln!("{}: {calls:?}", path.file_name().unwrap().display());
            assert!(calls.end.len() <= 80 && !calls.start.contains("ACTION|>\""), "{calls:?}");
        }
    }
    eprintln!("{known} known, unknown: {unknown:?}");
    assert!(
        known >= 39 && unknown.iter().all(|name| UNKNOWN.contains(&name.as_str())),
        "{known}; {unknown:?}"
    );
}

#[test]
fn without_tools_nothing_is_a_call() {
    let Some(format) = format("Qwen-Qwen2.5-7B-Instruct") else { return };
    let text = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
    let mut parser = format.parser("", None);
    let mut events = parser.push(text);
    events.extend(parser.finish());
    assert_eq!(joined(&events).content, text);
}

#[test]
fn long_texts_take_bounded_memory_and_linear_time() {
    let Some(format) = format("Qwen3-Coder") else { return };
    let mut parser = format.parser("", Some(&tools()));
    let piece = "<tool_call> <function=weather><parameter=city>".to_owned() + &"x ".repeat(2000);
    let mut events: Vec<OutputEvent> = (0..1000).flat_map(|_| parser.push(&piece)).collect();
    events.extend(parser.finish());
    let size = |event: &OutputEvent| match event {
        OutputEvent::Content(text) | OutputEvent::ToolCallArguments { fragment: text, .. } => text.len(),
        _ => 0,
    };
    let said: usize = events.iter().map(size).sum();
    // A call ends where it is too long, and others begin after that.
    let broken = events.iter().filter(|e| matches!(e, OutputEvent::ToolCallUnfinished { .. })).count();
    assert!(said > 3 << 20 && broken > 2, "{said} {broken}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("LEYDEN_TEST_RUNNER").is_some() { 20 } else { 300 }))]

    /// Any text of markers and words gives the same parts however it is split, and none of it is lost.
    #[test]
    fn cuts_do_not_matter(
        parts in prop::collection::vec(prop::sample::select(vec![
            "<tool_call>", "</tool_call>", "<tool_call", "{\"name\": \"now\", \"arguments\": {\"a\": \"}\"}}", "{", "}",
            " ", "\n", "word", "<think>", "</think>", "<function=now>", "<parameter=a>", "1", "</parameter>",
            "</function>", "[TOOL_CALLS]", "[ARGS]", "now", "[{\"name\": \"now\", \"arguments\": {}}]", "ä",
            "<|channel|>", "analysis", "<|message|>", "<|end|>", "<|start|>assistant", "commentary to=functions.now",
            "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>",
        ]), 0..24),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        which in 0_usize..7,
    ) {
        let names = ["Qwen-Qwen3-0.6B", "Qwen3-Coder", "meta-llama-Llama-3.1-8B-Instruct", "openai-gpt-oss-120b",
            "mistralai-Mistral-Nemo-Instruct-2407", "unsloth-mistral-Devstral-Small-2507", "deepseek-ai-DeepSeek-V3.1"];
        let Some(format) = format(names[which]) else { return Ok(()) };
        let text = parts.concat();
        let mut places: Vec<usize> = cuts.iter().map(|cut| text.floor_char_boundary(cut.index(text.len() + 1))).collect();
        places.extend([0, text.len()]);
        places.sort_unstable();
        let pieces: Vec<&str> = places.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        let whole = parse(&format, "", &[&text]);
        prop_assert_eq!(&parse(&format, "", &pieces), &whole, "{:?}", pieces);
        // Text truncated by the end after a marker may be dropped, so the text continues.
        let whole = parse(&format, "", &[&text, " .!"]);
        let words = |text: &str| text.matches("word").count();
        let kept = words(&whole.content) + words(&whole.reasoning) + whole.calls.iter().map(|c| words(c)).sum::<usize>();
        // Harmony headers are not text.
        if which != 3 {
            prop_assert_eq!(kept, words(&text));
        }
    }
}
