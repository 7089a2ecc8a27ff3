//! Paths and fields of other servers, on the storyteller.

use super::{CHAT, COMPLETIONS, EMBEDDINGS, app, ask, events, get, post, run};
use serde_json::{Value, json};

#[test]
fn each_piece_says_what_was_used_where_that_is_asked_for() {
    run(async {
        let app = app();
        let messages = json!([{ "role": "user", "content": "Once upon a time" }]);
        for (path, body) in
            [(COMPLETIONS, json!({ "prompt": "Once upon a time" })), (CHAT, json!({ "messages": messages }))]
        {
            let mut body = body;
            (body["max_tokens"], body["ignore_eos"], body["seed"]) = (json!(240), json!(true), json!(1));
            let used = async |options: Value| {
                let mut body = body.clone();
                body["stream_options"] = options;
                let events = events(&app, path, body).await;
                events.into_iter().map(|event| event["usage"].clone()).collect::<Vec<Value>>()
            };
            let always = used(json!({ "include_usage": true, "continuous_usage_stats": true })).await;
            let counts: Vec<u64> = always.iter().map(|u| u["completion_tokens"].as_u64().unwrap()).collect();
            assert!(counts.is_sorted() && counts.last() == Some(&240), "{path} {counts:?}");
            assert!(always.iter().all(|u| u["prompt_tokens"] == always[0]["prompt_tokens"]), "{path}");
            assert!(counts[0] < 240 && counts.len() > 3, "{path} {counts:?}");
            let at_end = used(json!({ "include_usage": true })).await;
            let (last, others) = at_end.split_last().unwrap();
            assert!(others.iter().all(Value::is_null) && last["completion_tokens"] == 240, "{path}");
            for options in [json!({}), json!({ "continuous_usage_stats": true }), Value::Null] {
                assert!(used(options).await.iter().all(Value::is_null), "{path}");
            }
        }
    });
}

#[test]
fn prompts_are_cut_as_vllm_cuts_them() {
    run(async {
        let app = app();
        let ids: Vec<u32> = (300..340).collect();
        let text = async |prompt: Value, more: Value| {
            let mut body = json!({ "prompt": prompt, "max_tokens": 5, "temperature": 0, "echo": true });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let answer = ask(&app, COMPLETIONS, body).await;
            (answer["choices"][0]["text"].clone(), answer["usage"]["prompt_tokens"].clone())
        };
        let whole = text(json!(ids), json!({})).await;
        assert_eq!(text(json!(ids), json!({ "truncate_prompt_tokens": 100 })).await, whole);
        assert_eq!(text(json!(ids), json!({ "truncate_prompt_tokens": -1 })).await, whole);
        let end = text(json!(ids[30..]), json!({})).await;
        assert_eq!(text(json!(ids), json!({ "truncate_prompt_tokens": 10 })).await, end);
        let begin = text(json!(ids[..10]), json!({})).await;
        let cut = json!({ "truncate_prompt_tokens": 10, "truncation_side": "right" });
        assert_eq!(text(json!(ids), cut).await, begin);
        // A prompt that is too long is truncated at the beginning, and leaves room for the answer.
        let long = "the king ".repeat(2000);
        assert_eq!(post(&app, COMPLETIONS, json!({ "prompt": long, "max_tokens": 5 })).await.0, 400);
        let body =
            json!({ "prompt": long, "max_tokens": 5, "truncate_prompt_tokens": -1, "ignore_eos": true });
        let usage = ask(&app, COMPLETIONS, body).await["usage"].clone();
        assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&json!(507), &json!(5)));
        let messages = json!([{ "role": "user", "content": long }]);
        let body = json!({ "messages": messages, "max_tokens": 5, "truncate_prompt_tokens": 9 });
        assert_eq!(ask(&app, CHAT, body).await["usage"]["prompt_tokens"], 9);
        // Texts for embeddings are truncated at the end.
        let body = json!({ "input": long, "truncate_prompt_tokens": 9 });
        assert_eq!(ask(&app, EMBEDDINGS, body).await["usage"]["prompt_tokens"], 9);
    });
}

#[test]
fn seed_minus_one_is_any() {
    run(async {
        let app = app();
        let seed = async |body: Value| ask(&app, COMPLETIONS, body).await["seed"].as_i64().unwrap();
        let any = json!({ "prompt": "Once", "max_tokens": 1, "seed": -1 });
        let (one, other) = (seed(any.clone()).await, seed(any).await);
        assert!(one != other && one != -1, "{one} {other}");
        assert_eq!(seed(json!({ "prompt": "Once", "max_tokens": 1, "seed": -2 })).await, -2);
    });
}

#[test]
fn media_are_refused_by_what_they_are() {
    run(async {
        let app = app();
        let user =
            |part: &Value| json!([{ "role": "user", "content": [{ "type": "text", "text": "x" }, part] }]);
        let input = |part: &Value| json!([{ "role": "user", "content": [{ "type": "input_text", "text": "x" }, part] }]);
        let picture = json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,AA==" } });
        let sound = json!({ "type": "input_audio", "input_audio": { "data": "", "format": "wav" } });
        let film = json!({ "type": "video_url", "video_url": { "url": "https://x" } });
        let file = json!({ "type": "file", "file": { "file_id": "x" } });
        let seen =
            json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "" } });
        let looked = json!({ "type": "input_image", "image_url": "https://x" });
        let result = json!({ "type": "tool_result", "tool_use_id": "a", "content": [seen] });
        for (path, body, at, what) in [
            (CHAT, json!({ "messages": user(&picture) }), "messages[0].content[1].type", "images"),
            (CHAT, json!({ "messages": user(&sound) }), "messages[0].content[1].type", "audio"),
            (CHAT, json!({ "messages": user(&film) }), "messages[0].content[1].type", "videos"),
            (CHAT, json!({ "messages": user(&file) }), "messages[0].content[1].type", "files"),
            (
                CHAT,
                json!({ "messages": [{ "role": "user", "content": [picture] }] }),
                "messages[0].content[0].type",
                "images",
            ),
            (
                "/v1/messages",
                json!({ "max_tokens": 2, "messages": user(&seen) }),
                "messages[0].content[1].type",
                "images",
            ),
            (
                "/v1/messages",
                json!({ "max_tokens": 2, "messages": user(&result) }),
                "messages[0].content[1].content[0].type",
                "images",
            ),
            ("/v1/responses", json!({ "input": input(&looked) }), "input[0].content[1].type", "images"),
            (
                "/v2/embed",
                json!({ "inputs": [{ "content": [picture] }] }),
                "inputs[0].content[0].type",
                "images",
            ),
        ] {
            let verb = if what == "audio" { "is" } else { "are" };
            let (status, answer) = post(&app, path, body).await;
            let message =
                answer["error"]["message"].as_str().or(answer["message"].as_str()).unwrap_or_default();
            assert_eq!(
                (status, message),
                (
                    400,
                    &*format!(
                        "`{at}`: {what} {verb} not supported: the models of this server read text only"
                    )
                )
            );
        }
    });
}

#[test]
fn bare_paths_answer_as_llama_server_does() {
    run(async {
        let app = app();
        let messages = json!([{ "role": "user", "content": "Once" }]);
        let chat = json!({ "messages": messages, "max_tokens": 4, "seed": 1 });
        let (with, without) =
            (ask(&app, CHAT, chat.clone()).await, ask(&app, "/chat/completions", chat.clone()).await);
        assert_eq!(with["choices"], without["choices"]);
        for path in ["/chat/completions/input_tokens", "/v1/chat/completions/input_tokens"] {
            assert_eq!(ask(&app, path, chat.clone()).await["input_tokens"], with["usage"]["prompt_tokens"]);
        }
        let completion = json!({ "prompt": "Once", "n_predict": 4, "seed": 1 });
        let (one, same) =
            (ask(&app, "/completion", completion.clone()).await, ask(&app, "/completions", completion).await);
        assert!(one["content"].is_string() && one["content"] == same["content"]);
        for path in ["/v1/health", "/models", "/models/storyteller"] {
            assert_eq!(get(&app, path).await.0, 200, "{path}");
        }
        assert_eq!(get(&app, "/models").await.1, get(&app, "/v1/models").await.1);
        // Vectors in a list, normalised or not.
        let plain = ask(&app, EMBEDDINGS, json!({ "input": ["Once", "The king"] })).await;
        let plain: Vec<&Value> =
            plain["data"].as_array().unwrap().iter().map(|one| &one["embedding"]).collect();
        for (path, body) in [
            ("/embedding", json!({ "content": ["Once", "The king"] })),
            ("/embeddings", json!({ "input": ["Once", "The king"], "embd_normalize": 2 })),
        ] {
            let wanted =
                json!([{ "index": 0, "embedding": [plain[0]] }, { "index": 1, "embedding": [plain[1]] }]);
            assert_eq!(ask(&app, path, body).await, wanted, "{path}");
        }
        let raw = ask(&app, "/embedding", json!({ "content": "Once", "embd_normalize": -1 })).await;
        assert_ne!(raw[0]["embedding"][0], *plain[0]);
        for body in [
            json!({}),
            json!({ "content": "a", "input": "b" }),
            json!({ "content": "a", "embd_normalize": 1 }),
        ] {
            assert_eq!(post(&app, "/embedding", body).await.0, 400);
        }
        // Tokens of `content` as in llama-server, without those for beginning and end unless requested.
        let tokens = ask(&app, "/tokenize", json!({ "content": "Once upon" })).await;
        let whole = ask(&app, "/tokenize", json!({ "content": "Once upon", "add_special": true })).await;
        let ours = ask(&app, "/tokenize", json!({ "prompt": "Once upon" })).await;
        assert_eq!((&whole["tokens"], whole.as_object().unwrap().len()), (&ours["tokens"], 1));
        let pieces = ask(&app, "/tokenize", json!({ "content": "Once upon", "with_pieces": true })).await;
        let pieces = pieces["tokens"].as_array().unwrap();
        let ids: Vec<&Value> = pieces.iter().map(|piece| &piece["id"]).collect();
        assert_eq!(json!(ids), tokens["tokens"]);
        let text: String = pieces.iter().filter_map(|piece| piece["piece"].as_str()).collect();
        assert_eq!(text.trim_start(), "Once upon");
    });
}

#[test]
fn cohere_gets_vectors_by_type() {
    run(async {
        let app = app();
        let plain = ask(&app, EMBEDDINGS, json!({ "input": ["Once", "The king"] })).await;
        let plain: Vec<Value> =
            plain["data"].as_array().unwrap().iter().map(|one| one["embedding"].clone()).collect();
        let packed = ask(&app, EMBEDDINGS, json!({ "input": ["Once"], "encoding_format": "base64" })).await;
        let body =
            json!({ "model": "storyteller", "input_type": "search_document", "texts": ["Once", "The king"] });
        let answer = ask(&app, "/v2/embed", body.clone()).await;
        assert_eq!(answer["embeddings"], json!({ "float": plain }));
        assert_eq!(
            (&answer["response_type"], &answer["texts"]),
            (&json!("embeddings_by_type"), &body["texts"])
        );
        assert!(answer["meta"]["billed_units"]["input_tokens"].as_u64().unwrap() > 2, "{answer}");
        let mut all = body.clone();
        all["embedding_types"] = json!(["ubinary", "binary", "base64"]);
        let answer = ask(&app, "/v2/embed", all).await;
        assert_eq!(answer["embeddings"]["base64"][0], packed["data"][0]["embedding"]);
        let signs: u8 = (0..8).map(|i| u8::from(plain[0][i].as_f64().unwrap() > 0.0) << (7 - i)).sum();
        assert_eq!(answer["embeddings"]["ubinary"][0][0], signs);
        assert_eq!(answer["embeddings"]["binary"][0][0], i16::from(signs) - 128);
        let answer = ask(&app, "/v1/embed", json!({ "texts": ["Once", "The king"] })).await;
        assert_eq!(
            (&answer["embeddings"], &answer["response_type"]),
            (&json!(plain), &json!("embeddings_floats"))
        );
        let parts = json!([{ "content": [{ "type": "text", "text": "Once" }] }]);
        let answer = ask(&app, "/v2/embed", json!({ "inputs": parts, "input_type": "search_query" })).await;
        assert_eq!(answer["embeddings"]["float"][0], plain[0]);
        let long = "the king ".repeat(2000);
        for (truncate, status) in [("END", 200), ("START", 200), ("NONE", 400)] {
            let body = json!({ "texts": [long], "truncate": truncate });
            assert_eq!(post(&app, "/v2/embed", body).await.0, status, "{truncate}");
        }
        for wrong in [
            json!({ "texts": ["x"], "embedding_types": ["int8"] }),
            json!({ "texts": ["x"], "input_type": "poem" }),
            json!({ "texts": ["x"], "images": ["data:"] }),
            json!({}),
        ] {
            let (status, answer) = post(&app, "/v2/embed", wrong).await;
            assert!(status == 400 && answer["message"].is_string(), "{answer}");
        }
    });
}
