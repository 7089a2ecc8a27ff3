//! [`OutputEvent`]: part of an answer as it is reported.

/// Part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputEvent {
    /// Next piece of the reasoning.
    Reasoning(String),
    /// Next piece of the content.
    Content(String),
    /// Start of a tool call.
    ToolCallStart {
        /// Index of the call in this answer, from 0.
        index: usize,
        /// Id of the call, in formats with ids.
        id: Option<String>,
        /// Name of the tool.
        name: String,
    },
    /// Next piece of a call's arguments: part of a JSON object.
    ToolCallArguments {
        /// Index of the call.
        index: usize,
        /// Text of the piece.
        fragment: String,
    },
    /// End of a call: its arguments are a complete JSON object.
    ToolCallEnd {
        /// Index of the call.
        index: usize,
    },
    /// End of a call that the answer's end or invalid syntax truncated; its arguments are a prefix of a JSON
    /// object, possibly empty.
    ToolCallUnfinished {
        /// Index of the call.
        index: usize,
    },
}
