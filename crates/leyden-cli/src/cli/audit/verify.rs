//! `leyden audit verify`.

use std::io::Write;
use std::path::PathBuf;

use leyden_audit::{KeySource, Report, VerifyOptions};

use crate::cli::failure::Failure;

/// Checks that each line of a log continues the one before it, that its checkpoints are signed, and that its head and the
/// given anchors are lines of it. Fails if the log was changed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Folder of the log
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Copy of the log's file `head`, of any age, that was kept elsewhere: shows that the log was not shortened or
    /// written anew since. May be repeated
    #[arg(long, value_name = "FILE")]
    anchor: Vec<PathBuf>,
    /// File with the public key that signed, such as DIR.key.pub, that was kept elsewhere; by default the key in the first
    /// anchor, or else in the log itself
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Checks the log.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let options = VerifyOptions { anchors: args.anchor.clone(), key: args.key.clone() };
    let report = leyden_audit::verify(&args.folder, &options)?;
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)?;
    } else {
        print(&report, out)?;
    }
    out.flush()?;
    match report.problems.len() as u64 + report.problems_left_out {
        0 => Ok(()),
        1 => Err(Failure::new("the audit log is not as it was written: 1 problem")),
        n => Err(Failure::new(format!("the audit log is not as it was written: {n} problems"))),
    }
}

fn print(report: &Report, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "log          {}", report.log)?;
    let from = match report.key_from {
        KeySource::Log => "as the log names it",
        KeySource::Anchor => "as the anchor names it",
        KeySource::File => "as given",
    };
    writeln!(out, "key          {} ({from})", report.key)?;
    if let (Some(first), Some(last)) = (&report.first, &report.last) {
        writeln!(out, "time         {first} to {last}")?;
    }
    writeln!(out, "lines        {} in {} segments", report.records, report.segments)?;
    writeln!(out, "records      {}", report.entries)?;
    writeln!(out, "checkpoints  {}, {} lines after the last one", report.checkpoints, report.unsigned)?;
    for (heading, findings, left_out) in [
        ("warnings", &report.warnings, report.warnings_left_out),
        ("problems", &report.problems, report.problems_left_out),
    ] {
        if !findings.is_empty() {
            writeln!(out, "\n{heading}:")?;
            findings.iter().try_for_each(|finding| writeln!(out, "  {finding}"))?;
        }
        if left_out > 0 {
            writeln!(out, "  and {left_out} more")?;
        }
    }
    if report.problems.is_empty() {
        writeln!(out, "\nunchanged")?;
    }
    Ok(())
}
