//! Models that are loaded when a request names them.

use super::{COMPLETIONS, Lines, get, model, patience, post, run, until, worker_options};
use crate::app::App;
use crate::log::{Log, LogFormat};
use crate::metrics::ModelMetrics;
use crate::service::{Loaded, Service};
use crate::{Changed, OnDemand, ServerOptions};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Returns the storyteller under another name, with a counter of its loads.
fn on_demand(name: &str, idle: Option<Duration>, loads: &Arc<AtomicUsize>) -> OnDemand {
    let (given, loads) = (name.to_owned(), Arc::clone(loads));
    OnDemand {
        name: name.to_owned(),
        aliases: vec![format!("{name}-alias")],
        adapters: Vec::new(),
        info: model(worker_options()).info,
        abilities: crate::Abilities::of(model(worker_options()).network.config()),
        context: 512,
        least_bytes: model(worker_options()).bytes(),
        idle,
        preload: false,
        describe: Arc::new(|| Err("nobody asks".to_owned())),
        load: Arc::new(move |available| {
            loads.fetch_add(1, Ordering::SeqCst);
            assert!(available.is_none_or(|bytes| bytes >= model(worker_options()).bytes()));
            if given == "broken" {
                return Err("/a/path: cannot be read".to_owned());
            }
            Ok(crate::Model { name: given.clone(), aliases: Vec::new(), ..model(worker_options()) }.into())
        }),
    }
}

fn app(names: &[&str], idle: Option<Duration>, room: f64) -> (Arc<App>, Arc<AtomicUsize>, Lines) {
    let (lines, loads) = (Lines::default(), Arc::default());
    let log = Log::new(LogFormat::Json, Box::new(lines.clone())).unwrap();
    let memory = Some((model(worker_options()).bytes() as f64 * room) as u64);
    let on_demand = names.iter().map(|name| on_demand(name, idle, &loads)).collect();
    let options = ServerOptions { on_demand, memory, ..ServerOptions::default() };
    (App::start(Vec::new(), options, log).unwrap(), loads, lines)
}

fn completion(name: &str) -> Value {
    json!({ "model": name, "prompt": "Once", "max_tokens": 4, "seed": 1 })
}

async fn loaded(app: &Arc<App>) -> Vec<String> {
    let all: Value = serde_json::from_str(&get(app, "/api/ps").await.1).unwrap();
    all["models"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap().to_owned()).collect()
}

/// Waits until no model is loaded.
async fn until_unloaded(app: &Arc<App>) {
    let limit = Instant::now() + patience();
    while !loaded(app).await.is_empty() {
        assert!(Instant::now() < limit, "a model stays in memory");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn a_model_comes_when_it_is_named_and_goes_when_others_need_the_room() {
    run(async {
        let (app, loads, _) = app(&["a", "b", "c"], None, 2.5);
        let (status, list) = get(&app, "/v1/models").await;
        assert!(status == 200 && list.contains("\"unloaded\"") && !list.contains("\"loaded\""), "{list}");
        assert!(loaded(&app).await.is_empty());
        for (name, there) in
            [("a", vec!["a"]), ("b", vec!["a", "b"]), ("a-alias", vec!["a", "b"]), ("c", vec!["a", "c"])]
        {
            let (status, answer) = post(&app, COMPLETIONS, completion(name)).await;
            assert_eq!(status, 200, "{answer}");
            assert_eq!(loaded(&app).await, there, "after {name}");
        }
        assert_eq!(loads.load(Ordering::SeqCst), 3);
        let (status, answer) = post(&app, COMPLETIONS, completion("d")).await;
        assert!(status == 404 && answer.to_string().contains("a, a-alias, b"), "{answer}");
        let (_, page) = get(&app, "/metrics").await;
        assert!(page.contains("leyden_model_loads_total 3") && page.contains("leyden_model_unloads_total 1"));
    });
}

#[test]
fn an_idle_model_goes_and_one_in_use_does_not() {
    run(async {
        let (app, ..) = app(&["a"], Some(Duration::from_millis(1)), 1.5);
        let tend = tokio::spawn(Arc::clone(&app.models).tend());
        let slot = app.models.find(Some("a")).unwrap();
        let lease = app.models.lease(&slot).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(loaded(&app).await, ["a"]);
        // `keep_alive` as Ollama's clients send it: minutes for this model.
        lease.keep(Some(Duration::from_secs(600)));
        drop(lease);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(loaded(&app).await, ["a"]);
        let now = json!({ "model": "a:latest", "keep_alive": 0 });
        let (status, answer) = post(&app, "/api/generate", now).await;
        assert_eq!(
            (status, &answer["done_reason"], &answer["model"]),
            (200, &json!("unload"), &json!("a:latest"))
        );
        until_unloaded(&app).await;
        // In the other dialects too, for a request that is answered.
        let body = json!({ "model": "a", "prompt": "Once", "max_tokens": 1, "keep_alive": "0s" });
        assert_eq!(post(&app, COMPLETIONS, body).await.0, 200);
        until_unloaded(&app).await;
        let body = json!({ "model": "a", "prompt": "Once", "keep_alive": "soon" });
        assert_eq!(post(&app, COMPLETIONS, body).await.0, 400);
        // A model that is not loaded is not loaded only to be unloaded.
        let loads = app.models.counts().0;
        for body in [
            json!({ "model": "a", "keep_alive": "0s" }),
            json!({ "model": "a", "keep_alive": 0, "messages": [] }),
        ] {
            let (status, answer) = post(&app, "/api/chat", body).await;
            assert_eq!((status, &answer["done_reason"]), (200, &json!("unload")), "{answer}");
        }
        assert_eq!(app.models.counts().0, loads);
        tend.abort();
    });
}

#[test]
fn who_cannot_be_loaded_says_so_to_the_client_and_why_to_the_log() {
    run(async {
        let (app, _, lines) = app(&["broken"], None, 1.5);
        let (status, answer) = post(&app, COMPLETIONS, completion("broken")).await;
        let answer = answer.to_string();
        assert!(
            status == 503 && answer.contains("model_load_failed") && !answer.contains("/a/path"),
            "{answer}"
        );
        app.log().flush();
        assert!(lines.text().contains("/a/path: cannot be read"), "{}", lines.text());
        let (small, ..) = self::app(&["a"], None, 0.5);
        let (status, answer) = post(&small, COMPLETIONS, completion("a")).await;
        assert!(status == 507 && answer["error"]["code"] == "model_too_large", "{answer}");
    });
}

#[test]
fn models_come_and_go_on_the_disk() {
    run(async {
        let (app, loads, _) = app(&["a"], None, 1.5);
        // A model in use is unloaded when its last request has ended; its name means the new model at once.
        for round in 0..20 {
            let slot = app.models.find(Some("a")).unwrap();
            let lease = app.models.lease(&slot).await.unwrap();
            let new = vec![on_demand("a", None, &loads)];
            app.models.apply(Changed { gone: vec!["a".to_owned()], new }).unwrap();
            assert!(loaded(&app).await.is_empty(), "{round}");
            drop((lease, slot));
            assert_eq!(post(&app, COMPLETIONS, completion("a")).await.0, 200);
        }
        assert_eq!(loads.load(Ordering::SeqCst), 21);
        app.models.apply(Changed { gone: vec!["a".to_owned()], new: Vec::new() }).unwrap();
        assert_eq!(post(&app, COMPLETIONS, completion("a")).await.0, 404);
        // No entry of a removed model is left.
        until("no entry is left", || app.models.places() == (0, 2)).await;
    });
}

#[test]
fn an_unknown_name_and_a_list_look_at_the_disk() {
    run(async {
        let loads: Arc<AtomicUsize> = Arc::default();
        let (looks, shelf) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let list: crate::Lister = {
            let (looks, shelf) = (Arc::clone(&looks), Arc::clone(&shelf));
            Arc::new(move || {
                looks.fetch_add(1, Ordering::SeqCst);
                shelf.lock().unwrap().pop().unwrap_or_default()
            })
        };
        let on_demand_first = vec![on_demand("a", None, &loads)];
        let options =
            ServerOptions { on_demand: on_demand_first, list: Some(list), ..ServerOptions::default() };
        let log = Log::new(LogFormat::Off, Box::new(Lines::default())).unwrap();
        let app = App::start(Vec::new(), options, log).unwrap();
        assert_eq!(post(&app, COMPLETIONS, completion("a")).await.0, 200);
        assert_eq!(looks.load(Ordering::SeqCst), 0, "a known name costs nothing");
        let comes = |name| Changed { gone: Vec::new(), new: vec![on_demand(name, None, &loads)] };
        shelf.lock().unwrap().push(comes("b"));
        assert_eq!(post(&app, COMPLETIONS, completion("b")).await.0, 200);
        for (name, path) in [("c", "/v1/models"), ("d", "/models"), ("e", "/api/tags"), ("f", "/v1/models/f")]
        {
            shelf.lock().unwrap().push(comes(name));
            let (status, answer) = get(&app, path).await;
            assert!(status == 200 && answer.contains(&format!("\"{name}\"")), "{path}: {answer}");
        }
        shelf.lock().unwrap().push(Changed { gone: vec!["c".to_owned()], new: Vec::new() });
        assert!(!get(&app, "/api/tags").await.1.contains("\"c\""));
    });
}

/// Twenty clients of three models of which only one fits: every request gets the same answer as alone.
#[test]
fn twenty_clients_of_models_that_do_not_fit_together_are_all_answered() {
    run(async {
        let (app, loads, _) = app(&["a", "b", "c"], None, 1.5);
        let alone = post(&app, COMPLETIONS, completion("a")).await.1;
        let clients = (0..20).map(|client| {
            let app = Arc::clone(&app);
            tokio::spawn(async move {
                for i in 0..6 {
                    let name = ["a", "b", "c"][(client + i) % 3];
                    let (status, answer) = post(&app, COMPLETIONS, completion(name)).await;
                    assert_eq!(status, 200, "{answer}");
                    assert_eq!(answer["model"], name);
                }
            })
        });
        for client in clients.collect::<Vec<_>>() {
            client.await.unwrap();
        }
        let after = post(&app, COMPLETIONS, completion("a")).await.1;
        assert_eq!(after["choices"], alone["choices"]);
        assert_eq!(loaded(&app).await.len(), 1);
        assert!(loads.load(Ordering::SeqCst) >= 3);
    });
}

/// Model that is no language model.
#[derive(Debug)]
struct Tone {
    metrics: Arc<ModelMetrics>,
    ended: Arc<AtomicUsize>,
}

impl Service for Tone {
    fn reserved_bytes(&self) -> u64 {
        model(worker_options()).bytes() / 2
    }

    fn used_bytes(&self) -> u64 {
        7
    }

    fn context(&self) -> usize {
        0
    }

    fn metrics(&self) -> Vec<Arc<ModelMetrics>> {
        vec![Arc::clone(&self.metrics)]
    }

    fn is_alive(&self) -> bool {
        true
    }

    fn end_requests(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_model_of_another_kind_is_loaded_measured_and_unloaded_like_others() {
    run(async {
        let (loads, ended): (Arc<AtomicUsize>, Arc<AtomicUsize>) = Default::default();
        let of_tone = Arc::clone(&ended);
        let tone = OnDemand {
            load: Arc::new(move |_| {
                let tone = Tone { metrics: Arc::default(), ended: Arc::clone(&of_tone) };
                Ok(Loaded::new(|_| Ok(tone)))
            }),
            least_bytes: 1,
            ..on_demand("tone", None, &loads)
        };
        let log = Log::new(LogFormat::Json, Box::new(Lines::default())).unwrap();
        let memory = Some(model(worker_options()).bytes() * 5 / 4);
        let options = ServerOptions {
            on_demand: vec![tone, on_demand("a", None, &loads)],
            memory,
            ..ServerOptions::default()
        };
        let app = App::start(Vec::new(), options, log).unwrap();
        let (status, error) = post(&app, COMPLETIONS, completion("tone")).await;
        assert_eq!((status, &error["error"]["code"]), (400, &json!("unsupported_model")), "{error}");
        assert_eq!(loaded(&app).await, ["tone"]);
        let (_, all) = get(&app, "/api/ps").await;
        assert!(all.contains("\"size\":7"), "{all}");
        let (_, page) = get(&app, "/metrics").await;
        assert!(page.contains("vllm:num_requests_running{model_name=\"tone\"} 0"), "{page}");
        app.end_requests();
        assert_eq!(ended.load(Ordering::SeqCst), 1);
        // It makes room for a language model.
        assert_eq!(post(&app, COMPLETIONS, completion("a")).await.0, 200);
        assert_eq!(loaded(&app).await, ["a"]);
    });
}
