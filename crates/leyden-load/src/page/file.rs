//! Atomic writing of a page: after a loss of power the file is the old or the new one.

use std::path::Path;

use leyden_files::OutputOptions;

use crate::error::{Error, Result};

/// Writes a file, replacing an existing one, or writes to a device or FIFO.
///
/// # Errors
/// The folder cannot be written to, or the disk is full; an existing file stays.
pub fn write_page(path: &Path, html: &str) -> Result<()> {
    leyden_files::write(path, html.as_bytes(), OutputOptions::new()).map_err(Error::io("write", path))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.html");
        for text in ["one", "two"] {
            write_page(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let error = write_page(&folder.path().join("none/p.html"), "x").unwrap_err().to_string();
        assert!(error.contains("none/p.html: cannot write"), "{error}");
        assert!(write_page(Path::new("/"), "x").is_err());
    }
}
