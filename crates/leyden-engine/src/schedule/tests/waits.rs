//! Waiting times of a key's requests.

use super::sim::*;
use crate::schedule::*;

fn options() -> SchedulerOptions {
    SchedulerOptions {
        step_tokens: 256,
        prompt_tokens_beside_decode: 64,
        running: 8,
        ..SchedulerOptions::default()
    }
}

/// Returns the number of steps, from now on, after which requests have their first tokens.
fn first_tokens(sim: &mut Sim, ids: &[u64]) -> Vec<usize> {
    let mut steps = vec![0; ids.len()];
    for step in 1.. {
        let planned = sim.step();
        for s in planned.scheduled.iter().filter(|s| s.samples) {
            if let Some(i) = ids.iter().position(|id| s.request == RequestId(*id)) {
                steps[i] = if steps[i] == 0 { step } else { steps[i] };
            }
        }
        if steps.iter().all(|s| *s > 0) {
            return steps;
        }
    }
    steps
}

#[test]
fn a_short_prompt_passes_a_long_one() {
    let alone = {
        let mut sim = Sim::new(options(), 200);
        sim.submit(request(1, 1, prompt(1, 6000), 1));
        first_tokens(&mut sim, &[1])[0]
    };
    let mut sim = Sim::new(options(), 200);
    sim.submit(request(1, 1, prompt(1, 6000), 1));
    (0..3).for_each(|_| drop(sim.step()));
    sim.submit(request(2, 1, prompt(2, 20), 1));
    let step = sim.step();
    // It is completed at once, beside no more than the tokens allowed beside a decoding request.
    assert!(step.scheduled.iter().any(|s| s.request == RequestId(2) && s.samples));
    assert_eq!(step.scheduled.iter().map(|s| s.tokens).sum::<usize>(), 20 + 64);
    let rest = first_tokens(&mut sim, &[1])[0];
    assert!(3 + 1 + rest <= alone + 1, "{rest} after 4, {alone} alone");
    assert_eq!(sim.answers[&RequestId(1)], answer(&prompt(1, 6000), 1));
}

/// Short prompts, however many, get at most a tenth of a long prompt's tokens before it.
#[test]
fn a_long_prompt_loses_a_tenth_at_most() {
    for (long, short) in [(6000, 20), (2000, 100), (3000, 2999), (700, 1)] {
        let mut sim = Sim::new(options(), 400);
        sim.submit(request(1, 1, prompt(1, long), 1));
        let (mut next, mut passed, mut waits) = (10, 0, Vec::new());
        while !sim.ends.contains_key(&RequestId(1)) {
            while sim.scheduler.queue.of_key(KeyId(1)) < 8 {
                let mut r = request(next, 1, prompt(next as u32, short), 1);
                r.scope = None;
                sim.submit(r);
                next += 1;
            }
            let step = sim.step();
            waits.push(step.scheduled.iter().filter(|s| s.samples).count());
            let mine: usize =
                step.scheduled.iter().filter(|s| s.request == RequestId(1)).map(|s| s.tokens).sum();
            let left =
                long - sim.scheduler.running.iter().find(|t| t.order == 0).map_or(long, |t| t.computed);
            // Tokens of the others in its last step, or beside it, do not delay it.
            if left > 0 || mine == 0 {
                passed += step.scheduled.iter().map(|s| s.tokens).sum::<usize>() - mine;
            }
        }
        let most = (long / 10).max(64 + long / 20);
        assert!(passed <= most, "{long} and many of {short}: {passed}");
        // Meanwhile the others get some tokens all along.
        let half = waits.len() / 2;
        assert!(short > 100 || waits[half..].iter().sum::<usize>() > 0, "{waits:?}");
    }
}

#[test]
fn equal_prompts_are_computed_in_the_order_of_arrival_and_shorter_ones_first() {
    let mut sim = Sim::new(options(), 400);
    for (id, tokens) in [(1, 2000), (2, 2000), (3, 1990), (4, 2000)] {
        sim.submit(request(id, 1, prompt(id as u32, tokens), 1));
    }
    let steps = first_tokens(&mut sim, &[1, 2, 3, 4]);
    // The third, a little shorter, may pass the others only by their slack, which is not enough.
    assert!(steps.is_sorted_by(|a, b| a < b), "{steps:?}");
    // Each takes its own number of steps, except a shorter one that is completed in another's step.
    assert!(steps[3] <= 32 + 3, "{steps:?}");
    // Of prompts that arrive together the short ones go first.
    let mut sim = Sim::new(options(), 400);
    for (id, tokens) in [(1, 2000), (2, 90), (3, 1000), (4, 10), (5, 50)] {
        sim.submit(request(id, 1, prompt(id as u32, tokens), 1));
    }
    let steps = first_tokens(&mut sim, &[1, 2, 3, 4, 5]);
    assert!(steps[3] == 1 && steps[4] == 1 && steps[1] < steps[0] && steps[0] < steps[2], "{steps:?}");
}

/// A preempted answer continues before prompts that arrived meanwhile, however short.
#[test]
fn a_preempted_answer_is_not_passed() {
    let mut sim = Sim::new(SchedulerOptions { running: 2, ..options() }, 64);
    (1..=2).for_each(|i| sim.submit(request(i, 1, prompt(i as u32, 100), 50)));
    (0..5).for_each(|_| drop(sim.step()));
    let mut urgent = request(9, 1, prompt(9, 100), 3);
    urgent.priority = 1;
    sim.submit(urgent);
    (10..20).for_each(|i| sim.submit(request(i, 1, prompt(i as u32, 3), 50)));
    while sim.ends.is_empty() {
        sim.step();
    }
    let step = sim.step();
    assert!(
        matches!(step.decisions[..], [Decision::Admitted { request: RequestId(2), .. }]),
        "{:?}",
        step.decisions
    );
    sim.drain(1000);
}

/// A request without room in the cache is passed by those that fit, but only for a limited time (as in vLLM's issue
/// 31731).
#[test]
fn who_does_not_fit_does_not_hold_up_the_small_ones() {
    let mut sim = Sim::new(options(), 20);
    sim.submit(request(1, 1, prompt(1, 700), 400));
    (0..10).for_each(|_| drop(sim.step()));
    sim.submit(request(2, 1, prompt(2, 900), 1));
    sim.submit(request(3, 1, prompt(3, 20), 1));
    assert_eq!(first_tokens(&mut sim, &[3]), [1]);
    // From now on a small request is always waiting.
    let mut next = 10;
    while !sim.ends.contains_key(&RequestId(2)) {
        while sim.scheduler.queue.of_key(KeyId(1)) < 4 {
            let mut r = request(next, 1, prompt(next as u32, 30), 200);
            r.scope = None;
            sim.submit(r);
            next += 1;
        }
        sim.step();
        assert!(sim.now < Duration::from_secs(1500), "the large one waits forever");
    }
}

/// Requests of other keys do not use up slack.
#[test]
fn keys_pass_each_other_by_service_alone() {
    let mut sim = Sim::new(options(), 200);
    sim.submit(request(1, 1, prompt(1, 3000), 1));
    (0..2).for_each(|_| drop(sim.step()));
    (0..20).for_each(|i| sim.submit(request(10 + i, 2, prompt(10 + i as u32, 100), 1)));
    (0..8).for_each(|_| drop(sim.step()));
    let long = sim.scheduler.running.iter().find(|t| t.order == 0).unwrap();
    assert_eq!(long.passed_by, 0);
    assert!(sim.ends.len() > 5, "{:?}", sim.ends);
}

#[test]
fn later_positions_are_paid_for() {
    let options = SchedulerOptions { position_cost: 0.001, prompt_tokens_alone: 200, ..options() };
    let mut sim = Sim::new(options, 200);
    sim.submit(request(1, 1, prompt(1, 10), 1000));
    sim.step();
    sim.submit(request(2, 1, prompt(2, 4000), 1));
    let mut chunks = Vec::new();
    while !sim.ends.contains_key(&RequestId(2)) {
        chunks.extend(
            sim.step().scheduled.iter().find(|s| s.request == RequestId(2)).map(|s| (s.position, s.tokens)),
        );
    }
    for &(position, tokens) in &chunks[..chunks.len() - 1] {
        let cost = |n: f64| n + 0.001 * n * (position as f64 + n / 2.0);
        let n = tokens as f64;
        assert!(cost(n) <= 64.0 && cost(n + 1.0) > 64.0, "{tokens} at {position}");
    }
    assert_eq!((chunks[0].1, chunks[chunks.len() - 2].1), (62, 12));
    // Alone it gets larger chunks, but still bounded.
    let mut sim = Sim::new(options, 200);
    sim.submit(request(2, 1, prompt(2, 4000), 1));
    assert_eq!(sim.step().scheduled[0].tokens, 183);
}
