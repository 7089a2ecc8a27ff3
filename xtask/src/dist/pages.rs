//! Completions and manual pages, as the program writes them.

use std::path::Path;

use crate::command::output;

/// Shells with the places of their completions below a prefix.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/leyden"),
    ("zsh", "share/zsh/site-functions/_leyden"),
    ("fish", "share/fish/vendor_completions.d/leyden.fish"),
];

/// Files with their places below a prefix.
pub(super) type Pages = Vec<(String, Vec<u8>)>;

/// Returns the files that a program writes; `runner` is a command before it.
pub(super) fn of(program: &Path, runner: Option<&str>) -> Result<Pages, String> {
    let here = Path::new(".");
    let program =
        std::fs::canonicalize(program).map_err(|error| format!("{}: {error}", program.display()))?;
    let program = program.display().to_string();
    let before: Vec<&str> = runner.unwrap_or_default().split_whitespace().collect();
    let run = |arguments: &[&str]| {
        let words: Vec<&str> =
            before.iter().copied().chain([&program[..]]).chain(arguments.iter().copied()).collect();
        output(here, words[0], &words[1..])
    };
    let mut pages = Pages::new();
    for (shell, place) in SHELLS {
        pages.push((place.to_owned(), (run(&["completions", shell])? + "\n").into_bytes()));
    }
    let folder = tempfile::tempdir().map_err(|error| format!("a temporary folder: {error}"))?;
    run(&["man", "--out", &folder.path().display().to_string()])?;
    let entries = std::fs::read_dir(folder.path()).map_err(|error| error.to_string())?;
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        pages.push((format!("share/man/man1/{name}"), super::read(&path)?));
    }
    pages.sort();
    Ok(pages)
}
