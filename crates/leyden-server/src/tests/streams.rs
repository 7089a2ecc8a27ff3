//! Streamed answers.

use super::{CHAT, COMPLETIONS, app, ask, at_rest, emulated, events, next, request, run, story, until};
use serde_json::{Value, json};

#[test]
fn pieces_add_up_to_the_whole() {
    run(async {
        let app = app();
        // Unread text is merged into the next event, so the answer must take longer than the reader may be delayed.
        let tokens = if emulated() { 24 } else { 240 };
        let whole = ask(&app, COMPLETIONS, story(3, tokens)).await;
        let pieces = events(&app, COMPLETIONS, story(3, tokens)).await;
        let text: String = pieces.iter().map(|e| e["choices"][0]["text"].as_str().unwrap()).collect();
        assert_eq!(whole["choices"][0]["text"], text);
        assert_eq!(pieces.last().unwrap()["choices"][0]["finish_reason"], "length");
        assert!(pieces.len() > 3, "it comes in pieces");
        assert!(pieces.iter().all(|e| e["id"] == pieces[0]["id"] && e.get("usage").is_none()));
    });
}

#[test]
fn chats_begin_with_the_role_and_end_with_the_usage() {
    run(async {
        let app = app();
        let request = json!({
            "messages": [{ "role": "user", "content": "Tell me of a fox." }],
            "max_tokens": 6, "n": 2, "seed": 5, "ignore_eos": true, "stream_options": { "include_usage": true },
        });
        let pieces = events(&app, CHAT, request).await;
        let (usage, chunks) = pieces.split_last().unwrap();
        assert_eq!(usage["choices"], json!([]));
        assert_eq!(usage["usage"]["completion_tokens"], 12);
        assert!(chunks.iter().all(|c| c["usage"].is_null()));
        for choice in 0..2 {
            let own: Vec<&Value> =
                chunks.iter().map(|c| &c["choices"][0]).filter(|c| c["index"] == choice).collect();
            assert_eq!(own[0]["delta"], json!({ "role": "assistant", "content": "" }));
            assert_eq!(own.iter().filter(|c| !c["finish_reason"].is_null()).count(), 1);
            assert_eq!(own.last().unwrap()["finish_reason"], "length");
        }
    });
}

#[test]
fn logprobs_come_with_their_pieces() {
    run(async {
        let app = app();
        let mut request = story(1, 10);
        request["logprobs"] = 1.into();
        let pieces = events(&app, COMPLETIONS, request).await;
        let offsets: Vec<u64> = pieces
            .iter()
            .filter_map(|e| e["choices"][0]["logprobs"]["text_offset"].as_array())
            .flatten()
            .map(|o| o.as_u64().unwrap())
            .collect();
        assert_eq!(offsets.len(), 10);
        assert!(offsets.is_sorted());
    });
}

/// A client that disconnects at any time frees its blocks of the KV cache; other clients are not affected.
#[test]
fn who_goes_gives_everything_back() {
    run(async {
        let app = app();
        let rounds = if emulated() { 2 } else { 12 };
        let mut canary = story(99, 30);
        canary["cache_salt"] = "canary".into();
        let wanted = ask(&app, COMPLETIONS, canary.clone()).await["choices"][0]["text"].clone();
        let other = {
            let app = std::sync::Arc::clone(&app);
            tokio::spawn(async move { ask(&app, COMPLETIONS, canary).await["choices"][0]["text"].clone() })
        };
        for i in 0..rounds {
            let mut body = story(i, 400);
            body["stream"] = true.into();
            let text = body.to_string();
            // Before anything came, after the first piece, and while the request is still being taken.
            let response = app.respond(request("POST", COMPLETIONS, &text)).await;
            drop(response);
            let mut response = app.respond(request("POST", COMPLETIONS, &text)).await;
            assert!(next(response.body_mut()).await.is_some());
            drop(response);
            let taking = app.respond(request("POST", COMPLETIONS, &story(i, 400).to_string()));
            let _ = tokio::time::timeout(std::time::Duration::from_millis(i as u64), taking).await;
        }
        assert_eq!(other.await.unwrap(), wanted);
        until("blocks come back", || at_rest(&app)).await;
        let m = super::metrics(&app);
        assert!(m.generated_tokens.get() < 400 * rounds as u64, "they did not run to their ends");
    });
}
