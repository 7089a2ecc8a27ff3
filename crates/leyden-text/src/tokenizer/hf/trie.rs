//! [`Trie`]: search for the tokens that are prefixes of a text.

use std::collections::VecDeque;

/// Trie of tokens by their bytes. The children of a node are adjacent, in the order of their labels.
pub(super) struct Trie {
    nodes: Vec<Node>,
    /// Children of the root by their labels: most searches end there.
    roots: Box<[u32; 256]>,
}

#[derive(Clone, Copy)]
struct Node {
    first_child: u32,
    /// Number of children minus one; unused without children.
    last_child: u8,
    label: u8,
    has_children: bool,
    /// Token that ends here, or `NONE`.
    id: u32,
}

const NONE: u32 = u32::MAX;

/// Node whose children are not yet created; the root is not among the nodes.
struct Open<'a> {
    parent: Option<usize>,
    depth: usize,
    below: &'a [(&'a [u8], u32)],
}

impl Trie {
    /// Builds the trie of distinct texts with their ids. Empty texts are skipped.
    pub(super) fn new(mut tokens: Vec<(&[u8], u32)>) -> Self {
        tokens.sort_unstable();
        let mut trie = Trie { nodes: Vec::new(), roots: Box::new([NONE; 256]) };
        let mut open = VecDeque::from([Open { parent: None, depth: 0, below: &tokens }]);
        while let Some(Open { parent, depth, mut below }) = open.pop_front() {
            while let Some(((text, id), rest)) = below.split_first()
                && text.len() == depth
            {
                if let Some(parent) = parent {
                    trie.nodes[parent].id = *id;
                }
                below = rest;
            }
            let first = trie.nodes.len();
            for group in below.chunk_by(|a, b| a.0[depth] == b.0[depth]) {
                let label = group[0].0[depth];
                let at = trie.nodes.len();
                trie.nodes.push(Node { first_child: 0, last_child: 0, label, has_children: false, id: NONE });
                if parent.is_none() {
                    trie.roots[usize::from(label)] = at as u32;
                }
                open.push_back(Open { parent: Some(at), depth: depth + 1, below: group });
            }
            if let Some(parent) = parent
                && let Some(last) = (trie.nodes.len() - first).checked_sub(1)
            {
                let node = &mut trie.nodes[parent];
                (node.first_child, node.last_child, node.has_children) = (first as u32, last as u8, true);
            }
        }
        trie
    }

    /// Starts a walk along the bytes of a text.
    pub(super) fn walk(&self) -> Walk<'_> {
        Walk { trie: self, at: None }
    }

    /// Returns the token of a whole text.
    pub(super) fn get(&self, text: &[u8]) -> Option<u32> {
        let mut walk = self.walk();
        let mut found = None;
        for &byte in text {
            found = walk.step(byte)?;
        }
        found
    }
}

/// Position in the trie.
#[derive(Clone)]
pub(super) struct Walk<'a> {
    trie: &'a Trie,
    at: Option<&'a Node>,
}

impl Walk<'_> {
    /// Advances by a byte. Returns `None` if no token continues so, otherwise the token that ends there, if any.
    pub(super) fn step(&mut self, byte: u8) -> Option<Option<u32>> {
        let nodes = &self.trie.nodes;
        let at = match self.at {
            None => usize::try_from(self.trie.roots[usize::from(byte)]).ok()?,
            Some(node) if node.has_children => {
                let first = usize::try_from(node.first_child).ok()?;
                let children = nodes.get(first..=first + usize::from(node.last_child))?;
                first + children.binary_search_by_key(&byte, |child| child.label).ok()?
            }
            Some(_) => return None,
        };
        let node = nodes.get(at)?;
        self.at = Some(node);
        Some((node.id != NONE).then_some(node.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn walks_find_what_a_list_finds(
            tokens in proptest::collection::btree_set("[abé\u{10ffff}]{1,4}", 0..30),
            text in "[abcé\u{10ffff}]{0,6}",
        ) {
            let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
            let trie = Trie::new(tokens.iter().zip(0..).map(|(text, id)| (text.as_bytes(), id)).collect());
            let mut walk = trie.walk();
            let found: Vec<u32> = text.bytes().map_while(|byte| walk.step(byte)).flatten().collect();
            let mut want: Vec<(usize, u32)> = (0..).zip(&tokens)
                .filter(|(_, token)| text.starts_with(**token)).map(|(id, token)| (token.len(), id)).collect();
            want.sort_unstable();
            proptest::prop_assert_eq!(found, want.iter().map(|pair| pair.1).collect::<Vec<_>>());
            let whole = tokens.iter().position(|token| *token == text).map(|id| id as u32);
            proptest::prop_assert_eq!(trie.get(text.as_bytes()), whole);
        }
    }
}
