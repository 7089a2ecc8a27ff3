//! Error type of this crate: a kind, and the file and field where it happened.

use std::fmt::{self, Display};

/// Error with the file and the field, tensor or chunk that it concerns.
#[derive(Debug)]
pub struct Error {
    kind: Box<ErrorKind>,
    file: Option<Box<str>>,
    item: Option<Box<str>>,
}

/// Kind of an [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused.
    #[error("cannot {action}: {source}")]
    Io {
        /// Action that failed, such as `open`.
        action: &'static str,
        /// Reason.
        source: std::io::Error,
    },
    /// An audio file is damaged, of an unknown format, or empty.
    #[error("{0}")]
    Audio(String),
    /// The audio is longer than allowed.
    #[error("the audio is longer than {0} s, which is the limit")]
    TooLong(u64),
    /// A file is larger than allowed.
    #[error("{bytes} bytes, at most {most} are allowed")]
    TooLarge {
        /// Size of the file.
        bytes: u64,
        /// Largest allowed size.
        most: u64,
    },
    /// A value in a model's file contradicts another one, or is out of range.
    #[error("{0}")]
    Model(String),
    /// Weights or configuration cannot be read.
    #[error(transparent)]
    Tensor(leyden_tensor::Error),
    /// The tokenizer cannot be read, or cannot encode a text.
    #[error(transparent)]
    Text(leyden_text::Error),
    /// Weights cannot be packed, or there is not enough memory.
    #[error(transparent)]
    Kernels(leyden_kernels::Error),
    /// An option is out of range, or does not fit the model.
    #[error("{0}")]
    Option(String),
    /// The observer stopped the work.
    #[error("transcription was stopped")]
    Stopped,
}

impl Error {
    /// Returns an error without file and field.
    pub(crate) fn new(kind: ErrorKind) -> Error {
        Error { kind: Box::new(kind), file: None, item: None }
    }

    /// Returns the error of a damaged audio file.
    pub(crate) fn audio(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Audio(message.into()))
    }

    /// Returns the error of a value in a model's file.
    pub(crate) fn model(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Model(message.into()))
    }

    /// Returns the error of an option.
    pub(crate) fn option(name: &str, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Option(message.into())).item(name)
    }

    /// Adds the file, unless there is one.
    #[must_use]
    pub(crate) fn file(self, file: impl Display) -> Error {
        let known = matches!(*self.kind, ErrorKind::Tensor(_) | ErrorKind::Text(_));
        let file = self.file.or_else(|| (!known).then(|| file.to_string().into()));
        Error { file, ..self }
    }

    /// Adds the field, unless there is one.
    #[must_use]
    pub(crate) fn item(self, item: impl Display) -> Error {
        let item = self.item.or_else(|| Some(item.to_string().into()));
        Error { item, ..self }
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Returns the option, tensor or field that the error concerns, if it is known.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        self.item.as_deref()
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.file, &self.item].into_iter().flatten() {
            // Names come from files: no control characters.
            write!(f, "{}: ", part.escape_debug())?;
        }
        write!(f, "{}", self.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.kind)
    }
}

impl From<leyden_tensor::Error> for Error {
    fn from(error: leyden_tensor::Error) -> Error {
        Error::new(ErrorKind::Tensor(error))
    }
}

impl From<leyden_text::Error> for Error {
    fn from(error: leyden_text::Error) -> Error {
        Error::new(ErrorKind::Text(error))
    }
}

impl From<leyden_kernels::Error> for Error {
    fn from(error: leyden_kernels::Error) -> Error {
        Error::new(ErrorKind::Kernels(error))
    }
}
