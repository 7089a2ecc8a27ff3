//! The models of a server: those that stay in memory, and those that are loaded on demand.
//!
//! A request holds a [`Lease`] of its model from before it is prepared until its answer has ended, and a model with
//! leases is never unloaded. Loading and unloading are decided in [`crate::residency`], ordered in [`crate::leases`] and
//! done in [`crate::loading`].

use crate::abilities::{Abilities, RequiredAbility};
use crate::error::ApiError;
use crate::failure::{Error, ErrorKind};
use crate::leases::{self, Desk, proceed};
use crate::log::Log;
use crate::model::Model;
use crate::model_entry::{ModelEntry, without_tag};
use crate::on_demand::{Changed, Lister, NameFinder, OnDemand};
use crate::residency::{ModelIndex, Residency, Times};
use crate::served::Served;
use crate::service::{Loaded, Service};
use hyper::StatusCode;
use serde_json::json;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// A request's use of a model.
pub(crate) type Lease = leases::Lease<Models>;

/// All models of a server.
pub(crate) struct Models {
    entries: RwLock<Vec<Arc<ModelEntry>>>,
    /// The requests that wait for models that are loaded on demand.
    pub(crate) leases: Desk<Models>,
    pub(crate) loads: AtomicU64,
    pub(crate) unloads: AtomicU64,
    pub(crate) log: Arc<Log>,
    names: Option<NameFinder>,
    list: Option<Lister>,
    /// Lock held while the disk is searched for models.
    listing: tokio::sync::Mutex<()>,
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Models").field("entries", &self.entries).finish_non_exhaustive()
    }
}

/// State of a loaded model.
#[derive(Clone, Debug)]
pub(crate) struct Resident {
    pub(crate) service: Arc<dyn Service>,
    pub(crate) bytes: u64,
    /// Time until the model is unloaded if no request comes; `None`: it has no idle timeout.
    pub(crate) stays: Option<Duration>,
}

impl Models {
    /// Starts the models that stay in memory. Those in `on_demand` are loaded into `budget` bytes; `times` bounds the
    /// waits of requests for memory.
    ///
    /// # Errors
    /// Two models have the same name, or memory or threads are short.
    pub(crate) fn start(
        models: Vec<Model>,
        on_demand: Vec<OnDemand>,
        (budget, times): (Option<u64>, Times),
        log: &Arc<Log>,
    ) -> Result<Models, Error> {
        let mut entries = Vec::new();
        for model in models {
            let (name, aliases, info) = (model.name.clone(), model.aliases.clone(), model.info.clone());
            let adapters = model.adapters.iter().filter_map(|adapter| adapter.name.clone()).collect();
            let abilities = Abilities::of(model.network.config());
            let service = Loaded::from(model).start(log)?;
            let context = service.context();
            let service = Mutex::new(Some(service));
            let gone = AtomicBool::default();
            entries.push(Arc::new(ModelEntry {
                name,
                aliases,
                adapters,
                info,
                abilities,
                context,
                on_demand: None,
                service,
                gone,
            }));
        }
        let (mut plan, now) = (Residency::new(budget, times), Instant::now());
        for model in on_demand {
            let place = plan.add(model.least_bytes, model.idle, now);
            entries.push(Arc::new(ModelEntry::vacant(model, place)));
        }
        let mut names: Vec<&str> = entries.iter().flat_map(|entry| entry.names()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|p| p[0] == p[1]) {
            return Err(ErrorKind::DuplicateModel { name: pair[0].to_owned() }.into());
        }
        Ok(Models {
            entries: RwLock::new(entries),
            leases: Desk::new(plan),
            loads: AtomicU64::new(0),
            unloads: AtomicU64::new(0),
            log: Arc::clone(log),
            names: None,
            list: None,
            listing: tokio::sync::Mutex::new(()),
        })
    }

    /// Adds finders of models: by further names, and of those that appear on and vanish from the disk.
    pub(crate) fn found_by(self, names: Option<NameFinder>, list: Option<Lister>) -> Models {
        Models { names, list, ..self }
    }

    /// Adds a model that is loaded on demand, unless there is one of its name.
    ///
    /// # Errors
    /// Another model has one of its aliases.
    pub(crate) fn add(&self, model: OnDemand) -> Result<(), Error> {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let here = || entries.iter().filter(|entry| !entry.gone.load(Ordering::SeqCst));
        if here().any(|entry| entry.name == model.name) {
            return Ok(());
        }
        let names = std::iter::once(&model.name).chain(&model.aliases).chain(&model.adapters);
        let taken = |name: &&String| here().any(|entry| entry.names().any(|n| n == **name));
        if let Some(name) = names.into_iter().find(taken) {
            return Err(ErrorKind::DuplicateModel { name: name.clone() }.into());
        }
        let place = self.leases.lock().plan.add(model.least_bytes, model.idle, Instant::now());
        entries.push(Arc::new(ModelEntry::vacant(model, place)));
        Ok(())
    }

    /// Returns the on-demand model at an index.
    pub(crate) fn at(&self, place: ModelIndex) -> Option<(Arc<ModelEntry>, OnDemand)> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.iter().find_map(|entry| match &entry.on_demand {
            Some((model, of)) if *of == place => Some((Arc::clone(entry), model.clone())),
            _ => None,
        })
    }

    /// Unloads an on-demand model as soon as no request uses it. Returns false for a model that stays.
    pub(crate) fn let_go(self: &Arc<Self>, entry: &ModelEntry) -> bool {
        let Some((_, place)) = &entry.on_demand else { return false };
        self.leases.lock().plan.keep(*place, Some(Duration::ZERO));
        proceed(self);
        true
    }

    /// Removes models and adds others. Requests that run on removed ones go on to their end.
    ///
    /// # Errors
    /// The first error of [`add`](Self::add); the models after it are added all the same.
    pub(crate) fn apply(self: &Arc<Self>, changed: Changed) -> Result<(), Error> {
        for name in &changed.gone {
            for entry in self.all().into_iter().filter(|entry| entry.name == *name && entry.is_on_demand()) {
                entry.gone.store(true, Ordering::SeqCst);
            }
        }
        if !changed.gone.is_empty() {
            self.sweep();
            proceed(self);
        }
        changed.new.into_iter().map(|model| self.add(model)).fold(Ok(()), Result::and)
    }

    /// Drops the removed models that have no requests left.
    pub(crate) fn sweep(&self) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let mut desk = self.leases.lock();
        let is_over = |entry: &Arc<ModelEntry>| match &entry.on_demand {
            Some((_, place)) if entry.gone.load(Ordering::SeqCst) => Some(*place),
            _ => None,
        };
        entries.retain(|entry| !is_over(entry).is_some_and(|place| desk.plan.retire(place)));
    }

    /// Searches the disk for new and vanished models.
    pub(crate) async fn refresh(self: &Arc<Self>) {
        let Some(list) = self.list.clone() else { return };
        // Concurrent callers wait for this search, and then do one of their own that finds nothing new.
        let _turn = self.listing.lock().await;
        let Ok(changed) = tokio::task::spawn_blocking(move || list()).await else { return };
        if let Err(error) = self.apply(changed) {
            self.log.event(&[("event", json!("model_left_out")), ("error", json!(error.to_string()))]);
        }
    }

    /// Returns the model with a name, after a search of the disk if the name is unknown.
    ///
    /// # Errors
    /// As [`find_for`](Self::find_for).
    pub(crate) async fn look_for(
        self: &Arc<Self>,
        name: Option<&str>,
        wish: RequiredAbility,
    ) -> Result<Arc<ModelEntry>, ApiError> {
        match self.find_for(name, wish) {
            Err(_) if self.list.is_some() => {
                self.refresh().await;
                self.find_for(name, wish)
            }
            found => found,
        }
    }

    /// Returns all models.
    pub(crate) fn all(&self) -> Vec<Arc<ModelEntry>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.iter().filter(|entry| !entry.gone.load(Ordering::SeqCst)).cloned().collect()
    }

    /// Returns the number of entries, including those of removed models still in use, and the number of indices of
    /// on-demand models.
    #[cfg(test)]
    pub(crate) fn places(&self) -> (usize, usize) {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner).len();
        (entries, self.leases.lock().plan.places())
    }

    /// Returns the loaded models of all kinds.
    pub(crate) fn services(&self) -> Vec<Arc<dyn Service>> {
        self.all().iter().filter_map(|entry| entry.service()).collect()
    }

    /// Returns the loaded language models.
    pub(crate) fn served(&self) -> Vec<Arc<Served>> {
        self.all().iter().filter_map(|entry| entry.served()).collect()
    }

    /// Returns true if there are models that are loaded on demand.
    pub(crate) fn come_and_go(&self) -> bool {
        self.list.is_some() || self.all().iter().any(|entry| entry.is_on_demand())
    }

    /// Returns the numbers of models loaded and unloaded since the start, and the bytes of those in memory.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        let bytes = self.leases.lock().plan.bytes();
        (self.loads.load(Ordering::Relaxed), self.unloads.load(Ordering::Relaxed), bytes)
    }

    /// Returns the state of a model, if it is loaded.
    pub(crate) fn resident(&self, entry: &ModelEntry) -> Option<Resident> {
        let service = entry.service()?;
        let (bytes, stays) = match &entry.on_demand {
            Some((_, place)) => self.leases.lock().plan.stay(*place, Instant::now()),
            None => (service.reserved_bytes(), None),
        };
        Some(Resident { service, bytes, stays })
    }

    /// Returns the model with a name; without a name the only model.
    pub(crate) fn find(&self, name: Option<&str>) -> Result<Arc<ModelEntry>, ApiError> {
        self.find_for(name, RequiredAbility::Any)
    }

    /// Returns the model with a name; without a name the only model, or the only one with the ability.
    pub(crate) fn find_for(
        &self,
        name: Option<&str>,
        wish: RequiredAbility,
    ) -> Result<Arc<ModelEntry>, ApiError> {
        let entries = self.all();
        let Some(name) = name else {
            if let [entry] = &entries[..] {
                return Ok(Arc::clone(entry));
            }
            if entries.is_empty() {
                return Err(ApiError {
                    param: Some("model".to_owned()),
                    ..ApiError::new(StatusCode::NOT_FOUND, "model_not_found", "this server has no model yet")
                });
            }
            let models: Vec<(&str, Abilities)> =
                entries.iter().map(|entry| (entry.name.as_str(), entry.abilities)).collect();
            return wish.choose(&models).map(|i| Arc::clone(&entries[i]));
        };
        let of = |name: &str| entries.iter().find(|entry| entry.names().any(|n| n == name)).cloned();
        // Ollama's names have a tag; the default tag is dropped.
        let found = of(name).or_else(|| without_tag(name).and_then(of));
        if let Some(found) = found.or_else(|| of(&format!("{name}:latest"))) {
            return Ok(found);
        }
        let meant = self.names.as_ref().map_or_else(Vec::new, |names| names(name));
        if let [one] = &meant[..]
            && let Some(found) = of(one)
        {
            return Ok(found);
        }
        let message = if meant.len() > 1 {
            format!("the name is ambiguous; use one of: {}", meant.join(", "))
        } else {
            let names: Vec<&str> = entries.iter().flat_map(|entry| entry.names()).collect();
            match names.is_empty() {
                true => "this server has no model yet; pull one with /api/pull".to_owned(),
                false => format!("the model does not exist; known names: {}", names.join(", ")),
            }
        };
        let error = ApiError::new(StatusCode::NOT_FOUND, "model_not_found", message);
        Err(ApiError { param: Some("model".to_owned()), ..error })
    }
}
