//! Conversations in place of texts, at the endpoints where vLLM accepts them.

use super::tools::{THINKS, app_of};
use super::{EMBEDDINGS, app, ask, post, run};
use serde_json::json;

#[test]
fn messages_are_one_text() {
    run(async {
        let messages = json!([
            { "role": "system", "content": "A tale." },
            { "role": "user", "content": [{ "type": "text", "text": "Once" }, { "type": "text", "text": "upon" }] },
        ]);
        // Without a template the text consists of the messages' lines.
        let lines = json!({ "input": "A tale.\nOnce\nupon" });
        let plain = app();
        let wanted = ask(&plain, EMBEDDINGS, lines.clone()).await;
        assert_eq!(ask(&plain, EMBEDDINGS, json!({ "messages": messages })).await["data"], wanted["data"]);
        // With a template the text is its output, without the beginning of an answer unless requested.
        let app = app_of(THINKS);
        let rendered =
            ask(&app, "/apply-template", json!({ "messages": messages, "add_generation_prompt": false }))
                .await;
        let wanted = ask(&app, EMBEDDINGS, json!({ "input": rendered["prompt"] })).await;
        assert_eq!(ask(&app, EMBEDDINGS, json!({ "messages": messages })).await["data"], wanted["data"]);
        // A list of conversations counts as a list of texts.
        let other = json!([{ "role": "user", "content": "Twice" }]);
        let both = ask(&app, EMBEDDINGS, json!({ "messages": [other, messages] })).await;
        assert_eq!(
            (&both["data"][1]["embedding"], both["data"].as_array().unwrap().len()),
            (&wanted["data"][0]["embedding"], 2)
        );
        let wrong = json!({ "messages": [other, [{ "role": "user", "content": "x", "tool_calls": [] }, { "role": "robot", "content": "x" }]] });
        let (status, error) = post(&app, EMBEDDINGS, wrong).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!("messages[1][1].role")), "{error}");
        let states = ask(&app, "/pooling", json!({ "messages": messages, "task": "embed" })).await;
        assert!(states["data"][0]["data"].is_array(), "{states}");
        let begun = json!({ "messages": messages, "add_generation_prompt": true });
        let begun = ask(&app, EMBEDDINGS, begun).await["usage"]["prompt_tokens"].as_u64();
        assert!(begun > wanted["usage"]["prompt_tokens"].as_u64());
        for (path, body) in [
            (EMBEDDINGS, json!({})),
            (EMBEDDINGS, json!({ "input": "x", "messages": messages })),
            ("/pooling", json!({ "task": "embed" })),
            ("/pooling", json!({ "task": "embed", "input": "x", "messages": messages })),
        ] {
            let (status, error) = post(&app, path, body).await;
            assert_eq!(status, 400, "{path}: {error}");
            assert!(error["error"]["message"].as_str().unwrap().contains("`messages`"), "{error}");
        }
    });
}
