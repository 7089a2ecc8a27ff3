//! Fairness between keys.

use super::sim::*;
use crate::schedule::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Load of a key that always has requests waiting.
#[derive(Clone, Copy, Debug)]
struct Habit {
    prompt: usize,
    max: usize,
    /// Number of requests that it keeps in the queue.
    depth: usize,
}

/// Runs keys that are always backlogged, and returns the service of each after each step. Prompts are all different, so
/// that none is cached.
fn compete(options: SchedulerOptions, blocks: u32, habits: &[Habit], steps: usize) -> (Vec<Vec<u64>>, usize) {
    let mut sim = Sim::new(options, blocks);
    let mut next = 0;
    let mut received = Vec::new();
    for _ in 0..steps {
        for (key, h) in (0..).zip(habits) {
            while sim.scheduler.queue.of_key(KeyId(key)) < h.depth {
                let mut r = request(next, key, prompt(next as u32, h.prompt), h.max);
                r.prompt[0] = 100 + next as u32;
                r.scope = None;
                sim.submit(r);
                next += 1;
            }
        }
        sim.step();
        received.push((0..habits.len() as u32).map(|k| sim.scheduler.service(KeyId(k))).collect());
    }
    (received, sim.preemptions)
}

fn habit() -> impl Strategy<Value = Habit> {
    (1_usize..150, 1_usize..40, 1_usize..12).prop_map(|(prompt, max, depth)| Habit { prompt, max, depth })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    /// The bound stated in the module's documentation, for every interval: the service of two backlogged keys differs
    /// by at most 2 U.
    #[test]
    fn backlogged_keys_receive_the_same(
        habits in prop::collection::vec(habit(), 2..5), running in 1_usize..10, blocks in 12_u32..60
    ) {
        let options = SchedulerOptions { step_tokens: 128, prompt_tokens_beside_decode: 64, running, ..SchedulerOptions::default() };
        // A key with fewer waiting requests than one step may admit is not backlogged throughout that step.
        let habits: Vec<Habit> = habits.iter().map(|h| Habit { depth: h.depth.max(running), ..*h }).collect();
        let (received, _) = compete(options, blocks, &habits, 1500);
        let longest = habits.iter().map(|h| h.prompt + 2 * h.max).max().unwrap();
        let u = (running * longest) as i64;
        for a in 0..habits.len() {
            for b in 0..a {
                let gap: Vec<i64> = received.iter().map(|r| r[a] as i64 - r[b] as i64).collect();
                let (least, most) = (gap.iter().min().unwrap(), gap.iter().max().unwrap());
                prop_assert!(most - least <= 2 * u, "{habits:?}: gap from {least} to {most}, U {u}");
            }
        }
    }
}

#[test]
fn a_flood_gets_its_share_and_no_more() {
    let options = SchedulerOptions {
        step_tokens: 128,
        prompt_tokens_beside_decode: 64,
        running: 8,
        ..SchedulerOptions::default()
    };
    let flood = Habit { prompt: 100, max: 30, depth: 60 };
    let other = Habit { prompt: 20, max: 30, depth: 5 };
    let (received, _) = compete(options, 40, &[flood, other], 4000);
    let last = received.last().unwrap();
    let share = last[0] as f64 / (last[0] + last[1]) as f64;
    assert!((0.48..0.52).contains(&share), "{share}");
}

/// A key floods all slots and blocks; then a request of another key arrives, once in a while.
#[test]
fn a_user_beside_a_flood_starts_at_once() {
    let options = SchedulerOptions {
        step_tokens: 256,
        prompt_tokens_beside_decode: 64,
        running: 8,
        ..SchedulerOptions::default()
    };
    let mut sim = Sim::new(options, 24);
    let mut next = 1000;
    let mut waits = Vec::new();
    for user in 0..20_u64 {
        for phase in 0..40 {
            while sim.scheduler.queue.of_key(KeyId(7)) < 50 {
                sim.submit(request(next, 7, prompt(next as u32, 120), 100));
                next += 1;
            }
            if phase == 0 {
                sim.submit(request(user, 1, prompt(user as u32, 60), 20));
                let mut steps = 1;
                while !sim.step().scheduled.iter().any(|s| s.request == RequestId(user) && s.samples) {
                    steps += 1;
                }
                waits.push(steps);
            } else {
                sim.step();
            }
        }
        assert_eq!(sim.ends.get(&RequestId(user)), Some(&Finish::Length), "20 tokens in 40 steps");
        assert_eq!(sim.answers[&RequestId(user)], answer(&prompt(user as u32, 60), 20));
    }
    assert!(waits.iter().all(|w| *w <= 2), "{waits:?}");
    assert!(sim.preemptions > 0);
}

/// Users of one key each beside a key with many requests: every answer gets at least one token a step.
#[test]
fn slots_are_divided_among_keys() {
    let options = SchedulerOptions {
        step_tokens: 256,
        prompt_tokens_beside_decode: 64,
        running: 12,
        ..SchedulerOptions::default()
    };
    let mut sim = Sim::new(options, 64);
    (0..40).for_each(|i| sim.submit(request(i, 0, prompt(i as u32, 50), 200)));
    (0..12).for_each(|_| drop(sim.step()));
    for key in 1..=5_u32 {
        (0..3)
            .for_each(|n| sim.submit(request(u64::from(100 * key + n), key, prompt(100 * key + n, 50), 200)));
    }
    (0..30).for_each(|_| drop(sim.step()));
    let mut held = BTreeMap::<u32, usize>::new();
    sim.scheduler.running.iter().for_each(|t| *held.entry(t.request.key.0).or_default() += 1);
    assert_eq!(held, (0..=5).map(|k| (k, 2)).collect());
    sim.drain(20_000);
}
