//! Edge values of every field: those within the limits are accepted, those outside are refused with the field's name.

use super::{CHAT, COMPLETIONS, app, get, post, request, run, send, start, until, whole, worker_options};
use crate::ServerOptions;
use serde_json::{Map, Value, json};

/// A field, values that are accepted, values that are refused.
type Case = (&'static str, Vec<Value>, Vec<Value>);

fn numbers(name: &'static str, low: f64, high: f64) -> Case {
    let wrong = vec![json!(low - 0.001), json!(high + 0.001), json!("1"), json!([1]), json!(true), json!({})];
    (name, vec![json!(low), json!(high), Value::Null], wrong)
}

fn integers(name: &'static str, low: i64, high: i64) -> Case {
    let mut wrong =
        vec![json!(1.5), json!("1"), json!([]), json!(true), json!({}), json!(1e300), json!(u64::MAX)];
    wrong.extend([low.checked_sub(1), high.checked_add(1)].into_iter().flatten().map(Value::from));
    (name, vec![json!(low), json!(high), Value::Null], wrong)
}

fn shared() -> Vec<Case> {
    let most = i64::from(i32::MAX);
    let text = |n: usize| Value::from("x".repeat(n));
    let flag = |name| (name, vec![json!(false), Value::Null], vec![json!(0), json!("true"), json!([])]);
    let biases = |n: usize| Value::Object((0..n).map(|i| (i.to_string(), json!(1))).collect::<Map<_, _>>());
    vec![
        numbers("temperature", 0.0, 2.0),
        numbers("top_p", 0.0, 1.0),
        numbers("frequency_penalty", -2.0, 2.0),
        numbers("presence_penalty", -2.0, 2.0),
        numbers("min_p", 0.0, 1.0),
        ("typical_p", vec![json!(0.5), json!(1)], vec![json!(0), json!(1.01), json!("x")]),
        numbers("top_n_sigma", -1.0, 1000.0),
        numbers("repeat_penalty", 0.01, 100.0),
        numbers("repetition_penalty", 0.01, 100.0),
        numbers("xtc_probability", 0.0, 1.0),
        numbers("xtc_threshold", 0.0, 1.0),
        numbers("dynatemp_range", 0.0, 100.0),
        numbers("dry_multiplier", 0.0, 1000.0),
        numbers("dry_base", 1.0, 1000.0),
        numbers("mirostat_tau", 0.0, 100.0),
        numbers("mirostat_eta", 0.0, 100.0),
        integers("mirostat", 0, 2),
        integers("top_k", -1, most),
        integers("repeat_last_n", -1, most),
        integers("dry_allowed_length", 0, most),
        integers("dry_penalty_last_n", -1, most),
        integers("n", 1, 128),
        integers("max_tokens", -1, most),
        ("n_predict", vec![json!(1)], vec![json!(2), json!(-2), json!("x")]),
        (
            "seed",
            vec![json!(i64::MIN), json!(i64::MAX)],
            vec![json!(1.5), json!(u64::MAX), json!("7"), json!(1e30)],
        ),
        (
            "stop",
            vec![text(256), json!([]), json!(vec!["x"; 16])],
            vec![text(257), json!(""), json!(vec!["x"; 17]), json!(1)],
        ),
        (
            "logit_bias",
            vec![json!({}), biases(1024), json!({"5": -100, "6": 100}), json!([[5, -1], ["king", false]])],
            vec![
                biases(1025),
                json!({"5": 100.5}),
                json!({"AI": 1}),
                json!({"-1": 1}),
                json!({"05": 1}),
                json!({"+5": 1}),
                json!({"99999999": 1}),
                json!({"5": "1"}),
                json!([5]),
                json!([[5, true]]),
                json!([[-1, 1]]),
                json!([[5, 101]]),
                json!({"4294967296": 1}),
            ],
        ),
        (
            "samplers",
            vec![json!([]), json!(["top_k", "temperature"]), json!("kt")],
            vec![json!(["x"]), json!(["top_k", "top_k"]), json!("kk"), json!("z")],
        ),
        (
            "dry_sequence_breakers",
            vec![json!([]), json!([text(40)])],
            vec![json!([text(41)]), json!([""]), json!([1])],
        ),
        flag("stream"),
        flag("ignore_eos"),
        flag("include_stop_str_in_output"),
        // A minimum above the maximum is refused.
        ("min_tokens", vec![json!(0), json!(1)], vec![json!(2), json!(-1), json!("1"), json!(1.5)]),
        (
            "stop_token_ids",
            vec![json!([]), json!([5, 6]), json!(vec![5; 128])],
            vec![json!([-1]), json!([99_999_999]), json!(["a"]), json!(5), json!(vec![5; 129])],
        ),
        ("store", vec![json!(false), json!(true)], vec![]),
        ("service_tier", vec![json!("auto"), json!("priority")], vec![]),
        ("model", vec![json!("storyteller"), json!("gpt-4o")], vec![json!(1), text(513), json!([])]),
        ("cache_salt", vec![text(512)], vec![text(513), json!(1)]),
        ("user", vec![text(10_000), json!(5)], vec![]),
        ("metadata", vec![json!({"a": "b"})], vec![]),
        (
            "stream_options",
            vec![json!({}), json!({"include_usage": true, "continuous_usage_stats": true})],
            vec![json!(1), json!({"include_usage": 1})],
        ),
        ("unknown", vec![Value::Null], vec![json!(1), json!("x"), json!({})]),
        (
            "lora",
            vec![json!([])],
            vec![
                json!([{"id": 0}]),
                json!([{"scale": 1}]),
                json!([{"id": -1, "scale": 1}]),
                json!([{"id": 0, "scale": 1001}]),
                json!({"id": 0, "scale": 1}),
                json!(vec![json!({"id": 0, "scale": 0}); 257]),
            ],
        ),
        ("grammar", vec![json!("root ::= \"x\"")], vec![json!(1), json!("root ::= ("), json!({}), json!([])]),
    ]
}

async fn check(app: &std::sync::Arc<crate::app::App>, path: &str, base: Value, cases: Vec<Case>) -> usize {
    let mut done = 0;
    for (name, good, bad) in cases {
        for (value, taken) in good.into_iter().map(|v| (v, true)).chain(bad.into_iter().map(|v| (v, false))) {
            let mut body = base.clone();
            body[name] = value.clone();
            let shown: String = value.to_string().chars().take(60).collect();
            let (status, answer) = post(app, path, body).await;
            done += 1;
            if taken {
                assert_eq!(status, 200, "{path} {name}={shown}: {answer}");
                continue;
            }
            assert_eq!(status, 400, "{path} {name}={shown}: {answer}");
            let error = &answer["error"];
            let param = error["param"].as_str().unwrap_or_default();
            assert!(
                param == name
                    || param.starts_with(&format!("{name}."))
                    || param.starts_with(&format!("{name}[")),
                "{path} {name}={shown}: names {param}"
            );
            assert_eq!(error["type"], "invalid_request_error");
            assert!(error["message"].as_str().unwrap().len() < 500);
        }
    }
    done
}

#[test]
fn every_field_is_checked_at_its_edges() {
    run(async {
        let (app, _) = start(worker_options(), ServerOptions { strict: true, ..ServerOptions::default() });
        let text = |n: usize| Value::from("x".repeat(n));
        let mut done = 0;

        let mut cases = shared();
        cases.extend([
            integers("logprobs", 0, 20),
            ("echo", vec![json!(true)], vec![json!(1)]),
            integers("best_of", 1, 128),
            ("suffix", vec![Value::Null], vec![json!("x")]),
            (
                "prompt",
                vec![json!("x"), json!(["x", "y"]), json!([5, 6]), json!([[5], [6]])],
                vec![
                    Value::Null,
                    json!([]),
                    json!([[]]),
                    json!(5),
                    json!({}),
                    json!([5, "x"]),
                    json!(["x", 5]),
                    json!([-1]),
                    json!([1.5]),
                    json!([99_999_999]),
                    json!([true]),
                    json!(vec!["x"; 65]),
                    json!([[5], [u64::MAX]]),
                ],
            ),
        ]);
        done += check(&app, COMPLETIONS, json!({ "prompt": "x", "max_tokens": 1 }), cases).await;

        let user = json!({ "role": "user", "content": "x" });
        let messages = |m: Value| json!([m]);
        let mut cases = shared();
        cases.extend([
            ("max_completion_tokens", vec![json!(1)], vec![json!(0), json!(2)]),
            ("logprobs", vec![json!(true), json!(false)], vec![json!(1)]),
            ("top_logprobs", vec![], vec![json!(5)]),
            ("modalities", vec![json!(["text"])], vec![json!(["audio"]), json!([]), json!("text")]),
            ("chat_template_kwargs", vec![json!({"enable_thinking": false}), json!({"preserve_thinking": true, "any": {"other": [1]}})], vec![json!({"messages": []}), json!({"bos_token": "x"}), json!([]), json!({"thinking": 1})]),
            ("documents", vec![json!([]), json!([{"text": "x"}])], vec![json!({}), json!(["x"])]),
            ("add_generation_prompt", vec![json!(true), json!(false)], vec![json!(1)]),
            ("continue_final_message", vec![json!(true), json!(false)], vec![json!("x")]),
            ("prediction", vec![json!({"type": "content", "content": "x"})], vec![json!("x"), json!({}), json!({"type": "text", "content": "x"})]),
            ("functions", vec![json!([])], vec![json!({}), json!([1])]),
            ("function_call", vec![json!("none"), json!("auto")], vec![json!(1), json!("f"), json!({ "name": "f" })]),
            ("reasoning_effort", vec![json!("low")], vec![json!(1), text(513)]),
            ("reasoning", vec![json!({ "effort": "low" })], vec![json!("low"), json!({ "effort": 1 })]),
            ("keep_alive", vec![json!(5), json!("5m"), json!(-1)], vec![json!("soon"), json!(true)]),
            ("messages", vec![
                messages(user.clone()),
                json!([{ "role": "developer", "content": [{ "type": "text", "text": "x" }], "name": "n" }, user]),
                json!([
                    { "role": "assistant", "content": null, "refusal": null, "tool_calls": [
                        { "id": "a", "type": "function", "function": { "name": "f", "arguments": "{\"x\":1}" } }] },
                    { "role": "tool", "tool_call_id": "a", "content": "5" },
                ]),
                json!([
                    { "role": "assistant", "function_call": { "name": "f", "arguments": "" } },
                    { "role": "function", "name": "f", "content": "5" },
                    { "role": "assistant", "content": null, "tool_calls": [], "reasoning": "x", "parsed": {} },
                    { "role": "assistant", "refusal": "No." }, { "role": "assistant" },
                ]),
                json!(vec![json!({ "role": "user", "content": "" }); 256]),
            ], vec![
                messages(json!({ "role": "function", "content": "x" })), messages(json!({ "role": "user", "content": "x", "refusal": "x" })),
                messages(json!({ "role": "user", "content": "x", "function_call": { "name": "f" } })),
                messages(json!({ "role": "assistant", "function_call": { "name": "f", "arguments": "{," } })),
                Value::Null, json!([]), json!("x"), json!([1]), messages(json!({})), messages(json!({ "role": "user" })),
                messages(json!({ "role": "robot", "content": "x" })), messages(json!({ "role": 1, "content": "x" })),
                messages(json!({ "role": "user", "content": 1 })), messages(json!({ "role": "user", "content": null })),
                messages(json!({ "role": "user", "content": "x", "more": 1 })),
                messages(json!({ "role": "user", "content": [{ "type": "image_url", "image_url": { "url": "http://x" } }] })),
                messages(json!({ "role": "user", "content": [{ "type": "text" }] })),
                messages(json!({ "role": "user", "content": vec![json!({ "type": "text", "text": "" }); 257] })),
                messages(json!({ "role": "tool", "content": "x" })),
                messages(json!({ "role": "user", "content": "x", "tool_calls": [{}] })),
                messages(json!({ "role": "assistant", "content": "x", "tool_calls": [{ "function": { "name": "f", "arguments": "{" } }] })),
                json!(vec![user.clone(); 1025]),
            ]),
        ]);
        done += check(&app, CHAT, json!({ "messages": [user], "max_tokens": 1 }), cases).await;

        let cases = vec![
            (
                "input",
                vec![json!("x"), json!(["x"]), json!([5]), json!([[5], [6]])],
                vec![
                    Value::Null,
                    json!([]),
                    json!(1),
                    json!([[]]),
                    json!([true]),
                    json!([99_999_999]),
                    json!(vec!["x"; 2049]),
                ],
            ),
            ("encoding_format", vec![json!("float"), json!("base64")], vec![json!("int8"), json!(1)]),
            ("dimensions", vec![json!(1)], vec![json!(0), json!(1 << 20), json!("x")]),
            ("user", vec![json!("x")], vec![]),
            ("unknown", vec![], vec![json!(1)]),
        ];
        done += check(&app, "/v1/embeddings", json!({ "input": "x" }), cases).await;
        let cases = vec![
            ("prompt", vec![json!("x"), json!("")], vec![json!(1), json!(["x"])]),
            ("messages", vec![], vec![json!([user])]),
            ("add_special_tokens", vec![json!(false)], vec![json!("x")]),
            ("return_token_strs", vec![json!(true)], vec![json!("x")]),
            ("tools", vec![json!([])], vec![json!({})]),
            ("unknown", vec![], vec![json!(1)]),
        ];
        done += check(&app, "/tokenize", json!({ "prompt": "x" }), cases).await;
        assert!(done > 400, "{done} cases");
    });
}

#[test]
fn bodies_that_are_not_what_they_should_be() {
    run(async {
        let app = app();
        let deep = format!("{{\"prompt\":{}{}}}", "[".repeat(70), "]".repeat(70));
        let very_deep = format!("{{\"prompt\":{}", "[".repeat(500_000));
        for body in [
            "",
            "{",
            "[]",
            "null",
            "\"x\"",
            "{\"prompt\":\"x\",\"prompt\":\"y\"}",
            "{\"prompt\":NaN}",
            &deep,
            &very_deep,
            "{\"prompt\":\"\\ud800\"}",
            "{\"n\":1e999}",
            "\u{feff}{\"prompt\":\"x\"}",
            "{\"prompt\":\"x\"}{}",
        ] {
            let (status, answer) = send(&app, COMPLETIONS, body).await;
            let shown: String = body.chars().take(60).collect();
            assert_eq!(
                (status, &answer["error"]["code"]),
                (400, &json!("invalid_json")),
                "{shown}: {answer}"
            );
        }
        let (status, answer) = send(&app, COMPLETIONS, &format!("\"{}\"", "x".repeat(8 << 20))).await;
        assert_eq!((status, &answer["error"]["code"]), (413, &json!("body_too_large")));
        // NUL and a noncharacter are characters.
        let odd = json!({ "prompt": "a\u{0}b\u{fffe}", "max_tokens": 1 });
        assert_eq!(post(&app, COMPLETIONS, odd).await.0, 200);
        let (status, _) = get(&app, "/v1/completions").await;
        assert_eq!(status, 405);
        assert_eq!(get(&app, "/v1/nothing").await.0, 404);
        assert_eq!(get(&app, &format!("/{}", "x".repeat(8192))).await.0, 414);
    });
}

#[test]
fn the_document_describes_every_route() {
    run(async {
        let app = app();
        let (status, text) = get(&app, "/openapi.json").await;
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")));
        for route in crate::routes::ROUTES {
            let it = &document["paths"][route.path][route.method.as_str().to_lowercase()];
            assert_eq!(it["x-access"], route.access.name(), "{}", route.path);
            assert!(it["operationId"].is_string() && it["responses"]["200"].is_object(), "{}", route.path);
        }
    });
}

#[test]
fn fields_of_other_servers_are_taken_and_unknown_ones_told() {
    run(async {
        let (app, lines) = start(worker_options(), ServerOptions::default());
        let base = json!({ "messages": [{ "role": "user", "content": "Once" }], "max_tokens": 4, "seed": 1,
            "temperature": 1, "top_k": 0, "ignore_eos": true });
        let with = |more: &Value| {
            let (Value::Object(mut all), Value::Object(more)) = (base.clone(), more.clone()) else {
                panic!("objects")
            };
            all.extend(more);
            Value::Object(all)
        };
        let ask = async |more: &Value| {
            let response = app.respond(request("POST", CHAT, &with(more).to_string())).await;
            let ignored = response.headers().get("x-leyden-ignored").map(|v| v.to_str().unwrap().to_owned());
            let status = response.status().as_u16();
            let answer: Value = serde_json::from_str(&whole(response).await).unwrap();
            (
                status,
                ignored,
                answer["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned(),
            )
        };
        let plain = ask(&json!({})).await;
        assert_eq!((plain.0, &plain.1), (200, &None));
        // Fields without effect on the answer, and other names of fields.
        for more in [
            json!({ "cache_prompt": true, "timings_per_token": true, "keep_alive": "5m", "reasoning_format": "auto",
                "store": true, "user": "x", "metadata": {}, "service_tier": "flex", "verbosity": "low", "ttl": 60 }),
            json!({ "top_k": -1, "repetition_penalty": 1, "n_predict": 4, "skip_special_tokens": true }),
            json!({ "think": false, "parallel_tool_calls": true, "stop_token_ids": [], "min_tokens": 2 }),
        ] {
            assert_eq!(ask(&more).await, plain, "{more}");
        }
        let digits = async |more: Value| ask(&more).await.2;
        assert_eq!(digits(json!({ "guided_regex": "[7]{3}" })).await, "777");
        assert_eq!(digits(json!({ "guided_choice": ["\"7\"\n"] })).await, "\"7\"\n");
        assert_eq!(digits(json!({ "guided_json": { "const": 7 } })).await, "7");
        assert_eq!(digits(json!({ "guided_json": "{\"const\": 7}" })).await, "7");
        assert_eq!(digits(json!({ "guided_grammar": "root ::= \"7\"" })).await, "7");
        assert_eq!(digits(json!({ "structured_outputs": { "choice": ["7"] } })).await, "7");
        // The answer ends when the context is full.
        assert_eq!(ask(&json!({ "max_tokens": -1 })).await.0, 200);
        // Unknown fields are reported, in the log too.
        let odd = json!({ "unheard": 1, "of é\n": {}, "messages": [{ "role": "user", "content": "Once", "mood": "x" }] });
        let (status, ignored, answer) = ask(&odd).await;
        assert_eq!((status, answer), (200, plain.2));
        assert_eq!(ignored.as_deref(), Some("messages[0].mood, unheard, of???"));
        until("the log", || {
            lines.text().contains("\"warning_ignored_fields\":\"messages[0].mood, unheard, of???\"")
        })
        .await;
        assert_eq!(ask(&json!({ "n_predict": 5 })).await.0, 400, "two of one meaning");
    });
}

/// Returns the smallest value that a schema allows.
fn least(schema: &Value) -> Value {
    if let Some(branches) = schema["anyOf"].as_array() {
        return least(&branches[0]);
    }
    if let Some(value) = schema.get("const").or_else(|| schema["enum"].get(0)) {
        return value.clone();
    }
    let first = schema["type"].get(0).unwrap_or(&schema["type"]);
    match first.as_str() {
        Some("string") => json!("x"),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("array") => {
            json!(vec![least(&schema["items"]); schema["minItems"].as_u64().unwrap_or(0) as usize])
        }
        Some("object") => {
            let one = &schema["oneOf"][0]["required"];
            let needed = [&schema["required"], one].into_iter().filter_map(Value::as_array).flatten();
            let needed = needed.filter_map(Value::as_str);
            needed.map(|name| (name.to_owned(), least(&schema["properties"][name]))).collect()
        }
        _ => Value::Null,
    }
}

/// Returns values just outside a schema, and some of other types.
fn outside(schema: &Value) -> Vec<Value> {
    if let Some(branches) = schema["anyOf"].as_array() {
        // A value outside all branches is outside each of them; several branches besides `null` are skipped.
        let real: Vec<&Value> = branches.iter().filter(|branch| branch["type"] != "null").collect();
        return if let [one] = real[..] { outside(one) } else { Vec::new() };
    }
    let bound =
        |name: &str, more: i64| schema[name].as_i64().and_then(|n| n.checked_add(more)).map(|n| json!(n));
    let first = schema["type"].get(0).unwrap_or(&schema["type"]);
    match first.as_str() {
        Some("string") => {
            let long = schema["maxLength"].as_u64().map(|n| json!("x".repeat(n as usize + 1)));
            [Some(json!(1)), Some(json!({})), long].into_iter().flatten().collect()
        }
        Some("integer") => [Some(json!(1.5)), Some(json!("1")), bound("minimum", -1), bound("maximum", 1)]
            .into_iter()
            .flatten()
            .collect(),
        Some("number") => {
            [Some(json!("1")), bound("minimum", -1), bound("maximum", 1)].into_iter().flatten().collect()
        }
        Some("boolean") => vec![json!(0), json!("true")],
        Some("array") => {
            let many = schema["maxItems"].as_u64().filter(|n| *n < 3000);
            let many = many.map(|n| json!(vec![least(&schema["items"]); n as usize + 1]));
            let few = schema["minItems"].as_u64().filter(|n| *n > 0).map(|_| json!([]));
            [Some(json!(true)), many, few].into_iter().flatten().collect()
        }
        Some("object") => vec![json!(1), json!([])],
        None if schema.get("enum").is_some() || schema.get("const").is_some() => {
            vec![json!("no such word"), json!(17)]
        }
        _ => Vec::new(),
    }
}

/// In every dialect the schema of the document is what is enforced; no list of fields is needed.
#[test]
fn every_route_refuses_what_its_document_does_not_allow() {
    let folder = tempfile::tempdir().unwrap();
    run(async {
        let batch_dir = Some(folder.path().to_owned());
        let (app, _) = start(worker_options(), ServerOptions { batch_dir, ..ServerOptions::default() });
        let mut done = 0;
        for (path, schema) in crate::openapi::bodies(crate::routes::ROUTES, &app) {
            // Its method differs from that of the other routes with a body.
            if path == "/api/delete" {
                continue;
            }
            let base = least(&schema);
            let mut fields: Vec<(Vec<&str>, &Value)> = Vec::new();
            let Some(properties) = schema["properties"].as_object() else {
                // A list whose items have the fields.
                for body in outside(&schema)
                    .into_iter()
                    .chain(outside(&schema["items"]).into_iter().map(|item| json!([item])))
                {
                    assert_eq!(post(&app, path, body.clone()).await.0, 400, "{path} {body}");
                }
                continue;
            };
            for (name, field) in properties {
                fields.push((vec![name], field));
                let inner = field["properties"].as_object().into_iter().flatten();
                fields.extend(inner.map(|(within, field)| (vec![name.as_str(), within.as_str()], field)));
            }
            for (names, field) in fields {
                for value in outside(field) {
                    let mut body = base.clone();
                    match names[..] {
                        [outer, inner] => {
                            if !body[outer].is_object() {
                                body[outer] = least(&schema["properties"][outer]);
                            }
                            body[outer][inner] = value.clone();
                        }
                        _ => body[names[0]] = value.clone(),
                    }
                    let (status, answer) = post(&app, path, body).await;
                    let shown: String = format!("{path} {names:?}={value}").chars().take(120).collect();
                    let error = &answer["error"];
                    let message = error["message"].as_str().or(error.as_str()).unwrap_or_default();
                    // An unknown model is no malformed request.
                    let wanted =
                        if names[0] == "model" && value.is_string() { &[400, 404][..] } else { &[400] };
                    assert!(wanted.contains(&status), "{shown}: {answer}");
                    let at = names.join(".");
                    assert!(message.contains(&format!("`{at}")) || status == 404, "{shown}: {answer}");
                    done += 1;
                }
            }
        }
        assert!(done > 500, "{done} cases");
    });
}
