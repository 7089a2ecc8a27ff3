//! Pairs of texts in one sequence: a question and a document whose score a model gives.

use super::bounds::Bounds;
use super::{Special, Tokenizer};
use crate::error::Error;
use std::cell::RefCell;
use std::ops::Range;

/// The tokens around the two texts of a pair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairTemplate {
    /// Before the first.
    pub before: Vec<u32>,
    /// Behind the first.
    pub between: Vec<u32>,
    /// Behind the second.
    pub after: Vec<u32>,
    /// Whether the second text, with what is behind it, is of another type where a model tells types apart.
    pub second_type: bool,
}

impl PairTemplate {
    /// A token before the first text, one that ends each, and so many of these between them.
    #[must_use]
    pub fn around(begin: Option<u32>, end: Option<u32>, separators: usize) -> PairTemplate {
        let all = |token: Option<u32>, n: usize| {
            token.into_iter().cycle().take(if token.is_some() { n } else { 0 }).collect()
        };
        PairTemplate {
            before: all(begin, 1),
            between: all(end, separators),
            after: all(end, 1),
            second_type: false,
        }
    }
}

/// A pair in tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// All of it.
    pub ids: Vec<u32>,
    /// Where the second text begins, if it is of another type.
    pub second: Option<usize>,
    /// The tokens of the second text.
    document: Range<usize>,
}

impl Pair {
    /// Leaves out all but so many tokens of the second text.
    pub fn truncate_document(&mut self, tokens: usize) {
        let end = self.document.end.min(self.document.start.saturating_add(tokens));
        self.ids.drain(end..self.document.end);
        self.document.end = end;
    }

    /// Leaves out the end of the second text, or its `beginning`, so that so many tokens are left. False if the others alone
    /// are more.
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

/// How pairs of a question and a document are written.
#[expect(missing_debug_implementations, reason = "a tokenizer has nothing to show")]
pub struct Pairs<'a> {
    tokenizer: &'a dyn Tokenizer,
    template: PairTemplate,
    /// What stands around the texts, for a model that is asked in words.
    prompt: Option<[&'a str; 3]>,
    /// The first text of the last pair and its tokens: most pairs have the same question.
    last: RefCell<Option<(String, Vec<u32>)>>,
}

impl<'a> Pairs<'a> {
    /// As the tokenizer has them or, for a model that is asked in words, as a prompt with `{query}` and `{document}` in it.
    #[must_use]
    pub fn new(tokenizer: &'a dyn Tokenizer, prompt: Option<&'a str>) -> Pairs<'a> {
        let parts = prompt.and_then(|prompt| {
            let (before, rest) = prompt.split_once("{query}")?;
            let (between, after) = rest.split_once("{document}")?;
            Some([before, between, after])
        });
        Pairs { tokenizer, template: tokenizer.pair(), prompt: parts, last: RefCell::new(None) }
    }

    /// The tokens of a pair. Names of special tokens in the two texts stay text.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_within`]; bounds are those of each text, or of the whole prompt.
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
            // What follows begins with a special token, so that no token reaches across.
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

    /// The same where a document that is too long for `most` tokens becomes several pairs: its halves, and theirs.
    ///
    /// # Errors
    /// As [`encode`](Self::encode); and `None` if the question leaves less than an eighth of the tokens to the document: with
    /// it in every pair, there would be no end of them.
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
        // The rest, from its end.
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

/// Where a text is cut: behind the white space that is nearest to the middle, or else in the middle. 0 if it cannot be.
fn middle(text: &str) -> usize {
    let half = text.len() / 2;
    let space = |(at, c): (usize, char)| c.is_whitespace().then_some(at + c.len_utf8());
    let before = text[..text.floor_char_boundary(half)].char_indices().rev().find_map(space);
    let inside = before.filter(|at| *at > text.len() / 4);
    let first = text.chars().next().map_or(0, char::len_utf8);
    let cut = inside.unwrap_or_else(|| text.floor_char_boundary(half).max(first));
    if cut < text.len() { cut } else { 0 }
}
