use super::*;
use crate::tables::{BlockTables, SequenceId};
use proptest::prelude::*;

const B: usize = BLOCK_TOKENS;

fn scope(owner: &str) -> Arc<Scope> {
    let (adapters, salt) = Default::default();
    Arc::new(Scope { model: "m".to_owned(), kv_type: KvType::F16, owner: owner.to_owned(), adapters, salt })
}

/// Returns text number `i`, of `blocks` blocks and one more token.
fn text(i: u32, blocks: usize) -> Vec<u32> {
    (0..(blocks * B) as u32 + 1).map(|t| t * 7 + i).collect()
}

/// Stores a text as a request would, and closes the sequence. Returns the number of its tokens that were cached.
fn store(t: &mut BlockTables, scope: &Arc<Scope>, tokens: &[u32]) -> usize {
    let (id, cached) = t.open_shared(Arc::clone(scope), tokens);
    assert!(t.reserve(id, tokens.len()));
    t.advance(id, tokens.len() - cached);
    t.publish(id, tokens).unwrap();
    t.check();
    t.close(id);
    t.check();
    cached
}

#[test]
fn full_blocks_are_found_again_and_the_last_token_is_not_among_them() {
    let mut t = BlockTables::new(16);
    let a = scope("a");
    let whole = text(1, 3);
    assert_eq!(store(&mut t, &a, &whole), 0);
    assert_eq!(store(&mut t, &a, &whole), 3 * B);
    // Whole blocks only: the last token is to be computed, so its block is not shared.
    assert_eq!(store(&mut t, &a, &whole[..2 * B]), B);
    let mut other = whole.clone();
    other[B] += 1;
    assert_eq!(store(&mut t, &a, &other), B);
    other[0] += 1;
    assert_eq!(store(&mut t, &a, &other), 0);
}

#[test]
fn anything_else_that_differs_parts_the_blocks() {
    differences(PrefixIndex::default());
    // Now all hashes collide.
    differences(PrefixIndex::with_hash_bits(0));
}

fn differences(index: PrefixIndex) {
    let mut t = BlockTables::with_index(64, index);
    let base = scope("a");
    let tokens = text(1, 2);
    store(&mut t, &base, &tokens);
    let other = |change: fn(&mut Scope)| {
        let mut s = (*base).clone();
        change(&mut s);
        Arc::new(s)
    };
    let others = [
        other(|s| s.model.push('x')),
        other(|s| s.kv_type = KvType::F32),
        other(|s| s.owner = "b".to_owned()),
        other(|s| s.salt = "b".to_owned()),
        // Moving a letter from one field to the next is a difference too.
        other(|s| s.model = "ma".to_owned()),
        other(|s| (s.owner, s.salt) = (String::new(), "a".to_owned())),
    ];
    for s in others {
        assert_eq!(store(&mut t, &s, &tokens), 0, "{s:?}");
    }
    assert_eq!(store(&mut t, &Arc::new((*base).clone()), &tokens), 2 * B);
}

#[test]
fn the_longest_unused_goes_first_and_the_end_of_a_text_before_its_beginning() {
    let mut t = BlockTables::new(8);
    let a = scope("");
    store(&mut t, &a, &text(1, 3));
    store(&mut t, &a, &text(2, 2));
    assert_eq!(t.available_blocks(), 8);
    // Takes all free blocks (two partial blocks and one) and the last block of text 1.
    let id = t.open();
    assert!(t.reserve(id, 4 * B));
    t.check();
    assert_eq!(t.fit(Some(&a), &text(1, 3), text(1, 3).len()).cached_tokens, 2 * B);
    assert_eq!(t.fit(Some(&a), &text(2, 2), text(2, 2).len()).cached_tokens, 2 * B);
    assert!(!t.reserve(id, 9 * B));
    assert!(t.reserve(id, 8 * B));
    assert_eq!(t.cached_blocks(), 0);
    t.check();
}

#[test]
fn whoever_floods_the_cache_leaves_half_of_it_to_others() {
    let mut t = BlockTables::new(20);
    let (quiet, flood) = (scope("quiet"), scope("flood"));
    store(&mut t, &quiet, &text(0, 8));
    (1..100).for_each(|i| assert_eq!(store(&mut t, &flood, &text(i, 3)), 0));
    assert_eq!(store(&mut t, &quiet, &text(0, 8)), 8 * B);
}

#[test]
fn two_floods_leave_a_third_owner_its_share_for_a_while() {
    let mut t = BlockTables::new(30);
    let (quiet, floods) = (scope("quiet"), [scope("a"), scope("b")]);
    let mut next = 1;
    let mut flood = |t: &mut BlockTables, times: u32| {
        for _ in 0..times {
            assert_eq!(store(t, &floods[next as usize % 2], &text(next, 3)), 0);
            next += 1;
        }
        t.check();
    };
    store(&mut t, &quiet, &text(0, 6));
    flood(&mut t, 60);
    assert_eq!(store(&mut t, &quiet, &text(0, 6)), 6 * B);
    flood(&mut t, 400);
    assert_eq!(store(&mut t, &quiet, &text(0, 6)), 0, "whoever is away loses its share");
}

#[test]
fn sequences_that_compute_the_same_at_the_same_time_end_up_with_the_same_blocks() {
    let mut t = BlockTables::new(16);
    let a = scope("a");
    let tokens = text(1, 3);
    let open: Vec<SequenceId> = (0..3).map(|_| t.open_shared(Arc::clone(&a), &tokens).0).collect();
    for id in &open {
        assert!(t.reserve(*id, tokens.len()));
    }
    assert_eq!(t.available_blocks(), 4);
    for id in &open {
        t.advance(*id, tokens.len());
        t.publish(*id, &tokens).unwrap();
        t.check();
    }
    assert_eq!(t.available_blocks(), 16 - 3 - 3);
    assert_eq!(t.releasable(&open[..2]), 2);
    assert_eq!(t.releasable(&open), 6);
    // A cut inside a shared block is refused, but whole blocks can be released.
    assert!(t.truncate(open[0], B + 1).is_err());
    t.truncate(open[0], 2 * B).unwrap();
    t.check();
    assert_eq!((t.tokens(open[0]).unwrap(), t.tokens(open[1]).unwrap()), (2 * B, 3 * B + 1));
    open.iter().for_each(|id| t.close(*id));
    t.check();
    assert_eq!((t.available_blocks(), t.cached_blocks()), (16, 3));
}

/// Model of the blocks' contents, compared with what each sequence should have stored.
#[derive(Default)]
struct Memory(HashMap<u32, Vec<u32>>);

impl Memory {
    fn write(&mut self, blocks: &[u32], position: usize, token: u32) {
        let block = self.0.entry(blocks[position / B]).or_default();
        block.resize(B, u32::MAX);
        block[position % B] = token;
    }

    fn read(&self, blocks: &[u32], tokens: usize) -> Vec<u32> {
        (0..tokens).map(|i| self.0[&blocks[i / B]][i % B]).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Sequences open, grow, are truncated and close at random, with hashes of a few bits, so that nearly all collide.
    /// The contents that each reads through its blocks are always its own, and no block is lost.
    #[test]
    fn a_sequence_always_reads_its_own_tokens(
        bits in 0_u32..5, calls in prop::collection::vec((0_u8..5, 0_usize..6, 0_u32..3, 0_usize..5), 1..120)
    ) {
        let mut t = BlockTables::with_index(24, PrefixIndex::with_hash_bits(bits));
        let scopes = [scope("a"), scope("b")];
        let mut memory = Memory::default();
        let mut open: Vec<(SequenceId, Vec<u32>)> = Vec::new();
        for (what, which, variant, length) in calls {
            match what {
                0 | 1 => {
                    // Texts with common prefixes, and texts that differ late or early.
                    let mut tokens: Vec<u32> = vec![variant % 2; length * B + 1 + which];
                    if let Some(t) = tokens.get_mut(which * B) {
                        *t = variant;
                    }
                    let (id, cached) = t.open_shared(Arc::clone(&scopes[which % 2]), &tokens);
                    prop_assert!(cached < tokens.len());
                    prop_assert_eq!(memory.read(&t.get(id).unwrap().blocks, cached), &tokens[..cached]);
                    if t.reserve(id, tokens.len()) {
                        for (i, token) in tokens.iter().enumerate().skip(cached) {
                            memory.write(&t.get(id).unwrap().blocks, i, *token);
                        }
                        t.advance(id, tokens.len() - cached);
                        t.publish(id, &tokens).unwrap();
                        open.push((id, tokens));
                    } else {
                        t.close(id);
                    }
                }
                2 if !open.is_empty() => {
                    let (id, _) = open.remove(which % open.len());
                    t.close(id);
                }
                3 if !open.is_empty() => {
                    // A truncation that does not touch shared blocks, as of rejected draft tokens, then another token.
                    let i = which % open.len();
                    let (id, tokens) = &mut open[i];
                    let keep = tokens.len() - tokens.len() % B.min(tokens.len());
                    t.truncate(*id, keep).unwrap();
                    tokens.truncate(keep);
                    if t.reserve(*id, keep + 1) {
                        tokens.push(variant);
                        memory.write(&t.get(*id).unwrap().blocks, keep, variant);
                        t.advance(*id, 1);
                    }
                }
                _ => {}
            }
            t.check();
            for (id, tokens) in &open {
                prop_assert_eq!(&memory.read(&t.get(*id).unwrap().blocks, tokens.len()), tokens);
            }
        }
        open.iter().for_each(|(id, _)| t.close(*id));
        prop_assert_eq!(t.available_blocks(), 24);
    }
}

/// Without a budget for checkpoints nothing is shared, and sequences can be truncated only to nothing.
#[test]
fn sequences_with_states_begin_anew() {
    let mut t = BlockTables::new(8).with_states(0);
    let tokens: Vec<u32> = (0..3 * B as u32).collect();
    let scope = scope("");
    let (first, cached) = t.open_shared(Arc::clone(&scope), &tokens);
    assert!(cached == 0 && t.reserve(first, 2 * B) && !t.can_go_back() && !t.shares_beginnings());
    t.checkpoints(&[(first, 2 * B)]);
    t.advance(first, 2 * B);
    t.publish(first, &tokens[..2 * B]).unwrap();
    assert_eq!(t.fit(Some(&scope), &tokens, 3 * B).cached_tokens, 0);
    let (second, cached) = t.open_shared(scope, &tokens);
    assert_eq!(cached, 0);
    assert_eq!((t.keepable(first, 2 * B), t.keepable(first, B), t.keepable(first, 0)), (2 * B, 0, 0));
    assert!(t.truncate(first, B).is_err());
    t.truncate(first, 2 * B).unwrap();
    t.truncate(first, 0).unwrap();
    // Slots are reused.
    let third = t.open();
    assert_eq!([first, second, third].map(|id| t.get(id).unwrap().state.slot), [0, 1, 2]);
    t.close(second);
    let fourth = t.open();
    assert_eq!(t.get(fourth).unwrap().state.slot, 1);
    t.check();
}
