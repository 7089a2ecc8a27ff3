//! Errors of this crate.

use std::path::PathBuf;

/// An error, with the file or the part of the voice it is about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file that cannot be read.
    #[error("{}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file whose contents are no dictionary.
    #[error("{}: {problem}", file.display())]
    Dictionary {
        /// The file.
        file: PathBuf,
        /// The key and what is wrong with it.
        problem: String,
    },
    /// A symbol that the voice has no id for.
    #[error("the voice's map has no id for {symbol:?}; give a map of an English voice")]
    Symbol {
        /// The symbol.
        symbol: char,
    },
    /// More ids than the voice takes.
    #[error("{ids} ids, more than the voice's {max}; split the sentence with `Sentence::chunks`")]
    TooLong {
        /// Ids of the sentence, padding included.
        ids: usize,
        /// Limit of the voice.
        max: usize,
    },
    /// A program for phonemes that does not do its work.
    #[error("{}: {problem}", program.display())]
    Espeak {
        /// The program.
        program: PathBuf,
        /// The step that failed, with the system's reason.
        problem: String,
    },
}
