//! [`Problem`]: reasons why evidence does not hold here and now.

use crate::date::{Time, days};
use crate::document::{Evidence, Machine, Program};
use crate::files::FileSet;
use crate::verdict::Verdict;

/// Kind of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// There is no evidence.
    Missing,
    /// The signature is not that of the key and the document.
    Forged,
    /// The key has expired.
    Expired,
    /// The verdict is FAIL.
    Failed,
    /// The verdict is INCONCLUSIVE.
    Inconclusive,
    /// The evidence is too old.
    Stale,
    /// A file is another one.
    Files,
    /// The program is another one.
    Program,
    /// The processor is another one.
    Processor,
    /// A setting is another one.
    Settings,
}

impl ProblemKind {
    /// Returns the name used in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ProblemKind::Missing => "missing",
            ProblemKind::Forged => "forged",
            ProblemKind::Expired => "expired",
            ProblemKind::Failed => "failed",
            ProblemKind::Inconclusive => "inconclusive",
            ProblemKind::Stale => "stale",
            ProblemKind::Files => "files",
            ProblemKind::Program => "program",
            ProblemKind::Processor => "processor",
            ProblemKind::Settings => "settings",
        }
    }
}

/// A reason why evidence does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Kind.
    pub kind: ProblemKind,
    /// Description.
    pub text: String,
}

impl Problem {
    /// Returns a problem.
    #[must_use]
    pub fn new(kind: ProblemKind, text: impl Into<String>) -> Problem {
        Problem { kind, text: text.into() }
    }
}

/// Compares the files that evidence is about with those found now; `what` names them in descriptions.
#[must_use]
pub fn compare_files(what: &str, stated: &FileSet, found: &FileSet) -> Vec<Problem> {
    let problem = |text: String| Problem::new(ProblemKind::Files, text);
    // A single file may have been renamed.
    if let ([stated], [found]) = (&stated.files[..], &found.files[..]) {
        let is_same = stated.sha256 == found.sha256;
        let text = format!(
            "{what}: {} is not the verified file: sha256 {}, not {}",
            found.name, found.sha256, stated.sha256
        );
        return if is_same { Vec::new() } else { vec![problem(text)] };
    }
    let mut problems = Vec::new();
    for file in &stated.files {
        match found.files.iter().find(|other| other.name == file.name) {
            None => problems.push(problem(format!("{what}: {} is missing", file.name))),
            Some(other) if other.sha256 != file.sha256 => {
                let (name, found, stated) = (&file.name, &other.sha256, &file.sha256);
                problems.push(problem(format!("{what}: {name} was changed: sha256 {found}, not {stated}")));
            }
            Some(_) => {}
        }
    }
    let is_new = |name: &str| stated.files.iter().all(|file| file.name != name);
    problems.extend(
        found.files.iter().filter(|file| is_new(&file.name)).map(|file| {
            problem(format!("{what}: {} is new, and was no part of the verified files", file.name))
        }),
    );
    problems
}

/// Compares the program that made evidence with another one.
#[must_use]
pub fn compare_program(stated: &Program, found: &Program) -> Option<Problem> {
    let text = || {
        let (a, b) = (&found.version, &stated.version);
        format!("another program: version {a} with sha256 {}, not {b} with {}", found.sha256, stated.sha256)
    };
    (stated.sha256 != found.sha256).then(|| Problem::new(ProblemKind::Program, text()))
}

/// Compares the machine on which evidence was made with another one: processor and number of cores.
#[must_use]
pub fn compare_machine(stated: &Machine, found: &Machine) -> Option<Problem> {
    let is = |m: &Machine| (m.arch.clone(), m.processor.clone(), m.vendor.clone(), m.model.clone(), m.cores);
    let named = |m: &Machine| {
        let model = m.model.as_deref().map(|model| format!(", model {model}")).unwrap_or_default();
        format!("{}{model}, {} with {} cores", m.processor, m.arch, m.cores)
    };
    let text = || format!("another processor: {}, not {}", named(found), named(stated));
    (is(stated) != is(found)).then(|| Problem::new(ProblemKind::Processor, text()))
}

/// Returns the problems of the verdict and its age.
#[must_use]
pub fn compare_verdict(evidence: &Evidence, now: Time, max_days: Option<u32>) -> Vec<Problem> {
    let mut problems = Vec::new();
    match evidence.verdict {
        Verdict::Pass => {}
        Verdict::Fail => problems.push(Problem::new(ProblemKind::Failed, "the verdict is FAIL")),
        Verdict::Inconclusive => {
            problems.push(Problem::new(ProblemKind::Inconclusive, "the verdict is INCONCLUSIVE"));
        }
    }
    if let Some(max_days) = max_days.filter(|max| evidence.made.plus(days(*max)) < now) {
        let text = format!("made {}, more than {max_days} days ago", evidence.made);
        problems.push(Problem::new(ProblemKind::Stale, text));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::FileHash;
    use crate::signed::tests::{NOW, evidence};

    fn set(files: &[(&str, &str)]) -> FileSet {
        let file = |(name, sha256): &(&str, &str)| FileHash {
            name: (*name).to_owned(),
            bytes: 1,
            sha256: (*sha256).to_owned(),
        };
        FileSet { path: String::new(), files: files.iter().map(file).collect() }
    }

    #[test]
    fn other_files_are_named() {
        let stated = set(&[("a", "1"), ("b", "2"), ("c", "3")]);
        assert!(compare_files("model", &stated, &stated).is_empty());
        let found = compare_files("model", &stated, &set(&[("a", "1"), ("b", "9"), ("d", "4")]));
        let texts: Vec<&str> = found.iter().map(|problem| &problem.text[..]).collect();
        let wanted = [
            "model: b was changed: sha256 9, not 2",
            "model: c is missing",
            "model: d is new, and was no part of the verified files",
        ];
        assert_eq!(texts, wanted);
        assert!(compare_files("model", &set(&[("a", "1")]), &set(&[("renamed", "1")])).is_empty());
        assert_eq!(compare_files("model", &set(&[("a", "1")]), &set(&[("a", "2")])).len(), 1);
    }

    #[test]
    fn other_machines_programs_and_old_evidence_are_named() {
        let evidence = evidence();
        let (mut machine, mut program) = (evidence.machine.clone(), evidence.program.clone());
        assert_eq!(compare_machine(&evidence.machine, &machine), None);
        machine.os = "another release".to_owned();
        assert_eq!(compare_machine(&evidence.machine, &machine), None);
        machine.model = Some("6/2".to_owned());
        let told = compare_machine(&evidence.machine, &machine).unwrap();
        assert!(told.text.contains("model 6/2, x86_64 with 2 cores, not <Processor>, model 6/1"), "{told:?}");
        assert_eq!(compare_program(&evidence.program, &program), None);
        program.sha256 = "c".repeat(64);
        assert_eq!(compare_program(&evidence.program, &program).unwrap().kind, ProblemKind::Program);
        assert!(compare_verdict(&evidence, NOW.plus(days(400)), None).is_empty());
        assert!(compare_verdict(&evidence, NOW.plus(days(7)), Some(7)).is_empty());
        let stale = compare_verdict(&evidence, NOW.plus(days(7) + 1), Some(7));
        assert_eq!(stale[0].kind, ProblemKind::Stale);
        let failed = Evidence { verdict: Verdict::Fail, ..evidence };
        assert_eq!(compare_verdict(&failed, NOW, None)[0].kind, ProblemKind::Failed);
    }
}
