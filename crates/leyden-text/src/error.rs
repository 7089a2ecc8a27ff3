//! The one error type of this crate: what went wrong, and in which file and field.

use std::fmt::{self, Display};

/// An error that names the file and the metadata key it is about.
///
/// ```
/// use leyden_tensor::{Metadata, Value};
/// let meta = Metadata::new("m.gguf", [("tokenizer.ggml.model".to_string(), Value::from("rwkv"))])?;
/// let error = leyden_text::from_gguf(&meta, "m.gguf").err().unwrap();
/// assert_eq!(
///     error.to_string(),
///     r#"m.gguf: tokenizer.ggml.model: tokenizer "rwkv" is not supported (supported: gpt2, gemma4, llama, bert, t5)"#,
/// );
/// # Ok::<(), leyden_tensor::Error>(())
/// ```
#[derive(Debug)]
pub struct Error {
    kind: Box<ErrorKind>,
    file: Box<str>,
    key: Option<Box<str>>,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The metadata lacks a key, or a value has the wrong type.
    #[error("{0}")]
    Metadata(#[source] leyden_tensor::Error),
    /// The tokenizer model is one that this crate does not have.
    #[error("tokenizer {} is not supported (supported: {})", Quoted(.name), .known.join(", "))]
    UnsupportedTokenizer {
        /// The name in the file.
        name: String,
        /// The names that are supported.
        known: Vec<&'static str>,
    },
    /// The pre-tokenizer is one that this crate does not have.
    #[error(
        "pre-tokenizer {} is none of the {} that are known, and another one would cut texts wrongly; \
         the model as a folder of safetensors runs where its tokenizer.json states the rules",
        Quoted(.name), .known.len()
    )]
    UnsupportedPreTokenizer {
        /// The name in the file.
        name: String,
        /// The names that are supported.
        known: Vec<&'static str>,
    },
    /// A component of a tokenizer is of a kind that this crate does not have.
    #[error("{what} {} is not supported (supported: {})", Quoted(.name), .known.join(", "))]
    UnsupportedComponent {
        /// What it is a kind of: `normalizer`, `decoder`.
        what: &'static str,
        /// The name in the file.
        name: String,
        /// The names that are supported.
        known: Vec<&'static str>,
    },
    /// A metadata value contradicts another one or itself.
    #[error("{}", Shown(.0))]
    Invalid(String),
    /// A byte of the text has no token, so the text cannot be written in this vocabulary.
    #[error("the vocabulary has no token for byte 0x{0:02x}, which the text contains")]
    NoTokenForByte(u8),
    /// The text has more tokens than it may have.
    #[error("the text has more than {0} tokens")]
    TooManyTokens(usize),
    /// The work was to stop before it was done.
    #[error("stopped before the text was written in tokens")]
    Stopped,
    /// Normalising the text, as the vocabulary wants it, makes it more than so many times longer.
    #[error("the text becomes more than {0} times longer by the vocabulary's rules")]
    TextGrows(usize),
    /// The chat template is not one that can be parsed.
    #[error("line {line}: {}", Shown(.message))]
    TemplateSyntax {
        /// The line of the template, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// The chat template failed on these messages.
    #[error("line {line}: {}", Shown(.message))]
    TemplateRender {
        /// The line of the template, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// The chat template itself refused the messages (`raise_exception`).
    #[error("the template refuses: {}", Quoted(.0))]
    TemplateRaised(String),
    /// The chat template needs more time, memory or depth than a template may.
    #[error("line {line}: the template needs too much: {limit}")]
    TemplateLimit {
        /// The line of the template, from 1.
        line: usize,
        /// Which bound was reached.
        limit: String,
    },
    /// The final message cannot be continued.
    #[error("the final message cannot be continued: {0}")]
    NothingToContinue(&'static str),
    /// The thread that a template runs on could not be started.
    #[error("cannot start the thread for the chat template: {0}")]
    Thread(#[source] std::io::Error),
}

impl Error {
    pub(crate) fn new(file: &str, key: impl Into<Option<&'static str>>, kind: ErrorKind) -> Self {
        Error { kind: Box::new(kind), file: file.into(), key: key.into().map(Into::into) }
    }

    /// An error in a field whose name is a path in the file.
    pub(crate) fn at(file: &str, path: &str, kind: ErrorKind) -> Self {
        Error { kind: Box::new(kind), file: file.into(), key: Some(path.into()) }
    }

    /// What went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// The file, as it was named by the caller.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The metadata key, where one is to blame.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.kind)
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An error of the metadata names file and key itself.
        if let ErrorKind::Metadata(source) = &*self.kind {
            if source.context().file().is_none() {
                write!(f, "{}: ", self.file)?;
            }
            return source.fmt(f);
        }
        write!(f, "{}: ", self.file)?;
        if let Some(key) = &self.key {
            write!(f, "{}: ", Shown(key))?;
        }
        self.kind.fmt(f)
    }
}

/// Text from a file or a template, made safe for a terminal and a log line: control and direction-changing
/// characters are escaped and long text is cut.
struct Shown<'a>(&'a str);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 160;
        let mut chars = self.0.chars();
        for c in chars.by_ref().take(MOST) {
            match c {
                '\'' | '"' | '\\' => write!(f, "{c}")?,
                c => write!(f, "{}", c.escape_debug())?,
            }
        }
        if chars.next().is_some() { f.write_str("…") } else { Ok(()) }
    }
}

/// Text from a file or a template in quotation marks, made safe and cut.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", Shown(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_file_and_key_and_escapes() {
        let kind =
            ErrorKind::UnsupportedTokenizer { name: "a\u{1b}[31m\u{202e}'b".into(), known: vec!["gpt2"] };
        let error = Error::new("m.gguf", "tokenizer.ggml.model", kind);
        assert_eq!(
            error.to_string(),
            "m.gguf: tokenizer.ggml.model: tokenizer \"a\\u{1b}[31m\\u{202e}'b\" is not supported (supported: gpt2)"
        );
        assert!(Quoted(&"x".repeat(100_000)).to_string().len() < 200);
        let kind = ErrorKind::TemplateRender { line: 3, message: format!("no {} in \n it", Quoted("a")) };
        assert_eq!(kind.to_string(), "line 3: no \"a\" in \\n it");
    }
}
