//! [`Lines`]: typed lines of a conversation.

use crate::cli::failure::Failure;

/// Quotes around a message of several lines.
pub(super) const QUOTES: &str = "\"\"\"";

/// Source of typed lines.
pub(super) trait Lines {
    /// Waits for the next line.
    fn next(&mut self) -> Result<Line, Failure>;
}

/// Input from the keyboard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// A message or a command; may hold several lines.
    Text(String),
    /// Ctrl-C: the line is discarded.
    Interrupt,
    /// Ctrl-D: end of the input.
    End,
}

/// Returns true if a text has opening but no closing quotes.
pub(super) fn is_open(text: &str) -> bool {
    text.strip_prefix(QUOTES).is_some_and(|rest| !rest.contains(QUOTES))
}
