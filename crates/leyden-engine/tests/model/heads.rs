//! Heads that a generator computes: the outputs of a text have the same bits alone and beside others, in any chunks and
//! after a preemption, and a request that the model cannot serve is refused.

use super::converted_encoders::cases;
use super::encoders::{self, states};
use super::shared::{embedded, engine_on, one};
use leyden_engine::schedule::{
    Decision, KeyId, PromptRows, Refusal, Request, RequestId, Scheduler, SchedulerOptions,
};
use leyden_engine::{
    AdapterSet, Answer, Engine, EngineOptions, Error, ErrorKind, Generator, OutputRow, Outputs, Pool, Pooling,
};
use leyden_kernels::attention::KvType;
use leyden_kernels::{Cpu, Tier};
use leyden_models::heads::{
    FoundSpans, Head, HeadError, HeadInput, HeadOutput, LabelLogits, PooledStates, SpanLogits, SparseVector,
    TextVector, TokenStates, TokenVectors,
};
use leyden_models::{HfModel, Labelled, ModelConfig};
use leyden_tensor::Gguf;
use serde_json::Value as Json;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Outputs of a request, which has one.
#[derive(Default)]
struct Kept(Vec<Result<HeadOutput, Error>>);

impl Answer for Kept {
    fn output(&mut self, output: Result<HeadOutput, Error>) {
        self.0.push(output);
    }

    fn choose(&mut self, _rows: &[OutputRow<'_>], _draft: &[u32]) -> (Vec<u32>, bool) {
        (Vec::new(), true)
    }
}

fn request(id: u64, prompt: &[u32], head: Head) -> Request {
    Request {
        id: RequestId(id),
        key: KeyId(0),
        priority: 0,
        prompt: prompt.to_vec(),
        max_tokens: 0,
        scope: None,
        adapters: AdapterSet::default(),
        deadline: None,
        speculate: false,
        rows: PromptRows::Head { head, second: None },
        held: None,
    }
}

fn generator(e: Engine, step_tokens: usize) -> Generator<Kept> {
    let whole_prompts = e.model().config().needs_whole_texts();
    let step_tokens = if whole_prompts { 2048 } else { step_tokens };
    let options = SchedulerOptions { step_tokens, whole_prompts, ..SchedulerOptions::default() };
    let scheduler = Scheduler::new(options, e.tables().total_blocks());
    Generator::new(e, scheduler)
}

/// Runs steps until all requests have ended, and returns the outputs by request.
fn finish(generator: &mut Generator<Kept>, count: usize) -> Vec<Option<Result<HeadOutput, Error>>> {
    let mut outputs: Vec<_> = (0..count).map(|_| None).collect();
    while !generator.is_idle() {
        let step = generator.plan(Duration::ZERO).unwrap();
        let outcome = generator.compute(&step).unwrap();
        assert!(outcome.failed.is_none());
        for decision in step.decisions.into_iter().chain(outcome.decisions) {
            let Decision::Finished { request, .. } = decision else { continue };
            let (_, mut kept) = generator.take(request).unwrap();
            assert!(kept.0.len() <= 1, "an output comes once");
            outputs[request.0 as usize] = kept.0.pop();
        }
    }
    outputs
}

/// Heads of every kind that a model has for a text of `n` tokens.
fn heads(config: &ModelConfig, n: usize) -> Vec<Head> {
    let words = || (2..n).step_by(2).map(|at| at..n.min(at + 2)).collect();
    let spans = || SpanLogits { words: words(), labels: vec![0, 1.min(n - 1)] };
    let mut all: Vec<Head> = vec![
        TokenStates.into(),
        TokenVectors.into(),
        TextVector { pooling: Pooling::Mean }.into(),
        TextVector { pooling: Pooling::Last }.into(),
        SparseVector { special: vec![0, 2] }.into(),
        LabelLogits { of: Labelled::Tokens }.into(),
        spans().into(),
        FoundSpans { spans: spans(), threshold: 0.4 }.into(),
    ];
    let poolings = Pooling::NAMES.map(|(_, pooling)| pooling);
    all.extend(poolings.map(|pooling| Head::from(PooledStates { pooling })));
    all.extend(poolings.map(|pooling| Head::from(LabelLogits { of: Labelled::Text(pooling) })));
    all.retain(|head| head.check(config, n).is_ok());
    all
}

/// Computes a head of one text in a step of its own, without a generator.
fn alone(e: &mut Engine, text: &[u32], head: &Head) -> HeadOutput {
    let mut pool = head.pooling().map_or_else(Pool::every, Pool::new);
    states(e, &[text])[0].iter().enumerate().for_each(|(at, state)| pool.push(at, state));
    let states = pool.into_vector();
    e.model().head(e.cpu(), HeadInput { head, tokens: text, states: &states }).unwrap()
}

fn engine(folder: &Path) -> Engine {
    let source = Arc::new(HfModel::open(folder).unwrap());
    engine_on(source, Cpu::new(Tier::best(), 2).unwrap().with_exact(true), KvType::F32)
}

#[test]
fn outputs_are_the_same_alone_and_beside_others() {
    let golden = encoders::golden();
    let (mut kinds, texts) = (std::collections::BTreeSet::new(), encoders::texts(&golden));
    for (name, folder) in cases() {
        let mut e = engine(folder.path());
        let config = e.model().config().clone();
        let known = |id: &u32| *id % e.model().vocabulary() as u32;
        let of = |n: usize| -> Vec<u32> { texts[0].iter().cycle().skip(n).take(n).map(known).collect() };
        let lengths = [1, 5, 9, 60].into_iter().filter(|n| *n <= config.context);
        let texts: Vec<Vec<u32>> = lengths.map(of).collect();
        let mut wanted: Vec<(&[u32], Head, HeadOutput)> = Vec::new();
        for text in &texts {
            for head in heads(&config, text.len()) {
                let output = alone(&mut e, text, &head);
                kinds.insert(format!("{head:?}").split([' ', '(']).next().unwrap().to_owned());
                wanted.push((text, head, output));
            }
        }
        for step_tokens in [2048, 16] {
            let mut generator = generator(e, step_tokens);
            for (id, (text, head, _)) in (0..).zip(&wanted) {
                let submitted =
                    generator.submit(request(id, text, head.clone()), Kept::default(), Duration::ZERO);
                assert!(submitted.is_ok(), "{name}: {head:?}");
            }
            let outputs = finish(&mut generator, wanted.len());
            for ((text, head, want), got) in wanted.iter().zip(outputs) {
                let got = got.unwrap().unwrap();
                assert!(got == *want, "{name}, {head:?} of {}: {got:?}, not {want:?}", text.len());
            }
            e = generator.into_engine();
            assert_eq!(e.tables().available_blocks(), e.tables().total_blocks());
        }
    }
    assert_eq!(kinds.len(), 8, "a kind of head is not tested: {kinds:?}");
}

#[test]
fn a_preempted_prompt_gives_the_same_output() {
    let cpu = Arc::new(Cpu::new(Tier::best(), 2).unwrap());
    let model =
        leyden_models::load(Arc::new(Gguf::open(&embedded()).unwrap()), &cpu, &mut |_, _| {}).unwrap();
    let options = EngineOptions { kv_type: KvType::F16, context: 256, cache_tokens: 256, step_tokens: 2048 };
    let mut e = Engine::new(model, cpu, options).unwrap();
    let text = |n: u32, seed: u32| -> Vec<u32> { (0..n).map(|t| (t * t * 17 + seed) % 4000).collect() };
    let (long, urgent) = (text(120, 5), text(190, 7));
    for head in [Head::from(TokenStates), TextVector { pooling: Pooling::WeightedMean }.into()] {
        let want = alone(&mut e, &long, &head);
        let mut generator = generator(e, 16);
        assert!(generator.submit(request(0, &long, head), Kept::default(), Duration::ZERO).is_ok());
        for _ in 0..3 {
            let step = generator.plan(Duration::ZERO).unwrap();
            generator.compute(&step).unwrap();
        }
        let head = TextVector { pooling: Pooling::Last }.into();
        let urgent = Request { priority: 1, ..request(1, &urgent, head) };
        assert!(generator.submit(urgent, Kept::default(), Duration::ZERO).is_ok());
        let step = generator.plan(Duration::ZERO).unwrap();
        let preempted = |decision: &Decision| matches!(decision, Decision::Preempted { .. });
        assert!(step.decisions.iter().any(preempted));
        generator.compute(&step).unwrap();
        let outputs = finish(&mut generator, 2);
        assert!(outputs[0].as_ref().unwrap().as_ref().unwrap() == &want);
        e = generator.into_engine();
    }
}

#[test]
fn heads_that_a_model_lacks_are_refused() {
    let golden = encoders::golden();
    let models = golden["models"].as_array().unwrap();
    let folder = |name: &str| encoders::folder(models.iter().find(|m| m["name"] == name).unwrap());
    let refusal = |folder: &Path, head: Head| {
        let mut generator = generator(engine(folder), 2048);
        let submitted = generator.submit(request(0, &[1, 2, 3], head), Kept::default(), Duration::ZERO);
        submitted.map_err(|(refusal, _)| refusal)
    };
    let plain = folder("bert");
    let spans = |words: &[[usize; 2]], labels: &[usize]| SpanLogits {
        words: words.iter().map(|word| word[0]..word[1]).collect(),
        labels: labels.to_vec(),
    };
    for head in [
        Head::from(SparseVector::default()),
        LabelLogits { of: Labelled::Tokens }.into(),
        LabelLogits { of: Labelled::Text(Pooling::Cls) }.into(),
        spans(&[[0, 1]], &[0]).into(),
        FoundSpans { spans: spans(&[[0, 1]], &[0]), threshold: 0.5 }.into(),
    ] {
        let refused = refusal(plain.path(), head.clone());
        assert!(matches!(refused, Err(Refusal::Head(HeadError::Missing(_)))), "{head:?}: {refused:?}");
    }
    let labels = folder("bert, labels");
    let other = refusal(labels.path(), LabelLogits { of: Labelled::Text(Pooling::Max) }.into());
    assert!(matches!(other, Err(Refusal::Head(HeadError::Missing(_)))), "{other:?}");
    let (_, gliner) = cases().into_iter().find(|(name, _)| name.starts_with("gliner")).unwrap();
    assert_eq!(refusal(gliner.path(), spans(&[[0, 1], [2, 3]], &[2]).into()), Ok(()));
    for (head, want) in [
        (spans(&[[0, 1], [2, 4]], &[0]), "word 1 has tokens 2..4 of 3"),
        (spans(&[[2, 1]], &[0]), "word 0 has tokens 2..1 of 3"),
        (spans(&[[0, 1]], &[0, 3]), "label 1 has token 3 of 3"),
        (spans(&vec![[0, 1]; 1 << 20], &[0]), "1048576 words with 1 labels"),
    ] {
        let refused = refusal(gliner.path(), head.into()).unwrap_err().to_string();
        assert!(refused.starts_with(want), "{refused}");
    }
}

/// A model whose last norm is damaged: each head reports it, and none gives a part of an output.
#[test]
fn values_that_are_not_finite_are_an_error() {
    let golden = encoders::golden();
    for (name, folder) in [
        ("bert", encoders::with_splade(&golden["models"][0], "max")),
        ("heads of tokens", encoders::with_token_heads(&golden)),
    ] {
        let path = folder.path().join("model.safetensors");
        let mut bytes = std::fs::read(&path).unwrap();
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header: Json = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        let norms = header.as_object().unwrap().iter().filter(|(name, _)| name.ends_with("LayerNorm.bias"));
        for (_, tensor) in norms {
            let at = 8 + length + tensor["data_offsets"][0].as_u64().unwrap() as usize;
            bytes[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
        }
        std::fs::write(&path, bytes).unwrap();
        let e = engine(folder.path());
        let all = heads(e.model().config(), 6);
        let mut generator = generator(e, 2048);
        for (id, head) in (0..).zip(&all) {
            let request = request(id, &[1, 2, 3, 4, 5, 6], head.clone());
            assert!(generator.submit(request, Kept::default(), Duration::ZERO).is_ok());
        }
        for (head, output) in all.iter().zip(finish(&mut generator, all.len())) {
            let error = output.unwrap().unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::NotFinite), "{name}, {head:?}: {error}");
        }
    }
}

/// Hidden states and logits of plans of one's own are rows of the step's output.
#[test]
fn a_plan_without_heads_has_rows_of_states() {
    let golden = encoders::golden();
    let mut e = engine(encoders::folder(&golden["models"][0]).path());
    let sequence = e.open();
    let output = e.step(&one(sequence, &[1, 2, 3], Outputs::States(1))).unwrap();
    assert_eq!(output.states().map(|row| row.position).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(output.rows().count(), 0);
}
