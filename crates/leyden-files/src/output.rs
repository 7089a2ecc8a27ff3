//! [`Output`]: a file, device or FIFO that is written.

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
    /// The usual rules: a file is replaced, a device or FIFO gets a stream.
    #[must_use]
    pub fn new() -> OutputOptions {
        OutputOptions::default()
    }

    /// Refuses devices and FIFOs, for outputs that are read again.
    #[must_use]
    pub fn files_only(self) -> OutputOptions {
        OutputOptions { files_only: true, ..self }
    }

    /// Lets a new file be read by its owner alone. A file that is there keeps its mode.
    #[must_use]
    pub fn private(self) -> OutputOptions {
        OutputOptions { private: true, ..self }
    }

    /// Refuses a name that is taken by anything.
    #[must_use]
    pub fn new_only(self) -> OutputOptions {
        OutputOptions { new: true, ..self }
    }
}

/// A file that is written beside the one that it replaces; or a device or FIFO, into which the bytes go as they come.
///
/// The new file gets its name by [`finish`](Self::finish); until then, and if this value is dropped, readers see what was there
/// before. Access control lists and extended attributes of a file that is replaced are not kept.
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
    /// Begins an output under the usual rules.
    ///
    /// # Errors
    /// As for [`with`](Self::with).
    pub fn create(path: &Path) -> io::Result<Output> {
        Self::with(path, OutputOptions::new())
    }

    /// Begins an output. The opening of a FIFO waits for a reader.
    ///
    /// # Errors
    /// The name stands for a folder, a block device, a socket, or something that `options` refuse; the file that is there may
    /// not be written to; or no file can be made in its folder. The error does not repeat the path.
    pub fn with(path: &Path, options: OutputOptions) -> io::Result<Output> {
        let (path, replaced) = match allowed(path, options)? {
            Place::Stream(path) => return stream(&path).map(|file| Output(To::Stream(file))),
            Place::Standard(number) => return standard(number).map(|file| Output(To::Stream(file))),
            Place::Free(path) => (path, None),
            Place::File(path, found) => (path, Some(Box::new(found))),
        };
        // The mode of a file that is replaced is set at the end; until then its content is as secret as it can be.
        let private = options.private || replaced.is_some();
        let temporary = TemporaryFile::create(place::folder_of(&path), private).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot create a file in the folder: {error}"))
        })?;
        Ok(Output(To::File { temporary, path, replaced, new: options.new }))
    }

    /// Whether the bytes go to a device, a FIFO or an open file, where they cannot be taken back.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        matches!(self.0, To::Stream(_))
    }

    /// Opens the bytes that were written so far for reading; `None` for a stream.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn read_back(&self) -> io::Result<Option<File>> {
        match &self.0 {
            To::Stream(_) => Ok(None),
            To::File { temporary, .. } => File::open(temporary.path()).map(Some),
        }
    }

    /// Flushes the file to the disk and gives it its name, with the mode and owner of the one that it replaces.
    ///
    /// # Errors
    /// The disk is full or failed, or the name was taken by something else; what was there stays.
    pub fn finish(self) -> io::Result<()> {
        match self.0 {
            To::Stream(mut file) => file.flush(),
            To::File { mut temporary, path, replaced, new } => {
                if let Some(replaced) = &replaced {
                    keep_access(temporary.file(), replaced)?;
                }
                // Another process may have put something else there by now.
                let is_file = || fs::symlink_metadata(&path).map_or(true, |found| found.is_file());
                match () {
                    () if new => temporary.publish(&path),
                    () if is_file() => temporary.replace(&path),
                    () => Err(io::Error::new(io::ErrorKind::AlreadyExists, "is no file any more")),
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
/// As for [`Output::with`] and [`Output::finish`].
pub fn write(path: &Path, content: &[u8], options: OutputOptions) -> io::Result<()> {
    let mut output = Output::with(path, options)?;
    output.write_all(content)?;
    output.finish()
}

/// Refuses a name to which [`Output::with`] would not write, before anything is computed for it. Nothing is made.
///
/// # Errors
/// As for [`Output::with`], except that no file is tried in the folder.
pub fn check(path: &Path, options: OutputOptions) -> io::Result<()> {
    match allowed(path, options)? {
        Place::Free(path) if !place::folder_of(&path).is_dir() => {
            Err(io::Error::new(io::ErrorKind::NotFound, "there is no such folder"))
        }
        _ => Ok(()),
    }
}

/// Whether a name stands for the standard output of this process, as `/dev/stdout` does.
#[must_use]
pub fn is_standard_output(path: &Path) -> bool {
    matches!(place::find(path), Ok(Place::Standard(1)))
}

/// The thing that a name stands for, if an output may go there.
fn allowed(path: &Path, options: OutputOptions) -> io::Result<Place> {
    if options.new && fs::symlink_metadata(path).is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let found = place::find(path)?;
    match &found {
        Place::Stream(_) | Place::Standard(_) if options.files_only => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "is a device or FIFO, from which it could not be read again",
        )),
        // A file is protected by its mode, though a rename would need the folder's alone.
        Place::File(path, _) => OpenOptions::new().write(true).open(path).map(|_| found),
        _ => Ok(found),
    }
}

/// Opens what is written to as it stands.
fn stream(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).open(path)
}

/// A second descriptor of the standard output or error, which writes where that stands.
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

/// Gives a file the owner, group and mode of the one that it replaces. Rights that cannot be kept are not given to others
/// instead.
#[cfg(unix)]
fn keep_access(file: &File, replaced: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let own = file.metadata()?;
    let (uid, gid) = (replaced.uid(), replaced.gid());
    let mut mode = replaced.mode() & 0o7777;
    // Only the administrator may give a file away; its owner may give it to another of their groups.
    if (own.uid(), own.gid()) != (uid, gid) && fchown(file, Some(uid), Some(gid)).is_err() {
        mode &= 0o1777;
        if fchown(file, None, Some(gid)).is_err() {
            // Another group gets what everybody has.
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
