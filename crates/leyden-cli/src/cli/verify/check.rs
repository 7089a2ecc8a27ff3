//! `leyden verify --check`: evidence against the files, the program and the processor that are here.

use std::io::Write;
use std::path::{Path, PathBuf};

use leyden_verify::{
    Evidence, FileSet, Problem, ProblemKind, Signed, Time, compare_files, compare_machine, compare_program,
    compare_verdict,
};
use serde_json::json;

use super::args::Args;
use super::{machine, of_model, program, trusted};
use crate::cli::failure::Failure;
use crate::cli::model_file;
use crate::cli::text::{Facts, plural, printable};

/// Checks and prints.
pub(super) fn execute(args: &Args, path: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let key = trusted(args.key.as_deref())?;
    let signed = Signed::read(path)?;
    let now = Time::now();
    let mut found = Found::default();
    if key.is_expired(now) {
        found
            .problem("key", Problem::new(ProblemKind::Expired, format!("the key expired {}", key.expires())));
    } else {
        found.facts.add("key", format!("{}, expires {}", &key.id()[..16], key.expires()));
    }
    let opened = signed.open(&key);
    match &opened {
        // Nothing in a forged document says anything.
        Err(problem) => found.problem("signature", problem.clone()),
        Ok(evidence) => {
            found.facts.add("signature", "holds");
            compare(args, evidence, &mut found)?;
            let problems = compare_verdict(evidence, now, None);
            let made = format!("{}, made {}", evidence.verdict.word(), evidence.made);
            found.part("verdict", problems, &made);
        }
    }
    if args.json {
        let problems: Vec<_> = found
            .problems
            .iter()
            .map(|problem| json!({ "kind": problem.kind.name(), "message": problem.text }))
            .collect();
        let document = json!({
            "holds": found.problems.is_empty(),
            "problems": problems,
            "not_checked": found.absent,
            "evidence": opened.as_ref().ok(),
        });
        serde_json::to_writer(&mut *out, &document)?;
        writeln!(out)?;
    } else {
        found.facts.write(out)?;
    }
    out.flush()?;
    verdict(&found.problems)
}

/// Result of a check.
#[derive(Default)]
struct Found {
    facts: Facts,
    problems: Vec<Problem>,
    /// Files that are not here.
    absent: Vec<String>,
}

impl Found {
    fn problem(&mut self, part: &str, problem: Problem) {
        self.facts.add(part, printable(&problem.text, 400));
        self.problems.push(problem);
    }

    /// Notes the problems of a part, or `good` if there are none.
    fn part(&mut self, part: &str, problems: Vec<Problem>, good: &str) {
        if problems.is_empty() {
            self.facts.add(part, good);
        }
        problems.into_iter().for_each(|problem| self.problem(part, problem));
    }
}

fn compare(args: &Args, evidence: &Evidence, found: &mut Found) -> Result<(), Failure> {
    let stated = Path::new(&evidence.model.path);
    let model: PathBuf = match &args.checked {
        Some(named) => model_file::locate(named)?,
        None if stated.exists() => stated.to_owned(),
        None => {
            let text = format!("{}: not here; name the model with --model", evidence.model.path);
            found.problem("model", Problem::new(ProblemKind::Missing, text));
            PathBuf::new()
        }
    };
    if !model.as_os_str().is_empty() {
        let files = of_model(&model)?;
        let good = format!("{}: {} as verified", model.display(), plural(files.files.len(), "file"));
        found.part("model", compare_files("model", &evidence.model, &files), &good);
    }
    let others = evidence.reference.iter().map(|set| ("reference", set));
    for (part, set) in others.chain(evidence.data.iter().map(|set| ("data", set))) {
        let path = Path::new(&set.path);
        if !path.exists() {
            found.facts.add(part, format!("{}: not here, so not compared", printable(&set.path, 200)));
            found.absent.push(set.path.clone());
            continue;
        }
        let files = match part {
            "reference" => of_model(path)?,
            _ => FileSet::of(path, std::slice::from_ref(&path.to_owned()))?,
        };
        found.part(part, compare_files(part, set, &files), &format!("{}: as verified", path.display()));
    }
    let own = program()?;
    let good = format!("leyden {}, this one", own.version);
    found.part("program", compare_program(&evidence.program, &own).into_iter().collect(), &good);
    let here = machine();
    let good = format!("{}, this one", here.processor);
    found.part("processor", compare_machine(&evidence.machine, &here).into_iter().collect(), &good);
    Ok(())
}

fn verdict(problems: &[Problem]) -> Result<(), Failure> {
    let Some(first) = problems.first() else { return Ok(()) };
    if problems.iter().all(|problem| problem.kind == ProblemKind::Inconclusive) {
        return Err(Failure::inconclusive("the evidence is genuine, and its verdict is INCONCLUSIVE"));
    }
    let more = match problems.len() {
        1 => String::new(),
        n => format!(" (and {})", plural(n - 1, "other problem")),
    };
    Err(Failure::new(format!("the evidence does not hold: {}{more}", printable(&first.text, 400))))
}
