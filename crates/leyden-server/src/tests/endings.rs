//! Ends of answers, and the content that the client gets.

use super::tools::{THINKS, app_of, chat};
use super::{CHAT, COMPLETIONS, app, ask, events, post, run, story};
use crate::app::App;
use serde_json::{Value, json};

fn text(answer: &Value) -> &str {
    answer["choices"][0]["text"].as_str().unwrap()
}

fn with(mut body: Value, more: Value) -> Value {
    let (Value::Object(all), Value::Object(more)) = (&mut body, more) else { panic!("objects") };
    all.extend(more);
    body
}

/// Returns the ids of tokens that are not valid UTF-8.
fn pieces_of_characters(app: &App) -> Vec<u32> {
    let t = app.models.served()[0].tokenizer.clone();
    let is_piece = |id: &u32| t.token_bytes(*id).is_some_and(|b| std::str::from_utf8(b).is_err());
    (0..t.vocab_size() as u32).filter(is_piece).collect()
}

#[test]
fn the_chosen_token_is_among_the_probabilities_and_pieces_have_names() {
    run(async {
        let app = app();
        let piece = pieces_of_characters(&app)[0];
        let byte = app.models.served()[0].tokenizer.token_bytes(piece).unwrap()[0];
        let bias = json!({ piece.to_string(): 100 });
        let common = json!({ "max_tokens": 3, "temperature": 0, "logit_bias": bias });
        for (wanted, len) in [(0, 1), (2, 3), (5, 6)] {
            let body = with(common.clone(), json!({ "prompt": "Once", "logprobs": wanted }));
            let answer = ask(&app, COMPLETIONS, body).await;
            let shown = &answer["choices"][0]["logprobs"];
            for i in 0..3 {
                let (token, top) = (&shown["tokens"][i], shown["top_logprobs"][i].as_object().unwrap());
                assert_eq!(token, &json!(format!("bytes:\\x{byte:02x}")));
                assert_eq!((top.len(), &top[token.as_str().unwrap()]), (len, &shown["token_logprobs"][i]));
            }
        }
        let messages = json!([{ "role": "user", "content": "Once" }]);
        for wanted in [0, 1, 2] {
            let body = json!({ "messages": messages, "logprobs": true, "top_logprobs": wanted });
            let answer = ask(&app, CHAT, with(common.clone(), body)).await;
            for token in answer["choices"][0]["logprobs"]["content"].as_array().unwrap() {
                assert_eq!(
                    (&token["token"], &token["bytes"]),
                    (&json!(format!("\\x{byte:02x}")), &json!([byte]))
                );
                let top = token["top_logprobs"].as_array().unwrap();
                assert_eq!(top.len(), wanted);
                let own =
                    top.iter().any(|t| t["token"] == token["token"] && t["logprob"] == token["logprob"]);
                assert!(own || wanted == 0, "{token}");
            }
        }
    });
}

#[test]
fn offsets_count_characters_of_the_text() {
    run(async {
        let app = app();
        let tokens = ask(&app, "/tokenize", json!({ "prompt": "é", "add_special_tokens": false })).await;
        assert!(tokens["count"].as_u64().unwrap() >= 1);
        let pieces = pieces_of_characters(&app);
        let body = json!({ "prompt": "The king", "max_tokens": 6, "temperature": 0, "logprobs": 1, "echo": false,
            "logit_bias": { pieces[0].to_string(): 3 } });
        let answer = ask(&app, COMPLETIONS, body).await;
        let shown = &answer["choices"][0]["logprobs"];
        let offsets: Vec<u64> =
            shown["text_offset"].as_array().unwrap().iter().map(|o| o.as_u64().unwrap()).collect();
        assert_eq!((offsets[0], offsets.is_sorted(), offsets.len()), (0, true, 6), "{shown}");
        assert!(offsets[5] <= text(&answer).chars().count() as u64);
    });
}

#[test]
fn the_prompt_is_not_what_the_model_repeats() {
    run(async {
        let app = app();
        let body = json!({ "prompt": "Once upon a time there was a king. Once upon a time there was a", "max_tokens": 1,
            "temperature": 0 });
        let free = ask(&app, COMPLETIONS, body.clone()).await;
        for penalty in ["presence_penalty", "frequency_penalty"] {
            let got = ask(&app, COMPLETIONS, with(body.clone(), json!({ penalty: 2 }))).await;
            assert_eq!(text(&got), text(&free), "{penalty}");
            // The penalty applies to all generated tokens: none is repeated.
            let more = json!({ penalty: 2, "max_tokens": 60, "ignore_eos": true, "logprobs": 0, "repeat_penalty": 1 });
            let got = ask(&app, COMPLETIONS, with(body.clone(), more)).await;
            let plain = json!({ "max_tokens": 60, "ignore_eos": true, "logprobs": 0 });
            let plain = ask(&app, COMPLETIONS, with(body.clone(), plain)).await;
            let different = |answer: &Value| {
                let tokens = answer["choices"][0]["logprobs"]["tokens"].as_array().unwrap();
                let mut names: Vec<&str> = tokens.iter().map(|t| t.as_str().unwrap()).collect();
                names.sort_unstable();
                names.dedup();
                names.len()
            };
            assert!(different(&got) > different(&plain), "{penalty}");
        }
        // A repetition penalty applies to the prompt, too.
        let hard = ask(&app, COMPLETIONS, with(body, json!({ "repetition_penalty": 100 }))).await;
        assert_ne!(text(&hard), text(&free));
    });
}

#[test]
fn tokens_end_answers_and_the_least_tokens_keep_them_going() {
    run(async {
        let app = app();
        let free = ask(&app, COMPLETIONS, with(story(2, 40), json!({ "logprobs": 0 }))).await;
        let names = free["choices"][0]["logprobs"]["tokens"].as_array().unwrap();
        // The first token at the end of a word, by its id.
        let t = app.models.served()[0].tokenizer.clone();
        let ids: Vec<u32> = names
            .iter()
            .map(|n| {
                (0..t.vocab_size() as u32)
                    .find(|id| t.token_bytes(*id) == n.as_str().map(str::as_bytes))
                    .unwrap()
            })
            .collect();
        let at = ids.iter().enumerate().position(|(i, id)| i > 3 && !ids[..i].contains(id)).unwrap();
        let stop = json!({ "stop_token_ids": [ids[at]] });
        let stopped = ask(&app, COMPLETIONS, with(story(2, 40), stop.clone())).await;
        assert!(text(&free).starts_with(text(&stopped)));
        assert_eq!(
            (&stopped["choices"][0]["finish_reason"], &stopped["usage"]["completion_tokens"]),
            (&json!("stop"), &json!(at))
        );
        let included = with(stop.clone(), json!({ "include_stop_str_in_output": true }));
        let included = ask(&app, COMPLETIONS, with(story(2, 40), included)).await;
        assert_eq!(included["usage"]["completion_tokens"], json!(at + 1));
        assert!(text(&free).starts_with(text(&included)) && text(&included).len() > text(&stopped).len());
        let later = with(stop, json!({ "min_tokens": at + 5 }));
        let later = ask(&app, COMPLETIONS, with(story(2, 40), later)).await;
        assert!(later["usage"]["completion_tokens"].as_u64().unwrap() >= at as u64 + 5, "{later}");
        // Stop strings within the minimum have no effect; after it they have.
        let word = text(&free).split_whitespace().nth(2).unwrap();
        let body = json!({ "stop": word, "min_tokens": 12 });
        let got = ask(&app, COMPLETIONS, with(story(2, 40), body)).await;
        assert!(got["usage"]["completion_tokens"].as_u64().unwrap() >= 12, "{got}");
        let body = json!({ "stop": word, "include_stop_str_in_output": true });
        let got = ask(&app, COMPLETIONS, with(story(2, 40), body)).await;
        assert!(text(&got).ends_with(word), "{got}");
        // The model's end token.
        let end = t.eos().unwrap();
        let ends = json!({ "prompt": "Once", "max_tokens": 9, "logit_bias": { end.to_string(): 100 } });
        let at_once = ask(&app, COMPLETIONS, ends.clone()).await;
        assert_eq!((text(&at_once), &at_once["choices"][0]["finish_reason"]), ("", &json!("stop")));
        let five = ask(&app, COMPLETIONS, with(ends.clone(), json!({ "min_tokens": 5 }))).await;
        assert_eq!(five["usage"]["completion_tokens"], 5);
        let (status, error) = post(&app, COMPLETIONS, with(ends, json!({ "min_tokens": 10 }))).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!("min_tokens")));
    });
}

#[test]
fn no_tokens_are_an_answer_too() {
    run(async {
        let app = app();
        let body = json!({ "prompt": ["The king", "A fox"], "max_tokens": 0, "echo": true });
        let answer = ask(&app, COMPLETIONS, body.clone()).await;
        for (i, echo) in ["The king", "A fox"].into_iter().enumerate() {
            let choice = &answer["choices"][i];
            assert_eq!((&choice["text"], &choice["finish_reason"]), (&json!(echo), &json!("length")));
        }
        assert_eq!(answer["usage"]["completion_tokens"], 0);
        let pieces = events(&app, COMPLETIONS, body).await;
        let ends = pieces.iter().filter(|p| p["choices"][0]["finish_reason"] == "length").count();
        let said: String = pieces.iter().filter_map(|p| p["choices"][0]["text"].as_str()).collect();
        assert!(ends == 2 && said.len() == "The kingA fox".len(), "{pieces:?}");
    });
}

#[test]
fn many_choices_and_the_best_of_them() {
    run(async {
        let app = app();
        let body = json!({ "prompt": "Once", "max_tokens": 4, "seed": 1, "temperature": 1.5, "n": 9, "logprobs": 0 });
        let nine = ask(&app, COMPLETIONS, body.clone()).await;
        let choices = nine["choices"].as_array().unwrap();
        assert_eq!(choices.len(), 9);
        let mean = |c: &Value| {
            let all = c["logprobs"]["token_logprobs"].as_array().unwrap();
            all.iter().map(|p| p.as_f64().unwrap()).sum::<f64>() / all.len().max(1) as f64
        };
        let mut by_mean: Vec<&Value> = choices.iter().collect();
        by_mean.sort_by(|a, b| mean(b).total_cmp(&mean(a)));
        let best = ask(&app, COMPLETIONS, with(body.clone(), json!({ "n": 2, "best_of": 9 }))).await;
        for (i, choice) in best["choices"].as_array().unwrap().iter().enumerate() {
            assert_eq!((&choice["index"], &choice["text"]), (&json!(i), &by_mean[i]["text"]));
        }
        assert_eq!((best["choices"].as_array().unwrap().len(), &best["usage"]), (2, &nine["usage"]));
        let plain = json!({ "prompt": "Once", "max_tokens": 2, "best_of": 3 });
        assert!(ask(&app, COMPLETIONS, plain).await["choices"][0]["logprobs"].is_null());
        for wrong in [json!({ "n": 3, "best_of": 2 }), json!({ "n": 1, "best_of": 2, "stream": true })] {
            let (status, error) = post(&app, COMPLETIONS, with(body.clone(), wrong)).await;
            assert_eq!((status, &error["error"]["param"]), (400, &json!("best_of")));
        }
        let many = json!({ "prompt": vec!["x"; 5], "n": 128, "max_tokens": 1 });
        let (status, error) = post(&app, COMPLETIONS, many).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!("n")), "{error}");
        let messages = json!([{ "role": "user", "content": "x" }]);
        let chats = ask(&app, CHAT, json!({ "messages": messages, "max_tokens": 1, "n": 40 })).await;
        assert_eq!(chats["choices"].as_array().unwrap().len(), 40);
    });
}

/// Stop strings and log probabilities apply to content; here everything is reasoning, and there nothing is.
#[test]
fn thoughts_are_not_cut_by_stops() {
    run(async {
        let app = app_of(THINKS);
        let body = |thinks: bool, more: Value| {
            let body = json!({
                "messages": [{ "role": "user", "content": "Why?" }], "max_tokens": 30, "seed": 2, "ignore_eos": true,
                "logprobs": true, "chat_template_kwargs": { "enable_thinking": thinks },
            });
            with(body, more)
        };
        let free = ask(&app, CHAT, body(true, json!({}))).await;
        let thought = free["choices"][0]["message"]["reasoning_content"].as_str().unwrap().to_owned();
        let word = thought.split_whitespace().nth(3).unwrap();
        let same = ask(&app, CHAT, body(true, json!({ "stop": word }))).await;
        assert_eq!(same["choices"][0]["message"], free["choices"][0]["message"]);
        assert_eq!(same["choices"][0]["finish_reason"], "length");
        assert_eq!(same["choices"][0]["logprobs"]["content"], json!([]));
        let said = ask(&app, CHAT, body(false, json!({}))).await;
        assert_eq!(said["choices"][0]["logprobs"]["content"].as_array().unwrap().len(), 30);
        let said = said["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
        let word = said.split_whitespace().nth(3).unwrap();
        let cut = ask(&app, CHAT, body(false, json!({ "stop": word }))).await;
        assert_eq!(cut["choices"][0]["message"]["content"], said[..said.find(word).unwrap()]);
        assert_eq!(cut["choices"][0]["finish_reason"], "stop");
    });
}

fn long_call(more: Value) -> Value {
    let parameters = json!({ "type": "object", "required": ["of"], "additionalProperties": false,
        "properties": { "of": { "type": "string", "minLength": 20, "maxLength": 60 } } });
    let tool = json!({ "type": "function", "function": { "name": "find", "parameters": parameters } });
    chat(with(json!({ "tools": [tool], "tool_choice": "required" }), more))
}

#[test]
fn calls_that_are_cut_leave_no_marks_and_no_call_that_looks_whole() {
    run(async {
        let app = app_of(THINKS);
        for tokens in (1..40).step_by(3) {
            let answer = ask(&app, CHAT, long_call(json!({ "max_tokens": tokens }))).await;
            let choice = &answer["choices"][0];
            if choice["finish_reason"] == "tool_calls" {
                continue;
            }
            assert_eq!(choice["finish_reason"], "length", "{answer}");
            assert!(choice["message"]["content"].as_str().is_none_or(str::is_empty), "{answer}");
        }
        // A stop string within the arguments is part of them.
        let whole = ask(&app, CHAT, long_call(json!({ "parallel_tool_calls": false }))).await;
        let stop = json!({ "parallel_tool_calls": false, "stop": ["\"of\"", "e", " "] });
        let same = ask(&app, CHAT, long_call(stop)).await;
        let function = |answer: &Value| answer["choices"][0]["message"]["tool_calls"][0]["function"].clone();
        assert_eq!(
            (function(&same), &same["choices"][0]["finish_reason"]),
            (function(&whole), &json!("tool_calls"))
        );
    });
}

#[test]
fn a_call_is_streamed_as_it_is_written() {
    run(async {
        let app = app_of(THINKS);
        for seed in 0..3 {
            let body = long_call(json!({ "seed": seed, "parallel_tool_calls": false, "temperature": 1 }));
            let whole = ask(&app, CHAT, body.clone()).await;
            let call = &whole["choices"][0]["message"]["tool_calls"][0];
            let pieces = events(&app, CHAT, body).await;
            let calls: Vec<&Value> = pieces
                .iter()
                .map(|p| &p["choices"][0]["delta"]["tool_calls"][0])
                .filter(|c| !c.is_null())
                .collect();
            let first = calls[0];
            assert_eq!((&first["type"], &first["index"]), (&json!("function"), &json!(0)));
            assert_eq!(first["function"], json!({ "name": "find", "arguments": "" }));
            let joined: String = calls.iter().map(|c| c["function"]["arguments"].as_str().unwrap()).collect();
            assert_eq!(joined, call["function"]["arguments"]);
            // Unread updates are merged, except for the name.
            assert!(calls.len() > 1, "{calls:?}");
            assert!(calls[1..].iter().all(|c| c.get("id").is_none() && c["function"].get("name").is_none()));
        }
    });
}
