//! Default values of request fields, in every dialect.

use super::{ask, model, post, run, worker_options};
use crate::app::App;
use crate::log::{Log, LogFormat};
use crate::{Defaults, ServerOptions};
use leyden_text::ChatTemplate;
use serde_json::{Value, json};
use std::sync::Arc;

const TEMPLATE: &str = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}";

fn app() -> Arc<App> {
    let messages =
        vec![json!({ "role": "user", "content": "Two?" }), json!({ "role": "assistant", "content": "2." })];
    let parameters = json!({ "num_predict": 3, "temperature": 0, "stop": "never said" });
    let (defaults, ignored) = Defaults::read(Some("Be brief.".to_owned()), &messages, &parameters).unwrap();
    assert!(ignored.is_empty());
    let template = Some(Arc::new(ChatTemplate::new(TEMPLATE, "", "", "test").unwrap()));
    let model = crate::Model { template, defaults, ..model(worker_options()) };
    let log = Log::new(LogFormat::Off, Box::new(std::io::sink())).unwrap();
    App::start(vec![model], ServerOptions::default(), log).unwrap()
}

#[test]
fn the_defaults_of_a_model_hold_in_every_dialect() {
    run(async {
        let app = app();
        let hello = json!([{ "role": "user", "content": "Hi" }]);
        let render = |messages: &Value| {
            let (app, body) = (Arc::clone(&app), json!({ "messages": messages }));
            async move { ask(&app, "/apply-template", body).await["prompt"].clone() }
        };
        assert_eq!(render(&hello).await, "[system:Be brief.][user:Two?][assistant:2.][user:Hi]");
        let own = json!([{ "role": "system", "content": "Own." }, { "role": "user", "content": "Hi" }]);
        assert_eq!(render(&own).await, "[system:Own.][user:Two?][assistant:2.][user:Hi]");
        // The prompt is the same, and so is its length, wherever it is counted.
        let count = ask(&app, "/tokenize", json!({ "messages": hello })).await["count"].clone();
        let cases = [
            (
                "/v1/chat/completions",
                json!({ "messages": hello }),
                "/usage/prompt_tokens",
                "/usage/completion_tokens",
            ),
            ("/v1/responses", json!({ "input": "Hi" }), "/usage/input_tokens", "/usage/output_tokens"),
            ("/api/chat", json!({ "messages": hello, "stream": false }), "/prompt_eval_count", "/eval_count"),
            (
                "/api/generate",
                json!({ "prompt": "Hi", "stream": false }),
                "/prompt_eval_count",
                "/eval_count",
            ),
        ];
        for (path, mut body, prompt, answer) in cases {
            body["model"] = "storyteller".into();
            let said = ask(&app, path, body).await;
            assert_eq!(said.pointer(prompt), Some(&count), "{path}: {said}");
            assert_eq!(said.pointer(answer), Some(&json!(3)), "{path}: {said}");
        }
        let counted = json!({ "model": "storyteller", "messages": hello, "max_tokens": 5 });
        for path in ["/v1/messages/count_tokens", "/v1/chat/completions/input_tokens"] {
            assert_eq!(ask(&app, path, counted.clone()).await["input_tokens"], count, "{path}");
        }
        // A value in the request overrides the default.
        let said = ask(&app, "/v1/messages", counted).await;
        assert_eq!((&said["usage"]["input_tokens"], &said["usage"]["output_tokens"]), (&count, &json!(5)));
        let said = ask(&app, "/v1/completions", json!({ "prompt": "Once", "max_tokens": 4 })).await;
        assert_eq!(said["usage"]["completion_tokens"], 4);
        let said = ask(&app, "/completion", json!({ "prompt": "Once" })).await;
        assert_eq!(said["tokens_predicted"], 3);
        let shown = ask(&app, "/api/show", json!({ "model": "storyteller" })).await;
        assert_eq!(shown["system"], "Be brief.");
        assert_eq!(shown["parameters"], "num_predict 3\ntemperature 0\nstop \"never said\"");
        let (status, answer) = post(&app, "/api/copy", json!({ "source": "x", "destination": "y" })).await;
        assert!(status == 403 && answer["error"].as_str().unwrap().contains("--allow-manage"), "{answer}");
    });
}
