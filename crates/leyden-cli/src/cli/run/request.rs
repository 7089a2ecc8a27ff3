//! What the arguments ask for: which model, which prompt.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::Args;
use leyden_tensor::HfFolder;

use crate::cli::failure::Failure;

/// The model and where the prompt comes from.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// The model file, or the embedded model.
    pub(super) model: Option<PathBuf>,
    pub(super) input: Input,
}

/// Where the prompt comes from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// The command line.
    Prompt(String),
    /// Standard input: piped text, or a person.
    Standard,
}

/// Sorts the positional arguments into model and prompt.
pub(super) fn resolve(args: &Args) -> Result<Request, Failure> {
    let mut words = args.first.iter().chain(&args.second);
    let mut model = args.model.clone();
    let mut prompt = args.prompt.clone();
    let both = args.second.is_some();
    if model.is_none()
        && let Some(word) = words.clone().next()
        && (both || prompt.is_some() || names_a_file(word))
    {
        model = Some(PathBuf::from(word));
        words.next();
    }
    if prompt.is_none()
        && let Some(word) = words.next()
    {
        prompt = Some(text(word)?);
    }
    if let Some(word) = words.next() {
        let shown = word.to_string_lossy();
        return Err(Failure::usage(format!(
            "`{shown}` is one argument too many: model and prompt are given already"
        )));
    }
    Ok(Request { model, input: prompt.map_or(Input::Standard, Input::Prompt) })
}

/// Whether a lone argument means a model, in a file or in a folder. A mistyped path should fail as a path, not become a question.
fn names_a_file(word: &OsStr) -> bool {
    let shown = word.to_string_lossy();
    let path = Path::new(word);
    let gguf = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
    let one_word = !shown.contains(char::is_whitespace);
    gguf && one_word || path.is_file() || HfFolder::is_at(path) || one_word && shown.contains('/')
}

fn text(word: &OsString) -> Result<String, Failure> {
    word.to_str().map(str::to_owned).ok_or_else(|| Failure::usage("the prompt is not UTF-8 text"))
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
        let line = Line::try_parse_from([&["run"], words].concat()).map_err(|error| error.to_string())?;
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
            assert!(error.contains("too many"), "{words:?}: {error}");
        }
    }
}
