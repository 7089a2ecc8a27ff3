//! [`Document`], and reading it in this process: in a thread, within limits.

use crate::limits::{Limits, size};
use crate::{Format, docx, encoding, html, pdf};
use std::fs::File;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Stack of the thread that reads: parsers of nested formats call themselves.
const STACK_BYTES: usize = 32 << 20;

/// The text of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Document {
    /// The text; lines end with `\n`.
    pub text: String,
    /// The format of the file.
    pub format: Format,
    /// The begin of each page in the text, in bytes; empty for formats without pages.
    pub pages: Vec<usize>,
}

impl Document {
    /// Returns the text of a page, counted from 0; `None` if there is no such page or the format has no pages.
    #[must_use]
    pub fn page(&self, page: usize) -> Option<&str> {
        let start = *self.pages.get(page)?;
        let end = self.pages.get(page + 1).copied().unwrap_or(self.text.len());
        self.text.get(start..end)
    }
}

/// Opens a regular file of an allowed size.
fn open(path: &Path, limits: &Limits) -> Result<File, String> {
    let cannot = |error: std::io::Error| format!("cannot read: {error}");
    // Opening a pipe would wait for its writer.
    let meta = std::fs::metadata(path).map_err(cannot)?;
    if !meta.is_file() {
        return Err("not a regular file".to_owned());
    }
    if meta.len() > limits.file_bytes {
        return Err(format!("{}, more than the limit of {}", size(meta.len()), size(limits.file_bytes)));
    }
    if meta.len() == 0 {
        return Err("empty file".to_owned());
    }
    File::open(path).map_err(cannot)
}

/// Reads in a thread of its own, which a panic or the limit of time ends for the caller.
fn in_thread(file: File, format: Format, limits: &Limits) -> Result<Document, String> {
    let (sender, receiver) = mpsc::channel();
    let own = limits.clone();
    std::thread::Builder::new()
        .name("document".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let read = catch_unwind(AssertUnwindSafe(|| within(file, format, &own)));
            // The caller is gone if it took too long.
            let _ = sender.send(
                read.unwrap_or_else(|_| Err("damaged in a way that its reader does not know".to_owned())),
            );
        })
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    match receiver.recv_timeout(Duration::from_secs(limits.seconds)) {
        Ok(read) => read,
        Err(_) => Err(too_slow(limits)),
    }
}

/// Returns the message of a document that takes too long.
pub(crate) fn too_slow(limits: &Limits) -> String {
    format!("not read within the limit of {} seconds", limits.seconds)
}

/// Reads the document at `path` in a thread of this process.
pub(crate) fn read_here(path: &Path, limits: &Limits) -> Result<Document, String> {
    let format = Format::of_path(path)?;
    let file = open(path, limits)?;
    match format {
        // Their readers take a time and memory in proportion to the file's size.
        Format::Text | Format::Markdown => within(file, format, limits),
        _ => in_thread(file, format, limits),
    }
}

fn within(file: File, format: Format, limits: &Limits) -> Result<Document, String> {
    let end = Instant::now() + Duration::from_secs(limits.seconds);
    let mut pages = Vec::new();
    let text = match format {
        Format::Text | Format::Markdown => encoding::decode(&bytes(file, limits)?, None)?,
        Format::Html => html::text(&bytes(file, limits)?)?,
        Format::Docx => docx::text(file, limits)?,
        Format::Pdf => pdf::text(&bytes(file, limits)?, limits, end, &mut pages)?,
    };
    if text.len() > limits.text_bytes {
        return Err(format!("more text than the limit of {}", size(limits.text_bytes as u64)));
    }
    Ok(Document { text, format, pages })
}

/// Returns the content of a file, which may have grown since it was opened.
fn bytes(file: File, limits: &Limits) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    file.take(limits.file_bytes + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("cannot read: {error}"))?;
    if bytes.len() as u64 > limits.file_bytes {
        return Err(format!("more than the limit of {}", size(limits.file_bytes)));
    }
    Ok(bytes)
}
