//! Leases of models that are loaded on demand: the requests that wait for one, and the execution of the steps that
//! [`crate::residency`] decides.
//!
//! A [`Host`] loads and unloads the models: [`Models`](crate::models::Models), or a model of it in tests.

use super::sync::{Arc, Instant, Mutex, MutexGuard, Notify, now, oneshot, sleep_until};
use crate::residency::{ModelIndex, Residency, Step, Ticket, Why};
use std::collections::HashMap;
use std::future::pending;
use std::sync::PoisonError;
use std::time::Duration;

/// Owner of models that are loaded on demand. No method is called while the state of the requests is locked. Loading and unloading run on threads of their own, so that no request
/// waits for the loading of another model, and end with [`is_loaded`], [`has_failed`] or [`is_unloaded`].
pub(crate) trait Host: Sized + Send + Sync + 'static {
    /// Error of a request that gets no lease.
    type Error: Send + 'static;

    /// Returns the state of the requests.
    fn desk(&self) -> &Desk<Self>;

    /// Begins to load a model into at most this many bytes; `None` if there is no budget.
    fn load(self: &Arc<Self>, place: ModelIndex, bytes: Option<u64>);

    /// Begins to unload a model.
    fn unload(self: &Arc<Self>, place: ModelIndex, why: Why);

    /// Returns the error of a model that needs more than the whole budget: the bytes that it needs, and the budget.
    fn too_large(&self, place: ModelIndex, bytes: (u64, u64)) -> Self::Error;

    /// Returns the error of a request for which there was no memory in time.
    fn no_room(&self, place: ModelIndex) -> Self::Error;

    /// Returns the error of a request whose answer is lost.
    fn lost(&self) -> Self::Error;
}

/// Sender of a lease, or of an error, to a request that waits for a model.
type Answer<H> = oneshot::Sender<Result<Lease<H>, <H as Host>::Error>>;

/// The requests that wait for models that are loaded on demand, and the plan of these models.
pub(crate) struct Desk<H: Host> {
    state: Mutex<State<H>>,
    /// Notifies of changes after which other steps may be due.
    changed: Notify,
}

/// Locked state of a [`Desk`].
pub(crate) struct State<H: Host> {
    pub(crate) plan: Residency,
    asking: HashMap<Ticket, Answer<H>>,
}

impl<H: Host> Desk<H> {
    pub(crate) fn new(plan: Residency) -> Desk<H> {
        Desk { state: Mutex::new(State { plan, asking: HashMap::new() }), changed: Notify::new() }
    }

    /// Locks the state. Leases and answers are not dropped under this lock: a lease's end takes it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State<H>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until steps may be due: after a change, or at the time of the next one.
    pub(crate) async fn changed(&self) {
        let next = self.lock().plan.next(now());
        tokio::select! {
            () = self.changed.notified() => {}
            () = at(next) => {}
        }
    }
}

/// A request's use of a model.
pub(crate) struct Lease<H: Host> {
    host: Arc<H>,
    /// Index and ticket, if the model is loaded on demand.
    of: Option<(ModelIndex, Ticket)>,
}

impl<H: Host> Lease<H> {
    /// Returns the lease of a model that stays in memory.
    pub(crate) fn of_resident(host: Arc<H>) -> Lease<H> {
        Lease { host, of: None }
    }

    /// Sets the time that the model stays loaded after its last request; `None`: until others need the memory.
    pub(crate) fn keep(&self, idle: Option<Duration>) {
        if let Some((place, _)) = self.of {
            self.host.desk().lock().plan.keep(place, idle);
        }
    }
}

impl<H: Host> std::fmt::Debug for Lease<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease").field("of", &self.of).finish_non_exhaustive()
    }
}

impl<H: Host> Drop for Lease<H> {
    fn drop(&mut self) {
        if let Some((place, ticket)) = self.of {
            self.host.desk().lock().plan.end(place, ticket, now());
            proceed(&self.host);
        }
    }
}

/// Guard of a request that waits for a model; withdraws it when dropped.
struct WaitingRequest<'a, H: Host> {
    host: &'a Arc<H>,
    place: ModelIndex,
    ticket: Ticket,
}

impl<H: Host> Drop for WaitingRequest<'_, H> {
    fn drop(&mut self) {
        let mut desk = self.host.desk().lock();
        // Without an answer to remove, the lease is granted: the receiver has it, or its sender drops it.
        let answer = desk.asking.remove(&self.ticket);
        if answer.is_some() {
            desk.plan.withdraw(self.place, self.ticket);
            drop(desk);
            proceed(self.host);
        }
    }
}

/// Returns a lease of a model, which is loaded first if necessary. If the future is dropped meanwhile, the model is
/// loaded all the same, and available to others.
///
/// # Errors
/// The model cannot be loaded, or there was not enough memory for it for too long.
pub(crate) async fn lease<H: Host>(host: &Arc<H>, place: ModelIndex) -> Result<Lease<H>, H::Error> {
    let (sender, mut receiver) = oneshot::channel();
    let asked = {
        let mut desk = host.desk().lock();
        let asked = desk.plan.ask(place, now());
        if let Ok(ticket) = &asked {
            desk.asking.insert(*ticket, sender);
        }
        asked
    };
    let ticket = asked.map_err(|bytes| host.too_large(place, bytes))?;
    let _asking = WaitingRequest { host, place, ticket };
    proceed(host);
    loop {
        let next = host.desk().lock().plan.next(now());
        tokio::select! {
            biased;
            answer = &mut receiver => return answer.unwrap_or_else(|_| Err(host.lost())),
            () = at(next) => proceed(host),
        }
    }
}

/// Executes the steps that are due, and notifies the task that waits for [`Desk::changed`].
pub(crate) fn proceed<H: Host>(host: &Arc<H>) {
    take_steps(host);
    host.desk().changed.notify_one();
}

/// Executes the steps that are due.
pub(crate) fn take_steps<H: Host>(host: &Arc<H>) {
    let steps: Vec<(Step, Option<Answer<H>>)> = {
        let mut desk = host.desk().lock();
        let steps = desk.plan.steps(now());
        let answered = |step: Step| match step {
            Step::Grant(ticket, _) | Step::Refuse(ticket, _) => (step, desk.asking.remove(&ticket)),
            Step::Load(..) | Step::Unload(..) => (step, None),
        };
        steps.into_iter().map(answered).collect()
    };
    for (step, answer) in steps {
        match step {
            Step::Grant(ticket, place) => {
                let lease = Lease { host: Arc::clone(host), of: Some((place, ticket)) };
                // A client that has disconnected drops its lease at once.
                drop(answer.map(|answer| answer.send(Ok(lease))));
            }
            Step::Refuse(_, place) => {
                drop(answer.map(|answer| answer.send(Err(host.no_room(place)))));
            }
            Step::Load(place, bytes) => host.load(place, bytes),
            Step::Unload(place, why) => host.unload(place, why),
        }
    }
}

/// Records that a model was loaded in the time `took` and takes `bytes` bytes. The caller then calls [`proceed`].
pub(crate) fn is_loaded<H: Host>(host: &H, place: ModelIndex, bytes: u64, took: Duration) {
    host.desk().lock().plan.loaded(place, bytes, took, now());
}

/// Fails all requests that wait for a model that cannot be loaded. The caller then calls [`proceed`].
pub(crate) fn has_failed<H: Host>(host: &H, place: ModelIndex, error: impl Fn() -> H::Error) {
    let answers: Vec<Answer<H>> = {
        let mut desk = host.desk().lock();
        let tickets = desk.plan.failed(place);
        tickets.iter().filter_map(|ticket| desk.asking.remove(ticket)).collect()
    };
    for answer in answers {
        drop(answer.send(Err(error())));
    }
}

/// Records that a model was unloaded and its memory is free. The caller then calls [`proceed`].
pub(crate) fn is_unloaded<H: Host>(host: &H, place: ModelIndex) {
    host.desk().lock().plan.unloaded(place);
}

/// Waits until a point in time; forever without one.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}
