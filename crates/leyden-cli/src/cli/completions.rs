//! `leyden completions`: what a shell needs to complete commands and options.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;
use super::failure::Failure;

/// Prints a script that makes the shell complete leyden's commands and options: `leyden completions bash >
/// ~/.local/share/bash-completion/completions/leyden`, `leyden completions zsh > ~/.zfunc/_leyden`, `leyden completions
/// fish > ~/.config/fish/completions/leyden.fish`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Shell
    shell: Shell,
}

/// Prints it.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "leyden", &mut script);
    Ok(out.write_all(&script)?)
}
