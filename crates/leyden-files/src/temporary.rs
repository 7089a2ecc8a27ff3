//! Temporary files and folders, and the list of those of this process.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{leftovers, place, sync_folder};

/// Maximum number of names tried before the folder is reported as the cause.
const MAX_ATTEMPTS: u32 = 10_000;
/// Number of attempts to remove a folder into which another thread still writes.
const REMOVALS: usize = 5;

/// Temporary files and folders of this process, by absolute path. A global, because a signal is sent to the process.
/// Locked while a file is created, renamed or removed.
static LIVE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn live() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    // Paths are added and removed in one step, so the list is consistent even after a panic.
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all temporary files and folders of this process, which must end at once: threads that create, rename or drop
/// one block from now on.
pub fn remove_temporaries() {
    let mut live = live();
    for path in std::mem::take(&mut *live) {
        remove(&path);
    }
    std::mem::forget(live);
}

fn remove(path: &Path) {
    for _ in 0..REMOVALS {
        let is_folder = path.symlink_metadata().is_ok_and(|found| found.is_dir());
        // A failure cannot be reported; the next process that writes in the folder removes it.
        match if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) } {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            _ => return,
        }
    }
}

/// Path with its lock, removed when dropped unless it was renamed.
#[derive(Debug)]
struct Owned {
    /// Absolute path; empty after it was renamed.
    path: PathBuf,
    /// File that holds the lock.
    file: File,
}

impl Owned {
    /// Creates a file or folder in `folder` with `make`, under a free name; first removes those whose owners were
    /// killed.
    fn create(folder: &Path, make: impl Fn(&Path) -> io::Result<File>) -> io::Result<Owned> {
        let folder = std::path::absolute(folder)?;
        for attempt in 0..MAX_ATTEMPTS {
            let path = folder.join(leftovers::name(std::process::id(), attempt));
            let mut live = live();
            let file = match make(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            };
            if leftovers::hold(&file, &path)? {
                live.insert(path.clone());
                drop(live);
                leftovers::sweep(&folder, &file.metadata()?);
                return Ok(Owned { path, file });
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is no free name for a temporary file"))
    }

    /// Renames it with `give`, and flushes the folder.
    fn name(mut self, to: &Path, give: impl FnOnce(&Path, &Path) -> io::Result<()>) -> io::Result<()> {
        {
            let mut live = live();
            give(&self.path, to)?;
            live.remove(&self.path);
            self.path = PathBuf::new();
        }
        sync_folder(place::folder_of(to))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            let mut live = live();
            remove(&self.path);
            live.remove(&self.path);
        }
    }
}

/// Temporary file that is renamed when complete.
#[derive(Debug)]
pub(crate) struct TemporaryFile(Owned);

impl TemporaryFile {
    /// Creates a file in a folder, readable by its owner only if `private`.
    pub(crate) fn create(folder: &Path, private: bool) -> io::Result<TemporaryFile> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if private {
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        }
        #[cfg(not(unix))]
        let _ = private;
        Ok(TemporaryFile(Owned::create(folder, |path| options.open(path))?))
    }

    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.0.file
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }

    /// Flushes the content and renames the file, replacing an existing one.
    pub(crate) fn replace(self, to: &Path) -> io::Result<()> {
        self.0.file.sync_all()?;
        self.0.name(to, |from, to| fs::rename(from, to))
    }

    /// Flushes the content and renames the file, unless the name is taken.
    pub(crate) fn publish(self, to: &Path) -> io::Result<()> {
        self.0.file.sync_all()?;
        self.0.name(to, |from, to| match fs::hard_link(from, to) {
            Ok(()) => fs::remove_file(from),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            // Fallback for file systems without hard links.
            Err(_) if fs::symlink_metadata(to).is_err() => fs::rename(from, to),
            Err(_) => Err(io::ErrorKind::AlreadyExists.into()),
        })
    }
}

/// Folder that is removed with its contents when this value is dropped, unless it was renamed.
///
/// ```
/// let place = tempfile::tempdir()?;
/// let folder = leyden_files::TemporaryFolder::create(place.path())?;
/// leyden_files::write(&folder.path().join("a"), b"1", leyden_files::OutputOptions::new())?;
/// folder.rename(&place.path().join("model"))?;
/// assert_eq!(std::fs::read(place.path().join("model/a"))?, b"1");
/// assert_eq!(std::fs::read_dir(place.path())?.count(), 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TemporaryFolder(Owned);

impl TemporaryFolder {
    /// Creates a folder in `parent`.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn create(parent: &Path) -> io::Result<TemporaryFolder> {
        let make = |path: &Path| fs::create_dir(path).and_then(|()| File::open(path));
        Ok(TemporaryFolder(Owned::create(place::or_current(parent), make)?))
    }

    /// Creates a folder next to `path`.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn beside(path: &Path) -> io::Result<TemporaryFolder> {
        Self::create(place::folder_of(path))
    }

    /// Returns the absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Renames the folder and flushes both it and its parent. Its files are flushed by their writers.
    ///
    /// # Errors
    /// If the name is taken, or the system refuses; the folder is then removed.
    pub fn rename(self, to: &Path) -> io::Result<()> {
        sync_folder(&self.0.path)?;
        // A rename would replace an empty folder.
        if fs::symlink_metadata(to).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.0.name(to, |from, to| fs::rename(from, to))
    }
}
