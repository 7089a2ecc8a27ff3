//! The command line: one file per command, listed in one table.
//!
//! A command gets its arguments and a writer for standard output. It prints generated or requested data to that writer
//! and everything else to standard error, and returns a [`Failure`] if it fails. [`main`] turns failures into exit
//! codes.

mod arithmetic;
mod audit;
mod batch;
mod bench;
mod bundle;
mod calibrate;
mod calibration_file;
mod chats;
mod classify;
mod client_certificate;
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
mod help;
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
mod pages;
mod plan;
mod progress;
mod prune;
mod ps;
mod pull;
mod quantize;
mod report;
mod rerank;
mod rm;
mod rows;
mod run;
mod run_onnx;
mod serve;
mod service;
mod signals;
mod sizes;
mod stored;
mod terminal;
mod text;
mod tips;
mod tokenize;
mod transcribe;
mod verify;
mod version;
mod wrap;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};
use failure::Failure;
use help::Group;

/// Runs language models and encoders on CPUs.
#[derive(Debug, Parser)]
#[command(name = "leyden", version, arg_required_else_help = true, help_template = help::template(ROWS))]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 too few samples for a verdict, 130 interrupted."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Returns the text above the options in `leyden COMMAND --help`: the command's line in `leyden --help`, then the doc
/// comment of its `Args`.
fn explained<A: clap::Args>(help: &str) -> String {
    let args = A::augment_args(clap::Command::new(""));
    let text = args.get_long_about().or(args.get_about());
    text.map_or_else(|| help.to_owned(), |text| format!("{help}.\n\n{text}"))
}

/// Declares the commands: name, module, group, and line in `leyden --help`.
macro_rules! commands {
    ($($name:ident $module:ident $group:ident $help:literal,)*) => {
        #[derive(Debug, clap::Subcommand)]
        enum Command {
            // `about`, because a doc comment here would replace the longer text at the module's `Args`.
            $(#[command(about = $help, long_about = explained::<$module::Args>($help))] $name(Box<$module::Args>),)*
        }

        impl Command {
            fn execute(&self, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
                match self {
                    $(Self::$name(args) => $module::execute(args, out),)*
                }
            }
        }

        /// ROWS of `leyden --help`: group, name and line.
        const ROWS: &[(Group, &str, &str)] = &[$((Group::$group, stringify!($module), $help),)*];
    };
}

// COMMANDS, in the order of `leyden --help`; the groups and their headings are in `help.rs`.
commands! {
    Run run Run "Answer a prompt, or start a conversation",
    RunOnnx run_onnx Run "Compute the outputs of an ONNX graph",
    Chats chats Run "List or remove saved conversations",
    Serve serve Serve "Serve models over HTTP: OpenAI's, Anthropic's and Ollama's APIs",
    Service service Serve "Run a server in the background, by systemd",
    Ps ps Serve "List the models of a running server, and unload them",
    Embed embed Texts "Compute embedding vectors of texts",
    Classify classify Texts "Classify texts",
    Extract extract Texts "Extract named entities from texts",
    Rerank rerank Texts "Sort documents by relevance to a query",
    Transcribe transcribe Texts "Transcribe speech, with times",
    Batch batch Texts "Compute a task over all rows of a file or folder",
    Tokenize tokenize Texts "Convert text to token ids, or back",
    Models models Models "List models with short names, and show which fit this machine",
    Pull pull Models "Download a model from the Hugging Face hub",
    List list Models "List the models in the local store",
    Inspect inspect Models "Show metadata and tensors of a model",
    Import import Models "Add a model file or folder to the store under a name",
    Cp cp Models "Give a model another name",
    Create create Models "Give a model a name and defaults, from an Ollama Modelfile",
    Rm rm Models "Remove a pulled model, or a name",
    Bundle bundle Models "Pack models and program for a machine without a network",
    Quantize quantize Smaller "Quantise a model",
    Imatrix imatrix Smaller "Compute an importance matrix for quantize",
    Prune prune Smaller "Set weights of a model to zero",
    Convert convert Smaller "Convert a Hugging Face folder to GGUF, or back",
    Pack pack Smaller "Cache a model's packed weights for faster starts",
    Eval eval Prove "Measure perplexity, KL divergence and scores of tasks",
    Calibrate calibrate Prove "Calibrate a classifier, for answers with a stated error rate",
    Verify verify Prove "Compare a model with floors: a verdict with signed evidence",
    Audit audit Prove "Check an audit log, show its records, compute answers again",
    Plan plan Measure "Predict memory, speed and cost, here or on another machine",
    Bench bench Measure "Measure a model's speed, also in turns with llama-bench",
    Load load Measure "Load-test a server with OpenAI's API",
    Report report Measure "Show results on a page, or several runs beside each other",
    Hwbench hwbench Measure "Measure peak rates, and each kernel's share of them",
    Doctor doctor Measure "Show the detected hardware, and what was chosen for it",
    Completions completions Program "Print a completion script for a shell",
    Man man Program "Print manual pages, or write them to a folder",
    Version version Program "Show the version",
}

impl Command {
    /// Returns true for commands that print sentences and tables, unless they print JSON.
    fn is_prose(&self) -> bool {
        matches!(
            self,
            Command::Doctor(_)
                | Command::Eval(_)
                | Command::Verify(_)
                | Command::Calibrate(_)
                | Command::Quantize(_)
                | Command::Prune(_)
                | Command::Pack(_)
                | Command::Imatrix(_)
                | Command::Convert(_)
                | Command::Load(_)
                | Command::Hwbench(_)
                | Command::Bench(_)
                | Command::Plan(_)
                | Command::Bundle(_)
                | Command::Audit(_)
        )
    }
}

/// Names of commands in other programs, and leyden's names.
const OTHER_NAMES: &[(&str, &str)] = &[("ls", "list"), ("show", "inspect"), ("chat", "run")];

/// Options of llama.cpp's programs with several letters after one dash, and their long names.
const ONE_DASH: &[(&str, &str)] = &[
    ("-pg", "--pg"),
    ("-tb", "--threads-batch"),
    ("-hf", "--hf"),
    ("-hfr", "--hf"),
    ("-sys", "--system"),
    ("-np", "--parallel"),
    ("-jf", "--json-schema"),
];

/// Parses the arguments, runs the command and reports its failure. Returns the exit code.
pub(crate) fn main() -> ExitCode {
    // The program reads documents in a process of its own.
    if let Some(code) = leyden_documents::answer() {
        return code;
    }
    let mut arguments: Vec<OsString> = std::env::args_os()
        .enumerate()
        .map(|(i, argument)| {
            let names = if i == 1 { OTHER_NAMES } else { ONE_DASH };
            let ours = names.iter().find(|(theirs, _)| argument == *theirs);
            ours.map_or(argument, |(_, ours)| ours.into())
        })
        .collect();
    // The `help` command of clap takes no --help.
    if arguments.get(1).is_some_and(|word| word == "help") {
        arguments.retain(|word| word != "--help" && word != "-h");
    }
    let options = || arguments.iter().take_while(|word| *word != "--");
    let json = options().any(|word| word == "--json");
    let quiet = options().any(|word| word == "--quiet" || word == "-q");
    let (arguments, notes) = match foreign::remove_foreign(arguments) {
        Ok(sorted) => sorted,
        Err(failure) => return report(&failure, json),
    };
    if !quiet {
        // Errors of standard error cannot be reported.
        notes.iter().for_each(|line| drop(writeln!(io::stderr(), "{line}")));
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
            // Help and version are such errors too, with code 0. A failure to print them cannot be reported.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let mut out = terminal::output(cli.command.is_prose() && !json);
    if !matches!(cli.command, Command::Serve(_)) {
        signals::watch();
    }
    let result = cli.command.execute(&mut out).and_then(|()| Ok(out.flush()?));
    // Other threads may still write files, such as pulls of the server; they end with the program.
    leyden_files::remove_temporaries();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Output before the failure is printed before the message.
            let _ = out.flush();
            report(&failure, json)
        }
    }
}

fn report(failure: &Failure, json: bool) -> ExitCode {
    if json {
        // JSON is for programs, so lines are not wrapped.
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

    /// Help of every command is longer than its line in `leyden --help`, and fits a terminal of 80 columns.
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
