//! Keys that sign evidence, and keys that are trusted.

use std::path::{Path, PathBuf};

use leyden_verify::{Key, Time};

use crate::cli::failure::Failure;
use crate::cli::knobs;
use crate::cli::notes::Notes;

/// Returns the path of the user's key.
fn default_key_file() -> Result<PathBuf, Failure> {
    knobs::key_file().ok_or_else(|| {
        Failure::new("no folder for a key: neither XDG_CONFIG_HOME nor HOME is set")
            .hint("name a key with --key FILE")
    })
}

/// Returns the key for signing: the given one, or the user's. Makes it, for so many days, if the file does not exist.
pub(in crate::cli) fn signing(given: Option<&Path>, days: u32, notes: Notes) -> Result<Key, Failure> {
    let path = given.map_or_else(default_key_file, |path| Ok(path.to_owned()))?;
    if !path.exists() {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| {
                Failure::new(format!("{}: cannot make the folder: {error}", folder.display()))
            })?;
        }
        let key = Key::generate(Time::now(), days)?;
        key.write(&path)?;
        let (path, expires) = (path.display(), key.expires());
        notes.say(&format!("{path}: a new key, which expires {expires}; {path}.pub is its public part"));
        return Ok(key);
    }
    let key = Key::read(&path)?;
    let path = path.display();
    if !key.can_sign() {
        return Err(Failure::new(format!("{path}: the public part of a key signs nothing")));
    }
    if key.is_expired(Time::now()) {
        return Err(Failure::new(format!("{path}: the key expired {}", key.expires()))
            .hint("name another file with --key, and a new key is made there"));
    }
    Ok(key)
}

/// Reads the key that evidence must be signed with: the given one, or the user's.
pub(in crate::cli) fn trusted(given: Option<&Path>) -> Result<Key, Failure> {
    let path = given.map_or_else(default_key_file, |path| Ok(path.to_owned()))?;
    if !path.exists() {
        return Err(Failure::new(format!("{}: there is no key to check evidence with", path.display()))
            .hint("copy the .pub file of the key that signed it, and name it"));
    }
    Ok(Key::read(&path)?)
}
