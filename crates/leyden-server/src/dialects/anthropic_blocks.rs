//! Conversion of Anthropic's content blocks to text: texts, documents and search results.
//!
//! Results of Anthropic's own tools are blocks of many other kinds. They are left out, and reported to the client.

use crate::fields::Fields;
use crate::messages::text_of;
use crate::tool_kinds::other_than;
use serde_json::{Value, json};

/// Kinds of blocks that are read or refused. Others are left out.
const KNOWN: &[&str] = &[
    "text",
    "document",
    "search_result",
    "image",
    "tool_use",
    "tool_result",
    "thinking",
    "redacted_thinking",
];

/// Prefix of a block of `system` that is not for the model. Claude Code writes a different one in each conversation,
/// which would prevent hits of the prefix cache.
const BILLING: &str = "x-anthropic-billing-header:";

/// Returns the text of the field `system`, without blocks that are not for the model.
pub(super) fn system(system: Value) -> String {
    let is_told = |block: &Value| !block["text"].as_str().is_some_and(|text| text.starts_with(BILLING));
    match system {
        Value::Array(blocks) => text_of(blocks.into_iter().filter(is_told).collect()),
        other => text_of(other),
    }
}

/// Returns the text of a block; `None` for a kind without text.
pub(super) fn text(block: &mut Fields) -> Option<String> {
    let parts = match block.peek("type")? {
        "text" => return Some(block.text("text").unwrap_or_default()),
        "document" => {
            let source = block.object("source").map(|mut source| {
                source.text("data").or_else(|| source.take("content").map(text_of)).unwrap_or_default()
            });
            [block.text("title"), block.text("context"), source]
        }
        "search_result" => [block.text("title"), block.text("source"), block.take("content").map(text_of)],
        _ => return None,
    };
    let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    Some(parts.join("\n"))
}

/// Returns the text of a tool's result. Calls `left_out` with path and kind of each block without text.
pub(super) fn result(content: Option<Value>, mut left_out: impl FnMut(usize, &str)) -> String {
    let blocks = match content {
        Some(Value::Array(blocks)) => blocks,
        other => return other.map(text_of).unwrap_or_default(),
    };
    let mut texts = Vec::new();
    for (i, block) in blocks.into_iter().enumerate() {
        let mut block = Fields::from(block);
        match text(&mut block) {
            Some(text) => texts.push(text),
            None => left_out(i, block.peek("type").unwrap_or_default()),
        }
    }
    texts.join("\n")
}

/// Returns the schemas of blocks with text; `text` is that of a plain one, `of_texts` that of a list of these.
pub(super) fn schemas(text: &Value, of_texts: &Value) -> Vec<Value> {
    let string = json!({ "type": "string" });
    let object = |required: &[&str], properties: Value| {
        json!({
            "type": "object", "additionalProperties": false, "required": required, "properties": properties
        })
    };
    let plain = json!({ "type": { "const": "text" }, "data": string, "media_type": {} });
    let content = json!({ "type": { "const": "content" }, "content": of_texts });
    let document = json!({
        "type": { "const": "document" }, "title": string, "context": string, "cache_control": {}, "citations": {},
        "source": { "anyOf": [object(&["type", "data"], plain), object(&["type", "content"], content)] }
    });
    let found = json!({
        "type": { "const": "search_result" }, "title": string, "source": string, "content": of_texts,
        "cache_control": {}, "citations": {}
    });
    vec![
        text.clone(),
        object(&["type", "source"], document),
        object(&["type", "title", "source", "content"], found),
        other_than(KNOWN),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_in_every_block_that_has_one() {
        let of = |block: Value| text(&mut Fields::from(block));
        let part = json!({ "type": "text", "text": "b" });
        for (block, wanted) in [
            (part.clone(), Some("b")),
            (
                json!({ "type": "document", "title": "t", "source": { "type": "text", "data": "d" } }),
                Some("t\nd"),
            ),
            (
                json!({ "type": "document", "source": { "type": "content", "content": [part, part] } }),
                Some("b\nb"),
            ),
            (
                json!({ "type": "search_result", "title": "t", "source": "s", "content": [part] }),
                Some("t\ns\nb"),
            ),
            (json!({ "type": "server_tool_use", "name": "web_search" }), None),
        ] {
            assert_eq!(of(block.clone()).as_deref(), wanted, "{block}");
        }
        let mut left_out = Vec::new();
        let blocks = json!([part, { "type": "tool_reference", "tool_name": "x" }]);
        let told = result(Some(blocks), |i, kind| left_out.push(format!("{i}:{kind}")));
        assert_eq!((told.as_str(), left_out), ("b", vec!["1:tool_reference".to_owned()]));
        let billed = json!({ "type": "text", "text": "x-anthropic-billing-header: v=1" });
        assert_eq!(system(json!([billed, part])), "b");
    }
}
