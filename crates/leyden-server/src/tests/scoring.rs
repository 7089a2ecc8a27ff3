//! `echo` with `logprobs`: log probabilities of the prompt.

use super::{COMPLETIONS, EMBEDDINGS, app, ask, events, loaded, metrics, post, run, start, worker_options};
use crate::{ServerOptions, WorkerOptions};
use leyden_text::Special;
use serde_json::{Value, json};

fn list<'a>(choice: &'a Value, name: &str) -> &'a Vec<Value> {
    choice["logprobs"][name].as_array().unwrap()
}

/// The request that evaluations make: nothing but the prompt's own log probabilities.
fn score(prompt: &Value) -> Value {
    json!({ "prompt": prompt, "max_tokens": 0, "echo": true, "logprobs": 2 })
}

#[test]
fn a_text_is_scored_as_it_was_generated() {
    run(async {
        let app = app();
        let said = json!({ "prompt": "Once upon a time", "max_tokens": 40, "seed": 3, "logprobs": 2, "ignore_eos": true,
            "echo": true, "temperature": 1.2 });
        let said = ask(&app, COMPLETIONS, said).await["choices"][0].clone();
        let prompt = ask(&app, "/tokenize", json!({ "prompt": "Once upon a time" })).await;
        let count = prompt["count"].as_u64().unwrap() as usize;
        let text = said["text"].as_str().unwrap();
        assert!(text.starts_with("Once upon a time") && text.len() > 40, "{text}");
        for name in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
            assert_eq!(list(&said, name).len(), count + 40, "{name}");
        }
        // The first token has no log probability.
        assert_eq!(
            (&list(&said, "token_logprobs")[0], &list(&said, "top_logprobs")[0]),
            (&Value::Null, &Value::Null)
        );
        for (own, top) in list(&said, "token_logprobs").iter().zip(list(&said, "top_logprobs")).skip(1) {
            let top: Vec<f64> = top.as_object().unwrap().values().map(|p| p.as_f64().unwrap()).collect();
            assert!((2..=3).contains(&top.len()) && top.contains(&own.as_f64().unwrap()));
        }
        // A token's text is at its offset.
        let characters: Vec<char> = text.chars().collect();
        for (token, offset) in list(&said, "tokens").iter().zip(list(&said, "text_offset")).skip(count) {
            let token: Vec<char> = token.as_str().unwrap().chars().collect();
            let at = offset.as_u64().unwrap() as usize;
            if !token.starts_with(&['b', 'y', 't', 'e', 's', ':']) {
                assert_eq!(characters[at..at + token.len().min(characters.len() - at)], token[..], "{said}");
            }
        }
        // The same tokens as a prompt have bitwise equal log probabilities.
        let mut ids: Vec<u64> =
            prompt["tokens"].as_array().unwrap().iter().map(|t| t.as_u64().unwrap()).collect();
        let tokenizer = loaded().2;
        for name in &list(&said, "tokens")[count..] {
            let known = (0..tokenizer.vocab_size() as u32).rev().find(|id| {
                tokenizer
                    .token_bytes(*id)
                    .is_some_and(|b| crate::token_name::key(b) == name.as_str().unwrap())
            });
            ids.push(u64::from(known.unwrap()));
        }
        let scored = ask(&app, COMPLETIONS, score(&json!(ids))).await;
        assert_eq!(scored["usage"]["completion_tokens"], 0);
        let scored = &scored["choices"][0];
        assert_eq!((&scored["logprobs"], &scored["text"]), (&said["logprobs"], &said["text"]));
        assert_eq!(scored["finish_reason"], "length");
    });
}

#[test]
fn scores_do_not_depend_on_chunks_company_or_cache() {
    run(async {
        let texts: Vec<String> =
            (0..5).map(|i| format!("The king had {i} daughters. ").repeat(6 + 4 * i)).collect();
        let one = app();
        let mut wanted = Vec::new();
        for text in &texts {
            wanted.push(ask(&one, COMPLETIONS, score(&json!(text))).await["choices"][0]["logprobs"].clone());
        }
        let small = WorkerOptions { step_tokens: 13, ..worker_options() };
        let (many, _) = start(small, ServerOptions::default());
        // The second time the prefixes are in the cache.
        for app in [&many, &many, &one] {
            let all = ask(app, COMPLETIONS, score(&json!(texts))).await;
            for (i, wanted) in wanted.iter().enumerate() {
                assert_eq!(all["choices"][i]["logprobs"], *wanted, "text {i}");
            }
        }
        assert_eq!(metrics(&many).generated_tokens.get(), 0);
        // Streamed and followed by an answer, whose tokens are those without `echo`.
        let body = json!({ "prompt": texts, "max_tokens": 3, "echo": true, "logprobs": 2, "temperature": 0 });
        let whole = ask(&many, COMPLETIONS, body.clone()).await;
        let mut pieces = vec![(String::new(), Vec::new(), Vec::new()); texts.len()];
        for piece in events(&many, COMPLETIONS, body).await {
            for choice in piece["choices"].as_array().unwrap() {
                let (text, told, offsets) = &mut pieces[choice["index"].as_u64().unwrap() as usize];
                text.push_str(choice["text"].as_str().unwrap());
                told.extend_from_slice(list(choice, "token_logprobs"));
                offsets.extend_from_slice(list(choice, "text_offset"));
            }
        }
        for (i, (text, told, offsets)) in pieces.iter().enumerate() {
            let choice = &whole["choices"][i];
            assert_eq!(
                (choice["text"].as_str().unwrap(), list(choice, "token_logprobs")),
                (text.as_str(), told)
            );
            assert_eq!(list(choice, "text_offset"), offsets);
            let scored = wanted[i]["token_logprobs"].as_array().unwrap();
            assert_eq!(told[..scored.len()], scored[..]);
        }
    });
}

/// Programs that read log probabilities by position need one for each token, also for the one that ends the answer.
#[test]
fn the_token_that_ends_an_answer_is_told_of() {
    run(async {
        let app = app();
        let end = loaded().2.eos().unwrap();
        let body = json!({ "prompt": "Once", "max_tokens": 5, "logit_bias": { end.to_string(): 100 }, "logprobs": 1 });
        let answer = ask(&app, COMPLETIONS, body.clone()).await;
        let choice = &answer["choices"][0];
        assert_eq!((&choice["text"], &choice["finish_reason"]), (&json!(""), &json!("stop")));
        assert_eq!((list(choice, "tokens").len(), &answer["usage"]["completion_tokens"]), (1, &json!(0)));
        let count = loaded().2.encode("Once", Special::AsText).unwrap().len();
        let mut echo = body;
        echo["echo"] = true.into();
        let echo = ask(&app, COMPLETIONS, echo).await["choices"][0].clone();
        assert!(list(&echo, "tokens").len() > count);
        assert_eq!(list(&echo, "tokens").last(), list(choice, "tokens").last());
        assert_eq!(list(&echo, "text_offset").last(), Some(&json!(4)));
    });
}

#[test]
fn scores_are_bounded_and_vectors_need_no_token() {
    run(async {
        let app = app();
        // 500 tokens with 21 probabilities each, of 128 choices, are more than a million.
        let body = json!({ "prompt": vec![5; 500], "max_tokens": 1, "echo": true, "logprobs": 20, "n": 128 });
        let (status, error) = post(&app, COMPLETIONS, body).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!("logprobs")), "{error}");
        // The prompt fills the context: there is no room for a new token, and none is needed.
        let full = ask(&app, COMPLETIONS, score(&json!(vec![5; 512]))).await;
        assert_eq!(list(&full["choices"][0], "token_logprobs").len(), 512);
        ask(&app, EMBEDDINGS, json!({ "input": [vec![5; 512], vec![6; 3]] })).await;
        assert_eq!(metrics(&app).generated_tokens.get(), 0);
    });
}
