//! [`Output`]: a file, device or FIFO opened for writing.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::place::{self, Place};
use crate::temporary::TemporaryFile;

/// Rules for an [`Output`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutputOptions {
    files_only: bool,
    private: bool,
    new: bool,
}

impl OutputOptions {
    /// Returns the default rules: a file is replaced, a device or FIFO is written directly.
    #[must_use]
    pub fn new() -> OutputOptions {
        OutputOptions::default()
    }

    /// Refuses devices and FIFOs, for outputs that are read again.
    #[must_use]
    pub fn files_only(self) -> OutputOptions {
        OutputOptions { files_only: true, ..self }
    }

    /// Makes a new file readable by its owner only. An existing file keeps its mode.
    #[must_use]
    pub fn private(self) -> OutputOptions {
        OutputOptions { private: true, ..self }
    }

    /// Refuses a path that exists.
    #[must_use]
    pub fn new_only(self) -> OutputOptions {
        OutputOptions { new: true, ..self }
    }
}

/// File written to a temporary file that replaces it at the end; or a device or FIFO, written directly.
///
/// [`finish`](Self::finish) renames the temporary file; until then, and if this value is dropped, readers see the old
/// content. Access control lists and extended attributes of a replaced file are not kept.
///
/// ```
/// use std::io::Write;
/// let folder = tempfile::tempdir()?;
/// let (file, link) = (folder.path().join("file"), folder.path().join("link"));
/// std::os::unix::fs::symlink("file", &link)?;
/// let mut output = leyden_files::Output::create(&link)?;
/// output.write_all(b"new")?;
/// assert!(!file.exists());
/// output.finish()?;
/// assert_eq!(std::fs::read(&file)?, b"new");
/// assert!(link.is_symlink());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Output(To);

#[derive(Debug)]
enum To {
    Stream(File),
    File { temporary: TemporaryFile, path: PathBuf, replaced: Option<Box<Metadata>>, new: bool },
}

impl Output {
    /// Opens an output under the default rules.
    ///
    /// # Errors
    /// As in [`with`](Self::with).
    pub fn create(path: &Path) -> io::Result<Output> {
        Self::with(path, OutputOptions::new())
    }

    /// Opens an output. Opening a FIFO waits for a reader.
    ///
    /// # Errors
    /// If the path is a folder, a block device, a socket, or something that `options` refuse; if the existing file is
    /// not writable; or if no file can be created in its folder. The error does not repeat the path.
    pub fn with(path: &Path, options: OutputOptions) -> io::Result<Output> {
        let (path, replaced) = match allowed(path, options)? {
            Place::Stream(path) => return stream(&path).map(|file| Output(To::Stream(file))),
            Place::Standard(number) => return standard(number).map(|file| Output(To::Stream(file))),
            Place::Free(path) => (path, None),
            Place::File(path, found) => (path, Some(Box::new(found))),
        };
        // The mode of a replaced file is set at the end; until then only the owner can read the content.
        let private = options.private || replaced.is_some();
        let temporary = TemporaryFile::create(place::folder_of(&path), private).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot create a file in the folder: {error}"))
        })?;
        Ok(Output(To::File { temporary, path, replaced, new: options.new }))
    }

    /// Returns true if the bytes go to a device, a FIFO or an open file, where they cannot be undone.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        matches!(self.0, To::Stream(_))
    }

    /// Opens the bytes written so far for reading; `None` for a stream.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn read_back(&self) -> io::Result<Option<File>> {
        match &self.0 {
            To::Stream(_) => Ok(None),
            To::File { temporary, .. } => File::open(temporary.path()).map(Some),
        }
    }

    /// Flushes the file to the disk and renames it, with the mode and owner of the file that it replaces.
    ///
    /// # Errors
    /// If the disk is full or failed, or the path is now something else than a file; the old content stays.
    pub fn finish(self) -> io::Result<()> {
        match self.0 {
            To::Stream(mut file) => file.flush(),
            To::File { mut temporary, path, replaced, new } => {
                if let Some(replaced) = &replaced {
                    keep_access(temporary.file(), replaced)?;
                }
                // Another process may have created something else there by now.
                let is_file = || fs::symlink_metadata(&path).map_or(true, |found| found.is_file());
                match () {
                    () if new => temporary.publish(&path),
                    () if is_file() => temporary.replace(&path),
                    () => Err(io::Error::new(io::ErrorKind::AlreadyExists, "is no longer a file")),
                }
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            To::Stream(file) => file.write(bytes),
            To::File { temporary, .. } => temporary.file().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            To::Stream(file) => file.flush(),
            To::File { temporary, .. } => temporary.file().flush(),
        }
    }
}

/// Writes a whole output.
///
/// # Errors
/// As in [`Output::with`] and [`Output::finish`].
pub fn write(path: &Path, content: &[u8], options: OutputOptions) -> io::Result<()> {
    let mut output = Output::with(path, options)?;
    output.write_all(content)?;
    output.finish()
}

/// Checks that [`Output::with`] would accept a path, before its content is computed. Creates nothing.
///
/// # Errors
/// As in [`Output::with`], except that creating a file in the folder is not tried.
pub fn check(path: &Path, options: OutputOptions) -> io::Result<()> {
    match allowed(path, options)? {
        Place::Free(path) if !place::folder_of(&path).is_dir() => {
            Err(io::Error::new(io::ErrorKind::NotFound, "there is no such folder"))
        }
        _ => Ok(()),
    }
}

/// Returns true if a path is the standard output of this process, as `/dev/stdout` is.
#[must_use]
pub fn is_standard_output(path: &Path) -> bool {
    matches!(place::find(path), Ok(Place::Standard(1)))
}

/// Returns the target of a path, if an output may be written there.
fn allowed(path: &Path, options: OutputOptions) -> io::Result<Place> {
    if options.new && fs::symlink_metadata(path).is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let found = place::find(path)?;
    match &found {
        Place::Stream(_) | Place::Standard(_) if options.files_only => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "is a device or FIFO, which cannot be read again",
        )),
        // A file is protected by its mode, although a rename would only need write access to the folder.
        Place::File(path, _) => OpenOptions::new().write(true).open(path).map(|_| found),
        _ => Ok(found),
    }
}

/// Opens a device, FIFO or open file for appending.
fn stream(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).open(path)
}

/// Duplicates the descriptor of the standard output or error; both share one position.
#[cfg(unix)]
fn standard(number: u8) -> io::Result<File> {
    use std::os::fd::AsFd;
    let (out, err) = (io::stdout(), io::stderr());
    let descriptor = if number == 1 { out.as_fd() } else { err.as_fd() };
    Ok(File::from(descriptor.try_clone_to_owned()?))
}

#[cfg(not(unix))]
fn standard(_: u8) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Gives a file the owner, group and mode of the one that it replaces. Permissions that cannot be kept are not given to
/// others.
#[cfg(unix)]
fn keep_access(file: &File, replaced: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let own = file.metadata()?;
    let (uid, gid) = (replaced.uid(), replaced.gid());
    let mut mode = replaced.mode() & 0o7777;
    // Only the administrator may change the owner; the owner may change the group to another of their groups.
    if (own.uid(), own.gid()) != (uid, gid) && fchown(file, Some(uid), Some(gid)).is_err() {
        mode &= 0o1777;
        if fchown(file, None, Some(gid)).is_err() {
            // A different group gets the permissions of all users.
            mode &= !0o070 | ((mode & 0o007) << 3);
        }
    }
    // A file system with one mode for all files refuses any change.
    if file.metadata()?.mode() & 0o7777 == mode {
        return Ok(());
    }
    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn keep_access(_: &File, _: &Metadata) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests;
