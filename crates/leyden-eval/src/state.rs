//! [`State`]: the outcomes of an evaluation so far, in a file from which it can be resumed.

use crate::error::Error;
use crate::item::Outcome;
use leyden_files::OutputOptions;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Outcomes by the model (tested or reference) and the task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Description of the models and tasks; the state of another evaluation is refused.
    pub of: Vec<String>,
    /// Outcomes in the order of the questions.
    pub outcomes: BTreeMap<String, Vec<Outcome>>,
}

impl State {
    /// Reads the state from a file; returns an empty one if there is no file.
    ///
    /// # Errors
    /// The file cannot be read, is not a regular file (opening a FIFO would wait), or belongs to another evaluation.
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

    /// Writes the state; `path` is the complete new state or the previous one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let text = serde_json::to_vec(self).map_err(|error| Error::file(path, error))?;
        leyden_files::write(path, &text, OutputOptions::new().files_only())
            .map_err(|error| Error::file(path, format!("cannot write: {error}")))
    }
}

/// Returns a description of a file or folder as it is now: its path, size and modification time.
///
/// # Errors
/// The file does not exist.
pub fn fingerprint(path: &Path) -> Result<String, Error> {
    let path = path.canonicalize().unwrap_or_else(|_| PathBuf::from(path));
    let of = if path.is_dir() { path.join("config.json") } else { path.clone() };
    let meta = std::fs::metadata(&of).map_err(|error| Error::file(&of, format!("cannot read: {error}")))?;
    let changed =
        meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    Ok(format!("{} {} {}", path.display(), meta.len(), changed.as_nanos()))
}
