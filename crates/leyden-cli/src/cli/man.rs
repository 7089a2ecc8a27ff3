//! `leyden man`: manual pages.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_mangen::Man;
use leyden_files::OutputOptions;

use super::Cli;
use super::failure::Failure;

/// Prints the manual page of leyden or of one command (`leyden man run | man -l -`), or writes all pages to a folder
/// (`leyden man
/// --out ~/.local/share/man/man1`), which is created if it is missing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Command to print the page of
    command: Option<String>,
    /// Folder to write to: all pages, or the page of COMMAND
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints or writes the pages.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let program = super::knobs::of_serve(Cli::command());
    if let Some(folder) = &args.out {
        let failed = |error| Failure::new(format!("{}: cannot create: {error}", folder.display()));
        std::fs::create_dir_all(folder).map_err(failed)?;
        write(folder, &program, args.command.as_deref())?;
        return Ok(());
    }
    let page = match &args.command {
        None => program,
        Some(name) => named(program.find_subcommand(name).ok_or_else(|| unknown(name))?),
    };
    let mut text = Vec::new();
    Man::new(page).render(&mut text)?;
    Ok(out.write_all(&text)?)
}

/// Returns a command with its full name, such as `leyden-run`, for the title of its page.
fn named(command: &clap::Command) -> clap::Command {
    let name = format!("leyden-{}", command.get_name());
    command.clone().display_name(name.clone()).bin_name(name.replacen('-', " ", 1)).name(name)
}

fn unknown(name: &str) -> Failure {
    Failure::usage(format!("no command `{name}`")).hint("leyden --help lists the commands")
}

/// Writes all pages to a folder, or the page of one command.
fn write(folder: &Path, program: &clap::Command, only: Option<&str>) -> Result<(), Failure> {
    let pages: Vec<clap::Command> = match only {
        Some(name) => vec![named(program.find_subcommand(name).ok_or_else(|| unknown(name))?)],
        None => program.get_subcommands().map(named).chain([program.clone()]).collect(),
    };
    for page in pages {
        let path = folder.join(format!("{}.1", page.get_name()));
        let failed = |error| Failure::new(format!("{}: cannot write: {error}", path.display()));
        let mut text = Vec::new();
        let written = Man::new(page)
            .render(&mut text)
            .and_then(|()| leyden_files::write(&path, &text, OutputOptions::new().files_only()));
        written.map_err(failed)?;
    }
    Ok(())
}
