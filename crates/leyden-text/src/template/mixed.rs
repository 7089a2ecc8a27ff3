//! [`Mixed`]: a text that knows which of its bytes are content.
//!
//! What a template says itself and what messages, tools and variables bring are told apart byte by byte, through every
//! operation, so that only the template can write the marks of a model's format. An operation that cannot tell makes
//! its whole result content as soon as one byte of what it was given is.

use std::ops::Range;

/// A text that is being put together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mixed {
    pub(super) text: String,
    /// The bytes that are content: ranges in ascending order, none empty, none next to another.
    pub(super) content: Vec<Range<usize>>,
}

impl Mixed {
    /// Appends what the template says itself.
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

    /// Appends a part of another text, or what was made of it.
    pub(super) fn push_as(&mut self, text: &str, is_content: bool) {
        if is_content { self.push_content(text) } else { self.push_own(text) }
    }

    /// Appends a part of another text.
    pub(super) fn push(&mut self, part: Part<'_>) {
        part.runs().for_each(|(run, is_content)| self.push_as(run, is_content));
    }

    /// A text made of `from` by something that does not keep its bytes.
    pub(super) fn made_of(text: String, from: Part<'_>) -> Self {
        let all = (from.has_content() && !text.is_empty()).then_some(0..text.len());
        Mixed { text, content: all.into_iter().collect() }
    }
}

/// A part of a text, with what is content in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    whole: &'a str,
    /// Of the whole text.
    content: &'a [Range<usize>],
    start: usize,
    end: usize,
}

impl<'a> Part<'a> {
    /// A whole text.
    pub(super) fn new(whole: &'a str, content: &'a [Range<usize>]) -> Self {
        Part { whole, content, start: 0, end: whole.len() }
    }

    /// A text that the template says itself.
    pub(super) fn own(text: &'a str) -> Self {
        Part::new(text, &[])
    }

    pub(super) fn as_str(self) -> &'a str {
        &self.whole[self.start..self.end]
    }

    /// The bytes of this part in `range`, which counts from its beginning.
    pub(super) fn range(self, range: Range<usize>) -> Part<'a> {
        let place = |at: usize| self.start.saturating_add(at).min(self.end);
        Part { start: place(range.start), end: place(range.end.max(range.start)), ..self }
    }

    /// The part of this text that `inner` is, a slice of it.
    pub(super) fn of(self, inner: &str) -> Part<'a> {
        let at = (inner.as_ptr() as usize).wrapping_sub(self.as_str().as_ptr() as usize);
        if inner.is_empty() { self.range(0..0) } else { self.range(at..at.saturating_add(inner.len())) }
    }

    /// Whether any byte is content.
    pub(super) fn has_content(self) -> bool {
        let next = self.content.partition_point(|range| range.end <= self.start);
        self.content.get(next).is_some_and(|range| range.start < self.end)
    }

    /// The stretches that are content and those that are not, in turn.
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
