//! Several engines of one model.

use super::{COMPLETIONS, Lines, app, ask, get, model, run, story, until, worker_options};
use crate::app::App;
use crate::log::{Log, LogFormat};
use crate::metrics::ModelMetrics;
use crate::{Model, ServerOptions};
use leyden_kernels::{Cpu, Tier};
use serde_json::{Value, json};
use std::sync::Arc;

fn with_engines(n: usize) -> Arc<App> {
    let cpus = (0..n).map(|_| Arc::new(Cpu::new(Tier::best(), 1).unwrap())).collect();
    let log = Log::new(LogFormat::Json, Box::new(Lines::default())).unwrap();
    let model = Model { cpus, ..model(worker_options()) };
    App::start(vec![model], ServerOptions::default(), log).unwrap()
}

fn of_each<T>(app: &App, read: impl Fn(&ModelMetrics) -> T) -> Vec<T> {
    app.models.served()[0].replicas.metrics().map(|m| read(m)).collect()
}

/// The texts of many requests at the same time.
async fn texts(app: &Arc<App>, requests: usize) -> Vec<Value> {
    let ask_one = |i| {
        let app = Arc::clone(app);
        tokio::spawn(async move { ask(&app, COMPLETIONS, story(i, 40)).await["choices"][0]["text"].clone() })
    };
    let mut all = Vec::new();
    for answer in (0..requests).map(ask_one).collect::<Vec<_>>() {
        all.push(answer.await.unwrap());
    }
    all
}

#[test]
fn engines_share_requests_and_answers_are_the_same() {
    run(async {
        let wanted = texts(&app(), 16).await;
        let app = with_engines(3);
        assert_eq!(texts(&app, 16).await, wanted);
        let finished = of_each(&app, |m| m.finished.iter().map(|f| f.get()).sum::<u64>());
        assert!(finished.iter().sum::<u64>() == 16 && finished.iter().all(|n| *n > 0), "{finished:?}");
        let page = get(&app, "/metrics").await.1;
        for i in 0..3 {
            let series = |more: &str| format!("{{model_name=\"storyteller\",engine=\"{i}\"{more}}} ");
            assert!(page.contains(&format!("vllm:num_requests_running{}", series(""))), "{page}");
            assert!(
                page.contains(&format!("leyden_step_seconds_bucket{}", series(",le=\"+Inf\""))),
                "{page}"
            );
        }
        // With one engine its index is not shown.
        assert!(!get(&super::app(), "/metrics").await.1.contains("engine="));
    });
}

/// The continuation of a prompt goes to the engine that has its prefix cached, unless that is overloaded.
#[test]
fn a_conversation_stays_with_its_engine() {
    run(async {
        let app = with_engines(3);
        let mut prompts: Vec<Vec<u32>> =
            (0..6).map(|i| (0..200).map(|k| 100 + k % 90 + i * 7).collect()).collect();
        for turn in 0..4 {
            for prompt in &mut prompts {
                let body = json!({ "prompt": prompt, "max_tokens": 2 });
                let cached =
                    ask(&app, COMPLETIONS, body).await["usage"]["prompt_tokens_details"]["cached_tokens"]
                        .clone();
                assert!(turn == 0 || cached.as_u64().unwrap() >= 192, "turn {turn}: {cached}");
                prompt.extend((0..40).map(|k| 300 + k));
            }
        }
        // Many requests with a common prefix are spread over all engines.
        let shared: Vec<u32> = (0..128).map(|k| 400 + k).collect();
        let before = of_each(&app, |m| m.steps.get());
        let ask_one = |i: u32| {
            let (app, mut prompt) = (Arc::clone(&app), shared.clone());
            prompt.push(i);
            let body = json!({ "prompt": prompt, "max_tokens": 100, "ignore_eos": true });
            tokio::spawn(async move { ask(&app, COMPLETIONS, body).await })
        };
        for answer in (100..124).map(ask_one).collect::<Vec<_>>() {
            answer.await.unwrap();
        }
        let after = of_each(&app, |m| m.steps.get());
        assert!(before.iter().zip(&after).all(|(before, after)| after > before), "{before:?} {after:?}");
        until("nothing is left", || {
            of_each(&app, |m| m.running.get() + m.waiting.get()).iter().all(|n| *n == 0)
        })
        .await;
    });
}

#[test]
fn a_model_needs_an_engine() {
    let log = Log::new(LogFormat::Json, Box::new(Lines::default())).unwrap();
    let none = Model { cpus: Vec::new(), ..model(worker_options()) };
    let error = App::start(vec![none], ServerOptions::default(), log).unwrap_err();
    assert_eq!(error.to_string(), "replicas: 0 engines, not 1 to 65534");
}
