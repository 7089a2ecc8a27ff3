//! [`Stored`]: models of the store on a server, and changes to the store by clients.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leyden_hub::{Client, Event, Options, Reference, Stamp, Store};
use leyden_server::{Abandoned, Change, ChangeError, Changed, Changer, Lister, OnDemand, Puller, Pulling};

use super::directory::Directory;
use super::prepare::{self, Common};
use super::settings::Settings;
use crate::cli::failure::Failure;

/// Models of the store on a server. Clones share their state.
#[derive(Clone)]
pub(super) struct Stored {
    common: Common,
    settings: Settings,
    directory: Directory,
    /// Stamp of the store when it was last read; locked while the directory is updated.
    seen: Arc<Mutex<Option<Stamp>>>,
}

/// Model of the store: name, path and version.
struct Found {
    name: String,
    path: PathBuf,
    version: String,
}

impl Stored {
    pub(super) fn new(common: Common, settings: Settings, directory: Directory) -> Stored {
        Stored { common, settings, directory, seen: Arc::default() }
    }

    fn seen(&self) -> MutexGuard<'_, Option<Stamp>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the models added and removed since the last call. Models that cannot be served are left out with a note.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) fn list(&self) -> Result<Changed, Failure> {
        let mut seen = self.seen();
        let store = Store::from_env()?;
        // The stamp is taken before the store is read, so later changes are found by the next call.
        let stamp = store.stamp();
        if stamp.is_some() && *seen == stamp {
            return Ok(Changed::default());
        }
        let found = found(&store)?;
        let is_there = |path: &std::path::Path, version: &str| {
            found.iter().any(|model| model.path == path && model.version == version)
        };
        let mut changed = Changed { gone: self.directory.remove_stale(is_there), new: Vec::new() };
        for Found { name, path, version } in found {
            if self.directory.has(&path) {
                continue;
            }
            if self.directory.has_name(&name) {
                self.common
                    .notes
                    .say(&format!("{} is left out: another model has the name {name}", path.display()));
                continue;
            }
            match self.on_demand(name.clone(), path.clone()) {
                Ok(model) => {
                    self.directory.add_stored(&name, &path, version);
                    changed.new.push(model);
                }
                // A model that cannot be served is left out; the others are served.
                Err(error) => self.common.notes.say(&format!("{name} is left out: {error}")),
            }
        }
        *seen = stamp;
        Ok(changed)
    }

    fn on_demand(&self, name: String, path: PathBuf) -> Result<OnDemand, Failure> {
        prepare::on_demand(&self.common, self.settings.clone(), name, path)
    }

    /// Returns the function by which the server follows the store.
    pub(super) fn lister(&self) -> Lister {
        let stored = self.clone();
        Arc::new(move || {
            stored.list().unwrap_or_else(|error| {
                stored.common.notes.say(&format!("the store cannot be read: {error}"));
                Changed::default()
            })
        })
    }

    /// Returns the function that pulls a model for a client.
    pub(super) fn puller(&self) -> Puller {
        let stored = self.clone();
        Arc::new(move |name, hear, abandoned| stored.pull(name, hear, abandoned))
    }

    fn pull(
        &self,
        name: &str,
        hear: &mut dyn FnMut(Pulling<'_>) -> bool,
        abandoned: &Abandoned,
    ) -> Result<OnDemand, String> {
        let reference = Reference::named(name).map_err(|error| error.to_string())?;
        let store = Store::from_env().map_err(|error| error.to_string())?;
        let client = Options::from_env().and_then(Client::new).map_err(|error| error.to_string())?;
        let (stopper, last) = (client.stopper(), client.stopper());
        abandoned.then(move || last.stop());
        let mut file = (String::new(), 0);
        let mut tell = |event: Event<'_>| {
            let done = match event {
                Event::Check { path, bytes } | Event::Download { path, bytes } => {
                    file = (path.to_owned(), bytes);
                    0
                }
                Event::At { bytes } => bytes,
                Event::Done { bytes, .. } => bytes,
                _ => return,
            };
            if !hear(Pulling { file: &file.0, bytes: file.1, done }) {
                stopper.stop();
            }
        };
        let pulled =
            leyden_hub::pull(&client, &store, &reference, &mut tell).map_err(|error| error.to_string())?;
        // The lock is taken before the store is read, so that no other task lists the model meanwhile.
        let _seen = self.seen();
        let all = found(&store).map_err(|error| error.to_string())?;
        let model = all.into_iter().find(|model| model.path == pulled.model.path);
        let Some(Found { name, path, version }) = model else {
            return Err(format!("`{}` was removed at once", pulled.model.name));
        };
        let model = self.on_demand(name.clone(), path.clone()).map_err(|error| error.to_string())?;
        if !self.directory.has(&path) {
            self.directory.add_stored(&name, &path, version);
        }
        Ok(model)
    }

    /// Returns the function that changes the store for a client.
    pub(super) fn changer(&self) -> Changer {
        let stored = self.clone();
        Arc::new(move |change| stored.change(change))
    }

    fn change(&self, change: Change<'_>) -> Result<Changed, ChangeError> {
        let store = Store::from_env().map_err(|error| failed(&error))?;
        let _seen = self.seen();
        let (from, name, defaults) = match change {
            Change::Copy { from, name } => (from, name, leyden_hub::Defaults::default()),
            Change::Create { from, name, defaults } => (from, name, kept(defaults)),
            Change::Delete { name } => {
                let removed = store.remove_at(&self.path(name)?).map_err(|error| failed(&error))?;
                if removed.is_none() {
                    return Err(refused(format!(
                        "`{name}` is not in the model store; its files are not removed"
                    )));
                }
                self.directory.remove(name);
                return Ok(Changed { gone: vec![name.to_owned()], new: Vec::new() });
            }
        };
        let path = self.path(from)?;
        let named = store.give_name(&path, name, defaults).map_err(|error| failed(&error))?;
        let model = self
            .on_demand(named.name.clone(), named.path.clone())
            .map_err(|error| ChangeError { is_usage: false, message: error.to_string() })?;
        // The same name in another case, or of another version, has the same path.
        let gone = self.directory.remove_stale(|path, _| *path != *named.path);
        self.directory.add_stored(&named.name, &named.path, named.version());
        Ok(Changed { gone, new: vec![model] })
    }

    /// Returns the file or folder of a served model.
    fn path(&self, name: &str) -> Result<PathBuf, ChangeError> {
        self.directory.path(name).ok_or_else(|| refused(format!("`{name}` has no files")))
    }
}

/// Returns the complete models of the store: models named by the user, and pulled models under their shortest
/// unambiguous name, or under the full name if the user gave the short one to another model.
fn found(store: &Store) -> leyden_hub::Result<Vec<Found>> {
    let contents = store.contents()?;
    let given = |name: &str| contents.named.iter().any(|named| named.name.eq_ignore_ascii_case(name));
    let pulled = contents.models.iter().filter(|model| model.damage.is_none()).map(|model| {
        let short = model.short_name(&contents.models);
        let name = if given(&short) { model.name.clone() } else { short };
        Found { name, path: model.path.clone(), version: format!("{} {}", model.commit, model.pulled) }
    });
    let named = contents.named.iter().filter(|model| model.damage.is_none()).map(|model| Found {
        name: model.name.clone(),
        path: model.path.clone(),
        version: model.version(),
    });
    Ok(pulled.chain(named).collect())
}

/// Converts defaults to the form of the store.
fn kept(defaults: &leyden_server::Defaults) -> leyden_hub::Defaults {
    leyden_hub::Defaults {
        system: defaults.system().map(str::to_owned),
        messages: defaults.messages().to_vec(),
        parameters: defaults.parameters().clone(),
    }
}

fn refused(message: String) -> ChangeError {
    ChangeError { is_usage: true, message }
}

fn failed(error: &leyden_hub::Error) -> ChangeError {
    ChangeError { is_usage: error.is_usage(), message: error.to_string() }
}
