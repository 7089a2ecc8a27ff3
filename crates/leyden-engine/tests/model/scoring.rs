//! Logits and hidden states of prompts do not depend on how they were scheduled: in any chunks and beside any other
//! requests they are those of one step for the whole text.

use super::shared::{embedded, engine, one};
use leyden_engine::schedule::{
    Decision, Finish, KeyId, PromptRows, Request, RequestId, Scheduler, SchedulerOptions,
};
use leyden_engine::{
    AdapterSet, Answer, Engine, Error, Generator, OutputRow, Outputs, Pool, Pooling, Scope, TokenLogprobs,
};
use leyden_kernels::Tier;
use leyden_kernels::attention::KvType;
use leyden_models::heads::{HeadOutput, PooledStates};
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

/// Computed in one step, without a scheduler.
fn whole(engine: &mut Engine, text: &[u32]) -> Told {
    let sequence = engine.open();
    let output = engine.step(&one(sequence, text, Outputs::From(0))).unwrap();
    let targets = output.rows().zip(&text[1..]);
    let told = targets.map(|(row, token)| TokenLogprobs::of(row.logits, *token, 3)).collect();
    let mut pool = Pool::new(Pooling::Mean);
    output.rows().for_each(|row| pool.push(row.position, row.state));
    engine.close(sequence);
    (told, bits(&pool.into_vector()))
}

/// Requested results for a text.
enum Asked {
    Scores(Vec<TokenLogprobs>),
    Vector(Option<Vec<f32>>),
    Tokens(usize),
}

impl Answer for Asked {
    fn scores(&self) -> Option<usize> {
        matches!(self, Asked::Scores(_)).then_some(3)
    }

    fn score(&mut self, scored: Vec<TokenLogprobs>) {
        let Asked::Scores(all) = self else { panic!("scores that nobody asked for") };
        all.extend(scored);
    }

    fn output(&mut self, output: Result<HeadOutput, Error>) {
        let Asked::Vector(vector) = self else { panic!("an output that nobody asked for") };
        let HeadOutput::Vectors { values, .. } = output.unwrap() else { panic!("another output") };
        assert!(vector.replace(values).is_none(), "an output comes once");
    }

    fn choose(&mut self, rows: &[OutputRow<'_>], draft: &[u32]) -> (Vec<u32>, bool) {
        let Asked::Tokens(count) = self else { panic!("a token that nobody asked for") };
        assert_eq!((rows.len(), draft.len()), (1, 0));
        *count += 1;
        (vec![5], false)
    }
}

/// Computed by a generator, beside answers to the same texts. Returns the engine.
fn scheduled(engine: Engine, options: SchedulerOptions) -> (Engine, BTreeMap<u32, Told>) {
    let scheduler = Scheduler::new(options, engine.tables().total_blocks());
    let mut generator = Generator::new(engine, scheduler);
    let scope = Arc::new(Scope {
        model: "storyteller".to_owned(),
        kv_type: KvType::F16,
        owner: String::new(),
        adapters: AdapterSet::default(),
        salt: String::new(),
    });
    for i in 0..4 {
        let asked = [
            (PromptRows::Logits { from: 0 }, Asked::Scores(Vec::new())),
            (PromptRows::head(PooledStates { pooling: Pooling::Mean }), Asked::Vector(None)),
            (PromptRows::None, Asked::Tokens(0)),
        ];
        for (kind, (rows, asked)) in (0..).zip(asked) {
            let request = Request {
                id: RequestId(u64::from(i) * 3 + kind),
                key: KeyId(0),
                priority: 0,
                prompt: text(i),
                max_tokens: if rows == PromptRows::None { 4 } else { 0 },
                scope: Some(Arc::clone(&scope)),
                adapters: AdapterSet::default(),
                deadline: None,
                speculate: false,
                rows,
                held: None,
            };
            assert!(generator.submit(request, asked, Duration::ZERO).is_ok());
        }
    }
    let mut told = BTreeMap::<u32, Told>::new();
    while !generator.is_idle() {
        let step = generator.plan(Duration::ZERO).unwrap();
        let outcome = generator.compute(&step).unwrap();
        assert!(outcome.failed.is_none());
        for decision in outcome.decisions {
            let Decision::Finished { request, finish, generated } = decision else { continue };
            let (_, asked) = generator.take(request).unwrap();
            let of = told.entry((request.0 / 3) as u32).or_default();
            let wanted = match asked {
                Asked::Scores(scores) => {
                    of.0 = scores;
                    (Finish::Computed, 0)
                }
                Asked::Vector(vector) => {
                    of.1 = bits(&vector.unwrap());
                    (Finish::Computed, 0)
                }
                Asked::Tokens(count) => (Finish::Length, count),
            };
            assert_eq!((finish, generated), wanted);
        }
    }
    assert!(generator.active().next().is_none());
    (generator.into_engine(), told)
}

#[test]
fn scores_and_states_do_not_depend_on_how_a_text_is_cut() {
    let mut engine = machine();
    let want: BTreeMap<u32, Told> = (0..4).map(|i| (i, whole(&mut engine, &text(i)))).collect();
    assert!(want.iter().all(|(i, told)| told.0.len() == text(*i).len() - 1));
    for (step_tokens, logit_rows) in [(2048, usize::MAX), (48, 7), (2048, 33)] {
        let options = SchedulerOptions { step_tokens, logit_rows, ..SchedulerOptions::default() };
        let got;
        (engine, got) = scheduled(engine, options);
        assert!(got == want, "{step_tokens} tokens and {logit_rows} rows a step");
    }
    assert_eq!(engine.tables().available_blocks(), engine.tables().total_blocks());
}
