//! The models of a server: those that stay in memory, and those that are loaded when a request names them.
//!
//! A request holds a [`Lease`] of its model from before it is prepared until its answer has ended, and no model is unloaded
//! that somebody holds. One model is loaded at a time. Where the budget has no room for it, others make some, the one that
//! was used longest ago first: idle ones at once, else the next one gives no new leases until those it has given are over.
//! Whoever asks for it then waits until it is loaded again. A model that was just loaded stays at least as long as that took,
//! so that two that do not fit together spend half of the time on answers at least.

use crate::app::Served;
use crate::error::ApiError;
use crate::failure::{Error, ErrorKind};
use crate::log::Log;
use crate::model::{Model, ModelInfo};
use crate::on_demand::OnDemand;
use hyper::StatusCode;
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};

/// After how long who finds no room should ask again.
const RETRY: Duration = Duration::from_secs(5);

/// All models of a server.
#[derive(Debug)]
pub(crate) struct Models {
    slots: RwLock<Vec<Arc<Slot>>>,
    /// Bytes of memory for the models that come and go.
    budget: Option<u64>,
    /// Held while a model is loaded or unloaded.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// A lease is over, or a time of staying has changed.
    freed: Notify,
    /// A model was loaded, or could not be.
    loaded: Notify,
    loads: AtomicU64,
    unloads: AtomicU64,
    log: Arc<Log>,
}

/// The place of one model.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) name: String,
    aliases: Vec<String>,
    /// The names of its adapters.
    adapters: Vec<String>,
    pub(crate) info: ModelInfo,
    /// The longest text, of a model that is not loaded as far as memory allows it.
    context: usize,
    /// How it is loaded; `None` for one that stays.
    on_demand: Option<OnDemand>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    served: Option<Arc<Served>>,
    /// Bytes of memory that it takes.
    bytes: u64,
    /// Requests that hold it.
    leases: usize,
    /// It gives no more leases.
    leaving: bool,
    /// When it was loaded, and how long that took.
    loaded: (Instant, Duration),
    /// When its last lease ended.
    used: Instant,
    /// How long it stays after that.
    idle: Option<Duration>,
}

/// What is seen of a loaded model.
#[derive(Clone, Debug)]
pub(crate) struct Resident {
    pub(crate) served: Arc<Served>,
    pub(crate) bytes: u64,
    /// How long it stays if nobody asks for it; `None`: it is not unloaded for being idle.
    pub(crate) stays: Option<Duration>,
}

/// The use of a model for a request.
#[derive(Debug)]
pub(crate) struct Lease {
    models: Arc<Models>,
    slot: Arc<Slot>,
}

impl Lease {
    /// Changes how long the model stays after its last request; `None`: until others need the room.
    pub(crate) fn keep(&self, idle: Option<Duration>) {
        self.slot.state().idle = idle;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.slot.state();
        state.leases -= 1;
        state.used = Instant::now();
        drop(state);
        self.models.freed.notify_waiters();
    }
}

impl State {
    fn new(served: Option<Served>, idle: Option<Duration>) -> Mutex<State> {
        let now = Instant::now();
        let bytes = served.as_ref().map_or(0, |served| served.bytes);
        let (served, loaded) = (served.map(Arc::new), (now, Duration::ZERO));
        Mutex::new(State { served, bytes, leases: 0, leaving: false, loaded, used: now, idle })
    }
}

impl Slot {
    /// The place of a model that is not loaded.
    fn vacant(model: OnDemand) -> Slot {
        let (name, aliases, info) = (model.name.clone(), model.aliases.clone(), model.info.clone());
        let adapters = model.adapters.clone();
        let (context, state) = (model.context, State::new(None, model.idle));
        Slot { name, aliases, adapters, info, context, on_demand: Some(model), state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it may be called: its name first, then the others, then those of it with an adapter.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.name).chain(&self.aliases).chain(&self.adapters).map(String::as_str)
    }

    /// Whether a name is that of one of its adapters.
    pub(crate) fn is_adapter(&self, name: &str) -> bool {
        self.adapters.iter().any(|adapter| adapter == name)
    }

    /// Whether it is loaded when it is asked for.
    pub(crate) fn is_on_demand(&self) -> bool {
        self.on_demand.is_some()
    }

    /// The model, if it is loaded.
    pub(crate) fn served(&self) -> Option<Arc<Served>> {
        self.state().served.clone()
    }

    /// The longest text in tokens.
    pub(crate) fn context(&self) -> usize {
        self.served().map_or(self.context, |served| served.context)
    }

    /// The model with what it takes and how long it stays, if it is loaded.
    pub(crate) fn resident(&self) -> Option<Resident> {
        let state = self.state();
        let stays = state.idle.filter(|_| self.is_on_demand()).map(|idle| match state.leases {
            0 => idle.saturating_sub(state.used.elapsed()),
            _ => idle,
        });
        Some(Resident { served: state.served.clone()?, bytes: state.bytes, stays })
    }

    /// How much longer it stays, if nobody holds it and it goes at all.
    fn idle_for(&self) -> Option<Duration> {
        let state = self.state();
        let idle = state.idle.filter(|_| self.is_on_demand() && state.served.is_some() && state.leases == 0);
        idle.map(|idle| idle.saturating_sub(state.used.elapsed()))
    }

    /// Takes the model out if nobody holds it.
    fn take(&self) -> Option<Arc<Served>> {
        let mut state = self.state();
        if state.leases > 0 || !self.is_on_demand() {
            return None;
        }
        let taken = state.served.take();
        state.leaving = false;
        taken
    }
}

impl Models {
    /// Starts those that stay; the others will be loaded into `budget` bytes.
    ///
    /// # Errors
    /// There is none, two have one name, or memory or threads are short.
    pub(crate) fn start(
        models: Vec<Model>,
        on_demand: Vec<OnDemand>,
        budget: Option<u64>,
        log: &Arc<Log>,
    ) -> Result<Models, Error> {
        let mut slots = Vec::new();
        for model in models {
            let (name, aliases, info) = (model.name.clone(), model.aliases.clone(), model.info.clone());
            let adapters = model.adapters.iter().filter_map(|adapter| adapter.name.clone()).collect();
            let served = Served::start(model, log)?;
            let context = served.context;
            let state = State::new(Some(served), None);
            slots.push(Arc::new(Slot { name, aliases, adapters, info, context, on_demand: None, state }));
        }
        slots.extend(on_demand.into_iter().map(|model| Arc::new(Slot::vacant(model))));
        if slots.is_empty() {
            return Err(ErrorKind::NoModel.into());
        }
        let mut names: Vec<&str> = slots.iter().flat_map(|slot| slot.names()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|p| p[0] == p[1]) {
            return Err(ErrorKind::DuplicateModel { name: pair[0].to_owned() }.into());
        }
        Ok(Models {
            slots: RwLock::new(slots),
            budget,
            turn: Arc::default(),
            freed: Notify::new(),
            loaded: Notify::new(),
            loads: AtomicU64::new(0),
            unloads: AtomicU64::new(0),
            log: Arc::clone(log),
        })
    }

    /// Adds one; one with its name that is there already stays as it is.
    ///
    /// # Errors
    /// Another model has one of its aliases.
    pub(crate) fn add(&self, model: OnDemand) -> Result<(), Error> {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        if slots.iter().any(|slot| slot.name == model.name) {
            return Ok(());
        }
        let new = Slot::vacant(model);
        let taken = |name: &&str| slots.iter().any(|slot| slot.names().any(|n| n == *name));
        if let Some(name) = new.names().find(taken) {
            return Err(ErrorKind::DuplicateModel { name: name.to_owned() }.into());
        }
        slots.push(Arc::new(new));
        drop(slots);
        self.freed.notify_waiters();
        Ok(())
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Slot>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Those that are loaded.
    pub(crate) fn served(&self) -> Vec<Arc<Served>> {
        self.all().iter().filter_map(|slot| slot.served()).collect()
    }

    /// Whether some are loaded when they are asked for.
    pub(crate) fn come_and_go(&self) -> bool {
        self.all().iter().any(|slot| slot.is_on_demand())
    }

    /// How many were loaded and unloaded since the start, and the bytes that those in memory take.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        (self.loads.load(Ordering::Relaxed), self.unloads.load(Ordering::Relaxed), self.bytes())
    }

    fn bytes(&self) -> u64 {
        self.all().iter().filter(|slot| slot.is_on_demand()).map(|slot| slot.state().bytes).sum()
    }

    /// The one with a name; of one model any request without a name means that.
    pub(crate) fn find(&self, name: Option<&str>) -> Result<Arc<Slot>, ApiError> {
        let slots = self.all();
        let Some(name) = name else {
            return match &slots[..] {
                [slot] => Ok(Arc::clone(slot)),
                _ => Err(ApiError {
                    code: "missing_required_parameter",
                    ..ApiError::field("model", "`model` is missing, and there are several")
                }),
            };
        };
        let of = |name: &str| slots.iter().find(|slot| slot.names().any(|n| n == name)).cloned();
        // Ollama's names have a tag, which says nothing here if it is the usual one.
        let found = of(name).or_else(|| name.strip_suffix(":latest").and_then(of));
        found.ok_or_else(|| {
            let names: Vec<&str> = slots.iter().flat_map(|slot| slot.names()).collect();
            let message = format!("the model does not exist; known names: {}", names.join(", "));
            let error = ApiError::new(StatusCode::NOT_FOUND, "model_not_found", message);
            ApiError { param: Some("model".to_owned()), ..error }
        })
    }

    /// The use of a model, which is loaded for it if it is not there.
    ///
    /// # Errors
    /// It cannot be loaded.
    pub(crate) async fn lease(self: &Arc<Self>, slot: &Arc<Slot>) -> Result<Lease, ApiError> {
        // The place in the queue is kept, whatever else is loaded meanwhile.
        let mut turn = std::pin::pin!(Arc::clone(&self.turn).lock_owned());
        let turn = loop {
            let mut loaded = std::pin::pin!(self.loaded.notified());
            loaded.as_mut().enable();
            if let Some(lease) = self.held(slot) {
                return Ok(lease);
            }
            tokio::select! {
                turn = &mut turn => break turn,
                () = loaded => {}
            }
        };
        let (models, slot) = (Arc::clone(self), Arc::clone(slot));
        // On a task of its own: the client may go while the model is loaded, which others then find there.
        let task = tokio::spawn(async move {
            let held = models.load(&slot).await;
            drop(turn);
            models.loaded.notify_waiters();
            held
        });
        task.await.unwrap_or_else(|_| Err(ApiError::internal("loading the model failed")))
    }

    fn held(self: &Arc<Self>, slot: &Arc<Slot>) -> Option<Lease> {
        let mut state = slot.state();
        if state.served.is_none() || state.leaving {
            return None;
        }
        state.leases += 1;
        Some(Lease { models: Arc::clone(self), slot: Arc::clone(slot) })
    }

    /// Loads a model. The turn is held.
    async fn load(self: &Arc<Self>, slot: &Arc<Slot>) -> Result<Lease, ApiError> {
        // Somebody else may have loaded it in the meantime.
        if let Some(lease) = self.held(slot) {
            return Ok(lease);
        }
        let Some(model) = &slot.on_demand else {
            return Err(ApiError::internal("a model that stays is not there"));
        };
        let available = self.make_room(model).await?;
        let (began, load, log) = (Instant::now(), Arc::clone(&model.load), Arc::clone(&self.log));
        let (tell, told) = oneshot::channel();
        let thread = move || {
            let started = load(available)
                .and_then(|model| Served::start(model, &log).map_err(|error| error.to_string()));
            // Nobody waits for it only where the server ends.
            let _ = tell.send(started);
        };
        let failed = |why: &str| {
            self.log.event(&[
                ("event", json!("model_load_failed")),
                ("model", json!(slot.name)),
                ("error", json!(why)),
            ]);
            ApiError::unavailable("model_load_failed", format!("`{}` could not be loaded", slot.name), RETRY)
        };
        if let Err(error) = std::thread::Builder::new().name("loader".to_owned()).spawn(thread) {
            return Err(failed(&error.to_string()));
        }
        let served = match told.await {
            Ok(Ok(served)) => Arc::new(served),
            Ok(Err(why)) => return Err(failed(&why)),
            Err(_) => return Err(failed("the loader panicked")),
        };
        let took = began.elapsed();
        self.loads.fetch_add(1, Ordering::Relaxed);
        let mut state = slot.state();
        let (bytes, now) = (served.bytes, Instant::now());
        *state = State {
            served: Some(served),
            bytes,
            leases: 1,
            leaving: false,
            loaded: (now, took),
            used: now,
            idle: model.idle,
        };
        drop(state);
        self.log.event(&[
            ("event", json!("model_loaded")),
            ("model", json!(slot.name)),
            ("bytes", json!(bytes)),
            ("ms", json!(u64::try_from(took.as_millis()).unwrap_or(u64::MAX))),
        ]);
        Ok(Lease { models: Arc::clone(self), slot: Arc::clone(slot) })
    }

    /// Unloads others until there is room; the bytes that the model may take.
    async fn make_room(&self, model: &OnDemand) -> Result<Option<u64>, ApiError> {
        let room = self.clear(model).await;
        // Who was asked to leave and did not have to stays.
        self.all().iter().for_each(|slot| slot.state().leaving = false);
        room
    }

    async fn clear(&self, model: &OnDemand) -> Result<Option<u64>, ApiError> {
        let Some(budget) = self.budget else { return Ok(None) };
        let needed = model.least_bytes;
        if needed > budget {
            let mib = |bytes: u64| bytes.div_ceil(1 << 20);
            let message = format!(
                "`{}` needs {} MiB of memory, and the models of this server have {} MiB",
                model.name,
                mib(needed),
                mib(budget)
            );
            return Err(ApiError::new(StatusCode::INSUFFICIENT_STORAGE, "model_too_large", message));
        }
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            let free = budget.saturating_sub(self.bytes());
            if needed <= free {
                // Not all that is left for the first one, so that others need not send it away at once.
                return Ok(Some(free.min((budget / 2).max(needed))));
            }
            let mut others: Vec<(bool, Instant, Arc<Slot>)> = Vec::new();
            for slot in self.all().into_iter().filter(|slot| slot.is_on_demand()) {
                let state = slot.state();
                let (held, used, there) = (state.leases > 0, state.used, state.served.is_some());
                drop(state);
                if there {
                    others.push((held, used, slot));
                }
            }
            // Idle ones first, then by the time of the last use.
            others.sort_by_key(|(held, used, _)| (*held, *used));
            let Some((held, _, slot)) = others.first() else {
                return Err(ApiError::internal("memory is taken by nobody"));
            };
            if !held {
                self.unload(slot, "room").await;
                continue;
            }
            let (since, took) = slot.state().loaded;
            let stays = took.saturating_sub(since.elapsed());
            if stays.is_zero() {
                slot.state().leaving = true;
                freed.await;
            } else {
                tokio::select! {
                    () = freed => {}
                    () = tokio::time::sleep(stays) => {}
                }
            }
        }
    }

    /// Unloads a model that nobody holds. The turn is held.
    async fn unload(&self, slot: &Arc<Slot>, why: &str) {
        let Some(served) = slot.take() else { return };
        // Its threads end, and its memory is given back, before its bytes are free for others.
        let (tell, told) = oneshot::channel();
        let drop_it = move || {
            drop(served);
            leyden_kernels::heap::give_back();
            let _ = tell.send(());
        };
        if std::thread::Builder::new().name("unloader".to_owned()).spawn(drop_it).is_ok() {
            let _ = told.await;
        }
        slot.state().bytes = 0;
        self.unloads.fetch_add(1, Ordering::Relaxed);
        self.log.event(&[
            ("event", json!("model_unloaded")),
            ("model", json!(slot.name)),
            ("reason", json!(why)),
        ]);
    }

    /// Loads what is to be there from the start, then unloads what was idle for too long, for ever.
    pub(crate) async fn tend(self: Arc<Self>) {
        for slot in &self.all() {
            if slot.on_demand.as_ref().is_some_and(|model| model.preload) {
                // What goes wrong is in the log, and told again to who asks for the model.
                drop(self.lease(slot).await);
            }
        }
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            let (over, next) = self.overdue();
            if over.is_empty() {
                match next {
                    Some(left) => tokio::select! {
                        () = freed => {}
                        () = tokio::time::sleep(left) => {}
                    },
                    None => freed.await,
                }
                continue;
            }
            let _turn = self.turn.lock().await;
            for slot in &over {
                if slot.idle_for().is_some_and(|left| left.is_zero()) {
                    self.unload(slot, "idle").await;
                }
            }
        }
    }

    /// The models whose time is over, and for how long nothing changes about that.
    fn overdue(&self) -> (Vec<Arc<Slot>>, Option<Duration>) {
        let (mut over, mut next) = (Vec::new(), None::<Duration>);
        for slot in self.all() {
            match slot.idle_for() {
                None => {}
                Some(Duration::ZERO) => over.push(slot),
                Some(left) => next = Some(next.map_or(left, |next| next.min(left))),
            }
        }
        (over, next)
    }
}
