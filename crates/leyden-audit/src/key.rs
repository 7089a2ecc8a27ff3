//! The key that signs checkpoints.

use crate::error::Error;
use leyden_verify::{Key, Time};
use std::path::Path;

/// Days until a new key expires.
const DAYS: u32 = 3650;

/// Reads the key, or makes it if there is none and the log is new.
///
/// # Errors
/// It cannot be read or written, has expired, has no secret part, or the key of an existing log is missing.
pub(crate) fn signing(path: &Path, is_new: bool) -> Result<Key, Error> {
    if std::fs::symlink_metadata(path).is_err() {
        if !is_new {
            return Err(Error::file(
                path,
                "the key of this audit log is not here; name its file, or begin a log in a new folder",
            ));
        }
        let key = Key::generate(Time::now(), DAYS)?;
        key.write(path)?;
        return Ok(key);
    }
    let key = Key::read(path)?;
    if !key.can_sign() {
        return Err(Error::file(
            path,
            "has no secret part, so it signs nothing; name the file without `.pub`",
        ));
    }
    if key.is_expired(Time::now()) {
        return Err(Error::file(path, "the key has expired; begin a log in a new folder with a new key"));
    }
    Ok(key)
}
