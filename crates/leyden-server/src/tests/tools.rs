//! Tools and reasoning, with a template that has them.

use super::{CHAT, Lines, ask, events, model, post, request, run, whole, worker_options};
use crate::app::App;
use crate::log::{Log, LogFormat};
use crate::{Model, ServerOptions};
use leyden_text::ChatTemplate;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// As Qwen's templates write it.
pub(super) const THINKS: &str = "{% if tools %}tools: {{ tools | tojson }}\n{% endif %}\
    {% for m in messages %}<|im_start|>{{ m.role }}\n\
    {% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}\
    {% for c in m.tool_calls or [] %}<tool_call>\n\
    {{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}\n</tool_call>{% endfor %}\
    <|im_end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking %}<think>\n{% endif %}{% endif %}";

pub(super) fn app() -> Arc<App> {
    app_of(THINKS)
}

pub(super) fn app_of(template: &str) -> Arc<App> {
    app_with(template, ServerOptions::default())
}

fn app_with(template: &str, options: ServerOptions) -> Arc<App> {
    let template = ChatTemplate::new(template, "", "", "test").unwrap();
    let worker = crate::WorkerOptions { context: 2048, ..worker_options() };
    let model = Model { template: Some(Arc::new(template)), ..model(worker) };
    let log = Log::new(LogFormat::Json, Box::new(Lines::default())).unwrap();
    App::start(vec![model], options, log).unwrap()
}

pub(super) fn tools() -> Value {
    let tool = |name: &str, parameter: Value| {
        let parameters = json!({
            "type": "object", "properties": { "of": parameter }, "required": ["of"], "additionalProperties": false
        });
        json!({ "type": "function", "function": { "name": name, "description": "d", "parameters": parameters } })
    };
    json!([
        tool("weather", json!({ "enum": ["London", "Paris"] })),
        tool("roll", json!({ "type": "integer", "minimum": 1, "maximum": 20 })),
    ])
}

pub(super) fn chat(more: Value) -> Value {
    let mut body = json!({
        "messages": [{ "role": "user", "content": "What now?" }], "tools": tools(), "max_tokens": 200, "seed": 1,
    });
    let (Value::Object(all), Value::Object(more)) = (&mut body, more) else { panic!("objects") };
    all.extend(more);
    body
}

#[test]
fn calls_that_are_asked_for_are_made() {
    run(async {
        let app = app();
        let named = json!({ "type": "function", "function": { "name": "roll" } });
        for (choice, names) in [(json!("required"), &["weather", "roll"][..]), (named, &["roll"])] {
            let request = chat(json!({ "tool_choice": choice, "parallel_tool_calls": false }));
            let answer = ask(&app, CHAT, request.clone()).await;
            let message = &answer["choices"][0]["message"];
            assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls", "{answer}");
            assert_eq!(
                (&message["content"], message["tool_calls"].as_array().unwrap().len()),
                (&Value::Null, 1)
            );
            let call = &message["tool_calls"][0];
            assert!(names.contains(&call["function"]["name"].as_str().unwrap()), "{call}");
            let arguments: Value =
                serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
            match call["function"]["name"].as_str() {
                Some("roll") => assert!((1..=20).contains(&arguments["of"].as_i64().unwrap())),
                _ => assert!(["London", "Paris"].contains(&arguments["of"].as_str().unwrap())),
            }
            // The streamed call is the same.
            let pieces = events(&app, CHAT, request).await;
            let calls: Vec<&Value> = pieces
                .iter()
                .map(|p| &p["choices"][0]["delta"]["tool_calls"][0])
                .filter(|c| !c.is_null())
                .collect();
            assert_eq!(calls[0]["function"]["name"], call["function"]["name"]);
            assert!(calls[0]["id"].as_str().unwrap().starts_with("call_"));
            let joined: String = calls.iter().map(|c| c["function"]["arguments"].as_str().unwrap()).collect();
            assert_eq!(joined, call["function"]["arguments"]);
            assert_eq!(pieces.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
            // The call is sent back with the tool's result.
            let messages = json!([
                { "role": "user", "content": "What now?" }, message,
                { "role": "tool", "tool_call_id": call["id"], "content": "7" },
            ]);
            let request = chat(json!({ "messages": messages, "max_tokens": 2, "ignore_eos": true }));
            assert_eq!(ask(&app, CHAT, request).await["usage"]["completion_tokens"], 2);
        }
    });
}

#[test]
fn several_calls_are_told_apart() {
    run(async {
        let app = app();
        for seed in 0..4 {
            let request = chat(
                json!({ "tool_choice": "required", "parallel_tool_calls": true, "seed": seed, "temperature": 2, "max_tokens": 400 }),
            );
            let answer = ask(&app, CHAT, request).await;
            if answer["choices"][0]["finish_reason"] == "length" {
                continue;
            }
            let calls = answer["choices"][0]["message"]["tool_calls"].as_array().unwrap();
            let mut ids: Vec<&str> = calls.iter().map(|c| c["id"].as_str().unwrap()).collect();
            ids.dedup();
            assert_eq!(ids.len(), calls.len());
            for call in calls {
                serde_json::from_str::<Value>(call["function"]["arguments"].as_str().unwrap()).unwrap();
            }
        }
    });
}

/// A required call is a single call, unless the request allows several.
#[test]
fn a_required_call_is_one() {
    run(async {
        let app = app();
        let calls =
            |answer: &Value| answer["choices"][0]["message"]["tool_calls"].as_array().map_or(0, Vec::len);
        let mut several = 0;
        for seed in 0..8 {
            let more =
                json!({ "tool_choice": "required", "seed": seed, "temperature": 2, "max_tokens": 400 });
            let answer = ask(&app, CHAT, chat(more.clone())).await;
            assert_eq!(
                (calls(&answer), &answer["choices"][0]["finish_reason"]),
                (1, &json!("tool_calls")),
                "{answer}"
            );
            let mut parallel = chat(more);
            parallel["parallel_tool_calls"] = true.into();
            several += usize::from(calls(&ask(&app, CHAT, parallel).await) > 1);
            let tool = json!({ "name": "roll", "input_schema": tools()[1]["function"]["parameters"] });
            let body = json!({ "model": "storyteller", "max_tokens": 400, "messages": [{ "role": "user", "content": "Now" }],
                "tools": [tool], "tool_choice": { "type": "any" }, "temperature": 1 });
            let answer = ask(&app, "/v1/messages", body).await;
            let uses =
                answer["content"].as_array().unwrap().iter().filter(|b| b["type"] == "tool_use").count();
            assert_eq!(uses, 1, "{answer}");
        }
        assert!(several > 0);
    });
}

/// A call without its markers is parsed as a call if it fits its tool's schema.
#[test]
fn calls_without_marks_are_calls_where_they_fit() {
    use crate::fields::Fields;
    use leyden_text::output::OutputEvent;
    run(async {
        let app = app();
        let format = &app.models.served()[0].format;
        let read = |more: Value, text: &str| {
            let mut fields = Fields::from(chat(more));
            let list = fields.list("tools").unwrap();
            let tools = crate::tools::of_functions(list, HashMap::new(), &mut fields, &app.limits);
            let tools = tools.unwrap().unwrap();
            let mut parser = format.parser("<|im_start|>assistant\n", Some(&tools.list));
            if let Some(rules) = tools.bare_calls() {
                parser = parser.with_bare_calls(rules);
            }
            let mut events = parser.push(text);
            events.extend(parser.finish());
            events.iter().filter(|event| matches!(event, OutputEvent::ToolCallEnd { .. })).count()
        };
        let roll =
            |of: &str| format!("```json\n{{\"name\": \"roll\", \"arguments\": {{\"of\": {of}}}}}\n```");
        assert_eq!(read(json!({}), &roll("6")), 1);
        assert_eq!(read(json!({}), &roll("21")), 0);
        assert_eq!(read(json!({}), &roll("\"6\"")), 0);
        assert_eq!(read(json!({}), "{\"name\": \"roll\", \"arguments\": {\"of\": 1, \"x\": 2}}"), 0);
        let two = format!("{0}\n{0}", roll("6"));
        assert_eq!((read(json!({}), &two), read(json!({ "parallel_tool_calls": false }), &two)), (2, 0));
        // Only allowed tools are called, and no call is parsed if a grammar produces the markers.
        let allowed = json!({ "type": "allowed_tools", "mode": "auto",
            "tools": [{ "type": "function", "function": { "name": "weather" } }] });
        assert_eq!(read(json!({ "tool_choice": allowed }), &roll("6")), 0);
        assert_eq!(read(json!({ "tool_choice": "required" }), &roll("6")), 0);
    });
}

/// The token of a text.
fn token(app: &App, text: &str) -> String {
    let t = Arc::clone(&app.models.served()[0].tokenizer);
    let id = (0..t.vocab_size() as u32).find(|id| t.token_bytes(*id) == Some(text.as_bytes()));
    id.unwrap_or_else(|| panic!("no token is {text:?}")).to_string()
}

fn arguments_are_valid(call: &Value) {
    let arguments: Value = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
    match call["function"]["name"].as_str() {
        Some("roll") => assert!((1..=20).contains(&arguments["of"].as_i64().unwrap()), "{call}"),
        Some("weather") => {
            assert!(["London", "Paris"].contains(&arguments["of"].as_str().unwrap()), "{call}")
        }
        _ => panic!("{call}"),
    }
    assert_eq!(arguments.as_object().unwrap().len(), 1);
}

/// A template whose calls begin with a word that the model knows, so that a bias makes it call.
const WORDS: &str = "{% if tools %}tools: {{ tools | tojson }}\n{% endif %}\
    {% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}\
    {% for c in m.tool_calls or [] %} king {{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }} queen{% endfor %}\
    <|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

#[test]
fn calls_that_the_model_begins_follow_their_schemas() {
    run(async {
        let app = app_of(WORDS);
        assert_eq!(app.models.served()[0].format.calls().unwrap().start, "king");
        let king = token(&app, " king");
        let ask_for = |parallel: bool, seed: i32| {
            let bias = json!({ king.as_str(): 100 });
            chat(
                json!({ "logit_bias": bias, "parallel_tool_calls": parallel, "seed": seed, "temperature": 2 }),
            )
        };
        for seed in 0..3 {
            let answer = ask(&app, CHAT, ask_for(false, seed)).await;
            assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls", "{answer}");
            let calls = answer["choices"][0]["message"]["tool_calls"].as_array().unwrap();
            assert_eq!(calls.len(), 1);
            arguments_are_valid(&calls[0]);
        }
        // Calls follow each other until the token limit.
        let answer = ask(&app, CHAT, ask_for(true, 1)).await;
        let calls = answer["choices"][0]["message"]["tool_calls"].as_array().unwrap();
        assert!(calls.len() > 1 && answer["choices"][0]["finish_reason"] == "length", "{answer}");
        calls[..calls.len() - 1].iter().for_each(arguments_are_valid);
        // Text is unconstrained, even with a schema that cannot be enforced.
        let mut free =
            chat(json!({ "max_tokens": 30, "ignore_eos": true, "logit_bias": { king.as_str(): -100 } }));
        let said = ask(&app, CHAT, free.clone()).await;
        assert_eq!(said["usage"]["completion_tokens"], 30);
        free["tools"][0]["function"]["parameters"]["if"] = json!({ "required": ["x"] });
        free["tools"][0]["function"]["parameters"]["then"] = false.into();
        assert_eq!(ask(&app, CHAT, free.clone()).await["usage"]["completion_tokens"], 30);
        free["tools"][0]["function"]["strict"] = true.into();
        let (status, error) = post(&app, CHAT, free).await;
        assert_eq!((status, &error["error"]["code"]), (400, &json!("invalid_grammar")), "{error}");
    });
}

/// As GPT-OSS's: messages with channels.
const CHANNELS: &str = "{% if tools %}tools: {{ tools | tojson }}\n{% endif %}\
    {% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}\
    {# <|channel|>analysis #}{% if add_generation_prompt %}<|start|>assistant{% endif %}";

#[test]
fn an_answer_is_a_call_or_has_its_form() {
    run(async {
        let app = app();
        let schema = json!({ "type": "object", "properties": { "sum": { "enum": [1, 2] } }, "required": ["sum"],
            "additionalProperties": false });
        let format = json!({ "type": "json_schema", "json_schema": { "name": "sum", "schema": schema } });
        let (brace, angle) = (token(&app, "{"), token(&app, "<"));
        for (seed, bias) in
            [json!({ brace.as_str(): 100 }), json!({ angle.as_str(): 100 }), json!({})].iter().enumerate()
        {
            let request = chat(
                json!({ "response_format": format, "seed": seed, "logit_bias": bias, "parallel_tool_calls": false }),
            );
            let answer = ask(&app, CHAT, request).await;
            let choice = &answer["choices"][0];
            if choice["finish_reason"] == "tool_calls" {
                assert_ne!(seed, 0, "{answer}");
                arguments_are_valid(&choice["message"]["tool_calls"][0]);
            } else {
                assert_ne!(seed, 1, "{answer}");
                let content: Value =
                    serde_json::from_str(choice["message"]["content"].as_str().unwrap()).unwrap();
                assert!(content == json!({ "sum": 1 }) || content == json!({ "sum": 2 }), "{answer}");
            }
        }
        // A required call is made.
        let forced = chat(
            json!({ "response_format": format, "tool_choice": "required", "parallel_tool_calls": false }),
        );
        assert_eq!(ask(&app, CHAT, forced).await["choices"][0]["finish_reason"], "tool_calls");
        // Errors about the grammar have the path of its field.
        let unknown =
            json!({ "type": "json_schema", "json_schema": { "schema": { "if": {}, "then": false } } });
        let (status, error) = post(&app, CHAT, chat(json!({ "response_format": unknown }))).await;
        assert_eq!(
            (status, &error["error"]["param"]),
            (400, &json!("response_format.json_schema.schema")),
            "{error}"
        );
    });
}

#[test]
fn calls_in_channels_can_be_asked_for() {
    run(async {
        let app = app_of(CHANNELS);
        assert!(app.models.served()[0].format.is_harmony());
        let (call, think) = (token(&app, "c"), token(&app, "a"));
        let named = json!({ "type": "function", "function": { "name": "roll" } });
        for choice in [json!("required"), named] {
            let request = chat(json!({ "tool_choice": choice, "logit_bias": { call.as_str(): 100 } }));
            let answer = ask(&app, CHAT, request).await;
            assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls", "{answer}");
            arguments_are_valid(&answer["choices"][0]["message"]["tool_calls"][0]);
        }
        // Reasoning may come first, and the answer cannot end without a call.
        let mut reasoned = false;
        for seed in 0..8 {
            let bias = json!({ think.as_str(): 30 });
            let more =
                json!({ "tool_choice": "required", "logit_bias": bias, "max_tokens": 60, "seed": seed });
            let answer = ask(&app, CHAT, chat(more)).await;
            assert_eq!(answer["choices"][0]["finish_reason"], "length", "{answer}");
            let reasoning = &answer["choices"][0]["message"]["reasoning_content"];
            reasoned |= reasoning.as_str().is_some_and(|text| text.contains('a'));
        }
        assert!(reasoned, "no answer with reasoning");
    });
}

/// The grammar constrains the text after the reasoning, not the reasoning.
#[test]
fn reasoning_is_told_apart_and_free() {
    run(async {
        let app = app();
        let said = |text: &str| json!({ "type": "regex", "value": text });
        let plain = json!({
            "messages": [{ "role": "user", "content": "Why?" }], "max_tokens": 12, "seed": 2, "ignore_eos": true,
            "chat_template_kwargs": { "enable_thinking": true },
        });
        let answer = ask(&app, CHAT, plain.clone()).await;
        let message = &answer["choices"][0]["message"];
        assert_eq!(message["content"], "", "{message}");
        assert!(!message["reasoning_content"].as_str().unwrap().is_empty());
        let pieces = events(&app, CHAT, plain.clone()).await;
        let joined: String =
            pieces.iter().filter_map(|p| p["choices"][0]["delta"]["reasoning_content"].as_str()).collect();
        assert_eq!(message["reasoning_content"], joined);
        // The tiny model does not end its reasoning, so the grammar is never reached, and must not constrain it.
        let mut bound = plain.clone();
        bound["grammar"] = said("[0-9]{3}");
        assert_eq!(ask(&app, CHAT, bound).await["choices"][0]["message"]["reasoning_content"], joined);
        // Without reasoning the grammar applies from the start.
        let mut bound = plain;
        bound["grammar"] = said("[0-9]{3}");
        bound["chat_template_kwargs"] = json!({ "enable_thinking": false });
        let answer = ask(&app, CHAT, bound).await;
        let digits = answer["choices"][0]["message"]["content"].as_str().unwrap();
        assert!(digits.len() == 3 && digits.bytes().all(|b| b.is_ascii_digit()), "{digits}");
    });
}

#[test]
fn tools_that_make_no_sense_are_refused_by_name() {
    run(async {
        let app = app();
        let one = |function: Value| json!({ "tools": [{ "type": "function", "function": function }] });
        let named =
            |name: &str| json!({ "tool_choice": { "type": "function", "function": { "name": name } } });
        let cases = [
            (json!({ "tools": {} }), "tools"),
            (json!({ "tools": [1] }), "tools[0]"),
            (json!({ "tools": [{ "type": 7 }] }), "tools[0].type"),
            (json!({ "tools": [{ "type": "custom", "custom": {} }] }), "tools[0].custom.name"),
            (json!({ "tools": [{ "type": "web_search" }], "tool_choice": "required" }), "tool_choice"),
            (one(json!({})), "tools[0].function.name"),
            (one(json!({ "name": "a b" })), "tools[0].function.name"),
            (one(json!({ "name": "x".repeat(65) })), "tools[0].function.name"),
            (one(json!({ "name": "a", "parameters": [] })), "tools[0].function.parameters"),
            (json!({ "tools": vec![tools()[0].clone(); 129] }), "tools"),
            (one(json!({ "name": "a", "parameters": { "x": "y".repeat(300_000) } })), "tools"),
            (named("other"), "tool_choice.function.name"),
            (json!({ "tool_choice": "any" }), "tool_choice"),
            (json!({ "tool_choice": { "type": "custom" } }), "tool_choice.custom"),
            (json!({ "tool_choice": { "type": "web_search" } }), "tool_choice.type"),
            (json!({ "tool_choice": 1 }), "tool_choice"),
            (json!({ "tools": [], "tool_choice": "required" }), "tool_choice"),
            (json!({ "parallel_tool_calls": "yes" }), "parallel_tool_calls"),
            (json!({ "grammar": "root ::= \"a\"" }), "grammar"),
        ];
        for (more, param) in cases {
            let shown: String = more.to_string().chars().take(100).collect();
            let (status, answer) = post(&app, CHAT, chat(more)).await;
            assert_eq!((status, &answer["error"]["param"]), (400, &json!(param)), "{shown}: {answer}");
        }
        let none = chat(json!({ "tool_choice": "none", "max_tokens": 1, "ignore_eos": true }));
        let none = ask(&app, CHAT, none).await["usage"]["prompt_tokens"].as_u64();
        let auto = chat(json!({ "max_tokens": 1, "ignore_eos": true }));
        assert!(ask(&app, CHAT, auto).await["usage"]["prompt_tokens"].as_u64() > none);
    });
}

/// The response names the unknown tools; a strict server refuses them.
#[test]
fn kinds_of_tools_that_are_not_known_are_left_out_by_name() {
    run(async {
        let strict = ServerOptions { strict: true, ..ServerOptions::default() };
        let (app, strict) = (app(), app_with(THINKS, strict));
        let tool = json!({ "type": "web_search_20990101", "name": "x", "more": { "deep": [null] } });
        let messages = json!([{ "role": "user", "content": "What now?" }]);
        let bodies = [
            (CHAT, json!({ "messages": messages, "max_tokens": 2 })),
            ("/v1/responses", json!({ "input": "What now?", "max_output_tokens": 2 })),
            ("/v1/responses/input_tokens", json!({ "input": "What now?" })),
            ("/v1/messages", json!({ "messages": messages, "max_tokens": 2 })),
            ("/v1/messages/count_tokens", json!({ "messages": messages })),
            (
                "/api/chat",
                json!({ "model": "storyteller", "messages": messages, "stream": false, "options": { "num_predict": 2 } }),
            ),
            ("/apply-template", json!({ "messages": messages })),
            ("/tokenize", json!({ "messages": messages })),
        ];
        for (path, mut body) in bodies {
            body["tools"] = json!([tool]);
            let response = app.respond(request("POST", path, &body.to_string())).await;
            let named = response.headers().get("x-leyden-ignored").map(|v| v.to_str().unwrap().to_owned());
            let status = response.status().as_u16();
            assert_eq!(
                (status, named.as_deref()),
                (200, Some("tools[0]:web_search_20990101")),
                "{path}: {}",
                whole(response).await
            );
            let (status, error) = post(&strict, path, body).await;
            assert!(status == 400 && error.to_string().contains("web_search_20990101"), "{path}: {error}");
        }
    });
}

#[test]
fn models_whose_templates_know_no_tools_call_them_too() {
    run(async {
        // Without a template, and with one that omits calls and rejects a system message.
        const BARE: &str = "{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}\
            {{ raise_exception('roles') }}{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[a]{% endif %}";
        for app in [super::app(), app_of(BARE)] {
            assert!(app.models.served()[0].generic_tools);
            for seed in 0..3 {
                let request =
                    chat(json!({ "tool_choice": "required", "parallel_tool_calls": false, "seed": seed }));
                let answer = ask(&app, CHAT, request).await;
                let choice = &answer["choices"][0];
                assert_eq!(choice["finish_reason"], "tool_calls", "{answer}");
                arguments_are_valid(&choice["message"]["tool_calls"][0]);
                let messages = json!([
                    { "role": "user", "content": "What now?" }, choice["message"],
                    { "role": "tool", "tool_call_id": "a", "content": "7" },
                ]);
                let free =
                    chat(json!({ "messages": messages, "max_tokens": 5, "ignore_eos": true, "seed": seed }));
                assert_eq!(ask(&app, CHAT, free).await["usage"]["completion_tokens"], 5);
            }
        }
    });
}
