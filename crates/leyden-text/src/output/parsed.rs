//! [`Part`]: part of an answer as the parsers output it.

/// Parsed part of an answer.
#[derive(Clone, Debug)]
pub(super) enum Part {
    Reasoning(String),
    /// Content, and the end of it in the answer's text.
    Content(String, usize),
    CallBegins {
        id: Option<String>,
        name: String,
    },
    Arguments(String),
    CallEnds,
    Unfinished,
}
