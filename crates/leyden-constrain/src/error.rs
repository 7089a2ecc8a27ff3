//! Errors of vocabularies, grammars and the texts that follow them.

use std::fmt::{self, Display};

/// Why a grammar was refused, or a text left it.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error {
    kind: Box<ErrorKind>,
}

/// The kinds of [`Error`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The model's vocabulary cannot be used.
    #[error("vocabulary: {}", Shown(.0))]
    Vocabulary(String),
    /// A JSON schema says something that is not enforced, or is not a schema.
    #[error("JSON schema: {}: {}{}", Shown(place(.pointer)), named(.keyword.as_deref()), Shown(.what))]
    Schema {
        /// Where: a JSON pointer to the schema or the keyword's value.
        pointer: String,
        /// The keyword, if one is to blame.
        keyword: Option<String>,
        /// What is wrong.
        what: String,
    },
    /// A grammar or regular expression is wrong.
    #[error("grammar: {}", Shown(.0))]
    Grammar(String),
    /// A grammar that would cost more than one may.
    #[error("the grammar needs too much: {}", Shown(.0))]
    TooComplex(String),
    /// A token was accepted that the grammar does not allow.
    #[error("the grammar does not allow token {0} here")]
    Token(u32),
    /// No token may come next: the vocabulary cannot write what the grammar wants.
    #[error("no token of this vocabulary continues the grammar")]
    DeadEnd,
    /// More tokens were to be taken back than were accepted.
    #[error("{tokens} tokens cannot be taken back: {accepted} were accepted")]
    Rollback {
        /// How many were to be taken back.
        tokens: usize,
        /// How many there are.
        accepted: usize,
    },
    /// The machinery failed in a way that is nobody's input.
    #[error("constrained decoding failed: {}", Shown(.0))]
    Internal(String),
}

impl Error {
    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    pub(crate) fn schema(pointer: &str, keyword: &str, what: impl Into<String>) -> Error {
        let (pointer, keyword) = (pointer.to_owned(), Some(keyword.to_owned()));
        ErrorKind::Schema { pointer, keyword, what: what.into() }.into()
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Error {
        Error { kind: Box::new(kind) }
    }
}

/// The place in a schema; its root as a slash.
fn place(pointer: &str) -> &str {
    if pointer.is_empty() { "/" } else { pointer }
}

fn named(keyword: Option<&str>) -> String {
    keyword.map_or_else(String::new, |keyword| format!("`{}`: ", Shown(keyword)))
}

/// Text from a schema or grammar, made safe for a terminal and a log line: control and direction-changing characters
/// are escaped and long text is cut.
struct Shown<'a>(&'a str);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 400;
        let mut chars = self.0.chars();
        for c in chars.by_ref().take(MOST) {
            match c {
                '\'' | '"' | '\\' => write!(f, "{c}")?,
                '\n' => f.write_str("; ")?,
                c => write!(f, "{}", c.escape_debug())?,
            }
        }
        if chars.next().is_some() { f.write_str("…") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_place_and_keyword_and_escapes() {
        let e = Error::schema("/properties/a\u{1b}", "not", "is not enforced");
        assert_eq!(e.to_string(), "JSON schema: /properties/a\\u{1b}: `not`: is not enforced");
        let e = Error::schema("", "if", "x".repeat(100_000));
        assert!(e.to_string().starts_with("JSON schema: /: `if`: xxx") && e.to_string().len() < 500);
    }
}
