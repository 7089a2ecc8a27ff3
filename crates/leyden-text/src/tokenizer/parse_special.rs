//! [`Special`]: treatment of names of special tokens in a text.

use std::ops::Range;

/// Treatment of texts like `<|eot_id|>` in a prompt, which are names of special tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special<'a> {
    /// They become special tokens. For prompts written by hand with special tokens in them.
    Parse,
    /// Control tokens stay text. For untrusted text, which must not be able to end a turn. Tokens that the
    /// vocabulary declares user-defined are matched nevertheless: they are words of the model.
    AsText,
    /// They become special tokens if none of their bytes is in these ranges, which ascend and do not overlap. For
    /// prompts rendered by a chat template, whose messages must not be able to end a turn. User-defined tokens of
    /// the form `<|…|>` count as control tokens here: files often declare the wrong kind.
    Outside(&'a [Range<usize>]),
}

impl Special<'_> {
    /// Returns whether a special token is allowed at a position. `is_mark` tells whether it marks the structure of
    /// a prompt.
    pub(super) fn allows(self, place: Range<usize>, is_mark: impl FnOnce() -> bool) -> bool {
        self.next_content(place.start).start >= place.end || !is_mark()
    }

    /// Returns the content ranges within a range, relative to its beginning.
    pub(super) fn content_in(self, range: &Range<usize>) -> Vec<Range<usize>> {
        let Special::Outside(content) = self else { return Vec::new() };
        let first = content.partition_point(|inner| inner.end <= range.start);
        let inside = content[first..].iter().take_while(|inner| inner.start < range.end);
        let clipped = |inner: &Range<usize>| {
            inner.start.max(range.start) - range.start..inner.end.min(range.end) - range.start
        };
        inside.map(clipped).collect()
    }

    /// Returns the first content range that ends after a position; an empty one at `usize::MAX` if there is none.
    pub(super) fn next_content(self, at: usize) -> Range<usize> {
        let Special::Outside(content) = self else { return usize::MAX..usize::MAX };
        content
            .get(content.partition_point(|range| range.end <= at))
            .cloned()
            .unwrap_or(usize::MAX..usize::MAX)
    }
}

/// Returns whether a token's text has the form of special tokens: `<|im_start|>`, `<｜User｜>`.
pub(super) fn looks_like_mark(text: &[u8]) -> bool {
    [("<|", "|>"), ("<｜", "｜>")].iter().any(|(open, close)| {
        let inner = text.strip_prefix(open.as_bytes()).and_then(|rest| rest.strip_suffix(close.as_bytes()));
        inner.is_some_and(|inner| !inner.is_empty())
    })
}
