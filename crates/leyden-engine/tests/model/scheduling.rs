//! Answers do not depend on scheduling: alone, beside others, in chunks, from the cache, after preemption, with drafts,
//! on any number of threads.

use super::recurrent;
use super::shared::{embedded, engine};
use leyden_engine::sample::{Sampler, SamplingParams};
use leyden_engine::schedule::{
    Chosen, Decision, KeyId, PromptRows, Request, RequestId, Scheduler, SchedulerOptions, verify,
};
use leyden_engine::{AdapterSet, BlockTables, Engine, Scope};
use leyden_kernels::Tier;
use leyden_kernels::attention::KvType;
use leyden_tensor::Gguf;
use leyden_testkit::emulated;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A text that begins as the others do; some repeat themselves.
fn prompt(i: u32, vocabulary: usize) -> Vec<u32> {
    let shared = (0..130).map(|t| (t * 31 + 5) % 4000);
    let own = (0..10 + i * 5)
        .map(|t| if i.is_multiple_of(3) { t % 9 + 40 * i } else { (t * t * 17 + i * 101) % 4000 });
    shared.chain(own).map(|t| t % vocabulary as u32).collect()
}

fn machine(threads: usize, kv_type: KvType) -> Engine {
    engine(Arc::new(Gguf::open(&embedded()).unwrap()), Tier::best(), threads, kv_type)
}

/// Events besides the answers.
#[derive(Debug, Default, PartialEq)]
struct Events {
    cached_tokens: usize,
    preemptions: usize,
    accepted: usize,
    most_in_a_step: usize,
}

struct Server {
    engine: Engine,
    scheduler: Scheduler,
}

impl Server {
    /// `blocks` are those that may be used of the engine's cache; the rest is held by a sequence that does nothing.
    fn new(mut engine: Engine, options: SchedulerOptions, blocks: usize) -> Server {
        let tables = engine.tables_mut();
        let held = (tables.total_blocks() - blocks) * 64;
        let id = tables.open();
        assert!(tables.reserve(id, held));
        Server { engine, scheduler: Scheduler::new(options, blocks) }
    }

    /// Answers all requests. Every other one is greedy, the others are drawn.
    fn answer(&mut self, which: &[u32], speculate: bool) -> (BTreeMap<u32, Vec<u32>>, Events) {
        let mut samplers = BTreeMap::new();
        let mut answers = BTreeMap::new();
        let mut events = Events::default();
        for &i in which {
            let (vocabulary, tier) = (self.engine.model().vocabulary(), self.engine.cpu().tier());
            let temperature = if i.is_multiple_of(2) { 0.0 } else { 0.8 };
            let params = SamplingParams { seed: u64::from(i), temperature, ..SamplingParams::default() };
            let mut sampler = Sampler::new(params, 0, tier, vocabulary).unwrap();
            let prompt = prompt(i, vocabulary);
            sampler.accept(&prompt);
            samplers.insert(RequestId(u64::from(i)), sampler);
            answers.insert(i, Vec::new());
            let scope = Scope {
                model: "storyteller".to_owned(),
                kv_type: self.engine.options().kv_type,
                owner: (i % 3).to_string(),
                adapters: AdapterSet::default(),
                salt: String::new(),
            };
            let request = Request {
                id: RequestId(u64::from(i)),
                key: KeyId(i % 3),
                priority: 0,
                prompt,
                max_tokens: 30,
                scope: Some(Arc::new(scope)),
                adapters: AdapterSet::default(),
                deadline: None,
                speculate,
                rows: PromptRows::None,
                held: None,
            };
            self.scheduler.submit(request, Duration::ZERO).unwrap();
        }
        while !self.scheduler.is_idle() {
            let step = self.scheduler.plan(Duration::ZERO, self.engine.tables_mut()).unwrap();
            for d in &step.decisions {
                match d {
                    Decision::Admitted { cached_tokens, .. } => events.cached_tokens += cached_tokens,
                    Decision::Preempted { .. } => events.preemptions += 1,
                    Decision::Finished { .. } | Decision::Refused { .. } => {}
                }
            }
            events.most_in_a_step = events.most_in_a_step.max(step.scheduled.len());
            let output = self.engine.step(&step.plan).unwrap();
            let rows: Vec<_> = output.rows().collect();
            let mut rest = &rows[..];
            let mut chosen = Vec::new();
            for (s, e) in step.scheduled.iter().zip(&step.plan.entries).filter(|(s, _)| s.samples) {
                let (own, others) = rest.split_at(s.drafted + 1);
                rest = others;
                let sampler = samplers.get_mut(&s.request).unwrap();
                let choose = |row: usize| {
                    let row = &own[row];
                    assert_eq!(row.sequence, s.sequence);
                    let token = sampler.sample(row.logits, row.position + 1)?;
                    sampler.accept(&[token]);
                    Ok::<u32, leyden_engine::Error>(token)
                };
                let tokens = verify(&e.tokens[s.tokens - s.drafted..], choose).unwrap();
                events.accepted += tokens.len() - 1;
                answers.get_mut(&(s.request.0 as u32)).unwrap().extend(&tokens);
                chosen.push(Chosen { request: s.request, tokens, stop: false });
            }
            self.scheduler.commit(&chosen, self.engine.tables_mut()).unwrap();
        }
        (answers, events)
    }

    fn tables(&self) -> &BlockTables {
        self.engine.tables()
    }
}

const ALL: usize = 8 * 1024 / 64;

fn wide() -> SchedulerOptions {
    SchedulerOptions { step_tokens: 2048, prompt_tokens_beside_decode: 512, ..SchedulerOptions::default() }
}

/// Every request alone, on an engine that has seen none before.
fn alone(which: &[u32], kv_type: KvType) -> BTreeMap<u32, Vec<u32>> {
    alone_on(which, wide(), || machine(1, kv_type))
}

fn alone_on(
    which: &[u32],
    options: SchedulerOptions,
    machine: impl Fn() -> Engine,
) -> BTreeMap<u32, Vec<u32>> {
    let answer = |i: &u32| {
        let engine = machine();
        let blocks = engine.tables().total_blocks();
        let mut server = Server::new(engine, options, blocks);
        let (answers, events) = server.answer(&[*i], false);
        assert_eq!(events, Events { most_in_a_step: 1, ..Events::default() });
        answers
    };
    which.iter().flat_map(answer).collect()
}

#[test]
fn any_schedule_gives_the_same_tokens() {
    let requests = if emulated() { 12 } else { 32 };
    let which: Vec<u32> = (0..requests).collect();
    let want = alone(&which, KvType::F16);
    assert!(want.values().all(|a| a.len() == 30));
    // To cut work into shares is nothing that a processor does differently, so an emulator gets one team.
    for &threads in if emulated() { &[2][..] } else { &[1, 2, 3] } {
        // All together, without limits; then from the cache; then with drafts.
        let mut server = Server::new(machine(threads, KvType::F16), wide(), ALL);
        let (got, events) = server.answer(&which, false);
        assert!(got == want, "together, {threads} threads");
        assert_eq!((events.most_in_a_step, events.preemptions), (requests as usize, 0));
        let (got, events) = server.answer(&which, false);
        assert!(got == want, "cached, {threads} threads");
        assert!(events.cached_tokens >= requests as usize * 128, "{events:?}");
        server.scheduler.tune(|o| (o.prompt_tokens_beside_decode, o.weights_read_tokens) = (512, 400.0));
        let (got, events) = server.answer(&which, true);
        assert!(got == want, "guessed, {threads} threads");
        assert!(events.accepted > requests as usize / 2, "{events:?}");
        assert_eq!(server.tables().available_blocks(), ALL);
        // In small pieces, with so few blocks that answers outgrow them.
        let narrow =
            SchedulerOptions { step_tokens: 48, prompt_tokens_beside_decode: 7, running: 9, ..wide() };
        let few = if emulated() { 10 } else { 20 };
        let mut server = Server::new(machine(threads, KvType::F16), narrow, few);
        let (got, events) = server.answer(&which, true);
        assert!(got == want, "in chunks and preempted, {threads} threads");
        assert!(events.preemptions > 0, "{events:?}");
        assert_eq!(server.tables().available_blocks(), few);
    }
}

#[test]
fn any_way_of_storing_gives_its_own_tokens() {
    let which: Vec<u32> = (0..if emulated() { 8 } else { 12 }).collect();
    for kv_type in [KvType::F32, KvType::Q8_0] {
        let want = alone(&which, kv_type);
        let narrow =
            SchedulerOptions { step_tokens: 48, prompt_tokens_beside_decode: 7, running: 6, ..wide() };
        let mut server = Server::new(machine(2, kv_type), narrow, 16);
        for _ in 0..2 {
            let (got, events) = server.answer(&which, true);
            assert!(got == want, "{kv_type}");
            assert!(events.cached_tokens > 0);
        }
    }
}

#[test]
fn recurrent_models_give_the_same_tokens_from_checkpoints_and_after_preemption() {
    let which: Vec<u32> = (6..if emulated() { 12 } else { 15 }).collect();
    let wide = SchedulerOptions { step_tokens: 512, ..wide() };
    for name in ["granitehybrid", "lfm2", "mamba2", "qwen3next"] {
        let want = alone_on(&which, wide, || recurrent::engine(name, 0, 64));
        let mut preemptions = 0;
        for checkpoints in [0, 3, 32] {
            let mut server = Server::new(recurrent::engine(name, checkpoints, 64), wide, 64);
            let (got, first) = server.answer(&which, true);
            assert!(got == want, "{name}, {checkpoints}: together");
            let (got, second) = server.answer(&which, true);
            assert!(got == want, "{name}, {checkpoints}: again");
            // Of each of three keys one request computes the common prefix, and the next time none does.
            let cached =
                (first.cached_tokens >= (which.len() - 3) * 128, second.cached_tokens >= which.len() * 128);
            assert!(checkpoints != 32 || cached == (true, true), "{name}: {first:?} {second:?}");
            assert!(checkpoints > 0 || first.cached_tokens + second.cached_tokens == 0, "{name}");
            let narrow =
                SchedulerOptions { step_tokens: 48, prompt_tokens_beside_decode: 7, running: 6, ..wide };
            let mut server = Server::new(recurrent::engine(name, checkpoints, 64), narrow, 10);
            let (got, events) = server.answer(&which, true);
            assert!(got == want, "{name}, {checkpoints}: in chunks and preempted");
            preemptions += events.preemptions;
            assert_eq!(server.tables().available_blocks(), 10);
        }
        assert!(preemptions > 0, "{name}");
    }
}
