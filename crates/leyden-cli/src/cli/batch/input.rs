//! [`Input`] of a batch: a file of rows, a folder of documents, or standard input.

use super::args::Args;
use crate::cli::failure::Failure;
use leyden_batch::Source;
use leyden_documents::Limits;
use leyden_rows::{Error, Format, Reader, Row};
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes at the beginning and at the end of a file that tell whether it is the same.
const PROBE: u64 = 1 << 20;

/// Rows of the input.
pub(super) struct Input {
    source: Box<dyn Source>,
    name: String,
    /// First row, if it was looked at.
    peeked: Option<Option<Row>>,
    /// Hash of the input, as far as it is known before it is read.
    hash: u64,
}

impl Input {
    /// Opens the input.
    pub(super) fn open(args: &Args) -> Result<Input, Failure> {
        let path = &args.input;
        let name = path.display().to_string();
        if path == Path::new("-") {
            let format = args.format.unwrap_or(Format::JsonLines);
            let reader = Reader::from_read(Box::new(io::stdin()), "standard input", format)?;
            return Ok(Input {
                source: Box::new(reader),
                name: "standard input".to_owned(),
                peeked: None,
                hash: 0,
            });
        }
        if path.is_dir() {
            let folder = Documents::open(path, args)?;
            let names: Vec<String> =
                folder.files.iter().map(|file| format!("{}\n", file.display())).collect();
            let hash = xxh3_64(names.concat().as_bytes());
            return Ok(Input { source: Box::new(folder), name, peeked: None, hash });
        }
        let reader = Reader::open(path, args.format)?;
        let hash = probe(path).map_err(|error| Failure::new(format!("{name}: cannot read: {error}")))?;
        Ok(Input { source: Box::new(reader), name, peeked: None, hash })
    }

    /// Returns the first row.
    pub(super) fn first(&mut self) -> Result<Option<&Row>, Failure> {
        if self.peeked.is_none() {
            self.peeked = Some(self.source.next()?);
        }
        Ok(self.peeked.as_ref().and_then(Option::as_ref))
    }

    /// Returns the name in messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the hash.
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }
}

impl Source for Input {
    fn next(&mut self) -> Result<Option<Row>, Error> {
        match self.peeked.take() {
            Some(row) => Ok(row),
            None => self.source.next(),
        }
    }

    fn share(&self) -> Option<f64> {
        self.source.share()
    }
}

/// Returns a hash of a file's length, beginning and end. The rows between are compared when they are read.
fn probe(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Ok(0);
    }
    let mut bytes = meta.len().to_le_bytes().to_vec();
    file.by_ref().take(PROBE).read_to_end(&mut bytes)?;
    if meta.len() > PROBE {
        file.seek(SeekFrom::Start(meta.len() - PROBE.min(meta.len() - PROBE)))?;
        file.take(PROBE).read_to_end(&mut bytes)?;
    }
    Ok(xxh3_64(&bytes))
}

/// Documents of a folder as rows with `path` and `text`, sorted by path.
struct Documents {
    folder: PathBuf,
    files: Vec<PathBuf>,
    next: usize,
    limits: Limits,
}

impl Documents {
    fn open(path: &Path, args: &Args) -> Result<Documents, Failure> {
        let found = leyden_documents::folder(path).map_err(Failure::new)?;
        if let [(file, reason), others @ ..] = &found.skipped[..] {
            let more = if others.is_empty() { String::new() } else { format!(", and {} more", others.len()) };
            args.notes.say(&format!("left out: {}: {reason}{more}", file.display()));
        }
        if found.files.is_empty() {
            return Err(Failure::new(format!("{}: no documents", path.display()))
                .hint("documents are files in .txt, .md, .html, .docx and .pdf"));
        }
        // Without the path of the program documents are read in threads.
        let limits = Limits::with_this_program().unwrap_or_default();
        Ok(Documents { folder: path.to_owned(), files: found.files, next: 0, limits })
    }
}

impl Source for Documents {
    fn next(&mut self) -> Result<Option<Row>, Error> {
        let Some(file) = self.files.get(self.next) else { return Ok(None) };
        self.next += 1;
        let shown = file.strip_prefix(&self.folder).unwrap_or(file).display().to_string();
        let mut row = Row::new(Map::from_iter([("path".to_owned(), Value::from(shown.clone()))]), shown);
        match leyden_documents::read(file, &self.limits) {
            Ok(document) => drop(row.fields.insert("text".to_owned(), document.text.into())),
            Err(error) => row.problem = Some(error.reason),
        }
        Ok(Some(row))
    }

    fn share(&self) -> Option<f64> {
        Some(self.next as f64 / self.files.len().max(1) as f64)
    }
}
