//! Compilation of grammars only delays requests that need a grammar.

use super::{CHAT, COMPLETIONS, app, ask, at_rest, emulated, events, post, run, story, until};
use crate::fair_semaphore::{FairSemaphore, WorkKind};
use leyden_engine::schedule::KeyId;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

fn with_grammar(kind: &str, value: &str) -> Value {
    json!({
        "messages": [{ "role": "user", "content": "The king" }], "max_tokens": 20, "seed": 1,
        "grammar": { "type": kind, "value": value },
    })
}

/// The test itself decides how long compilation takes.
#[test]
fn grammars_that_wait_for_their_turn_hold_nobody_up() {
    run(async {
        let app = app();
        let known = with_grammar("regex", "[a-z]{3}");
        ask(&app, CHAT, known.clone()).await;
        let semaphore = app.grammar_compiling.acquire_all().await;
        let mut waiting = tokio::task::JoinSet::new();
        for i in 1..=40 {
            let app = Arc::clone(&app);
            let body = with_grammar("regex", &format!("[0-9]{{{i}}}"));
            waiting.spawn(async move { post(&app, CHAT, body).await.0 });
        }
        until("all wait", || app.grammar_compiling.waiting(KeyId(0)) == 40).await;
        // Streams, whole answers, tokens, and a grammar that was compiled before.
        let told = events(&app, COMPLETIONS, story(1, 60)).await;
        assert_eq!(told.last().unwrap()["choices"][0]["finish_reason"], "length");
        for i in 0..20 {
            ask(&app, COMPLETIONS, story(i, 2)).await;
            ask(&app, "/tokenize", json!({ "prompt": "The king" })).await;
        }
        ask(&app, CHAT, known).await;
        assert!(waiting.try_join_next().is_none() && app.grammar_compiling.waiting(KeyId(0)) == 40);
        drop(semaphore);
        assert_eq!(waiting.join_all().await, [200; 40]);
        until("all is free", || at_rest(&app)).await;
    });
}

/// Compiles grammars at the limit of complexity, one after the other, during a stream.
#[test]
fn a_stream_goes_on_beside_hard_grammars() {
    run(async {
        let app = app();
        let wanted = ask(&app, COMPLETIONS, story(3, 40)).await["choices"][0]["text"].clone();
        let stop = Arc::new(AtomicBool::new(false));
        let compiled = Arc::new(AtomicUsize::new(0));
        let mut floods = tokio::task::JoinSet::new();
        for flood in 0..6 {
            let (app, stop, compiled) = (Arc::clone(&app), Arc::clone(&stop), Arc::clone(&compiled));
            floods.spawn(async move {
                let mut round = 0;
                while !stop.load(Ordering::Relaxed) {
                    let words = if emulated() { 20 } else { 400 };
                    let words: Vec<String> = (0..words).map(|i| format!("{flood}x{round}y{i}z*")).collect();
                    let bomb = match flood % 3 {
                        0 => with_grammar("regex", &words.join("|")),
                        1 => with_grammar("lark", &format!("start: (\"a\" | \"{flood}.{round}\"){{1,1000}}")),
                        _ => with_grammar(
                            "gbnf",
                            &format!("root ::= ((\"{flood}.{round}\"{{1,1000}}){{1,1000}}){{1,1000}}"),
                        ),
                    };
                    let (status, answer) = post(&app, CHAT, bomb).await;
                    assert!([200, 400, 422].contains(&status), "{answer}");
                    compiled.fetch_add(1, Ordering::Relaxed);
                    round += 1;
                }
            });
        }
        until("grammars are being compiled", || compiled.load(Ordering::Relaxed) > 0).await;
        for _ in 0..3 {
            let pieces = events(&app, COMPLETIONS, story(3, 40)).await;
            let text: String = pieces.iter().map(|e| e["choices"][0]["text"].as_str().unwrap()).collect();
            assert_eq!(wanted, text);
        }
        stop.store(true, Ordering::Relaxed);
        floods.join_all().await;
        until("all is free", || at_rest(&app)).await;
    });
}

#[test]
fn keys_take_turns() {
    run(async {
        for processors in [1, 4] {
            let semaphore = Arc::new(FairSemaphore::new(WorkKind::grammars(processors), true));
            let held = semaphore.acquire_all().await;
            let order = Arc::new(Mutex::new(Vec::new()));
            let far = Instant::now() + Duration::from_secs(3600);
            let mut all = tokio::task::JoinSet::new();
            for (key, many) in [(1, 40), (2, 1), (3, 1)] {
                for _ in 0..many {
                    let (semaphore, order) = (Arc::clone(&semaphore), Arc::clone(&order));
                    all.spawn(async move {
                        let permit = semaphore.acquire(KeyId(key), far).await.unwrap();
                        order.lock().unwrap().push(key);
                        drop(permit);
                    });
                }
                until("they wait", || semaphore.waiting(KeyId(key)) == many).await;
                // The first request of the key waits in the queue of all keys.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            drop(held);
            all.join_all().await;
            let order = order.lock().unwrap();
            let before = |key| order.iter().position(|k| *k == key).unwrap();
            assert!(before(2) <= 1 && before(3) <= 2, "{processors}: {order:?}");
        }
    });
}

#[test]
fn waiting_for_a_turn_has_its_limits() {
    run(async {
        let semaphore = Arc::new(FairSemaphore::new(WorkKind::grammars(2), false));
        let held = semaphore.acquire_all().await;
        let key = KeyId(0);
        let late = semaphore.acquire(key, Instant::now()).await.unwrap_err();
        assert_eq!((late.status.as_u16(), late.code), (503, "deadline_exceeded"));
        let far = Instant::now() + Duration::from_secs(3600);
        let mut all = tokio::task::JoinSet::new();
        for _ in 0..200 {
            let semaphore = Arc::clone(&semaphore);
            all.spawn(
                async move { semaphore.acquire(key, far).await.map(drop).map_err(|e| e.status.as_u16()) },
            );
        }
        let mut refused = 0;
        while refused < 200 - 128 {
            assert_eq!(all.join_next().await.unwrap().unwrap(), Err(429));
            refused += 1;
        }
        assert_eq!(semaphore.waiting(key), 128);
        // Requests of disconnected clients wait no more.
        all.shutdown().await;
        assert_eq!(semaphore.waiting(key), 0);
        drop(held);
        assert!(semaphore.acquire(key, far).await.is_ok());
    });
}
