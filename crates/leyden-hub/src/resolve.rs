//! [`resolve`] and [`resolve_with`]: what a command's MODEL means.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::reference::Reference;
use crate::store::Store;

/// The file or folder that MODEL means. Opens no connection.
///
/// * `hf:ORG/REPO[@REVISION][:FILE]` is a model that was pulled.
/// * A path that exists is that file or folder, whatever the store has.
/// * Anything else is a name in the store, see [`Store::find`].
///
/// A model of the store is complete: its files are there with their lengths. The folder of a safetensors checkpoint is
/// returned as such, and the first part of a split GGUF file.
///
/// # Errors
/// Nothing fits, several models do, or files of the model are missing.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// use leyden_hub::{Store, resolve};
/// use std::path::Path;
/// let store = Store::at(folder.path());
/// let error = resolve(Path::new("hf:org/model:Q4_K_M"), &store).unwrap_err();
/// assert_eq!(error.to_string(), "hf:org/model:Q4_K_M: not in the store");
/// assert_eq!(error.hint().as_deref(), Some("leyden pull hf:org/model:Q4_K_M"));
/// ```
pub fn resolve(model: &Path, store: &Store) -> Result<PathBuf> {
    resolve_with(model, || Ok(store.clone()))
}

/// As [`resolve`], with a store that is looked up only if MODEL is no path that exists: a file can be used where no store
/// has a place, as in a container without a home.
///
/// # Errors
/// As [`resolve`], or `store` fails.
///
/// ```
/// use leyden_hub::{Store, resolve_with};
/// use std::path::Path;
/// let here = Path::new(".");
/// assert_eq!(resolve_with(here, || unreachable!("a path needs no store")).unwrap(), here);
/// ```
pub fn resolve_with(model: &Path, store: impl FnOnce() -> Result<Store>) -> Result<PathBuf> {
    let text = model.to_str();
    if let Some(text) = text.filter(|text| Reference::is_one(text)) {
        let reference: Reference = text.parse()?;
        return match store()?.find(&reference.to_string()) {
            Err(error) if matches!(error.kind(), ErrorKind::NoSuchModel { .. }) => {
                Err(Error::new(text, ErrorKind::NotPulled))
            }
            found => usable(found?),
        };
    }
    if model.exists() {
        return Ok(model.to_owned());
    }
    let nothing = || Error::new(model.display().to_string(), ErrorKind::NoSuchModel { path_too: true });
    match store()?.find(text.ok_or_else(nothing)?) {
        Err(error) if matches!(error.kind(), ErrorKind::NoSuchModel { .. }) => Err(nothing()),
        found => usable(found?),
    }
}

fn usable(model: crate::Model) -> Result<PathBuf> {
    match model.damage {
        None => Ok(model.path),
        Some(why) => {
            let at = format!("{}{}", crate::reference::SCHEME, model.name);
            Err(Error::new(at, ErrorKind::Damaged(format!("the model is incomplete: {why}"))))
        }
    }
}
