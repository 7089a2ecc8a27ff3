//! Texts do not depend on a draft model: good or bad, with sampling or without, alone or beside others.

use super::recurrent;
use super::shared::{embedded, engine, engine_on};
use leyden_engine::sample::{Penalties, Proposal, Sampler, SamplingParams};
use leyden_engine::schedule::{
    KeyId, PromptRows, Request, RequestId, Scheduler, SchedulerOptions, Step, verify,
};
use leyden_engine::{AdapterSet, Answer, Engine, Generator, OutputRow, Scope};
use leyden_kernels::attention::KvType;
use leyden_kernels::{Cpu, Tier};
use leyden_tensor::{Gguf, WeightSource};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Answer that samples.
struct Sampled {
    sampler: Sampler,
    tokens: Vec<u32>,
    drafted: usize,
    accepted: usize,
}

impl Answer for Sampled {
    fn propose(&mut self, logits: &[f32], position: usize) -> Option<Proposal> {
        self.sampler.propose(logits, position)
    }

    fn choose(&mut self, rows: &[OutputRow<'_>], draft: &[u32]) -> (Vec<u32>, bool) {
        let sampler = &mut self.sampler;
        let choose = |i: usize| {
            let row: &OutputRow<'_> = &rows[i];
            let token = sampler.sample(row.logits, row.position + 1)?;
            sampler.accept(&[token]);
            Ok::<u32, leyden_engine::Error>(token)
        };
        let tokens = verify(draft, choose).unwrap();
        self.tokens.extend(&tokens);
        self.drafted += draft.len();
        self.accepted += tokens.len() - 1;
        (tokens, false)
    }
}

/// The embedded model with random changes of its weights, at most `noise` of 127 each.
fn changed(noise: u8) -> Arc<dyn WeightSource> {
    let mut bytes = std::fs::read(embedded()).unwrap();
    let file = Gguf::from_vec(bytes.clone(), "m").unwrap();
    let matrices: Vec<(usize, usize)> = file
        .tensor_info()
        .iter()
        .filter(|t| t.name.starts_with("blk.") && t.shape.len() == 2)
        .map(|t| {
            let view = file.tensor(&t.name).unwrap();
            let at = bytes.windows(64).position(|w| w == &view.bytes()[..64]).unwrap();
            (at, view.bytes().len())
        })
        .collect();
    let mut state = 1_u32;
    for (at, n) in matrices {
        for block in bytes[at..at + n].chunks_exact_mut(34) {
            // Two bytes of scale, then 32 integers.
            for q in &mut block[2..] {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let change = (state >> 16) as i32 % (2 * i32::from(noise) + 1) - i32::from(noise);
                *q = ((*q as i8 as i32 + change).clamp(-127, 127) as i8) as u8;
            }
        }
    }
    Arc::new(Gguf::from_vec(bytes, "changed").unwrap())
}

fn target() -> Engine {
    engine(Arc::new(Gguf::open(&embedded()).unwrap()), Tier::best(), 2, KvType::F16)
}

fn draft(noise: u8) -> Engine {
    engine_on(changed(noise), Cpu::new(Tier::best(), 2).unwrap(), KvType::F16)
}

/// Sampling of a request: greedy, drawn, or drawn with penalties.
fn params(i: u64) -> SamplingParams {
    let penalties = Penalties { repeat: if i % 3 == 2 { 1.2 } else { 1.0 }, ..Penalties::default() };
    SamplingParams {
        seed: i,
        temperature: [0.0, 0.8, 1.3][i as usize % 3],
        penalties,
        ..SamplingParams::default()
    }
}

fn prompt(i: u64) -> Vec<u32> {
    (0..20 + i as u32 * 31).map(|t| (t * t * 17 + i as u32 * 101) % 4000).collect()
}

/// Numbers of draft tokens and of accepted ones.
type Drafts = (usize, usize);

/// Answers requests together, with invented times: a step takes 10 ms and 0.1 ms a row, a step of the draft model 0.5 ms.
fn answers(
    target: Engine,
    draft: Option<Engine>,
    options: SchedulerOptions,
    which: &[u64],
    request: impl Fn(u64) -> Request,
) -> (BTreeMap<u64, Vec<u32>>, Drafts) {
    let (vocabulary, tier) = (target.model().vocabulary(), target.cpu().tier());
    let blocks = target.tables().total_blocks();
    let options = SchedulerOptions { context: target.options().context, vocabulary, ..options };
    let mut generator = Generator::new(target, Scheduler::new(options, blocks));
    if let Some(draft) = draft {
        generator = generator.with_draft(draft).unwrap();
    }
    for &i in which {
        let request = request(i);
        let mut sampler = Sampler::new(params(i), 0, tier, vocabulary).unwrap();
        sampler.accept_prompt(&request.prompt);
        let answer = Sampled { sampler, tokens: Vec::new(), drafted: 0, accepted: 0 };
        generator.submit(request, answer, Duration::ZERO).map_err(|e| e.0).unwrap();
    }
    let now = Cell::new(Duration::ZERO);
    let clock = || {
        now.set(now.get() + Duration::from_micros(500));
        now.get()
    };
    while !generator.is_idle() {
        let mut step: Step = generator.plan(Duration::ZERO).unwrap();
        generator.draft(&mut step, &clock).unwrap();
        let outcome = generator.compute(&step).unwrap();
        assert!(outcome.failed.is_none(), "{:?}", outcome.failed);
        let rows: usize = step.scheduled.iter().map(|s| s.tokens).sum();
        generator.observe(
            &step,
            Duration::from_micros(10_000 + 100 * rows as u64),
            Duration::from_millis(50),
        );
    }
    let mut all = BTreeMap::new();
    let mut drafts = (0, 0);
    for &i in which {
        let (_, answer) = generator.take(RequestId(i)).unwrap();
        drafts = (drafts.0 + answer.drafted, drafts.1 + answer.accepted);
        all.insert(i, answer.tokens);
    }
    let tables = generator.engine().tables();
    assert_eq!(tables.available_blocks(), tables.total_blocks());
    (all, drafts)
}

fn request(i: u64, prompt: Vec<u32>) -> Request {
    let scope = Scope {
        model: "storyteller".to_owned(),
        kv_type: KvType::F16,
        owner: (i % 2).to_string(),
        adapters: AdapterSet::default(),
        salt: String::new(),
    };
    Request {
        id: RequestId(i),
        key: KeyId(0),
        priority: 0,
        prompt,
        max_tokens: 60,
        scope: (i != 3).then(|| Arc::new(scope)),
        adapters: AdapterSet::default(),
        deadline: None,
        speculate: true,
        rows: PromptRows::None,
        held: None,
    }
}

fn wide() -> SchedulerOptions {
    SchedulerOptions { step_tokens: 2048, prompt_tokens_beside_decode: 512, ..SchedulerOptions::default() }
}

#[test]
fn any_draft_model_gives_the_same_tokens() {
    let which: Vec<u64> = (0..6).collect();
    let quiet = |i| Request { speculate: false, ..request(i, prompt(i)) };
    let mut want = BTreeMap::new();
    for i in &which {
        want.extend(answers(target(), None, wide(), &[*i], quiet).0);
    }
    let narrow = SchedulerOptions { step_tokens: 48, prompt_tokens_beside_decode: 17, running: 3, ..wide() };
    let mut rates = Vec::new();
    for noise in [0, 3, 60] {
        let (mut drafted, mut accepted) = (0, 0);
        for options in [wide(), narrow] {
            let (got, (made, right)) =
                answers(target(), Some(draft(noise)), options, &which, |i| request(i, prompt(i)));
            assert!(got == want, "noise {noise}, together");
            (drafted, accepted) = (drafted + made, accepted + right);
        }
        for i in &which {
            let (got, (made, right)) =
                answers(target(), Some(draft(noise)), wide(), &[*i], |i| request(i, prompt(i)));
            assert!(got[i] == want[i], "noise {noise}, {i} alone");
            (drafted, accepted) = (drafted + made, accepted + right);
        }
        rates.push((drafted, accepted));
    }
    // The model itself is a good draft model, and one of random weights none, which is soon found out.
    let share = |(drafted, accepted): (usize, usize)| accepted as f64 / drafted.max(1) as f64;
    assert!(share(rates[0]) > 0.7 && rates[0].1 > 200, "{rates:?}");
    assert!(share(rates[0]) >= share(rates[1]) && rates[2].0 < rates[0].0 / 2, "{rates:?}");
}

#[test]
fn recurrent_models_give_the_same_tokens_with_drafts() {
    let mut all = (0, 0);
    for name in ["lfm2", "mamba2", "granitehybrid", "qwen3next"] {
        let vocabulary = recurrent::engine(name, 4, 64).model().vocabulary() as u32;
        // A text that repeats itself.
        let of = |i: u64| {
            request(i, (0..40 + 9 * i as u32).map(|t| (t * t % (7 + i as u32)) % vocabulary).collect())
        };
        let quiet = |i| Request { speculate: false, ..of(i) };
        let (want, none) = answers(recurrent::engine(name, 4, 64), None, wide(), &[0, 1, 2], quiet);
        assert_eq!(none, (0, 0));
        let eager = SchedulerOptions { weights_read_tokens: 200.0, ..wide() };
        let (got, drafts) = answers(recurrent::engine(name, 4, 64), None, eager, &[0, 1, 2], of);
        assert!(got == want, "{name}");
        assert!(drafts.0 > 0, "{name}: nothing is drafted");
        all = (all.0 + drafts.0, all.1 + drafts.1);
    }
    assert!(all.0 > all.1 && all.1 > 0, "some are rejected and some accepted: {all:?}");
}

#[test]
fn a_recurrent_draft_model_is_refused() {
    let blocks = target().tables().total_blocks();
    let generator: Generator<Sampled> = Generator::new(target(), Scheduler::new(wide(), blocks));
    let error = generator.with_draft(recurrent::engine("lfm2", 4, 64)).err().unwrap().to_string();
    assert!(error.contains("recurrent"), "{error}");
}
