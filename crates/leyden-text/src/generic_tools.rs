//! Tools for a model whose chat template does not support them.
//!
//! The system message describes the tools and the form of a call, which a grammar then enforces from the opening of a
//! call on ([`OutputFormat::with_generic_calls`](crate::output::OutputFormat::with_generic_calls)). Earlier calls
//! are rendered as text of the assistant and their results as user messages, which every template supports.

use crate::template::{ChatTemplate, Message, RenderOptions};
use crate::tool_descriptions::described;
use serde_json::{Value, json};

/// Returns true if a template renders earlier calls, even if in an unknown syntax.
#[must_use]
pub fn shows_calls(template: &ChatTemplate) -> bool {
    const NAME: &str = "zqname";
    let call =
        json!({ "id": "zqid00001", "type": "function", "function": { "name": NAME, "arguments": "{}" } });
    let mut calling = Message::new("assistant", "");
    calling.extra.insert("tool_calls".to_owned(), json!([call]));
    let messages = [Message::new("user", "x"), calling];
    // A template that reads `tool_calls` handles them.
    template.mentions("tool_calls")
        || [true, false].into_iter().any(|read_arguments| {
            let options = RenderOptions { read_arguments, ..RenderOptions::default() };
            template.render(&messages, &options).is_ok_and(|rendered| rendered.text().contains(NAME))
        })
}

/// Returns the messages in a form that such a template can render; `calls` is true if it renders calls itself.
#[must_use]
pub fn written(messages: &[Message], tools: Option<&Value>, calls: bool) -> Vec<Message> {
    let mut all = if calls { messages.to_vec() } else { as_text(messages) };
    if let Some(tools) = tools {
        let text = description(tools);
        match all.first_mut().filter(|first| first.role == "system") {
            Some(system) => system.content = format!("{}\n\n{text}", system.content),
            None => all.insert(0, Message::new("system", text)),
        }
    }
    all
}

/// Writes calls and their results as text.
fn as_text(messages: &[Message]) -> Vec<Message> {
    let mut all: Vec<Message> = Vec::with_capacity(messages.len() + 1);
    let mut of_tools = false;
    for message in messages {
        let is_tool = message.role == "tool";
        let message = match message.role.as_str() {
            "tool" => Message::new("user", format!("<tool_response>\n{}\n</tool_response>", message.content)),
            "assistant" => with_calls(message),
            _ => message.clone(),
        };
        match all.last_mut() {
            // Templates may require alternating roles, so successive results become one message.
            Some(last) if is_tool && of_tools => {
                last.content = format!("{}\n{}", last.content, message.content)
            }
            _ => all.push(message),
        }
        of_tools = is_tool;
    }
    all
}

/// Moves the system message to the beginning of the next message's text; `None` if there is no system message, or no
/// other.
#[must_use]
pub fn without_system(messages: &[Message]) -> Option<Vec<Message>> {
    let (system, others) = messages.split_first().filter(|(first, _)| first.role == "system")?;
    let mut others = others.to_vec();
    let first = others.first_mut()?;
    first.content = format!("{}\n\n{}", system.content, first.content);
    Some(others)
}

/// Returns the description of the tools for the system message.
fn description(tools: &Value) -> String {
    let tools = described(tools);
    let lines: Vec<String> =
        tools.as_array().into_iter().flatten().map(|tool| tool["function"].to_string()).collect();
    format!(
        "These functions can be called, each described by a JSON object on a line of its own:\n{}\n\n\
         To call one, answer with its name and its arguments in this form, and wait for the result:\n\
         <tool_call>\n{{\"name\": \"function_name\", \"arguments\": {{\"argument_name\": \"value\"}}}}\n</tool_call>\n\
         Where no function is needed, answer in plain words.",
        lines.join("\n")
    )
}

/// Returns an assistant's message with its calls as text.
fn with_calls(message: &Message) -> Message {
    let mut message = message.clone();
    let calls = message.extra.remove("tool_calls").unwrap_or_default();
    for call in calls.as_array().into_iter().flatten() {
        let function = &call["function"];
        let text = function["arguments"].as_str().unwrap_or("{}");
        let arguments = serde_json::from_str(text).unwrap_or_else(|_| json!({}));
        let call: Value = json!({ "name": function["name"], "arguments": arguments });
        let before = if message.content.is_empty() { "" } else { "\n" };
        message.content.push_str(&format!("{before}<tool_call>\n{call}\n</tool_call>"));
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_results_become_turns_that_every_template_knows() {
        let mut calling = Message::new("assistant", "One moment.");
        let call = json!({ "id": "a", "function": { "name": "add", "arguments": "{\"x\": 1}" } });
        calling.extra.insert("tool_calls".to_owned(), json!([call]));
        let messages =
            [Message::new("user", "1 + 1?"), calling, Message::new("tool", "2"), Message::new("tool", "3")];
        let tools = json!([{ "type": "function", "function": { "name": "add" } }]);
        let written = written(&messages, Some(&tools), false);
        let roles: Vec<&str> = written.iter().map(|m| m.role.as_str()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "user"]);
        assert!(
            written[0].content.contains("\n{\"name\":\"add\",\"description\":\"\","),
            "{}",
            written[0].content
        );
        assert_eq!(
            written[2].content,
            "One moment.\n<tool_call>\n{\"name\":\"add\",\"arguments\":{\"x\":1}}\n</tool_call>"
        );
        assert_eq!(
            written[3].content,
            "<tool_response>\n2\n</tool_response>\n<tool_response>\n3\n</tool_response>"
        );
        let merged = without_system(&written).unwrap();
        assert!(merged.len() == 3 && merged[0].content.ends_with("in plain words.\n\n1 + 1?"));
        assert_eq!(without_system(&merged), None);
    }
}
