//! The audit log of a server: what is answered is in it.

use super::*;
use leyden_audit::{
    AuditLog, ContentKey, Entry, Options, Phase, Report, VerifyOptions, read, sha256, verify,
};
use std::path::PathBuf;

/// A server with an audit log.
struct Audited {
    app: Arc<App>,
    log: Arc<AuditLog>,
    folder: PathBuf,
    root: tempfile::TempDir,
}

fn audited(change: impl FnOnce(&mut Options)) -> Audited {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("log");
    let mut options = Options::new(root.path().join("key"), "1.0");
    change(&mut options);
    let log = Arc::new(AuditLog::open(&folder, options).unwrap());
    let options = ServerOptions { audit: Some(Arc::clone(&log)), ..ServerOptions::default() };
    Audited { app: start(worker_options(), options).0, log, folder, root }
}

impl Audited {
    fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        read(&self.folder, |entry| {
            entries.push(entry);
            true
        })
        .unwrap();
        entries
    }

    fn verify(&self) -> Report {
        let report = verify(&self.folder, &VerifyOptions::default()).unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        report
    }
}

/// Requests of all kinds of computing endpoints that the storyteller has.
fn requests() -> Vec<(&'static str, Value)> {
    let messages = json!([{ "role": "user", "content": "Once" }]);
    vec![
        ("/v1/completions", json!({ "prompt": "Once upon", "max_tokens": 4 })),
        ("/v1/completions", json!({ "prompt": ["Once", "Then"], "max_tokens": 4, "n": 2, "seed": 7 })),
        ("/v1/chat/completions", json!({ "messages": messages, "max_tokens": 4 })),
        ("/v1/messages", json!({ "messages": messages, "max_tokens": 4 })),
        ("/v1/responses", json!({ "input": "Once", "max_output_tokens": 4 })),
        ("/api/generate", json!({ "prompt": "Once", "stream": false, "options": { "num_predict": 4 } })),
        ("/api/chat", json!({ "messages": messages, "stream": false, "options": { "num_predict": 4 } })),
        ("/completion", json!({ "prompt": "Once", "n_predict": 4 })),
        ("/v1/embeddings", json!({ "input": ["Once", "Then"] })),
        ("/api/embed", json!({ "input": "Once", "model": "storyteller" })),
        (
            "/v2/embed",
            json!({ "texts": ["Once"], "input_type": "search_query", "embedding_types": ["float"] }),
        ),
        ("/embed", json!({ "inputs": "Once" })),
        ("/pooling", json!({ "input": "Once" })),
    ]
}

#[test]
fn every_computed_answer_has_a_record() {
    run(async {
        let it = audited(|_| ());
        let mut wanted = Vec::new();
        for (path, mut body) in requests() {
            body["model"] = "storyteller".into();
            let body = body.to_string();
            let response = it.app.respond(request("POST", path, &body)).await;
            let status = response.status();
            let text = whole(response).await;
            assert_eq!(status, 200, "{path}: {text}");
            wanted.push((path, sha256(body.as_bytes()), sha256(text.as_bytes())));
            // It is on the disk before the answer.
            assert_eq!(it.entries().len(), wanted.len(), "{path}");
        }
        for (entry, (path, input, output)) in it.entries().iter().zip(&wanted) {
            let record = &entry.record;
            assert_eq!((&*record.task, record.phase, record.status), (*path, Phase::Whole, Some(200)));
            assert_eq!(record.input_sha256.as_ref(), Some(input), "{path}");
            assert_eq!(record.output_sha256.as_ref(), Some(output), "{path}");
            assert!(record.result_sha256.is_some() && record.prompt_sha256.is_some(), "{path}");
            assert!(record.prompt_tokens.unwrap() > 0 && record.sealed.is_none());
            let model = record.model.as_ref().unwrap();
            assert_eq!(model.sha256, Some("5a".repeat(32)), "{path}");
            let generates = path.contains("comp") || path.contains("chat") || path.contains("generate");
            assert!(
                !generates || record.seed.is_some() && record.settings.contains_key("temperature"),
                "{path}"
            );
            assert!(!generates || record.completion_tokens.unwrap() > 0 && record.finish.is_some(), "{path}");
        }
        assert_eq!(it.entries()[1].record.seed, Some(7));
        // Requests without a computation have no record: other endpoints, and refused requests.
        for (path, body) in
            [("/tokenize", json!({ "prompt": "Once" })), ("/v1/completions", json!({ "prompt": 1.5 }))]
        {
            post(&it.app, path, body).await;
        }
        assert_eq!(it.entries().len(), wanted.len());
        let figures = it.log.figures();
        assert_eq!((figures.records, figures.errors), (wanted.len() as u64, 0));
        let metrics = whole(it.app.respond(request("GET", "/metrics", "")).await).await;
        assert!(metrics.contains(&format!("\nleyden_audit_records_total {}\n", wanted.len())), "{metrics}");
        it.verify();
    });
}

#[test]
fn streams_have_a_record_before_the_first_event_and_before_the_last() {
    run(async {
        let it = audited(|_| ());
        let body = json!({ "prompt": "Once upon a time", "max_tokens": 30, "stream": true, "seed": 3 });
        let mut response = it.app.respond(request("POST", "/v1/completions", &body.to_string())).await;
        let entries = it.entries();
        assert_eq!(entries.len(), 1);
        assert_eq!((entries[0].record.phase, entries[0].record.completion_tokens), (Phase::Start, None));
        let (mut text, mut ended) = (Vec::new(), false);
        while let Some(piece) = next(response.body_mut()).await {
            text.extend_from_slice(&piece);
            ended = it.entries().len() == 2;
            assert!(ended || !String::from_utf8_lossy(&piece).contains("[DONE]"));
        }
        assert!(ended);
        let end = it.entries().pop().unwrap().record;
        assert_eq!(
            (end.phase, end.completion_tokens, end.finish.as_deref()),
            (Phase::End, Some(30), Some("length"))
        );
        assert_eq!(end.output_sha256, Some(sha256(&text)));
        // The whole answer to the same request has the same result.
        let mut body = body;
        body["stream"] = false.into();
        ask(&it.app, "/v1/completions", body).await;
        let whole = it.entries().pop().unwrap().record;
        assert!(whole.result_sha256.is_some());
        assert_eq!(whole.result_sha256, end.result_sha256);
        assert_ne!(whole.output_sha256, end.output_sha256);
        // A large document is sent in pieces, too.
        let inputs: Vec<String> = (0..200).map(|i| format!("Once {i}")).collect();
        ask(&it.app, "/v1/embeddings", json!({ "input": inputs })).await;
        let all = it.entries();
        assert_eq!(all.last().unwrap().record.phase, Phase::End);
        it.verify();
    });
}

#[test]
fn a_client_that_leaves_is_recorded() {
    run(async {
        let it = audited(|_| ());
        let body = json!({ "prompt": "Once", "max_tokens": 400, "stream": true, "ignore_eos": true });
        let mut response = it.app.respond(request("POST", "/v1/completions", &body.to_string())).await;
        assert!(next(response.body_mut()).await.is_some());
        drop(response);
        // And one that leaves before its answer.
        let body = json!({ "prompt": "Once", "max_tokens": 400, "ignore_eos": true });
        let asked = it.app.respond(request("POST", "/v1/completions", &body.to_string()));
        assert!(tokio::time::timeout(Duration::from_millis(20), asked).await.is_err());
        while it.entries().len() < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let ends: Vec<_> =
            it.entries().into_iter().map(|entry| entry.record).filter(|r| r.phase != Phase::Start).collect();
        for end in &ends {
            assert_eq!(end.finish.as_deref(), Some("cancelled"));
            assert!(end.completion_tokens.unwrap_or(0) < 400 && end.result_sha256.is_none());
        }
        it.verify();
    });
}

#[test]
fn without_its_log_the_server_refuses() {
    run(async {
        let it = audited(|options| options.limit_bytes = Some(64 << 10));
        let body = json!({ "prompt": "Once", "max_tokens": 1 });
        let mut answered = 0;
        let refused = loop {
            let (status, answer) = post(&it.app, "/v1/completions", body.clone()).await;
            match status {
                200 => answered += 1,
                _ => break (status, answer),
            }
        };
        assert_eq!((refused.0, &refused.1["error"]["code"]), (503, &json!("audit_failed")), "{}", refused.1);
        assert!(!refused.1.to_string().contains("choices"), "no answer is given");
        assert_eq!(it.entries().len(), answered);
        let stream = json!({ "prompt": "Once", "max_tokens": 1, "stream": true });
        assert_eq!(post(&it.app, "/v1/completions", stream).await.0, 503);
        // Requests that compute nothing are answered.
        assert_eq!(it.app.respond(request("GET", "/v1/models", "")).await.status(), 200);
        it.verify();
    });
}

/// The log fails after the beginning of a stream: its end is not sent, and the connection breaks.
#[test]
fn a_stream_whose_end_cannot_be_recorded_breaks_off() {
    run(async {
        let it = audited(|_| ());
        let body = json!({ "prompt": "Once", "max_tokens": 20, "stream": true });
        let response = it.app.respond(request("POST", "/v1/completions", &body.to_string())).await;
        it.log.close().unwrap();
        let mut body = response.into_body();
        let (mut text, mut broken) = (String::new(), false);
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            match frame {
                Ok(frame) => text += std::str::from_utf8(&frame.into_data().unwrap()).unwrap(),
                Err(_) => broken = true,
            }
        }
        assert!(broken && !text.contains("[DONE]"), "{text}");
    });
}

#[test]
fn contents_are_kept_encrypted_if_asked_for() {
    run(async {
        let key = ContentKey::generate().unwrap();
        let it = audited(|options| options.recipient = Some(key.recipient().clone()));
        for stream in [false, true] {
            let body = json!({ "prompt": "Once upon", "max_tokens": 5, "stream": stream }).to_string();
            let text = whole(it.app.respond(request("POST", "/v1/completions", &body)).await).await;
            let entries = it.entries();
            let (first, last) =
                (&entries[entries.len() - 1 - usize::from(stream)], &entries[entries.len() - 1]);
            assert_eq!(first.content(&key).unwrap().unwrap().input, Some(body));
            assert_eq!(last.content(&key).unwrap().unwrap().output, Some(text));
        }
        it.verify();
    });
}

#[test]
fn many_requests_at_once_are_all_recorded() {
    let it = audited(|options| options.checkpoint_records = 10);
    run(async {
        let ask = |i: usize| {
            let app = Arc::clone(&it.app);
            tokio::spawn(async move {
                let body =
                    json!({ "prompt": format!("Once {i}"), "max_tokens": 3, "stream": i.is_multiple_of(2) });
                let response = app.respond(request("POST", "/v1/completions", &body.to_string())).await;
                whole(response).await
            })
        };
        for task in (0..40).map(ask).collect::<Vec<_>>() {
            task.await.unwrap();
        }
    });
    assert_eq!(it.entries().len(), 60);
    it.log.close().unwrap();
    assert!(it.verify().closed);
    assert!(it.root.path().join("key.pub").is_file());
}
