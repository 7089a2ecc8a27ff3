//! Files are short enough to be read in one sitting.

use super::source::Source;
use super::{Facts, Finding};

/// Limits for paths that begin with `place`.
struct Limit {
    place: &'static str,
    /// Number of lines above which a remark is made.
    soft: usize,
    /// Number of lines above which the rule is broken.
    hard: usize,
    /// True if lines of tests count.
    tests: bool,
}

/// Limits; the first match applies.
const LIMITS: &[Limit] = &[
    Limit { place: "ARCHITECTURE.md", soft: 200, hard: 200, tests: true },
    Limit { place: "crates/leyden/examples/", soft: 40, hard: 40, tests: true },
    Limit { place: "crates/leyden-models/src/arch/", soft: 150, hard: 200, tests: false },
    Limit { place: "crates/leyden-kernels/", soft: 400, hard: 600, tests: false },
    Limit { place: "", soft: 400, hard: 800, tests: false },
];

pub(super) fn check(source: &Source, _: &Facts) -> Vec<Finding> {
    let Some(limit) = LIMITS.iter().find(|limit| source.path.starts_with(limit.place)) else {
        return Vec::new();
    };
    let n = if limit.tests { source.len() } else { source.len_without_tests() };
    if n <= limit.soft {
        return Vec::new();
    }
    let (remark, bound) = if n > limit.hard { (false, limit.hard) } else { (true, limit.soft) };
    let what = if limit.tests { "lines" } else { "lines outside tests" };
    vec![Finding { line: 0, message: format!("{n} {what}, more than {bound}"), remark }]
}

#[cfg(test)]
mod tests {
    use super::super::tests::findings;
    use super::*;

    #[test]
    fn fires_above_the_limit_without_tests() {
        let long = "fn f() {}\n".repeat(801);
        assert_eq!(findings(check, "crates/x/src/lib.rs", &long, &[]), [0]);
        assert!(findings(check, "crates/x/src/lib.rs", &"fn f() {}\n".repeat(800), &[]).is_empty());
        let tested = format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
        assert!(findings(check, "crates/x/src/lib.rs", &tested, &[]).is_empty());
        assert_eq!(findings(check, "crates/leyden/examples/a.rs", &"x\n".repeat(41), &[]), [0]);
        assert_eq!(findings(check, "ARCHITECTURE.md", &"x\n".repeat(201), &[]), [0]);
    }

    #[test]
    fn remarks_between_the_limits() {
        let source = Source::new("crates/x/src/lib.rs".to_owned(), &"fn f() {}\n".repeat(500));
        assert!(check(&source, &Facts::default())[0].remark);
    }
}
