//! The command line: one file per command, listed in one table.
//!
//! A command gets its arguments and a writer for standard output, and returns a [`Failure`] or nothing. It prints
//! generated or requested data to that writer and everything else to standard error. What a failure means for the
//! exit code is decided in one place, [`main`].

mod arithmetic;
mod bench;
mod connections;
mod doctor;
mod failure;
mod hwbench;
mod inspect;
mod knobs;
mod list;
mod load;
mod model_file;
mod pack;
mod packs;
mod pull;
mod rm;
mod run;
mod serve;
mod stored;
mod text;
mod tokenize;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Parser;
use failure::Failure;

/// Language models on ordinary processors.
#[derive(Debug, Parser)]
#[command(name = "leyden", version, arg_required_else_help = true, disable_help_subcommand = true)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 too little evidence for a verdict, 130 interrupted."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Declares the commands: for each its name, its module and what `leyden --help` says about it.
macro_rules! commands {
    ($($name:ident $module:ident $help:literal,)*) => {
        #[derive(Debug, clap::Subcommand)]
        enum Command {
            $(#[doc = $help] $name(Box<$module::Args>),)*
        }

        impl Command {
            fn execute(&self, out: &mut dyn Write) -> Result<(), Failure> {
                match self {
                    $(Self::$name(args) => $module::execute(args, out),)*
                }
            }
        }
    };
}

// COMMANDS, in the order of `leyden --help`.
commands! {
    Run run "Answer a prompt, or hold a conversation",
    Serve serve "Answer many users over HTTP, as OpenAI's servers do",
    Pull pull "Get a model from the hub",
    List list "Show the models that were pulled",
    Rm rm "Remove a pulled model",
    Pack pack "Keep a model's packed weights for faster starts",
    Inspect inspect "Show what is in a model file",
    Tokenize tokenize "Turn text into token ids, or back",
    Bench bench "Measure how fast a model runs here, also against another llama-bench",
    Load load "Load a server of any make, and measure what its users feel",
    Hwbench hwbench "Measure what this machine can do at most, and how near every kernel comes",
    Doctor doctor "Show what leyden sees of this machine, and what it chooses because of it",
}

/// Options of llama.cpp's programs that have two letters behind one dash, and their long names.
const ONE_DASH: [(&str, &str); 2] = [("-pg", "--pg"), ("-tb", "--threads-batch")];

/// Parses the arguments, runs the command, reports its failure.
pub(crate) fn main() -> ExitCode {
    let arguments = std::env::args_os().map(|argument| {
        let long = ONE_DASH.iter().find(|(short, _)| argument == *short);
        long.map_or(argument, |(_, long)| long.into())
    });
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come this way too, with code 0. There is nobody to tell if printing fails.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let result = cli.command.execute(&mut out).and_then(|()| Ok(out.flush()?));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // What was written before the failure belongs to the reader, and comes before the message.
            let _ = out.flush();
            failure.report(&mut io::stderr().lock());
            failure.exit_code()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
