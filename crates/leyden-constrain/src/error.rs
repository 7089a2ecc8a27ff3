//! Errors of vocabularies, grammars and constrained texts.

use std::fmt::{self, Display};

/// Error of a grammar, or of a text that violates it.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error {
    kind: Box<ErrorKind>,
}

/// Kinds of [`Error`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The model's vocabulary cannot be used.
    #[error("vocabulary: {}", Shown(.0))]
    Vocabulary(String),
    /// A JSON schema has a keyword that is not enforced, or is malformed.
    #[error("JSON schema: {}: {}{}", Shown(place(.pointer)), named(.keyword.as_deref()), Shown(.what))]
    Schema {
        /// JSON pointer to the schema or the keyword's value.
        pointer: String,
        /// Keyword that the error concerns, if any.
        keyword: Option<String>,
        /// Description of the error.
        what: String,
    },
    /// A grammar or regular expression is malformed.
    #[error("grammar: {}", Shown(.0))]
    Grammar(String),
    /// A grammar exceeds a limit.
    #[error("the grammar exceeds a limit: {}", Shown(.0))]
    TooComplex(String),
    /// The grammar does not allow the accepted token.
    #[error("the grammar does not allow token {0} here")]
    Token(u32),
    /// No token may come next: the vocabulary cannot spell a text that the grammar allows.
    #[error("no token of this vocabulary continues the grammar")]
    DeadEnd,
    /// The rollback exceeds the number of accepted tokens.
    #[error("cannot roll back {tokens} tokens: {accepted} were accepted")]
    Rollback {
        /// Number of tokens to roll back.
        tokens: usize,
        /// Number of accepted tokens.
        accepted: usize,
    },
    /// An internal failure that no input should cause.
    #[error("constrained decoding failed: {}", Shown(.0))]
    Internal(String),
}

impl Error {
    /// Returns the kind of error.
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

/// Returns the place in a schema; a slash for its root.
fn place(pointer: &str) -> &str {
    if pointer.is_empty() { "/" } else { pointer }
}

fn named(keyword: Option<&str>) -> String {
    keyword.map_or_else(String::new, |keyword| format!("`{}`: ", Shown(keyword)))
}

/// Text from a schema or grammar, made safe for terminals and log lines: control and bidirectional formatting
/// characters are escaped, and long text is truncated.
struct Shown<'a>(&'a str);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX: usize = 400;
        let mut chars = self.0.chars();
        for c in chars.by_ref().take(MAX) {
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
