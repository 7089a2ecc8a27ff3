//! Hints for a mistyped command or option: similar names, and names of other programs.

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// Commands of other programs, with hints.
const COMMANDS: &[(&str, &str)] = &[
    ("push", "leyden has no upload; `leyden convert` writes a folder that the hub's own client can upload"),
    ("stop", "Ctrl-C ends `leyden serve`; `leyden ps --unload MODEL` unloads a model"),
    ("download", "leyden pull MODEL"),
    ("get", "leyden pull MODEL"),
    ("copy", "leyden cp MODEL NAME"),
    ("add", "leyden import FILE NAME"),
    ("remove", "leyden rm MODEL"),
    ("delete", "leyden rm MODEL"),
    ("server", "leyden serve MODEL"),
    ("start", "leyden serve MODEL"),
    ("generate", "leyden run MODEL PROMPT"),
    ("complete", "leyden run MODEL PROMPT"),
    ("embedding", "leyden embed MODEL TEXT"),
    ("embeddings", "leyden embed MODEL TEXT"),
    ("score", "leyden rerank MODEL QUERY DOCUMENT"),
    ("ner", "leyden extract MODEL TEXT"),
    ("perplexity", "leyden eval MODEL --perplexity FILE"),
    ("benchmark", "leyden bench MODEL"),
    ("estimate", "leyden plan MODEL"),
    ("info", "leyden inspect MODEL"),
    ("search", "leyden models WORD"),
];

/// Options that no command has, with hints.
const OPTIONS: &[(&[&str], &str)] = &[
    (&["--image", "--images", "--video", "--audio"], "leyden supports text only"),
    (&["--gpu", "--cuda", "--device", "-ngl", "--n-gpu-layers"], "leyden runs on CPUs only"),
    (&["--input", "--input-file", "--in"], "use --file FILE for an input"),
    (&["--out", "--output-file"], "use --output FILE, or -o FILE"),
    (&["--output-format"], "the ending of --output FILE sets the format"),
    (&["--batch-size"], "leyden chooses the batch size"),
];

/// Replaces the parser's suggestions if they are wrong.
pub(super) fn mend(error: &mut Error) {
    let (asked, offered) = match error.kind() {
        ErrorKind::InvalidSubcommand => (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        _ => return,
    };
    let Some(ContextValue::String(word)) = error.get(asked).cloned() else { return };
    let near = |name: &String| is_near(&word, name);
    match error.get(offered) {
        Some(ContextValue::String(name)) if !near(name) => drop(error.remove(offered)),
        Some(ContextValue::Strings(names)) => {
            let kept: Vec<String> = names.iter().filter(|name| near(name)).cloned().collect();
            match kept.is_empty() {
                true => drop(error.remove(offered)),
                false => drop(error.insert(offered, ContextValue::Strings(kept))),
            }
        }
        _ => {}
    }
    let name = word.split('=').next().unwrap_or(&word);
    let tip = match asked {
        ContextKind::InvalidSubcommand => {
            COMMANDS.iter().find(|(known, _)| *known == name).map(|(_, tip)| *tip)
        }
        _ => OPTIONS.iter().find(|(known, _)| known.contains(&name)).map(|(_, tip)| *tip),
    };
    if let Some(tip) = tip {
        error.remove(offered);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
}

/// Returns true if the names differ by at most one letter in three.
fn is_near(word: &str, name: &str) -> bool {
    let (word, name) = (word.trim_start_matches('-'), name.trim_start_matches('-'));
    strsim::damerau_levenshtein(word, name) <= (word.chars().count() / 3).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn told(line: &str) -> String {
        let mut error = crate::cli::Cli::command().try_get_matches_from(line.split(' ')).unwrap_err();
        mend(&mut error);
        error.render().to_string()
    }

    #[test]
    fn tips_are_near_or_known() {
        for (line, words, not) in [
            ("leyden copy a b", "leyden cp MODEL NAME", "chats"),
            ("leyden emebd m", "'embed'", "extract"),
            ("leyden run m --image x.png hi", "text only", "--min-p"),
            ("leyden classify m --colum x", "'--column'", "nothing"),
            ("leyden xyzzy", "unrecognized subcommand", "tip"),
        ] {
            let told = told(line);
            assert!(told.contains(words) && !told.contains(not), "{line}: {told}");
        }
    }

    /// Names of other programs must not be commands of leyden.
    #[test]
    fn no_tip_is_about_a_command_of_leyden() {
        let program = crate::cli::Cli::command();
        for (name, _) in COMMANDS {
            assert!(program.find_subcommand(name).is_none(), "{name}");
        }
    }
}
