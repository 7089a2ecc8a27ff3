//! [`locate`], [`resolve`] and [`resolve_with`]: from a command's MODEL argument to a file or a reference.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::reference::Reference;
use crate::short_names::ShortName;
use crate::store::Store;

/// Location of the model named by a MODEL argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Located {
    /// On this machine: path of a file or folder, in the store or elsewhere.
    Here(PathBuf),
    /// On the hub and not in the store; [`pull`](crate::pull) downloads it.
    Hub(Reference),
}

/// Finds the model of a MODEL argument. Opens no connection.
///
/// * `hf:ORG/REPO[@REVISION][:FILE]` is a model on the hub.
/// * An existing path is that file or folder.
/// * Anything else is, in this order: a name given by the user, see [`Store::find_named`]; a name in the store, see
///   [`Store::find`]; a [`ShortName`]; `ORG/REPO[:FILE]` on the hub, unless ORG is a folder here or the name ends in
///   `.gguf` or `.onnx`, which makes it a path.
///
/// `store` is called only if MODEL is no existing path, so that a file can be used without a store, for example in a
/// container without a home folder.
///
/// # Errors
/// If nothing fits, several models do, files of the model are missing, or `store` fails.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// use leyden_hub::{Located, Store, locate};
/// use std::path::Path;
/// let store = Store::at(folder.path());
/// let Located::Hub(reference) = locate(Path::new("gemma3:270m"), || Ok(store)).unwrap() else { panic!() };
/// assert_eq!(reference.to_string(), "hf:unsloth/gemma-3-270m-it-GGUF:Q4_K_M");
/// ```
pub fn locate(model: &Path, store: impl FnOnce() -> Result<Store>) -> Result<Located> {
    let text = model.to_str();
    if let Some(text) = text.filter(|text| Reference::is_one(text)) {
        return stored_or_hub(&store()?, text.parse()?);
    }
    if model.exists() {
        return Ok(Located::Here(model.to_owned()));
    }
    let nothing = || Error::new(model.display().to_string(), ErrorKind::NoSuchModel { path_too: true });
    let text = text.ok_or_else(nothing)?;
    let store = store()?;
    if let Some(named) = store.find_named(text)? {
        return match named.damage {
            None => Ok(Located::Here(named.path)),
            Some(why) => {
                Err(Error::new(named.name, ErrorKind::Damaged(format!("the model is incomplete: {why}"))))
            }
        };
    }
    match store.find(text) {
        Err(error) if matches!(error.kind(), ErrorKind::NoSuchModel { .. }) => {}
        found => return Ok(Located::Here(usable(found?)?)),
    }
    match ShortName::find(text).map(|short| short.reference).or_else(|| repository(text)) {
        Some(reference) => stored_or_hub(&store, reference),
        None => Err(nothing()),
    }
}

/// Returns the file or folder of a MODEL argument, as [`locate`] finds it. Opens no connection.
///
/// A model of the store is complete: all its files exist with their lengths. The result is the folder of a safetensors
/// checkpoint, and the first part of a split GGUF file.
///
/// # Errors
/// Errors of [`locate`]; also if the model is not in the store.
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

/// Does the same as [`resolve`] with a store that is looked up only if MODEL is no existing path.
///
/// # Errors
/// Errors of [`resolve`]; also if `store` fails.
///
/// ```
/// use leyden_hub::{Store, resolve_with};
/// use std::path::Path;
/// let here = Path::new(".");
/// assert_eq!(resolve_with(here, || unreachable!("a path needs no store")).unwrap(), here);
/// ```
pub fn resolve_with(model: &Path, store: impl FnOnce() -> Result<Store>) -> Result<PathBuf> {
    match locate(model, store)? {
        Located::Here(path) => Ok(path),
        Located::Hub(_) => {
            let name = model.display().to_string();
            // `models/llama` is as likely a mistyped path.
            let is_named = Reference::is_one(&name) || ShortName::find(&name).is_some();
            let kind =
                if is_named { ErrorKind::NotPulled } else { ErrorKind::NoSuchModel { path_too: true } };
            Err(Error::new(name, kind))
        }
    }
}

fn stored_or_hub(store: &Store, reference: Reference) -> Result<Located> {
    match store.find(&reference.to_string()) {
        Err(error) if matches!(error.kind(), ErrorKind::NoSuchModel { .. }) => Ok(Located::Hub(reference)),
        found => Ok(Located::Here(usable(found?)?)),
    }
}

/// Parses `ORG/REPO[:FILE]`, unless it looks like a path.
fn repository(text: &str) -> Option<Reference> {
    let reference = Reference::without_scheme(text).ok()?;
    let ends = |ending: &str| text.to_ascii_lowercase().ends_with(ending);
    let is_file = !text.contains(':') && (ends(".gguf") || ends(".onnx"));
    let is_below = Path::new(reference.repo().organisation()).is_dir();
    (!is_file && !is_below).then_some(reference)
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
