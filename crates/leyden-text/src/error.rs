//! Error type of this crate: the failure, its file and its metadata key.

use std::fmt::{self, Display};

/// Error with the file and the metadata key that it concerns.
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

/// Kind of failure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The metadata lacks a key, or a value has the wrong type.
    #[error("{0}")]
    Metadata(#[source] leyden_tensor::Error),
    /// The tokenizer model is not supported.
    #[error("tokenizer {} is not supported (supported: {})", Quoted(.name), .known.join(", "))]
    UnsupportedTokenizer {
        /// Name in the file.
        name: String,
        /// Supported names.
        known: Vec<&'static str>,
    },
    /// The pre-tokenizer is not supported.
    #[error(
        "pre-tokenizer {} is none of the {} that are known, and another one would cut texts wrongly; \
         the model as a folder of safetensors runs where its tokenizer.json states the rules",
        Quoted(.name), .known.len()
    )]
    UnsupportedPreTokenizer {
        /// Name in the file.
        name: String,
        /// Supported names.
        known: Vec<&'static str>,
    },
    /// A component of a tokenizer is of an unsupported kind.
    #[error("{what} {} is not supported (supported: {})", Quoted(.name), .known.join(", "))]
    UnsupportedComponent {
        /// Type of component: `normalizer`, `decoder`.
        what: &'static str,
        /// Name in the file.
        name: String,
        /// Supported names.
        known: Vec<&'static str>,
    },
    /// A metadata value contradicts another one or itself.
    #[error("{}", Shown(.0))]
    Invalid(String),
    /// The vocabulary has no token for a byte of the text, so the text cannot be encoded.
    #[error("the vocabulary has no token for byte 0x{0:02x}, which the text contains")]
    NoTokenForByte(u8),
    /// The text has more tokens than allowed.
    #[error("the text has more than {0} tokens")]
    TooManyTokens(usize),
    /// Encoding was cancelled.
    #[error("encoding the text was cancelled")]
    Stopped,
    /// Normalization makes the text more than this many times longer.
    #[error("normalization makes the text more than {0} times longer")]
    TextGrows(usize),
    /// The chat template does not parse.
    #[error("line {line}: {}", Shown(.message))]
    TemplateSyntax {
        /// Line of the template, from 1.
        line: usize,
        /// Description of the error.
        message: String,
    },
    /// Rendering the chat template failed on these messages.
    #[error("line {line}: {}", Shown(.message))]
    TemplateRender {
        /// Line of the template, from 1.
        line: usize,
        /// Description of the error.
        message: String,
    },
    /// The chat template called `raise_exception`.
    #[error("the template refuses the messages: {}", Quoted(.0))]
    TemplateRaised(String),
    /// The chat template exceeds its limit of time, memory or depth.
    #[error("line {line}: the template exceeds a limit: {limit}")]
    TemplateLimit {
        /// Line of the template, from 1.
        line: usize,
        /// Limit that was reached.
        limit: String,
    },
    /// The final message cannot be continued.
    #[error("the final message cannot be continued: {0}")]
    NothingToContinue(&'static str),
    /// The thread that renders the template could not be started.
    #[error("cannot start the thread for the chat template: {0}")]
    Thread(#[source] std::io::Error),
}

impl Error {
    pub(crate) fn new(file: &str, key: impl Into<Option<&'static str>>, kind: ErrorKind) -> Self {
        Error { kind: Box::new(kind), file: file.into(), key: key.into().map(Into::into) }
    }

    /// Creates an error for a field that is given by its path in the file.
    pub(crate) fn at(file: &str, path: &str, kind: ErrorKind) -> Self {
        Error { kind: Box::new(kind), file: file.into(), key: Some(path.into()) }
    }

    /// Returns the kind of failure.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Returns the file as the caller named it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the metadata key, if the error concerns one.
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
        // The message of a metadata error already contains file and key.
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

/// Text from a file or a template, made safe for terminals and log lines: control and bidirectional formatting
/// characters are escaped, and long text is truncated.
struct Shown<'a>(&'a str);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX: usize = 160;
        let mut chars = self.0.chars();
        for c in chars.by_ref().take(MAX) {
            match c {
                '\'' | '"' | '\\' => write!(f, "{c}")?,
                c => write!(f, "{}", c.escape_debug())?,
            }
        }
        if chars.next().is_some() { f.write_str("…") } else { Ok(()) }
    }
}

/// Text from a file or a template in quotation marks, escaped and truncated.
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
