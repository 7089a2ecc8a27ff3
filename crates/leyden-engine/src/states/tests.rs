use super::*;
use crate::prefix::Scope;
use crate::tables::{BlockTables, SequenceId};
use leyden_kernels::attention::KvType;
use proptest::prelude::*;
use std::sync::Arc;

const B: usize = BLOCK_TOKENS;

fn scope(owner: &str) -> Arc<Scope> {
    let (adapters, salt) = Default::default();
    Arc::new(Scope { model: "m".to_owned(), kv_type: KvType::F16, owner: owner.to_owned(), adapters, salt })
}

/// Tables with simulated states: the state in a slot is the list of all tokens processed.
struct Machine {
    tables: BlockTables,
    slots: HashMap<u32, Vec<u32>>,
}

impl Machine {
    fn new(blocks: u32, checkpoints: usize) -> Machine {
        Machine { tables: BlockTables::new(blocks).with_states(checkpoints), slots: HashMap::new() }
    }

    /// Extends each sequence to so many tokens of its text in one step. Asserts that it starts from the right state.
    fn step(&mut self, entries: &[(SequenceId, &[u32], usize)]) {
        let from = |id: SequenceId| self.tables.tokens(id).unwrap();
        let new: Vec<_> = entries.iter().map(|&(id, _, to)| (id, to - from(id))).collect();
        let made = self.tables.checkpoints(&new);
        for (from, to) in self.tables.take_restores() {
            let state = self.slots[&from].clone();
            self.slots.insert(to, state);
        }
        let slots = entries.iter().map(|(id, ..)| self.tables.get(*id).unwrap().state.slot as usize);
        let mut slots: Vec<usize> =
            slots.chain(made.iter().flatten().map(|checkpoint| checkpoint.slot)).collect();
        slots.sort_unstable();
        assert!(slots.windows(2).all(|pair| pair[0] < pair[1]), "each slot is written once");
        for (&(id, text, to), made) in entries.iter().zip(made) {
            let (from, slot) = (self.tables.tokens(id).unwrap(), self.tables.get(id).unwrap().state.slot);
            if from > 0 {
                assert_eq!(self.slots[&slot], text[..from], "the state of a sequence");
            }
            for checkpoint in made {
                self.slots.insert(checkpoint.slot as u32, text[..from + checkpoint.tokens].to_vec());
            }
            self.slots.insert(slot, text[..to].to_vec());
        }
        self.tables.end_step(&new, true);
        for (&(id, text, to), (_, n)) in entries.iter().zip(&new) {
            self.tables.advance(id, *n);
            self.tables.publish(id, &text[..to]).unwrap();
        }
        self.tables.check();
    }

    /// Computes a text in steps of `n` tokens. Returns the number of its tokens that were cached.
    fn compute(&mut self, scope: &Arc<Scope>, text: &[u32], n: usize) -> (SequenceId, usize) {
        let (id, cached) = self.tables.open_shared(Arc::clone(scope), text);
        assert!(self.tables.reserve(id, text.len()));
        for to in (cached..text.len()).map(|from| text.len().min(from + n)).step_by(n) {
            self.step(&[(id, text, to)]);
        }
        (id, cached)
    }

    fn ask(&mut self, scope: &Arc<Scope>, text: &[u32], n: usize) -> usize {
        let (id, cached) = self.compute(scope, text, n);
        self.tables.close(id);
        self.tables.check();
        cached
    }
}

fn text(n: usize, seed: u32) -> Vec<u32> {
    (0..n as u32).map(|i| i * 7 + seed).collect()
}

#[test]
fn each_turn_of_a_chat_computes_less_than_a_block_of_old_tokens() {
    for chunk in [1, 37, 512] {
        let (mut m, a) = (Machine::new(64, 8), scope("a"));
        let mut said = text(200, 1);
        for turn in 0..10 {
            let (id, cached) = m.compute(&a, &said, chunk);
            if turn > 0 {
                // The answer's last token was not stored.
                let before = said.len() - 40 - 1;
                assert!(cached + B > before, "turn {turn}: {cached} of {before}");
            }
            // The answer, token by token, and the next question.
            said.extend(text(30 + 17 * turn, 2 + turn as u32));
            assert!(m.tables.reserve(id, said.len()));
            (said.len() - 29 - 17 * turn..said.len()).for_each(|to| m.step(&[(id, &said, to)]));
            m.tables.close(id);
            said.extend(text(40, 90 + turn as u32));
        }
    }
}

#[test]
fn where_a_template_writes_the_answer_differently_the_prompt_is_found() {
    let (mut m, a) = (Machine::new(64, 8), scope("a"));
    for ending in [0, 5, ENDING] {
        for length in [300, 320, 330, 384 + ENDING] {
            let prompt = text(length, 1000 * length as u32 + ending as u32);
            let (id, _) = m.compute(&a, &prompt, 512);
            let mut said = [&prompt[..], &text(200, 2)].concat();
            assert!(m.tables.reserve(id, said.len()));
            (length + 1..said.len()).for_each(|to| m.step(&[(id, &said, to)]));
            m.tables.close(id);
            said.truncate(length - ending);
            said.extend(text(100, 3));
            let cached = m.ask(&a, &said, 512);
            assert!(cached + B + ENDING > length, "{cached} of {length} - {ending}");
        }
    }
}

#[test]
fn a_beginning_of_several_texts_is_known_to_its_last_block_from_the_third_on() {
    let (mut m, a) = (Machine::new(256, 32), scope("a"));
    let with = |seed: u32| [&text(1000, 1)[..], &text(300, 2 + seed)].concat();
    // Multiples of a power of two first, up to a text's share of the checkpoints.
    assert_eq!([0, 1, 2, 3].map(|i| m.ask(&a, &with(i), 512)), [0, 768, 15 * B, 15 * B]);
    // A request of another key does not share it.
    assert_eq!(m.ask(&scope("b"), &with(1), 512), 0);
    // A request that waits while the first is computed has a checkpoint made there.
    let other = |seed: u32| [&text(1000, 7)[..], &text(300, 8 + seed)].concat();
    let first = other(0);
    let (id, _) = m.tables.open_shared(Arc::clone(&a), &first);
    m.tables.add_checkpoint(id, 1000);
    assert!(m.tables.reserve(id, first.len()));
    m.step(&[(id, &first, first.len())]);
    assert_eq!(m.ask(&a, &other(1), 512), 15 * B);
}

#[test]
fn the_longest_unused_checkpoint_goes_first_and_whoever_floods_loses_its_own() {
    let (mut m, quiet, flood) = (Machine::new(512, 4), scope("quiet"), scope("flood"));
    let texts: Vec<Vec<u32>> = (0..20).map(|i| text(210, 1 + i)).collect();
    assert_eq!(m.ask(&quiet, &texts[0], 512), 0);
    // Each text leaves one checkpoint: its end and its newest border are the same block.
    texts[1..].iter().for_each(|text| assert_eq!(m.ask(&flood, text, 512), 0));
    assert_eq!(m.tables.state_checkpoints(), 4);
    assert_eq!(m.ask(&quiet, &texts[0], 512), 3 * B);
    assert_eq!([17, 18, 19, 16].map(|i| m.ask(&flood, &texts[i], 512)), [3 * B, 3 * B, 3 * B, 0]);
}

#[test]
fn a_long_chat_does_not_displace_what_texts_have_in_common() {
    let (mut m, a) = (Machine::new(512, 12), scope("a"));
    let mut cached = Vec::new();
    for topic in 0..4 {
        let mut said = [&text(700, 1)[..], &text(30, 100 * topic + 2)].concat();
        for turn in 0..10 {
            let (id, had) = m.compute(&a, &said, 512);
            if turn == 0 {
                cached.push(had);
            } else {
                assert!(had + 64 + 41 > said.len(), "{had} of {}", said.len());
            }
            said.extend(text(30, 100 * topic + turn + 3));
            assert!(m.tables.reserve(id, said.len()));
            (said.len() - 29..said.len()).for_each(|to| m.step(&[(id, &said, to)]));
            m.tables.close(id);
            said.extend(text(40, 100 * topic + turn + 50));
        }
    }
    assert_eq!(cached, [0, 512, 640, 640]);
}

#[test]
fn a_block_takes_its_checkpoint_along() {
    let (mut m, a) = (Machine::new(8, 8), scope("a"));
    assert_eq!(m.ask(&a, &text(200, 1), 512), 0);
    let kept = m.tables.state_checkpoints();
    assert!(kept > 0);
    let id = m.tables.open();
    assert!(m.tables.reserve(id, 8 * B));
    assert_eq!((m.tables.state_checkpoints(), m.tables.cached_blocks()), (0, 0));
    m.tables.check();
}

#[test]
fn a_failed_step_loses_its_states_and_makes_no_checkpoint() {
    let (mut m, a) = (Machine::new(16, 8), scope("a"));
    let tokens = text(200, 1);
    let (id, _) = m.tables.open_shared(Arc::clone(&a), &tokens);
    assert!(m.tables.reserve(id, tokens.len()));
    m.step(&[(id, &tokens, 100)]);
    assert_eq!(m.tables.state_checkpoints(), 1);
    let new = [(id, 100)];
    assert!(!m.tables.checkpoints(&new)[0].is_empty());
    m.tables.end_step(&new, false);
    assert!(!m.tables.is_current(id));
    m.tables.check();
    // The previous checkpoint was evicted for the one of the failed step.
    assert_eq!((m.tables.keepable(id, 100), m.tables.state_checkpoints()), (0, 0));
    m.tables.truncate(id, 0).unwrap();
    assert!(m.tables.is_current(id) && m.tables.reserve(id, 200));
    m.step(&[(id, &tokens, 200)]);
}

#[test]
fn a_sequence_goes_back_to_its_checkpoints() {
    let mut m = Machine::new(16, 8);
    let tokens = text(600, 1);
    let id = m.tables.open();
    m.tables.plan_checkpoints(id, 400, 130);
    assert!(m.tables.reserve(id, tokens.len()));
    m.step(&[(id, &tokens, 300)]);
    m.step(&[(id, &tokens, 400)]);
    (401..=600).for_each(|to| m.step(&[(id, &tokens, to)]));
    let keepable = [600, 599, 575, 383, 200, 127].map(|n| m.tables.keepable(id, n));
    assert_eq!(keepable, [600, 576, 384, 256, 128, 0]);
    assert!(m.tables.truncate(id, 500).is_err());
    m.tables.truncate(id, 384).unwrap();
    // Another continuation from there.
    let other = [&tokens[..384], &text(150, 5)].concat();
    assert!(m.tables.reserve(id, other.len()));
    m.step(&[(id, &other, 500)]);
    m.step(&[(id, &other, other.len())]);
    // A sequence without planned checkpoints makes none.
    let (plain, before) = (m.tables.open(), m.tables.state_checkpoints());
    assert!(m.tables.reserve(plain, 100));
    m.step(&[(plain, &tokens, 100)]);
    assert_eq!(m.tables.state_checkpoints(), before);
}

#[test]
fn the_usual_budget_follows_the_size_of_a_state() {
    const MIB: usize = 1 << 20;
    assert_eq!(usual_checkpoint_bytes(MIB, 1, 1024 * MIB), 64 * MIB);
    assert_eq!(usual_checkpoint_bytes(MIB, 64, 1024 * MIB), 256 * MIB);
    assert_eq!(usual_checkpoint_bytes(80 * MIB, 64, 1024 * MIB), 12 * 80 * MIB);
    assert_eq!(usual_checkpoint_bytes(700 * MIB, 64, 1024 * MIB), 1400 * MIB);
    assert_eq!(usual_checkpoint_bytes(0, 64, 1024 * MIB), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Sequences open, grow together in steps, are truncated and close at random, with few checkpoints and blocks. Each
    /// always starts from the state of its own tokens.
    #[test]
    fn a_sequence_always_has_the_state_of_its_own_tokens(
        checkpoints in 0_usize..7, calls in prop::collection::vec((0_u8..6, 0_usize..6, 0_u32..3, 0_usize..260), 1..80)
    ) {
        let mut m = Machine::new(24, checkpoints);
        let scopes = [scope("a"), scope("b")];
        let mut open: Vec<(SequenceId, Vec<u32>)> = Vec::new();
        for (what, which, variant, length) in calls {
            match what {
                0 | 1 => {
                    let mut tokens: Vec<u32> = vec![variant % 2; length + 1];
                    if let Some(t) = tokens.get_mut(which * B) {
                        *t = variant;
                    }
                    let (id, cached) = m.tables.open_shared(Arc::clone(&scopes[which % 2]), &tokens);
                    prop_assert!(cached < tokens.len());
                    open.push((id, tokens));
                }
                2 if !open.is_empty() => {
                    let (id, _) = open.remove(which % open.len());
                    m.tables.close(id);
                }
                3 if !open.is_empty() => {
                    let i = which % open.len();
                    let id = open[i].0;
                    let keep = m.tables.keepable(id, length);
                    prop_assert!(keep <= length);
                    m.tables.truncate(id, keep).unwrap();
                }
                _ => {
                    // All sequences with room grow, each by another number of tokens.
                    let mut entries = Vec::new();
                    for (i, (id, tokens)) in open.iter().enumerate() {
                        let from = m.tables.tokens(*id).unwrap();
                        let to = tokens.len().min(from + 1 + (length * (i + 1)) % 150);
                        if to > from && m.tables.reserve(*id, to) {
                            entries.push((*id, &tokens[..], to));
                        }
                    }
                    m.step(&entries);
                }
            }
            m.tables.check();
        }
        open.iter().for_each(|(id, _)| m.tables.close(*id));
        prop_assert_eq!(m.tables.available_blocks(), 24);
    }
}
