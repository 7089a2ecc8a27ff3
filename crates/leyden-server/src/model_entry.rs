//! [`ModelEntry`]: a model of the server, loaded or not.

use crate::abilities::Abilities;
use crate::model::ModelInfo;
use crate::on_demand::OnDemand;
use crate::residency::ModelIndex;
use crate::served::Served;
use crate::service::Service;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Model of the server, loaded or not.
#[derive(Debug)]
pub(crate) struct ModelEntry {
    pub(crate) name: String,
    pub(crate) aliases: Vec<String>,
    /// Names of its adapters.
    pub(crate) adapters: Vec<String>,
    pub(crate) info: ModelInfo,
    pub(crate) abilities: Abilities,
    /// Maximum context in tokens; memory may allow less when the model is loaded.
    pub(crate) context: usize,
    /// Function that loads it and its index among the on-demand models; `None` for a model that stays.
    pub(crate) on_demand: Option<(OnDemand, ModelIndex)>,
    pub(crate) service: Mutex<Option<Arc<dyn Service>>>,
    /// True if the model was removed: the entry remains until its last request has ended.
    pub(crate) gone: AtomicBool,
}

/// Returns the name without `:latest` (upper or lower case), if it has this tag.
pub(crate) fn without_tag(name: &str) -> Option<&str> {
    let (front, tag) = name.rsplit_once(':')?;
    tag.eq_ignore_ascii_case("latest").then_some(front)
}

impl ModelEntry {
    /// Returns the entry of a model that is not loaded.
    pub(crate) fn vacant(model: OnDemand, place: ModelIndex) -> ModelEntry {
        let (name, aliases, info) = (model.name.clone(), model.aliases.clone(), model.info.clone());
        let (adapters, context) = (model.adapters.clone(), model.context);
        let abilities = model.abilities;
        let on_demand = Some((model, place));
        ModelEntry {
            name,
            aliases,
            adapters,
            info,
            abilities,
            context,
            on_demand,
            service: Mutex::default(),
            gone: AtomicBool::default(),
        }
    }

    /// Locks the loaded model.
    pub(crate) fn place(&self) -> MutexGuard<'_, Option<Arc<dyn Service>>> {
        self.service.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns its names: its own first, then the aliases, then those of its adapters.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.name).chain(&self.aliases).chain(&self.adapters).map(String::as_str)
    }

    /// Returns true if a name is that of one of its adapters.
    pub(crate) fn is_adapter(&self, name: &str) -> bool {
        self.adapters.iter().any(|adapter| adapter == name)
    }

    /// Returns true if it is loaded when a request names it.
    pub(crate) fn is_on_demand(&self) -> bool {
        self.on_demand.is_some()
    }

    /// Returns the model, if it is loaded.
    pub(crate) fn service(&self) -> Option<Arc<dyn Service>> {
        self.place().clone()
    }

    /// Returns the language model, if it is one and is loaded.
    pub(crate) fn served(&self) -> Option<Arc<Served>> {
        self.service()?.of_kind()
    }

    /// Returns the maximum context in tokens.
    pub(crate) fn context(&self) -> usize {
        self.service().map_or(self.context, |service| service.context())
    }
}
