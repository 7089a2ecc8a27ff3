//! [`PairTemplate`]: tokens around the two texts of a pair.

/// Tokens around the two texts of a pair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairTemplate {
    /// Tokens before the first text.
    pub before: Vec<u32>,
    /// Tokens between the texts.
    pub between: Vec<u32>,
    /// Tokens after the second text.
    pub after: Vec<u32>,
    /// True if the second text, with the tokens after it, has token type 1.
    pub second_type: bool,
}

impl PairTemplate {
    /// Creates a template with one token before the first text, `separators` end tokens between the texts and one
    /// after the second.
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
