//! Rows of prompts do not depend on how they were scheduled: their logits and states, in any chunks and company, are
//! those of one step for the whole text.

use super::shared::{embedded, engine, one};
use leyden_engine::schedule::Decision;
use leyden_engine::schedule::{
    Chosen, Finish, KeyId, PromptRows, Request, RequestId, Scheduler, SchedulerOptions,
};
use leyden_engine::{Engine, Outputs, Pool, Pooling, Scope, TokenLogprobs};
use leyden_kernels::Tier;
use leyden_kernels::attention::KvType;
use leyden_tensor::Gguf;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Texts that begin alike and differ in length.
fn text(i: u32) -> Vec<u32> {
    let shared = (0..70).map(|t| (t * 31 + 5) % 4000);
    shared.chain((0..8 + 21 * i).map(|t| (t * t * 17 + i * 101) % 4000)).collect()
}

fn machine() -> Engine {
    engine(Arc::new(Gguf::open(&embedded()).unwrap()), Tier::best(), 2, KvType::F16)
}

/// The log probabilities of a text's tokens from the second on, and its vector.
type Told = (Vec<TokenLogprobs>, Vec<u32>);

fn bits(vector: &[f32]) -> Vec<u32> {
    vector.iter().map(|x| x.to_bits()).collect()
}

/// In one step, without a scheduler.
fn whole(engine: &mut Engine, text: &[u32]) -> Told {
    let sequence = engine.open();
    let output = engine.step(&one(sequence, text, Outputs::From(0))).unwrap();
    let targets = output.rows().zip(&text[1..]);
    let told = targets.map(|(row, token)| TokenLogprobs::of(row.logits, *token, 3)).collect();
    let mut pool = Pool::new(Pooling::Mean);
    output.rows().for_each(|row| pool.push(row.position, row.state));
    engine.close(sequence);
    (told, bits(&pool.vector()))
}

/// By a scheduler, beside answers to the same texts.
fn scheduled(engine: &mut Engine, options: SchedulerOptions) -> BTreeMap<u32, Told> {
    let mut scheduler = Scheduler::new(options, engine.tables().total_blocks());
    let scope = Arc::new(Scope {
        model: "storyteller".to_owned(),
        kv_type: KvType::F16,
        owner: String::new(),
        adapter: String::new(),
        salt: String::new(),
    });
    for i in 0..4 {
        let works = [PromptRows::Logits { from: 0 }, PromptRows::States { from: 0 }, PromptRows::None];
        for (kind, rows) in (0..).zip(works) {
            let request = Request {
                id: RequestId(u64::from(i) * 3 + kind),
                key: KeyId(0),
                priority: 0,
                prompt: text(i),
                max_tokens: if rows == PromptRows::None { 4 } else { 0 },
                scope: Some(Arc::clone(&scope)),
                deadline: None,
                speculate: false,
                rows,
                held: None,
            };
            scheduler.submit(request, Duration::ZERO).unwrap();
        }
    }
    let mut told = BTreeMap::<u32, (Vec<TokenLogprobs>, Pool)>::new();
    while !scheduler.is_idle() {
        let step = scheduler.plan(Duration::ZERO, engine.tables_mut()).unwrap();
        let output = engine.step(&step.plan).unwrap();
        let (mut rows, mut states) = (output.rows(), output.states());
        let mut chosen = Vec::new();
        for (s, entry) in step.scheduled.iter().zip(&step.plan.entries) {
            let i = (s.request.0 / 3) as u32;
            let (scores, pool) = told.entry(i).or_insert_with(|| (Vec::new(), Pool::new(Pooling::Mean)));
            match entry.outputs {
                Outputs::None => {}
                Outputs::States(from) => {
                    for row in states.by_ref().take(s.tokens - from) {
                        assert_eq!(row.sequence, s.sequence);
                        pool.push(row.position, row.state);
                    }
                }
                Outputs::From(from) => {
                    for row in rows.by_ref().take(s.tokens - from) {
                        assert_eq!(row.sequence, s.sequence);
                        let next = text(i).get(row.position + 1).copied();
                        scores.extend(next.map(|token| TokenLogprobs::of(row.logits, token, 3)));
                    }
                }
                Outputs::Last => {
                    assert_eq!(rows.next().unwrap().sequence, s.sequence);
                    chosen.push(Chosen { request: s.request, tokens: vec![5], stop: false });
                }
            }
        }
        drop((rows, states));
        for decision in scheduler.commit(&chosen, engine.tables_mut()).unwrap() {
            let Decision::Finished { finish, generated, .. } = decision else { continue };
            assert!(matches!((finish, generated), (Finish::Computed, 0) | (Finish::Length, 4)));
        }
    }
    told.into_iter().map(|(i, (scores, pool))| (i, (scores, bits(&pool.vector())))).collect()
}

#[test]
fn scores_and_states_do_not_depend_on_how_a_text_is_cut() {
    let mut engine = machine();
    let want: BTreeMap<u32, Told> = (0..4).map(|i| (i, whole(&mut engine, &text(i)))).collect();
    assert!(want.iter().all(|(i, told)| told.0.len() == text(*i).len() - 1));
    for (step_tokens, logit_rows) in [(2048, usize::MAX), (48, 7), (2048, 33)] {
        let options = SchedulerOptions { step_tokens, logit_rows, ..SchedulerOptions::default() };
        let got = scheduled(&mut engine, options);
        assert!(got == want, "{step_tokens} tokens and {logit_rows} rows a step");
    }
    assert_eq!(engine.tables().available_blocks(), engine.tables().total_blocks());
}
