//! Decisions for invented machines and draft models.

use super::*;
use proptest::prelude::*;

/// Machine on which a step takes `fixed` and `row` for each row, and a step of the draft model `draft`, in seconds.
#[derive(Clone, Copy, Debug)]
struct Machine {
    fixed: f64,
    row: f64,
    draft: f64,
}

impl Machine {
    fn target(self, rows: usize) -> f64 {
        self.fixed + self.row * rows as f64
    }

    fn draft(self, rows: usize) -> f64 {
        self.draft * (1.0 + 0.05 * rows as f64)
    }
}

fn load(rows: usize) -> StepLoad {
    StepLoad { samples: rows as f64, others: 0.0, positions: 100.0 }
}

fn of(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Returns a plan that has seen steps of a machine.
fn measured(m: Machine) -> DraftPlan {
    let mut plan = DraftPlan::new(DraftCost { reading: 0.3, computing: 0.3 });
    for rows in [1, 2, 4, 8, 16, 32, 64, 1, 2, 4] {
        plan.observe(load(rows), of(m.target(rows)));
        plan.observe_draft(load(rows), of(m.draft(rows)));
    }
    plan
}

fn candidates(n: usize, rate: f64) -> Vec<Candidate> {
    let progress = Progress { read: 100, skipped: 0, behind: 1, is_reading: false };
    (0..n).map(|task| Candidate { task, rate, most: MAX_DRAFT, progress, left: 100.0 }).collect()
}

const BOUND_BY_MEMORY: Machine = Machine { fixed: 0.02, row: 0.001, draft: 0.004 };

#[test]
fn better_drafts_are_longer_and_bad_ones_are_not_made() {
    let mut plan = measured(BOUND_BY_MEMORY);
    plan.balance = MAX_BALANCE;
    let lengths = |rate| plan.lengths(load(1), 1, &candidates(1, rate)).tokens;
    assert_eq!(lengths(0.1), 0);
    assert!(lengths(0.6) >= 1 && lengths(0.6) < lengths(0.95), "{} {}", lengths(0.6), lengths(0.95));
    // A draft model that is no faster than the model is of no use.
    let mut slow = measured(Machine { draft: 0.021, ..BOUND_BY_MEMORY });
    slow.balance = MAX_BALANCE;
    assert_eq!(slow.lengths(load(1), 1, &candidates(1, 0.99)).tokens, 0);
}

#[test]
fn many_requests_get_no_drafts_if_rows_cost_what_they_bring() {
    let mut plan = measured(Machine { fixed: 0.02, row: 0.004, draft: 0.004 });
    plan.balance = MAX_BALANCE;
    assert!(plan.lengths(load(1), 1, &candidates(1, 0.7)).tokens > 0);
    assert_eq!(plan.lengths(load(64), 64, &candidates(64, 0.7)).tokens, 0);
    // Of several requests those with good drafts get one.
    let mut plan = measured(Machine { draft: 0.002, ..BOUND_BY_MEMORY });
    plan.balance = MAX_BALANCE;
    let mut mixed = candidates(1, 0.95);
    mixed.extend(candidates(3, 0.05));
    let got = plan.lengths(load(4), 4, &mixed);
    assert!(got.requests == 1 && got.tokens > 0, "{got:?}");
}

#[test]
fn a_balance_bounds_what_may_be_lost() {
    let mut plan = measured(BOUND_BY_MEMORY);
    plan.balance = 0.1;
    assert_eq!(plan.lengths(load(1), 1, &candidates(1, 0.9)).tokens, 0);
    plan.balance = 0.5;
    assert!(plan.lengths(load(1), 1, &candidates(1, 0.9)).tokens <= 2);
    assert_eq!(
        DraftPlan::new(DraftCost { reading: 0.1, computing: 0.1 })
            .lengths(load(1), 1, &candidates(1, 0.9))
            .tokens,
        0
    );
}

#[test]
fn a_text_is_read_as_far_as_its_answer_repays_it() {
    let mut plan = measured(BOUND_BY_MEMORY);
    for tokens in [64, 128, 256] {
        let read = StepLoad { samples: 0.0, others: tokens as f64, positions: 0.0 };
        plan.observe_draft(read, of(0.001 * tokens as f64));
    }
    let of_text = |behind: usize, skipped: usize, left: f64| Candidate {
        left,
        progress: Progress { read: skipped.min(40), skipped, behind, is_reading: false },
        ..candidates(1, 0.8)[0]
    };
    plan.balance = START;
    // The balance pays for the end alone.
    let part = plan.reading(load(1), 1, &of_text(2000, 0, 500.0), 1.5).unwrap();
    assert!((READ..500).contains(&part), "{part}");
    plan.balance = MAX_BALANCE;
    assert_eq!(plan.reading(load(1), 1, &of_text(600, 0, 500.0), 1.5), Some(600));
    assert_eq!(plan.reading(load(1), 1, &of_text(600, 0, 2.0), 1.1), None);
    // The beginning is read when that is cheap beside what was gained.
    assert_eq!(plan.reading(load(1), 1, &of_text(1, 400, 500.0), 1.5), Some(441));
    assert_eq!(plan.reading(load(1), 1, &of_text(1, 40_000, 500.0), 1.5), None);
}

#[test]
fn a_model_that_drafted_badly_is_tried_again() {
    let mut plan = measured(BOUND_BY_MEMORY);
    let all = candidates(1, 0.05);
    let mut tried = 0;
    for _ in 0..1000 {
        if plan.lengths(load(1), 1, &all).tokens > 0 {
            panic!("it is known to be bad");
        }
        let lengths = plan.trial(load(1), 1, &all[0]);
        if lengths.tokens > 0 {
            tried += 1;
            plan.spend(load(1), 1, &vec![1; lengths.tokens], 0, lengths.tokens);
            plan.record(lengths.tokens, 0, None);
        }
        plan.settle(1);
    }
    assert!((2..=20).contains(&tried), "{tried} trials");
}

proptest! {
    /// Drafts cost at most what they may, whatever the machine, the number of answers and their acceptance.
    #[test]
    fn drafts_never_cost_more_than_they_may(
        fixed in 0.001..0.1_f64, row in 0.0001..0.02_f64, draft in 0.0005..0.05_f64, n in 1_usize..40,
        luck in prop::collection::vec(0_usize..10, 50..400), rate in 0.0..1.0_f64
    ) {
        let m = Machine { fixed, row, draft };
        let mut plan = measured(m);
        let (mut time, mut tokens) = (0.0, 0.0);
        let plain = m.target(n);
        for luck in luck {
            let mut all = candidates(n, rate);
            all.iter_mut().enumerate().for_each(|(i, c)| c.most = 1 + (i + luck) % MAX_DRAFT);
            let mut lengths = plan.lengths(load(n), n, &all);
            if lengths.tokens == 0 {
                lengths = plan.trial(load(n), n, &all[0]);
            }
            let drafted: Vec<usize> = all[..lengths.requests].iter().map(|c| c.most.min(lengths.tokens)).collect();
            let steps: Vec<usize> =
                (1..=lengths.tokens).map(|k| drafted.iter().filter(|d| **d >= k).count()).filter(|rows| *rows > 0).collect();
            if !steps.is_empty() {
                plan.spend(load(n), n, &steps, 0, drafted.iter().sum());
            }
            let mut accepted = 0;
            for drafted in &drafted {
                let right = luck.min(*drafted);
                plan.record(*drafted, right, None);
                accepted += right;
            }
            plan.settle(n);
            // As predicted, since the times of a machine are known.
            let drafting: f64 = steps.iter().filter_map(|rows| plan.draft_seconds(load(*rows))).sum();
            let rows = n + drafted.iter().sum::<usize>();
            let all = plan.target.predict(load(rows)).unwrap().max(plan.target.predict(load(n)).unwrap());
            time += (all + drafting) / plan.target.predict(load(n)).unwrap() * plain;
            tokens += (n + accepted) as f64;
            // In tokens of all answers.
            let lost = time / plain * n as f64 - tokens;
            prop_assert!(lost <= START + LOSS * tokens + 1e-6, "{lost} of {tokens}");
        }
    }
}
