//! Asynchronous runtimes are only in the server crate; examples may show how to use the library from one.

use super::source::{Source, has_word};
use super::{Facts, Finding};

const ALLOWED: &[&str] = &["crates/leyden-server/", "crates/leyden/examples/"];
const WORDS: &[&str] = &["tokio", "axum", "hyper", "async_std", "smol"];

pub(super) fn check(source: &Source, _: &Facts) -> Vec<Finding> {
    let code = source.is_rust() || source.path.ends_with("Cargo.toml");
    if !code || ALLOWED.iter().any(|place| source.path.starts_with(place)) {
        return Vec::new();
    }
    let hit = |line: &str| WORDS.iter().find(|word| has_word(line, word));
    // Dev-dependencies come after the crate's own dependencies.
    source
        .all_lines()
        .take_while(|(_, line)| line.trim() != "[dev-dependencies]")
        .filter_map(|(number, line)| {
            Some(Finding::at(number, format!("`{}` outside the server crate", hit(line)?)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::findings;
    use super::check;

    #[test]
    fn fires_in_code_and_manifests() {
        assert_eq!(findings(check, "crates/leyden/src/lib.rs", "use tokio::sync;\n", &[]), [1]);
        assert_eq!(findings(check, "crates/leyden/Cargo.toml", "[dependencies]\ntokio = \"1\"\n", &[]), [2]);
        assert!(findings(check, "crates/leyden-server/src/app.rs", "use tokio::sync;\n", &[]).is_empty());
        assert!(findings(check, "crates/leyden/examples/a.rs", "use tokio::sync;\n", &[]).is_empty());
        let examples = "[dependencies]\n\n[dev-dependencies]\ntokio = \"1\"\n";
        assert!(findings(check, "crates/leyden/Cargo.toml", examples, &[]).is_empty());
        assert!(findings(check, "crates/leyden/src/lib.rs", "// tokio\nlet tokionic = 1;\n", &[]).is_empty());
    }
}
