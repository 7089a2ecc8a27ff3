//! Fixed texts in a model's answer, with any whitespace allowed between their words.

/// Sequence of words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Literal(Vec<String>);

/// Result of matching a literal at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// It matches, and ends before this byte.
    Yes(usize),
    /// It matches so far; the text ends within it.
    Partly,
    No,
}

impl Literal {
    pub(super) fn new(text: &str) -> Literal {
        Literal(text.split_ascii_whitespace().map(str::to_owned).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn words(&self) -> &[String] {
        &self.0
    }

    /// Matches the literal at `at`, ignoring whitespace before it.
    pub(super) fn at(&self, text: &str, at: usize) -> Match {
        words_at(&self.0, text, at)
    }

    /// Matches as [`at`](Self::at) does, also without the first word, which models sometimes omit.
    pub(super) fn at_or_rest(&self, text: &str, at: usize) -> Match {
        match self.at(text, at) {
            Match::No if self.0.len() > 1 => words_at(&self.0[1..], text, at),
            whole => whole,
        }
    }

    /// Returns the first match from `from` on, or the position of a possible match at the end.
    pub(super) fn find(&self, text: &str, from: usize) -> Found {
        let Some(first) = self.0.first() else { return Found::At(from, from) };
        let mut start = from;
        while let Some(offset) = text[start..].find(first.as_str()) {
            let at = start + offset;
            match self.at(text, at) {
                Match::Yes(end) => return Found::At(at, end),
                Match::Partly => return Found::NotBefore(at),
                Match::No => start = at + first.len(),
            }
        }
        Found::NotBefore(text.len() - beginning(text, start, first))
    }
}

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Start and end of the match.
    At(usize, usize),
    /// No match yet, and none that starts before this byte.
    NotBefore(usize),
}

fn words_at(words: &[String], text: &str, mut at: usize) -> Match {
    for word in words {
        let rest = text[at..].trim_ascii_start();
        at = text.len() - rest.len();
        if rest.starts_with(word.as_str()) {
            at += word.len();
        } else if word.starts_with(rest) {
            return Match::Partly;
        } else {
            return Match::No;
        }
    }
    Match::Yes(at)
}

/// Returns the length of the longest suffix of `text[from..]` that is a proper prefix of `word`.
pub(super) fn beginning(text: &str, from: usize, word: &str) -> usize {
    let tail = &text[from..];
    let most = tail.len().min(word.len().saturating_sub(1));
    (1..=most).rev().find(|&n| word.is_char_boundary(n) && tail.ends_with(&word[..n])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_ignore_blanks_between_words() {
        let literal = Literal::new("<a>\n<b=");
        assert_eq!(literal.at(" <a> \n <b=x", 0), Match::Yes(10));
        assert_eq!(literal.at("<a> <", 0), Match::Partly);
        assert_eq!(literal.at("<a> x", 0), Match::No);
        assert_eq!(literal.at_or_rest("<b=x", 0), Match::Yes(3));
        assert_eq!(literal.find("x<a>y<a><b=", 0), Found::At(5, 11));
        assert_eq!(literal.find("x<a>y<a><", 0), Found::NotBefore(5));
        assert_eq!(literal.find("x<a>y<", 0), Found::NotBefore(5));
        assert_eq!(literal.find("xyz", 0), Found::NotBefore(3));
        assert_eq!(beginning("ab<｜to", 0, "<｜tool"), "<｜to".len());
    }
}
