//! [`Format`]: formats of documents and their endings.

use std::path::Path;

/// Format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Plain text in UTF-8, UTF-16 with a byte order mark, or Windows-1252.
    Text,
    /// Markdown, whose marks are kept.
    Markdown,
    /// HTML.
    Html,
    /// Word document (Office Open XML).
    Docx,
    /// PDF.
    Pdf,
}

/// Formats, their names and their endings.
const FORMATS: [(Format, &str, &[&str]); 5] = [
    (Format::Text, "text", &["txt", "text"]),
    (Format::Markdown, "markdown", &["md", "markdown"]),
    (Format::Html, "html", &["html", "htm", "xhtml"]),
    (Format::Docx, "docx", &["docx"]),
    (Format::Pdf, "pdf", &["pdf"]),
];

/// Endings that are known and not read, with the next step.
const OTHERS: [(&[&str], &str); 3] = [
    (&["doc", "rtf", "odt", "pages"], "save it as DOCX or PDF"),
    (&["tif", "tiff", "png", "jpg", "jpeg"], "a picture has no text layer; recognise its text first (OCR)"),
    (&["xls", "xlsx", "ppt", "pptx", "ods", "odp"], "save it as PDF"),
];

impl Format {
    /// Returns the format's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        FORMATS.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }

    /// Returns the format of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Format> {
        FORMATS.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Returns the format that a path's ending tells.
    ///
    /// # Errors
    /// The ending is missing or belongs to no format; the message says what to do.
    pub fn of_path(path: &Path) -> Result<Format, String> {
        let Some(ending) = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase())
        else {
            return Err("a name without an ending, which would tell the format".to_owned());
        };
        if let Some(row) = FORMATS.iter().find(|row| row.2.contains(&ending.as_str())) {
            return Ok(row.0);
        }
        match OTHERS.iter().find(|row| row.0.contains(&ending.as_str())) {
            Some((_, hint)) => Err(format!("documents of the format .{ending} are not read: {hint}")),
            None => {
                let known: Vec<&str> = FORMATS.iter().flat_map(|row| row.2).copied().collect();
                Err(format!("unknown format .{ending}; known are .{}", known.join(", .")))
            }
        }
    }
}
