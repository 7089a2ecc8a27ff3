//! Answers with a draft model.

use super::{CHAT, COMPLETIONS, Lines, ask, get, model, run, story, worker_options};
use crate::app::App;
use crate::log::{Log, LogFormat};
use crate::{Model, ServerOptions, WorkerOptions};
use leyden_tensor::Gguf;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

const SMALL: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../leyden-engine/tests/fixtures/storyteller-q4_0.gguf");

fn start(speculate: bool) -> Arc<App> {
    let model = model(WorkerOptions { speculate, ..worker_options() });
    let file = Arc::new(Gguf::open(Path::new(SMALL)).unwrap());
    let draft = leyden_models::load(file, &model.cpus[0], &mut |_, _| {}).unwrap();
    let model = Model { draft: Some(draft), ..model };
    let log = Log::new(LogFormat::Json, Box::new(Lines::default())).unwrap();
    App::start(vec![model], ServerOptions::default(), log).unwrap()
}

#[test]
fn a_draft_model_changes_no_text_and_is_counted() {
    run(async {
        let (plain, drafting) = (start(false), start(true));
        let mut drafted = 0;
        for seed in 0..6 {
            let mut body = story(seed, 60);
            body["temperature"] = json!(if seed % 2 == 0 { 0.0 } else { 0.9 });
            body["logprobs"] = json!(2);
            let want = ask(&plain, COMPLETIONS, body.clone()).await;
            let got = ask(&drafting, COMPLETIONS, body).await;
            assert_eq!(want["choices"], got["choices"], "seed {seed}");
            let details = |answer: &Value, key: &str| {
                answer["usage"]["completion_tokens_details"][key].as_u64().unwrap()
            };
            assert_eq!(details(&want, "accepted_prediction_tokens"), 0);
            assert!(want["timings"].get("draft_n").is_none());
            let (right, wrong) =
                (details(&got, "accepted_prediction_tokens"), details(&got, "rejected_prediction_tokens"));
            if right + wrong > 0 {
                assert_eq!(got["timings"]["draft_n"], right + wrong);
                assert_eq!(got["timings"]["draft_n_accepted"], right);
            }
            drafted += right + wrong;
        }
        let metrics = get(&drafting, "/metrics").await.1;
        let line = metrics.lines().find(|line| line.starts_with("leyden_guessed_tokens_total{")).unwrap();
        assert!(line.ends_with(&format!(" {drafted}")), "{line} {drafted}");
        // A grammar and several choices, at the same time.
        let body = json!({
            "model": "storyteller", "messages": [{ "role": "user", "content": "Once" }], "max_tokens": 40, "n": 3, "seed": 5,
            "response_format": { "type": "json_schema", "json_schema": { "name": "x", "schema": {
                "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"],
            } } },
        });
        let (want, got) = (ask(&plain, CHAT, body.clone()).await, ask(&drafting, CHAT, body).await);
        assert_eq!(want["choices"], got["choices"]);
    });
}
