//! Text of documents: plain text, Markdown, HTML, DOCX, and the text layer of PDF.
//!
//! [`read`] returns a file's text, [`folder`] lists the documents of a folder. [`Limits`] bound the size of the file, of what it
//! unpacks to and of its text, the memory and the time. PDF, DOCX and HTML are read in a child process if [`Limits::program`]
//! names a program that calls [`answer`] first in its `main`: then a hostile file can end that process at most. Without such a
//! program they are read in a thread; a panic is an error there too, and a reading that takes too long is given up.
//!
//! A format is a variant of [`Format`], with its endings, and a file that turns bytes into text.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("note.html");
//! std::fs::write(&path, "<title>Note</title><p>One &amp; two</p>")?;
//! let document = leyden_documents::read(&path, &leyden_documents::Limits::default())?;
//! assert_eq!(document.text, "Note\n\nOne & two\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod child;
mod document;
mod docx;
mod encoding;
mod error;
mod folder;
mod format;
mod html;
mod limits;
mod pdf;
mod read;

pub use child::answer;
pub use document::Document;
pub use error::Error;
pub use folder::{Folder, folder};
pub use format::Format;
pub use limits::Limits;
pub use read::read;
