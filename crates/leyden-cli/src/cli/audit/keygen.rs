//! `leyden audit keygen`.

use std::io::Write;
use std::path::PathBuf;

use leyden_audit::ContentKey;

use crate::cli::failure::Failure;

/// Makes a key pair: the secret key in FILE, for whoever reads contents, and the recipient in FILE.pub and on standard
/// output, for `leyden serve --audit-content`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// New file for the secret key; keep it on another machine than the log
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Makes the key.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let key = ContentKey::generate()?;
    key.write(&args.file)?;
    Ok(writeln!(out, "{}", key.recipient())?)
}
