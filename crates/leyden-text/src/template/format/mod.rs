//! String formatting as in Python: `'%s' % x` and `'{}'.format(x)`.
//!
//! Content of a result is tracked byte by byte: text of the format string keeps the format's origin, and an
//! inserted text keeps its own.

mod braces;
mod field;
mod numbers;
mod percent;
mod spec;

pub(super) use braces::format;
pub(super) use percent::percent;
