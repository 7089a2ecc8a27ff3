//! Admission under a promise, on a simulated machine with a clock: its steps take the time of a synthetic cost, with
//! noise.

use super::sim::request;
use crate::schedule::*;
use crate::tables::BlockTables;
use std::collections::BTreeMap;

/// Machine of the simulation.
#[derive(Clone, Copy)]
struct Machine {
    fixed: f64,
    sample: f64,
    other: f64,
    deep: f64,
    /// Relative standard deviation of the time of a step, and share of steps that take three times as long.
    noise: f64,
    spikes: f64,
}

const MACHINE: Machine =
    Machine { fixed: 0.04, sample: 0.006, other: 0.0015, deep: 2e-7, noise: 0.1, spikes: 0.01 };

/// Traffic of a key.
#[derive(Clone, Copy)]
struct Traffic {
    key: u32,
    /// Requests per second.
    rate: f64,
    prompt: (usize, usize),
    answer: (usize, usize),
    /// Number of times that a refused request comes back after the suggested time.
    retries: usize,
}

struct Dice(u64);

impl Dice {
    /// Returns a number from 0 to 1.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn between(&mut self, (low, high): (usize, usize)) -> usize {
        low + (self.unit() * (high - low + 1) as f64) as usize
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

#[derive(Clone, Debug, Default)]
struct Record {
    key: u32,
    arrived: f64,
    /// Number of tries so far, this one included.
    tries: usize,
    prompt: usize,
    answer: usize,
    generated: usize,
    first: Option<f64>,
    end: Option<f64>,
    refused: Option<(f64, SloRefusal)>,
}

impl Record {
    fn ttft(&self) -> Option<f64> {
        Some(self.first? - self.arrived)
    }

    fn tps(&self) -> Option<f64> {
        let (first, end) = (self.first?, self.end?);
        (self.generated > 1).then(|| (self.generated - 1) as f64 / (end - first))
    }
}

struct World {
    scheduler: Scheduler,
    cost: StepCost,
    tables: BlockTables,
    machine: Machine,
    dice: Dice,
    now: f64,
    records: BTreeMap<u64, Record>,
    /// Requests to come, by time in microseconds.
    coming: BTreeMap<(u64, u64), Record>,
    next: u64,
}

impl World {
    fn new(machine: Machine, promise: &str, seed: u64) -> World {
        let options = SchedulerOptions {
            promise: Some(promised(promise)),
            running: 64,
            waiting: 256,
            waiting_per_key: 256,
            ..SchedulerOptions::default()
        };
        World {
            scheduler: Scheduler::new(options, 4000),
            cost: StepCost::default(),
            tables: BlockTables::new(4000),
            machine,
            dice: Dice(seed),
            now: 0.0,
            records: BTreeMap::new(),
            coming: BTreeMap::new(),
            next: 0,
        }
    }

    fn expect(&mut self, record: Record) {
        self.next += 1;
        self.coming.insert(((record.arrived * 1e6) as u64, self.next), record);
    }

    /// Adds the requests of a key at random times.
    fn traffic(&mut self, of: Traffic, from: f64, to: f64) {
        let mut at = from;
        loop {
            at -= (1.0 - self.dice.unit()).ln() / of.rate;
            if at > to {
                return;
            }
            let (prompt, answer) = (self.dice.between(of.prompt), self.dice.between(of.answer));
            let tries = of.retries + 1;
            self.expect(Record { key: of.key, arrived: at, tries, prompt, answer, ..Record::default() });
        }
    }

    fn time_of(&mut self, step: &Step) -> f64 {
        let m = self.machine;
        let mut seconds = m.fixed;
        for s in &step.scheduled {
            let samples = f64::from(u8::from(s.samples));
            seconds += m.sample * samples + m.other * (s.tokens as f64 - samples);
            seconds += m.deep * s.tokens as f64 * (s.position as f64 + s.tokens as f64 / 2.0);
        }
        let spike = if self.dice.unit() < m.spikes { 3.0 } else { 1.0 };
        seconds * spike * (1.0 + m.noise * self.dice.normal()).max(0.3)
    }

    /// Runs until a time.
    fn run(&mut self, until: f64) {
        while self.now < until {
            let now = Duration::from_secs_f64(self.now);
            while let Some(entry) = self.coming.first_entry()
                && entry.key().0 as f64 <= self.now * 1e6
            {
                let record = entry.remove();
                self.next += 1;
                let id = self.next;
                let mut r = request(id, record.key, vec![5; record.prompt], record.answer);
                r.scope = None;
                let at = Duration::from_secs_f64(record.arrived);
                self.records.insert(id, record);
                let arrival = Arrival { at, refusable: true, more_tokens: 0 };
                self.scheduler.submit_arrived(r, arrival, now).unwrap();
            }
            let step = self.scheduler.plan(now, &mut self.tables).unwrap();
            for d in &step.decisions {
                assert!(!matches!(d, Decision::Preempted { .. }));
                let Decision::Refused { request, why } = *d else { continue };
                let record = self.records.get_mut(&request.0).unwrap();
                record.refused = Some((self.now, why));
                if let SloRefusal::Busy { retry_after, .. } = why {
                    assert!((1.0..=60.0).contains(&retry_after.as_secs_f64()));
                    if record.tries > 1 {
                        let arrived = self.now + retry_after.as_secs_f64();
                        let again =
                            Record { arrived, tries: record.tries - 1, refused: None, ..record.clone() };
                        self.expect(again);
                    }
                }
            }
            if step.scheduled.is_empty() {
                let next = self.coming.keys().next().map_or(until, |(at, _)| *at as f64 * 1e-6);
                self.now = (self.now + 0.005).max(next.min(until));
                continue;
            }
            let seconds = self.time_of(&step);
            self.now += seconds;
            let mut chosen = Vec::new();
            for s in &step.scheduled {
                self.tables.advance(s.sequence, s.tokens);
                if s.samples {
                    let record = self.records.get_mut(&s.request.0).unwrap();
                    record.first.get_or_insert(self.now);
                    record.generated += 1;
                    record.end = (record.generated == record.answer).then_some(self.now);
                    chosen.push(Chosen { request: s.request, tokens: vec![7], stop: false });
                }
            }
            self.scheduler.commit(&chosen, &mut self.tables).unwrap();
            let time = Duration::from_secs_f64(seconds);
            self.scheduler.observe(&step, time);
            self.tune(&step, time);
        }
    }

    /// Follows the machine's speed as the generator does.
    fn tune(&mut self, step: &Step, time: Duration) {
        let tokens = step.scheduled.iter().map(|s| s.tokens).sum();
        let positions = |s: &Scheduled| s.tokens as f64 * (s.position as f64 + s.tokens as f64 / 2.0);
        self.cost.observe(tokens, step.scheduled.iter().map(positions).sum(), time);
        let beside = self.cost.tokens_within(Duration::from_millis(250)).unwrap_or(128);
        self.scheduler.tune(|o| {
            o.prompt_tokens_beside_decode = beside.clamp(16, 512);
            o.prompt_tokens_alone = (2 * beside).clamp(64, 512);
        });
    }

    /// Returns the records of requests that arrived from a time on.
    fn since(&self, from: f64) -> Vec<&Record> {
        self.records.values().filter(|r| r.arrived >= from).collect()
    }
}

fn promised(text: &str) -> Promise {
    let mut promise = Promise::default();
    for part in text.split(',') {
        let (name, value) = part.split_once('=').unwrap();
        let bound = |percentile| Some(Bound { percentile, value: value.parse().unwrap() });
        match name {
            "ttft_p95" => promise.ttft = bound(95.0),
            "itl_p99" => promise.itl = bound(99.0),
            "user_tps_p5" => promise.user_tps = bound(5.0),
            other => panic!("{other}"),
        }
    }
    promise
}

/// Returns the share of values for which a condition holds; 1 without values.
fn share(values: &[f64], holds: impl Fn(f64) -> bool) -> f64 {
    values.iter().filter(|v| holds(**v)).count() as f64 / values.len().max(1) as f64
}

/// Returns the requests per second that the machine could complete at this speed for each user, if requests came when
/// it suits.
fn capacity(m: Machine, prompt: f64, answer: f64, tps: f64) -> f64 {
    let deep = m.deep * (prompt + answer / 2.0);
    let each = m.sample + deep + prompt / answer * (m.other + m.deep * prompt / 2.0);
    let n = (1.0 / tps - m.fixed) / each;
    n * tps / answer
}

const MIXED: Traffic = Traffic { key: 1, rate: 0.0, prompt: (20, 380), answer: (20, 180), retries: 0 };

/// Runs 10 minutes at a multiple of the capacity. Returns the shares of admitted requests with the promised first token
/// and speed, and the ratio of requests per second that had both to the capacity.
fn overloaded(machine: Machine, times: f64, seed: u64) -> (f64, f64, f64) {
    let most = capacity(machine, 200.0, 100.0, 5.0);
    let mut world = World::new(machine, "ttft_p95=2,user_tps_p5=5", seed);
    let (from, to) = (60.0, 660.0);
    world.traffic(Traffic { rate: most * times, ..MIXED }, 0.0, to);
    world.run(to);
    let records = world.since(from);
    let admitted: Vec<&&Record> = records.iter().filter(|r| r.first.is_some()).collect();
    let first: Vec<f64> = admitted.iter().filter_map(|r| r.ttft()).collect();
    let speeds: Vec<f64> = admitted.iter().filter_map(|r| r.tps()).collect();
    let good =
        admitted.iter().filter(|r| r.tps().is_some_and(|v| v >= 5.0) && r.ttft().unwrap() <= 2.0).count();
    let refused = records.iter().filter(|r| r.refused.is_some()).count();
    let slo = world.scheduler.slo.as_ref().unwrap();
    eprintln!(
        "{times} times: ttft {:.3}, tps {:.3}, goodput {:.3} of {most:.2}/s, {} admitted, {refused} refused, late {:.2}, mean {:.2}",
        share(&first, |v| v <= 2.0),
        share(&speeds, |v| v >= 5.0),
        good as f64 / (to - from) / most,
        admitted.len(),
        slo.late(0.95),
        slo.time.margin_of_mean(),
    );
    let goodput = good as f64 / (to - from) / most;
    (share(&first, |v| v <= 2.0), share(&speeds, |v| v >= 5.0), goodput)
}

#[test]
fn the_promise_is_kept_under_any_load() {
    for times in [0.5, 1.0, 2.0, 5.0, 10.0] {
        let (first, speed, goodput) = overloaded(MACHINE, times, 7);
        assert!(first >= 0.95 && speed >= 0.95, "at {times}: {first} in time, {speed} fast enough");
        let least = if times < 1.0 {
            0.45
        } else if times < 2.0 {
            0.7
        } else {
            0.8
        };
        assert!(goodput >= least, "at {times}: {goodput} of the capacity");
    }
}

/// Two thirds more noise and three times as many spikes: the margins adapt, and the promise still holds.
#[test]
fn the_promise_is_kept_on_a_noisy_machine() {
    let noisy = Machine { noise: 0.25, spikes: 0.03, ..MACHINE };
    let (first, speed, goodput) = overloaded(noisy, 5.0, 11);
    assert!(first >= 0.95 && speed >= 0.95 && goodput >= 0.55, "{first}, {speed}, {goodput}");
}

/// In the middle of the run the machine becomes half as fast: those admitted before suffer, the others do not.
#[test]
fn a_slower_machine_admits_fewer() {
    let mut world = World::new(MACHINE, "ttft_p95=2,user_tps_p5=5", 3);
    world.traffic(Traffic { rate: 3.0, ..MIXED }, 0.0, 500.0);
    world.run(200.0);
    let twice = |x: f64| 1.6 * x;
    world.machine = Machine {
        fixed: twice(MACHINE.fixed),
        sample: twice(MACHINE.sample),
        other: twice(MACHINE.other),
        ..MACHINE
    };
    world.run(500.0);
    let count = |from: f64, to: f64| {
        let records = world.since(from);
        let speeds: Vec<f64> = records.iter().filter(|r| r.arrived < to).filter_map(|r| r.tps()).collect();
        (speeds.len(), share(&speeds, |v| v >= 5.0))
    };
    let (before, after) = (count(50.0, 170.0), count(260.0, 460.0));
    assert!(before.1 >= 0.95 && after.1 >= 0.95, "{before:?}, {after:?}");
    assert!(after.0 > 20, "{after:?}");
    let least = 0.7 * capacity(world.machine, 200.0, 100.0, 5.0);
    assert!(after.0 as f64 / 200.0 >= least, "{after:?}, at least {least}/s");
}

/// Refused requests that come back when they are told to are mostly served then, and told no longer times than the
/// queue needs.
#[test]
fn the_suggested_time_is_the_one_at_which_there_is_a_place() {
    let mut world = World::new(MACHINE, "ttft_p95=2,user_tps_p5=5", 5);
    // A warm-up, then 60 requests at once: several times what fits.
    world.traffic(Traffic { rate: 0.3, ..MIXED }, 0.0, 60.0);
    for i in 0..60 {
        let arrived = 100.0 + f64::from(i) * 1e-3;
        world.expect(Record { key: 1, arrived, tries: 6, prompt: 150, answer: 100, ..Record::default() });
    }
    world.run(400.0);
    let records = world.since(99.0);
    let served: Vec<_> = records.iter().filter(|r| r.end.is_some()).collect();
    assert_eq!(served.len(), 60, "all are served in the end");
    let again: Vec<_> = records.iter().filter(|r| r.tries < 6).collect();
    let (good, all) = (again.iter().filter(|r| r.end.is_some()).count(), again.len());
    assert!(good * 5 >= all * 2, "{good} of {all} that came again were served");
    // 60 of them take 60 / 0.9 s at least.
    let last = served.iter().map(|r| r.end.unwrap()).fold(0.0, f64::max) - 100.0;
    assert!(last < 160.0, "the last one ended after {last} s");
}

/// A key that sends 10 times the capacity, and one with a request now and then, which it sends again as it is told.
#[test]
fn a_flood_starves_nobody() {
    let mut world = World::new(MACHINE, "ttft_p95=2,user_tps_p5=5", 9);
    world.traffic(Traffic { rate: 9.0, ..MIXED }, 0.0, 900.0);
    world.traffic(Traffic { key: 2, rate: 0.05, retries: 4, ..MIXED }, 30.0, 800.0);
    world.run(900.0);
    let mut tries = 0;
    let (mut wanted, mut served) = (0, 0);
    for r in world.records.values().filter(|r| r.key == 2) {
        tries += 1;
        wanted += usize::from(r.tries == 5);
        served += usize::from(r.end.is_some());
    }
    eprintln!("{served} of {wanted} served after {tries} tries");
    assert!(wanted > 20 && served * 10 >= wanted * 9, "{served} of {wanted} served");
    assert!(tries <= 3 * wanted, "{tries} tries of {wanted} requests");
    // The flood is served meanwhile.
    let flood = world.records.values().filter(|r| r.key == 1 && r.end.is_some()).count() as f64 / 900.0;
    assert!(flood > 0.6 * capacity(MACHINE, 200.0, 100.0, 5.0), "{flood}/s");
}

#[test]
fn a_prompt_that_is_too_long_for_the_promise_is_told_so() {
    let mut world = World::new(MACHINE, "ttft_p95=2", 1);
    world.traffic(Traffic { rate: 0.5, ..MIXED }, 0.0, 30.0);
    // It takes 4.5 s alone.
    world.expect(Record { key: 1, arrived: 45.0, tries: 1, prompt: 3000, answer: 5, ..Record::default() });
    world.run(80.0);
    let long = world.records.values().find(|r| r.prompt == 3000).unwrap();
    let Some((at, SloRefusal::TooLong { expected })) = long.refused else { panic!("{long:?}") };
    assert!(at < 47.0 && (4.5..9.0).contains(&expected.as_secs_f64()), "{expected:?} at {at}");
}

/// The machine was so slow for a while that nothing fits the promise any more; when it has recovered, this is noticed.
#[test]
fn a_machine_that_has_recovered_is_measured_again() {
    let slow = Machine { fixed: 3.0, ..MACHINE };
    let mut world = World::new(slow, "ttft_p95=2,user_tps_p5=5", 1);
    world.traffic(Traffic { rate: 0.5, ..MIXED }, 0.0, 700.0);
    world.run(100.0);
    world.machine = MACHINE;
    world.run(700.0);
    let late = world.since(600.0);
    let served = late.iter().filter(|r| r.first.is_some()).count();
    assert!(served * 2 > late.len(), "{served} of {}", late.len());
}

#[test]
fn the_time_between_two_tokens_is_bounded_too() {
    let quiet = Machine { noise: 0.03, spikes: 0.0, ..MACHINE };
    let mut world = World::new(quiet, "ttft_p95=4,itl_p99=0.2", 1);
    let mut times = Vec::new();
    world.traffic(Traffic { rate: 4.0, ..MIXED }, 0.0, 200.0);
    for second in 0..200 {
        world.run(f64::from(second));
        let before = world.now;
        let decodes = world.scheduler.running.iter().any(|t| t.decodes());
        world.run(world.now + 1e-6);
        if decodes && second > 20 {
            times.push(world.now - before);
        }
    }
    assert!(times.len() > 150 && share(&times, |t| t <= 0.2) >= 0.98, "{times:?}");
}

/// Texts without an answer, such as those to embed, are promised a time to their result.
#[test]
fn results_without_tokens_come_in_time() {
    let mut world = World::new(MACHINE, "ttft_p95=2", 4);
    // 0.5 s each, so that some 2 a second can be served.
    world.traffic(Traffic { rate: 6.0, prompt: (200, 400), answer: (0, 0), ..MIXED }, 0.0, 300.0);
    world.run(300.0);
    let slo = world.scheduler.slo.as_ref().unwrap();
    let late =
        share(&slo.latenesses.iter().map(|(_, ratio)| *ratio).collect::<Vec<_>>(), |r| r <= slo.late(0.95));
    let done = slo.admitted as f64 / 300.0;
    assert!(done > 1.2 && slo.refused > 500 && late >= 0.95, "{done}/s, {} refused, {late}", slo.refused);
}

#[test]
fn without_a_promise_nothing_is_refused_or_predicted() {
    let mut scheduler = Scheduler::new(SchedulerOptions::default(), 100);
    scheduler.submit(request(1, 1, vec![5; 50], 5), Duration::ZERO).unwrap();
    assert_eq!(scheduler.outlook(Duration::ZERO), None);
    let mut tables = BlockTables::new(100);
    let step = scheduler.plan(Duration::from_secs(99), &mut tables).unwrap();
    assert_eq!(step.scheduled.len(), 1);
    let promise = Promise { ttft: Some(Bound { percentile: 95.0, value: f64::NAN }), ..Promise::default() };
    let options = SchedulerOptions { promise: Some(promise), ..SchedulerOptions::default() };
    assert_eq!(Scheduler::new(options, 100).outlook(Duration::ZERO), None, "no usable bound");
}
