//! [`State`]: what an evaluation has found so far, in a file, so that it can go on where it was cut off.

use crate::error::Error;
use crate::item::Outcome;
use leyden_files::OutputOptions;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Outcomes by what was asked: the model or the reference, and the task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// What was asked of which model; a state of another evaluation is refused.
    pub of: Vec<String>,
    /// The outcomes in order.
    pub outcomes: BTreeMap<String, Vec<Outcome>>,
}

impl State {
    /// The state in a file; one without outcomes where there is none.
    ///
    /// # Errors
    /// The file cannot be read, is no regular file (the opening of a FIFO would wait), or is of another evaluation.
    pub fn open(path: &Path, of: Vec<String>) -> Result<State, Error> {
        leyden_files::check(path, OutputOptions::new().files_only())
            .map_err(|error| Error::file(path, format!("cannot write: {error}")))?;
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(State { of, outcomes: BTreeMap::new() });
            }
            Err(error) => return Err(Error::file(path, format!("cannot read: {error}"))),
        };
        let state: State = serde_json::from_slice(&text)
            .map_err(|error| Error::file(path, format!("no state of an evaluation: {error}")))?;
        let differs =
            state.of.iter().zip(&of).find(|(a, b)| a != b).map(|(a, b)| format!("`{a}`, not `{b}`"));
        let differs = differs.or((state.of.len() != of.len()).then(|| "other tasks".to_owned()));
        match differs {
            Some(what) => Err(Error::file(
                path,
                format!("of another evaluation: {what}; give another --state, or remove it"),
            )),
            None => Ok(state),
        }
    }

    /// Writes it: under the name there is the whole state or the one before.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let text = serde_json::to_vec(self).map_err(|error| Error::file(path, error))?;
        leyden_files::write(path, &text, OutputOptions::new().files_only())
            .map_err(|error| Error::file(path, format!("cannot write: {error}")))
    }
}

/// A file or folder as it is now: its path, size and time of change.
///
/// # Errors
/// There is none.
pub fn fingerprint(path: &Path) -> Result<String, Error> {
    let path = path.canonicalize().unwrap_or_else(|_| PathBuf::from(path));
    let of = if path.is_dir() { path.join("config.json") } else { path.clone() };
    let meta = std::fs::metadata(&of).map_err(|error| Error::file(&of, format!("cannot read: {error}")))?;
    let changed =
        meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    Ok(format!("{} {} {}", path.display(), meta.len(), changed.as_nanos()))
}
