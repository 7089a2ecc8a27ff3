//! `unsafe` is only used where memory and instructions are handled.

use super::source::{Source, has_word};
use super::{Facts, Finding};

const ALLOWED: &[&str] = &["crates/leyden-kernels/", "crates/leyden-tensor/src/file/mmap.rs"];

pub(super) fn check(source: &Source, _: &Facts) -> Vec<Finding> {
    if !source.is_rust() || ALLOWED.iter().any(|place| source.path.starts_with(place)) {
        return Vec::new();
    }
    let hits = source.all_lines().filter(|(_, line)| has_word(line, "unsafe"));
    hits.map(|(number, _)| Finding::at(number, "`unsafe` outside the kernels and mmap.rs")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::findings;
    use super::check;

    #[test]
    fn fires_outside_the_allowed_places() {
        let text = "// unsafe\nlet x = unsafe { y };\n";
        assert_eq!(findings(check, "crates/leyden-text/src/stop.rs", text, &[]), [2]);
        assert_eq!(findings(check, "crates/leyden-tensor/src/file/gguf.rs", text, &[]), [2]);
        assert!(findings(check, "crates/leyden-tensor/src/file/mmap.rs", text, &[]).is_empty());
        assert!(findings(check, "crates/leyden-kernels/src/pool.rs", text, &[]).is_empty());
    }
}
