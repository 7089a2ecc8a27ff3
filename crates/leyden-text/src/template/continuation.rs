//! Going on with the last message of a conversation instead of beginning another.
//!
//! Templates end every message with a mark. So a word is appended to the last one before it is rendered, and the prompt
//! is cut where that word stands, as transformers does it: what a template does with the message before stays done.

use serde_json::Value as Json;

use super::rendered::Rendered;

/// The word; the space tells whether the template trims what stands before it.
const WORD: &str = "zqcontinuehere ";

/// The messages with the word at the end of the last text; `None` if there is none.
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

/// The prompt up to the word; `None` if it is not there.
pub(super) fn cut(mut rendered: Rendered) -> Option<Rendered> {
    let at = rendered.text().rfind(WORD.trim_end())?;
    let is_kept = rendered.text()[at..].starts_with(WORD);
    let end = if is_kept { at } else { rendered.text()[..at].trim_end().len() };
    rendered.cut(end);
    Some(rendered)
}
