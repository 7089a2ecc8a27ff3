//! Target of a path, after symbolic links.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of symbolic links that are followed, as on Linux.
const MAX_LINKS: usize = 40;

/// Target of an output's path.
#[derive(Debug)]
pub(crate) enum Place {
    /// Free path: a file is created there.
    Free(PathBuf),
    /// File; the path is that of the file itself, not of a link.
    File(PathBuf, Metadata),
    /// Character device, FIFO, or a file that this process has open, given by a path in `/proc` or `/dev/fd`.
    Stream(PathBuf),
    /// Standard output or error of this process: descriptor 1 or 2.
    Standard(u8),
}

/// Finds the target of `path`.
///
/// # Errors
/// If it is a folder, a block device or a socket; if a link is dangling or part of a cycle; or if the system denies
/// access.
pub(crate) fn find(path: &Path) -> io::Result<Place> {
    let text = path.as_os_str().as_encoded_bytes();
    if path.file_name().is_none() || text.ends_with(b"/") {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is not the name of a file"));
    }
    // The system follows the links here: in folders of other users it refuses some.
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        found => Some(found?),
    };
    let last = follow(path)?;
    let Some(found) = found else {
        return Ok(match last {
            Last::Name(path) => Place::Free(path),
            Last::Descriptor(..) => Place::Stream(path.to_owned()),
        });
    };
    let refused = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, format!("is {what}")));
    match (kind(&found), last) {
        (Kind::Folder, _) => refused("a folder"),
        (Kind::Other(what), _) => refused(what),
        (_, Last::Descriptor(Some(number @ (1 | 2)))) => Ok(Place::Standard(number)),
        (Kind::Stream, _) | (_, Last::Descriptor(_)) => Ok(Place::Stream(path.to_owned())),
        (Kind::File, Last::Name(path)) => Ok(Place::File(path, found)),
    }
}

/// Returns the folder of a file.
pub(crate) fn folder_of(path: &Path) -> &Path {
    or_current(path.parent().unwrap_or(Path::new("")))
}

/// Replaces an empty folder, that of a relative file name, by the current one.
pub(crate) fn or_current(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

/// End of a chain of symbolic links.
enum Last {
    /// Path that is not a link.
    Name(PathBuf),
    /// Descriptor of this or another process, a link that only the system can follow; with its number if it belongs to
    /// this process and has one digit.
    Descriptor(Option<u8>),
}

fn follow(path: &Path) -> io::Result<Last> {
    let mut at = path.to_owned();
    for _ in 0..MAX_LINKS {
        let to = match fs::read_link(&at) {
            Ok(to) => to,
            // Not a link, or nothing there.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotFound) => {
                return Ok(Last::Name(at));
            }
            Err(error) => return Err(error),
        };
        let folder = folder_of(&at).canonicalize()?;
        if folder.starts_with("/proc") {
            let own = folder.starts_with(Path::new("/proc").join(std::process::id().to_string()));
            let number = at.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
            return Ok(Last::Descriptor(number.filter(|_| own)));
        }
        at = folder_of(&at).join(to);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "leads through too many symbolic links"))
}

/// Kind of a file system object.
enum Kind {
    File,
    Folder,
    /// Character device or FIFO.
    Stream,
    /// Another kind, with its article.
    Other(&'static str),
}

#[cfg(unix)]
fn kind(found: &Metadata) -> Kind {
    use std::os::unix::fs::FileTypeExt;
    let kind = found.file_type();
    match () {
        () if kind.is_file() => Kind::File,
        () if kind.is_dir() => Kind::Folder,
        () if kind.is_char_device() || kind.is_fifo() => Kind::Stream,
        () if kind.is_block_device() => Kind::Other("a block device"),
        () => Kind::Other("a socket"),
    }
}

#[cfg(not(unix))]
fn kind(found: &Metadata) -> Kind {
    if found.is_dir() { Kind::Folder } else { Kind::File }
}
