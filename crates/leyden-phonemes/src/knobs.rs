//! Environment variables.

use std::ffi::OsString;

/// Returns the folders in which programs are looked for.
pub(crate) fn path() -> Option<OsString> {
    std::env::var_os("PATH")
}
