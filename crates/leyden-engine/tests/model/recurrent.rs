//! Models with recurrent layers reuse cached prefixes and compute the same bits as without.

use super::decoders::{folder, goldens};
use super::windows::bits;
use leyden_engine::{AdapterSet, Engine, EngineOptions, ErrorKind, Scope, SequenceId};
use leyden_kernels::attention::KvType;
use leyden_kernels::{Cpu, Tier};
use leyden_models::HfModel;
use leyden_testkit::emulated;
use std::sync::Arc;

const CONTEXT: usize = 1024;
const STEP: usize = 512;
const NAMES: [&str; 5] = ["mamba2", "granitehybrid", "qwen3next", "qwen35", "lfm2"];

/// Engines of the golden's models: one without checkpoints, and one with so many of them and so many blocks.
fn engines(name: &str, checkpoints: usize, blocks: usize) -> Vec<[Engine; 2]> {
    let (_, golden) = goldens().into_iter().find(|(known, _)| known == name).unwrap();
    let models = golden["models"].as_array().unwrap();
    let pair = |model| {
        let folder = folder(model);
        let source = Arc::new(HfModel::open(folder.path()).unwrap());
        let cpu = Arc::new(Cpu::new(Tier::best(), 2).unwrap());
        let network = leyden_models::load(source, &cpu, &mut |_, _| {}).unwrap();
        let state = network.kv_shape(KvType::F16).unwrap().state_bytes();
        assert!(state > 0, "{name}");
        let engine = |blocks: usize| {
            let options = EngineOptions {
                kv_type: KvType::F16,
                context: CONTEXT,
                cache_tokens: blocks * 64,
                step_tokens: STEP,
            };
            Engine::new(Arc::clone(&network), Arc::clone(&cpu), options).unwrap()
        };
        [engine(4 * CONTEXT / 64), engine(blocks).with_checkpoints(checkpoints * state + state / 2)]
    };
    models.iter().take(if emulated() { 1 } else { 2 }).map(pair).collect()
}

/// An engine of a golden's first model with so many checkpoints.
pub(crate) fn engine(name: &str, checkpoints: usize, blocks: usize) -> Engine {
    let [_, engine] = engines(name, checkpoints, blocks).swap_remove(0);
    engine
}

fn text(n: usize, seed: usize) -> Vec<u32> {
    (0..n).map(|i| ((i * 37 + i * i + seed * 11) % 96) as u32).collect()
}

fn scope(owner: &str) -> Arc<Scope> {
    let (model, kv_type) = (String::new(), KvType::F16);
    let (adapters, salt) = (AdapterSet::default(), String::new());
    Arc::new(Scope { model, kv_type, owner: owner.to_owned(), adapters, salt })
}

/// A text's bits on an engine that shares nothing.
fn anew(e: &mut Engine, tokens: &[u32]) -> Vec<u32> {
    let id = e.open();
    let result = tokens.chunks(STEP).fold(Vec::new(), |_, part| bits(e, &[(id, part)]));
    e.close(id);
    result
}

/// Returns a text's bits in a sequence that begins with cached tokens, in steps of so many tokens; and the number of
/// cached tokens.
fn cached(e: &mut Engine, tokens: &[u32], step: usize) -> (usize, Vec<u32>) {
    let (id, cached) = e.tables_mut().open_shared(scope(""), tokens);
    let mut result = Vec::new();
    let mut done = cached;
    for part in tokens[cached..].chunks(step) {
        result = bits(e, &[(id, part)]);
        done += part.len();
        e.tables_mut().publish(id, &tokens[..done]).unwrap();
    }
    e.close(id);
    (cached, result)
}

#[test]
fn a_conversation_computes_what_is_new_and_gives_the_same_bits() {
    for name in NAMES {
        for [mut all, mut kept] in engines(name, 16, 64) {
            let mut said = text(150, 1);
            for (turn, step) in [512, 7, 64, 1, 100, 63, 65, 512, 200, 33].into_iter().enumerate() {
                let before = said.len();
                said.extend(text(20 + 9 * turn, 2 + turn));
                let (had, got) = cached(&mut kept, &said, step);
                assert!(got == anew(&mut all, &said), "{name}, turn {turn}, steps of {step}");
                assert!(turn == 0 || had + 64 > before, "{name}, turn {turn}: {had} of {before}");
            }
        }
    }
}

#[test]
fn texts_with_other_ends_and_few_checkpoints_give_the_same_bits() {
    for name in NAMES {
        for (checkpoints, blocks) in [(1, 64), (2, 64), (3, 16), (12, 64)] {
            for [mut all, mut kept] in engines(name, checkpoints, blocks) {
                let (tokens, mut had) = (text(700, 1), 0);
                for (turn, shared) in [700, 330, 600, 64, 650, 200, 500, 500].into_iter().enumerate() {
                    let mut tokens = tokens[..shared].to_vec();
                    tokens.extend(text(40 + turn, 2 + turn));
                    let (cached, got) = cached(&mut kept, &tokens, 300);
                    assert!(got == anew(&mut all, &tokens), "{name}, {checkpoints}, turn {turn}");
                    assert!(kept.tables().state_checkpoints() <= checkpoints);
                    had += cached;
                }
                assert!(had > 0 || checkpoints < 12, "{name}, {checkpoints}");
            }
        }
    }
}

#[test]
fn sequences_of_one_step_start_from_checkpoints_and_make_some() {
    for name in NAMES {
        for checkpoints in [2, 3, 16] {
            for [mut all, mut kept] in engines(name, checkpoints, 64) {
                let beginning = text(200, 1);
                cached(&mut kept, &beginning, 512);
                let texts: Vec<Vec<u32>> =
                    (0..4).map(|i| [&beginning[..], &text(90 + 70 * i, 5 + i)].concat()).collect();
                for round in 0..2 {
                    let ids: Vec<(SequenceId, usize)> = texts
                        .iter()
                        .map(|text| kept.tables_mut().open_shared(scope(["", "other"][round]), text))
                        .collect();
                    let mut at: Vec<usize> = ids.iter().map(|(_, cached)| *cached).collect();
                    let mut results = vec![Vec::new(); texts.len()];
                    // Each at its own pace.
                    while at.iter().zip(&texts).any(|(at, text)| *at < text.len()) {
                        let open = (0..texts.len()).filter(|i| at[*i] < texts[*i].len());
                        let parts: Vec<(usize, usize)> =
                            open.map(|i| (i, texts[i].len().min(at[i] + 20 + 35 * i))).collect();
                        let entries: Vec<_> =
                            parts.iter().map(|&(i, to)| (ids[i].0, &texts[i][at[i]..to])).collect();
                        let all = bits(&mut kept, &entries);
                        for (&(i, to), row) in parts.iter().zip(all.chunks(all.len() / parts.len())) {
                            (at[i], results[i]) = (to, row.to_vec());
                            kept.tables_mut().publish(ids[i].0, &texts[i][..to]).unwrap();
                        }
                    }
                    for (i, text) in texts.iter().enumerate() {
                        assert!(results[i] == anew(&mut all, text), "{name}, {checkpoints}, text {i}");
                        kept.close(ids[i].0);
                    }
                }
            }
        }
    }
}

#[test]
fn a_sequence_goes_back_to_a_checkpoint() {
    for name in NAMES {
        for [mut all, mut kept] in engines(name, 8, 64) {
            let tokens = text(700, 3);
            let id = kept.open();
            kept.tables_mut().plan_checkpoints(id, 650, 300);
            bits(&mut kept, &[(id, &tokens[..400])]);
            bits(&mut kept, &[(id, &tokens[400..650])]);
            tokens[650..].chunks(1).for_each(|part| drop(bits(&mut kept, &[(id, part)])));
            let error = kept.truncate(id, 660).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::BehindWindow { tokens: 660 }), "{error}");
            for (wanted, there) in [(699, 640), (639, 576), (400, 256), (255, 0)] {
                assert_eq!(kept.tables().keepable(id, wanted), there, "{name}");
                kept.truncate(id, there).unwrap();
                let other = [&tokens[..there], &text(70, wanted)].concat();
                let got = bits(&mut kept, &[(id, &other[there..])]);
                assert!(got == anew(&mut all, &other), "{name}: back to {there}");
            }
        }
    }
}

#[test]
fn without_a_budget_nothing_is_kept() {
    let mut e = engine("lfm2", 0, 64);
    let tokens = text(300, 1);
    assert!(!e.tables().shares_beginnings());
    assert_eq!([0, 1].map(|_| cached(&mut e, &tokens, 512).0), [0, 0]);
    assert_eq!(e.tables().state_checkpoints(), 0);
}
