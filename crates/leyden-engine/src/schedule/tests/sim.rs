//! Simulated engine that runs plans without a model: it stores tokens in place of keys and values, reads them back
//! through the tables, and derives the next token from all of them. So a right token proves that it was computed from
//! the right blocks.

use crate::engine::Outputs;
use crate::prefix::Scope;
use crate::schedule::*;
use crate::tables::BlockTables;
use leyden_kernels::attention::KvType;
use leyden_models::AdapterSet;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Returns the next token of a text that repeats itself with changes. Depends on every token so far.
pub(super) fn next_token(text: &[u32]) -> u32 {
    let hash = text.iter().fold(17_u64, |h, t| (h ^ u64::from(*t)).wrapping_mul(0x0100_0000_01b3));
    let fresh = ((hash >> 20) % 50) as u32;
    if (hash >> 40).is_multiple_of(5) { fresh } else { text.len().checked_sub(7).map_or(fresh, |i| text[i]) }
}

/// Returns the tokens that a request must generate.
pub(super) fn answer(prompt: &[u32], n: usize) -> Vec<u32> {
    let mut text = prompt.to_vec();
    for _ in 0..n {
        text.push(next_token(&text));
    }
    text.split_off(prompt.len())
}

pub(super) fn scope(owner: u32) -> Arc<Scope> {
    let (model, adapters, salt) = ("m".to_owned(), AdapterSet::default(), String::new());
    Arc::new(Scope { model, kv_type: KvType::F16, owner: owner.to_string(), adapters, salt })
}

/// Returns a request with default settings.
pub(super) fn request(id: u64, key: u32, prompt: Vec<u32>, max_tokens: usize) -> Request {
    Request {
        id: RequestId(id),
        key: KeyId(key),
        priority: 0,
        prompt,
        max_tokens,
        scope: Some(scope(key)),
        adapters: AdapterSet::default(),
        deadline: None,
        speculate: false,
        rows: PromptRows::None,
        held: None,
    }
}

/// Returns a different text for each seed.
pub(super) fn prompt(seed: u32, tokens: usize) -> Vec<u32> {
    (0..tokens as u32).map(|i| (i * (seed % 13 + 3) + seed) % 97).collect()
}

pub(super) struct Sim {
    pub(super) scheduler: Scheduler,
    pub(super) tables: BlockTables,
    pub(super) now: Duration,
    memory: HashMap<(u32, usize), u32>,
    /// Tokens generated for each request.
    pub(super) answers: BTreeMap<RequestId, Vec<u32>>,
    pub(super) ends: BTreeMap<RequestId, Finish>,
    pub(super) preemptions: usize,
    pub(super) cached: usize,
    /// Numbers of accepted draft tokens and of draft tokens.
    pub(super) drafts: (usize, usize),
}

impl Sim {
    pub(super) fn new(options: SchedulerOptions, blocks: u32) -> Sim {
        Sim {
            scheduler: Scheduler::new(options, blocks as usize),
            tables: BlockTables::new(blocks),
            now: Duration::ZERO,
            memory: HashMap::new(),
            answers: BTreeMap::new(),
            ends: BTreeMap::new(),
            preemptions: 0,
            cached: 0,
            drafts: (0, 0),
        }
    }

    pub(super) fn submit(&mut self, request: Request) {
        self.answers.insert(request.id, Vec::new());
        self.scheduler.submit(request, self.now).unwrap();
    }

    pub(super) fn cancel(&mut self, id: u64) -> bool {
        self.scheduler.cancel(RequestId(id), &mut self.tables)
    }

    /// Runs one step, which takes a second.
    pub(super) fn step(&mut self) -> Step {
        let step = self.plan();
        self.finish(&step);
        step
    }

    pub(super) fn plan(&mut self) -> Step {
        self.now += Duration::from_secs(1);
        let rank = |s: &Scheduler| {
            let eldest = s.running.iter().find(|t| Some(t.request.id) == s.eldest());
            eldest.map(|t| (t.request.id, (std::cmp::Reverse(t.request.priority), t.order)))
        };
        let before = rank(&self.scheduler);
        let decoding: Vec<RequestId> =
            self.scheduler.running.iter().filter(|t| t.decodes()).map(|t| t.request.id).collect();
        let step = self.scheduler.plan(self.now, &mut self.tables).unwrap();
        self.tables.check();
        self.judge(&step, &decoding);
        // The oldest task gets at least one token, and is replaced only by an older one.
        let after = rank(&self.scheduler);
        if let Some((id, rank)) = after {
            assert!(step.scheduled.iter().any(|s| s.request == id), "the eldest gets on");
            if let Some((id, before)) = before {
                let preempted = step.decisions.contains(&Decision::Preempted { request: id });
                assert!(!preempted || rank < before, "the eldest made way for {rank:?}");
            }
        }
        self.note(&step.decisions);
        step
    }

    /// Asserts the invariants of every plan.
    fn judge(&self, step: &Step, decoding: &[RequestId]) {
        let o = self.scheduler.options();
        assert_eq!(step.plan.entries.len(), step.scheduled.len());
        let total: usize = step.scheduled.iter().map(|s| s.tokens).sum();
        assert!(total <= o.step_tokens, "{total} tokens");
        let decodes: Vec<_> = step.scheduled.iter().filter(|s| decoding.contains(&s.request)).collect();
        if !decodes.is_empty() {
            let prompts = total - decodes.len();
            let most = o.prompt_tokens_beside_decode;
            assert!(prompts <= most, "{prompts} of {most} beside those that decode");
        }
        for id in decoding {
            let preempted = step.decisions.contains(&Decision::Preempted { request: *id });
            let ended = self.ends.contains_key(id)
                || step
                    .decisions
                    .iter()
                    .any(|d| matches!(d, Decision::Finished { request, .. } if request == id));
            assert!(preempted || ended || decodes.iter().any(|s| s.request == *id), "everybody decodes");
        }
        assert!(self.scheduler.running() <= o.running);
        let ids: std::collections::BTreeSet<_> = step.scheduled.iter().map(|s| s.sequence).collect();
        assert_eq!(ids.len(), step.scheduled.len(), "a sequence stands once");
        for (s, e) in step.scheduled.iter().zip(&step.plan.entries) {
            assert_eq!((s.sequence, s.tokens), (e.sequence, e.tokens.len()));
            assert!(!e.tokens.is_empty());
            assert_eq!(s.position, self.tables.tokens(s.sequence).unwrap());
            assert!(
                self.tables.blocks_of(s.sequence) * BLOCK_TOKENS >= s.position + s.tokens,
                "room is reserved"
            );
            let outputs = if !s.samples {
                Outputs::None
            } else if s.drafted > 0 {
                Outputs::From(0)
            } else {
                Outputs::Last
            };
            assert_eq!(e.outputs, outputs);
        }
    }

    /// Runs and commits a plan.
    pub(super) fn finish(&mut self, step: &Step) {
        if step.scheduled.is_empty() {
            return;
        }
        let mut chosen = Vec::new();
        for (s, e) in step.scheduled.iter().zip(&step.plan.entries) {
            let blocks = &self.tables.get(s.sequence).unwrap().blocks;
            for (i, token) in (s.position..).zip(&e.tokens) {
                self.memory.insert((blocks[i / BLOCK_TOKENS], i % BLOCK_TOKENS), *token);
            }
            let text: Vec<u32> = (0..s.position + s.tokens)
                .map(|i| self.memory[&(blocks[i / BLOCK_TOKENS], i % BLOCK_TOKENS)])
                .collect();
            self.tables.advance(s.sequence, s.tokens);
            if s.samples {
                let first = text.len() - s.drafted;
                let choose = |row: usize| Ok::<u32, ()>(next_token(&text[..first + row]));
                let tokens = verify(&e.tokens[s.tokens - s.drafted..], choose).unwrap();
                self.drafts.0 += tokens.len() - 1;
                self.drafts.1 += s.drafted;
                chosen.push(Chosen { request: s.request, tokens, stop: false });
            }
        }
        for c in &chosen {
            self.answers.get_mut(&c.request).unwrap().extend(&c.tokens);
        }
        let decisions = self.scheduler.commit(&chosen, &mut self.tables).unwrap();
        self.note(&decisions);
        self.tables.check();
    }

    pub(super) fn note(&mut self, decisions: &[Decision]) {
        for d in decisions {
            match *d {
                Decision::Finished { request, finish, .. } => {
                    assert!(self.ends.insert(request, finish).is_none(), "{request:?} ended twice");
                }
                Decision::Preempted { .. } | Decision::Refused { .. } => {
                    self.preemptions += usize::from(matches!(d, Decision::Preempted { .. }));
                }
                Decision::Admitted { cached_tokens, .. } => self.cached += cached_tokens,
            }
        }
    }

    /// Runs steps until nothing is left; fails after too many.
    pub(super) fn drain(&mut self, most: usize) {
        for _ in 0..most {
            if self.scheduler.is_idle() {
                assert_eq!(self.tables.available_blocks(), self.tables.total_blocks());
                assert_eq!(self.tables.open_sequences(), 0);
                return;
            }
            self.step();
        }
        panic!("{} wait and {} run after {most} steps", self.scheduler.waiting(), self.scheduler.running());
    }
}
