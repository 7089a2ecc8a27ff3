//! Counters, logs, health.

use super::{CHAT, COMPLETIONS, app, ask, events, get, post, run, start, story, until, worker_options};
use crate::ServerOptions;
use serde_json::json;

fn value(page: &str, series: &str) -> f64 {
    let line = page.lines().find(|l| l.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')));
    line.unwrap_or_else(|| panic!("{series} is missing")).rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn counters_count() {
    run(async {
        let app = app();
        let (_, before) = get(&app, "/metrics").await;
        // All series are there from the start, so that rates have a beginning.
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
