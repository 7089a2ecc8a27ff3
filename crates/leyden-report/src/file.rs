//! Reading of documents and writing of pages.

use crate::error::Error;
use crate::kinds;
use crate::run::Run;
use leyden_files::OutputOptions;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Maximum size of a document in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Reads the document of a run.
///
/// # Errors
/// The file cannot be read, is no JSON, is larger than 64 MiB, or is of no known kind; the message names the field.
pub fn read_file(path: &Path) -> Result<Run, Error> {
    let failed = |error| Error::file(path, format!("cannot read: {error}"));
    let found = fs::metadata(path).map_err(failed)?;
    if found.is_dir() {
        return Err(Error::file(path, "is a folder; name a file that a command wrote with --json"));
    }
    let mut file = File::open(path).map_err(failed)?;
    read_from(&path.display().to_string(), &mut file)
}

/// Reads the document of a run from a stream; `name` is for messages.
///
/// # Errors
/// As [`read_file`].
pub fn read_from(name: &str, stream: &mut dyn Read) -> Result<Run, Error> {
    let error = |what: String| Error::File { file: name.to_owned(), what };
    let mut text = String::new();
    let read = stream.take(MAX_BYTES + 1).read_to_string(&mut text);
    read.map_err(|failed| error(format!("cannot read: {failed}")))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(error("is larger than 64 MiB".to_owned()));
    }
    let document = serde_json::from_str(&text).map_err(|failed| error(format!("is no JSON: {failed}")))?;
    let mut run = kinds::read(&document).map_err(|failed| error(failed.to_string()))?;
    run.file = name.to_owned();
    Ok(run)
}

/// Writes a page; `path` is the complete new page or the file that was there before.
///
/// # Errors
/// It cannot be written; an existing file stays.
pub fn write(path: &Path, html: &str) -> Result<(), Error> {
    leyden_files::write(path, html.as_bytes(), OutputOptions::new())
        .map_err(|error| Error::file(path, format!("cannot write: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.html");
        for text in ["one", "two"] {
            write(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let error = write(&folder.path().join("none/p.html"), "x").unwrap_err().to_string();
        assert!(error.contains("none/p.html: cannot write"), "{error}");
    }

    #[test]
    fn files_that_are_no_documents_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d.json");
        for (text, wanted) in [
            ("{", "d.json: is no JSON"),
            ("[]", "d.json: no document of bench"),
            ("{\"tests\": 3}", "d.json: `tests`: must be an array"),
            ("{\"kind\": \"run\", \"summary\": {}}", "d.json: `server`: is missing"),
        ] {
            fs::write(&path, text).unwrap();
            let error = read_file(&path).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
        let error = read_file(folder.path()).unwrap_err().to_string();
        assert!(error.contains("is a folder"), "{error}");
    }
}
