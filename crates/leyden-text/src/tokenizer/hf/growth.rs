//! Limits of the growth of texts by rules of a file.

/// Maximum factor by which normalization may lengthen a text: no character becomes that long, and rules that double
/// the text repeatedly must end.
pub(super) const MAX_GROWTH: usize = 64;
/// Maximum additional growth of a stretch of text: prefixes added to it.
pub(super) const MAX_EXTRA: usize = 256;
