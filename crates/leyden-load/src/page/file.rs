//! Writing a page so that a reader sees the old one or the new one, also after a loss of power.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::error::{Error, Result};

/// Writes a file: a temporary one beside it, flushed, then renamed.
///
/// # Errors
/// The folder cannot be written to, or the disk is full; what was there stays.
pub fn write_page(path: &Path, html: &str) -> Result<()> {
    let name = path
        .file_name()
        .ok_or_else(|| Error::setting(path.display().to_string(), "not the name of a file"))?;
    let mut temporary = name.to_owned();
    temporary.push(format!(".{}.new", std::process::id()));
    let temporary = path.with_file_name(temporary);
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(html.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    });
    if written.is_err() {
        // The error that counts is the first.
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(Error::io("write", path))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The name itself is flushed with the folder that holds it, where the system lets one open folders.
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
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
