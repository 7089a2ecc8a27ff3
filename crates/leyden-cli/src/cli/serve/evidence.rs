//! [`Required`]: evidence without which a model is not served.

use std::path::Path;

use leyden_verify::{
    Evidence, Key, Problem, ProblemKind, Signed, Time, compare_files, compare_machine, compare_program,
    compare_verdict, evidence_path,
};

use super::args::Args;
use super::settings::Settings;
use crate::cli::failure::Failure;
use crate::cli::notes::Notes;
use crate::cli::text::printable;
use crate::cli::verify;

/// Conditions on the evidence of every model.
#[derive(Debug)]
pub(super) struct Required {
    key: Key,
    max_days: Option<u32>,
    exact: bool,
    int8: bool,
    notes: Notes,
}

impl Required {
    /// Reads the key; `None` if no evidence is required.
    pub(super) fn of(args: &Args) -> Result<Option<Required>, Failure> {
        let Some(given) = &args.require_evidence else { return Ok(None) };
        let key = verify::trusted(given.as_deref())?;
        let (exact, int8) = (args.arithmetic.exact, args.arithmetic.int8);
        Ok(Some(Required { key, max_days: args.evidence_days, exact, int8, notes: args.notes }))
    }

    /// Checks signature, verdict, age and settings, without the model's files.
    ///
    /// # Errors
    /// The evidence is missing or does not hold.
    pub(super) fn look(&self, model: &Path, settings: &Settings) -> Result<Evidence, Failure> {
        let (evidence, problems) = match self.open(model) {
            Ok(evidence) => {
                let mut problems = compare_verdict(&evidence, Time::now(), self.max_days);
                problems.extend(self.settings(&evidence, settings));
                (Some(evidence), problems)
            }
            Err(problem) => (None, vec![problem]),
        };
        match evidence.filter(|_| problems.is_empty()) {
            Some(evidence) => Ok(evidence),
            None => Err(refused(model, &problems)),
        }
    }

    /// Checks everything. Another program or processor is a note, unless the evidence is about speed.
    ///
    /// # Errors
    /// The evidence is missing or does not hold.
    pub(super) fn check(&self, model: &Path, settings: &Settings) -> Result<(), Failure> {
        let evidence = self.look(model, settings)?;
        let mut problems = compare_files("model", &evidence.model, &verify::of_model(model)?);
        let program = compare_program(&evidence.program, &verify::program()?);
        let others = program.into_iter().chain(compare_machine(&evidence.machine, &verify::machine()));
        if evidence.load.is_some() {
            problems.extend(others);
        } else {
            others.for_each(|problem| {
                let text = printable(&problem.text, 400);
                self.notes.say(&format!("{}: its evidence is of {text}", model.display()));
            });
        }
        if problems.is_empty() { Ok(()) } else { Err(refused(model, &problems)) }
    }

    fn open(&self, model: &Path) -> Result<Evidence, Problem> {
        let path = evidence_path(model);
        if self.key.is_expired(Time::now()) {
            return Err(Problem::new(
                ProblemKind::Expired,
                format!("the key expired {}", self.key.expires()),
            ));
        }
        if !path.exists() {
            return Err(Problem::new(ProblemKind::Missing, format!("there is no {}", path.display())));
        }
        let signed =
            Signed::read(&path).map_err(|error| Problem::new(ProblemKind::Forged, error.to_string()))?;
        signed.open(&self.key)
    }

    /// Compares the settings that change a model's results.
    fn settings(&self, evidence: &Evidence, settings: &Settings) -> Vec<Problem> {
        let stated = &evidence.settings;
        let mut problems = Vec::new();
        let mut other = |what: &str, found: &str, stated: &str| {
            if found != stated {
                let text = format!("{what} is {found}, and was verified as {stated}");
                problems.push(Problem::new(ProblemKind::Settings, text));
            }
        };
        let flag = |on: bool| if on { "on" } else { "off" };
        other("--kv-type", settings.kv_type.name(), &stated.kv_type);
        other("--exact", flag(self.exact), flag(stated.exact));
        other("--int8", flag(self.int8), flag(stated.int8));
        if !settings.lora.is_empty() {
            let text = "an adapter makes another model of it";
            problems.push(Problem::new(ProblemKind::Settings, text));
        }
        problems
    }
}

fn refused(model: &Path, problems: &[Problem]) -> Failure {
    let texts: Vec<String> = problems.iter().map(|problem| printable(&problem.text, 400)).collect();
    let model = model.display();
    Failure::new(format!(
        "{model}: not served, as --require-evidence asks for evidence: {}",
        texts.join("; ")
    ))
    .hint(format!(
        "leyden verify {model} --reference R --data D --floor 'accuracy>=0.95*ref' makes it (docs/verify.md)"
    ))
}
