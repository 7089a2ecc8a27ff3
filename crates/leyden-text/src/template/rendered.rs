//! [`Rendered`]: output of a chat template.

use std::fmt::{self, Display};
use std::ops::Range;

use super::mixed::Mixed;

/// Rendered prompt, with the ranges of its bytes that are content: text from messages, tools and variables instead
/// of the template.
///
/// [`encode_rendered`](crate::encode_rendered) tokenizes it such that content yields no special tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    text: String,
    content: Vec<Range<usize>>,
}

impl Rendered {
    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text alone. It must not be tokenized with [`Special::Parse`](crate::Special::Parse) unless all
    /// content is trusted.
    pub fn into_text(self) -> String {
        self.text
    }

    /// Returns the byte ranges of the content, ascending, non-empty and non-adjacent.
    pub fn content(&self) -> &[Range<usize>] {
        &self.content
    }

    /// Marks nothing as content, so that special tokens in messages are parsed.
    #[must_use]
    pub fn with_special_in_content(self) -> Self {
        Rendered { content: Vec::new(), ..self }
    }

    /// Truncates the prompt to `len` bytes, which must be a character boundary.
    pub(super) fn cut(&mut self, len: usize) {
        self.text.truncate(len);
        let whole = self.content.partition_point(|range| range.start < len);
        self.content.truncate(whole);
        if let Some(last) = self.content.last_mut() {
            last.end = last.end.min(len);
        }
    }
}

impl From<Mixed> for Rendered {
    fn from(mixed: Mixed) -> Self {
        Rendered { text: mixed.text, content: mixed.content }
    }
}

impl Display for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_cuts_content() {
        let mut mixed = Mixed::default();
        mixed.push_own("ab");
        mixed.push_content("cd");
        mixed.push_own("e");
        mixed.push_content("f");
        let cases: [(usize, &[(usize, usize)]); 5] =
            [(6, &[(2, 4), (5, 6)]), (5, &[(2, 4)]), (3, &[(2, 3)]), (2, &[]), (0, &[])];
        for (len, content) in cases {
            let mut rendered = Rendered::from(mixed.clone());
            rendered.cut(len);
            assert_eq!(rendered.text().len(), len);
            assert!(
                rendered.content().iter().map(|range| (range.start, range.end)).eq(content.iter().copied())
            );
        }
    }
}
