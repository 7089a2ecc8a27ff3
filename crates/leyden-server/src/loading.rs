//! Loading and unloading of models, and the requests that wait for them.
//!
//! [`crate::residency`] plans the steps; this module executes them, each on a thread of its own, so that no request
//! waits for the loading of another model.

use crate::error::ApiError;
use crate::model_entry::ModelEntry;
use crate::models::{Answer, Lease, Models};
use crate::on_demand::OnDemand;
use crate::residency::{ModelIndex, Step, Ticket, Why};
use crate::service::Service;
use hyper::StatusCode;
use serde_json::json;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::Builder;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::time::sleep_until;

/// Time after which a client should retry a model that could not be loaded.
const RETRY: Duration = Duration::from_secs(5);

/// Guard of a request that waits for a model; withdraws it when dropped.
struct WaitingRequest<'a> {
    models: &'a Arc<Models>,
    place: ModelIndex,
    ticket: Ticket,
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        let mut desk = self.models.desk();
        if desk.asking.remove(&self.ticket).is_some() {
            desk.plan.withdraw(self.place, self.ticket);
            drop(desk);
            self.models.proceed();
        }
    }
}

impl Models {
    /// Returns a lease of a model, which is loaded first if necessary. If the client disconnects meanwhile, the model
    /// is loaded all the same, and available to others.
    ///
    /// # Errors
    /// The model cannot be loaded, or there was not enough memory for it for too long.
    pub(crate) async fn lease(self: &Arc<Self>, entry: &Arc<ModelEntry>) -> Result<Lease, ApiError> {
        let Some((_, place)) = entry.on_demand else {
            return Ok(Lease { models: Arc::clone(self), of: None });
        };
        let (tell, mut told) = oneshot::channel();
        let ticket = {
            let mut desk = self.desk();
            let ticket = desk.plan.ask(place, Instant::now()).map_err(|of| too_large(&entry.name, of))?;
            desk.asking.insert(ticket, tell);
            ticket
        };
        let _asking = WaitingRequest { models: self, place, ticket };
        self.proceed();
        loop {
            let next = self.desk().plan.next(Instant::now());
            tokio::select! {
                biased;
                answer = &mut told => {
                    return answer.unwrap_or_else(|_| Err(ApiError::internal("loading the model failed")));
                }
                () = at(next) => self.proceed(),
            }
        }
    }

    /// Executes the steps that are due, and makes [`tend`](Self::tend) find the time of the next ones.
    pub(crate) fn proceed(self: &Arc<Self>) {
        self.take_steps();
        self.changed.notify_one();
    }

    fn take_steps(self: &Arc<Self>) {
        let steps: Vec<(Step, Option<Answer>)> = {
            let mut desk = self.desk();
            let steps = desk.plan.steps(Instant::now());
            let answered = |step: Step| match step {
                Step::Grant(ticket, _) | Step::Refuse(ticket, _) => (step, desk.asking.remove(&ticket)),
                Step::Load(..) | Step::Unload(..) => (step, None),
            };
            steps.into_iter().map(answered).collect()
        };
        for (step, answer) in steps {
            match step {
                Step::Grant(ticket, place) => {
                    let lease = Lease { models: Arc::clone(self), of: Some((place, ticket)) };
                    // A client that has disconnected drops its lease at once.
                    drop(answer.map(|answer| answer.send(Ok(lease))));
                }
                Step::Refuse(_, place) => {
                    let name = self.at(place).map(|(entry, _)| entry.name.clone()).unwrap_or_default();
                    drop(answer.map(|answer| answer.send(Err(no_room(&name)))));
                }
                Step::Load(place, bytes) => self.load(place, bytes),
                Step::Unload(place, why) => self.unload(place, why),
            }
        }
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
            models.proceed();
        };
        if let Err(error) = Builder::new().name("loader".to_owned()).spawn(work) {
            let name = self.at(place).map(|(entry, _)| entry.name.clone()).unwrap_or_default();
            self.has_failed(&name, place, &error.to_string());
        }
    }

    fn read(&self, model: &OnDemand, available: Option<u64>) -> Result<Arc<dyn Service>, String> {
        (model.load)(available)?.start(&self.log).map_err(|error| error.to_string())
    }

    fn is_loaded(&self, entry: &ModelEntry, place: ModelIndex, service: Arc<dyn Service>, took: Duration) {
        let bytes = service.reserved_bytes();
        *entry.place() = Some(service);
        self.loads.fetch_add(1, Ordering::Relaxed);
        self.desk().plan.loaded(place, bytes, took, Instant::now());
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
        let answers: Vec<Answer> = {
            let mut desk = self.desk();
            let tickets = desk.plan.failed(place);
            tickets.iter().filter_map(|ticket| desk.asking.remove(ticket)).collect()
        };
        self.sweep();
        for answer in answers {
            let message = format!("`{name}` could not be loaded");
            let _ = answer.send(Err(ApiError::unavailable("model_load_failed", message, RETRY)));
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
            models.proceed();
        };
        // If no thread can be started, the model is dropped with the closure, on this thread.
        if Builder::new().name("unloader".to_owned()).spawn(work).is_err() {
            let name = self.at(place).map(|(entry, _)| entry.name.clone()).unwrap_or_default();
            self.is_unloaded(&name, place, why);
        }
    }

    fn is_unloaded(&self, name: &str, place: ModelIndex, why: Why) {
        self.unloads.fetch_add(1, Ordering::Relaxed);
        let why = match why {
            Why::Room => "room",
            Why::Idle => "idle",
        };
        self.log.event(&[("event", json!("model_unloaded")), ("model", json!(name)), ("reason", json!(why))]);
        self.desk().plan.unloaded(place);
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
                self.take_steps();
                let next = self.desk().plan.next(Instant::now());
                tokio::select! {
                    () = self.changed.notified() => {}
                    () = at(next) => {}
                }
            }
        };
        let ((), ()) = tokio::join!(preload, unload);
    }
}

/// Waits until a point in time; forever without one.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment.into()).await,
        None => pending().await,
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
