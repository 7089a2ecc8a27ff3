//! The one way in which leyden writes files.
//!
//! [`Output`] writes beside the file that it is to replace, and takes its name when the content is complete and flushed.
//! Symbolic links are followed, modes and owners are kept, FIFOs and character devices get a stream, and everything else
//! that is no file is refused. [`TemporaryFolder`] is the same for folders.
//!
//! Temporary files and folders are called `.leyden-PROCESS-N.tmp` and locked by their owner (`flock`). They are removed
//! when their value is dropped, by [`remove_temporaries`] when a signal ends the program, and, when their owner was killed,
//! by the next process of the same user that makes one in the same folder. The lock decides, not the age of a file.
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

/// Flushes the names in a folder to the disk. Does nothing where the file system knows no such flush.
///
/// # Errors
/// The folder cannot be opened or flushed.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(place::or_current(folder)).and_then(|folder| folder.sync_all()) {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        synced => synced,
    }
}
