//! [`read`]: the text of a file.

use crate::document::read_here;
use crate::{Document, Error, Format, Limits, child};
use std::path::Path;

/// Returns the text of the document at `path`; its ending tells the format.
///
/// # Errors
/// The format is unknown, the file is damaged, has no text, or exceeds a limit. The error names the file and the reason.
pub fn read(path: &Path, limits: &Limits) -> Result<Document, Error> {
    let format = Format::of_path(path).map_err(|reason| Error::of(path, reason))?;
    let read = match (format, &limits.program) {
        (Format::Html | Format::Docx | Format::Pdf, Some(program)) => child::read(program, path, limits),
        _ => read_here(path, limits),
    };
    read.map_err(|reason| Error::of(path, reason))
}
