//! [`Reader`]: rows of a file or of standard input, one after the other.

use crate::parquet::Parquet;
use crate::source::{self, Source};
use crate::{Error, Format, Row, format};
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows of one input.
pub struct Reader {
    source: Box<dyn Source + Send>,
    /// Amount that has been read, in bytes or rows.
    done: Arc<AtomicU64>,
    /// Amount of the whole input; 0 where it is unknown.
    all: u64,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("done", &self.done).field("all", &self.all).finish_non_exhaustive()
    }
}

impl Reader {
    /// Opens a file; without `format` its ending tells the format, which for pipes and devices is text lines.
    ///
    /// # Errors
    /// The ending is unknown, or the file cannot be read or lacks a readable header.
    pub fn open(path: &Path, format: Option<Format>) -> Result<Reader, Error> {
        let cannot = |error: std::io::Error| Error::of(path, format!("cannot read: {error}"));
        let special = std::fs::metadata(path).map_err(cannot).and_then(|meta| match meta.is_dir() {
            true => Err(Error::of(path, "a folder, not a file of rows")),
            false => Ok(!meta.is_file()),
        })?;
        let format = match (format, special) {
            (Some(format), _) => format,
            (None, true) => Format::of_path(path).unwrap_or(Format::Text),
            (None, false) => Format::of_path(path)?,
        };
        let file = File::open(path).map_err(cannot)?;
        if format == Format::Parquet {
            return Reader::parquet(file, path);
        }
        let all = file.metadata().map_or(0, |meta| if meta.is_file() { meta.len() } else { 0 });
        let done = Arc::new(AtomicU64::new(0));
        let counted = Counted { input: file, done: Arc::clone(&done) };
        let input: Box<dyn Read + Send> = match format::is_gzip(path) {
            true => Box::new(MultiGzDecoder::new(BufReader::new(counted))),
            false => Box::new(counted),
        };
        let source = source(input, &path.display().to_string(), format)?;
        Ok(Reader { source, done, all })
    }

    /// Reads rows from a stream, whose `name` stands in messages.
    ///
    /// # Errors
    /// The header cannot be read, or the format needs a file.
    pub fn from_read(input: Box<dyn Read + Send>, name: &str, format: Format) -> Result<Reader, Error> {
        if format == Format::Parquet {
            return Err(Error::new(name, "Parquet is read from its end, which a stream does not have yet")
                .hint("write it into a file first")
                .usage());
        }
        Ok(Reader { source: source(input, name, format)?, done: Arc::default(), all: 0 })
    }

    fn parquet(file: File, path: &Path) -> Result<Reader, Error> {
        let done = Arc::new(AtomicU64::new(0));
        let source = Parquet::open(file, &path.display().to_string(), Arc::clone(&done))?;
        let all = source.rows();
        Ok(Reader { source: Box::new(source), done, all })
    }

    /// Returns the next row; `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read any further. A row that alone is bad is returned with its problem.
    // No iterator: after an error there is nothing to go on with.
    #[expect(clippy::should_implement_trait, reason = "rows end at the first error of the file")]
    pub fn next(&mut self) -> Result<Option<Row>, Error> {
        self.source.next()
    }

    /// Names of the columns, of formats that have a header.
    #[must_use]
    pub fn columns(&self) -> Option<&[String]> {
        self.source.columns()
    }

    /// Share of the input that has been read, from 0 to 1; `None` for streams.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        (self.all > 0).then(|| (self.done.load(Ordering::Relaxed) as f64 / self.all as f64).min(1.0))
    }
}

fn source(input: Box<dyn Read + Send>, name: &str, format: Format) -> Result<Box<dyn Source + Send>, Error> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    let start = input.fill_buf().map_err(|error| Error::new(name, format!("cannot read: {error}")))?;
    if start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff") {
        return Err(Error::new(name, "text in UTF-16")
            .hint("save it as UTF-8, or convert it, for example with iconv -f UTF-16 -t UTF-8"));
    }
    if start.starts_with(b"PAR1") {
        return Err(Error::new(name, "holds Parquet").hint("rename it to .parquet, or say --format parquet"));
    }
    if start.starts_with(b"\xef\xbb\xbf") {
        input.consume(3);
    }
    Ok(match format {
        Format::Text => Box::new(source::Text::new(input, name)),
        Format::Csv => Box::new(source::Csv::new(input, name, None)?),
        Format::Tsv => Box::new(source::Csv::new(input, name, Some(b'\t'))?),
        Format::Json => source::json(input, name)?,
        Format::JsonLines => Box::new(source::JsonLines::new(input, name)),
        Format::Parquet => return Err(Error::new(name, "Parquet needs a file")),
    })
}

/// Counts the bytes that are read.
struct Counted<R> {
    input: R,
    done: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let n = self.input.read(to)?;
        self.done.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}
