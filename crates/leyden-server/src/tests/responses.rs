//! Stored answers of `/v1/responses`, their items, summaries, and the memory of log probabilities.

use super::tools::{THINKS, app_of};
use super::{app, ask, get, next, post, request, run};
use crate::app::App;
use serde_json::{Value, json};
use std::sync::Arc;

const PATH: &str = "/v1/responses";

async fn items(app: &Arc<App>, id: &Value, query: &str) -> (u16, Value) {
    let (status, text) = get(app, &format!("{PATH}/{}/input_items?{query}", id.as_str().unwrap())).await;
    (status, serde_json::from_str(&text).unwrap())
}

#[test]
fn items_before_an_answer_are_listed() {
    run(async {
        let app = app();
        let short = |input: Value| json!({ "input": input, "max_output_tokens": 4, "temperature": 0 });
        let first = ask(&app, PATH, short(json!("Once"))).await;
        let mut body = short(json!([
            { "role": "assistant", "content": "A fox." },
            { "type": "function_call", "call_id": "a", "name": "f", "arguments": "{}" },
            { "type": "function_call_output", "call_id": "a", "output": "7" },
            { "type": "web_search_call", "id": "ws_1" },
        ]));
        body["previous_response_id"] = first["id"].clone();
        let second = ask(&app, PATH, body).await;
        let (_, listed) = items(&app, &second["id"], "order=asc").await;
        let kinds: Vec<&Value> =
            listed["data"].as_array().unwrap().iter().map(|item| &item["type"]).collect();
        assert_eq!(kinds, ["message", "message", "message", "function_call", "function_call_output"]);
        let data = &listed["data"];
        assert_eq!(data[0]["content"], json!([{ "type": "input_text", "text": "Once" }]));
        // The previous answer is an item, unchanged.
        assert_eq!(data[1], first["output"][0]);
        assert_eq!(data[2]["content"][0]["type"], "output_text");
        assert_eq!((&listed["first_id"], &listed["last_id"]), (&data[0]["id"], &data[4]["id"]));
        assert!(
            data.as_array().unwrap().iter().all(|item| item["id"].is_string() && item["status"].is_string())
        );
        // Pages list the last items first.
        let (_, page) = items(&app, &second["id"], "limit=2").await;
        assert_eq!((&page["data"], &page["has_more"]), (&json!([data[4], data[3]]), &json!(true)));
        let after = format!("limit=3&after={}", page["last_id"].as_str().unwrap());
        let (_, page) = items(&app, &second["id"], &after).await;
        assert_eq!((&page["data"][2], &page["has_more"]), (&data[0], &json!(false)));
        for (query, param) in
            [("limit=0", "limit"), ("limit=x", "limit"), ("order=up", "order"), ("after=x", "after")]
        {
            let (status, error) = items(&app, &second["id"], query).await;
            assert_eq!((status, &error["error"]["param"]), (400, &json!(param)), "{query}");
        }
        assert_eq!(items(&app, &json!("resp_none"), "").await.0, 404);
        // Items of a request can be referenced like those of an answer.
        let named = json!([{ "type": "item_reference", "id": data[0]["id"] }]);
        let again = ask(&app, PATH, short(named)).await;
        assert_eq!(again["output"][0]["content"], first["output"][0]["content"]);
    });
}

#[test]
fn an_answer_cannot_be_cancelled() {
    run(async {
        let app = app();
        let answer = ask(&app, PATH, json!({ "input": "Once", "max_output_tokens": 2 })).await;
        let path = format!("{PATH}/{}/cancel", answer["id"].as_str().unwrap());
        let (status, error) = post(&app, &path, json!({})).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!("response_id")), "{error}");
        assert_eq!(post(&app, &format!("{PATH}/resp_none/cancel"), json!({})).await.0, 404);
        let body = json!({ "input": "Once", "previous_response_id": "resp_none" });
        let (status, error) = post(&app, PATH, body).await;
        assert_eq!((status, &error["error"]["code"]), (404, &json!("previous_response_not_found")));
    });
}

#[test]
fn a_summary_goes_on_as_a_message() {
    run(async {
        let app = app_of(THINKS);
        let said = json!([
            { "role": "system", "content": "You tell stories." },
            { "role": "user", "content": "Once upon a time" },
            { "role": "assistant", "content": "there was a king." },
            { "role": "user", "content": "And then?" },
        ]);
        let path = "/v1/responses/compact";
        let short = ask(&app, path, json!({ "model": "storyteller", "input": said })).await;
        assert_eq!(short["object"], "response.compaction");
        assert!(short["usage"]["output_tokens"].as_u64() > Some(0), "{short}");
        let output = short["output"].as_array().unwrap().clone();
        assert_eq!(output.len(), 3, "{short}");
        assert_eq!(
            (&output[0]["role"], &output[1]["type"], &output[2]["role"]),
            (&json!("system"), &json!("compaction"), &json!("user"))
        );
        let respond = async |input: &[Value]| {
            let body = json!({ "input": input, "max_output_tokens": 2, "store": false });
            let response = app.respond(request("POST", PATH, &body.to_string())).await;
            let ignored = response.headers().get("x-leyden-ignored").map(|v| v.to_str().unwrap().to_owned());
            let answer: Value = serde_json::from_str(&super::whole(response).await).unwrap();
            (answer["usage"]["input_tokens"].as_u64().unwrap(), ignored.unwrap_or_default())
        };
        let (with, ignored) = respond(&output).await;
        assert_eq!(ignored, "");
        let (without, _) = respond(&[output[0].clone(), output[2].clone()]).await;
        assert!(with > without + 5, "{with} {without}");
        // The summary of another server cannot be read.
        let mut foreign = output.clone();
        foreign[1]["encrypted_content"] = "gAAAAABo".into();
        assert_eq!(respond(&foreign).await, (without, "input[1]:compaction".to_owned()));
        let (status, error) = post(&app, path, json!({ "input": said })).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!("model")));
    });
}

/// The tokens of a long answer occur five times in its stream; each time they are written in pieces.
#[test]
fn probabilities_are_written_piece_by_piece() {
    run(async {
        let app = app();
        let body = json!({
            "input": "Once upon a time", "max_output_tokens": 400, "top_logprobs": 20, "temperature": 0,
        });
        let whole = ask(&app, PATH, body.clone()).await;
        let content = &whole["output"][0]["content"][0];
        let told = content["logprobs"].as_array().unwrap();
        assert_eq!(
            told.iter().map(|t| t["token"].as_str().unwrap()).collect::<String>(),
            content["text"].as_str().unwrap()
        );
        assert!(told.len() > 50 && told.iter().all(|t| t["top_logprobs"].as_array().unwrap().len() == 20));
        let (status, kept) = get(&app, &format!("{PATH}/{}", whole["id"].as_str().unwrap())).await;
        assert_eq!((status, serde_json::from_str::<Value>(&kept).unwrap()), (200, whole.clone()));

        let mut stream = body;
        stream["stream"] = true.into();
        let mut response = app.respond(request("POST", PATH, &stream.to_string())).await.into_body();
        let (mut text, mut longest) = (Vec::new(), 0);
        while let Some(piece) = next(&mut response).await {
            longest = longest.max(piece.len());
            text.extend_from_slice(&piece);
        }
        assert!(longest < 256 << 10 && text.len() > 4 * longest, "{longest} of {}", text.len());
        let text = String::from_utf8(text).unwrap();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let events: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
        let of =
            |kind: &str| events.iter().filter(|event| event["type"] == kind).cloned().collect::<Vec<_>>();
        let deltas = of("response.output_text.delta");
        let deltas: Vec<&Value> =
            deltas.iter().flat_map(|delta| delta["logprobs"].as_array().unwrap()).collect();
        assert!(deltas.into_iter().eq(told));
        assert_eq!(of("response.output_text.done")[0]["logprobs"], content["logprobs"]);
        assert_eq!(of("response.content_part.done")[0]["part"], *content);
        assert_eq!(of("response.output_item.done")[0]["item"]["content"][0], *content);
        assert_eq!(events.last().unwrap()["response"]["output"][0]["content"][0], *content);
        let numbers: Vec<u64> =
            events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    });
}
