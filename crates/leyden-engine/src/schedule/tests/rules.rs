//! Single rules.

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

#[test]
fn a_long_prompt_is_cut_beside_those_who_decode() {
    let mut sim = Sim::new(options(), 64);
    sim.submit(request(1, 1, prompt(1, 10), 100));
    sim.step();
    sim.submit(request(2, 2, prompt(2, 1000), 1));
    let mut chunks = Vec::new();
    while !sim.ends.contains_key(&RequestId(2)) {
        let step = sim.step();
        assert_eq!(step.scheduled[0].request, RequestId(1), "decodes in every step");
        chunks.extend(step.scheduled.get(1).map(|s| s.tokens));
    }
    assert_eq!(chunks, [[64; 15].as_slice(), &[40]].concat());
}

#[test]
fn a_step_takes_no_longer_where_many_wait_for_a_first_token() {
    let options = SchedulerOptions { prompt_tokens_beside_decode: 16, ..options() };
    for (decoding, prompts) in [(1, 1), (1, 2), (1, 7), (4, 4)] {
        let mut sim = Sim::new(options, 64);
        (0..decoding).for_each(|i| sim.submit(request(i, 1, prompt(i as u32, 10), 100)));
        sim.step();
        (0..prompts).for_each(|i| sim.submit(request(10 + i, 1, prompt(10 + i as u32, 200), 1)));
        let sum = sim.step().scheduled.iter().map(|s| s.tokens).sum::<usize>();
        assert_eq!(sum, decoding as usize + 16, "{prompts} prompts beside {decoding}");
    }
}

#[test]
fn no_estimate_of_costs_keeps_a_request_from_running() {
    for whole_prompts in [false, true] {
        let costs =
            SchedulerOptions { position_cost: 1e9, prompt_tokens_alone: 1, whole_prompts, ..options() };
        let mut sim = Sim::new(costs, 64);
        (1..=3).for_each(|i| sim.submit(request(i, 1, prompt(i as u32, 20), 3)));
        sim.drain(100);
    }
}

#[test]
fn nobody_decoding_a_prompt_gets_the_whole_budget() {
    let mut sim = Sim::new(options(), 64);
    sim.submit(request(2, 2, prompt(2, 1000), 1));
    let chunks: Vec<usize> = (0..4).map(|_| sim.step().scheduled[0].tokens).collect();
    assert_eq!(chunks, [256, 256, 256, 232]);
    sim.drain(1);
}

#[test]
fn higher_priority_takes_the_place_of_lower() {
    let mut sim = Sim::new(SchedulerOptions { running: 2, ..options() }, 64);
    (1..=3).for_each(|i| sim.submit(request(i, 1, prompt(i as u32, 100), 50)));
    (0..10).for_each(|_| drop(sim.step()));
    let mut urgent = request(9, 1, prompt(9, 100), 3);
    urgent.priority = 1;
    sim.submit(urgent);
    let step = sim.step();
    assert!(step.decisions.contains(&Decision::Preempted { request: RequestId(2) }), "{:?}", step.decisions);
    assert!(step.scheduled.iter().any(|s| s.request == RequestId(9)));
    while sim.ends.is_empty() {
        sim.step();
    }
    assert_eq!(sim.ends.keys().next(), Some(&RequestId(9)));
    // The first of the waiting requests is the one that was there before.
    let step = sim.step();
    assert!(matches!(step.decisions[..], [Decision::Admitted { request: RequestId(2), cached_tokens: 64 }]));
    sim.drain(1000);
    (1..=3).for_each(|i| assert_eq!(sim.answers[&RequestId(i)], answer(&prompt(i as u32, 100), 50)));
}

#[test]
fn a_prompt_that_is_being_computed_is_waited_for_and_shared() {
    let mut sim = Sim::new(options(), 64);
    // Four answers to one prompt, and another, longer question of the same key.
    (1..=4).for_each(|i| sim.submit(request(i, 1, prompt(1, 500), 20)));
    sim.submit(request(5, 1, prompt(5, 600), 20));
    let first = sim.step();
    assert_eq!(first.scheduled.len(), 1);
    let second = sim.step();
    assert_eq!(
        second.scheduled.iter().map(|s| s.tokens).collect::<Vec<_>>(),
        [244, 12],
        "the other does not wait"
    );
    let mut cached = Vec::new();
    while cached.len() < 3 {
        let admitted = |d: &Decision| match d {
            Decision::Admitted { cached_tokens, .. } => Some(*cached_tokens),
            _ => None,
        };
        cached.extend(sim.step().decisions.iter().filter_map(admitted));
    }
    assert_eq!(cached, [448; 3]);
    let held: usize = sim.scheduler.running.iter().map(|t| sim.tables.blocks_of(t.sequence.unwrap())).sum();
    assert!(sim.tables.total_blocks() - sim.tables.available_blocks() <= held - 3 * 7);
    sim.drain(100);
}

#[test]
fn keys_do_not_share_blocks_unless_the_scope_says_so() {
    let mut sim = Sim::new(options(), 64);
    sim.submit(request(1, 1, prompt(1, 300), 2));
    sim.drain(20);
    sim.submit(request(2, 2, prompt(1, 300), 2));
    sim.drain(20);
    assert_eq!(sim.cached, 0);
    let mut shared = request(3, 3, prompt(1, 300), 2);
    shared.scope = Some(scope(1));
    sim.submit(shared);
    sim.drain(20);
    assert_eq!(sim.cached, 256);
    let mut alone = request(4, 1, prompt(1, 300), 2);
    alone.scope = None;
    sim.submit(alone);
    sim.drain(20);
    assert_eq!(sim.cached, 256);
}

#[test]
fn what_cannot_be_served_is_refused_and_says_why() {
    let o = SchedulerOptions { context: 300, vocabulary: 100, waiting: 3, waiting_per_key: 2, ..options() };
    let mut sim = Sim::new(o, 4);
    let mut refused = |r: Request| sim.scheduler.submit(r, Duration::from_secs(5)).unwrap_err();
    assert_eq!(refused(request(1, 1, vec![], 1)), Refusal::EmptyPrompt);
    assert_eq!(refused(request(1, 1, vec![1, 100], 1)), Refusal::Token { id: 100, vocabulary: 100 });
    assert_eq!(refused(request(1, 1, vec![1; 301], 1)), Refusal::PromptTooLong { tokens: 301, context: 300 });
    assert_eq!(refused(request(1, 1, vec![1; 200], 58)), Refusal::CacheTooSmall { tokens: 257, room: 256 });
    assert_eq!(
        refused(request(1, 1, vec![1; 200], usize::MAX)),
        Refusal::CacheTooSmall { tokens: 300, room: 256 }
    );
    let late = Request { deadline: Some(Duration::from_secs(5)), ..request(1, 1, vec![1], 1) };
    assert_eq!(refused(late), Refusal::Late);
    sim.submit(request(1, 1, vec![1; 200], 57));
    let duplicate = sim.scheduler.submit(request(1, 1, vec![1], 1), Duration::ZERO);
    assert_eq!(duplicate, Err(Refusal::Duplicate));
    sim.submit(request(2, 1, vec![1; 10], 5));
    let third = sim.scheduler.submit(request(3, 1, vec![1], 1), Duration::ZERO);
    assert_eq!(third, Err(Refusal::KeyQueueFull { retry_after: Duration::from_secs(1) }));
    sim.submit(request(3, 2, vec![1; 10], 5));
    let fourth = sim.scheduler.submit(request(4, 3, vec![1], 1), Duration::ZERO);
    assert_eq!(fourth, Err(Refusal::QueueFull { retry_after: Duration::from_secs(2) }));
    sim.drain(500);
    assert!(sim.ends.values().all(|f| *f == Finish::Length));
    assert_eq!(sim.answers[&RequestId(1)].len(), 57);
}

#[test]
fn an_answer_ends_where_the_context_does() {
    let mut sim = Sim::new(SchedulerOptions { context: 50, ..options() }, 4);
    sim.submit(request(1, 1, prompt(1, 40), 1000));
    sim.submit(request(2, 1, prompt(1, 50), 1000));
    sim.drain(50);
    assert_eq!((sim.answers[&RequestId(1)].len(), sim.answers[&RequestId(2)].len()), (11, 1));
}

#[test]
fn results_that_are_not_the_plans_are_refused() {
    let mut sim = Sim::new(options(), 8);
    sim.submit(request(1, 1, prompt(1, 20), 5));
    sim.submit(request(2, 1, prompt(2, 300), 5));
    let step = sim.plan();
    assert!(sim.scheduler.plan(sim.now, &mut sim.tables).is_err(), "under way");
    step.scheduled.iter().for_each(|s| sim.tables.advance(s.sequence, s.tokens));
    let chosen = |request: u64, tokens: &[u32]| Chosen {
        request: RequestId(request),
        tokens: tokens.to_vec(),
        stop: false,
    };
    let wrong = [
        vec![],
        vec![chosen(1, &[])],
        vec![chosen(1, &[1, 2])],
        vec![chosen(1, &[1]), chosen(1, &[1])],
        vec![chosen(1, &[1]), chosen(2, &[1])],
        vec![chosen(1, &[1]), chosen(3, &[1])],
    ];
    for c in wrong {
        assert!(sim.scheduler.commit(&c, &mut sim.tables).is_err(), "{c:?}");
    }
    sim.scheduler
        .commit(&[Chosen { stop: true, ..chosen(1, &[1]) }], &mut sim.tables)
        .map(|d| sim.note(&d))
        .unwrap();
    assert_eq!(sim.ends[&RequestId(1)], Finish::Stop);
    assert!(sim.scheduler.commit(&[chosen(2, &[1])], &mut sim.tables).is_err(), "nothing is under way");
}

#[test]
fn texts_that_repeat_themselves_take_fewer_steps() {
    let steps = |speculate| {
        let mut sim = Sim::new(options(), 64);
        let mut r = request(1, 1, prompt(1, 60), 400);
        r.speculate = speculate;
        sim.submit(r);
        let mut steps = 0;
        while !sim.scheduler.is_idle() {
            sim.step();
            steps += 1;
        }
        assert_eq!(sim.answers[&RequestId(1)], answer(&prompt(1, 60), 400));
        (steps, sim.drafts)
    };
    let (plain, none) = steps(false);
    let (fewer, (accepted, drafted)) = steps(true);
    assert_eq!(none, (0, 0));
    assert!(accepted * 2 > drafted, "{accepted} of {drafted}");
    assert!(fewer * 10 < plain * 8, "{fewer} against {plain}");
}
