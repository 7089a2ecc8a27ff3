//! Continuation of the last message of a conversation, instead of a new message.
//!
//! Templates end every message with a marker. So a placeholder word is appended to the last message before
//! rendering, and the prompt is truncated at that word, as transformers does it; other changes of the template to
//! that message are kept.

use serde_json::Value as Json;

use super::rendered::Rendered;

/// Placeholder; the space tells whether the template strips the whitespace before the marker.
const WORD: &str = "zqcontinuehere ";

/// Appends the placeholder to the last text of the messages; `None` if there is none.
pub(super) fn marked(messages: &Json) -> Option<Json> {
    let mut messages = messages.clone();
    let content = messages.as_array_mut()?.last_mut()?.get_mut("content")?;
    let text = match content {
        Json::Array(parts) => parts.iter_mut().rev().find_map(|part| part.get_mut("text"))?,
        content => content,
    };
    match text {
        Json::String(text) => text.push_str(WORD),
        _ => return None,
    }
    Some(messages)
}

/// Truncates the prompt at the placeholder; `None` if it is missing.
pub(super) fn cut(mut rendered: Rendered) -> Option<Rendered> {
    let at = rendered.text().rfind(WORD.trim_end())?;
    let is_kept = rendered.text()[at..].starts_with(WORD);
    let end = if is_kept { at } else { rendered.text()[..at].trim_end().len() };
    rendered.cut(end);
    Some(rendered)
}
