//! The record of the last nightly run: its shape, and its age on the day of the last commit.

use super::Finding;
use crate::command::output;
use crate::nightly::Outcome;
use std::fs;
use std::path::Path;

/// Path of the record.
pub(super) const PATH: &str = ".ci/nightly.json";
/// Ages in days above which the record is remarked on, and above which the rule is broken.
const OLD: i64 = 30;
const TOO_OLD: i64 = 90;

/// Checks the record of a repository that has a nightly script.
pub(super) fn check(root: &Path) -> Vec<Finding> {
    if !root.join(".ci/nightly").exists() {
        return Vec::new();
    }
    let Ok(text) = fs::read_to_string(root.join(PATH)) else {
        return vec![Finding::at(0, "is missing: commit the record of a `cargo xtask nightly`")];
    };
    // A folder without git has no day of the last commit.
    findings(&text, output(root, "git", &["log", "-1", "--format=%cs"]).ok().as_deref())
}

/// Returns the findings about a record; `today` is the day of the last commit.
fn findings(text: &str, today: Option<&str>) -> Vec<Finding> {
    let record: Outcome = match serde_json::from_str(text) {
        Ok(record) => record,
        Err(error) => return vec![Finding::at(error.line(), format!("is not the record of a run: {error}"))],
    };
    let mut found = Vec::new();
    if record.commit.len() != 40 || !record.commit.chars().all(|c| c.is_ascii_hexdigit()) {
        found.push(Finding::at(0, format!("`commit`: {} is no commit", record.commit)));
    }
    if record.summary.is_empty() {
        found.push(Finding::at(0, "`summary`: no step was run"));
    }
    let Some(date) = days(&record.date) else {
        found.push(Finding::at(0, format!("`date`: {} is no day", record.date)));
        return found;
    };
    let age = today.and_then(days).map_or(0, |today| today - date);
    if age > OLD {
        let message = format!("is {age} days old: run `cargo xtask nightly`");
        found.push(Finding { remark: age <= TOO_OLD, ..Finding::at(0, message) });
    }
    found
}

/// Returns the number of a day such as `2026-11-28`, counted from a fixed one.
fn days(date: &str) -> Option<i64> {
    let parts: Vec<i64> = date.split('-').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [year, month @ 1..=12, day @ 1..=31] = parts[..] else { return None };
    // The year begins in March, so that a leap day is its last.
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    Some(365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = r#"{"date": "2026-11-01", "commit": "0123456789abcdef0123456789abcdef01234567", "passed": true,
        "complete": false, "summary": ["counts ok 3 s"]}"#;

    #[test]
    fn fires_for_old_and_shapeless_records() {
        let kinds = |text: &str, today| -> Vec<bool> {
            findings(text, today).iter().map(|finding| finding.remark).collect()
        };
        assert!(kinds(RECORD, Some("2026-11-28")).is_empty() && kinds(RECORD, None).is_empty());
        assert_eq!(kinds(RECORD, Some("2026-12-31")), [true]);
        assert_eq!(kinds(RECORD, Some("2027-02-28")), [false]);
        assert_eq!(kinds("{}", None), [false]);
        assert_eq!(kinds(&RECORD.replace("2026-11-01", "soon"), None), [false]);
        assert_eq!(kinds(&RECORD.replace("0123", "main"), None), [false]);
        assert_eq!(kinds(&RECORD.replace(r#""counts ok 3 s""#, ""), None), [false]);
    }

    #[test]
    fn fires_where_the_record_is_missing() {
        let root = std::env::temp_dir().join(format!("xtask-record-{}", std::process::id()));
        fs::create_dir_all(root.join(".ci")).unwrap();
        assert!(check(&root).is_empty(), "no nightly script");
        fs::write(root.join(".ci/nightly"), "").unwrap();
        let kinds = |root: &Path| check(root).iter().map(|finding| finding.remark).collect::<Vec<_>>();
        assert_eq!(kinds(&root), [false]);
        fs::write(root.join(PATH), RECORD).unwrap();
        assert!(kinds(&root).is_empty());
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn days_are_counted_across_months_and_years() {
        let between = |a: &str, b: &str| days(b).unwrap() - days(a).unwrap();
        assert_eq!(between("2026-11-28", "2026-12-01"), 3);
        assert_eq!(between("2027-12-31", "2028-03-01"), 61);
        assert_eq!(between("2026-01-01", "2027-01-01"), 365);
        assert!(days("2026-13-01").is_none() && days("today").is_none());
    }
}
