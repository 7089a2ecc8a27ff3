//! [`Bounds`]: how far the encoding of a text may go.

use crate::error::ErrorKind;

/// When to give up on a text: it has more tokens than can be used, or nobody waits for them any more.
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
    /// No bounds.
    pub const NONE: Bounds<'static> = Bounds { most_tokens: usize::MAX, stop: &|| false };

    /// At most so many tokens.
    #[must_use]
    pub fn tokens(most_tokens: usize) -> Bounds<'static> {
        Bounds { most_tokens, ..Bounds::NONE }
    }

    /// The same bounds, and an end where `stop` says so. It is asked every millisecond or so, however long a word is.
    #[must_use]
    pub fn until(self, stop: &dyn Fn() -> bool) -> Bounds<'_> {
        Bounds { most_tokens: self.most_tokens, stop }
    }

    /// The function that says whether to stop.
    pub(super) fn stop(&self) -> &dyn Fn() -> bool {
        self.stop
    }

    /// Whether to go on behind a word or a stretch of one, where there are `tokens` so far.
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

/// Characters or tokens between two looks at the bounds, where these are looked at within a word: a millisecond or less.
pub(super) const LOOK_EVERY: usize = 4096;

/// Which bound was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exceeded {
    /// There are more tokens than this.
    Tokens(usize),
    /// It was to stop.
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
