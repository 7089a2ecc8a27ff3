//! Errors of the format.

use crate::error::ErrorKind;

/// Returns an error of the format with this text.
pub(super) fn broken(what: impl Into<String>) -> ErrorKind {
    ErrorKind::Torch(what.into().into())
}
