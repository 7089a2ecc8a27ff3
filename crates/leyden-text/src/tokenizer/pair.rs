//! Pairs of texts in one sequence: a question and a document to be scored by a reranker.

use super::bounds::Bounds;
use super::{PairTemplate, Special, Tokenizer};
use crate::error::Error;
use std::cell::RefCell;
use std::ops::Range;

/// Tokens of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// All token ids.
    pub ids: Vec<u32>,
    /// Start of the second text, if it has another token type.
    pub second: Option<usize>,
    /// Range of the second text's tokens.
    document: Range<usize>,
}

impl Pair {
    /// Truncates the second text to `tokens` tokens.
    pub fn truncate_document(&mut self, tokens: usize) {
        let end = self.document.end.min(self.document.start.saturating_add(tokens));
        self.ids.drain(end..self.document.end);
        self.document.end = end;
    }

    /// Truncates the second text at its end, or at its `beginning`, so that the pair has at most `tokens` tokens.
    /// Returns false if the other tokens alone are more.
    pub fn truncate(&mut self, tokens: usize, beginning: bool) -> bool {
        let excess = self.ids.len().saturating_sub(tokens);
        if excess > self.document.len() {
            return false;
        }
        let start = if beginning { self.document.start } else { self.document.end - excess };
        self.ids.drain(start..start + excess);
        self.document.end -= excess;
        true
    }
}

/// Tokenizer of pairs of a question and a document.
#[expect(missing_debug_implementations, reason = "a tokenizer has nothing to show")]
pub struct Pairs<'a> {
    tokenizer: &'a dyn Tokenizer,
    template: PairTemplate,
    /// Texts around the question and the document, for a model with a text prompt.
    prompt: Option<[&'a str; 3]>,
    /// First text of the last pair with its tokens: most pairs have the same question.
    last: RefCell<Option<(String, Vec<u32>)>>,
}

impl<'a> Pairs<'a> {
    /// Creates a tokenizer of pairs, with the tokenizer's own pair template or a text prompt with `{query}` and
    /// `{document}` in it.
    #[must_use]
    pub fn new(tokenizer: &'a dyn Tokenizer, prompt: Option<&'a str>) -> Pairs<'a> {
        let parts = prompt.and_then(|prompt| {
            let (before, rest) = prompt.split_once("{query}")?;
            let (between, after) = rest.split_once("{document}")?;
            Some([before, between, after])
        });
        Pairs { tokenizer, template: tokenizer.pair(), prompt: parts, last: RefCell::new(None) }
    }

    /// Returns the tokens of a pair. Names of special tokens in the two texts stay text.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_within`]; bounds apply to each text, or to the whole prompt.
    pub fn encode(&self, query: &str, document: &str, bounds: &Bounds<'_>) -> Result<Pair, Error> {
        if let Some([before, between, after]) = self.prompt {
            let start = before.len()..before.len() + query.len();
            let second = start.end + between.len()..start.end + between.len() + document.len();
            let text = [before, query, between, document, after].concat();
            let content = [start, second];
            let mut ids = self.tokenizer.encode_within(&text, Special::Outside(&content), bounds)?;
            if let Some(bos) = self.tokenizer.bos().filter(|_| self.tokenizer.add_bos())
                && ids.first() != Some(&bos)
            {
                ids.insert(0, bos);
            }
            let parse = |text: &str| self.tokenizer.encode_within(text, Special::Parse, bounds);
            // The text after the document begins with a special token, so no token spans the boundary.
            let end = ids.len().saturating_sub(parse(after)?.len());
            let head = [before, query, between].concat();
            let first = self.tokenizer.encode_within(&head, Special::Outside(&content[..1]), bounds)?.len();
            return Ok(Pair { document: first.min(end)..end, ids, second: None });
        }
        let text = |text: &str| self.tokenizer.encode_within(text, Special::AsText, bounds);
        let PairTemplate { before, between, after, second_type } = &self.template;
        let mut last = self.last.borrow_mut();
        let first = match &mut *last {
            Some((known, ids)) if known == query => ids,
            other => &mut other.insert((query.to_owned(), text(query)?)).1,
        };
        let mut ids = [&before[..], first, between].concat();
        let second = ids.len();
        ids.extend(text(document)?);
        let document = second..ids.len();
        ids.extend(after);
        Ok(Pair { ids, second: second_type.then_some(second), document })
    }

    /// Tokenizes a pair, splitting a document that is too long for `most` tokens recursively in halves.
    ///
    /// # Errors
    /// As [`encode`](Self::encode). Returns `None` if the question leaves less than an eighth of the tokens for the
    /// document: the number of pairs would be excessive, as each repeats the question.
    pub fn windows(
        &self,
        query: &str,
        document: &str,
        most: usize,
        bounds: &Bounds<'_>,
    ) -> Result<Option<Vec<Pair>>, Error> {
        let whole = self.encode(query, document, bounds)?;
        if whole.ids.len() <= most {
            return Ok(Some(vec![whole]));
        }
        let question = self.encode(query, "", bounds)?.ids.len();
        if most.saturating_sub(question) < most.div_ceil(8) {
            return Ok(None);
        }
        let mut windows = Vec::new();
        // Remaining parts in reverse order.
        let mut rest = vec![document];
        while let Some(part) = rest.pop() {
            let pair = self.encode(query, part, bounds)?;
            if pair.ids.len() <= most {
                windows.push(pair);
                continue;
            }
            let half = middle(part);
            if half == 0 {
                return Ok(None);
            }
            rest.extend([&part[half..], &part[..half]]);
        }
        Ok(Some(windows))
    }
}

/// Returns the position at which a text is split: after the white space nearest before the middle, or else in the
/// middle. 0 if it cannot be split.
fn middle(text: &str) -> usize {
    let half = text.len() / 2;
    let space = |(at, c): (usize, char)| c.is_whitespace().then_some(at + c.len_utf8());
    let before = text[..text.floor_char_boundary(half)].char_indices().rev().find_map(space);
    let inside = before.filter(|at| *at > text.len() / 4);
    let first = text.chars().next().map_or(0, char::len_utf8);
    let cut = inside.unwrap_or_else(|| text.floor_char_boundary(half).max(first));
    if cut < text.len() { cut } else { 0 }
}
