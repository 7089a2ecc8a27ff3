//! File output; all files that leyden writes go through this crate.
//!
//! [`Output`] writes a temporary file next to the file that it replaces, and renames it when the content is complete
//! and flushed. Symbolic links are followed, modes and owners are kept, FIFOs and character devices are written
//! directly, and everything else that is not a file is refused. [`TemporaryFolder`] does the same for folders.
//!
//! Temporary files and folders are called `.leyden-PROCESS-N.tmp` and locked by their owner (`flock`). They are removed
//! when their value is dropped, by [`remove_temporaries`] when a signal ends the program, and, if their owner was
//! killed, by the next process of the same user that creates one in the same folder. The lock decides, not the age of a
//! file.
#![forbid(unsafe_code)]

mod leftovers;
mod output;
mod place;
mod temporary;

use std::fs::File;
use std::io;
use std::path::Path;

pub use output::{Output, OutputOptions, check, is_standard_output, write};
pub use temporary::{TemporaryFolder, remove_temporaries};

/// Flushes a folder's directory entries to the disk. Does nothing on file systems without such a flush.
///
/// # Errors
/// If the folder cannot be opened or flushed.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(place::or_current(folder)).and_then(|folder| folder.sync_all()) {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        synced => synced,
    }
}
