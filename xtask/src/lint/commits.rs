//! Commits: the form and length of their first lines, and their sizes.

use super::Finding;
use crate::command::output;
use std::path::Path;

/// Maximum number of characters of a first line.
const MAX_SUBJECT: usize = 72;
/// Number of changed lines above which a remark is made.
const MANY_LINES: usize = 400;
/// Parts of paths whose changed lines are not counted: tests, goldens and generated files.
const UNCOUNTED: [&str; 10] = [
    "/tests/",
    "/tests.rs",
    "/golden/",
    "/fixtures/",
    "/traces/",
    "/server/web/",
    "Cargo.lock",
    "package-lock.json",
    "bench/results/",
    ".svg",
];

/// A commit, and the number of lines that it changes.
#[derive(Debug, PartialEq, Eq)]
struct Commit {
    id: String,
    subject: String,
    lines: usize,
}

/// Checks the commits after `since`; without it those after `origin/main`, which are not published yet, if there is such
/// a branch. Returns the findings, each with the name of its commit.
///
/// # Errors
/// `since` is no commit.
pub(super) fn check(root: &Path, since: Option<&str>) -> Result<Vec<(String, Finding)>, String> {
    let base = since.unwrap_or("origin/main");
    let range = format!("{base}..HEAD");
    let log = ["log", "--no-merges", "--numstat", "--format=commit %h %s", &range];
    match (output(root, "git", &log), since) {
        (Ok(text), _) => Ok(commits(&text).iter().flat_map(findings).collect()),
        (Err(_), None) => Ok(Vec::new()),
        (Err(error), Some(_)) => Err(error),
    }
}

/// Parses the output of `git log --numstat --format='commit %h %s'`.
fn commits(text: &str) -> Vec<Commit> {
    let mut all: Vec<Commit> = Vec::new();
    for line in text.lines() {
        if let Some((id, subject)) = line.strip_prefix("commit ").and_then(|rest| rest.split_once(' ')) {
            all.push(Commit { id: id.to_owned(), subject: subject.to_owned(), lines: 0 });
        } else if let Some(commit) = all.last_mut() {
            commit.lines += changed_lines(line);
        }
    }
    all
}

/// Returns the counted lines of a line `ADDED REMOVED PATH` of the log; files of bytes have dashes for numbers.
fn changed_lines(line: &str) -> usize {
    let mut parts = line.splitn(3, '\t');
    let (Some(added), Some(removed), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
        return 0;
    };
    if UNCOUNTED.iter().any(|part| path.contains(part)) {
        return 0;
    }
    added.parse::<usize>().unwrap_or(0) + removed.parse::<usize>().unwrap_or(0)
}

fn findings(commit: &Commit) -> Vec<(String, Finding)> {
    let Commit { id, subject, lines } = commit;
    let mut found = Vec::new();
    let length = subject.chars().count();
    if length > MAX_SUBJECT {
        let message = format!("the first line has {length} characters, more than {MAX_SUBJECT}: {subject}");
        found.push(Finding::at(0, message));
    }
    let area = subject.split_once(": ").map_or("", |(area, _)| area);
    let is_area = !area.is_empty() && area.chars().all(|c| c.is_ascii_alphanumeric() || "-_./, ".contains(c));
    if !is_area && !subject.starts_with("Revert \"") {
        found.push(Finding::at(0, format!("the first line is not `area: summary`: {subject}")));
    }
    if *lines > MANY_LINES {
        let message =
            format!("{lines} changed lines outside tests, more than {MANY_LINES}: is it one change?");
        found.push(Finding { remark: true, ..Finding::at(0, message) });
    }
    found.into_iter().map(|finding| (format!("commit {id}"), finding)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fires_for_long_and_shapeless_first_lines() {
        let broken = |subject: &str| {
            let commit = Commit { id: "a".to_owned(), subject: subject.to_owned(), lines: 0 };
            findings(&commit).len()
        };
        assert_eq!(broken("server: refuse bodies without a model"), 0);
        assert_eq!(broken("models, kernels: rows own their indices"), 0);
        assert_eq!(broken("Revert \"server: refuse bodies\""), 0);
        assert_eq!(broken("refuse bodies without a model"), 1);
        assert_eq!(broken(&format!("server: {}", "x".repeat(64))), 0);
        assert_eq!(broken(&format!("server: {}", "é".repeat(64))), 0);
        assert_eq!(broken(&format!("server: {}", "x".repeat(65))), 1);
        assert_eq!(broken(&"x".repeat(73)), 2);
    }

    #[test]
    fn counts_lines_outside_tests_and_goldens() {
        let log = "commit abc server: do it\n\n300\t100\tcrates/a/src/b.rs\n9\t9\tcrates/a/tests/b.rs\n-\t-\ta.png\n\
                   commit def docs: do it\n\n1\t0\tREADME.md\n700\t0\tCargo.lock\n";
        let all = commits(log);
        assert_eq!(
            all.iter().map(|c| (c.id.as_str(), c.lines)).collect::<Vec<_>>(),
            [("abc", 400), ("def", 1)]
        );
        assert!(all.iter().all(|commit| findings(commit).is_empty()));
        let large = Commit { lines: 401, ..commits(log).remove(0) };
        assert!(findings(&large)[0].1.remark);
    }
}
