//! `leyden load`: load tests of servers with OpenAI's API.

mod args;
mod compare;
mod find;
mod progress;
mod report;
mod settings;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leyden_load::{Control, Summary, Verdict};

pub(crate) use args::Args;
pub(super) use settings::key_file;

use super::connections;
use super::failure::{self, Failure};
use super::{inputs, signals};
use args::Goal;
use progress::Bar;

/// Runs the load and prints the report.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let mut err = io::stderr();
    let out = inputs::report_beside(args.report.as_deref(), out, &mut err);
    let goal = goal(args)?;
    let workload = settings::workload(args, goal)?;
    workload.check()?;
    args.report.as_deref().map_or(Ok(()), inputs::can_be_written)?;
    let control = Arc::new(Control::default());
    on_interrupt(Arc::clone(&control))?;
    connections::raise_open_files();
    let target = settings::target(args, &args.url, false, &control)?;
    match goal {
        Goal::Find => return find::execute(args, &target, &workload, &control, out),
        Goal::Compare => return compare::execute(args, &target, &workload, &control, out),
        Goal::Measure => {}
    }
    let bar = Bar::new(&workload);
    let (run, generator) = progress::measured(&target, &workload, &control, &bar, "")?;
    bar.finish();
    let summary = Summary::new(&run, args.slo.as_ref());
    let report = report::Report { args, target: &target, workload: &workload, search: false };
    let parts = [("summary", report::value(&summary)?), ("generator", generator.json())];
    let document = report.document("run", &parts)?;
    report.page(&document, &run)?;
    if args.json {
        report::print(&document, out)?;
    } else {
        report.head(out)?;
        report::figures(out, &summary, Some(&generator))?;
    }
    report::warn(&summary);
    out.flush()?;
    verdict(&summary)
}

/// Returns the purpose of the load.
fn goal(args: &Args) -> Result<Goal, Failure> {
    // clap drops `requires` if the required option conflicts with a given one, so these options are checked here.
    if args.trace.is_none() && (args.scale != 1.0 || args.length_scale != 1.0) {
        return Err(Failure::usage("--scale and --length-scale need --trace"));
    }
    let arrivals = args.users.is_some() || args.rate.is_some() || args.trace.is_some();
    match (args.compare.is_some(), args.find_users, arrivals) {
        (true, _, true) => Ok(Goal::Compare),
        (false, true, _) => Ok(Goal::Find),
        (false, false, false) if args.slo.is_some() && args.requests.is_none() => Ok(Goal::Find),
        (false, false, true) => Ok(Goal::Measure),
        _ => Err(Failure::usage("no users or arrivals given")
            .hint("use --users N, --rate R or --trace FILE, or --slo alone to find the maximum of users")),
    }
}

/// Returns the failure that follows from the figures of a run, if any.
fn verdict(summary: &Summary) -> Result<(), Failure> {
    if summary.interrupted {
        return Err(Failure::interrupted());
    }
    if summary.requests.measured == 0 {
        return Err(Failure::inconclusive("no request was due in the measured time"));
    }
    if let Some(slo) = &summary.slo {
        let of = |verdict| {
            let limits = slo.limits.iter().filter(|outcome| outcome.verdict == verdict);
            limits.map(|outcome| outcome.limit.as_str()).collect::<Vec<_>>().join(", ")
        };
        match slo.verdict {
            Verdict::Fail => return Err(Failure::new(format!("the SLO was missed: {}", of(Verdict::Fail)))),
            Verdict::Unsure if summary.requests.failed == 0 => {
                let why = format!("too few samples for a verdict on {}", of(Verdict::Unsure));
                return Err(Failure::inconclusive(why).hint("run longer, or use a lower percentile"));
            }
            _ => {}
        }
    }
    if summary.requests.failed > 0 {
        let (failed, all) = (summary.requests.failed, summary.requests.measured);
        return Err(Failure::new(format!("{failed} of {all} requests failed")));
    }
    Ok(())
}

/// Makes Ctrl-C end the load with a report of the measurements, and a second Ctrl-C end the program at once.
fn on_interrupt(control: Arc<Control>) -> Result<(), Failure> {
    let interrupted = AtomicBool::new(false);
    ctrlc::set_handler(move || {
        if interrupted.swap(true, Ordering::SeqCst) {
            signals::exit(failure::INTERRUPTED);
        }
        control.stop();
    })
    .map_err(|error| Failure::new(format!("cannot handle Ctrl-C: {error}")))
}
