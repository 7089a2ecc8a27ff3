//! Model and prompt of the arguments.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::args::Args;
use crate::cli::failure::Failure;
use crate::cli::notes::Notes;

/// Time without standard input after which a note is printed.
const PATIENCE: Duration = Duration::from_secs(3);

/// Model and source of the prompt.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// The model file, or the embedded model.
    pub(super) model: Option<PathBuf>,
    pub(super) input: Input,
}

/// Source of the prompt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Prompt on the command line.
    Prompt(String),
    /// Standard input: piped text, or a terminal.
    Standard,
}

/// Sorts the positional arguments into model and prompt.
///
/// A single word is a model, so that a mistyped name is an error and not a prompt for the embedded model. Several words
/// in one argument are a prompt, unless a file has this name.
pub(super) fn resolve(args: &Args) -> Result<Request, Failure> {
    let hub = args.hf.as_ref().map(|name| PathBuf::from(format!("{}{name}", leyden_hub::SCHEME)));
    let mut model = args.model.clone().or(hub);
    let mut prompt = args.prompt.clone();
    let mut words = args.first.iter().chain(&args.rest);
    let both_free = model.is_none() && prompt.is_none();
    if model.is_none()
        && let Some(word) = words.clone().next()
        && (prompt.is_some() || !args.rest.is_empty() || !is_prompt(word))
    {
        words.next();
        if word.is_empty() {
            return Err(
                Failure::usage("the name of the model is empty").hint("leyden run MODEL \"your question\"")
            );
        }
        model = Some(PathBuf::from(word));
    }
    if prompt.is_none() {
        // After a model, a prompt needs no quotes.
        let most = if both_free { usize::MAX } else { 1 };
        let said: Vec<&str> = words.by_ref().take(most).map(text_of).collect::<Result<_, _>>()?;
        prompt = (!said.is_empty()).then(|| said.join(" "));
    }
    if let Some(word) = words.next() {
        let shown = word.to_string_lossy();
        return Err(Failure::usage(format!(
            "unexpected argument `{shown}`: model and prompt are already given"
        )));
    }
    Ok(Request { model, input: prompt.map_or(Input::Standard, Input::Prompt) })
}

/// Returns true if a single argument is a prompt: it has several words and no file has this name.
fn is_prompt(word: &OsStr) -> bool {
    word.to_string_lossy().contains(char::is_whitespace) && !Path::new(word).exists()
}

fn text_of(word: &OsString) -> Result<&str, Failure> {
    word.to_str().ok_or_else(|| Failure::usage("the prompt is not UTF-8 text"))
}

/// Returns the whole prompt: piped text, files, and the prompt of the command line, separated by empty lines (with
/// --raw, joined).
pub(super) fn text(input: &Input, files: &[PathBuf], raw: bool, notes: Notes) -> Result<String, Failure> {
    let named = files.iter().any(|file| file == Path::new("-"));
    let mut parts = Vec::new();
    if *input == Input::Standard && files.is_empty() || !named && !io::stdin().is_terminal() {
        parts.push(standard_input(raw, notes)?);
    }
    for file in files {
        parts.push(if file == Path::new("-") {
            standard_input(raw, notes)?
        } else {
            let failed = |error| Failure::new(format!("{}: cannot read: {error}", file.display()));
            decoded(&file.display().to_string(), fs::read(file).map_err(failed)?, raw)?
        });
    }
    if let Input::Prompt(prompt) = input {
        parts.push(prompt.clone());
    }
    // A single empty prompt is allowed.
    if parts.len() > 1 {
        parts.retain(|part| !part.is_empty());
    }
    Ok(parts.join(if raw { "" } else { "\n\n" }))
}

/// Reads all of standard input. Prints a note if that takes long: a script may have left it open.
fn standard_input(raw: bool, notes: Notes) -> Result<String, Failure> {
    let (done, waits) = mpsc::channel::<()>();
    let told = thread::spawn(move || {
        if waits.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            notes.say("reading standard input to its end; use `</dev/null` for none");
        }
    });
    let mut bytes = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut bytes);
    drop(done);
    let _ = told.join();
    read.map_err(|error| Failure::new(format!("standard input: cannot read: {error}")))?;
    decoded("standard input", bytes, raw)
}

/// Decodes a text. Removes the line break at its end, which `echo` and editors add (not with --raw).
fn decoded(name: &str, bytes: Vec<u8>, raw: bool) -> Result<String, Failure> {
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(format!("{name}: not UTF-8 text: byte {at}"))
    })?;
    if !raw && text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn resolved(words: &[&str]) -> Result<(Option<String>, Option<String>), String> {
        let words = words.iter().map(|&word| if word == "-hf" { "--hf" } else { word });
        let line =
            Line::try_parse_from(["run"].into_iter().chain(words)).map_err(|error| error.to_string())?;
        let request = resolve(&line.args).map_err(|failure| format!("{failure:?}"))?;
        let prompt = match request.input {
            Input::Prompt(prompt) => Some(prompt),
            Input::Standard => None,
        };
        Ok((request.model.map(|path| path.display().to_string()), prompt))
    }

    #[test]
    fn positions_and_options_agree() {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        type Wanted<'a> = (Option<&'a str>, Option<&'a str>);
        let cases: &[(&[&str], Wanted<'_>)] = &[
            (&[], (None, None)),
            (&["Once upon a time"], (None, Some("Once upon a time"))),
            (&["m.gguf"], (Some("m.gguf"), None)),
            (&["M.GGUF"], (Some("M.GGUF"), None)),
            (&["models/llama"], (Some("models/llama"), None)),
            (&[manifest], (Some(manifest), None)),
            (&["llama3.2"], (Some("llama3.2"), None)),
            (&["hello"], (Some("hello"), None)),
            (&["gemma3:270m"], (Some("gemma3:270m"), None)),
            (&["m", "why", "is", "that"], (Some("m"), Some("why is that"))),
            (&["-hf", "a/b:Q4_0"], (Some("hf:a/b:Q4_0"), None)),
            (&["What is m.gguf"], (None, Some("What is m.gguf"))),
            (&["read and/or write"], (None, Some("read and/or write"))),
            (&["m", "hello"], (Some("m"), Some("hello"))),
            (&["hello", "-m", "m"], (Some("m"), Some("hello"))),
            (&["m.gguf", "--model", "m"], (Some("m"), Some("m.gguf"))),
            (&["m", "--prompt", "p"], (Some("m"), Some("p"))),
            (&["-m", "m", "-p", "p"], (Some("m"), Some("p"))),
            (&["--prompt", ""], (None, Some(""))),
        ];
        for (words, (model, prompt)) in cases {
            let wanted = (model.map(str::to_owned), prompt.map(str::to_owned));
            assert_eq!(resolved(words), Ok(wanted), "{words:?}");
        }
    }

    #[test]
    fn too_many_arguments_are_refused() {
        for words in [&["a", "b", "-m", "m"][..], &["a", "b", "-p", "p"], &["a", "-m", "m", "-p", "p"]] {
            let error = resolved(words).unwrap_err();
            assert!(error.contains("unexpected argument"), "{words:?}: {error}");
        }
        assert!(resolved(&[""]).unwrap_err().contains("is empty"));
    }
}
