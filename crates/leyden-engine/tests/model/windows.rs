//! Layers with a sliding window keep only its blocks, and compute the same bits as with all blocks.

use super::gemma3::{folder, golden};
use super::shared::one;
use leyden_engine::{
    AdapterSet, Engine, EngineOptions, ErrorKind, Outputs, Scope, SequenceId, StepEntry, StepPlan,
};
use leyden_kernels::attention::KvType;
use leyden_kernels::{Cpu, Tier};
use leyden_models::HfModel;
use serde_json::json;
use std::sync::Arc;

const CONTEXT: usize = 1024;
const STEP: usize = 128;

/// An engine that keeps everything, and one that keeps windows for so many sequences.
fn engines(window: usize, sequences: usize) -> [Engine; 2] {
    let mut config = golden()["models"][0]["config"].clone();
    config["max_position_embeddings"] = json!(CONTEXT);
    config["sliding_window"] = json!(window);
    let folder = folder(&config);
    let source = Arc::new(HfModel::open(folder.path()).unwrap());
    let cpu = Arc::new(Cpu::new(Tier::best(), 2).unwrap());
    let model = leyden_models::load(source, &cpu, &mut |_, _| {}).unwrap();
    let options = EngineOptions {
        kv_type: KvType::F16,
        context: CONTEXT,
        cache_tokens: 4 * CONTEXT,
        step_tokens: STEP,
    };
    [
        Engine::new(Arc::clone(&model), Arc::clone(&cpu), options).unwrap(),
        Engine::with_windows(model, cpu, options, sequences).unwrap(),
    ]
}

fn text(n: usize, seed: usize) -> Vec<u32> {
    (0..n).map(|i| ((i * 37 + i * i + seed * 11) % 96) as u32).collect()
}

/// Returns the bits of the logits after the last token of every entry.
pub(crate) fn bits(e: &mut Engine, entries: &[(SequenceId, &[u32])]) -> Vec<u32> {
    let entry = |&(sequence, tokens): &(SequenceId, &[u32])| StepEntry {
        sequence,
        tokens: tokens.to_vec(),
        outputs: Outputs::Last,
    };
    let plan = StepPlan { entries: entries.iter().map(entry).collect() };
    let output = e.step(&plan).unwrap();
    output.rows().flat_map(|r| r.logits.iter().map(|l| l.to_bits()).collect::<Vec<_>>()).collect()
}

#[test]
fn blocks_behind_the_window_are_freed_and_results_are_the_same() {
    for window in [12, 64, 70, 200] {
        let [mut all, mut kept] = engines(window, 3);
        let texts: Vec<Vec<u32>> = (0..3).map(|i| text(CONTEXT - 40 * i, i)).collect();
        let ids = [&mut all, &mut kept].map(|e| [(); 3].map(|()| e.open()));
        // Prompts in parts of any length, then one token at a time, and each sequence at its own pace.
        let lengths = [100, 3, 25, 64, 1, 1, 1, 90, 17, 1, 1, 40];
        let mut at = [0; 3];
        for round in 0.. {
            let parts: Vec<(usize, std::ops::Range<usize>)> = (0..3)
                .filter(|i| at[*i] < texts[*i].len() && (round + i) % 4 != 3)
                .map(|i| {
                    (i, at[i]..texts[i].len().min(at[i] + lengths[(round + 5 * i) % lengths.len()] / 3 + 1))
                })
                .collect();
            let results = [(&mut all, ids[0]), (&mut kept, ids[1])].map(|(e, ids)| {
                let entries: Vec<_> =
                    parts.iter().map(|(i, part)| (ids[*i], &texts[*i][part.clone()])).collect();
                if entries.is_empty() { Vec::new() } else { bits(e, &entries) }
            });
            assert!(results[0] == results[1], "window {window}, round {round}");
            parts.iter().for_each(|(i, part)| at[*i] = part.end);
            if at.iter().zip(&texts).all(|(at, text)| *at == text.len()) {
                break;
            }
        }
        let (held, blocks) = (kept.tables().window_blocks().unwrap(), 3 * CONTEXT / 64 - 1);
        assert!(held < blocks && all.tables().window_blocks().is_none(), "{held} of {blocks}");
        ids[1].into_iter().for_each(|id| kept.close(id));
        assert_eq!(kept.tables().window_blocks(), Some(0));
    }
}

#[test]
fn a_text_that_begins_like_an_earlier_one_finds_as_much_as_is_left() {
    let [mut all, mut kept] = engines(70, 1);
    let scope = Arc::new(Scope {
        model: String::new(),
        kv_type: KvType::F16,
        owner: String::new(),
        adapters: AdapterSet::default(),
        salt: String::new(),
    });
    let tokens = text(700, 1);
    // Another end every time; what they share grows and shrinks.
    for (turn, shared) in [700, 330, 600, 64, 650, 200, 500].into_iter().enumerate() {
        let mut tokens = tokens[..shared].to_vec();
        tokens.extend(text(40 + turn, 2 + turn));
        let mut cached = [0; 2];
        let results = [&mut all, &mut kept].into_iter().zip(&mut cached).map(|(e, cached)| {
            let id;
            (id, *cached) = e.tables_mut().open_shared(Arc::clone(&scope), &tokens);
            let mut result = Vec::new();
            for part in tokens[*cached..].chunks(STEP) {
                result = bits(e, &[(id, part)]);
            }
            e.tables_mut().publish(id, &tokens).unwrap();
            e.close(id);
            result
        });
        let results: Vec<_> = results.collect();
        assert!(results[0] == results[1], "turn {turn}");
        assert!(cached[1] <= cached[0] && (turn == 0) == (cached[0] == 0), "turn {turn}: {cached:?}");
        // The text before, with another end: its end is the last thing that was computed.
        let again = [&mut all, &mut kept].map(|e| {
            let mut again = tokens.clone();
            again.truncate(tokens.len() / 64 * 64);
            again.push(5);
            let (id, cached) = e.tables_mut().open_shared(Arc::clone(&scope), &again);
            let result = bits(e, &[(id, &again[cached..])]);
            e.close(id);
            (cached, result)
        });
        assert!(again[0] == again[1] && again[1].0 == tokens.len() / 64 * 64, "turn {turn}");
    }
}

#[test]
fn a_sequence_is_cut_back_as_far_as_its_window_is_there() {
    let [mut all, mut kept] = engines(70, 1);
    let tokens = text(800, 3);
    let ids = [&mut all, &mut kept].map(|e| {
        let id = e.open();
        tokens[..700].chunks(STEP).for_each(|part| drop(bits(e, &[(id, part)])));
        id
    });
    // Rejected draft tokens.
    for (back, next) in [(695, 4), (640, 60), (689, 1)] {
        let results = [(&mut all, ids[0]), (&mut kept, ids[1])].map(|(e, id)| {
            e.truncate(id, back).unwrap();
            bits(e, &[(id, &tokens[back..back + next])])
        });
        assert!(results[0] == results[1], "back to {back}");
        let rest = &tokens[back + next..701];
        let _ = [(&mut all, ids[0]), (&mut kept, ids[1])].map(|(e, id)| bits(e, &[(id, rest)]));
    }
    assert_eq!((all.tables().keepable(ids[0], 100), kept.tables().keepable(ids[1], 100)), (100, 0));
    let error = kept.truncate(ids[1], 100).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::BehindWindow { tokens: 100 }), "{error}");
    let results = [(&mut all, ids[0]), (&mut kept, ids[1])].map(|(e, id)| {
        e.truncate(id, 0).unwrap();
        let output = e.step(&one(id, &tokens[..100], Outputs::Last)).unwrap();
        output.rows().flat_map(|r| r.logits.to_vec()).collect::<Vec<f32>>()
    });
    assert!(results[0] == results[1]);
}
