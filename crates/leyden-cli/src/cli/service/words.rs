//! Words of `leyden service install`: those of the service, and those of `leyden serve` as a unit needs them, with absolute
//! paths.

use std::any::TypeId;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Arg, Args as _};

use super::which::{Which, name};
use crate::cli::failure::Failure;
use crate::cli::serve;

/// Words of the service and of the server.
#[derive(Debug)]
pub(super) struct Sorted {
    pub(super) which: Which,
    pub(super) dry_run: bool,
    pub(super) serve: Vec<OsString>,
}

/// Takes the service's own options out of the words.
///
/// # Errors
/// `--user` and `--system` together, or a wrong name.
pub(super) fn sort(words: Vec<OsString>) -> Result<Sorted, Failure> {
    let (mut user, mut system, mut dry_run) = (false, false, false);
    let (mut service, mut serve) = ("leyden".to_owned(), Vec::new());
    let checked = |text: &str| name(text).map_err(|what| Failure::usage(format!("--name {text}: {what}")));
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--user") => user = true,
            Some("--system") => system = true,
            Some("--dry-run") => dry_run = true,
            Some("--name") => {
                let value = words.next().and_then(|value| value.into_string().ok());
                service = checked(&value.ok_or_else(|| Failure::usage("--name: a value is missing"))?)?;
            }
            Some(text) if text.starts_with("--name=") => service = checked(&text["--name=".len()..])?,
            _ => serve.push(word),
        }
    }
    if user && system {
        return Err(Failure::usage("--user and --system exclude each other"));
    }
    Ok(Sorted { which: Which { user, system, name: service }, dry_run, serve })
}

/// Makes paths among the words of `leyden serve` absolute: those of its options, and models that are files or folders.
pub(super) fn absolute(words: Vec<OsString>, folder: &Path) -> Vec<OsString> {
    let command = serve::Args::augment_args(clap::Command::new("serve"));
    let joined = |path: &OsString| OsString::from(folder.join(path));
    let mut result = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy().into_owned();
        if !text.starts_with('-') || text == "-" {
            let path = folder.join(&word);
            result.push(if path.exists() { path.into_os_string() } else { word });
            continue;
        }
        let (option, value) =
            text.split_once('=').map_or((&text[..], None), |(name, value)| (name, Some(value)));
        let Some(known) = command.get_arguments().find(|known| is_named(known, option)) else {
            result.push(word);
            continue;
        };
        let is_path = known.get_value_parser().type_id() == TypeId::of::<PathBuf>();
        // A model may be a name; paths of other options need not exist yet.
        let fix = |value: OsString| {
            let wanted = is_path && (known.get_id() != "model" || folder.join(&value).exists());
            if wanted { joined(&value) } else { value }
        };
        match value {
            Some(value) => {
                let mut whole = OsString::from(format!("{option}="));
                whole.push(fix(value.into()));
                result.push(whole);
            }
            None => {
                result.push(word);
                if known.get_action().takes_values() && !known.is_require_equals_set() {
                    result.extend(words.next().map(fix));
                }
            }
        }
    }
    result
}

fn is_named(known: &Arg, option: &str) -> bool {
    match (option.strip_prefix("--"), option.strip_prefix('-')) {
        (Some(long), _) => {
            known.get_long() == Some(long)
                || known.get_all_aliases().is_some_and(|names| names.contains(&long))
        }
        (None, Some(short)) => known.get_short().is_some_and(|letter| short == letter.to_string()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn own_words_are_taken_from_anywhere() {
        let sorted = sort(words("m --port 1 --user --name a-b --strict --dry-run")).unwrap();
        assert_eq!((&sorted.which.name[..], sorted.which.user, sorted.dry_run), ("a-b", true, true));
        assert_eq!(sorted.serve, words("m --port 1 --strict"));
        for (wrong, wanted) in
            [("--user --system", "exclude"), ("--name", "missing"), ("--name=a/b", "letters")]
        {
            assert!(sort(words(wrong)).unwrap_err().to_string().contains(wanted), "{wrong}");
        }
    }

    #[test]
    fn paths_become_absolute() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("m.gguf"), "").unwrap();
        let given = "m.gguf smollm2 -m m.gguf -m qwen --alias m.gguf --api-keys k.jsonl --config=c.toml -c 9 --require-evidence x";
        let there = folder.path().display();
        let wanted = format!(
            "{there}/m.gguf smollm2 -m {there}/m.gguf -m qwen --alias m.gguf --api-keys {there}/k.jsonl \
             --config={there}/c.toml -c 9 --require-evidence x"
        );
        assert_eq!(absolute(words(given), folder.path()), words(&wanted));
    }
}
