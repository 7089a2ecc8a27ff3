//! Answers with a grammar.

use super::{CHAT, COMPLETIONS, app, ask, events, post, run};
use serde_json::{Value, json};

fn chat(more: Value) -> Value {
    let mut body = json!({
        "messages": [{ "role": "user", "content": "The king" }], "max_tokens": 300, "seed": 3, "temperature": 1,
    });
    let (Value::Object(all), Value::Object(more)) = (&mut body, more) else { panic!("objects") };
    all.extend(more);
    body
}

fn said(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap()
}

/// Returns a schema whose answers are short even with random content.
fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "maxLength": 12 },
            "age": { "type": "integer", "minimum": 0, "maximum": 200 },
            "kind": { "enum": ["king", "queen", "fox"] },
            "likes": { "type": "array", "items": { "type": "boolean" }, "minItems": 1, "maxItems": 2 }
        },
        "required": ["name", "age", "kind", "likes"],
        "additionalProperties": false
    })
}

#[test]
fn answers_follow_their_schema() {
    run(async {
        let app = app();
        let format = json!({ "type": "json_schema", "json_schema": { "name": "a", "strict": true, "schema": schema() } });
        for seed in 0..4 {
            let request = chat(json!({ "response_format": format, "seed": seed }));
            let answer = ask(&app, CHAT, request.clone()).await;
            assert_eq!(answer["choices"][0]["finish_reason"], "stop", "{answer}");
            let value: Value = serde_json::from_str(said(&answer)).unwrap();
            assert!(value["name"].as_str().unwrap().chars().count() <= 12);
            assert!(value["age"].as_u64().unwrap() <= 200);
            assert!(["king", "queen", "fox"].contains(&value["kind"].as_str().unwrap()));
            assert!((1..=2).contains(&value["likes"].as_array().unwrap().len()));
            let pieces = events(&app, CHAT, request).await;
            let text: String =
                pieces.iter().filter_map(|e| e["choices"][0]["delta"]["content"].as_str()).collect();
            assert_eq!(text, said(&answer));
        }
    });
}

#[test]
fn grammars_are_followed_alone_and_in_company() {
    run(async {
        let app = app();
        let grammar = |kind: &str, value: &str| json!({ "type": kind, "value": value });
        let regex = chat(json!({ "grammar": grammar("regex", "(yes|no), [0-9]{2,4}!") }));
        let wanted = said(&ask(&app, CHAT, regex.clone()).await).to_owned();
        assert!(wanted.ends_with('!') && wanted.len() <= 10, "{wanted}");
        let lark =
            chat(json!({ "grammar": grammar("lark", "start: \"a\" b+ \"z\"\nb: \"b\" | \"c\" | \"z\"") }));
        let text = said(&ask(&app, CHAT, lark).await).to_owned();
        assert!(text.starts_with('a') && text[1..].chars().all(|c| "bcz".contains(c)), "{text}");
        let mut all = tokio::task::JoinSet::new();
        for i in 0..12 {
            let (app, body) =
                (std::sync::Arc::clone(&app), if i % 2 == 0 { regex.clone() } else { chat(json!({})) });
            all.spawn(async move { (i, said(&ask(&app, CHAT, body).await).to_owned()) });
        }
        for (i, text) in all.join_all().await {
            assert!(i % 2 == 1 || text == wanted, "{i}: {text}");
        }
        let plain =
            json!({ "prompt": "Once", "max_tokens": 50, "response_format": { "type": "json_object" } });
        let text = ask(&app, COMPLETIONS, plain).await["choices"][0]["text"].as_str().unwrap().to_owned();
        assert!(text.trim_start().starts_with('{'), "{text}");
    });
}

#[test]
fn what_cannot_be_enforced_is_refused_by_name() {
    run(async {
        let app = app();
        let schema = |schema: Value| {
            chat(json!({ "response_format": { "type": "json_schema", "json_schema": { "schema": schema } } }))
        };
        let nested = (0..40).fold(json!(true), |inner, _| json!({ "items": inner }));
        let long = "x".repeat(70_000);
        let at = "response_format.json_schema.schema";
        let cases = [
            (
                schema(json!({ "type": "object", "unevaluatedProperties": false })),
                at,
                "unevaluatedProperties",
            ),
            (schema(json!({ "$ref": "http://example.com/schema" })), at, "$ref"),
            (schema(json!({ "type": 5 })), at, ""),
            (schema(json!({ "description": long })), at, "bytes"),
            (schema(json!("x")), at, ""),
            (chat(json!({ "response_format": { "type": "xml" } })), "response_format.type", "json_object"),
            (
                chat(json!({ "response_format": { "type": "json_schema" } })),
                "response_format.json_schema",
                "",
            ),
            (chat(json!({ "response_format": "json" })), "response_format", "object"),
            (chat(json!({ "grammar": { "type": "regex", "value": "(" } })), "grammar.value", ""),
            (chat(json!({ "grammar": { "type": "lark", "value": "start: nothing" } })), "grammar.value", ""),
            (chat(json!({ "grammar": { "type": "peg", "value": "x" } })), "grammar.type", ""),
            (chat(json!({ "grammar": { "type": "lark", "value": long } })), "grammar.value", "characters"),
            (
                chat(
                    json!({ "grammar": { "type": "regex", "value": "a" }, "response_format": { "type": "json_object" } }),
                ),
                "grammar",
                "exclude",
            ),
        ];
        for (body, param, word) in cases {
            let shown: String = body.to_string().chars().take(200).collect();
            let (status, answer) = post(&app, CHAT, body).await;
            assert_eq!((status, &answer["error"]["param"]), (400, &json!(param)), "{shown}: {answer}");
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(message.contains(word) && message.len() < 1000, "{shown}: {message}");
        }
        // A deeply nested schema is valid.
        let (status, answer) = post(&app, CHAT, schema(nested)).await;
        assert!([200, 400].contains(&status), "{answer}");
        assert_eq!(ask(&app, CHAT, chat(json!({ "max_tokens": 2 }))).await["usage"]["completion_tokens"], 2);
    });
}

/// A schema without `additionalProperties` is open by the standard, closed and compact if the dialect's API defines it
/// so, and if `strict` or a field of the request asks for it.
#[test]
fn silent_schemas_are_closed_by_dialect_strict_or_field() {
    run(async {
        let app = app();
        let schema = json!({ "type": "object", "properties": { "kind": { "enum": ["king", "fox"] } }, "required": ["kind"] });
        let closed = |text: &str, what: &str| {
            let all =
                ["{\"kind\":\"king\"}", "{\"kind\":\"fox\"}", "{\"kind\": \"king\"}", "{\"kind\": \"fox\"}"];
            assert!(all.contains(&text), "{what}: {text}");
        };
        let mut opened = 0;
        for seed in 0..6 {
            let options = json!({ "seed": seed, "temperature": 2, "num_predict": 60 });
            let messages = json!([{ "role": "user", "content": "The king" }]);
            let body = json!({ "model": "storyteller", "messages": messages, "format": schema, "options": options, "stream": false });
            closed(ask(&app, "/api/chat", body).await["message"]["content"].as_str().unwrap(), "/api/chat");
            let body = json!({ "model": "storyteller", "prompt": "The king", "format": schema, "options": options, "stream": false });
            closed(
                ask(&app, "/api/generate", body.clone()).await["response"].as_str().unwrap(),
                "/api/generate",
            );
            let mut open = body;
            open["options"]["disable_additional_properties"] = false.into();
            let text = ask(&app, "/api/generate", open).await["response"].as_str().unwrap().to_owned();
            opened += usize::from(text.matches(':').count() > 1 || !text.ends_with('}'));
            let body = json!({ "prompt": "The king", "json_schema": schema, "seed": seed, "temperature": 2, "n_predict": 60 });
            closed(ask(&app, "/completion", body).await["content"].as_str().unwrap(), "/completion");
            let of = |strict: bool| json!({ "type": "json_schema", "json_schema": { "schema": schema, "strict": strict } });
            let more = |more: Value| {
                let mut body = chat(json!({ "seed": seed, "temperature": 2, "max_tokens": 60 }));
                body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                body
            };
            let strict = more(json!({ "response_format": of(true), "disable_any_whitespace": true }));
            closed(said(&ask(&app, CHAT, strict).await), "strict");
            for field in [
                json!({ "guided_json": schema, "disable_additional_properties": true, "disable_any_whitespace": true }),
                json!({ "structured_outputs": { "json": schema, "disable_additional_properties": true, "disable_any_whitespace": true } }),
            ] {
                closed(said(&ask(&app, CHAT, more(field)).await), "vLLM's fields");
            }
            let answer = ask(&app, CHAT, more(json!({ "response_format": of(false) }))).await;
            opened += usize::from(said(&answer).matches(':').count() > 1 || !said(&answer).ends_with('}'));
        }
        assert!(opened > 0, "no answer has properties of its own where it may");
    });
}
