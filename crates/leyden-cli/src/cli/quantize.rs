//! `leyden quantize`: quantisation of models.

mod args;
mod mix;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use leyden_compress::{Imatrix, Options, Plan, Report, Target, TensorReport, quantize};
use leyden_files::TemporaryFolder;
use leyden_tensor::Gguf;
use serde_json::json;

use super::failure::Failure;
use super::interrupt::Interrupt;
use super::progress::Progress;
use super::text::{bytes, plural};
use super::{convert, inputs, model_file, terminal};

pub(crate) use args::Args;

/// Quantises the model, or prints the plan.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let mut err = io::stderr();
    let out = inputs::report_beside(args.out.as_deref().filter(|_| !args.dry_run), out, &mut err);
    let mixed = args.target_bpw.is_some() || args.target_size.is_some();
    if mixed && args.calibration.is_none() {
        let option = if args.target_bpw.is_some() { "--target-bpw" } else { "--target-size" };
        return Err(Failure::usage(format!("{option} needs --calibration FILE"))
            .hint("the types are chosen by the loss on this text; an --imatrix is optional"));
    }
    // Preliminary types, until `fit` chooses the types for the size.
    let target = args.target.or(Target::from_name("F16").filter(|_| mixed));
    // With --dry-run, the second argument may be the type.
    let second = || Target::from_name(args.out.as_deref().filter(|_| args.dry_run)?.to_str()?);
    let Some(target) = target.or_else(second) else {
        return Err(
            Failure::usage("TYPE is missing").hint("example: leyden quantize model.gguf --dry-run Q4_K_M")
        );
    };
    let path = model_file::locate(&args.model)?;
    if let Some(to) = args.out.as_deref().filter(|_| !args.dry_run) {
        inputs::can_be_written(to)?;
        let files = inputs::of_model(&path);
        let others = [&args.imatrix, &args.calibration].into_iter().filter_map(Option::as_deref);
        inputs::none_is(to, files.iter().map(PathBuf::as_path).chain(others))?;
    }
    let stop = Interrupt::install()?;
    // A folder is converted to a temporary GGUF file first, which is removed with this value.
    let converted = match path.is_dir() {
        true => Some(converted(args, &path, &stop)?),
        false => None,
    };
    let source = Gguf::open(converted.as_ref().map_or(&path, |(_, file)| file))?;
    let imatrix = args.imatrix.as_deref().map(Imatrix::open).transpose()?;
    let mut options = Options::new(target);
    options.imatrix = imatrix.as_ref();
    options.overrides.clone_from(&args.overrides);
    (options.pure, options.requantize, options.threads) = (args.pure, args.allow_requantize, args.threads);
    let mut plan = Plan::new(&source, &options)?;
    if mixed {
        options.target = mix::fit(args, &path, &source, &options, &mut plan, &stop)?;
    }
    let to = match &args.out {
        Some(to) if !args.dry_run => to,
        _ => return show(args, &plan, out),
    };
    let bar = Progress::new("{msg} {wide_bar} {percent} % {eta} left");
    let start = Instant::now();
    let result = quantize(&source, &plan, &options, to, &mut |progress| {
        bar.message(progress.tensor);
        bar.step(progress.done, progress.all, &stop)
    });
    drop(bar);
    let report = result?;
    print_report(args, &report, to, start.elapsed().as_secs_f64(), out)
}

/// Converts a folder to a GGUF file in a temporary folder beside the output, on the same disk.
fn converted(args: &Args, path: &Path, stop: &Interrupt) -> Result<(TemporaryFolder, PathBuf), Failure> {
    let folder = args.temporary_folder()?;
    let file = folder.path().join("model.gguf");
    convert::folder(path, &file, None, stop)?;
    Ok((folder, file))
}

/// Prints a plan.
fn show(args: &Args, plan: &Plan, out: &mut dyn Write) -> Result<(), Failure> {
    if args.json {
        let tensors: Vec<_> = plan
            .tensors
            .iter()
            .map(|t| json!({ "name": t.name, "shape": t.shape, "from": t.from.name(), "to": t.to.name(), "bytes": t.bytes }))
            .collect();
        let document =
            json!({ "tensors": tensors, "bytes": plan.bytes(), "bits_per_weight": plan.bits_per_weight() });
        serde_json::to_writer(&mut *out, &document)?;
        writeln!(out)?;
        return Ok(());
    }
    for t in &plan.tensors {
        let note = if t.fallback {
            "  (fallback: the row length is not a multiple of the type's block)"
        } else {
            ""
        };
        writeln!(out, "{:<40} {:>5} -> {}{note}", t.name, t.from.name(), t.to.name())?;
    }
    writeln!(out, "{}, {:.2} bits per weight", bytes(plan.bytes() as u64), plan.bits_per_weight())?;
    Ok(())
}

/// Prints the report.
fn print_report(
    args: &Args,
    report: &Report,
    to: &Path,
    seconds: f64,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    // Float types have no grid.
    let on_grid = |t: &&TensorReport| t.exact > 0.5 && t.choice.to.block_len() > 1;
    let exact: Vec<_> = report.tensors.iter().filter(on_grid).collect();
    let fallback = report.tensors.iter().filter(|t| t.choice.fallback).count();
    let unweighted = report.tensors.iter().filter(|t| !t.importance).count();
    if args.json {
        let tensors: Vec<_> = report
            .tensors
            .iter()
            .map(|t| {
                json!({
                    "name": t.choice.name,
                    "from": t.choice.from.name(),
                    "to": t.choice.to.name(),
                    "bytes": t.choice.bytes,
                    "relative_error": t.relative_error,
                    "exact_blocks": t.exact,
                    "importance": t.importance,
                    "fallback": t.choice.fallback,
                })
            })
            .collect();
        let document = json!({
            "path": to.display().to_string(),
            "type": args.target.map_or("mix", |t| t.name()),
            "bytes_before": report.bytes.0,
            "bytes": report.bytes.1,
            "bits_per_weight": report.bits_per_weight(),
            "seconds": seconds,
            "tensors": tensors,
        });
        serde_json::to_writer(&mut *out, &document)?;
        writeln!(out)?;
        return Ok(());
    }
    let (before, after) = report.bytes;
    writeln!(
        out,
        "{}: {} from {}, {:.2} bits per weight, {seconds:.1} s",
        to.display(),
        bytes(after as u64),
        bytes(before as u64),
        report.bits_per_weight()
    )?;
    if fallback > 0 {
        let of_all = plural(report.tensors.len(), "tensor");
        let mut types: Vec<(&str, usize)> = Vec::new();
        for t in report.tensors.iter().filter(|t| t.choice.fallback) {
            match types.iter_mut().find(|(name, _)| *name == t.choice.to.name()) {
                Some((_, n)) => *n += 1,
                None => types.push((t.choice.to.name(), 1)),
            }
        }
        let types: Vec<String> = types.iter().map(|(name, n)| format!("{n} {name}")).collect();
        let line = format!(
            "{fallback} of {of_all} use a fallback type, because their row length is not a multiple of the requested type's block \
             (256 values in K-quants): {}",
            types.join(", ")
        );
        writeln!(out, "{}", terminal::folded(&line, terminal::columns_of_output(), 0))?;
    }
    if args.imatrix.is_some() && unweighted > 0 {
        writeln!(out, "without importances in the --imatrix file: {}", plural(unweighted, "tensor"))?;
    }
    if !exact.is_empty() {
        let share = exact.iter().map(|t| t.exact).sum::<f64>() / exact.len() as f64;
        let n = exact.len();
        writeln!(
            out,
            "trained for this type (QAT): {}, {:.1} % of their blocks are exact",
            plural(n, "tensor"),
            100.0 * share
        )?;
    }
    Ok(())
}
