//! Residency of models in simulated time: many models, keys and budgets; which requests get their model, wait or are
//! refused.

use crate::residency::{ModelIndex, Residency, Step, Ticket, Times, Why};
use leyden_testkit::random;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_secs(10);
/// Time to unload a model, and time to load a byte.
const UNLOADS: Duration = Duration::from_millis(100);
const LOADS: Duration = Duration::from_millis(10);

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A key requests a model for this duration.
    Ask(usize, ModelIndex, Duration),
    End(ModelIndex, Ticket),
    Loaded(ModelIndex, u64, Duration),
    Unloaded(ModelIndex),
    /// A step may be due.
    Due,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Away,
    Loading,
    There,
    Leaving,
}

/// A request and its outcome.
#[derive(Clone, Copy, Debug)]
struct Asked {
    key: usize,
    place: ModelIndex,
    at: Instant,
    /// Duration of the model's use.
    takes: Duration,
    /// Latest time for the answer.
    by: Instant,
    granted: Option<bool>,
    answered: Instant,
}

/// A simulated server without models, sockets and clock.
struct World {
    plan: Residency,
    budget: u64,
    least: Vec<u64>,
    now: Instant,
    start: Instant,
    events: BTreeMap<(Instant, u64), Event>,
    numbers: u64,
    /// Next time at which steps may be due.
    due: Option<Instant>,
    models: Vec<(Where, u64)>,
    leases: HashMap<Ticket, ModelIndex>,
    asked: BTreeMap<Ticket, Asked>,
    unloads: Vec<(ModelIndex, Why)>,
}

impl World {
    fn new(budget: u64, least: &[u64], idle: Option<Duration>) -> World {
        let now = Instant::now();
        let mut plan = Residency::new(Some(budget), Times::of(WAIT));
        for bytes in least {
            plan.add(*bytes, idle, now);
        }
        World {
            plan,
            budget,
            least: least.to_vec(),
            now,
            start: now,
            events: BTreeMap::new(),
            numbers: 0,
            due: None,
            models: vec![(Where::Away, 0); least.len()],
            leases: HashMap::new(),
            asked: BTreeMap::new(),
            unloads: Vec::new(),
        }
    }

    fn at(&mut self, after: Duration, event: Event) {
        self.numbers += 1;
        self.events.insert((self.now + after, self.numbers), event);
    }

    fn ask(&mut self, after: u64, key: usize, place: ModelIndex, takes: u64) {
        self.at(seconds(after), Event::Ask(key, place, seconds(takes)));
    }

    fn uses(&self, place: ModelIndex) -> usize {
        self.leases.values().filter(|of| **of == place).count()
    }

    /// Returns the latest time for the answer to a request that comes now: at once if its model is loaded, after
    /// loading if the model fits beside all models that are in use or being loaded, else after the maximum wait.
    fn bound(&self, place: ModelIndex) -> Instant {
        let waits =
            |of: ModelIndex| self.asked.values().filter(move |a| a.place == of && a.granted.is_none());
        // A pause lasts while other requests wait for the same model.
        let is_long = |a: &Asked| {
            let until = if a.granted.is_none() { self.now } else { a.answered };
            until >= a.at + PAUSE && self.now < until + PAUSE
        };
        let is_short = self.asked.values().any(|a| a.granted != Some(true) && is_long(a));
        let load = UNLOADS + LOADS * u32::try_from(self.least[place]).unwrap();
        if self.models[place].0 == Where::There {
            // A model pauses for requests that have waited for some time, and for no longer than that.
            return if is_short { self.now + WAIT + load } else { self.now };
        }
        let others: u64 = (0..self.models.len())
            .filter(|of| *of != place)
            .map(|of| match self.models[of] {
                (Where::Away, _) if waits(of).next().is_some() => self.least[of],
                (Where::There, bytes) if self.uses(of) > 0 || waits(of).next().is_some() => bytes,
                (Where::Loading, bytes) => bytes,
                _ => 0,
            })
            .sum();
        let fits = others + self.least[place] <= self.budget && waits(place).next().is_none();
        self.now + load + if fits { UNLOADS } else { WAIT + load }
    }

    fn run(&mut self, until: Duration) {
        let end = self.start + until;
        while let Some(((now, number), event)) = self.events.pop_first() {
            if now > end {
                self.events.insert((now, number), event);
                break;
            }
            self.now = now;
            match event {
                Event::Ask(key, place, takes) => {
                    let by = self.bound(place);
                    let ticket = self.plan.ask(place, now).expect("it fits the budget");
                    let asked = Asked { key, place, at: now, takes, by, granted: None, answered: now };
                    self.asked.insert(ticket, asked);
                }
                Event::End(place, ticket) => {
                    self.leases.remove(&ticket);
                    self.plan.end(place, ticket, now);
                }
                Event::Loaded(place, bytes, took) => {
                    self.models[place] = (Where::There, bytes);
                    self.plan.loaded(place, bytes, took, now);
                }
                Event::Unloaded(place) => {
                    self.models[place] = (Where::Away, 0);
                    self.plan.unloaded(place);
                }
                Event::Due => {}
            }
            self.take_steps();
            let next =
                self.plan.next(now).filter(|next| self.due.is_none_or(|due| due <= now || *next < due));
            if let Some(next) = next {
                self.due = Some(next);
                self.at(next - now, Event::Due);
            }
        }
        self.now = end;
        for asked in self.asked.values() {
            let is_late = if asked.granted.is_some() { asked.answered > asked.by } else { end > asked.by };
            let (came, waited, most) =
                (asked.at - self.start, asked.answered - asked.at, asked.by - asked.at);
            assert!(!is_late, "came at {came:?}, waited {waited:?} of {most:?}: {asked:?}");
        }
    }

    fn take_steps(&mut self) {
        for step in self.plan.steps(self.now) {
            match step {
                Step::Load(place, bytes) => {
                    let bytes = bytes.expect("there is a budget");
                    assert!(self.models[place].0 == Where::Away && bytes >= self.least[place], "{step:?}");
                    self.models[place] = (Where::Loading, bytes);
                    let taken: u64 = self.models.iter().map(|(_, bytes)| bytes).sum();
                    assert!(taken <= self.budget, "{step:?}: {taken} of {}", self.budget);
                    let took = LOADS * u32::try_from(self.least[place]).unwrap();
                    // The model takes the maximum of bytes that it may, or the minimum that it needs.
                    let takes = if place.is_multiple_of(2) { bytes } else { self.least[place] };
                    self.at(took, Event::Loaded(place, takes, took));
                }
                Step::Unload(place, why) => {
                    assert!(self.models[place].0 == Where::There && self.uses(place) == 0, "{step:?}");
                    self.models[place].0 = Where::Leaving;
                    self.unloads.push((place, why));
                    self.at(UNLOADS, Event::Unloaded(place));
                }
                Step::Grant(ticket, place) => {
                    assert!(self.models[place].0 == Where::There, "{step:?}");
                    self.leases.insert(ticket, place);
                    let takes = self.answer(ticket, true);
                    self.at(takes, Event::End(place, ticket));
                }
                Step::Refuse(ticket, _) => {
                    self.answer(ticket, false);
                    let asked = self.asked[&ticket];
                    assert!(self.now >= asked.at + WAIT, "{asked:?}");
                }
            }
        }
    }

    fn answer(&mut self, ticket: Ticket, granted: bool) -> Duration {
        let asked = self.asked.get_mut(&ticket).expect("it was asked");
        assert!(asked.granted.is_none(), "{asked:?}");
        (asked.granted, asked.answered) = (Some(granted), self.now);
        asked.takes
    }

    /// Returns the requests of a key: time of arrival, true if it got its model, and the wait.
    fn of(&self, key: usize) -> Vec<(u64, bool, Duration)> {
        let of = self.asked.values().filter(|asked| asked.key == key);
        of.map(|a| ((a.at - self.start).as_secs(), a.granted == Some(true), a.answered - a.at)).collect()
    }
}

/// A key streams for an hour from one model; another key requests one that does not fit beside it, and uses all others
/// as usual.
#[test]
fn a_load_that_waits_holds_up_nobody() {
    // Beside the first model there is room for the third but not for the second.
    let mut world = World::new(100, &[60, 60, 20], None);
    world.ask(0, 0, 0, 3600);
    world.ask(5, 1, 1, 1);
    world.ask(6, 2, 0, 1);
    world.ask(7, 2, 2, 1);
    // Requests for the other models, while one waits repeatedly.
    for i in 0..200 {
        world.ask(10 + 2 * i, 3, if i % 3 == 0 { 2 } else { 0 }, 1);
        if i % 20 == 0 {
            world.ask(40 + 2 * i, 1, 1, 1);
        }
    }
    world.run(seconds(600));
    for (_, granted, after) in [world.of(2), world.of(3)].concat() {
        assert!(granted && after <= LOADS * 20, "{after:?}");
    }
    let waits = world.of(1);
    assert!(waits.iter().all(|(_, granted, after)| !granted && *after == WAIT), "{waits:?}");
    assert!(world.unloads.is_empty(), "{:?}", world.unloads);
    // After the hour the second model is loaded.
    let mut later = World { start: world.now, ..world };
    later.ask(3100, 4, 1, 1);
    later.run(seconds(3200));
    assert!(later.of(4)[0].1, "{:?}", later.of(4));
}

/// Overlapping requests would keep a model in use for ever; other models get their turn all the same.
#[test]
fn short_requests_that_overlap_do_not_keep_others_out() {
    let mut world = World::new(100, &[60, 60], None);
    for i in 0..1200 {
        // Three requests at a time, each of five seconds.
        world.ask(2 * i, (i % 3) as usize, 0, 5);
        if i % 10 == 0 {
            world.ask(2 * i, 7, 1, 1);
        }
    }
    world.run(seconds(2500));
    let waits = world.of(7);
    let served = waits.iter().filter(|(_, granted, _)| *granted).count();
    assert!(served * 4 >= waits.len(), "{served} of {}", waits.len());
    // The overlapping requests are only paused now and then.
    let all: Vec<(u64, bool, Duration)> = (0..3).flat_map(|key| world.of(key)).collect();
    assert!(all.iter().all(|(_, granted, _)| *granted));
    let at_once = all.iter().filter(|(_, _, after)| after.is_zero()).count();
    assert!(at_once * 10 >= all.len() * 6, "{at_once} of {}", all.len());
}

#[test]
fn a_model_that_is_needed_serves_until_its_room_is_taken() {
    let mut world = World::new(100, &[40, 40, 80], Some(seconds(300)));
    world.ask(0, 0, 0, 100);
    world.ask(0, 0, 1, 1);
    // The third model needs the bytes of both. The second is idle, and stays loaded while its bytes do not suffice.
    world.ask(20, 1, 2, 1);
    world.ask(21, 2, 1, 1);
    world.run(seconds(60));
    assert!(world.unloads.is_empty() && world.of(2)[0].2.is_zero() && !world.of(1)[0].1);
    world.ask(100, 1, 2, 1);
    world.run(seconds(200));
    assert!(world.of(1)[1].1);
    assert_eq!(world.unloads, [(1, Why::Room), (0, Why::Room)]);
    world.run(seconds(600));
    assert_eq!(world.unloads[2..], [(2, Why::Idle)]);
}

#[test]
fn who_goes_away_and_what_fails_leave_nothing_behind() {
    let now = Instant::now();
    let mut plan = Residency::new(Some(100), Times::of(WAIT));
    let [a, b] = [60, 60].map(|bytes| plan.add(bytes, None, now));
    assert_eq!(plan.add(101, None, now), 2);
    assert_eq!(plan.ask(2, now), Err((101, 100)));
    let first = plan.ask(a, now).unwrap();
    assert_eq!(plan.steps(now), [Step::Load(a, Some(60))]);
    // The model is loaded for later requests, too.
    plan.withdraw(a, first);
    plan.loaded(a, 60, LOADS, now);
    assert!(plan.steps(now).is_empty());
    let second = plan.ask(b, now).unwrap();
    assert_eq!(plan.steps(now), [Step::Unload(a, Why::Room)]);
    // The request is withdrawn while room is made for its model.
    plan.withdraw(b, second);
    plan.unloaded(a);
    assert!(plan.steps(now).is_empty());
    let asked = [b, b].map(|place| plan.ask(place, now).unwrap());
    assert_eq!(plan.steps(now), [Step::Load(b, Some(60))]);
    assert_eq!(plan.failed(b), asked);
    assert!(plan.steps(now).is_empty() && plan.next(now).is_none() && plan.bytes() == 0);
    let again = plan.ask(a, now).unwrap();
    assert_eq!(plan.steps(now), [Step::Load(a, Some(60))]);
    plan.loaded(a, 50, LOADS, now);
    assert_eq!(plan.steps(now), [Step::Grant(again, a)]);
    assert_eq!((plan.bytes(), plan.stay(a, now)), (50, (50, None)));
}

/// In random worlds each model is granted at once if possible, requests are answered in time, and the budget is kept.
#[test]
fn nobody_waits_for_what_he_does_not_need() {
    for seed in 0..300 {
        let mut numbers = (0..).map(|i| random((seed << 32) + i));
        let mut below = |n: u64| numbers.next().unwrap() % n;
        let budget = 50 + below(200);
        let least: Vec<u64> = (0..2 + below(8)).map(|_| 1 + below(budget)).collect();
        let idle = [None, Some(seconds(60)), Some(Duration::ZERO)][below(3) as usize];
        let mut world = World::new(budget, &least, idle);
        for key in 0..1 + below(6) {
            let longest = [2, 8, 40, 2000][below(4) as usize];
            for _ in 0..below(120) {
                let (place, takes) = (below(least.len() as u64) as usize, 1 + below(longest));
                world.ask(below(1500), key as usize, place, takes);
            }
        }
        world.run(seconds(4000));
    }
}
