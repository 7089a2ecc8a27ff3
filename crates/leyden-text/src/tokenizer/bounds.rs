//! [`Bounds`]: limits of encoding a text.

use crate::error::ErrorKind;

/// Limits of encoding a text: a maximum number of tokens, and a cancellation callback.
///
/// ```
/// use leyden_text::{Bounds, Special, from_tokenizer_json};
///
/// let json = br#"{"added_tokens": [], "pre_tokenizer": {"type": "Whitespace"},
///                 "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "a": 1}}}"#;
/// let tokenizer = from_tokenizer_json(json, "tokenizer.json")?;
/// let within = |most| tokenizer.encode_within("a a a", Special::AsText, &Bounds::tokens(most));
/// assert_eq!(within(3)?, [1, 1, 1]);
/// assert!(within(2).is_err());
/// # Ok::<(), leyden_text::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Bounds<'a> {
    most_tokens: usize,
    stop: &'a dyn Fn() -> bool,
}

impl Bounds<'_> {
    /// No limits.
    pub const NONE: Bounds<'static> = Bounds { most_tokens: usize::MAX, stop: &|| false };

    /// Limits the number of tokens.
    #[must_use]
    pub fn tokens(most_tokens: usize) -> Bounds<'static> {
        Bounds { most_tokens, ..Bounds::NONE }
    }

    /// Adds a callback that cancels the encoding when it returns true. It is called about every millisecond, even
    /// within a long word.
    #[must_use]
    pub fn until(self, stop: &dyn Fn() -> bool) -> Bounds<'_> {
        Bounds { most_tokens: self.most_tokens, stop }
    }

    /// Returns the cancellation callback.
    pub(super) fn stop(&self) -> &dyn Fn() -> bool {
        self.stop
    }

    /// Checks the limits after a word or part of one, with `tokens` tokens so far.
    pub(super) fn check(&self, tokens: usize) -> Result<(), Exceeded> {
        if tokens > self.most_tokens {
            return Err(Exceeded::Tokens(self.most_tokens));
        }
        if (self.stop)() { Err(Exceeded::Stopped) } else { Ok(()) }
    }
}

impl std::fmt::Debug for Bounds<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bounds").field("most_tokens", &self.most_tokens).finish_non_exhaustive()
    }
}

/// Number of characters or tokens between two checks of the limits within a word: a millisecond or less.
pub(super) const CHECK_INTERVAL: usize = 4096;

/// Limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exceeded {
    /// More tokens than this.
    Tokens(usize),
    /// Cancelled by the callback.
    Stopped,
}

impl From<Exceeded> for ErrorKind {
    fn from(exceeded: Exceeded) -> ErrorKind {
        match exceeded {
            Exceeded::Tokens(most) => ErrorKind::TooManyTokens(most),
            Exceeded::Stopped => ErrorKind::Stopped,
        }
    }
}
