//! Decides which on-demand models are in memory, which requests wait for one, and which model is unloaded for another.
//!
//! [`Residency`] is a state machine without clock and threads: the time is an argument, and the work to do is returned
//! as [`Step`]s. The same calls return the same steps.
//!
//! * A request for a loaded model gets it at once. Models whose bytes are free are loaded concurrently; each reserves
//!   its share of the budget when its loading is decided.
//! * Unused models are unloaded to make room, the least recently used first, and only if that frees enough bytes; until
//!   then they accept requests. Models in use are never unloaded.
//! * A request without room waits for [`Times::wait`] at most, and delays no other request.
//! * After waiting for [`Times::pause`], a request makes models pause: models whose requests are all younger than that
//!   time give no new leases for as long, so that a stream of short, overlapping requests ends. A model with a long
//!   request is not paused, because the pause could not free it. After a pause without unloading, a model serves for
//!   [`RESTS`] times as long before its next pause.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Index of a model.
pub(crate) type ModelIndex = usize;
/// Number of a request for a model, and of its lease.
pub(crate) type Ticket = u64;

/// Minimum time between two pauses of a model, in multiples of a pause.
const RESTS: u32 = 10;

/// Limits of waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// Maximum time for which a request waits for memory.
    pub(crate) wait: Duration,
    /// Maximum time for which a model gives no leases so that another one can be loaded.
    pub(crate) pause: Duration,
}

impl Times {
    /// Returns the times for requests that wait for at most `wait`.
    pub(crate) fn of(wait: Duration) -> Times {
        Times { wait, pause: wait / 3 }
    }
}

/// Reason for unloading a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Another model needs the memory.
    Room,
    /// The idle timeout has passed.
    Idle,
}

/// Work for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Loads a model into at most this many bytes; `None` if there is no budget. The caller reports the result with
    /// [`Residency::loaded`] or [`Residency::failed`].
    Load(ModelIndex, Option<u64>),
    /// Unloads a model. The caller then calls [`Residency::unloaded`].
    Unload(ModelIndex, Why),
    /// Gives a request the lease of its model, until [`Residency::end`].
    Grant(Ticket, ModelIndex),
    /// Tells a request that there was no memory for its model.
    Refuse(Ticket, ModelIndex),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Away,
    /// Other models are being unloaded to make room for it.
    Expected,
    Loading,
    There,
    Leaving,
}

#[derive(Debug)]
struct Model {
    /// Minimum of bytes for loading it.
    least: u64,
    /// Default idle timeout; `None`: it stays until others need the memory.
    idle: Option<Duration>,
    /// Idle timeout that the last request set.
    keep: Option<Duration>,
    phase: Phase,
    /// Bytes that it takes, or while it is loaded the bytes that are reserved for it.
    bytes: u64,
    /// Requests that use it, with the times at which they began.
    leases: BTreeMap<Ticket, Instant>,
    /// Requests that wait for it, with the times at which they began, in order of arrival.
    waiting: VecDeque<(Ticket, Instant)>,
    /// Time at which its last use ended.
    used: Instant,
    /// Time before which it is not unloaded for others: after loading it stays for as long as loading took.
    stays: Instant,
    /// The model for which it pauses, and the end of the pause.
    paused: Option<(ModelIndex, Instant)>,
    /// Time before which it is not paused again.
    serves: Instant,
    /// True if it was removed: it is unloaded as soon as no request uses it.
    retired: bool,
}

impl Model {
    fn is_free(&self) -> bool {
        self.phase == Phase::There && self.leases.is_empty() && self.waiting.is_empty()
    }

    /// Returns true if the model can be unloaded now for the model at `place`. Requests that wait for it because it
    /// pauses for that model do not prevent this; they wait on.
    fn may_go(&self, place: ModelIndex) -> bool {
        let has_paused = self.paused.is_some_and(|(of, _)| of == place);
        let is_asked_for = self.paused.is_some() || !self.waiting.is_empty();
        self.phase == Phase::There && self.leases.is_empty() && (has_paused || !is_asked_for)
    }

    /// Returns true if a pause may end all its leases.
    fn may_pause(&self, now: Instant, pause: Duration) -> bool {
        let young = |begin: &Instant| now.saturating_duration_since(*begin) < pause;
        self.phase == Phase::There
            && self.paused.is_none()
            && now >= self.serves.max(self.stays)
            && !self.leases.is_empty()
            && self.leases.values().all(young)
    }

    /// Returns the time at which it is unloaded if no request comes.
    fn leaves(&self) -> Option<Instant> {
        let keep = if self.retired { Some(Duration::ZERO) } else { self.keep };
        keep.filter(|_| self.is_free()).and_then(|keep| self.used.checked_add(keep))
    }
}

/// The on-demand models of a server.
#[derive(Debug)]
pub(crate) struct Residency {
    budget: Option<u64>,
    times: Times,
    models: Vec<Model>,
    /// Indices of removed models, for reuse.
    vacant: Vec<ModelIndex>,
    tickets: Ticket,
}

impl Residency {
    /// Creates the state of models that share `budget` bytes.
    pub(crate) fn new(budget: Option<u64>, times: Times) -> Residency {
        Residency { budget, times, models: Vec::new(), vacant: Vec::new(), tickets: 0 }
    }

    /// Adds a model that is not loaded, which needs at least `least` bytes and has the idle timeout `idle`.
    pub(crate) fn add(&mut self, least: u64, idle: Option<Duration>, now: Instant) -> ModelIndex {
        let model = Model {
            least,
            idle,
            keep: idle,
            phase: Phase::Away,
            bytes: 0,
            leases: BTreeMap::new(),
            waiting: VecDeque::new(),
            used: now,
            stays: now,
            paused: None,
            serves: now,
            retired: false,
        };
        if let Some(place) = self.vacant.pop() {
            self.models[place] = model;
            return place;
        }
        self.models.push(model);
        self.models.len() - 1
    }

    /// Removes a model and frees its index for reuse. Returns false, and must be called again, while the model is in
    /// memory or requests wait for it.
    pub(crate) fn retire(&mut self, place: ModelIndex) -> bool {
        let model = &mut self.models[place];
        model.retired = true;
        let is_idle = model.phase == Phase::Away && model.leases.is_empty() && model.waiting.is_empty();
        if is_idle {
            self.vacant.push(place);
        }
        is_idle
    }

    /// Returns the number of indices, vacant ones included.
    #[cfg(test)]
    pub(crate) fn places(&self) -> usize {
        self.models.len()
    }

    /// Adds a request for a model. The lease comes as a step.
    ///
    /// # Errors
    /// The model needs more than the whole budget: the bytes that it needs, and the budget.
    pub(crate) fn ask(&mut self, place: ModelIndex, now: Instant) -> Result<Ticket, (u64, u64)> {
        let model = &mut self.models[place];
        if let Some(budget) = self.budget.filter(|budget| model.least > *budget) {
            return Err((model.least, budget));
        }
        self.tickets += 1;
        model.waiting.push_back((self.tickets, now));
        Ok(self.tickets)
    }

    /// Removes a request that waits.
    pub(crate) fn withdraw(&mut self, place: ModelIndex, ticket: Ticket) {
        self.models[place].waiting.retain(|(waits, _)| *waits != ticket);
    }

    /// Ends a request's use of a model.
    pub(crate) fn end(&mut self, place: ModelIndex, ticket: Ticket, now: Instant) {
        let model = &mut self.models[place];
        if model.leases.remove(&ticket).is_some() {
            model.used = now;
        }
    }

    /// Sets the idle timeout of a model.
    pub(crate) fn keep(&mut self, place: ModelIndex, keep: Option<Duration>) {
        self.models[place].keep = keep;
    }

    /// Records that a model was loaded in the time `took` and takes `bytes` bytes.
    pub(crate) fn loaded(&mut self, place: ModelIndex, bytes: u64, took: Duration, now: Instant) {
        let model = &mut self.models[place];
        (model.phase, model.bytes, model.keep) = (Phase::There, bytes, model.idle);
        (model.used, model.stays, model.serves, model.paused) = (now, now + took, now, None);
    }

    /// Records that a model could not be loaded. Returns the requests that waited for it; no step answers them.
    pub(crate) fn failed(&mut self, place: ModelIndex) -> Vec<Ticket> {
        let model = &mut self.models[place];
        (model.phase, model.bytes) = (Phase::Away, 0);
        model.waiting.drain(..).map(|(ticket, _)| ticket).collect()
    }

    /// Records that a model was unloaded and its memory is free.
    pub(crate) fn unloaded(&mut self, place: ModelIndex) {
        let model = &mut self.models[place];
        (model.phase, model.bytes) = (Phase::Away, 0);
    }

    /// Returns the bytes of a loaded model, and the time until it is unloaded if no request comes.
    pub(crate) fn stay(&self, place: ModelIndex, now: Instant) -> (u64, Option<Duration>) {
        let model = &self.models[place];
        let stays = model.leaves().map(|at| at.saturating_duration_since(now)).or(model.keep);
        (model.bytes, stays)
    }

    /// Returns the bytes of the models in memory.
    pub(crate) fn bytes(&self) -> u64 {
        let is_in = |model: &&Model| matches!(model.phase, Phase::There | Phase::Leaving);
        self.models.iter().filter(is_in).map(|model| model.bytes).sum()
    }

    /// Returns the steps to take now.
    pub(crate) fn steps(&mut self, now: Instant) -> Vec<Step> {
        let mut steps = Vec::new();
        for (place, model) in self.models.iter_mut().enumerate() {
            if model.leaves().is_some_and(|at| now >= at) {
                model.phase = Phase::Leaving;
                steps.push(Step::Unload(place, Why::Idle));
            }
            // No request waits for it any more.
            if model.phase == Phase::Expected && model.waiting.is_empty() {
                model.phase = Phase::Away;
            }
        }
        self.end_pauses(now);
        self.make_room(now, &mut steps);
        // Refusals come last, so that a request whose time ends in the moment in which room is found is not refused.
        for (place, model) in self.models.iter_mut().enumerate() {
            let late =
                |(_, begin): &(Ticket, Instant)| now.saturating_duration_since(*begin) >= self.times.wait;
            while model.phase == Phase::Away && model.waiting.front().is_some_and(late) {
                steps.extend(model.waiting.pop_front().map(|(ticket, _)| Step::Refuse(ticket, place)));
            }
        }
        self.end_pauses(now);
        for (place, model) in self.models.iter_mut().enumerate() {
            if model.phase == Phase::There && model.paused.is_none() {
                for (ticket, _) in model.waiting.drain(..) {
                    model.leases.insert(ticket, now);
                    steps.push(Step::Grant(ticket, place));
                }
            }
        }
        self.load(&mut steps);
        steps
    }

    /// Ends pauses whose time is over, and pauses for models for which no request waits any more.
    fn end_pauses(&mut self, now: Instant) {
        let is_wanted = |model: &Model| model.phase == Phase::Away && !model.waiting.is_empty();
        let wanted: Vec<bool> = self.models.iter().map(is_wanted).collect();
        for model in &mut self.models {
            if model.paused.is_some_and(|(of, until)| now >= until || !wanted[of]) {
                model.paused = None;
                model.serves = now + self.times.pause * RESTS;
            }
        }
    }

    /// Returns the next time at which there may be steps without another event.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        let Times { wait, pause } = self.times;
        let waits = self.models.iter().any(|model| !model.waiting.is_empty());
        let moments = self.models.iter().flat_map(|model| {
            let first = model.waiting.front().filter(|_| model.phase == Phase::Away).map(|(_, begin)| *begin);
            // The time of the next possible pause only matters while requests wait.
            let change = Some(model.serves.max(model.stays)).filter(|_| waits && model.phase == Phase::There);
            let pauses = model.paused.map(|(_, until)| until);
            [
                model.leaves(),
                first.map(|begin| begin + wait),
                first.map(|begin| begin + pause),
                change,
                pauses,
            ]
        });
        moments.flatten().filter(|at| *at > now).min()
    }

    /// Returns the bytes that are free once models being unloaded are gone and models being loaded are there.
    fn free(&self) -> u64 {
        let promised = self.models.iter().map(|model| match model.phase {
            Phase::Away | Phase::Leaving => 0,
            Phase::Expected => model.least,
            Phase::Loading | Phase::There => model.bytes,
        });
        self.budget.unwrap_or(u64::MAX).saturating_sub(promised.sum())
    }

    /// Makes room for models with waiting requests, the longest wait first.
    fn make_room(&mut self, now: Instant, steps: &mut Vec<Step>) {
        let waits = |(place, model): (ModelIndex, &Model)| {
            let first = model.waiting.front().filter(|_| model.phase == Phase::Away);
            first.map(|(ticket, begin)| (*ticket, *begin, place))
        };
        let mut wanted: Vec<(Ticket, Instant, ModelIndex)> =
            self.models.iter().enumerate().filter_map(waits).collect();
        wanted.sort_unstable();
        for (_, begin, place) in wanted {
            let missing = self.models[place].least.saturating_sub(self.free());
            let (go, bytes) = self.oldest(missing, |model| model.may_go(place));
            if bytes >= missing {
                for goes in go {
                    self.models[goes].phase = Phase::Leaving;
                    steps.push(Step::Unload(goes, Why::Room));
                }
                self.models[place].phase = Phase::Expected;
            } else if now.saturating_duration_since(begin) >= self.times.pause {
                self.pause(place, missing, now);
            }
        }
    }

    /// Returns models that fulfil a condition, the least recently used first, until their bytes sum up to `bytes`; and
    /// the sum.
    fn oldest(&self, bytes: u64, is_one: impl Fn(&Model) -> bool) -> (Vec<ModelIndex>, u64) {
        let mut found: Vec<(Instant, ModelIndex)> =
            self.models.iter().enumerate().filter(|(_, m)| is_one(m)).map(|(i, m)| (m.used, i)).collect();
        found.sort_unstable();
        let mut sum = 0;
        let mut places = Vec::new();
        for (_, place) in found {
            if sum >= bytes {
                break;
            }
            sum += self.models[place].bytes;
            places.push(place);
        }
        (places, sum)
    }

    /// Pauses models for another one, if they and the unused models together can free the missing bytes.
    fn pause(&mut self, place: ModelIndex, missing: u64, now: Instant) {
        let pause = self.times.pause;
        let has_paused = |model: &Model| model.paused.is_some_and(|(of, _)| of == place);
        let helps = |model: &Model| has_paused(model) || model.may_go(place) || model.may_pause(now, pause);
        let (places, bytes) = self.oldest(missing, helps);
        if bytes < missing {
            return;
        }
        for helper in places {
            let model = &mut self.models[helper];
            if !model.may_go(place) && model.paused.is_none() {
                model.paused = Some((place, now + pause));
            }
        }
    }

    /// Starts loading models whose bytes are free by now.
    fn load(&mut self, steps: &mut Vec<Step>) {
        for place in 0..self.models.len() {
            if self.models[place].phase != Phase::Expected {
                continue;
            }
            let bytes = match self.budget {
                None => None,
                Some(budget) => {
                    let least = self.models[place].least;
                    let taken = |model: &Model| match model.phase {
                        Phase::Away | Phase::Expected => 0,
                        Phase::Loading | Phase::There | Phase::Leaving => model.bytes,
                    };
                    let left = budget.saturating_sub(self.models.iter().map(taken).sum());
                    if least > left {
                        continue;
                    }
                    // Bytes reserved for other models stay reserved, and the first model does not get all the rest, so
                    // that the next one need not unload it at once.
                    let more = self.free().min(left - least);
                    Some((least + more).min((budget / 2).max(least)))
                }
            };
            let model = &mut self.models[place];
            (model.phase, model.bytes) = (Phase::Loading, bytes.unwrap_or(0));
            steps.push(Step::Load(place, bytes));
        }
    }
}
