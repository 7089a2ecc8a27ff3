//! [`Directory`]: served models by all names that `leyden run` accepts.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leyden::Model;
use leyden_hub::{Named, Store};
use leyden_server::{Fingerprint, NameFinder};
use leyden_tensor::WeightSource;

use crate::cli::failure::Failure;

/// Served model.
#[derive(Debug)]
struct Known {
    /// Name on the server.
    name: String,
    /// Path of the file or folder, as given by the user and absolute.
    paths: Vec<PathBuf>,
    /// True if the file lies outside the store, so that its file name also names the model.
    is_outside: bool,
    /// Pulled model of the store; `None` for other files.
    stored: Option<leyden_hub::Model>,
    /// Version, for a model of the store's list: another version under the same path is another model.
    version: Option<String>,
}

impl Known {
    /// Returns true if a text is the path of the file or folder, or its name with or without ending.
    fn is_at(&self, text: &str) -> bool {
        let asked = Path::new(text);
        let names = |path: &Path| {
            let is = |part: Option<&std::ffi::OsStr>| part.is_some_and(|part| part == asked.as_os_str());
            is(path.file_name()) || is(path.file_stem())
        };
        self.paths.iter().any(|path| same(path, asked))
            || self.is_outside && self.paths.iter().any(|path| names(path))
    }
}

/// Returns true if two paths are equal but for `.` in them.
fn same(a: &Path, b: &Path) -> bool {
    let plain = |path: &Path| path.strip_prefix(".").map(Path::to_owned).unwrap_or_else(|_| path.to_owned());
    plain(a) == plain(b)
}

/// Models of a server, with their files.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory(Arc<Mutex<Vec<Known>>>);

impl Directory {
    /// Adds a served model: its name, the path given by the user, and the resolved path.
    pub(super) fn add(&self, name: &str, given: &Path, path: &Path) {
        self.push(name, given, path, None);
    }

    /// Adds a served model of the store with its version.
    pub(super) fn add_stored(&self, name: &str, path: &Path, version: String) {
        self.push(name, path, path, Some(version));
    }

    fn push(&self, name: &str, given: &Path, path: &Path, version: Option<String>) {
        let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let paths = vec![given.to_owned(), path.to_owned(), whole];
        let is_outside = Store::from_env().map_or(true, |store| !path.starts_with(store.root()));
        let known = Known { name: name.to_owned(), is_outside, stored: stored(path), version, paths };
        self.all().push(known);
    }

    fn all(&self) -> MutexGuard<'_, Vec<Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the model with a name.
    pub(super) fn remove(&self, name: &str) {
        self.all().retain(|known| known.name != name);
    }

    /// Removes models of the store's list for whose path and version `is_there` returns false. Returns their names.
    pub(super) fn remove_stale(&self, is_there: impl Fn(&Path, &str) -> bool) -> Vec<String> {
        let mut all = self.all();
        let is_stale = |known: &Known| match &known.version {
            Some(version) => !is_there(&known.paths[1], version),
            None => false,
        };
        let gone = all.iter().filter(|known| is_stale(known)).map(|known| known.name.clone()).collect();
        all.retain(|known| !is_stale(known));
        gone
    }

    /// Returns the file or folder of the model with a name.
    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        self.all().iter().find(|known| known.name == name).map(|known| known.paths[1].clone())
    }

    /// Returns true if a model has this name, in any case.
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.all().iter().any(|known| known.name.eq_ignore_ascii_case(name))
    }

    /// Returns true if a file or folder is served.
    pub(super) fn has(&self, path: &Path) -> bool {
        let all = self.all();
        all.iter().any(|known| known.paths.iter().any(|known| known == path))
    }

    /// Returns the names of the models that a text refers to.
    fn find(&self, text: &str) -> Vec<String> {
        let all = self.all();
        let at: Vec<String> = all.iter().filter(|k| k.is_at(text)).map(|k| k.name.clone()).collect();
        if !at.is_empty() {
            return at;
        }
        let plain = match text.rsplit_once(':') {
            Some((front, tag)) if tag.eq_ignore_ascii_case("latest") => front,
            _ => text,
        };
        let is_name = |known: &&Known| known.name.eq_ignore_ascii_case(plain);
        let called: Vec<String> = all.iter().filter(is_name).map(|k| k.name.clone()).collect();
        if !called.is_empty() {
            return called;
        }
        let models: Vec<leyden_hub::Model> = all.iter().filter_map(|known| known.stored.clone()).collect();
        let meant = leyden_hub::meant(&models, text);
        let is_meant = |stored: &leyden_hub::Model| meant.iter().any(|model| model.name == stored.name);
        all.iter().filter(|k| k.stored.as_ref().is_some_and(is_meant)).map(|k| k.name.clone()).collect()
    }

    /// Returns the function by which the server looks up names.
    pub(super) fn finder(&self) -> NameFinder {
        let directory = self.clone();
        Arc::new(move |text| directory.find(text))
    }
}

/// Returns the pulled model at a path.
fn stored(path: &Path) -> Option<leyden_hub::Model> {
    let contents = Store::from_env().ok()?.contents().ok()?;
    contents.models.into_iter().find(|model| model.path == path)
}

/// Returns the named model at a path, if the user gave it a name.
pub(super) fn named(path: &Path) -> Option<Named> {
    Store::from_env().ok()?.named().ok()?.into_iter().find(|named| named.path == path)
}

/// Returns the SHA-256 of a model: the store's, or else one that is computed on request.
pub(super) fn fingerprint(weights: &dyn WeightSource) -> Fingerprint {
    if let Some(model) = stored(weights.path()) {
        return Fingerprint::known(model.digest());
    }
    if let Some(named) = named(weights.path()) {
        return Fingerprint::known(named.digest());
    }
    if weights.path() == Path::new(leyden::EMBEDDED) {
        return Fingerprint::computed(|| Ok(leyden_hub::sha256_of_bytes(Model::embedded_file())));
    }
    fingerprint_of(weights.paths().into_iter().map(Path::to_owned).collect())
}

/// Returns the fingerprint of files.
pub(super) fn fingerprint_of(files: Vec<PathBuf>) -> Fingerprint {
    Fingerprint::computed(move || {
        let store = Store::from_env().ok();
        leyden_hub::sha256_of_files(&files, store.as_ref()).map_err(|error| error.to_string())
    })
}

/// Returns the error for a store without supported models.
pub(super) fn nothing_to_serve() -> Failure {
    let at =
        Store::from_env().map_or_else(|_| "the store".to_owned(), |store| store.root().display().to_string());
    Failure::new(format!("--all: no model in {at}"))
        .hint("`leyden pull smollm2:135m` downloads a small model, `leyden models` lists others, and --allow-pull lets clients pull")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_by_path_and_by_name() {
        let directory = Directory::default();
        directory.add("toy", Path::new("./models/toy.gguf"), Path::new("./models/toy.gguf"));
        directory.add("minilm", Path::new("/m/all-MiniLM"), Path::new("/m/all-MiniLM"));
        for text in ["models/toy.gguf", "./models/toy.gguf", "toy.gguf", "toy"] {
            assert_eq!(directory.find(text), ["toy"], "{text}");
        }
        for text in ["/m/all-MiniLM", "/m/all-MiniLM/", "all-MiniLM", "MiniLM", "MINILM:LATEST"] {
            assert_eq!(directory.find(text), ["minilm"], "{text}");
        }
        assert!(directory.find("m/toy.gguf").is_empty() && directory.find("").is_empty());
        directory.add("second", Path::new("toy.gguf"), Path::new("toy.gguf"));
        assert_eq!(directory.find("toy"), ["toy", "second"]);
    }
}
