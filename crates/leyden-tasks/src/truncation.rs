//! [`Truncation`]: treatment of texts with more tokens than the model or the request allows.

use crate::error::ErrorKind;
use leyden_text::{Bounds, Tokenizer};

/// Treatment of a text with too many tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Truncation {
    /// Error.
    #[default]
    Refuse,
    /// Removal of the end, so that at most this many tokens stay.
    End(usize),
    /// Removal of the beginning, so that at most this many tokens stay.
    Beginning(usize),
    /// Removal of the side that the tokenizer's files name, so that at most this many tokens stay.
    TokenizerSide(usize),
}

impl Truncation {
    /// Replaces [`TokenizerSide`](Truncation::TokenizerSide) by the side that the tokenizer's files name.
    #[must_use]
    pub fn resolved(self, tokenizer: &dyn Tokenizer) -> Truncation {
        match self {
            Truncation::TokenizerSide(tokens) if tokenizer.drops_beginning() => Truncation::Beginning(tokens),
            Truncation::TokenizerSide(tokens) => Truncation::End(tokens),
            other => other,
        }
    }

    /// Truncates a text to `max_tokens` tokens, or fewer if the request says so. Keeps BOS and EOS where the tokenizer
    /// adds them, and the last `tail` tokens.
    ///
    /// ```
    /// use leyden_tasks::Truncation;
    ///
    /// let json = br#"{"added_tokens": [], "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "a": 1}}}"#;
    /// let tokenizer = leyden_text::from_tokenizer_json(json, "tokenizer.json")?;
    /// let cut = |truncation: Truncation, tail| {
    ///     let mut tokens = vec![1, 2, 3, 4, 5];
    ///     truncation.cut(tokenizer.as_ref(), &mut tokens, 3, tail);
    ///     tokens
    /// };
    /// assert_eq!(cut(Truncation::End(usize::MAX), 1), [1, 2, 5]);
    /// assert_eq!(cut(Truncation::Beginning(2), 0), [4, 5]);
    /// assert_eq!(cut(Truncation::Refuse, 0), [1, 2, 3, 4, 5]);
    /// # Ok::<(), leyden_text::Error>(())
    /// ```
    pub fn cut(self, tokenizer: &dyn Tokenizer, tokens: &mut Vec<u32>, max_tokens: usize, tail: usize) {
        let (at_end, wanted) = match self.resolved(tokenizer) {
            Truncation::Refuse => return,
            Truncation::End(wanted) | Truncation::TokenizerSide(wanted) => (true, wanted),
            Truncation::Beginning(wanted) => (false, wanted),
        };
        let n = tokens.len();
        let begin = usize::from(tokenizer.add_bos() && tokens.first().copied() == tokenizer.bos());
        let end = usize::from(tokenizer.add_eos() && tokens.last().copied() == tokenizer.eos()).max(tail);
        let kept = wanted.min(max_tokens).max(begin + end);
        if n <= kept {
            return;
        }
        let from = if at_end { kept - end } else { begin };
        tokens.drain(from..from + n - kept);
    }
}

/// Tokenizes a text with `encode`. A text with more than `max_tokens` tokens is refused without tokenizing all of it,
/// and one that is certainly longer before any of it is tokenized. The work ends with an error when `stop` returns
/// true.
///
/// # Errors
/// There are more tokens, or the text cannot be tokenized.
pub fn encode_within(
    tokenizer: &dyn Tokenizer,
    text: &str,
    max_tokens: Option<usize>,
    stop: &dyn Fn() -> bool,
    encode: impl FnOnce(&dyn Tokenizer, &str, &Bounds<'_>) -> Result<Vec<u32>, leyden_text::Error>,
) -> Result<Vec<u32>, ErrorKind> {
    let mut bounds = Bounds::NONE;
    if let Some(max_tokens) = max_tokens {
        let tokens = tokenizer.least_tokens(text);
        if tokens > max_tokens {
            return Err(ErrorKind::TooLong { tokens, counted: false, max_tokens });
        }
        bounds = Bounds::tokens(max_tokens);
    }
    encode(tokenizer, text, &bounds.until(stop)).map_err(|error| match error.kind() {
        leyden_text::ErrorKind::TooManyTokens(most) => {
            ErrorKind::TooLong { tokens: most.saturating_add(1), counted: false, max_tokens: *most }
        }
        _ => ErrorKind::Text(error),
    })
}
