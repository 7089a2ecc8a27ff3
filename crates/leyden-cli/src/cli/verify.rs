//! `leyden verify`: a verdict on a model against floors of quality and speed, with signed evidence.

mod args;
mod check;
mod data;
mod files;
mod keys;
mod load;
mod load_spec;
mod machine;
mod measure;
mod report;
mod server;

use std::io::{self, Write};
use std::path::PathBuf;

use leyden_verify::{Evidence, FileSet, Signed, Time, Verdict, evidence_path, judge};

pub(crate) use args::Args;
pub(super) use files::of_model;
pub(super) use keys::{signing, trusted};
pub(super) use machine::{machine, program};

use super::eval::Watcher;
use super::failure::Failure;
use super::{inputs, model_file, pages};
use leyden_report::Block;

/// Verifies, or checks evidence.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    if let Some(evidence) = &args.check {
        return check::execute(args, evidence, out);
    }
    let Some(named) = &args.model else {
        return Err(
            Failure::usage("MODEL is missing").hint("leyden verify MODEL --reference R --data D --floor ...")
        );
    };
    if args.floor.is_none() && args.load.is_none() {
        let message = "no condition is given: neither --floor nor --load";
        return Err(Failure::usage(message).hint("such as --floor 'accuracy>=0.95*ref, kld<=0.05'"));
    }
    let data = data::read(args)?;
    let model = model_file::locate(named)?;
    let reference = args.reference.as_deref().map(model_file::locate).transpose()?;
    let evidence = args.evidence.clone().unwrap_or_else(|| evidence_path(&model));
    let outputs: Vec<&PathBuf> = [Some(&evidence), args.report.as_ref()].into_iter().flatten().collect();
    for output in outputs {
        let of_model = inputs::of_model(&model);
        inputs::none_is(output, of_model.iter().chain(args.reference.iter()).map(PathBuf::as_path))?;
        inputs::can_be_written(output)?;
    }
    let key = signing(args.key.as_deref(), args.key_days, args.notes)?;
    let watcher = Watcher::new()?;
    let identities = || {
        let all = [Some(&model), reference.as_ref()].into_iter().flatten();
        all.map(|path| inputs::identity(path)).collect::<Vec<u64>>()
    };
    let before = identities();
    // The files are hashed before they are used, and must be unchanged behind that.
    let model_files = of_model(&model)?;
    let reference_files = reference.as_deref().map(of_model).transpose()?;
    let data_files = data
        .iter()
        .map(|data| FileSet::of(&data.file, std::slice::from_ref(&data.file)))
        .collect::<Result<Vec<_>, _>>()?;
    let measured = measure::all(args, (&model, reference.as_deref()), &data, &watcher)?;
    let mut floors = Vec::new();
    for (floor, name, measured) in &measured {
        floors.push(judge(floor, name, measured, args.seed)?);
    }
    let load = args.load.as_ref().map(|spec| load::run(args, spec, &model, &watcher)).transpose()?;
    if identities() != before {
        return Err(
            Failure::new("the model's files changed while they were measured").hint("run the command again")
        );
    }
    let (format, version) = Evidence::format();
    let document = Evidence {
        format,
        version,
        verdict: Evidence::joint(&floors, load.as_ref()),
        made: Time::now(),
        floors,
        load,
        model: model_files,
        reference: reference_files,
        data: data_files,
        program: program()?,
        settings: args.settings()?,
        machine: machine(),
    };
    let signed = Signed::new(&document, &key)?;
    signed.write(&evidence)?;
    if let Some(path) = &args.report {
        let expires = ("key expires".to_owned(), key.expires().to_string());
        pages::write(path, &serde_json::to_value(&signed)?, |page| {
            let sections = page.sections.iter_mut().filter(|section| section.heading == "Signature");
            sections.for_each(|section| section.blocks.insert(1, Block::Facts(vec![expires.clone()])));
        })?;
    }
    let mut err = io::stderr();
    let out = inputs::report_beside(args.report.as_deref().or(Some(&evidence)), out, &mut err);
    if args.json {
        serde_json::to_writer(&mut *out, &signed)?;
        writeln!(out)?;
    } else {
        report::print(&document, &evidence, &key, out)?;
    }
    out.flush()?;
    match document.verdict {
        Verdict::Pass => Ok(()),
        Verdict::Fail => Err(Failure::new(format!("FAIL: {}", report::causes(&document, Verdict::Fail)))),
        Verdict::Inconclusive => {
            let causes = report::causes(&document, Verdict::Inconclusive);
            Err(Failure::inconclusive(format!("INCONCLUSIVE: {causes}")).hint(report::hint(&document)))
        }
    }
}
