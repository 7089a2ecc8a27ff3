//! Options of llama.cpp, Ollama and vLLM that leyden lacks. Each is ignored with a note, or refused with a hint.
//! Options with the same meaning in leyden are aliases at the options themselves.

use std::ffi::{OsStr, OsString};

use super::failure::Failure;

/// Treatment of an option.
#[derive(Debug, Clone, Copy)]
enum Answer {
    /// Ignored with a note: it changes no result.
    Ignore(&'static str),
    /// Refused with a hint: text to type instead.
    Instead(&'static str),
}

/// Value after an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    None,
    One,
    /// One of these values, or none.
    Maybe(&'static [&'static str]),
}

struct Foreign {
    flags: &'static [&'static str],
    value: Value,
    commands: &'static [&'static str],
    answer: Answer,
}

use Answer::{Ignore, Instead};

const RUN: &[&str] = &["run"];
const SERVE: &[&str] = &["serve"];
const BOTH: &[&str] = &["run", "serve"];
const SWITCH: &[&str] = &["on", "off", "auto", "0", "1"];
const NO_GPU: Answer = Ignore("leyden runs on CPUs only");
const NOTHING: Answer = Ignore("leyden does not need it");

const fn row(
    flags: &'static [&'static str],
    value: Value,
    commands: &'static [&'static str],
    answer: Answer,
) -> Foreign {
    Foreign { flags, value, commands, answer }
}

/// The options, one line each.
static FOREIGN: &[Foreign] = &[
    row(&["-ngl", "--gpu-layers", "--n-gpu-layers", "--num-gpu"], Value::One, BOTH, NO_GPU),
    row(&["-sm", "--split-mode", "-ts", "--tensor-split", "-mg", "--main-gpu"], Value::One, BOTH, NO_GPU),
    row(
        &["-dev", "--device", "--gpu-memory-utilization", "--tensor-parallel-size"],
        Value::One,
        BOTH,
        NO_GPU,
    ),
    row(&["-fa", "--flash-attn"], Value::Maybe(SWITCH), BOTH, NOTHING),
    row(&["--jinja", "-cnv", "--conversation", "-st", "--single-turn", "--color"], Value::None, RUN, NOTHING),
    row(
        &["--jinja", "--no-webui", "-cb", "--cont-batching", "--metrics", "--slots", "--props"],
        Value::None,
        SERVE,
        NOTHING,
    ),
    row(
        &["--embedding", "--embeddings"],
        Value::None,
        SERVE,
        Ignore("/v1/embeddings works with every model"),
    ),
    row(
        &["-i", "--interactive", "-if", "--simple-io", "--no-display-prompt", "-e", "--escape"],
        Value::None,
        RUN,
        NOTHING,
    ),
    row(&["--log-disable"], Value::None, BOTH, Instead("--quiet")),
    row(&["--hidethinking"], Value::None, RUN, Instead("--think off")),
    row(&["--mlock", "--no-mmap", "--no-warmup", "--insecure"], Value::None, BOTH, NOTHING),
    row(&["--keepalive"], Value::One, RUN, Ignore("the model is unloaded after the answer")),
    row(&["--host", "--port"], Value::One, RUN, Instead("leyden serve MODEL --host HOST --port PORT")),
    row(&["--format"], Value::One, RUN, Instead("--json-object, or --json-schema SCHEMA")),
    row(&["-r", "--reverse-prompt"], Value::One, RUN, Instead("--stop TEXT")),
    row(&["-sysf", "--system-prompt-file"], Value::One, RUN, Instead("--system \"$(cat FILE)\"")),
    row(&["--grammar-file"], Value::One, RUN, Instead("--grammar FILE")),
    row(
        &["-no-cnv", "--no-conversation"],
        Value::None,
        RUN,
        Instead("--raw, or a PROMPT for a single answer"),
    ),
    row(&["-hff", "--hf-file"], Value::One, BOTH, Instead("-hf ORG/REPO:FILE")),
    row(
        &["-mu", "--model-url"],
        Value::One,
        BOTH,
        Instead("the path of a downloaded file, or -hf ORG/REPO:FILE"),
    ),
    row(
        &["-ctk", "-ctv", "--cache-type-k", "--cache-type-v"],
        Value::One,
        BOTH,
        Instead("--kv-type f32, f16 or q8_0"),
    ),
    row(&["-b", "-ub", "--batch-size", "--ubatch-size"], Value::One, SERVE, Instead("--step-tokens N")),
    row(&["-b", "-ub", "--batch-size", "--ubatch-size"], Value::One, RUN, NOTHING),
    row(
        &["--mmproj", "-mm"],
        Value::One,
        BOTH,
        Instead("the model without images; projectors are not supported"),
    ),
    row(
        &["--api-key-file"],
        Value::One,
        SERVE,
        Instead(
            "--api-keys FILE, with {\"id\":\"NAME\",\"sha256\":\"DIGEST OF THE KEY\"} on a line, or LEYDEN_API_KEY",
        ),
    ),
    row(&["-to", "--timeout"], Value::One, SERVE, Instead("--request-timeout SECONDS")),
];

/// Removes ignored options from the command line. Returns the rest and the notes.
///
/// # Errors
/// An option has another name in leyden.
pub(super) fn remove_foreign(arguments: Vec<OsString>) -> Result<(Vec<OsString>, Vec<String>), Failure> {
    let command = arguments.get(1).and_then(|word| word.to_str()).unwrap_or("").to_owned();
    let (mut kept, mut notes) = (Vec::with_capacity(arguments.len()), Vec::new());
    let mut words = arguments.into_iter().peekable();
    while let Some(word) = words.next() {
        if word == "--" {
            kept.push(word);
            kept.extend(words);
            break;
        }
        let text = word.to_str().unwrap_or("");
        let (flag, joined) = match text.split_once('=') {
            Some((flag, _)) => (flag, true),
            None => (text, false),
        };
        let is_it = |row: &&Foreign| row.flags.contains(&flag) && row.commands.contains(&&*command);
        match FOREIGN.iter().find(is_it) {
            None => kept.push(word),
            Some(Foreign { answer: Instead(instead), .. }) => {
                let message = format!("leyden {command} has no option {flag}");
                return Err(Failure::usage(message).hint(format!("use {instead}")));
            }
            Some(Foreign { answer: Ignore(why), value, .. }) => {
                notes.push(format!("note: {flag} is ignored: {why}"));
                let follows = |word: &OsStr| match value {
                    Value::None => false,
                    Value::One => true,
                    Value::Maybe(values) => word.to_str().is_some_and(|word| values.contains(&word)),
                };
                if !joined && words.peek().is_some_and(|word| follows(word)) {
                    words.next();
                }
            }
        }
    }
    Ok((kept, notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(line: &str) -> Result<(String, usize), Failure> {
        let (kept, notes) = remove_foreign(line.split(' ').map(OsString::from).collect())?;
        let kept: Vec<_> = kept.iter().map(|word| word.to_str().unwrap()).collect();
        Ok((kept.join(" "), notes.len()))
    }

    #[test]
    fn options_without_effect_are_ignored() {
        for (line, kept, notes) in [
            ("leyden run m hi", "leyden run m hi", 0),
            ("leyden run -ngl 99 m -fa on hi", "leyden run m hi", 2),
            ("leyden run -fa m hi", "leyden run m hi", 1),
            ("leyden run --gpu-layers=99 m", "leyden run m", 1),
            ("leyden serve m -ngl 99 --jinja", "leyden serve m", 2),
            ("leyden bench -ngl 99", "leyden bench -ngl 99", 0),
            ("leyden run m -- -ngl", "leyden run m -- -ngl", 0),
        ] {
            assert_eq!(sorted(line).unwrap(), (kept.to_owned(), notes), "{line}");
        }
    }

    #[test]
    fn other_options_are_refused_with_a_hint() {
        let failure = format!("{:?}", sorted("leyden run m --port 8080").unwrap_err());
        assert!(
            failure.contains("leyden run has no option --port") && failure.contains("leyden serve MODEL")
        );
        assert!(sorted("leyden serve m --port 8080").is_ok());
    }

    #[test]
    fn nothing_here_is_an_option_of_leyden() {
        use clap::CommandFactory;
        let program = crate::cli::Cli::command();
        for row in FOREIGN {
            for command in row.commands {
                let command = program.find_subcommand(command).unwrap();
                for flag in row.flags {
                    let has = command.get_arguments().any(|argument| match flag.strip_prefix("--") {
                        Some(long) => {
                            argument.get_long() == Some(long)
                                || argument.get_all_aliases().is_some_and(|all| all.contains(&long))
                        }
                        None => argument.get_short().is_some_and(|short| **flag == format!("-{short}")),
                    });
                    assert!(!has, "{flag} of {}", command.get_name());
                }
            }
        }
    }
}
