//! [`LogitsFile`]: a model's log probabilities on a text, in llama-perplexity's format (`--kl-divergence-base`).
//!
//! `_logits_`, then 32-bit numbers: tokens per window, vocabulary size, number of windows, all tokens; then for each
//! window a [row](crate::compare) for each token of its second half but the last.

use crate::compare::row_len;
use crate::error::Error;
use leyden_files::Output;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"_logits_";

/// Header of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of tokens per window.
    pub context: usize,
    /// Number of tokens in the vocabulary.
    pub vocabulary: usize,
    /// Tokens of every window, before the first is replaced by the BOS token.
    pub windows: Vec<Vec<u32>>,
}

impl Header {
    /// Returns the number of rows per window.
    pub(crate) fn rows(&self) -> usize {
        self.context - 1 - self.context / 2
    }
}

/// A file that is read window by window.
#[derive(Debug)]
pub struct LogitsFile {
    path: PathBuf,
    header: Header,
    reader: BufReader<File>,
}

impl LogitsFile {
    /// Returns true if a file begins with the format's magic.
    #[must_use]
    pub fn is_one(path: &Path) -> bool {
        let mut magic = [0; 8];
        File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *MAGIC
    }

    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// It cannot be read, is not in this format, or its length does not fit the header.
    pub fn open(path: &Path) -> Result<LogitsFile, Error> {
        let failed = |error: std::io::Error| Error::file(path, format!("cannot read: {error}"));
        let file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let mut head = [0; 20];
        reader.read_exact(&mut head).map_err(failed)?;
        if head[..8] != *MAGIC {
            return Err(Error::file(
                path,
                "not a file of log probabilities of llama-perplexity or `leyden eval --save-logits`",
            ));
        }
        let number = |i: usize| u32::from_le_bytes([head[i], head[i + 1], head[i + 2], head[i + 3]]) as usize;
        let (context, vocabulary, windows) = (number(8), number(12), number(16));
        if context < 4 || vocabulary == 0 || windows == 0 {
            return Err(Error::file(
                path,
                format!("{windows} windows of {context} tokens, vocabulary {vocabulary}"),
            ));
        }
        // All are below 2^32, so the products fit u128.
        let (c, v, w) = (context as u128, vocabulary as u128, windows as u128);
        let wanted = 20 + 4 * c * w + 2 * w * (c - 1 - c / 2) * (v.next_multiple_of(2) + 4);
        if u128::from(length) != wanted {
            return Err(Error::file(path, format!("{length} bytes instead of {wanted}; write it again")));
        }
        let mut tokens = vec![0; 4 * context * windows];
        reader.read_exact(&mut tokens).map_err(failed)?;
        let tokens: Vec<u32> =
            tokens.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        if let Some(token) = tokens.iter().find(|t| **t as usize >= vocabulary) {
            return Err(Error::file(
                path,
                format!("token {token} is outside the vocabulary of {vocabulary}"),
            ));
        }
        let windows = tokens.chunks_exact(context).map(<[u32]>::to_vec).collect();
        Ok(LogitsFile { path: path.to_owned(), header: Header { context, vocabulary, windows }, reader })
    }

    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Reads the rows of the next window.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn next_window(&mut self) -> Result<Vec<u16>, Error> {
        let mut bytes = vec![0; 2 * self.header.rows() * row_len(self.header.vocabulary)];
        let failed = |error: std::io::Error| Error::file(&self.path, format!("cannot read: {error}"));
        self.reader.read_exact(&mut bytes).map_err(failed)?;
        Ok(bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect())
    }
}

/// A file that is written window by window, and gets its name when it is complete.
#[derive(Debug)]
pub struct LogitsWriter {
    path: PathBuf,
    out: BufWriter<Output>,
}

impl LogitsWriter {
    /// Creates a file and writes its header.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(path: &Path, header: &Header) -> Result<LogitsWriter, Error> {
        let output =
            Output::create(path).map_err(|error| Error::file(path, format!("cannot write: {error}")))?;
        let out = BufWriter::with_capacity(1 << 20, output);
        let mut writer = LogitsWriter { path: path.to_owned(), out };
        let number = |n: usize| {
            let wrong = || Error::Usage(format!("{n} does not fit the file of log probabilities"));
            u32::try_from(n).map(u32::to_le_bytes).map_err(|_| wrong())
        };
        let mut head = MAGIC.to_vec();
        for n in [header.context, header.vocabulary, header.windows.len()] {
            head.extend(number(n)?);
        }
        head.extend(header.windows.iter().flatten().flat_map(|token| token.to_le_bytes()));
        writer.write(&head)?;
        Ok(writer)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.out.write_all(bytes).map_err(|error| Error::file(&self.path, format!("cannot write: {error}")))
    }

    /// Writes the rows of the next window.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn window(&mut self, rows: &[u16]) -> Result<(), Error> {
        let bytes: Vec<u8> = rows.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.write(&bytes)
    }

    /// Completes the file and renames it to its path.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(self) -> Result<(), Error> {
        let failed = |error: std::io::Error| Error::file(&self.path, format!("cannot write: {error}"));
        self.out.into_inner().map_err(|error| failed(error.into_error()))?.finish().map_err(failed)
    }
}
