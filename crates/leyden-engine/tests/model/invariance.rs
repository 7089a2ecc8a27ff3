//! Same file, prompt and seed give the same bits on every tier, with any number of threads, whatever else is in the
//! batch, and however the prompt is divided or cached.

use super::shared::{engine, one, own};
use leyden_engine::{Engine, Outputs, SequenceId, StepEntry, StepPlan};
use leyden_kernels::Tier;
use leyden_kernels::attention::KvType;
use leyden_tensor::{Gguf, WeightSource};
use leyden_testkit::emulated;
use std::sync::Arc;

const FILES: [&str; 4] = [
    "../leyden/model/storyteller-q8_0.gguf",
    "tests/fixtures/storyteller-q4_0.gguf",
    "tests/fixtures/storyteller-q4_k_m.gguf",
    "tests/fixtures/storyteller-q6_k.gguf",
];

fn open(file: &str) -> Arc<dyn WeightSource> {
    Arc::new(Gguf::open(&own(file)).unwrap())
}

fn text(n: u32, seed: u32) -> Vec<u32> {
    (0..n).map(|i| (i * 2_654_435 + seed * 977 + i * i) % 4096).collect()
}

/// Bits of all logits of a text, fed in pieces of the given length.
fn logits(engine: &mut Engine, tokens: &[u32], piece: usize) -> Vec<u32> {
    let sequence = engine.open();
    let mut bits = Vec::new();
    for part in tokens.chunks(piece) {
        let output = engine.step(&one(sequence, part, Outputs::From(0))).unwrap();
        output.rows().for_each(|r| bits.extend(r.logits.iter().map(|l| l.to_bits())));
    }
    engine.close(sequence);
    bits
}

#[test]
fn tiers_and_teams_give_the_same_bits() {
    // More than a block of 64 tokens; an emulator, for which that takes long, gets a full tile and part of one.
    let tokens = text(if emulated() { 25 } else { 70 }, 1);
    for file in FILES {
        let want = logits(&mut engine(open(file), Tier::SCALAR, 1, KvType::F16), &tokens, 70);
        for tier in Tier::available() {
            // An emulator gets one team: dividing work does not depend on the processor.
            for &threads in if emulated() { &[3][..] } else { &[1, 2, 3, 8] } {
                let got = logits(&mut engine(open(file), tier, threads, KvType::F16), &tokens, 70);
                assert!(got == want, "{file} on {} with {threads} threads", tier.level());
            }
        }
    }
}

#[test]
fn cutting_the_prompt_changes_nothing() {
    let tokens = text(200, 2);
    for file in FILES.into_iter().take(if emulated() { 1 } else { FILES.len() }) {
        for kv in KvType::ALL {
            let mut e = engine(open(file), Tier::best(), 2, kv);
            let want = logits(&mut e, &tokens, 200);
            for piece in [1, 3, 64, 99] {
                assert!(logits(&mut e, &tokens, piece) == want, "{file} {kv} in pieces of {piece}");
            }
        }
    }
}

#[test]
fn company_in_the_batch_changes_nothing() {
    let mut e = engine(open(FILES[2]), Tier::best(), 3, KvType::F16);
    let texts: Vec<Vec<u32>> = (0..7).map(|i| text(20 + i * 31, i)).collect();
    let alone: Vec<Vec<u32>> = texts.iter().map(|t| logits(&mut e, t, 1000)).collect();
    // All sequences together at different speeds: sequence i takes i + 1 tokens a step, later ones join later.
    let sequences: Vec<_> = texts.iter().map(|_| e.open()).collect();
    let mut done = vec![0; texts.len()];
    let mut together = vec![Vec::new(); texts.len()];
    for step in 0.. {
        let mut plan = StepPlan::default();
        for i in 0..texts.len().min(step + 1) {
            let end = (done[i] + i + 1).min(texts[i].len());
            if end > done[i] {
                let tokens = texts[i][done[i]..end].to_vec();
                plan.entries.push(StepEntry { sequence: sequences[i], tokens, outputs: Outputs::From(0) });
                done[i] = end;
            }
        }
        if plan.entries.is_empty() {
            break;
        }
        let output = e.step(&plan).unwrap();
        for row in output.rows() {
            let i = sequences.iter().position(|s| *s == row.sequence).unwrap();
            together[i].extend(row.logits.iter().map(|l| l.to_bits()));
        }
    }
    assert!(together == alone);
}

/// Row of logits, or hidden state, with its sequence and position.
fn bits_of(sequence: SequenceId, position: usize, values: &[f32]) -> (SequenceId, usize, Vec<u32>) {
    (sequence, position, values.iter().map(|x| x.to_bits()).collect())
}

#[test]
fn what_is_asked_of_the_others_changes_nothing() {
    let wanted =
        [Outputs::Last, Outputs::None, Outputs::States(0), Outputs::From(0), Outputs::None, Outputs::Last];
    for file in &FILES[1..3] {
        let mut e = engine(open(file), Tier::best(), 2, KvType::F16);
        let sequences = wanted.map(|_| e.open());
        // The first step computes a prompt's first part, and the second the requested results.
        let step = |e: &mut Engine, range: std::ops::Range<usize>, wanted: [Outputs; 6]| {
            let entry = |(i, sequence): (usize, &SequenceId)| StepEntry {
                sequence: *sequence,
                tokens: text(70, i as u32)[range.clone()].to_vec(),
                outputs: wanted[i],
            };
            let plan = StepPlan { entries: sequences.iter().enumerate().map(entry).collect() };
            let output = e.step(&plan).unwrap();
            let logits: Vec<_> = output.rows().map(|r| bits_of(r.sequence, r.position, r.logits)).collect();
            let behind = output.rows().map(|r| bits_of(r.sequence, r.position, r.state));
            let states: Vec<_> =
                output.states().map(|r| bits_of(r.sequence, r.position, r.state)).chain(behind).collect();
            (logits, states)
        };
        step(&mut e, 0..30, [Outputs::From(0); 6]);
        let (all_logits, all_states) = step(&mut e, 30..70, [Outputs::From(0); 6]);
        sequences.iter().for_each(|s| e.truncate(*s, 0).unwrap());
        step(&mut e, 0..30, [Outputs::None; 6]);
        let (logits, states) = step(&mut e, 30..70, wanted);
        assert_eq!((logits.len(), states.len()), (1 + 40 + 1, 40 + 1 + 40 + 1));
        assert!(logits.iter().all(|row| all_logits.contains(row)), "{file}");
        assert!(states.iter().all(|row| all_states.contains(row)), "{file}");
    }
}

#[test]
fn impossible_plans_are_refused_and_change_nothing() {
    let mut e = engine(open(FILES[0]), Tier::best(), 1, KvType::F16);
    let tokens = text(50, 3);
    let want = logits(&mut e, &tokens, 50);
    let s = e.open();
    let stranger = e.open();
    e.close(stranger);
    e.step(&one(s, &tokens[..10], Outputs::None)).unwrap();
    let free = e.free_tokens();
    let entry = |sequence, tokens: Vec<u32>| StepEntry { sequence, tokens, outputs: Outputs::Last };
    let plans = [
        StepPlan::default(),
        one(stranger, &[1], Outputs::Last),
        one(s, &[], Outputs::Last),
        one(s, &[4096], Outputs::Last),
        one(s, &[u32::MAX], Outputs::Last),
        one(s, &vec![1; 1020], Outputs::Last),
        one(s, &vec![1; 5000], Outputs::Last),
        StepPlan { entries: vec![entry(s, vec![1]), entry(s, vec![2])] },
        StepPlan { entries: vec![entry(s, vec![1]), entry(stranger, vec![2])] },
    ];
    for plan in &plans {
        assert!(e.step(plan).is_err(), "{plan:?}");
        assert_eq!((e.tokens(s).unwrap(), e.free_tokens()), (10, free));
    }
    let output = e.step(&one(s, &tokens[10..], Outputs::Last)).unwrap();
    let got: Vec<u32> = output.rows().next().unwrap().logits.iter().map(|l| l.to_bits()).collect();
    assert!(got == want[49 * 4096..]);
}

#[test]
fn blocks_are_taken_and_given_back() {
    let mut e = engine(open(FILES[0]), Tier::best(), 1, KvType::Q8_0);
    let all = e.free_tokens();
    let many: Vec<_> = (0..8).map(|_| e.open()).collect();
    for s in &many[1..] {
        assert!(e.tables_mut().reserve(*s, 1000));
    }
    e.step(&one(many[0], &text(1000, 4), Outputs::None)).unwrap();
    assert_eq!(e.free_tokens(), 0);
    let extra = e.open();
    assert!(e.step(&one(extra, &[1], Outputs::Last)).is_err());
    e.truncate(many[0], 64).unwrap();
    assert_eq!(e.free_tokens(), 15 * 64);
    e.step(&one(extra, &[1], Outputs::Last)).unwrap();
    many.iter().chain([&extra]).for_each(|s| e.close(*s));
    assert_eq!(e.free_tokens(), all);
}
