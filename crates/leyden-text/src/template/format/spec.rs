//! [`Spec`]: format specification of one value.

use crate::template::budget::{Failure, Result};

/// Maximum width and precision of a field.
const MAX_WIDTH: usize = 1 << 24;

/// Format specification of one value.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) fill: char,
    /// `<`, `>`, `^`, or `=` for padding between sign and digits.
    pub(super) align: Option<char>,
    /// `+` or a space to write it before numbers that are not negative, else `-`.
    pub(super) sign: char,
    pub(super) alternate: bool,
    pub(super) width: usize,
    /// Thousands separator.
    pub(super) grouping: Option<char>,
    pub(super) precision: Option<usize>,
    pub(super) kind: Option<char>,
}

impl Default for Spec {
    fn default() -> Self {
        let (fill, sign) = (' ', '-');
        Spec {
            fill,
            align: None,
            sign,
            alternate: false,
            width: 0,
            grouping: None,
            precision: None,
            kind: None,
        }
    }
}

/// Parses a width or precision.
pub(super) fn count(digits: &str) -> Result<usize> {
    match digits.parse::<usize>() {
        Ok(n) if n <= MAX_WIDTH => Ok(n),
        _ => Err(Failure::Limit("it needs too much memory")),
    }
}
