//! Names of entries in a bundle.

use std::collections::BTreeSet;

/// Entry with the program.
pub(super) const PROGRAM: &str = "bin/leyden";
/// Folder of models.
pub(super) const MODELS: &str = "models";
/// Folder of evidence and calibrations.
pub(super) const EVIDENCE: &str = "evidence";
/// Folder of the models' licences.
pub(super) const LICENCES: &str = "licences/models";
/// Folder of programs.
pub(super) const PROGRAMS: &str = "bin";

/// Longest part of a name that comes from a model's.
const MAX_BYTES: usize = 40;

/// Returns a folder's name for a model, which differs from those in `taken`.
pub(super) fn folder(name: &str, taken: &mut BTreeSet<String>) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let plain: String = name.chars().map(allowed).take(MAX_BYTES).collect();
    let plain = plain.trim_matches(['.', '-']);
    let plain = if plain.is_empty() { "model" } else { plain };
    let mut unique = plain.to_owned();
    for i in 2.. {
        if taken.insert(unique.to_ascii_lowercase()) {
            break;
        }
        unique = format!("{plain}-{i}");
    }
    unique
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_plain_and_differ() {
        let mut taken = BTreeSet::new();
        let mut next = |name: &str| folder(name, &mut taken);
        assert_eq!(next("smollm2:135m"), "smollm2-135m");
        assert_eq!(next("smollm2-135M"), "smollm2-135M-2");
        assert_eq!(next("me/my model"), "me-my-model");
        assert_eq!((next("../.."), next("ü").as_str()), ("model".to_owned(), "model-2"));
        assert!(leyden_bundle::check_name(&next(&"a.".repeat(90))).is_ok());
    }
}
