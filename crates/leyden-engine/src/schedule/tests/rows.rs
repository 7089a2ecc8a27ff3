//! Requested results of prompts besides an answer: logits and states of their tokens, no answer at all, held sequences,
//! whole texts.

use super::sim::{prompt, request, scope};
use crate::engine::Outputs;
use crate::schedule::*;
use crate::tables::{BlockTables, SequenceId};
use leyden_models::Pooling;
use leyden_models::heads::PooledStates;
use std::collections::BTreeMap;
use std::time::Duration;

/// Results of the requests.
#[derive(Debug, Default)]
struct Served {
    /// Positions with returned logits of each request's prompt, in order, and with returned states.
    logits: BTreeMap<u64, Vec<usize>>,
    states: BTreeMap<u64, Vec<usize>>,
    /// Maximum number of prompt rows of logits in a step.
    most_rows: usize,
    steps: usize,
    cached: BTreeMap<u64, usize>,
    preempted: usize,
    ends: BTreeMap<u64, (Finish, usize)>,
}

/// Runs steps until nothing is left; entries that sample get a token.
fn serve(scheduler: &mut Scheduler, tables: &mut BlockTables) -> Served {
    let mut served = Served::default();
    while !scheduler.is_idle() {
        let step = scheduler.plan(Duration::ZERO, tables).unwrap();
        let mut decisions = step.decisions.clone();
        let mut chosen = Vec::new();
        let mut rows = 0;
        for (s, entry) in step.scheduled.iter().zip(&step.plan.entries) {
            assert_eq!(s.position, tables.tokens(s.sequence).unwrap());
            tables.advance(s.sequence, s.tokens);
            let positions = |from: usize| s.position + from..s.position + s.tokens;
            match entry.outputs {
                Outputs::From(from) if s.rows > 0 => {
                    rows += s.rows;
                    served.logits.entry(s.request.0).or_default().extend(positions(from));
                }
                Outputs::Whole(text) => {
                    assert_eq!((text.second, text.first_only, s.position), (None, false, 0));
                    served.states.entry(s.request.0).or_default().extend(positions(0));
                }
                Outputs::States(from) => {
                    served.states.entry(s.request.0).or_default().extend(positions(from));
                }
                _ => assert_eq!(s.rows, 0),
            }
            if s.samples {
                chosen.push(Chosen { request: s.request, tokens: vec![7], stop: false });
            }
        }
        served.most_rows = served.most_rows.max(rows);
        served.steps += 1;
        if !step.scheduled.is_empty() {
            decisions.extend(scheduler.commit(&chosen, tables).unwrap());
        }
        for decision in decisions {
            match decision {
                Decision::Admitted { request, cached_tokens } => {
                    served.cached.entry(request.0).or_insert(cached_tokens);
                }
                Decision::Preempted { .. } => served.preempted += 1,
                Decision::Refused { request, why } => panic!("{request:?}: {why}"),
                Decision::Finished { request, finish, generated } => {
                    served.ends.insert(request.0, (finish, generated));
                }
            }
        }
    }
    served
}

fn wanting(id: u64, length: usize, rows: PromptRows, max_tokens: usize) -> Request {
    Request { rows, ..request(id, 1, prompt(id as u32, length), max_tokens) }
}

fn vector(pooling: Pooling) -> PromptRows {
    PromptRows::head(PooledStates { pooling })
}

fn all(range: std::ops::Range<usize>) -> Vec<usize> {
    range.collect()
}

#[test]
fn every_row_that_is_wanted_comes_once_in_order() {
    let logits = |from| PromptRows::Logits { from };
    for (step_tokens, logit_rows) in [(512, usize::MAX), (16, 5), (7, 64), (512, 9)] {
        let options = SchedulerOptions { step_tokens, logit_rows, ..SchedulerOptions::default() };
        let mut tables = BlockTables::new(64);
        let mut scheduler = Scheduler::new(options, 64);
        let requests = [
            wanting(1, 40, logits(0), 0),
            wanting(2, 90, logits(33), 0),
            wanting(3, 50, logits(0), 3),
            wanting(4, 70, vector(Pooling::Mean), 0),
            wanting(7, 70, vector(Pooling::Last), 0),
            wanting(5, 30, PromptRows::None, 4),
            // No token follows the last one.
            wanting(6, 30, logits(30), 0),
        ];
        for request in requests {
            scheduler.submit(request, Duration::ZERO).unwrap();
        }
        let served = serve(&mut scheduler, &mut tables);
        let what = format!("{step_tokens} {logit_rows}");
        assert_eq!(served.logits, [(1, all(0..40)), (2, all(33..90)), (3, all(0..50))].into(), "{what}");
        assert_eq!(served.states, [(4, all(0..70)), (7, all(69..70))].into(), "{what}");
        assert!(served.most_rows <= logit_rows, "{what}");
        let ends = [
            (1, (Finish::Computed, 0)),
            (2, (Finish::Computed, 0)),
            (3, (Finish::Length, 3)),
            (4, (Finish::Computed, 0)),
            (5, (Finish::Length, 4)),
            (6, (Finish::Computed, 0)),
            (7, (Finish::Computed, 0)),
        ];
        assert_eq!(served.ends, ends.into(), "{what}");
        assert_eq!(tables.available_blocks(), 64);
    }
}

#[test]
fn what_the_cache_has_is_taken_up_to_the_first_row() {
    let mut tables = BlockTables::new(64);
    let mut scheduler = Scheduler::new(SchedulerOptions::default(), 64);
    let text = prompt(1, 200);
    let of = |id, rows| Request { rows, ..request(id, 1, text.clone(), 0) };
    let cases = [
        (PromptRows::None, 192),
        (PromptRows::Logits { from: 0 }, 0),
        (PromptRows::Logits { from: 70 }, 64),
        (vector(Pooling::Last), 192),
        (vector(Pooling::Mean), 0),
    ];
    scheduler.submit(of(0, PromptRows::None), Duration::ZERO).unwrap();
    serve(&mut scheduler, &mut tables);
    for (id, (rows, cached)) in (1..).zip(cases) {
        scheduler.submit(of(id, rows.clone()), Duration::ZERO).unwrap();
        let served = serve(&mut scheduler, &mut tables);
        assert_eq!(served.cached[&id], cached, "{rows:?}");
        let got = served.logits.into_values().chain(served.states.into_values()).next();
        assert_eq!(got, rows.from(200).map(|from| all(from..200)), "{rows:?}");
    }
}

#[test]
fn rows_that_were_given_are_not_given_again() {
    // A long prompt is under way when a request of higher priority takes all blocks.
    let options = SchedulerOptions { step_tokens: 16, ..SchedulerOptions::default() };
    let mut tables = BlockTables::new(4);
    let mut scheduler = Scheduler::new(options, 4);
    scheduler.submit(wanting(1, 120, PromptRows::Logits { from: 0 }, 2), Duration::ZERO).unwrap();
    let mut given = Vec::new();
    for _ in 0..3 {
        let step = scheduler.plan(Duration::ZERO, &mut tables).unwrap();
        let s = step.scheduled[0];
        given.extend(s.position..s.position + s.rows);
        tables.advance(s.sequence, s.tokens);
        scheduler.commit(&[], &mut tables).unwrap();
    }
    scheduler.submit(Request { priority: 1, ..request(2, 2, prompt(2, 190), 1) }, Duration::ZERO).unwrap();
    let served = serve(&mut scheduler, &mut tables);
    assert_eq!(served.preempted, 1);
    given.extend(&served.logits[&1]);
    assert_eq!(given, all(0..120));
    assert_eq!(served.ends[&1], (Finish::Length, 2));
}

#[test]
fn a_held_sequence_stays_open_with_all_that_was_computed() {
    let mut tables = BlockTables::new(8);
    let mut scheduler = Scheduler::new(SchedulerOptions::default(), 8);
    let sequence: SequenceId = tables.open();
    let text = prompt(1, 100);
    let mut turn = |id, tokens: &[u32], same, max_tokens| {
        let held = Some(Held { sequence, same });
        let request = Request { held, ..request(id, 1, tokens.to_vec(), max_tokens) };
        scheduler.submit(request, Duration::ZERO).unwrap();
        let served = serve(&mut scheduler, &mut tables);
        (served.cached[&id], tables.tokens(sequence).unwrap(), tables.blocks_of(sequence))
    };
    // The last token of an answer is not computed.
    assert_eq!(turn(1, &text, 0, 5), (0, 104, 2));
    // All tokens after the common prefix are dropped; of the same text the last token is computed again.
    assert_eq!(turn(2, &text[..70], 70, 0), (69, 70, 2));
    assert_eq!(turn(3, &text[..30], 30, 1), (29, 30, 1));
    assert_eq!(turn(4, &text, 30, 0), (30, 100, 2));
    tables.close(sequence);
    assert_eq!(tables.available_blocks(), 8);
}

/// Held sequences that the caller has closed, or opened with a scope, cannot be truncated.
#[test]
fn a_request_whose_held_sequence_cannot_be_truncated_ends() {
    let mut tables = BlockTables::new(8);
    let mut scheduler = Scheduler::new(SchedulerOptions::default(), 8);
    let text = prompt(1, 150);
    let (shared, _) = tables.open_shared(scope(1), &text);
    assert!(tables.reserve(shared, 150));
    tables.advance(shared, 150);
    tables.publish(shared, &text).unwrap();
    let closed = tables.open();
    tables.close(closed);
    for (id, sequence) in [(1, shared), (2, closed)] {
        let held = Some(Held { sequence, same: 30 });
        let request = Request { held, ..request(id, 1, text.clone(), 2) };
        scheduler.submit(request, Duration::ZERO).unwrap();
    }
    scheduler.submit(request(3, 1, prompt(2, 40), 2), Duration::ZERO).unwrap();
    let served = serve(&mut scheduler, &mut tables);
    let ends = [(1, (Finish::Failed, 0)), (2, (Finish::Failed, 0)), (3, (Finish::Length, 2))];
    assert_eq!(served.ends, ends.into());
    assert_eq!(tables.tokens(shared).unwrap(), 150);
}

/// A failed step leaves a recurrent sequence's state lost, so it cannot be truncated to its own length.
#[test]
fn a_failed_step_returns_the_unused_blocks_of_a_held_sequence() {
    let mut tables = BlockTables::new(8).with_states(0);
    let mut scheduler = Scheduler::new(SchedulerOptions::default(), 8);
    let sequence = tables.open();
    let held = |same| Some(Held { sequence, same });
    let first = Request { held: held(0), ..request(1, 1, prompt(1, 100), 0) };
    scheduler.submit(first, Duration::ZERO).unwrap();
    serve(&mut scheduler, &mut tables);
    let second = Request { held: held(100), ..request(2, 1, prompt(1, 300), 0) };
    scheduler.submit(second, Duration::ZERO).unwrap();
    let step = scheduler.plan(Duration::ZERO, &mut tables).unwrap();
    let new = [(sequence, step.scheduled[0].tokens)];
    tables.checkpoints(&new);
    tables.end_step(&new, false);
    let request = RequestId(2);
    let failed = Decision::Finished { request, finish: Finish::Failed, generated: 0 };
    assert_eq!(scheduler.abandon(&mut tables), [failed]);
    assert_eq!((tables.tokens(sequence).unwrap(), tables.blocks_of(sequence)), (100, 2));
}

#[test]
fn prompts_that_must_be_whole_are() {
    let options = SchedulerOptions { step_tokens: 64, whole_prompts: true, ..SchedulerOptions::default() };
    let mut tables = BlockTables::new(64);
    let mut scheduler = Scheduler::new(options, 64);
    let states = vector(Pooling::Mean);
    let long = scheduler.submit(wanting(9, 65, states.clone(), 0), Duration::ZERO).unwrap_err();
    assert_eq!(long, Refusal::PromptTooLong { tokens: 65, context: 64 });
    for id in 0..6 {
        // Prefixes are equal but not shared.
        let request = Request { rows: states.clone(), ..request(id, 1, prompt(1, 40 + id as usize), 0) };
        scheduler.submit(request, Duration::ZERO).unwrap();
    }
    let served = serve(&mut scheduler, &mut tables);
    for id in 0..6 {
        assert_eq!(served.states[&id], all(0..40 + id as usize));
        assert_eq!((served.cached[&id], served.ends[&id]), (0, (Finish::Computed, 0)));
    }
    assert_eq!(served.steps, 6);
}

#[test]
fn of_whole_texts_the_first_to_come_is_in_every_step() {
    let options =
        SchedulerOptions { step_tokens: 64, running: 4, whole_prompts: true, ..SchedulerOptions::default() };
    let mut tables = BlockTables::new(64);
    let mut scheduler = Scheduler::new(options, 64);
    let mut left: Vec<u64> = (0..60).collect();
    for &id in &left {
        let n = if id % 7 == 3 { 60 } else { 4 + (id as usize * 5) % 29 };
        scheduler.submit(wanting(id, n, vector(Pooling::Mean), 0), Duration::ZERO).unwrap();
    }
    while let Some(&first) = left.first() {
        let step = scheduler.plan(Duration::ZERO, &mut tables).unwrap();
        assert!(step.scheduled.iter().any(|s| s.request == RequestId(first)), "{first}");
        for s in &step.scheduled {
            tables.advance(s.sequence, s.tokens);
            left.retain(|id| RequestId(*id) != s.request);
        }
        scheduler.commit(&[], &mut tables).unwrap();
    }
}

/// A head needs the whole prompt and nothing after it.
#[test]
fn a_head_with_tokens_to_generate_is_refused() {
    let mut scheduler = Scheduler::new(SchedulerOptions::default(), 8);
    let refused = scheduler.submit(wanting(1, 10, vector(Pooling::Mean), 1), Duration::ZERO);
    assert_eq!(refused, Err(Refusal::HeadWithAnswer));
}

#[test]
fn where_no_token_can_be_chosen_an_answer_stops_without() {
    let mut tables = BlockTables::new(8);
    let mut scheduler = Scheduler::new(SchedulerOptions::default(), 8);
    scheduler.submit(request(1, 1, prompt(1, 10), 5), Duration::ZERO).unwrap();
    let step = scheduler.plan(Duration::ZERO, &mut tables).unwrap();
    tables.advance(step.scheduled[0].sequence, 10);
    let none = |stop| [Chosen { request: RequestId(1), tokens: Vec::new(), stop }];
    assert!(scheduler.commit(&none(false), &mut tables).is_err());
    let ended = scheduler.commit(&none(true), &mut tables).unwrap();
    let request = RequestId(1);
    assert_eq!(ended, [Decision::Finished { request, finish: Finish::Stop, generated: 0 }]);
    assert!(scheduler.is_idle());
}
