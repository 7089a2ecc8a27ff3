//! Random requests on random machines.

use super::sim::*;
use crate::schedule::*;
use proptest::prelude::*;

/// Event between two steps.
#[derive(Clone, Debug)]
struct Act {
    steps: usize,
    key: u32,
    priority: i32,
    /// Number of the text from which the prompt's prefix comes, and its length.
    text: u32,
    prompt: usize,
    max: usize,
    deadline: Option<u64>,
    speculate: bool,
    /// Cancels the request submitted so many before.
    cancel: Option<usize>,
    /// True if the cancellation comes while the step is under way.
    late: bool,
    /// True if the step after it fails.
    fails: bool,
}

fn act() -> impl Strategy<Value = Act> {
    let what = (0_usize..4, 0_u32..4, -1_i32..2, 0_u32..3, 1_usize..400, 1_usize..90);
    let how = (
        prop::option::weighted(0.1, 1_u64..60),
        any::<bool>(),
        prop::option::weighted(0.15, 0_usize..5),
        any::<bool>(),
        prop::bool::weighted(0.03),
    );
    (what, how).prop_map(
        |((steps, key, priority, text, prompt, max), (deadline, speculate, cancel, late, fails))| Act {
            steps,
            key,
            priority,
            text,
            prompt,
            max,
            deadline,
            speculate,
            cancel,
            late,
            fails,
        },
    )
}

fn options() -> impl Strategy<Value = (SchedulerOptions, u32)> {
    let position_cost = prop_oneof![3 => Just(0.0), 1 => 0.0..1.0, 1 => Just(1e9)];
    (1_usize..300, 1_usize..200, 1_usize..12, 8_u32..40, 0.0_f64..20.0, position_cost).prop_map(
        |(step, beside, running, blocks, read, position_cost)| {
            let options = SchedulerOptions {
                step_tokens: step,
                prompt_tokens_beside_decode: beside,
                running,
                weights_read_tokens: read,
                position_cost,
                ..SchedulerOptions::default()
            };
            (options, blocks)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Every request ends once and for a valid reason; a request that is not disturbed gets the same tokens as alone,
    /// however it was divided, cached, preempted or drafted; nothing is left behind.
    #[test]
    fn requests_are_neither_lost_nor_changed((options, blocks) in options(), acts in prop::collection::vec(act(), 1..40)) {
        let mut sim = Sim::new(options, blocks);
        let mut requests = Vec::new();
        let mut cancelled = Vec::new();
        let mut failed = Vec::new();
        for (i, a) in acts.iter().enumerate() {
            let mut text = prompt(a.text, a.prompt);
            // Half of the texts differ somewhere.
            if a.max % 2 == 0 {
                let at = text.len() / 2;
                text[at] = 100 + a.key;
            }
            let mut r = request(i as u64, a.key, text, a.max);
            r.priority = a.priority;
            r.deadline = a.deadline.map(|d| sim.now + Duration::from_secs(d));
            r.speculate = a.speculate;
            requests.push(r.clone());
            sim.submit(r);
            let victim = a.cancel.and_then(|c| i.checked_sub(c)).map(|v| v as u64);
            if let Some(v) = victim.filter(|_| !a.late) && sim.cancel(v) {
                cancelled.push(RequestId(v));
                prop_assert!(!sim.scheduler.running.iter().any(|t| t.request.id.0 == v));
            }
            for n in 0..a.steps {
                let step = sim.plan();
                if n == 0 && let Some(v) = victim.filter(|_| a.late) && sim.cancel(v) {
                    cancelled.push(RequestId(v));
                }
                if a.fails && n == 0 && !step.scheduled.is_empty() {
                    let ends = sim.scheduler.abandon(&mut sim.tables);
                    sim.tables.check();
                    sim.note(&ends);
                    failed.extend(step.scheduled.iter().map(|s| s.request));
                } else {
                    sim.finish(&step);
                }
                // Cancelled within the step.
                prop_assert!(!sim.scheduler.running.iter().any(|t| cancelled.contains(&t.request.id)));
            }
        }
        sim.drain(60_000);
        prop_assert_eq!(sim.ends.len(), requests.len());
        for r in &requests {
            let got = &sim.answers[&r.id];
            let want = answer(&r.prompt, r.max_tokens);
            prop_assert_eq!(got, &want[..got.len()]);
            match sim.ends[&r.id] {
                Finish::Length => prop_assert_eq!(got.len(), r.max_tokens),
                Finish::Cancelled => prop_assert!(cancelled.contains(&r.id)),
                Finish::Deadline => prop_assert!(r.deadline.is_some_and(|d| d <= sim.now)),
                Finish::Failed => prop_assert!(failed.contains(&r.id)),
                Finish::Stop | Finish::Computed => prop_assert!(false, "nobody said stop"),
            }
        }
    }

    /// Equal calls give equal plans.
    #[test]
    fn plans_are_reproducible((options, blocks) in options(), acts in prop::collection::vec(act(), 1..12)) {
        let run = || {
            let mut sim = Sim::new(options, blocks);
            let mut plans = Vec::new();
            for (i, a) in acts.iter().enumerate() {
                let mut r = request(i as u64, a.key, prompt(a.text, a.prompt), a.max);
                r.speculate = a.speculate;
                sim.submit(r);
                plans.extend((0..a.steps).map(|_| format!("{:?}", sim.step())));
            }
            plans
        };
        prop_assert_eq!(run(), run());
    }
}
