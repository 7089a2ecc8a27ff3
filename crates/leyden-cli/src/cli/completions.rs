//! `leyden completions`: completion scripts for shells.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;
use super::failure::Failure;

/// To install the script: `leyden completions bash > ~/.local/share/bash-completion/completions/leyden`, `leyden
/// completions zsh > ~/.zfunc/_leyden`, or `leyden completions fish > ~/.config/fish/completions/leyden.fish`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Shell to print the script for
    shell: Shell,
}

/// Prints the script.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "leyden", &mut script);
    Ok(out.write_all(&script)?)
}
