//! `leyden version`: the version.

use std::io::Write;

use super::failure::Failure;

/// Prints the same as `leyden --version`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Prints the version.
pub(super) fn execute(_: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    Ok(writeln!(out, "leyden {}", env!("CARGO_PKG_VERSION"))?)
}
