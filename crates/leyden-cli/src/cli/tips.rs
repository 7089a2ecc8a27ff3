//! Tips behind a mistyped command or option: only names that are nearly the same, and the names of other programs.

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// Commands of other programs, with the way to do the same here.
const COMMANDS: &[(&str, &str)] = &[
    ("push", "leyden uploads nothing; `leyden convert` writes a folder that the hub's own client uploads"),
    ("stop", "Ctrl-C ends `leyden serve`; `leyden ps --help` says how a server unloads a model"),
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
    ("score", "leyden rerank MODEL QUESTION DOCUMENT"),
    ("ner", "leyden extract MODEL TEXT"),
    ("perplexity", "leyden eval MODEL --perplexity FILE"),
    ("benchmark", "leyden bench MODEL"),
    ("info", "leyden inspect MODEL"),
    ("search", "leyden models WORD"),
];

/// Options that no command has because leyden does something else or nothing of the kind.
const OPTIONS: &[(&[&str], &str)] = &[
    (&["--image", "--images", "--video", "--audio"], "leyden reads texts, neither pictures nor sound"),
    (&["--gpu", "--cuda", "--device", "-ngl", "--n-gpu-layers"], "leyden computes on the processor alone"),
    (&["--input", "--input-file", "--in"], "--file FILE reads an input"),
    (&["--out", "--output-file"], "--output FILE, or -o FILE, writes an output"),
    (&["--output-format"], "the ending of --output FILE tells the format"),
    (&["--batch-size"], "texts are computed together as fits the machine; there is nothing to set"),
];

/// Replaces the parser's tips where they are names of something else.
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

/// `true` for a name that differs by a letter in three at most.
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
            ("leyden run m --image x.png hi", "neither pictures nor sound", "--min-p"),
            ("leyden classify m --colum x", "'--column'", "nothing"),
            ("leyden xyzzy", "unrecognized subcommand", "tip"),
        ] {
            let told = told(line);
            assert!(told.contains(words) && !told.contains(not), "{line}: {told}");
        }
    }

    /// A name of another program is none of ours.
    #[test]
    fn no_tip_is_about_a_command_of_leyden() {
        let program = crate::cli::Cli::command();
        for (name, _) in COMMANDS {
            assert!(program.find_subcommand(name).is_none(), "{name}");
        }
    }
}
