//! Words of a text with labels before them: input of models that find spans for the labels of a request (GLiNER).

use super::bounds::Bounds;
use super::classes::{Class, class};
use super::{Special, Tokenizer};
use crate::error::Error;
use std::ops::Range;

/// Tokens before each label, and between the labels and the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelMarks {
    /// Token before a label.
    pub mark: u32,
    /// Tokens after the last label.
    pub separator: Vec<u32>,
}

impl LabelMarks {
    /// Finds the tokens of these names; `None` if the vocabulary lacks the first. If the model (with `tokens`
    /// tokens) has exactly three more tokens than the tokenizer, the second of these is the mark and the third the
    /// separator, as the package gliner adds them.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn find(
        tokenizer: &dyn Tokenizer,
        [mark, separator]: [&str; 2],
        tokens: usize,
    ) -> Result<Option<LabelMarks>, Error> {
        let ids = tokenizer.encode(mark, Special::Parse)?;
        if let [id] = ids[..]
            && tokenizer.token_bytes(id) == Some(mark.as_bytes())
        {
            let separator = tokenizer.encode(separator, Special::Parse)?;
            return Ok(Some(LabelMarks { mark: id, separator }));
        }
        let known = u32::try_from(tokenizer.vocab_size()).unwrap_or(u32::MAX);
        let added = tokens == tokenizer.vocab_size() + 3;
        Ok(added.then(|| LabelMarks { mark: known + 1, separator: vec![known + 2] }))
    }
}

/// Tokens of the labels, as they precede a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelPrompt {
    ids: Vec<u32>,
    marks: Vec<usize>,
}

impl LabelPrompt {
    /// Maximum number of labels.
    pub const MAX_LABELS: usize = 1024;
    /// Divisor of the minimum share of a window's tokens for the text: one eighth.
    const MIN_SHARE: usize = 8;

    /// Returns the labels without surrounding white space and without duplicates.
    ///
    /// # Errors
    /// There are no labels or too many, or one is empty.
    pub fn distinct<T: AsRef<str>>(labels: &[T]) -> Result<Vec<&str>, String> {
        if labels.len() > LabelPrompt::MAX_LABELS {
            return Err(format!("{} labels, the maximum is {}", labels.len(), LabelPrompt::MAX_LABELS));
        }
        let mut distinct: Vec<&str> = Vec::new();
        for label in labels.iter().map(|label| label.as_ref().trim()) {
            if label.is_empty() {
                return Err("a label is empty".to_owned());
            }
            if !distinct.contains(&label) {
                distinct.push(label);
            }
        }
        if distinct.is_empty() { Err("there are none".to_owned()) } else { Ok(distinct) }
    }

    /// Returns whether one eighth of `tokens` tokens remains for the text.
    #[must_use]
    pub fn leaves_room(&self, tokens: usize) -> bool {
        tokens.saturating_sub(self.ids.len()) >= tokens.div_ceil(LabelPrompt::MIN_SHARE)
    }

    /// Tokenizes the labels: the token that begins a sequence, each label after its mark, and the separator. Names
    /// of special tokens in labels stay text.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_within`]; bounds apply to each label.
    pub fn new<T: AsRef<str>>(
        tokenizer: &dyn Tokenizer,
        labels: &[T],
        with: &LabelMarks,
        bounds: &Bounds<'_>,
    ) -> Result<LabelPrompt, Error> {
        let mut ids: Vec<u32> = tokenizer.bos().filter(|_| tokenizer.add_bos()).into_iter().collect();
        let mut marks = Vec::with_capacity(labels.len());
        for label in labels {
            marks.push(ids.len());
            ids.push(with.mark);
            ids.extend(tokenizer.encode_within(label.as_ref(), Special::AsText, bounds)?);
        }
        ids.extend(&with.separator);
        Ok(LabelPrompt { ids, marks })
    }

    /// Returns the number of tokens.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.ids.len()
    }

    /// Returns the positions of the marks before the labels.
    #[must_use]
    pub fn marks(&self) -> &[usize] {
        &self.marks
    }
}

/// Limits of a window of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowLimits {
    /// Maximum number of tokens, including those of the labels.
    pub tokens: usize,
    /// Maximum number of words.
    pub words: usize,
    /// Maximum number of words of a span. Windows overlap by this number minus one or more, but by at most half a window; a
    /// longer span than the overlap may be in no window.
    pub span: usize,
}

/// Words of a text with labels before them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledWindow {
    /// All tokens, including those that the model expects at the beginning and at the end.
    pub ids: Vec<u32>,
    /// Range of the window's words among those of the text.
    pub words: Range<usize>,
    /// Range of each word's tokens in [`ids`](Self::ids), possibly empty.
    pub tokens: Vec<Range<usize>>,
}

/// Text split into words and windows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelledText {
    /// Byte range of each word.
    pub words: Vec<Range<usize>>,
    /// Windows of the text: one unless the text is long, none for a text without words.
    pub windows: Vec<LabelledWindow>,
}

impl LabelledText {
    /// Splits a text into words, tokenizes each separately, and groups them into windows that overlap by a quarter
    /// of their words. A word with more tokens than a window can hold is truncated. There are no windows if the
    /// labels leave no room.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_within`]; bounds apply to each word.
    ///
    /// ```
    /// use leyden_text::{Bounds, LabelMarks, LabelPrompt, LabelledText, WindowLimits, from_tokenizer_json};
    ///
    /// let json = br###"{
    ///     "added_tokens": [], "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"},
    ///     "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
    ///     "model": {"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##",
    ///               "vocab": {"?": 0, "wild": 1, "##flower": 2, "!": 3, "plant": 4, "<ent>": 5, "<sep>": 6}}
    /// }"###;
    /// let tokenizer = from_tokenizer_json(json, "tokenizer.json")?;
    /// let marks = LabelMarks { mark: 5, separator: vec![6] };
    /// let prompt = LabelPrompt::new(tokenizer.as_ref(), &["plant"], &marks, &Bounds::NONE)?;
    /// let limits = WindowLimits { tokens: 16, words: 16, span: 4 };
    /// let text = LabelledText::new(tokenizer.as_ref(), &prompt, "Wildflower!", limits, &Bounds::NONE)?;
    /// assert_eq!(text.words, [0..10, 10..11]);
    /// assert_eq!(text.windows[0].ids, [5, 4, 6, 1, 2, 3]);
    /// assert_eq!(text.windows[0].tokens, [3..5, 5..6]);
    /// # Ok::<(), leyden_text::Error>(())
    /// ```
    pub fn new(
        tokenizer: &dyn Tokenizer,
        prompt: &LabelPrompt,
        text: &str,
        limits: WindowLimits,
        bounds: &Bounds<'_>,
    ) -> Result<LabelledText, Error> {
        let end = tokenizer.eos().filter(|_| tokenizer.add_eos());
        let room = limits.tokens.saturating_sub(prompt.ids.len() + usize::from(end.is_some()));
        let words: Vec<Range<usize>> = words(text).collect();
        if room == 0 {
            return Ok(LabelledText { words, windows: Vec::new() });
        }
        // All tokens, and the end of each word's tokens.
        let (mut ids, mut ends) = (Vec::new(), Vec::with_capacity(words.len()));
        for word in &words {
            let mut own = tokenizer.encode_within(&text[word.clone()], Special::AsText, bounds)?;
            own.truncate(room);
            ids.extend(own);
            ends.push(ids.len());
        }
        let begin = |word: usize| if word == 0 { 0 } else { ends[word - 1] };
        let mut windows = Vec::new();
        let mut first = 0;
        while first < words.len() {
            let fits = ends[first..].iter().take(limits.words.max(1));
            let count = fits.take_while(|end| **end - begin(first) <= room).count().max(1);
            let last = first + count;
            let shift = prompt.ids.len();
            let own = &ids[begin(first)..ends[last - 1]];
            windows.push(LabelledWindow {
                ids: prompt.ids.iter().chain(own).copied().chain(end).collect(),
                words: first..last,
                tokens: (first..last)
                    .map(|word| shift + begin(word) - begin(first)..shift + ends[word] - begin(first))
                    .collect(),
            });
            if last == words.len() {
                break;
            }
            // With more than half, the windows together could be many times the text.
            let overlap = (count / 4).max(limits.span.saturating_sub(1)).min(count / 2);
            first = last - overlap;
        }
        Ok(LabelledText { words, windows })
    }

    /// Returns the index of the window that scores a span of words: among those that contain it the one whose edges
    /// are farthest from it, the first on a tie. The beginning and the end of a text are not edges.
    #[must_use]
    pub fn decides(&self, span: &Range<usize>) -> Option<usize> {
        let edge = |window: &LabelledWindow| {
            let Range { start, end } = window.words;
            let before = if start == 0 { usize::MAX } else { span.start - start };
            let after = if end == self.words.len() { usize::MAX } else { end - span.end };
            before.min(after)
        };
        let holds =
            |window: &&LabelledWindow| window.words.start <= span.start && span.end <= window.words.end;
        // Both ends of the windows ascend.
        let from = self.windows.partition_point(|window| window.words.end < span.end);
        let mut best: Option<(usize, usize)> = None;
        for (i, window) in self.windows[from..].iter().take_while(holds).enumerate() {
            if best.is_none_or(|(_, most)| edge(window) > most) {
                best = Some((from + i, edge(window)));
            }
        }
        best.map(|(window, _)| window)
    }
}

/// Returns the words that Python's regular expression `\w+(?:[-_]\w+)*|\S` matches: letters, digits and
/// underscores, joined by hyphens, or one other character that is not white space.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find(|c| !is_space(c))?;
        let run = |from: usize| text[from..].find(|c| !is_word(c)).map_or(text.len(), |n| from + n);
        let mut end = run(start);
        if end == start {
            end += text[start..].chars().next().map_or(0, char::len_utf8);
        } else {
            while text[end..].starts_with('-') && run(end + 1) > end + 1 {
                end = run(end + 1);
            }
        }
        at = end;
        Some(start..end)
    })
}

/// Returns whether Python's `\w` matches a character: unlike Unicode's it excludes marks.
fn is_word(c: char) -> bool {
    c == '_' || matches!(class(c), Class::Letter | Class::Number)
}

/// Returns whether Python's `\s` matches a character: it includes the information separators.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<&str> {
        words(text).map(|word| &text[word]).collect()
    }

    #[test]
    fn words_are_those_of_the_pattern() {
        assert_eq!(split("Mr. O'Neill-Smith's"), ["Mr", ".", "O", "'", "Neill-Smith", "'", "s"]);
        assert_eq!(split("a_b-c--d- -e"), ["a_b-c", "-", "-", "d", "-", "-", "e"]);
        assert_eq!(split("x\u{301}y \u{1c}½²\u{a0}☃🦙"), ["x", "\u{301}", "y", "½²", "☃", "🦙"]);
        assert_eq!(split("नमस्ते"), ["नमस", "\u{94d}", "त", "\u{947}"]);
        assert_eq!(split("  \n"), [""; 0]);
    }

    #[test]
    fn windows_hold_every_word_and_are_not_many_times_the_text() {
        let json = br###"{"added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
            "model": {"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##",
                      "vocab": {"?": 0, "a": 1, "##a": 2, "m": 3}}}"###;
        let tokenizer = crate::from_tokenizer_json(json, "tokenizer.json").unwrap();
        let marks = LabelMarks { mark: 3, separator: vec![3] };
        let prompt = LabelPrompt::new(tokenizer.as_ref(), &["a", "aa"], &marks, &Bounds::NONE).unwrap();
        assert_eq!((prompt.tokens(), prompt.marks()), (6, &[0, 2][..]));
        assert!(prompt.leaves_room(7) && !prompt.leaves_room(6));
        for (text, tokens, words, span) in [
            ("a ".repeat(100), 26, 50, 3),
            ("a aaa aaaaa ".repeat(40), 16, 50, 64),
            ("a ".repeat(100), 500, 7, 12),
            ("aaaaaaaaaaaaaaaaa a".to_owned(), 10, 8, 2),
            (String::new(), 10, 8, 2),
        ] {
            let limits = WindowLimits { tokens, words, span };
            let read = LabelledText::new(tokenizer.as_ref(), &prompt, &text, limits, &Bounds::NONE).unwrap();
            let mut last = 0;
            for window in &read.windows {
                assert!(window.ids.len() <= tokens && window.words.len() <= words, "{window:?}");
                assert!(window.words.start <= last && window.words.end > last, "{window:?}");
                assert_eq!(window.tokens.last().unwrap().end, window.ids.len());
                last = window.words.end;
            }
            assert_eq!(last, read.words.len());
            assert!(read.windows.iter().map(|window| window.words.len()).sum::<usize>() <= 2 * last + words);
            assert!((0..last).all(|word| read.decides(&(word..word + 1)).is_some()));
        }
    }

    fn text(windows: &[Range<usize>], words: usize) -> LabelledText {
        let window =
            |words: &Range<usize>| LabelledWindow { ids: vec![], words: words.clone(), tokens: vec![] };
        LabelledText { words: vec![0..0; words], windows: windows.iter().map(window).collect() }
    }

    #[test]
    fn a_span_belongs_to_the_window_whose_edges_are_farthest() {
        let text = text(&[0..8, 6..14, 12..20], 20);
        assert_eq!([0..1, 6..7, 7..8].map(|span| text.decides(&span)), [Some(0), Some(0), Some(1)]);
        assert_eq!(text.decides(&(13..14)), Some(2));
        assert_eq!(text.decides(&(5..9)), None);
        assert_eq!(text.decides(&(19..20)), Some(2));
    }
}
