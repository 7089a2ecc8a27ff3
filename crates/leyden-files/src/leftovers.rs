//! Names and locks of temporary files and folders, and removal of those whose owner was killed.

use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::path::Path;

/// Returns the temporary name of a process's file or folder.
pub(crate) fn name(process: u32, attempt: u32) -> String {
    format!(".leyden-{process}-{attempt}.tmp")
}

/// Returns true if a name has the form of [`name`].
fn is_ours(found: &str) -> bool {
    let numbers = found.strip_prefix(".leyden-").and_then(|rest| rest.strip_suffix(".tmp"));
    let Some((process, attempt)) = numbers.and_then(|numbers| numbers.split_once('-')) else { return false };
    let (Ok(process), Ok(attempt)) = (process.parse(), attempt.parse()) else { return false };
    name(process, attempt) == found
}

/// Locks a file or folder, which tells other processes that its owner lives. Returns `false` if another process is
/// about to remove it, or has.
///
/// # Errors
/// If the metadata of `path` cannot be read.
pub(crate) fn hold(file: &File, path: &Path) -> io::Result<bool> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(false),
        // A file system without locks lets no process take one, so no process removes anything.
        Err(TryLockError::Error(_)) | Ok(()) => {}
    }
    match fs::symlink_metadata(path) {
        Ok(named) => Ok(is_same(&named, &file.metadata()?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes the temporary files and folders in `folder` that belong to the owner of `own` and that no process holds. If
/// in doubt, they stay.
pub(crate) fn sweep(folder: &Path, own: &Metadata) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_name().to_str().is_some_and(is_ours) {
            continue;
        }
        let Ok(found) = entry.metadata() else { continue };
        if has_owner_of(&found, own) {
            remove_unheld(&entry.path(), &found);
        }
    }
}

/// Removes a file or folder while holding its lock, so that its creator, who locks it next, notices.
fn remove_unheld(path: &Path, found: &Metadata) {
    // A folder cannot be opened for writing; some network file systems only lock files opened for writing.
    let Ok(file) = File::options().read(true).write(found.is_file()).open(path) else { return };
    let same = file.metadata().is_ok_and(|opened| is_same(&opened, found));
    if same && file.try_lock().is_ok() {
        // Errors are ignored: another process may have removed it.
        let _ = if found.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
}

#[cfg(unix)]
fn is_same(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(not(unix))]
fn is_same(_: &Metadata, _: &Metadata) -> bool {
    true
}

/// Returns true if both belong to one user, and the found one is a file or folder: links and devices are never
/// temporary files.
#[cfg(unix)]
fn has_owner_of(found: &Metadata, own: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    found.uid() == own.uid() && (found.is_file() || found.is_dir())
}

#[cfg(not(unix))]
fn has_owner_of(found: &Metadata, _: &Metadata) -> bool {
    found.is_file() || found.is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        assert!(is_ours(".leyden-17-0.tmp") && is_ours(&name(u32::MAX, u32::MAX)));
        for other in [
            "leyden-17-0.tmp",
            ".leyden-17.tmp",
            ".leyden-17-0.tmpx",
            ".leyden-x-0.tmp",
            ".leyden-+17-0.tmp",
            ".leyden-017-0.tmp",
            ".leyden-17-0-0.tmp",
            ".leyden-99999999999-0.tmp",
            ".leyden-17-0",
        ] {
            assert!(!is_ours(other), "{other}");
        }
    }

    #[test]
    fn the_lock_decides() {
        let folder = tempfile::tempdir().unwrap();
        let path = |process, attempt| folder.path().join(name(process, attempt));
        // The id of this process, which lives, and that of init: ids are reused, so they prove nothing.
        let gone = [path(1, 0), path(std::process::id(), 9), path(3, 0)];
        let held = [path(2, 0), path(2, 1)];
        for path in [&gone[0], &gone[1], &held[0]] {
            fs::write(path, "x").unwrap();
        }
        for path in [&gone[2], &held[1]] {
            fs::create_dir_all(path.join("below")).unwrap();
            fs::write(path.join("below/x"), "x").unwrap();
        }
        let (own, link) = (folder.path().join("own"), path(4, 0));
        fs::write(&own, "mine").unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        let locks = held.each_ref().map(|path| File::open(path).unwrap());
        assert!(locks.iter().zip(&held).all(|(file, path)| hold(file, path).unwrap()));
        let metadata = folder.path().metadata().unwrap();
        sweep(folder.path(), &metadata);
        assert!(gone.iter().all(|path| !path.exists()) && held.iter().all(|path| path.exists()));
        assert!(link.exists() && own.exists());
        drop(locks);
        // A process that another test starts inherits the locks until it runs its program.
        for _ in 0..500 {
            sweep(folder.path(), &metadata);
            if held.iter().all(|path| !path.exists()) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("what nobody holds stays");
    }

    #[test]
    fn a_file_that_was_removed_before_its_lock_is_not_held() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name(1, 0));
        let file = File::create(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(!hold(&file, &path).unwrap());
        fs::write(&path, "another's").unwrap();
        assert!(!hold(&file, &path).unwrap());
    }
}
