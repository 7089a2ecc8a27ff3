//! [`Rendered`]: what a chat template made.

use std::fmt::{self, Display};
use std::ops::Range;

use super::mixed::Mixed;

/// A prompt as a chat template wrote it, and which of its bytes are content: what messages, tools and variables
/// brought, not the template.
///
/// [`encode_rendered`](crate::encode_rendered) turns it into tokens such that content makes no marks of the model's
/// format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    text: String,
    content: Vec<Range<usize>>,
}

impl Rendered {
    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text alone. Tokens of it must not be made with [`Special::Parse`](crate::Special::Parse) unless all that is
    /// content is trusted.
    pub fn into_text(self) -> String {
        self.text
    }

    /// The bytes that are content: ranges in ascending order, none empty, none next to another.
    pub fn content(&self) -> &[Range<usize>] {
        &self.content
    }

    /// The same where nothing counts as content, so that marks in messages are marks.
    #[must_use]
    pub fn with_special_in_content(self) -> Self {
        Rendered { content: Vec::new(), ..self }
    }

    /// The beginning of it, up to a place between two characters.
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
