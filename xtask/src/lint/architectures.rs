//! Architectures are named only in their own files.

use super::source::Source;
use super::{Facts, Finding};

/// Folder of architectures, one file each; the file's name is the architecture's.
pub(super) const HOME: &str = "crates/leyden-models/src/arch/";

/// Paths that may use these names: pre-tokenizers have the same names independently of architectures, and fuzz targets
/// make models as tests do.
const EXEMPT: &[&str] = &["crates/leyden-text/", "crates/leyden-convert/src/tokenizer/", "fuzz/", "xtask/"];

pub(super) fn check(source: &Source, facts: &Facts) -> Vec<Finding> {
    let exempt = source.path.starts_with(HOME) || EXEMPT.iter().any(|place| source.path.starts_with(place));
    if !source.is_rust() || exempt {
        return Vec::new();
    }
    source
        .literals()
        .filter_map(|(number, text)| {
            // The name alone, or a metadata key that begins with it.
            let name = text.split('.').next()?;
            let known = facts.architectures.contains(name);
            known.then(|| Finding::at(number, format!("architecture `{name}` named outside {HOME}")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::findings;
    use super::check;

    #[test]
    fn fires_on_names_and_keys() {
        let text = "// \"llama\"\nlet a = \"llama\";\nlet b = \"llama.block_count\";\nlet c = \"llamas\";\n";
        assert_eq!(findings(check, "crates/leyden/src/lib.rs", text, &["llama"]), [2, 3]);
        assert!(findings(check, "crates/leyden-models/src/arch/llama.rs", text, &["llama"]).is_empty());
        assert!(findings(check, "crates/leyden-text/src/tokenizer/mod.rs", text, &["llama"]).is_empty());
        assert!(findings(check, "crates/leyden/tests/run.rs", text, &["llama"]).is_empty());
    }
}
