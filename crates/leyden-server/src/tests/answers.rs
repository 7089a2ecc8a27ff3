//! The content of answers.

use super::{CHAT, COMPLETIONS, EMBEDDINGS, Lines, app, ask, get, model, post, run, story, worker_options};
use crate::app::App;
use crate::log::{Log, LogFormat};
use crate::{Model, ServerOptions, WorkerOptions};
use leyden_engine::Pooling;
use leyden_kernels::{Cpu, Tier};
use serde_json::{Value, json};
use std::sync::Arc;

fn text(answer: &Value, choice: usize) -> &str {
    answer["choices"][choice]["text"].as_str().unwrap()
}

#[test]
fn a_seed_gives_the_same_text_and_no_seed_names_its_own() {
    run(async {
        let app = app();
        let first = ask(&app, COMPLETIONS, story(7, 20)).await;
        let again = ask(&app, COMPLETIONS, story(7, 20)).await;
        assert_eq!(text(&first, 0), text(&again, 0));
        assert_eq!(first["seed"], 7);
        assert_eq!(first["usage"]["completion_tokens"], 20);
        assert_eq!(first["choices"][0]["finish_reason"], "length");
        let mut free = story(7, 20);
        free["seed"] = Value::Null;
        let one = ask(&app, COMPLETIONS, free.clone()).await;
        free["seed"] = one["seed"].clone();
        let same = ask(&app, COMPLETIONS, free.clone()).await;
        assert_eq!(text(&one, 0), text(&same, 0));
        free["seed"] = json!(-2);
        assert_eq!(ask(&app, COMPLETIONS, free).await["seed"], -2);
    });
}

/// The tokens are the same alone, in a batch of 32, and with a prefix from the cache.
#[test]
fn company_and_cache_change_nothing() {
    run(async {
        let tokens = 12;
        let lonely = app();
        let mut wanted = Vec::new();
        for i in 0..32 {
            let mut request = story(i, tokens);
            // The salt prevents hits of the prefix cache.
            request["cache_salt"] = i.to_string().into();
            wanted.push(text(&ask(&lonely, COMPLETIONS, request).await, 0).to_owned());
        }
        let app = app();
        for round in 0..2 {
            let one = |i| {
                let app = &app;
                async move { text(&ask(app, COMPLETIONS, story(i, tokens)).await, 0).to_owned() }
            };
            let mut all = tokio::task::JoinSet::new();
            for i in 0..32 {
                let app = Arc::clone(&app);
                all.spawn(
                    async move { (i, text(&ask(&app, COMPLETIONS, story(i, tokens)).await, 0).to_owned()) },
                );
            }
            while let Some(done) = all.join_next().await {
                let (i, got) = done.unwrap();
                assert_eq!(got, wanted[i], "request {i} in round {round}");
            }
            assert_eq!(one(3).await, wanted[3]);
        }
    });
}

#[test]
fn choices_differ_and_prompts_come_in_order() {
    run(async {
        let app = app();
        let mut request = story(1, 8);
        request["n"] = 3.into();
        let three = ask(&app, COMPLETIONS, request.clone()).await;
        let texts: Vec<&str> = (0..3).map(|i| text(&three, i)).collect();
        assert!(texts[0] != texts[1] && texts[1] != texts[2], "{texts:?}");
        assert_eq!(three["usage"]["completion_tokens"], 24);
        // The first choice equals the answer to a request for one choice.
        assert_eq!(texts[0], text(&ask(&app, COMPLETIONS, story(1, 8)).await, 0));
        request["prompt"] = json!(["The king", "The queen"]);
        request["n"] = 2.into();
        request["echo"] = true.into();
        let four = ask(&app, COMPLETIONS, request).await;
        let starts: Vec<&str> = (0..4).map(|i| text(&four, i)).collect();
        assert!(starts[0].starts_with("The king") && starts[1].starts_with("The king"), "{starts:?}");
        assert!(starts[2].starts_with("The queen") && starts[3].starts_with("The queen"), "{starts:?}");
        let indices: Vec<u64> = (0..4).map(|i| four["choices"][i]["index"].as_u64().unwrap()).collect();
        assert_eq!(indices, [0, 1, 2, 3]);
    });
}

#[test]
fn cached_tokens_are_counted() {
    run(async {
        let app = app();
        let request = json!({ "prompt": "The old woman said to the cat ".repeat(12), "max_tokens": 2 });
        let cached =
            |answer: &Value| answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
        let first = ask(&app, COMPLETIONS, request.clone()).await;
        assert!(first["usage"]["prompt_tokens"].as_u64().unwrap() > 64);
        assert_eq!(cached(&first), 0);
        assert_eq!(cached(&ask(&app, COMPLETIONS, request.clone()).await) % 64, 0);
        assert!(cached(&ask(&app, COMPLETIONS, request.clone()).await) >= 64);
        let mut other = request;
        other["cache_salt"] = "mine".into();
        assert_eq!(cached(&ask(&app, COMPLETIONS, other).await), 0);
    });
}

#[test]
fn stop_texts_end_an_answer_before_them() {
    run(async {
        let app = app();
        let free = ask(&app, COMPLETIONS, story(2, 40)).await;
        let free = text(&free, 0).to_owned();
        let word = free.split_whitespace().nth(4).unwrap();
        let mut request = story(2, 40);
        request["stop"] = json!(["never in a story", word]);
        let stopped = ask(&app, COMPLETIONS, request).await;
        assert_eq!(text(&stopped, 0), &free[..free.find(word).unwrap()]);
        assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
    });
}

#[test]
fn logarithmic_probabilities_are_those_of_the_model() {
    run(async {
        let app = app();
        let request = json!({
            "messages": [{ "role": "user", "content": "Once upon a time" }],
            "max_tokens": 5, "temperature": 0, "logprobs": true, "top_logprobs": 3,
        });
        let answer = ask(&app, CHAT, request.clone()).await;
        let content = answer["choices"][0]["logprobs"]["content"].as_array().unwrap().clone();
        assert_eq!(content.len(), 5);
        let mut bytes = Vec::new();
        for token in &content {
            let top = token["top_logprobs"].as_array().unwrap();
            // Without temperature the most likely token is chosen.
            assert_eq!(
                (top.len(), &top[0]["token"], &top[0]["logprob"]),
                (3, &token["token"], &token["logprob"])
            );
            assert!(top[0]["logprob"].as_f64().unwrap() <= 0.0);
            assert!(top[0]["logprob"].as_f64() >= top[1]["logprob"].as_f64());
            bytes.extend(token["bytes"].as_array().unwrap().iter().map(|b| b.as_u64().unwrap() as u8));
        }
        let said = answer["choices"][0]["message"]["content"].as_str().unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap().trim_start(), said.trim_start());
        // Sampling steps and a bias do not change the log probabilities.
        let mut hot = request;
        hot["top_k"] = 1.into();
        hot["temperature"] = 2.into();
        assert_eq!(ask(&app, CHAT, hot).await["choices"][0]["logprobs"]["content"], json!(content));
        let old = json!({ "prompt": "Once", "max_tokens": 3, "logprobs": 2, "temperature": 0 });
        let old = ask(&app, COMPLETIONS, old).await;
        let shown = &old["choices"][0]["logprobs"];
        for name in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
            assert_eq!(shown[name].as_array().unwrap().len(), 3, "{name}");
        }
    });
}

#[test]
fn a_bias_decides() {
    run(async {
        let app = app();
        let tokens = ask(&app, "/tokenize", json!({ "prompt": " the", "add_special_tokens": false })).await;
        let id = tokens["tokens"][0].to_string();
        let request = json!({
            "prompt": "Once upon", "max_tokens": 3, "temperature": 0, "repeat_penalty": 1, "logit_bias": { id: 100 },
        });
        assert_eq!(text(&ask(&app, COMPLETIONS, request).await, 0).trim(), "the the the");
    });
}

#[test]
fn texts_and_tokens_turn_into_each_other() {
    run(async {
        let app = app();
        let said = "The king's 3 daughters: ";
        let there = ask(&app, "/tokenize", json!({ "prompt": said, "add_special_tokens": false })).await;
        assert_eq!(there["count"].as_u64().unwrap() as usize, there["tokens"].as_array().unwrap().len());
        let back = ask(&app, "/detokenize", json!({ "tokens": there["tokens"] })).await;
        assert_eq!(back["prompt"].as_str().unwrap().trim_start(), said.trim_start());
        let by_ids = json!({ "prompt": there["tokens"], "max_tokens": 4, "seed": 1 });
        assert_eq!(ask(&app, COMPLETIONS, by_ids).await["usage"]["prompt_tokens"], there["count"]);
        let (status, error) = post(&app, "/detokenize", json!({ "tokens": [0, 1_000_000] })).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!("tokens[1]")));
    });
}

#[test]
fn models_are_listed_and_found_by_any_name() {
    run(async {
        let app = app();
        let (_, list) = get(&app, "/v1/models").await;
        let list: Value = serde_json::from_str(&list).unwrap();
        assert_eq!(list["data"][0]["id"], "storyteller");
        for (name, status) in [("storyteller", 200), ("gpt-4o", 200), ("storyteller%20", 404), ("..%2f", 404)]
        {
            assert_eq!(get(&app, &format!("/v1/models/{name}")).await.0, status, "{name}");
        }
        let request = |name: &str| json!({ "model": name, "prompt": "Once", "max_tokens": 1 });
        assert_eq!(ask(&app, COMPLETIONS, request("gpt-4o")).await["model"], "gpt-4o");
        let (status, error) = post(&app, COMPLETIONS, request("other")).await;
        assert_eq!((status, &error["error"]["code"]), (404, &json!("model_not_found")));
    });
}

#[test]
fn embeddings_have_length_one_and_do_not_depend_on_company() {
    run(async {
        let app = app();
        let path = "/v1/embeddings";
        let vector = |v: &Value, i: usize| -> Vec<f64> {
            v["data"][i]["embedding"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
        };
        let alone = ask(&app, path, json!({ "input": "The fox ran into the wood." })).await;
        let many =
            json!({ "input": ["A king.", "The fox ran into the wood.", "The fox ran into the woods."] });
        let many = ask(&app, path, many).await;
        assert_eq!(vector(&alone, 0), vector(&many, 1));
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        let of = |i| vector(&many, i);
        assert!((dot(&of(1), &of(1)) - 1.0).abs() < 1e-5);
        assert!(dot(&of(1), &of(2)) > dot(&of(1), &of(0)));
        let packed = ask(&app, path, json!({ "input": [[5, 6], [7]], "encoding_format": "base64" })).await;
        assert_eq!(packed["data"][1]["embedding"].as_str().unwrap().len(), (of(0).len() * 4).div_ceil(3) * 4);
        assert_eq!(packed["usage"]["prompt_tokens"], 3);
        // The first components of a vector form the shortened vector.
        let short = json!({ "input": "The fox ran into the wood.", "dimensions": 4 });
        let (short, whole) = (vector(&ask(&app, path, short).await, 0), vector(&alone, 0));
        assert!(short.len() == 4 && (dot(&short, &short) - 1.0).abs() < 1e-5);
        assert!((dot(&short, &whole[..4]) - dot(&whole[..4], &whole[..4]).sqrt()).abs() < 1e-5);
    });
}

#[test]
fn vectors_do_not_depend_on_how_a_text_is_cut() {
    run(async {
        let text = "A king had three daughters, and the youngest of them was so fair that the sun wondered. "
            .repeat(3);
        let input = json!({ "input": [text, "A king had three daughters."] });
        let mut seen = Vec::new();
        for (_, pooling) in Pooling::NAMES {
            let of = async |step_tokens| {
                let worker = WorkerOptions { step_tokens, ..worker_options() };
                let log = Log::new(LogFormat::Json, Box::new(Lines::default())).unwrap();
                let model = Model { pooling, ..model(worker) };
                let app = App::start(vec![model], ServerOptions::default(), log).unwrap();
                // The second time parts of it could come from the prefix cache.
                let first = ask(&app, "/v1/embeddings", input.clone()).await["data"].clone();
                assert_eq!(first, ask(&app, "/v1/embeddings", input.clone()).await["data"]);
                first
            };
            let whole = of(256).await;
            assert_eq!(whole, of(7).await, "{pooling}");
            seen.push(whole);
        }
        assert!(seen[0] != seen[1] && seen[1] != seen[2] && seen[0] != seen[2]);
    });
}

#[test]
fn forms_are_the_same_on_any_number_of_threads() {
    run(async {
        let body = |seed: i32| {
            let schema = json!({ "type": "object", "required": ["name", "age"], "additionalProperties": false,
                "properties": { "name": { "type": "string", "maxLength": 12 }, "age": { "type": "integer", "maximum": 99 } } });
            let format = json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema } });
            json!({ "prompt": "Who is it? ", "response_format": format, "max_tokens": 80, "seed": seed, "n": 4 })
        };
        let mut answers = Vec::new();
        for threads in [1, 3] {
            let cpu = Arc::new(Cpu::new(Tier::best(), threads).unwrap());
            let log = Log::new(LogFormat::Json, Box::new(Lines::default())).unwrap();
            let model = Model { cpus: vec![cpu], ..model(worker_options()) };
            let app = App::start(vec![model], ServerOptions::default(), log).unwrap();
            let (a, b) = tokio::join!(ask(&app, COMPLETIONS, body(1)), ask(&app, COMPLETIONS, body(2)));
            let texts: Vec<Value> =
                [a, b].iter().flat_map(|v| v["choices"].as_array().unwrap().clone()).collect();
            assert!(texts.iter().any(|c| c["finish_reason"] == "stop"));
            answers.push(texts);
        }
        assert_eq!(answers[0], answers[1]);
    });
}

#[test]
fn max_tokens_are_clipped_to_the_context_and_prompts_are_not() {
    run(async {
        let app = app();
        let tokens = |n: usize| json!({ "prompt": vec![5; n], "max_tokens": 100_000, "ignore_eos": true });
        let answer = ask(&app, COMPLETIONS, tokens(500)).await;
        assert_eq!(answer["usage"]["completion_tokens"], 13);
        assert_eq!(answer["choices"][0]["finish_reason"], "length");
        assert_eq!(ask(&app, COMPLETIONS, tokens(512)).await["usage"]["completion_tokens"], 1);
        for _ in 0..3 {
            let (status, error) = post(&app, COMPLETIONS, tokens(513)).await;
            assert_eq!((status, &error["error"]["code"]), (400, &json!("context_length_exceeded")));
            assert_eq!(error["error"]["param"], "prompt");
        }
        // The error has the name that clients know.
        let chat = json!({ "messages": [{ "role": "user", "content": "hi ".repeat(2000) }] });
        let embedding = json!({ "input": [vec![5; 3], vec![5; 600]] });
        for (path, body, what) in [
            (
                COMPLETIONS,
                tokens(513),
                "your prompt resulted in 513 tokens. Please reduce the length of the prompt.",
            ),
            (CHAT, chat, "your messages resulted in "),
            (
                EMBEDDINGS,
                embedding,
                "your input[1] resulted in 600 tokens. Please reduce the length of the input[1].",
            ),
        ] {
            let (status, error) = post(&app, path, body).await;
            assert_eq!((status, &error["error"]["code"]), (400, &json!("context_length_exceeded")));
            let message = error["error"]["message"].as_str().unwrap();
            let words = format!("This model's maximum context length is 512 tokens. However, {what}");
            assert!(message.starts_with(&words), "{message}");
        }
    });
}
