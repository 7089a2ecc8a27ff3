//! Doc comments and descriptions in the OpenAPI document begin with a noun or a verb, and limits are named `MAX_` and
//! `MIN_`.

use super::source::Source;
use super::{Facts, Finding};

/// Words that stand for a noun which the reader has to guess.
const OPENINGS: [&str; 9] = ["What", "Whether", "Who", "Whose", "Of", "Those", "Which", "Where", "How"];

/// Openings of descriptions. `Whether` is usual for a flag.
const IN_DESCRIPTIONS: [&str; 8] = ["What", "Who", "Whose", "Of", "Those", "Which", "How", "So"];

/// Key of a description in the OpenAPI document.
const DESCRIPTION: &str = "description";

/// Prefixes of constants that have a usual name.
const PREFIXES: [(&str, &str); 2] = [("MOST_", "MAX_"), ("LEAST_", "MIN_")];

pub(super) fn check(source: &Source, _: &Facts) -> Vec<Finding> {
    if !source.is_rust() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, text) in source.doc_openings() {
        let word = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        if OPENINGS.contains(&word) {
            let message =
                format!("a doc comment begins with `{word}`; begin with a noun, or a verb for a function");
            findings.push(Finding::at(number, message));
        }
    }
    let literals: Vec<(usize, &str)> = source.literals().collect();
    for pair in literals.windows(2) {
        let [(_, key), (number, text)] = pair else { continue };
        let word = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        if *key == DESCRIPTION && IN_DESCRIPTIONS.contains(&word) {
            findings
                .push(Finding::at(*number, format!("a description begins with `{word}`; begin with a noun")));
        }
    }
    for (number, line) in source.all_lines() {
        let words = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        for word in words {
            if let Some((prefix, usual)) = PREFIXES.iter().find(|(prefix, _)| word.starts_with(prefix)) {
                findings.push(Finding::at(
                    number,
                    format!("`{word}` begins with {prefix}; the usual prefix is {usual}"),
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tests::findings;
    use super::check;

    #[test]
    fn fires_on_openings_and_prefixes() {
        let lines = [
            "//! What lives here.",
            "//! Whether it does.",
            "",
            "/// Returns the name.",
            "/// Of two lines.",
            "fn a() {}",
            "",
            "/// Whether it is so.",
            "const MOST_X: u8 = 1;",
            "/// Where it lies.",
            "// What for.",
            "const MAX_Y: u8 = 1;",
            r#"f(json!({ "description": "What is left" }));"#,
            r#"f(json!({ "description": "Whether it is so" }));"#,
        ];
        let text = lines.join("\n");
        assert_eq!(findings(check, "crates/leyden-text/src/lib.rs", &text, &[]), [1, 8, 10, 13, 9]);
    }
}
