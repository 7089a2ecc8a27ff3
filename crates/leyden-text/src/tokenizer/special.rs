//! Matching of special tokens in a prompt, before the rest of it is tokenized.
//!
//! Overlapping matches are resolved as in llama.cpp: the longest texts are matched first, anywhere in the prompt,
//! and those of one length from left to right. A token may absorb adjacent white space.

use foldhash::{HashMap, HashMapExt, HashSet};

/// Set of special tokens to search for.
pub(super) struct SpecialTokens {
    ids: HashMap<Box<[u8]>, u32>,
    /// Distinct lengths, longest first.
    lengths: Vec<usize>,
    /// Bit set of the pairs of first bytes, to dismiss most positions of a prompt at once.
    pairs: Box<[u64; 1024]>,
    /// True for each byte that is a text by itself.
    singles: [bool; 256],
    strips: Strips,
}

/// Tokens that absorb adjacent ASCII white space.
#[derive(Clone, Default)]
pub(super) struct Strips {
    /// Tokens that absorb the white space before them.
    pub(super) left: HashSet<u32>,
    /// Tokens that absorb the white space after them.
    pub(super) right: HashSet<u32>,
}

/// Match of a special token, with the white space that it absorbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) id: u32,
}

impl SpecialTokens {
    /// Creates the set of the given texts; an empty text is skipped, as it would match everywhere.
    pub(super) fn new<'a>(tokens: impl Iterator<Item = (&'a [u8], u32)>) -> Self {
        let mut set = SpecialTokens {
            ids: HashMap::new(),
            lengths: Vec::new(),
            pairs: Box::new([0; 1024]),
            singles: [false; 256],
            strips: Strips::default(),
        };
        for (text, id) in tokens {
            match *text {
                [] => continue,
                [only] => set.singles[usize::from(only)] = true,
                [a, b, ..] => {
                    let pair = usize::from(a) << 8 | usize::from(b);
                    set.pairs[pair / 64] |= 1 << (pair % 64);
                }
            }
            set.lengths.push(text.len());
            set.ids.insert(text.into(), id);
        }
        set.lengths.sort_unstable_by(|a, b| b.cmp(a));
        set.lengths.dedup();
        set
    }

    /// Sets the tokens that absorb white space.
    pub(super) fn stripping(self, strips: Strips) -> Self {
        SpecialTokens { strips, ..self }
    }

    /// Returns the matches in `text`, in order, for which `allowed` is true; `allowed` gets the match without
    /// absorbed white space.
    pub(super) fn find(&self, text: &[u8], allowed: impl Fn(Claim) -> bool) -> Vec<Claim> {
        let candidates = self.candidates(text);
        let mut claims: Vec<Claim> = Vec::new();
        if candidates.is_empty() {
            return claims;
        }
        for &len in &self.lengths {
            let mut old = claims.iter().copied().peekable();
            let mut merged = Vec::new();
            let mut free_from = 0;
            for &start in &candidates {
                while let Some(claim) = old.next_if(|claim| claim.start <= start) {
                    free_from = claim.end;
                    merged.push(claim);
                }
                let end = start + len;
                let free_to = old.peek().map_or(text.len(), |claim| claim.start);
                if start < free_from || end > free_to {
                    continue;
                }
                if let Some(&id) = self.ids.get(&text[start..end])
                    && allowed(Claim { start, end, id })
                {
                    let claim = self.widened(Claim { start, end, id }, text, free_from, free_to);
                    merged.push(claim);
                    free_from = claim.end;
                }
            }
            merged.extend(old);
            claims = merged;
        }
        claims
    }

    /// Extends a match by the white space that its token absorbs, up to the adjacent matches.
    fn widened(&self, mut claim: Claim, text: &[u8], free_from: usize, free_to: usize) -> Claim {
        let is_space = |byte: &&u8| byte.is_ascii_whitespace() || **byte == b'\x0b';
        if self.strips.left.contains(&claim.id) {
            claim.start -= text[free_from..claim.start].iter().rev().take_while(is_space).count();
        }
        if self.strips.right.contains(&claim.id) {
            claim.end += text[claim.end..free_to].iter().take_while(is_space).count();
        }
        claim
    }

    /// Returns the positions where a special token may begin.
    fn candidates(&self, text: &[u8]) -> Vec<usize> {
        if self.ids.is_empty() {
            return Vec::new();
        }
        let begins = |at: &usize| {
            let first = usize::from(text[*at]);
            let pair = text.get(at + 1).map(|&b| first << 8 | usize::from(b));
            self.singles[first] || pair.is_some_and(|pair| self.pairs[pair / 64] >> (pair % 64) & 1 == 1)
        };
        (0..text.len()).filter(begins).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(tokens: &[&str], text: &str) -> Vec<(usize, u32)> {
        let set = SpecialTokens::new(tokens.iter().zip(0..).map(|(t, id)| (t.as_bytes(), id)));
        set.find(text.as_bytes(), |_| true).iter().map(|c| (c.start, c.id)).collect()
    }

    #[test]
    fn find_prefers_the_longest_anywhere() {
        assert_eq!(find(&["xa", "abc"], "xabc"), [(1, 1)]);
        assert_eq!(find(&["<a>", "<a><b>"], "<a><b><a>"), [(0, 1), (6, 0)]);
        assert_eq!(find(&["aa", "a"], "aaaaa"), [(0, 0), (2, 0), (4, 1)]);
        assert_eq!(find(&["\n", "\n\n\n"], "x\n\n\n\ny\n"), [(1, 1), (4, 0), (6, 0)]);
        assert_eq!(find(&["", "é"], "ée"), [(0, 1)]);
        assert_eq!(find(&["ab", "bc"], "abc"), [(0, 0)]);
        assert_eq!(find(&[], "abc"), []);
        assert_eq!(find(&["abc"], "ab"), []);
    }

    #[test]
    fn find_takes_white_space_up_to_the_next_token() {
        let tokens = ["<m>", "<r>", " x"];
        let set = SpecialTokens::new(tokens.iter().zip(0..).map(|(t, id)| (t.as_bytes(), id)));
        let strips = Strips { left: [0].into_iter().collect(), right: [1].into_iter().collect() };
        let set = set.stripping(strips);
        let find = |text: &str| {
            set.find(text.as_bytes(), |_| true).iter().map(|c| (c.start, c.end, c.id)).collect::<Vec<_>>()
        };
        assert_eq!(find("a \t<m> b"), [(1, 6, 0)]);
        assert_eq!(find("a <r>\n\x0b\u{a0}"), [(2, 7, 1)]);
        assert_eq!(find("<r>  <m>"), [(0, 5, 1), (5, 8, 0)]);
        assert_eq!(find("<r> x x"), [(0, 4, 1), (5, 7, 2)]);
        assert_eq!(find("\n<m>"), [(0, 4, 0)]);
    }

    proptest::proptest! {
        #[test]
        fn find_equals_one_token_at_a_time(
            tokens in proptest::collection::btree_set("[ab]{1,4}", 0..6),
            text in "[abc]{0,30}",
        ) {
            // Longest first; texts of one length have no order under the rule, so lengths are made unique.
            let mut by_len = std::collections::BTreeMap::new();
            for t in &tokens { by_len.entry(t.len()).or_insert(t.as_str()); }
            let tokens: Vec<&str> = by_len.into_values().collect();
            let mut claimed = vec![None; text.len()];
            let mut want = Vec::new();
            for (id, token) in tokens.iter().enumerate().rev() {
                let mut at = 0;
                while at + token.len() <= text.len() {
                    let place = at..at + token.len();
                    if &text[place.clone()] == *token && claimed[place.clone()].iter().all(Option::is_none) {
                        claimed[place].fill(Some(id));
                        want.push((at, id as u32));
                        at += token.len();
                    } else {
                        at += 1;
                    }
                }
            }
            want.sort_unstable();
            proptest::prop_assert_eq!(find(&tokens, &text), want);
        }
    }
}
