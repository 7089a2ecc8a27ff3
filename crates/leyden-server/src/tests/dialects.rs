//! Features of single dialects; their official clients are tested in `leyden-cli/tests/cli`.

use super::tools::{THINKS, app_of};
use super::{COMPLETIONS, app, ask, get, post, request, run, whole};
use crate::app::App;
use serde_json::{Value, json};
use std::sync::Arc;

/// Returns the documents of a stream of events or lines.
async fn stream(app: &Arc<App>, path: &str, mut body: Value) -> Vec<Value> {
    body["stream"] = true.into();
    let response = app.respond(request("POST", path, &body.to_string())).await;
    assert_eq!(response.status().as_u16(), 200, "{path}");
    let text = whole(response).await;
    let data = text.lines().filter_map(|line| match line.starts_with('{') {
        true => Some(line),
        false => line.strip_prefix("data: "),
    });
    data.map(|document| serde_json::from_str(document).unwrap()).collect()
}

#[test]
fn llama_servers_completions_go_on_as_others_do() {
    run(async {
        let app = app();
        let body = json!({ "prompt": "Once upon a time", "seed": 3, "temperature": 0.9, "ignore_eos": true });
        let with = |more: Value| {
            let (Value::Object(mut all), Value::Object(more)) = (body.clone(), more) else {
                panic!("objects")
            };
            all.extend(more);
            Value::Object(all)
        };
        let other = ask(&app, COMPLETIONS, with(json!({ "max_tokens": 12 }))).await;
        let text = other["choices"][0]["text"].as_str().unwrap();
        let request =
            with(json!({ "n_predict": 12, "n_probs": 2, "return_tokens": true, "cache_prompt": true }));
        let answer = ask(&app, "/completion", request.clone()).await;
        assert_eq!(
            (answer["content"].as_str(), &answer["stop_type"]),
            (Some(text), &json!("limit")),
            "{answer}"
        );
        assert_eq!(answer["tokens_evaluated"], other["usage"]["prompt_tokens"]);
        assert_eq!(
            (&answer["tokens_predicted"], answer["tokens"].as_array().unwrap().len()),
            (&json!(12), 12)
        );
        let probable = &answer["completion_probabilities"];
        assert_eq!(
            (probable[0]["id"].as_u64(), probable[0]["top_logprobs"].as_array().unwrap().len()),
            (answer["tokens"][0].as_u64(), 2)
        );
        assert_eq!(answer["timings"]["predicted_n"], 12);
        assert_eq!(
            (&answer["generation_settings"]["seed"], &answer["generation_settings"]["n_predict"]),
            (&json!(3), &json!(12))
        );
        let two = ask(&app, "/completion", with(json!({ "n_predict": 12, "n_cmpl": 2 }))).await;
        assert_eq!((two[0]["content"].as_str(), two.as_array().unwrap().len()), (Some(text), 2), "{two}");
        let pieces = stream(&app, "/completion", request).await;
        let joined: String = pieces.iter().map(|piece| piece["content"].as_str().unwrap()).collect();
        assert_eq!((joined.as_str(), &pieces.last().unwrap()["stop"]), (text, &json!(true)));
        assert!(pieces.iter().rev().skip(1).all(|piece| piece["stop"] == false));
        // The stop string is reported, and removed from the text.
        let word = text.split(' ').nth(4).unwrap();
        let answer =
            ask(&app, "/completion", with(json!({ "n_predict": 40, "stop": ["zebra", word] }))).await;
        assert_eq!((&answer["stop_type"], &answer["stopping_word"]), (&json!("word"), &json!(word)));
        assert_eq!(answer["content"].as_str(), text.split_once(word).map(|(before, _)| before));
        // Several prompts have several answers.
        let several = with(json!({ "prompt": ["Once upon a time", [5, 6, 7]], "n_predict": 12 }));
        let answers = ask(&app, "/completion", several).await;
        assert_eq!((answers[0]["content"].as_str(), &answers[1]["index"]), (Some(text), &json!(1)));
        assert_eq!(answers[1]["tokens_evaluated"], 3);
        let (status, answer) = post(&app, "/completion", with(json!({ "n_predict": "x" }))).await;
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(400)));
        assert_eq!(answer["error"]["type"], "invalid_request_error");
    });
}

#[test]
fn llama_server_tells_of_itself() {
    run(async {
        let app = app_of(THINKS);
        let messages = json!([{ "role": "user", "content": "Hm?" }]);
        let shown = ask(&app, "/apply-template", json!({ "messages": messages })).await;
        assert_eq!(shown["prompt"], "<|im_start|>user\nHm?<|im_end|>\n<|im_start|>assistant\n");
        let (status, text) = get(&app, "/props").await;
        let props: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, &props["total_slots"]), (200, &json!(64)));
        assert_eq!(
            (&props["chat_template"], &props["default_generation_settings"]["n_ctx"]),
            (&json!(THINKS), &json!(2048))
        );
        let (_, text) = get(&app, "/slots").await;
        let slots: Vec<Value> = serde_json::from_str(&text).unwrap();
        assert_eq!((slots.len(), &slots[63]["is_processing"]), (64, &json!(false)));
    });
}

#[test]
fn reasoning_is_told_in_the_words_of_each_dialect() {
    run(async {
        // The template opens the reasoning if it is requested, and the storyteller does not end it.
        let app = app_of(THINKS);
        let messages = json!([{ "role": "user", "content": "What now?" }]);
        let chat =
            json!({ "messages": messages, "max_tokens": 9, "seed": 1, "temperature": 0, "think": true });
        let answer = ask(&app, super::CHAT, chat).await;
        let thoughts = answer["choices"][0]["message"]["reasoning_content"].as_str().unwrap().to_owned();
        assert!(!thoughts.is_empty());

        let body = json!({ "messages": messages, "max_tokens": 9, "temperature": 0, "thinking": { "type": "adaptive" } });
        let answer = ask(&app, "/v1/messages", body.clone()).await;
        assert_eq!(answer["content"], json!([{ "type": "thinking", "thinking": thoughts, "signature": "" }]));
        let events = stream(&app, "/v1/messages", body).await;
        let deltas = events.iter().filter_map(|event| event["delta"]["thinking"].as_str());
        assert_eq!(deltas.collect::<String>(), thoughts);
        assert!(events.iter().any(|event| event["delta"]["type"] == "signature_delta"));

        let body = json!({ "model": "storyteller", "messages": messages, "think": true, "options": { "temperature": 0, "num_predict": 9 } });
        let mut once = body.clone();
        once["stream"] = false.into();
        let answer = ask(&app, "/api/chat", once).await;
        assert_eq!(
            (&answer["message"]["thinking"], &answer["message"]["content"]),
            (&json!(thoughts), &json!(""))
        );
        let lines = stream(&app, "/api/chat", body).await;
        let told = lines.iter().filter_map(|line| line["message"]["thinking"].as_str());
        assert_eq!(told.collect::<String>(), thoughts);

        let body = json!({ "input": "What now?", "max_output_tokens": 9, "temperature": 0, "reasoning": { "effort": "high" } });
        let answer = ask(&app, "/v1/responses", body.clone()).await;
        assert_eq!(answer["output"][0]["content"], json!([{ "type": "reasoning_text", "text": thoughts }]));
        assert_eq!((&answer["output"][0]["type"], &answer["output"][1]), (&json!("reasoning"), &Value::Null));
        let events = stream(&app, "/v1/responses", body).await;
        let last = &events.last().unwrap()["response"]["output"][0];
        assert_eq!(last["content"], answer["output"][0]["content"]);
        let told = events.iter().filter(|event| event["type"] == "response.reasoning_text.delta");
        assert_eq!(told.map(|event| event["delta"].as_str().unwrap()).collect::<String>(), thoughts);
        // The reasoning is sent back to the model with its answer.
        let next =
            json!({ "input": "And then?", "max_output_tokens": 2, "previous_response_id": answer["id"] });
        let next = ask(&app, "/v1/responses", next).await;
        assert!(next["usage"]["input_tokens"].as_u64() > answer["usage"]["input_tokens"].as_u64());
    });
}

#[test]
fn calls_in_ollamas_lines_are_whole() {
    run(async {
        let app = app_of(THINKS);
        let arguments = json!({ "of": 7 });
        let messages = json!([
            { "role": "user", "content": "Roll." },
            { "role": "assistant", "tool_calls": [{ "function": { "name": "roll", "arguments": arguments } }] },
            { "role": "tool", "content": "7", "tool_name": "roll" },
        ]);
        let templated = ask(
            &app,
            "/apply-template",
            json!({ "messages": [
            messages[0],
            { "role": "assistant", "content": "", "tool_calls": [
                { "id": "a", "type": "function", "function": { "name": "roll", "arguments": "{\"of\":7}" } }] },
            { "role": "tool", "content": "7", "tool_call_id": "a" },
        ] }),
        );
        let tokens =
            ask(&app, "/tokenize", json!({ "prompt": templated.await["prompt"] })).await["count"].clone();
        let body = json!({ "model": "storyteller", "messages": messages, "options": { "num_predict": 1 } });
        let lines = stream(&app, "/api/chat", body).await;
        assert_eq!(lines.last().unwrap()["prompt_eval_count"], tokens);
    });
}

/// Bodies without a content type that says JSON, as `curl -d` and litellm send them.
#[test]
fn ollamas_bodies_need_not_say_what_they_are() {
    run(async {
        let app = app();
        let ask = async |path: &str, origin: Option<&str>| {
            let mut request = request("POST", path, r#"{"model": "storyteller"}"#);
            let kind = "application/x-www-form-urlencoded".parse().unwrap();
            request.headers_mut().insert("content-type", kind);
            if let Some(origin) = origin {
                request.headers_mut().insert("origin", origin.parse().unwrap());
            }
            app.respond(request).await.status().as_u16()
        };
        assert_eq!(ask("/api/chat", None).await, 200);
        assert_eq!(ask("/api/chat", Some("http://localhost:3000")).await, 200);
        // Any web page could send these without a CORS preflight.
        assert_eq!(ask("/api/chat", Some("https://evil.example")).await, 415);
        assert_eq!(ask("/v1/messages", None).await, 415);
    });
}
