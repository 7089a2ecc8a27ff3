//! Sentences of a text, and chunks of it for speech that begins early.

use std::ops::Range;

use crate::normalize::{ends_with_abbreviation, is_sounded};

/// Abbreviations that often end a sentence: a capital after them begins the next one.
const OFTEN_LAST: &[&str] =
    &["etc", "inc", "corp", "ltd", "p.m", "a.m", "jr", "sr", "al", "u.s", "u.k", "co"];

/// Sizes of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkOptions {
    /// Words after which the first chunk ends, at a comma before if there is one.
    pub first_words: usize,
    /// Bytes above which a sentence is cut, at a mark or else between words.
    pub max_bytes: usize,
}

impl Default for ChunkOptions {
    /// Returns sizes for a first chunk of about two seconds of speech, and sentences that Kokoro's 510 symbols hold.
    fn default() -> Self {
        Self { first_words: 8, max_bytes: 280 }
    }
}

/// Returns the sentences of a text, without the white space around them; each has a letter, digit or sign that is said.
///
/// A sentence ends at `.`, `!`, `?` or `…` before white space, but not after an abbreviation or initial, nor before a small letter; and at an
/// empty line.
///
/// ```
/// let text = "Dr. Smith paid $3.50. He left at 5 p.m. sharp!";
/// let sentences: Vec<&str> = leyden_phonemes::sentences(text).into_iter().map(|span| &text[span]).collect();
/// assert_eq!(sentences, ["Dr. Smith paid $3.50.", "He left at 5 p.m. sharp!"]);
/// ```
#[must_use]
pub fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    let mut start = 0;
    let mut after_end: Option<(usize, bool)> = None;
    let mut newlines = 0;
    for (at, symbol) in text.char_indices() {
        if symbol.is_whitespace() {
            newlines += usize::from(symbol == '\n');
            if newlines == 2 {
                push(&mut spans, text, start..at);
                start = at;
                after_end = None;
            }
            continue;
        }
        // The first character after white space decides about the mark before it.
        if let Some((end, certain)) = after_end
            && text[end..at].chars().any(char::is_whitespace)
        {
            let begins = symbol.is_uppercase() || symbol.is_numeric() || !symbol.is_alphabetic();
            if certain && !symbol.is_lowercase() || begins && may_end(&text[start..end]) {
                push(&mut spans, text, start..end);
                start = at;
            }
            after_end = None;
        }
        newlines = 0;
        match symbol {
            '!' | '?' | '…' | '。' | '！' | '？' => after_end = Some((at + symbol.len_utf8(), true)),
            '.' => after_end = Some((at + 1, false)),
            '"' | '\'' | '”' | '’' | ')' | ']' | '»' | '*' | '_' => {
                after_end = after_end.map(|(_, certain)| (at + symbol.len_utf8(), certain));
            }
            _ => after_end = None,
        }
        if matches!(symbol, '。' | '！' | '？') {
            push(&mut spans, text, start..at + symbol.len_utf8());
            start = at + symbol.len_utf8();
            after_end = None;
        }
    }
    push(&mut spans, text, start..text.len());
    spans
}

/// Returns true if the full stop at the end of a text can end a sentence.
fn may_end(text: &str) -> bool {
    let inner = text.trim_end_matches(['"', '\'', '”', '’', ')', ']', '»', '*', '_']);
    let Some(before) = inner.strip_suffix('.') else { return true };
    if before.ends_with('.') || inner.len() < text.len() {
        return true;
    }
    let word = before.rsplit(char::is_whitespace).next().unwrap_or_default().to_lowercase();
    !ends_with_abbreviation(before) || OFTEN_LAST.contains(&word.as_str())
}

/// Adds a span without white space around it, if something of it is said.
fn push(spans: &mut Vec<Range<usize>>, text: &str, span: Range<usize>) {
    let part = &text[span.clone()];
    let start = span.start + part.len() - part.trim_start().len();
    let end = span.start + part.trim_end().len();
    if start < end && part.chars().any(is_sounded) {
        spans.push(start..end);
    } else if let Some(last) = spans.last_mut().filter(|_| start < end) {
        last.end = end;
    }
}

/// Returns chunks of a text to be spoken one after the other: sentences, the first of them cut short, the long ones cut.
#[must_use]
pub fn chunks(text: &str, options: ChunkOptions) -> Vec<Range<usize>> {
    let mut chunks = Vec::new();
    for sentence in sentences(text) {
        let mut rest = sentence;
        if chunks.is_empty()
            && let Some(end) = first_end(&text[rest.clone()], options.first_words)
        {
            let end = rest.start + end;
            push(&mut chunks, text, rest.start..end);
            rest.start = end;
        }
        while rest.len() > options.max_bytes {
            let end = rest.start + cut(&text[rest.clone()], options.max_bytes.max(8));
            push(&mut chunks, text, rest.start..end);
            rest.start = end;
        }
        push(&mut chunks, text, rest);
    }
    chunks
}

/// Returns the end of a short first chunk, or `None` if the sentence is short enough or has no place to cut.
fn first_end(text: &str, max_words: usize) -> Option<usize> {
    let mut n_words = 0;
    let mut last_mark = None;
    for (at, symbol) in text.char_indices() {
        if !symbol.is_whitespace() || text[..at].ends_with(char::is_whitespace) {
            continue;
        }
        n_words += 1;
        if n_words >= 3 && text[..at].ends_with([',', ';', ':', '—', '–']) {
            last_mark = Some(at);
        }
        if n_words == max_words + 4 {
            break;
        }
    }
    (n_words >= max_words + 4 || n_words >= 3 && last_mark.is_some())
        .then_some(last_mark)
        .flatten()
        .filter(|&at| at < text.len())
}

/// Returns the place at which a long text is cut: after the last mark within the limit, else the last white space, else a character.
fn cut(text: &str, max_bytes: usize) -> usize {
    let limit = (0..=max_bytes.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    let head = &text[..limit];
    let spaces = || head.char_indices().filter(|&(at, symbol)| symbol.is_whitespace() && at > 0);
    let mark = spaces()
        .filter(|&(at, _)| head[..at].ends_with([',', ';', ':', '—', '–', ')']))
        .map(|(at, _)| at)
        .next_back();
    let place = mark.filter(|&at| at * 3 > limit).or_else(|| spaces().map(|(at, _)| at).next_back());
    place.or_else(|| head.chars().next_back().map(|_| limit)).filter(|&at| at > 0).unwrap_or(text.len())
}

/// A text that arrives in parts, cut into chunks as soon as they are complete.
///
/// ```
/// let mut chunker = leyden_phonemes::Chunker::default();
/// assert!(chunker.push("Well, this is the fi").is_empty());
/// assert_eq!(chunker.push("rst sentence. And"), ["Well, this is the first sentence."]);
/// assert_eq!(chunker.finish(), ["And"]);
/// ```
#[derive(Debug, Default)]
pub struct Chunker {
    options: ChunkOptions,
    waiting: String,
    has_begun: bool,
}

impl Chunker {
    /// Returns a chunker for one text.
    #[must_use]
    pub fn new(options: ChunkOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Adds a part of the text and returns the chunks that are complete.
    pub fn push(&mut self, part: &str) -> Vec<String> {
        let mut done = Vec::new();
        // Long parts are taken piecewise, so that what waits stays short.
        let mut rest = part;
        while !rest.is_empty() {
            let limit = self.options.max_bytes.max(64);
            let end =
                (1..=rest.len()).skip(limit - 1).find(|&at| rest.is_char_boundary(at)).unwrap_or(rest.len());
            self.waiting.push_str(&rest[..end]);
            rest = &rest[end..];
            self.take(&mut done);
        }
        done
    }

    /// Returns the chunks that are left.
    pub fn finish(&mut self) -> Vec<String> {
        let text = std::mem::take(&mut self.waiting);
        let options = if self.has_begun {
            ChunkOptions { first_words: usize::MAX - 4, ..self.options }
        } else {
            self.options
        };
        self.has_begun = false;
        chunks(&text, options).into_iter().map(|span| text[span].to_owned()).collect()
    }

    /// Moves complete chunks from the waiting text to `done`.
    fn take(&mut self, done: &mut Vec<String>) {
        if !self.has_begun {
            let begun = self.waiting.trim_start();
            let skipped = self.waiting.len() - begun.len();
            if let Some(end) =
                first_end(begun, self.options.first_words).filter(|_| sentences(begun).len() < 2)
            {
                self.emit(skipped + end, done);
            }
        }
        loop {
            let spans = sentences(&self.waiting);
            let end = match spans.get(1) {
                Some(second) => second.start,
                None if self.waiting.len() > self.options.max_bytes => {
                    cut(&self.waiting, self.options.max_bytes.max(8))
                }
                None => return,
            };
            self.emit(end, done);
        }
    }

    fn emit(&mut self, end: usize, done: &mut Vec<String>) {
        let rest = self.waiting.split_off(end);
        let chunk = std::mem::replace(&mut self.waiting, rest);
        if chunk.chars().any(is_sounded) {
            done.push(chunk.trim().to_owned());
            self.has_begun = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        sentences(text).into_iter().map(|span| &text[span]).collect()
    }

    #[test]
    fn sentences_of_texts() {
        assert_eq!(texts("One. Two! Three? Four"), ["One.", "Two!", "Three?", "Four"]);
        assert_eq!(
            texts("Mr. J. Smith of the U.S. Army paid 3.5 million. \"Yes.\" He left."),
            ["Mr. J. Smith of the U.S.", "Army paid 3.5 million.", "\"Yes.\"", "He left."]
        );
        assert_eq!(texts("a heading\n\nText e.g. this. ..."), ["a heading", "Text e.g. this. ..."]);
        assert_eq!(
            texts("He said \"no.\" and left... then came."),
            ["He said \"no.\" and left... then came."]
        );
        assert!(texts(" ... !!! \n\n").is_empty());
    }

    #[test]
    fn first_chunk_is_short() {
        let text = "When the rain had stopped at last, all of the people in the small town came out of their houses. Then it began again.";
        let parts: Vec<&str> =
            chunks(text, ChunkOptions::default()).into_iter().map(|span| &text[span]).collect();
        assert_eq!(
            parts,
            [
                "When the rain had stopped at last,",
                "all of the people in the small town came out of their houses.",
                "Then it began again."
            ]
        );
    }

    #[test]
    fn long_text_is_cut_without_loss() {
        for text in ["word ".repeat(500), "ä".repeat(1000), "one, two ".repeat(300)] {
            let options = ChunkOptions { first_words: 8, max_bytes: 100 };
            let parts = chunks(&text, options);
            assert!(parts.iter().all(|span| span.len() <= 104));
            let joined: String = parts.iter().map(|span| &text[span.clone()]).collect();
            assert_eq!(joined.replace(' ', ""), text.replace(' ', ""));
            let mut chunker = Chunker::new(options);
            let mut streamed = String::new();
            for part in text.as_bytes().chunks(7).map(|part| String::from_utf8_lossy(part)) {
                if !part.contains('\u{fffd}') {
                    chunker.push(&part).iter().for_each(|chunk| streamed += chunk);
                }
            }
            chunker.finish().iter().for_each(|chunk| streamed += chunk);
            assert!(!streamed.is_empty() || text.starts_with('ä'));
        }
    }
}
