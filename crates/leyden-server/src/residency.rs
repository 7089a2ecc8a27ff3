//! Which models are in memory: who gets one, who waits, and which one goes to make room.
//!
//! [`Residency`] is a value without clock and threads: time is an argument, and what is to be done comes back as [`Step`]s.
//! The same calls give the same steps.
//!
//! * A request for a model that is there gets it at once. Models that have room are loaded at the same time; each has its
//!   share of the budget from the moment at which that is decided.
//! * Room is taken from models that nobody uses, the one that was used longest ago first, and only where it suffices: a
//!   model serves on until it really goes. No model goes that somebody uses.
//! * A request without room waits for [`Times::wait`] at most, and holds up no other.
//! * After [`Times::pause`] of waiting, models whose requests are all younger than that pause give no new leases for as
//!   long, so that a stream of short requests that overlap comes to an end. A model with a long request is not asked to: its
//!   pause would be for nothing. A model that has paused and did not go serves for [`RESTS`] times as long before the next pause.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// The number of a model.
pub(crate) type Place = usize;
/// The number of a request that asked for a model; that of its lease, too.
pub(crate) type Ticket = u64;

/// How many times as long as a pause a model serves before the next one.
const RESTS: u32 = 10;

/// How long what may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// The longest that a request waits for room.
    pub(crate) wait: Duration,
    /// The longest that a model gives no leases so that another one finds room.
    pub(crate) pause: Duration,
}

impl Times {
    /// The times of requests that wait for room for `wait` at most.
    pub(crate) fn of(wait: Duration) -> Times {
        Times { wait, pause: wait / 3 }
    }
}

/// The reason why a model is unloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Another one needs the room.
    Room,
    /// Nobody asked for it for long enough.
    Idle,
}

/// A thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Load a model into at most so many bytes; `None` where there is no budget. Tell [`Residency::loaded`] or
    /// [`Residency::failed`] how it went.
    Load(Place, Option<u64>),
    /// Unload a model, and then call [`Residency::unloaded`].
    Unload(Place, Why),
    /// Give a request its model, until [`Residency::end`].
    Grant(Ticket, Place),
    /// Tell a request that there was no room for its model.
    Refuse(Ticket, Place),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Away,
    /// Others go to make room for it.
    Expected,
    Loading,
    There,
    Leaving,
}

#[derive(Debug)]
struct Model {
    /// Bytes without which it cannot be loaded.
    least: u64,
    /// How long it stays after its last request where no request says otherwise; `None`: until others need the room.
    idle: Option<Duration>,
    /// How long it stays this time.
    keep: Option<Duration>,
    phase: Phase,
    /// Bytes that it takes; while it is loaded those that it may take.
    bytes: u64,
    /// Requests that use it, with their beginnings.
    leases: BTreeMap<Ticket, Instant>,
    /// Requests that wait for it, with their beginnings; the first one first.
    waiting: VecDeque<(Ticket, Instant)>,
    /// The end of its last use.
    used: Instant,
    /// The moment until which it stays although others need the room: as long as its loading took.
    stays: Instant,
    /// The model for which it gives no leases, and until when.
    paused: Option<(Place, Instant)>,
    /// The moment before which it is not paused again.
    serves: Instant,
    /// True once it was taken out: it goes as soon as nobody uses it.
    retired: bool,
}

impl Model {
    fn is_free(&self) -> bool {
        self.phase == Phase::There && self.leases.is_empty() && self.waiting.is_empty()
    }

    /// Whether it may go now to make room for the model at `place`. Requests that wait for it do so because it pauses for that
    /// one; they wait on.
    fn may_go(&self, place: Place) -> bool {
        let has_paused = self.paused.is_some_and(|(of, _)| of == place);
        let is_asked_for = self.paused.is_some() || !self.waiting.is_empty();
        self.phase == Phase::There && self.leases.is_empty() && (has_paused || !is_asked_for)
    }

    /// Whether a pause may free it.
    fn may_pause(&self, now: Instant, pause: Duration) -> bool {
        let young = |begin: &Instant| now.saturating_duration_since(*begin) < pause;
        self.phase == Phase::There
            && self.paused.is_none()
            && now >= self.serves.max(self.stays)
            && !self.leases.is_empty()
            && self.leases.values().all(young)
    }

    /// The moment at which it goes if nobody asks for it.
    fn leaves(&self) -> Option<Instant> {
        let keep = if self.retired { Some(Duration::ZERO) } else { self.keep };
        keep.filter(|_| self.is_free()).and_then(|keep| self.used.checked_add(keep))
    }
}

/// The models of a server that come and go.
#[derive(Debug)]
pub(crate) struct Residency {
    budget: Option<u64>,
    times: Times,
    models: Vec<Model>,
    /// Places of models that were taken out, for others.
    vacant: Vec<Place>,
    tickets: Ticket,
}

impl Residency {
    /// Models share `budget` bytes.
    pub(crate) fn new(budget: Option<u64>, times: Times) -> Residency {
        Residency { budget, times, models: Vec::new(), vacant: Vec::new(), tickets: 0 }
    }

    /// Adds a model that is not loaded, which needs `least` bytes and stays for `idle` after its last request.
    pub(crate) fn add(&mut self, least: u64, idle: Option<Duration>, now: Instant) -> Place {
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

    /// Takes a model out, whose place is given to one that is added later; returns `false` while the model is in memory or
    /// somebody waits for it, and is then called again.
    pub(crate) fn retire(&mut self, place: Place) -> bool {
        let model = &mut self.models[place];
        model.retired = true;
        let is_idle = model.phase == Phase::Away && model.leases.is_empty() && model.waiting.is_empty();
        if is_idle {
            self.vacant.push(place);
        }
        is_idle
    }

    /// Returns the number of places, vacant ones included.
    #[cfg(test)]
    pub(crate) fn places(&self) -> usize {
        self.models.len()
    }

    /// A request asks for a model. The answer comes as a step.
    ///
    /// # Errors
    /// The model needs more than the whole budget: what it needs, and the budget.
    pub(crate) fn ask(&mut self, place: Place, now: Instant) -> Result<Ticket, (u64, u64)> {
        let model = &mut self.models[place];
        if let Some(budget) = self.budget.filter(|budget| model.least > *budget) {
            return Err((model.least, budget));
        }
        self.tickets += 1;
        model.waiting.push_back((self.tickets, now));
        Ok(self.tickets)
    }

    /// A request that waits does so no longer.
    pub(crate) fn withdraw(&mut self, place: Place, ticket: Ticket) {
        self.models[place].waiting.retain(|(waits, _)| *waits != ticket);
    }

    /// A request has ended that used a model.
    pub(crate) fn end(&mut self, place: Place, ticket: Ticket, now: Instant) {
        let model = &mut self.models[place];
        if model.leases.remove(&ticket).is_some() {
            model.used = now;
        }
    }

    /// Changes how long a model stays after its last request.
    pub(crate) fn keep(&mut self, place: Place, keep: Option<Duration>) {
        self.models[place].keep = keep;
    }

    /// A model has been loaded in `took`, and takes so many bytes.
    pub(crate) fn loaded(&mut self, place: Place, bytes: u64, took: Duration, now: Instant) {
        let model = &mut self.models[place];
        (model.phase, model.bytes, model.keep) = (Phase::There, bytes, model.idle);
        (model.used, model.stays, model.serves, model.paused) = (now, now + took, now, None);
    }

    /// A model could not be loaded. The requests that waited for it, which get no other answer.
    pub(crate) fn failed(&mut self, place: Place) -> Vec<Ticket> {
        let model = &mut self.models[place];
        (model.phase, model.bytes) = (Phase::Away, 0);
        model.waiting.drain(..).map(|(ticket, _)| ticket).collect()
    }

    /// A model is gone, and its memory is free.
    pub(crate) fn unloaded(&mut self, place: Place) {
        let model = &mut self.models[place];
        (model.phase, model.bytes) = (Phase::Away, 0);
    }

    /// Bytes of a model that is there, and how long it stays if nobody asks for it.
    pub(crate) fn stay(&self, place: Place, now: Instant) -> (u64, Option<Duration>) {
        let model = &self.models[place];
        let stays = model.leaves().map(|at| at.saturating_duration_since(now)).or(model.keep);
        (model.bytes, stays)
    }

    /// Bytes of the models that are in memory.
    pub(crate) fn bytes(&self) -> u64 {
        let is_in = |model: &&Model| matches!(model.phase, Phase::There | Phase::Leaving);
        self.models.iter().filter(is_in).map(|model| model.bytes).sum()
    }

    /// The steps to take now.
    pub(crate) fn steps(&mut self, now: Instant) -> Vec<Step> {
        let mut steps = Vec::new();
        for (place, model) in self.models.iter_mut().enumerate() {
            if model.leaves().is_some_and(|at| now >= at) {
                model.phase = Phase::Leaving;
                steps.push(Step::Unload(place, Why::Idle));
            }
            // Nobody waits for it any more.
            if model.phase == Phase::Expected && model.waiting.is_empty() {
                model.phase = Phase::Away;
            }
        }
        self.end_pauses(now);
        self.make_room(now, &mut steps);
        // Behind that: who finds room in the moment in which the time is over is not refused.
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

    /// Ends pauses whose time is over, and those for models that nobody waits for any more.
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

    /// The moment at which there may be steps although nothing has happened.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        let Times { wait, pause } = self.times;
        let waits = self.models.iter().any(|model| !model.waiting.is_empty());
        let moments = self.models.iter().flat_map(|model| {
            let first = model.waiting.front().filter(|_| model.phase == Phase::Away).map(|(_, begin)| *begin);
            // Only those who wait are interested in when a model may be paused again.
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

    /// Bytes that are nobody's, once those who go are gone and those who come are there.
    fn free(&self) -> u64 {
        let promised = self.models.iter().map(|model| match model.phase {
            Phase::Away | Phase::Leaving => 0,
            Phase::Expected => model.least,
            Phase::Loading | Phase::There => model.bytes,
        });
        self.budget.unwrap_or(u64::MAX).saturating_sub(promised.sum())
    }

    /// Finds room for models that requests wait for, the longest wait first.
    fn make_room(&mut self, now: Instant, steps: &mut Vec<Step>) {
        let waits = |(place, model): (Place, &Model)| {
            let first = model.waiting.front().filter(|_| model.phase == Phase::Away);
            first.map(|(ticket, begin)| (*ticket, *begin, place))
        };
        let mut wanted: Vec<(Ticket, Instant, Place)> =
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

    /// Models that fulfil a condition, the one that was used longest ago first, until they have so many bytes; with their bytes.
    fn oldest(&self, bytes: u64, is_one: impl Fn(&Model) -> bool) -> (Vec<Place>, u64) {
        let mut found: Vec<(Instant, Place)> =
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

    /// Has models pause for another one, if that and those that nobody uses can give it the missing bytes.
    fn pause(&mut self, place: Place, missing: u64, now: Instant) {
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

    /// Begins to load models whose room is free by now.
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
                    // What is promised to others is not given away, nor all that is left to the first one, so that others
                    // need not send it away at once.
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
