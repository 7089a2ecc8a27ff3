//! Environment variables are read in `knobs.rs`, where they are listed and described.

use super::source::Source;
use super::{Facts, Finding};

pub(super) fn check(source: &Source, _: &Facts) -> Vec<Finding> {
    if !source.is_rust() || source.path.ends_with("/knobs.rs") {
        return Vec::new();
    }
    let hits = source.lines().filter(|(_, line)| line.contains("env::var"));
    hits.map(|(number, _)| Finding::at(number, "environment variable read outside a knobs.rs")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::findings;
    use super::check;

    #[test]
    fn fires_outside_knobs_and_tests() {
        let text = "let x = std::env::var(\"X\");\n#[cfg(test)]\nmod tests {\n  fn t() { std::env::var_os(\"Y\"); }\n}\n";
        assert_eq!(findings(check, "crates/leyden/src/lib.rs", text, &[]), [1]);
        assert!(findings(check, "crates/leyden-kernels/src/knobs.rs", text, &[]).is_empty());
        assert!(findings(check, "crates/leyden/tests/run.rs", text, &[]).is_empty());
    }
}
