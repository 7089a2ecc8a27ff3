//! Opening the model file that a command names.

use std::path::{Path, PathBuf};

use leyden::ModelFile;
use leyden_hub::{ErrorKind, Reference, Store};

use super::failure::{Failure, IN_USE};

/// Opens the model file or folder that MODEL means.
pub(super) fn open(model: &Path) -> Result<ModelFile, Failure> {
    Ok(ModelFile::open(&locate(model)?)?)
}

/// The file or folder that MODEL means: a path, the name of a pulled model, or its `hf:…` reference.
pub(super) fn locate(model: &Path) -> Result<PathBuf, Failure> {
    match leyden_hub::resolve_with(model, Store::from_env) {
        Ok(path) => Ok(path),
        // A name with a slash or an ending was meant as a path, and fails as one, also where there is no store.
        Err(e)
            if matches!(
                e.kind(),
                ErrorKind::NoSuchModel { .. } | ErrorKind::Setting(_) | ErrorKind::Io { .. }
            ) && !model.to_str().is_some_and(Reference::is_one)
                && (model.extension().is_some() || model.components().count() > 1) =>
        {
            Ok(model.to_owned())
        }
        Err(e) => Err(e.into()),
    }
}

/// Fails if the file shrank or its disk failed while it was in use: what was read since may be zeros.
pub(super) fn still_whole(file: &ModelFile) -> Result<(), Failure> {
    let file = file.weights();
    if file.truncated() {
        let path = file.path().display();
        return Err(
            Failure::new(format!("{path}: the file was cut short while it was being read")).hint(IN_USE)
        );
    }
    Ok(())
}
