//! Admission under a service level objective.

use super::*;
use crate::{Bound, Promise};

fn promising(ttft: Option<f64>, user_tps: Option<f64>) -> Arc<App> {
    let bound = |percentile, value: Option<f64>| value.map(|value| Bound { percentile, value });
    let promise = Promise { ttft: bound(95.0, ttft), itl: None, user_tps: bound(5.0, user_tps) };
    let worker = WorkerOptions { promise: Some(promise), ..worker_options() };
    start(worker, ServerOptions::default()).0
}

#[test]
fn a_promise_that_can_be_kept_refuses_nobody_and_is_shown() {
    run(async {
        let app = promising(Some(3600.0), Some(1e-6));
        let asked: Vec<_> = (0..6).map(|i| ask(&app, COMPLETIONS, story(i, 12))).collect();
        for asked in asked {
            assert_eq!(asked.await["usage"]["completion_tokens"], 12);
        }
        // Several answers to one prompt, and several texts, are decided together.
        let mut several = story(9, 5);
        several["n"] = 4.into();
        assert_eq!(ask(&app, COMPLETIONS, several).await["choices"].as_array().unwrap().len(), 4);
        let texts: Vec<String> = (0..9).map(|i| format!("Text number {i}")).collect();
        let vectors = ask(&app, EMBEDDINGS, json!({ "input": texts })).await;
        assert_eq!(vectors["data"].as_array().unwrap().len(), 9);
        until("idle", || at_rest(&app)).await;
        let (_, shown) = get(&app, "/api/ps").await;
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let level = &shown["models"][0]["service_level"];
        assert_eq!(level["promise"], "ttft_p95<=3600s,user_tps_p5>=0.000001");
        assert_eq!((&level["admitted"], &level["refused"]), (&json!(6 + 4 + 9), &json!(0)));
        for (i, metric, least) in [(0, "ttft", 19), (1, "user_tps", 10)] {
            let figure = &level["metrics"][i];
            assert!(figure["metric"] == metric && figure["count"] == least, "{figure}");
            assert!(
                figure["measured"].as_f64() > Some(0.0) && figure["estimate"].as_f64() > Some(0.0),
                "{figure}"
            );
        }
        let (_, page) = get(&app, "/metrics").await;
        for line in [
            "leyden_slo_bound{model_name=\"storyteller\",metric=\"ttft_p95\"} 3600",
            "leyden_slo_values{model_name=\"storyteller\",metric=\"user_tps_p5\"} 10",
            "leyden_slo_requests_total{model_name=\"storyteller\",outcome=\"admitted\"} 19",
            "leyden_slo_measured{model_name=\"storyteller\",metric=\"ttft_p95\"} ",
            "leyden_slo_estimate{model_name=\"storyteller\",metric=\"user_tps_p5\"} ",
            "leyden_requests_refused_total{model_name=\"storyteller\",reason=\"slo\"} 0",
        ] {
            assert!(page.contains(line), "{line} in {page}");
        }
    });
}

#[test]
fn without_a_promise_nothing_is_shown() {
    run(async {
        let app = app();
        let (_, shown) = get(&app, "/api/ps").await;
        assert!(shown.contains("\"service_level\":null"), "{shown}");
        let (_, page) = get(&app, "/metrics").await;
        assert!(page.contains("# TYPE leyden_slo_bound gauge") && !page.contains("leyden_slo_bound{"));
    });
}

/// A prompt takes longer than this however fast the machine is.
#[test]
fn a_promise_that_cannot_be_kept_says_so() {
    run(async {
        let app = promising(Some(1e-7), None);
        let response = app.respond(request("POST", COMPLETIONS, &story(1, 5).to_string())).await;
        assert_eq!(response.status().as_u16(), 413);
        assert!(response.headers().get("retry-after").is_none());
        let error: Value = serde_json::from_str(&whole(response).await).unwrap();
        let message = error["error"]["message"].as_str().unwrap();
        assert_eq!(error["error"]["code"], "slo_prompt_too_long");
        assert!(
            message.contains("(ttft_p95<=0ms)") && message.contains("even without other requests"),
            "{message}"
        );
        let stream = events_or_error(&app, story(2, 5)).await;
        assert_eq!(stream, 413, "before the stream begins");
        until("idle", || at_rest(&app)).await;
        assert_eq!(metrics(&app).refused[3].get(), 2);
    });
}

async fn events_or_error(app: &Arc<App>, mut body: Value) -> u16 {
    body["stream"] = true.into();
    app.respond(request("POST", COMPLETIONS, &body.to_string())).await.status().as_u16()
}

/// No machine has this speed, so answers come one after the other; who waits for too long is refused.
#[test]
fn who_waits_for_too_long_is_told_when_to_come_back() {
    run(async {
        let app = promising(Some(0.3), Some(1e9));
        let mut long = story(1, 480);
        long["n"] = 16.into();
        let first = {
            let app = Arc::clone(&app);
            tokio::spawn(async move { post(&app, COMPLETIONS, long).await })
        };
        until("the first one runs", || metrics(&app).running.get() > 0).await;
        let response = app.respond(request("POST", COMPLETIONS, &story(2, 5).to_string())).await;
        let (status, retry) = (response.status().as_u16(), response.headers().get("retry-after").cloned());
        let error: Value = serde_json::from_str(&whole(response).await).unwrap();
        match status {
            429 => {
                let retry: u64 = retry.unwrap().to_str().unwrap().parse().unwrap();
                assert!((1..=60).contains(&retry), "{retry}");
                assert_eq!(error["error"]["code"], "slo_busy", "{error}");
            }
            // On a machine as slow as an emulated one even a short prompt takes longer than promised.
            _ => assert_eq!(error["error"]["code"], "slo_prompt_too_long", "{error}"),
        }
        first.abort();
        until("idle", || at_rest(&app)).await;
    });
}
