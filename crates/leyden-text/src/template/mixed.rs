//! [`Mixed`]: text that records which of its bytes are content.
//!
//! Text of the template and text from messages, tools and variables are told apart byte by byte, through every
//! operation, so that only the template can write the special tokens of a model's format. If an operation cannot
//! map bytes, its whole result is content as soon as one byte of its input is.

use std::ops::Range;

/// Text under construction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mixed {
    pub(super) text: String,
    /// Byte ranges of the content, ascending, non-empty and non-adjacent.
    pub(super) content: Vec<Range<usize>>,
}

impl Mixed {
    /// Appends text of the template.
    pub(super) fn push_own(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Appends content.
    pub(super) fn push_content(&mut self, text: &str) {
        let start = self.text.len();
        self.text.push_str(text);
        match self.content.last_mut() {
            Some(last) if last.end == start => last.end = self.text.len(),
            _ if !text.is_empty() => self.content.push(start..self.text.len()),
            _ => {}
        }
    }

    /// Appends text that is content if `is_content` is true.
    pub(super) fn push_as(&mut self, text: &str, is_content: bool) {
        if is_content { self.push_content(text) } else { self.push_own(text) }
    }

    /// Appends a part of another text.
    pub(super) fn push(&mut self, part: Part<'_>) {
        part.runs().for_each(|(run, is_content)| self.push_as(run, is_content));
    }

    /// Creates a text made from `from` by an operation that does not preserve bytes.
    pub(super) fn made_of(text: String, from: Part<'_>) -> Self {
        let all = (from.has_content() && !text.is_empty()).then_some(0..text.len());
        Mixed { text, content: all.into_iter().collect() }
    }
}

/// Part of a text, with the content ranges in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    whole: &'a str,
    /// Content ranges of the whole text.
    content: &'a [Range<usize>],
    start: usize,
    end: usize,
}

impl<'a> Part<'a> {
    /// Creates a part that is a whole text.
    pub(super) fn new(whole: &'a str, content: &'a [Range<usize>]) -> Self {
        Part { whole, content, start: 0, end: whole.len() }
    }

    /// Creates a part that is a text of the template.
    pub(super) fn own(text: &'a str) -> Self {
        Part::new(text, &[])
    }

    pub(super) fn as_str(self) -> &'a str {
        &self.whole[self.start..self.end]
    }

    /// Returns the bytes of this part in `range`, relative to its beginning.
    pub(super) fn range(self, range: Range<usize>) -> Part<'a> {
        let place = |at: usize| self.start.saturating_add(at).min(self.end);
        Part { start: place(range.start), end: place(range.end.max(range.start)), ..self }
    }

    /// Returns the part that `inner`, a slice of this text, covers.
    pub(super) fn of(self, inner: &str) -> Part<'a> {
        let at = (inner.as_ptr() as usize).wrapping_sub(self.as_str().as_ptr() as usize);
        if inner.is_empty() { self.range(0..0) } else { self.range(at..at.saturating_add(inner.len())) }
    }

    /// Returns whether any byte is content.
    pub(super) fn has_content(self) -> bool {
        let next = self.content.partition_point(|range| range.end <= self.start);
        self.content.get(next).is_some_and(|range| range.start < self.end)
    }

    /// Returns the maximal runs of text, each with whether it is content.
    pub(super) fn runs(self) -> impl Iterator<Item = (&'a str, bool)> {
        let next = self.content.partition_point(|range| range.end <= self.start);
        let mut ranges =
            self.content[next..].iter().take_while(move |range| range.start < self.end).peekable();
        let mut at = self.start;
        std::iter::from_fn(move || {
            if at >= self.end {
                return None;
            }
            let start = at;
            let is_content = ranges.peek().is_some_and(|range| range.start <= at);
            at = match ranges.peek() {
                Some(range) if is_content => range.end.min(self.end),
                Some(range) => range.start.min(self.end),
                None => self.end,
            };
            if is_content {
                ranges.next();
            }
            Some((&self.whole[start..at], is_content))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Mixed {
        let mut text = Mixed::default();
        text.push_own("<a>");
        text.push_content("xy");
        text.push_content("z");
        text.push_content("");
        text.push_own("<b>");
        text.push_content("é");
        text
    }

    fn runs(part: Part<'_>) -> Vec<(&str, bool)> {
        part.runs().collect()
    }

    #[test]
    fn runs_follow_what_was_pushed() {
        let text = sample();
        assert_eq!(text.content, [3..6, 9..11]);
        let part = Part::new(&text.text, &text.content);
        assert_eq!(runs(part), [("<a>", false), ("xyz", true), ("<b>", false), ("é", true)]);
        let mut again = Mixed::default();
        again.push(part);
        assert_eq!(again, text);
        assert_eq!(runs(Part::own("")), []);
    }

    #[test]
    fn parts_of_parts_keep_their_places() {
        let text = sample();
        let part = Part::new(&text.text, &text.content);
        let middle = part.range(4..8);
        assert_eq!(runs(middle), [("yz", true), ("<b", false)]);
        assert_eq!(runs(middle.of(&middle.as_str()[1..3])), [("z", true), ("<", false)]);
        assert_eq!((middle.has_content(), part.range(6..9).has_content()), (true, false));
        assert_eq!(middle.of("").as_str(), "");
        assert_eq!(runs(part.range(3..3)), []);
    }
}
