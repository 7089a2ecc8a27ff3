//! Opening the model file of a command's MODEL.

use std::path::{Path, PathBuf};

use leyden::ModelFile;
use leyden_hub::{ErrorKind, Reference, ShortName, Store};

use super::failure::{Failure, IN_USE};

/// Opens the model file or folder of MODEL.
pub(super) fn open(model: &Path) -> Result<ModelFile, Failure> {
    Ok(ModelFile::open(&locate(model)?)?)
}

/// Returns the file or folder of MODEL: a path, the name of a pulled model, its short name or its reference.
pub(super) fn locate(model: &Path) -> Result<PathBuf, Failure> {
    match leyden_hub::resolve_with(model, Store::from_env) {
        Ok(path) => Ok(path),
        Err(e) if is_path(model, &e) => Ok(model.to_owned()),
        Err(e) => Err(e.into()),
    }
}

/// Returns true if an unknown MODEL looks like a path, so that the error should be about a file: it has a slash or a
/// file's ending. `llama3.2` has neither.
pub(super) fn is_path(model: &Path, error: &leyden_hub::Error) -> bool {
    let nothing =
        matches!(error.kind(), ErrorKind::NoSuchModel { .. } | ErrorKind::Setting(_) | ErrorKind::Io { .. });
    let text = model.to_str();
    let no_model = matches!(error.kind(), ErrorKind::NoSuchModel { .. });
    let is_reference = text.is_some_and(|text| {
        Reference::is_one(text)
            || ShortName::find(text).is_some()
            || no_model && Reference::named(text).is_ok()
    });
    let ending = model.extension().map(|ending| ending.as_encoded_bytes());
    let has_ending = ending.is_some_and(|ending| {
        ending[0].is_ascii_alphabetic() && ending.iter().all(u8::is_ascii_alphanumeric)
    });
    nothing && !is_reference && (has_ending || model.components().count() > 1 || text.is_none())
}

/// Checks that the file did not shrink and its disk did not fail while it was mapped: data read since may be zeros.
pub(super) fn still_whole(file: &ModelFile) -> Result<(), Failure> {
    let file = file.weights();
    if file.truncated() {
        let path = file.path().display();
        return Err(Failure::new(format!("{path}: the file was truncated while it was in use")).hint(IN_USE));
    }
    Ok(())
}
