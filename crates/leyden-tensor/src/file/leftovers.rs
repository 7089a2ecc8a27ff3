//! Temporary files of processes that were killed before they could remove them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::Path;

/// How the temporary name of a process ends; before that stand a dot and the name that the file is to get.
pub(super) fn ending(process: u32, attempt: u32) -> String {
    format!(".{process}-{attempt}.tmp")
}

/// Tells others that a process has this file open. Where the system knows no such locks for files that others read, none is taken.
pub(super) fn hold(file: &File) {
    if cfg!(unix) {
        // Without it the file is kept as long as a process has the number in its name.
        let _ = file.try_lock();
    }
}

/// Removes the temporary files that were to become `name` and whose processes are gone: none has the number in their names, and
/// none holds them, be it in another container or on another machine. What cannot be told stays.
pub(super) fn remove(folder: &Path, name: &OsStr) {
    let Some(name) = name.to_str() else { return };
    // A relative name of a file has no folder.
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let found = entry.file_name();
        let process = found.to_str().and_then(|found| process_of(found, name));
        // An empty one may be of a process that is about to take its lock.
        let written = || entry.metadata().is_ok_and(|found| found.is_file() && found.len() > 0);
        if process.is_some_and(is_gone) && written() && !is_held(&entry.path()) {
            // Whoever removed it before has done the same.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The process in the temporary name of a file that was to become `name`.
fn process_of(found: &str, name: &str) -> Option<u32> {
    let rest = found.strip_prefix('.')?.strip_prefix(name)?;
    let (process, attempt) = rest.strip_prefix('.')?.strip_suffix(".tmp")?.split_once('-')?;
    let (process, attempt) = (process.parse().ok()?, attempt.parse().ok()?);
    (ending(process, attempt) == rest).then_some(process)
}

/// Whether there is certainly no such process.
fn is_gone(process: u32) -> bool {
    let of = |process: &str| Path::new("/proc").join(process);
    of("self").exists()
        && of(&process.to_string())
            .symlink_metadata()
            .is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound)
}

/// Whether a process may have the file open.
fn is_held(path: &Path) -> bool {
    File::open(path).map_or(true, |file| file.try_lock().is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beyond the greatest number of a process.
    const NOBODY: u32 = 1 << 22 | 7;

    #[test]
    fn names_say_whose_files_they_are() {
        assert_eq!(process_of(".m.gguf.17-0.tmp", "m.gguf"), Some(17));
        for other in [
            "m.gguf.17-0.tmp",
            ".m.gguf",
            ".m.gguf.17.tmp",
            ".m.gguf.17-0.tmpx",
            ".n.gguf.17-0.tmp",
            ".m.gguf.x-0.tmp",
            ".m.gguf.+17-0.tmp",
            ".m.gguf.017-0.tmp",
            ".m.gguf.2.17-0.tmp",
            ".m.gguf.99999999999-0.tmp",
        ] {
            assert_eq!(process_of(other, "m.gguf"), None, "{other}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn only_files_of_processes_that_are_gone_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path =
            |name: &str, process, attempt| folder.path().join(format!(".{name}{}", ending(process, attempt)));
        let (gone, held) = (path("m.gguf", NOBODY, 0), path("m.gguf", NOBODY, 1));
        let kept = [path("m.gguf", 1, 0), path("m.gguf", std::process::id(), 0), path("n.gguf", NOBODY, 0)];
        for path in kept.iter().chain([&gone, &held]) {
            fs::write(path, "x").unwrap();
        }
        let file = File::open(&held).unwrap();
        hold(&file);
        remove(folder.path(), OsStr::new("m.gguf"));
        assert!(!gone.exists() && held.exists() && kept.iter().all(|path| path.exists()));
        drop(file);
        remove(folder.path(), OsStr::new("m.gguf"));
        assert!(!held.exists());
    }
}
