//! Search for tokens that are prefixes of a text.
//!
//! The tokens are sorted, so those with a common prefix are adjacent. A text is matched byte by byte in a shrinking
//! range, without building a tree.

/// Tokens ordered by their bytes.
pub(super) struct PrefixSearch {
    /// Concatenated bytes of all tokens, in order.
    bytes: Vec<u8>,
    /// Start of each token in `bytes`, and its id; the last entry is a sentinel.
    tokens: Vec<(usize, u32)>,
    /// For each first byte the index of the first token that begins with it or a higher one.
    first: [usize; 257],
}

impl PrefixSearch {
    /// Builds the search over distinct tokens. Empty ones are skipped.
    pub(super) fn new<'a>(tokens: impl Iterator<Item = (&'a [u8], u32)>) -> Self {
        let mut sorted: Vec<(&[u8], u32)> = tokens.filter(|(token, _)| !token.is_empty()).collect();
        sorted.sort_unstable();
        let mut bytes = Vec::with_capacity(sorted.iter().map(|(token, _)| token.len()).sum());
        let mut starts = Vec::with_capacity(sorted.len() + 1);
        for &(token, id) in &sorted {
            starts.push((bytes.len(), id));
            bytes.extend_from_slice(token);
        }
        starts.push((bytes.len(), 0));
        let first =
            std::array::from_fn(|byte| sorted.partition_point(|(token, _)| usize::from(token[0]) < byte));
        PrefixSearch { bytes, tokens: starts, first }
    }

    /// Calls `found` with the length and the id of each token that is a prefix of `text`, shortest first. Returns
    /// the length of the longest common prefix of `text` and any token.
    pub(super) fn walk(&self, text: &[u8], mut found: impl FnMut(usize, u32)) -> usize {
        let Some(&byte) = text.first() else { return 0 };
        let (mut low, mut high) = (self.first[usize::from(byte)], self.first[usize::from(byte) + 1]);
        let mut depth = 0;
        while low < high {
            depth += 1;
            let ((start, id), (end, _)) = (self.tokens[low], self.tokens[low + 1]);
            if end - start == depth {
                found(depth, id);
                low += 1;
            }
            let Some(&byte) = text.get(depth) else { break };
            // The remaining tokens are longer than `depth`.
            let range = &self.tokens[low..high];
            let at = |&(start, _): &(usize, u32)| self.bytes[start + depth];
            let begin = low + range.partition_point(|token| at(token) < byte);
            high = low + range.partition_point(|token| at(token) <= byte);
            low = begin;
        }
        depth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn walk_finds_what_the_text_begins_with(
            tokens in proptest::collection::btree_set("[ab\u{e9}]{0,4}", 0..12),
            text in "[ab\u{e9}]{0,6}",
        ) {
            let search = PrefixSearch::new(tokens.iter().zip(0..).map(|(token, id)| (token.as_bytes(), id)));
            let mut found = Vec::new();
            let depth = search.walk(text.as_bytes(), |len, id| found.push((len, id)));
            let mut want: Vec<(usize, u32)> = tokens
                .iter()
                .zip(0..)
                .filter(|(token, _)| !token.is_empty() && text.starts_with(token.as_str()))
                .map(|(token, id)| (token.len(), id))
                .collect();
            want.sort_unstable();
            proptest::prop_assert_eq!(found, want);
            let common = |token: &String| token.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
            proptest::prop_assert_eq!(depth, tokens.iter().map(common).max().unwrap_or(0));
        }
    }
}
