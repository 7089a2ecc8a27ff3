//! The command line: one file per command, listed in one table.
//!
//! A command gets its arguments and a writer for standard output, and returns a [`Failure`] or nothing. It prints
//! generated or requested data to that writer and everything else to standard error. What a failure means for the
//! exit code is decided in one place, [`main`].

mod arithmetic;
mod bench;
mod chats;
mod classify;
mod completions;
mod connections;
mod convert;
mod cp;
mod create;
mod doctor;
mod embed;
mod encoding;
mod eval;
mod extract;
mod failure;
mod foreign;
mod growth;
mod hwbench;
mod imatrix;
mod import;
mod inputs;
mod inspect;
mod interrupt;
mod knobs;
mod labels;
mod list;
mod load;
mod lora;
mod man;
mod model_file;
mod models;
mod notes;
mod obtain;
mod pack;
mod packs;
mod progress;
mod ps;
mod pull;
mod quantize;
mod rerank;
mod rm;
mod rows;
mod run;
mod serve;
mod signals;
mod sizes;
mod stored;
mod terminal;
mod text;
mod tips;
mod tokenize;
mod version;
mod wrap;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};
use failure::Failure;

/// Language models on ordinary processors.
#[derive(Debug, Parser)]
#[command(name = "leyden", version, arg_required_else_help = true)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 too little evidence for a verdict, 130 interrupted."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Returns the text above the options in `leyden COMMAND --help`: the sentence of `leyden --help`, and the documentation of the
/// command's `Args`.
fn explained<A: clap::Args>(help: &str) -> String {
    let args = A::augment_args(clap::Command::new(""));
    let text = args.get_long_about().or(args.get_about());
    text.map_or_else(|| help.to_owned(), |text| format!("{help}.\n\n{text}"))
}

/// Declares the commands: for each its name, its module and what `leyden --help` says about it.
macro_rules! commands {
    ($($name:ident $module:ident $help:literal,)*) => {
        #[derive(Debug, clap::Subcommand)]
        enum Command {
            // `about` and not a doc comment, which would take the place of the longer text at the module's `Args`.
            $(#[command(about = $help, long_about = explained::<$module::Args>($help))] $name(Box<$module::Args>),)*
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
    Chats chats "Show the conversations that were kept",
    Serve serve "Answer many users over HTTP, as OpenAI's servers do",
    Ps ps "Show the models that a server has, and which of them are in memory",
    Embed embed "Make vectors of texts",
    Classify classify "Give texts labels, by a model that was trained for them",
    Extract extract "Find names and other parts of texts, by a model that was trained for them",
    Rerank rerank "Say how well documents answer a question, the best first",
    Pull pull "Get a model from the hub",
    Models models "Show models with short names, and which of them fit this machine",
    List list "Show the models that were pulled",
    Import import "Give a file or folder a name",
    Cp cp "Give a model another name",
    Create create "Give a model another name and defaults, from an Ollama Modelfile",
    Rm rm "Remove a pulled model, or a name",
    Pack pack "Keep a model's packed weights for faster starts",
    Quantize quantize "Write a model in a smaller type",
    Convert convert "Write a folder from the hub as GGUF, or a GGUF file as a folder",
    Imatrix imatrix "Collect what matters most in a model's weights, for quantize",
    Eval eval "Measure how good a model is",
    Inspect inspect "Show what is in a model file",
    Tokenize tokenize "Turn text into token ids, or back",
    Bench bench "Measure how fast a model runs here, also against another llama-bench",
    Load load "Load a server of any make, and measure what its users feel",
    Hwbench hwbench "Measure what this machine can do at most, and how near every kernel comes",
    Doctor doctor "Show what leyden sees of this machine, and what it chooses because of it",
    Completions completions "Print what a shell needs to complete commands and options",
    Man man "Print manual pages, or write them into a folder",
    Version version "Show which release this is",
}

impl Command {
    /// `true` for commands that print sentences and tables for people, unless they print JSON.
    fn is_prose(&self) -> bool {
        matches!(
            self,
            Command::Doctor(_)
                | Command::Eval(_)
                | Command::Quantize(_)
                | Command::Pack(_)
                | Command::Imatrix(_)
                | Command::Convert(_)
                | Command::Load(_)
                | Command::Hwbench(_)
                | Command::Bench(_)
        )
    }
}

/// Names of commands in other programs.
const OTHER_NAMES: &[(&str, &str)] = &[("ls", "list"), ("show", "inspect"), ("chat", "run")];

/// Options of llama.cpp's programs that have several letters behind one dash, and their long names.
const ONE_DASH: &[(&str, &str)] = &[
    ("-pg", "--pg"),
    ("-tb", "--threads-batch"),
    ("-hf", "--hf"),
    ("-hfr", "--hf"),
    ("-sys", "--system"),
    ("-np", "--parallel"),
    ("-jf", "--json-schema"),
];

/// Parses the arguments, runs the command, reports its failure.
pub(crate) fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os()
        .enumerate()
        .map(|(i, argument)| {
            let names = if i == 1 { OTHER_NAMES } else { ONE_DASH };
            let ours = names.iter().find(|(theirs, _)| argument == *theirs);
            ours.map_or(argument, |(_, ours)| ours.into())
        })
        .collect();
    // The parser's own command for help has no help.
    if arguments.get(1).is_some_and(|word| word == "help") {
        arguments.retain(|word| word != "--help" && word != "-h");
    }
    let options = || arguments.iter().take_while(|word| *word != "--");
    let json = options().any(|word| word == "--json");
    let quiet = options().any(|word| word == "--quiet" || word == "-q");
    let (arguments, said) = match foreign::sort_out(arguments) {
        Ok(sorted) => sorted,
        Err(failure) => return report(&failure, json),
    };
    if !quiet {
        // Nobody is left to tell if this fails.
        said.iter().for_each(|line| drop(writeln!(io::stderr(), "{line}")));
    }
    let mut program = knobs::of_serve(Cli::command());
    let parsed = program
        .try_get_matches_from_mut(arguments)
        .and_then(|matches| Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut program)))
        .map_err(|mut error| {
            tips::mend(&mut error);
            error
        });
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) if json && error.exit_code() != 0 => {
            let text = error.render().to_string();
            return report(&Failure::usage(text.trim_start_matches("error: ").trim_end()), json);
        }
        Err(error) => {
            // Help and version come this way too, with code 0. There is nobody to tell if printing fails.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let mut out = terminal::output(cli.command.is_prose() && !json);
    if !matches!(cli.command, Command::Serve(_)) {
        signals::watch();
    }
    let result = cli.command.execute(&mut out).and_then(|()| Ok(out.flush()?));
    // Threads that still write, as for a pull of the server, end with the program.
    leyden_files::remove_temporaries();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // What was written before the failure belongs to the reader, and comes before the message.
            let _ = out.flush();
            report(&failure, json)
        }
    }
}

fn report(failure: &Failure, json: bool) -> ExitCode {
    if json {
        // For programs: no line is broken.
        failure.report_json(&mut io::stderr().lock())
    } else {
        failure.report(&mut terminal::errors())
    }
    failure.exit_code()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_consistent() {
        knobs::of_serve(Cli::command()).debug_assert();
    }

    /// Every command's help says more than its line in `leyden --help`, and fits a terminal of 80 columns.
    #[test]
    fn help_explains_and_fits_a_terminal() {
        let mut program = knobs::of_serve(Cli::command()).term_width(80);
        program.build();
        let names: Vec<String> = program.get_subcommands().map(|c| c.get_name().to_owned()).collect();
        for name in names.iter().filter(|name| *name != "help") {
            let command = program.find_subcommand_mut(name).unwrap();
            let (short, long) = (command.get_about().unwrap(), command.get_long_about().unwrap());
            let more = long.to_string().replacen(&short.to_string(), "", 1);
            assert!(more.trim_matches(['.', '\n']).len() > 30, "{name}: {more}");
            // A broken example is two commands.
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let mut commands = examples.lines().filter(|line| line.trim_start().starts_with("leyden "));
            assert!(commands.all(|line| line.chars().count() <= 80), "{name}: {examples}");
            for help in [command.render_help(), command.render_long_help()].map(|help| help.to_string()) {
                let wide = help.lines().find(|line| line.chars().count() > 80);
                assert_eq!(wide, None, "{name}");
            }
        }
    }
}
