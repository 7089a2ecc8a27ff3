//! Fixed texts in a model's answer, between whose words any blanks may stand.

/// Words that follow each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Literal(Vec<String>);

/// Whether a literal stands at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// It does, and ends before this byte.
    Yes(usize),
    /// So far; the text ends within.
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

    /// Whether it stands at `at`, blanks before it left aside.
    pub(super) fn at(&self, text: &str, at: usize) -> Match {
        words_at(&self.0, text, at)
    }

    /// As [`at`](Self::at), also without its first word, which models forget.
    pub(super) fn at_or_rest(&self, text: &str, at: usize) -> Match {
        match self.at(text, at) {
            Match::No if self.0.len() > 1 => words_at(&self.0[1..], text, at),
            whole => whole,
        }
    }

    /// The first place from `from` on where it stands: its beginning, and its end; or where it may still come to stand.
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

/// Where a literal was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// From here to there.
    At(usize, usize),
    /// Nowhere yet, and certainly not before.
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

/// The length of the longest end of `text[from..]` that is a beginning of `word`, but not all of it.
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
