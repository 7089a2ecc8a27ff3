//! Counters, logs, health.

use super::worker_options;
use super::{CHAT, COMPLETIONS, app, ask, events, get, post, request, run, start, story, until, whole};
use crate::ServerOptions;
use serde_json::json;
use std::time::Duration;

fn value(page: &str, series: &str) -> f64 {
    let line = page.lines().find(|l| l.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')));
    line.unwrap_or_else(|| panic!("{series} is missing")).rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn counters_count() {
    run(async {
        let app = app();
        let (_, mut before) = get(&app, "/metrics").await;
        // The number of blocks, a label, is known when the engine's thread has begun.
        while before.contains("num_gpu_blocks=\"0\"") {
            tokio::time::sleep(Duration::from_millis(1)).await;
            before = get(&app, "/metrics").await.1;
        }
        // All series exist from the start, so that rates can be computed from the beginning.
        let model = "{model_name=\"storyteller\"}";
        for name in [
            "vllm:num_requests_waiting",
            "vllm:num_requests_running",
            "vllm:kv_cache_usage_perc",
            "vllm:prompt_tokens_total",
            "vllm:generation_tokens_total",
            "vllm:prefix_cache_queries_total",
            "vllm:prefix_cache_hits_total",
            "vllm:time_to_first_token_seconds_count",
            "vllm:inter_token_latency_seconds_sum",
            "vllm:e2e_request_latency_seconds_count",
            "vllm:request_queue_time_seconds_count",
            "leyden_engine_restarts_total",
        ] {
            assert_eq!(value(&before, &format!("{name}{model}")), 0.0, "{name}");
        }
        let series: Vec<String> =
            before.lines().map(|l| l.rsplit_once(' ').map_or(l, |x| x.0).to_owned()).collect();
        let usage = ask(&app, COMPLETIONS, story(1, 10)).await["usage"].clone();
        events(&app, COMPLETIONS, story(2, 10)).await;
        let (_, page) = get(&app, "/metrics").await;
        assert_eq!(value(&page, &format!("vllm:generation_tokens_total{model}")), 20.0);
        let prompts = value(&page, &format!("vllm:prompt_tokens_total{model}"));
        assert_eq!(prompts, 2.0 * usage["prompt_tokens"].as_f64().unwrap());
        let labels = "{model_name=\"storyteller\",finished_reason=\"length\"}";
        assert_eq!(value(&page, &format!("vllm:request_success_total{labels}")), 2.0);
        assert_eq!(value(&page, &format!("vllm:inter_token_latency_seconds_count{model}")), 18.0);
        assert_eq!(value(&page, &format!("vllm:time_to_first_token_seconds_count{model}")), 2.0);
        assert!(value(&page, "leyden_http_responses_total{class=\"2xx\"}") >= 3.0);
        let after: Vec<String> =
            page.lines().map(|l| l.rsplit_once(' ').map_or(l, |x| x.0).to_owned()).collect();
        assert_eq!(series, after, "no series appears later");
    });
}

#[test]
fn logs_have_numbers_and_no_texts() {
    run(async {
        let (app, lines) = start(worker_options(), ServerOptions::default());
        let secret = "Kwyjibo";
        let request = json!({
            "messages": [{ "role": "user", "content": secret }], "max_tokens": 3, "user": secret, "ignore_eos": true,
        });
        ask(&app, CHAT, request.clone()).await;
        events(&app, CHAT, request).await;
        // A stream's line is written when its task has ended, just behind its last event.
        until("both lines", || lines.text().lines().count() == 2).await;
        post(&app, CHAT, json!({ "messages": [{ "role": secret, "content": secret }], secret: 1 })).await;
        get(&app, &format!("/{secret}")).await;
        until("all lines", || lines.text().lines().count() == 4).await;
        let log = lines.text();
        assert!(!log.contains(secret), "{log}");
        let parsed: Vec<serde_json::Value> = log.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(parsed.len(), 4);
        for (line, finish) in parsed.iter().zip([Some("length"), Some("length"), None, None]) {
            assert_eq!(line["finish"].as_str(), finish);
            assert!(line["total_ms"].is_number() && line["request"].is_string());
        }
        assert_eq!((&parsed[1]["completion_tokens"], &parsed[1]["status"]), (&json!(3), &json!(200)));
        assert_eq!(parsed[2]["status"], 400);
    });
}

#[test]
fn health_follows_the_server() {
    run(async {
        let app = app();
        assert_eq!(get(&app, "/health").await, (200, "{\"status\":\"ready\"}".to_owned()));
        app.close();
        assert_eq!(get(&app, "/health").await.0, 503);
        assert_eq!(get(&app, "/health/live").await.0, 200);
        let (status, error) = post(&app, COMPLETIONS, story(1, 1)).await;
        assert_eq!((status, error["error"]["code"].as_str()), (503, Some("server_closing")));
        assert_eq!(get(&app, "/version").await.0, 200);
    });
}

#[test]
fn the_page_is_whole_and_asks_nobody_else() {
    run(async {
        let app = app();
        for path in ["/", "/docs"] {
            let (status, page) = get(&app, path).await;
            assert_eq!(status, 200);
            // Every file that the page names is served.
            let names = page.split(['"', '\'']).filter_map(|part| part.strip_prefix("./"));
            let mut files = 0;
            for name in names {
                let (status, text) = get(&app, &format!("/{name}")).await;
                assert_eq!((status, text.is_empty()), (200, false), "{name}");
                files += 1;
            }
            assert_eq!(files, 2, "program and style");
            assert!(!page.contains("https://"), "{page}");
        }
    });
}

#[test]
fn models_are_found_by_all_their_names() {
    run(async {
        let app = app();
        let (_, list) = get(&app, "/v1/models/").await;
        let list: serde_json::Value = serde_json::from_str(&list).unwrap();
        let ids: Vec<_> = list["data"].as_array().unwrap().iter().map(|m| (&m["id"], &m["root"])).collect();
        let (name, alias) = (json!("storyteller"), json!("gpt-4o"));
        assert_eq!(ids, [(&name, &name), (&alias, &name)]);
        let (status, one) = get(&app, "/v1/models/gpt-4o").await;
        assert!(status == 200 && one.contains("\"id\":\"gpt-4o\""), "{one}");
        let (status, error) = post(&app, COMPLETIONS, json!({ "model": "gpt-5", "prompt": "x" })).await;
        let message = error["error"]["message"].as_str().unwrap();
        assert!(status == 404 && message.contains("storyteller, gpt-4o"), "{error}");
    });
}

#[test]
fn paths_are_read_with_tolerance() {
    run(async {
        let app = app();
        for (method, path, wanted) in [
            ("HEAD", "/health", 200),
            ("HEAD", "/v1/models?x=y", 200),
            ("HEAD", "/v1/models/storyteller/", 200),
            ("HEAD", "/metrics", 200),
            ("GET", "//v1/models?limit=2", 200),
            ("GET", "/v1/models/?", 200),
            ("POST", "//v1//completions/", 200),
            ("HEAD", "/v1/completions", 405),
            ("OPTIONS", "/v1/completions", 204),
            ("OPTIONS", "/nothing", 404),
        ] {
            let body = story(1, 1).to_string();
            let response = app.respond(request(method, path, &body)).await;
            assert_eq!(response.status().as_u16(), wanted, "{method} {path}");
            if matches!(wanted, 204 | 405) {
                assert_eq!(response.headers()["allow"], "POST, OPTIONS");
            }
        }
    });
}

#[test]
fn requests_have_ids_that_tell_nothing() {
    run(async {
        let app = app();
        let id = |given: Option<&'static str>| {
            let mut request = request("POST", COMPLETIONS, &story(1, 1).to_string());
            if let Some(given) = given {
                request.headers_mut().insert("x-request-id", given.parse().unwrap());
            }
            let app = std::sync::Arc::clone(&app);
            async move {
                let response = app.respond(request).await;
                let shown = response.headers()["x-request-id"].to_str().unwrap().to_owned();
                let body: serde_json::Value = serde_json::from_str(&whole(response).await).unwrap();
                (shown, body["id"].as_str().unwrap().to_owned())
            }
        };
        let (a, id_a) = id(None).await;
        let (b, _) = id(None).await;
        assert!(a.len() == 32 && a[..16] != b[..16] && a[16..] != b[16..], "{a} {b}");
        assert_eq!(id_a, format!("cmpl-{a}"));
        // The client's request id is returned; the answer's id is still the server's, so that it is unique.
        let (c, id_c) = id(Some("trace-0001.a:b")).await;
        let (d, id_d) = id(Some("trace-0001.a:b")).await;
        assert!(c == "trace-0001.a:b" && c == d && id_c != id_d && !id_c.contains("trace"), "{id_c} {id_d}");
        let (e, _) = id(Some("not; well formed")).await;
        assert_eq!(e.len(), 32);
    });
}

#[test]
fn pages_of_named_origins_may_read_answers() {
    run(async {
        let keys = crate::ApiKeys::parse(
            r#"{"id":"a","sha256":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}"#,
        );
        let allowed_origins = vec!["https://chat.example.org".to_owned()];
        let options =
            ServerOptions { allowed_origins, keys: Some(keys.unwrap()), ..ServerOptions::default() };
        let (app, _) = start(worker_options(), options);
        let ask =
            |method: &'static str, origin: &'static str, more: &'static [(&'static str, &'static str)]| {
                let mut request = request(method, "/v1/models", "");
                for (name, value) in [("origin", origin)].iter().chain(more) {
                    request.headers_mut().insert(*name, value.parse().unwrap());
                }
                let app = std::sync::Arc::clone(&app);
                async move {
                    let response = app.respond(request).await;
                    let origin = response.headers().get("access-control-allow-origin").cloned();
                    (response.status().as_u16(), origin.map(|o| o.to_str().unwrap().to_owned()), response)
                }
            };
        let preflight =
            &[("access-control-request-method", "GET"), ("access-control-request-headers", "authorization")];
        let (status, origin, response) = ask("OPTIONS", "https://chat.example.org", preflight).await;
        assert_eq!((status, origin.as_deref()), (204, Some("https://chat.example.org")));
        assert_eq!(response.headers()["access-control-allow-headers"], "authorization");
        assert_eq!(response.headers()["access-control-allow-methods"], "GET, HEAD, OPTIONS");
        let (status, origin, _) = ask("OPTIONS", "https://evil.example", preflight).await;
        assert_eq!((status, origin), (401, None));
        // Errors are readable across origins, too.
        let (status, origin, response) = ask("GET", "https://chat.example.org", &[]).await;
        assert_eq!((status, origin.as_deref()), (401, Some("https://chat.example.org")));
        assert_eq!(response.headers()["vary"], "origin");
        assert_eq!(ask("GET", "https://evil.example", &[]).await.1, None);
    });
}
