//! [`Class`]: class of a character.

/// Character class: the first letter of the Unicode general category; separators and unassigned code points are
/// both [`Class::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Letter,
    Mark,
    Number,
    Punctuation,
    Symbol,
    /// Controls, format characters and private use.
    Control,
    Other,
}
