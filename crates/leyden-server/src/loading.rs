//! Loading and unloading of models, each on a thread of its own, so that no request waits for the loading of another
//! model. [`crate::residency`] plans the steps, and [`crate::leases`] orders them.

use crate::error::ApiError;
use crate::leases::{self, Desk, Host, proceed, take_steps};
use crate::model_entry::ModelEntry;
use crate::models::{Lease, Models};
use crate::on_demand::OnDemand;
use crate::residency::{ModelIndex, Why};
use crate::service::Service;
use hyper::StatusCode;
use serde_json::json;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Time after which a client should retry a model that could not be loaded.
const RETRY: Duration = Duration::from_secs(5);

impl Host for Models {
    type Error = ApiError;

    fn desk(&self) -> &Desk<Models> {
        &self.leases
    }

    /// Loads a model on a thread of its own.
    fn load(self: &Arc<Self>, place: ModelIndex, available: Option<u64>) {
        let Some((entry, model)) = self.at(place) else { return };
        let models = Arc::clone(self);
        let work = move || {
            let begin = Instant::now();
            // A panic of the loader fails only the requests that wait for this model.
            let loaded = catch_unwind(AssertUnwindSafe(|| models.read(&model, available)));
            match loaded.unwrap_or_else(|_| Err("the loader panicked".to_owned())) {
                Ok(service) => models.is_loaded(&entry, place, service, begin.elapsed()),
                Err(why) => models.has_failed(&entry.name, place, &why),
            }
            proceed(&models);
        };
        if let Err(error) = Builder::new().name("loader".to_owned()).spawn(work) {
            let name = self.name_at(place);
            self.has_failed(&name, place, &error.to_string());
        }
    }

    /// Unloads an unused model. Its threads end, and its memory is returned to the system, before its bytes are
    /// available to other models.
    fn unload(self: &Arc<Self>, place: ModelIndex, why: Why) {
        let Some((entry, _)) = self.at(place) else { return };
        let (models, service) = (Arc::clone(self), entry.place().take());
        let work = move || {
            drop(service);
            leyden_kernels::heap::give_back();
            models.is_unloaded(&entry.name, place, why);
            proceed(&models);
        };
        // If no thread can be started, the model is dropped with the closure, on this thread.
        if Builder::new().name("unloader".to_owned()).spawn(work).is_err() {
            let name = self.name_at(place);
            self.is_unloaded(&name, place, why);
        }
    }

    fn too_large(&self, place: ModelIndex, bytes: (u64, u64)) -> ApiError {
        too_large(&self.name_at(place), bytes)
    }

    fn no_room(&self, place: ModelIndex) -> ApiError {
        no_room(&self.name_at(place))
    }

    fn lost(&self) -> ApiError {
        ApiError::internal("loading the model failed")
    }
}

impl Models {
    /// Returns a lease of a model, which is loaded first if necessary. If the client disconnects meanwhile, the model
    /// is loaded all the same, and available to others.
    ///
    /// # Errors
    /// The model cannot be loaded, or there was not enough memory for it for too long.
    pub(crate) async fn lease(self: &Arc<Self>, entry: &ModelEntry) -> Result<Lease, ApiError> {
        match &entry.on_demand {
            None => Ok(Lease::of_resident(Arc::clone(self))),
            Some((_, place)) => leases::lease(self, *place).await,
        }
    }

    fn name_at(&self, place: ModelIndex) -> String {
        self.at(place).map(|(entry, _)| entry.name.clone()).unwrap_or_default()
    }

    fn read(&self, model: &OnDemand, available: Option<u64>) -> Result<Arc<dyn Service>, String> {
        (model.load)(available)?.start(&self.log).map_err(|error| error.to_string())
    }

    fn is_loaded(&self, entry: &ModelEntry, place: ModelIndex, service: Arc<dyn Service>, took: Duration) {
        let bytes = service.reserved_bytes();
        *entry.place() = Some(service);
        self.loads.fetch_add(1, Ordering::Relaxed);
        leases::is_loaded(self, place, bytes, took);
        self.log.event(&[
            ("event", json!("model_loaded")),
            ("model", json!(entry.name)),
            ("bytes", json!(bytes)),
            ("ms", json!(u64::try_from(took.as_millis()).unwrap_or(u64::MAX))),
        ]);
    }

    /// Fails all requests that wait for a model that cannot be loaded.
    fn has_failed(&self, name: &str, place: ModelIndex, why: &str) {
        self.log.event(&[
            ("event", json!("model_load_failed")),
            ("model", json!(name)),
            ("error", json!(why)),
        ]);
        let message = format!("`{name}` could not be loaded");
        leases::has_failed(self, place, || {
            ApiError::unavailable("model_load_failed", message.clone(), RETRY)
        });
        self.sweep();
    }

    fn is_unloaded(&self, name: &str, place: ModelIndex, why: Why) {
        self.unloads.fetch_add(1, Ordering::Relaxed);
        let why = match why {
            Why::Room => "room",
            Why::Idle => "idle",
        };
        self.log.event(&[("event", json!("model_unloaded")), ("model", json!(name)), ("reason", json!(why))]);
        leases::is_unloaded(self, place);
        self.sweep();
    }

    /// Loads the models to be preloaded, and executes the steps that become due with time, such as unloading; never
    /// returns.
    pub(crate) async fn tend(self: Arc<Self>) {
        let preload = async {
            for entry in &self.all() {
                if entry.on_demand.as_ref().is_some_and(|(model, _)| model.preload)
                    && let Err(error) = self.lease(entry).await
                {
                    self.log.event(&[
                        ("event", json!("preload_failed")),
                        ("model", json!(entry.name)),
                        ("error", json!(error.message)),
                    ]);
                }
            }
        };
        let unload = async {
            loop {
                take_steps(&self);
                self.leases.changed().await;
            }
        };
        let ((), ()) = tokio::join!(preload, unload);
    }
}

fn no_room(name: &str) -> ApiError {
    let message = format!("`{name}` is not in memory, and the loaded models are in use");
    ApiError::unavailable("no_room_for_model", message, RETRY)
}

fn too_large(name: &str, (needed, budget): (u64, u64)) -> ApiError {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let message = format!(
        "`{name}` needs {} MiB of memory, but the models of this server have {} MiB in all",
        mib(needed),
        mib(budget)
    );
    ApiError::new(StatusCode::INSUFFICIENT_STORAGE, "model_too_large", message)
}
