//! [`Normalizer`]: step of normalizing a text.

use super::pieces::Normalized;
use crate::error::Error;

pub(super) trait Normalizer: Send + Sync {
    fn normalize(&self, text: &mut Normalized) -> Result<(), Error>;

    /// Returns the part of a text that is certainly kept.
    fn keeps(&self) -> Keeps {
        Keeps::Nothing
    }
}

/// Part of a text that normalization certainly keeps, in at least as many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Keeps {
    /// Any character may be removed.
    Nothing,
    /// ASCII characters; others may become shorter.
    Ascii,
    /// All characters.
    All,
}
