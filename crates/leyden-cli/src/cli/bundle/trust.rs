//! Keys of bundles.

use std::path::Path;

use leyden_verify::{Key, Time};

use super::args::Trust;
use crate::cli::failure::Failure;
use crate::cli::verify;

/// Number of hexadecimal digits of a key.
const DIGITS: usize = 64;

impl Trust {
    /// Returns the key that must have signed; `None` for any.
    ///
    /// # Errors
    /// There is no key, it cannot be read, or it has expired.
    pub(super) fn key(&self) -> Result<Option<Key>, Failure> {
        if self.any_key {
            return Ok(None);
        }
        let key = match self.key.as_deref() {
            Some(text) => match Key::of_id(text) {
                Some(key) => key,
                None if text.len() == DIGITS && text.bytes().all(|b| b.is_ascii_hexdigit()) => {
                    return Err(Failure::usage(format!("--key: the digits {text} are no key")));
                }
                None => verify::trusted(Some(Path::new(text)))?,
            },
            None => verify::trusted(None).map_err(|failure| {
                failure.hint(
                    "name the sender's key with --key: its .pub file, or its 64 digits, learnt by another way than the bundle",
                )
            })?,
        };
        match key.is_expired(Time::now()) {
            true => Err(Failure::new(format!("the key {} expired {}", key.id(), key.expires()))
                .hint("ask the sender for a bundle signed with a new key")),
            false => Ok(Some(key)),
        }
    }
}
