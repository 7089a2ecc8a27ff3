//! `leyden audit`: checks and shows audit logs, and computes their answers again.

mod entries;
mod keygen;
mod options;
mod replay;
mod show;
mod verify;

use std::io::Write;

pub(super) use options::AuditOptions;

use super::failure::Failure;

/// An audit log is a folder that `leyden serve --audit DIR` writes: a record of each answer, in a chain of hashes with
/// signed checkpoints, in which a later change is noticed. docs/audit.md describes it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  leyden audit verify ./log --anchor ./head-of-yesterday
  leyden audit show ./log --id req-1
  leyden audit replay ./log --id req-1 -m smollm2 --input body.json")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Check that a log is unchanged and complete
    Verify(verify::Args),
    /// List the records of a log, with their contents if they were kept and the key is given
    Show(show::Args),
    /// Compute the answer of a record again, and compare
    Replay(replay::Args),
    /// Make a key to which contents are encrypted
    Keygen(keygen::Args),
}

/// Runs the action.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    match &args.action {
        Action::Verify(args) => verify::execute(args, out),
        Action::Show(args) => show::execute(args, out),
        Action::Replay(args) => replay::execute(args, out),
        Action::Keygen(args) => keygen::execute(args, out),
    }
}
