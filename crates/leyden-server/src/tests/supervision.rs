//! Failures within the server: panics in a step, full queues, closing.

use super::{COMPLETIONS, app, ask, at_rest, events, get, post, run, start, story, until, worker_options};
use crate::{ServerOptions, WorkerOptions};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// A panic in a step fails the running requests; after that the server works as before.
#[test]
fn a_panic_fails_a_step_and_the_server_goes_on() {
    run(async {
        let wanted = ask(&app(), COMPLETIONS, story(1, 12)).await["choices"][0]["text"].clone();
        let worker = WorkerOptions { panic_token: Some(77), parallel: 4, ..worker_options() };
        let (app, lines) = start(worker, ServerOptions::default());
        for round in 1..=3 {
            let running = {
                let app = Arc::clone(&app);
                tokio::spawn(async move { events(&app, COMPLETIONS, story(5, 400)).await })
            };
            let m = super::metrics(&app);
            until("it runs", || m.running.get() > 0 || running.is_finished()).await;
            let (status, answer) =
                post(&app, COMPLETIONS, json!({ "prompt": [77, 5], "max_tokens": 4 })).await;
            assert_eq!((status, answer["error"]["code"].as_str()), (500, Some("internal_error")), "{answer}");
            let told = running.await.unwrap();
            let last: &Value = told.last().unwrap();
            assert!(
                last["error"]["code"] == "internal_error" || last["choices"][0]["finish_reason"] == "length"
            );
            assert_eq!(
                ask(&app, COMPLETIONS, story(1, 12)).await["choices"][0]["text"],
                wanted,
                "round {round}"
            );
            assert_eq!(m.restarts.get(), round);
        }
        until("all is free", || at_rest(&app)).await;
        assert_eq!(get(&app, "/health").await.0, 200);
        until("the log tells it", || lines.text().contains("engine_restart")).await;
    });
}

#[test]
fn requests_that_take_too_long_end() {
    run(async {
        let options = ServerOptions { request_time: Duration::from_millis(1), ..ServerOptions::default() };
        let (app, _) = start(worker_options(), options);
        let (status, answer) = post(&app, COMPLETIONS, story(1, 400)).await;
        assert_eq!((status, answer["error"]["code"].as_str()), (503, Some("deadline_exceeded")), "{answer}");
        until("all is free", || at_rest(&app)).await;
    });
}

#[test]
fn a_full_queue_is_said_to_be_full() {
    run(async {
        let worker = WorkerOptions { parallel: 1, queue: 2, queue_per_key: 2, ..worker_options() };
        let (app, _) = start(worker, ServerOptions::default());
        let mut all = tokio::task::JoinSet::new();
        for i in 0..12 {
            let app = Arc::clone(&app);
            all.spawn(async move {
                let response =
                    app.respond(super::request("POST", COMPLETIONS, &story(i, 60).to_string())).await;
                (response.status().as_u16(), response.headers().contains_key("retry-after"))
            });
        }
        let answers = all.join_all().await;
        assert!(answers.iter().all(|a| [(200, false), (429, true)].contains(a)), "{answers:?}");
        assert!(answers.contains(&(429, true)) && answers.contains(&(200, false)), "{answers:?}");
        let m = super::metrics(&app);
        let refused = answers.iter().filter(|a| a.0 == 429).count() as u64;
        assert_eq!(m.refused[0].get() + m.refused[1].get(), refused);
    });
}

/// A request with more choices than the queue has places is served: its choices are queued as places become free.
#[test]
fn choices_wait_for_places() {
    run(async {
        let worker = WorkerOptions { parallel: 2, queue: 2, queue_per_key: 2, ..worker_options() };
        let (app, _) = start(worker, ServerOptions::default());
        let m = super::metrics(&app);
        let mut many = story(1, 4);
        many["n"] = 8.into();
        many["prompt"] = vec!["The king and the"; 3].into();
        let answer = ask(&app, COMPLETIONS, many.clone()).await;
        let choices = answer["choices"].as_array().unwrap();
        assert_eq!(choices.len(), 24);
        assert!(choices.iter().all(|c| c["finish_reason"] == "length"), "{choices:?}");
        // Another is served beside it, and each goes on from where it was.
        let texts: Vec<String> = (0..150).map(|i| format!("Text number {i}")).collect();
        let batch = json!({ "input": texts });
        let (batch, other) = tokio::join!(ask(&app, super::EMBEDDINGS, batch), ask(&app, COMPLETIONS, many));
        assert_eq!(other["choices"], answer["choices"]);
        assert_eq!(batch["data"].as_array().unwrap().len(), 150);
        for i in [0, 77, 149] {
            let alone = ask(&app, super::EMBEDDINGS, json!({ "input": texts[i] })).await;
            assert_eq!(batch["data"][i]["embedding"], alone["data"][0]["embedding"], "{i}");
        }
        assert_eq!((m.refused[0].get(), m.refused[1].get()), (0, 0));
        // A disconnected client's queued choices are removed.
        let mut long = story(1, 400);
        (long["n"], long["stream"]) = (8.into(), true.into());
        let response = app.respond(super::request("POST", COMPLETIONS, &long.to_string())).await;
        until("they wait", || m.waiting.get() == 6 && m.running.get() == 2).await;
        drop(response);
        until("nothing of it is left", || at_rest(&app)).await;
        // The shutdown ends them, too.
        let events = {
            let app = Arc::clone(&app);
            tokio::spawn(async move { events(&app, COMPLETIONS, long).await })
        };
        until("they wait", || m.waiting.get() == 6 && m.running.get() == 2).await;
        app.end_requests();
        assert_eq!(events.await.unwrap().last().unwrap()["error"]["code"], "server_closing");
        until("nothing of it is left", || at_rest(&app)).await;
    });
}
