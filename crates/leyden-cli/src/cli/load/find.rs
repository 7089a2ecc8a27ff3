//! Search for the maximum of users within an SLO.

use std::io::Write;

use leyden_load::{Arrivals, Control, Run, Search, Summary, Target, Verdict, Workload};
use serde_json::{Value, json};

use super::args::Args;
use super::progress::{self, Bar};
use super::report::{self, Report, rate, seconds};
use crate::cli::failure::Failure;
use crate::cli::text::{Table, plural};

/// Step of the search: number of users, figures, verdict.
type Step = (u32, Summary, Verdict);

/// Searches, and prints every step and the result.
pub(super) fn execute(
    args: &Args,
    target: &Target,
    workload: &Workload,
    control: &Control,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (mut search, mut steps) = (Search::new(args.max_users), Vec::<Step>::new());
    let mut best: Option<Run> = None;
    let bar = Bar::new(workload);
    while let Some(users) = search.next() {
        let step = with_users(workload, users, steps.len() as u64);
        bar.again();
        let (run, _) = progress::measured(
            target,
            &step,
            control,
            &bar,
            &format!("{}: ", plural(users as usize, "user")),
        )?;
        let summary = Summary::new(&run, args.slo.as_ref());
        if run.interrupted {
            bar.finish();
            return Err(Failure::interrupted());
        }
        bar.suspend(|| report::warn(&summary));
        let verdict = held(&summary);
        // A slow server may have too few requests in a step to show a failure; the result is then marked as unsure.
        search.record(users, verdict != Verdict::Fail);
        // The page shows the step of the result, or the first step if one user is too many.
        if verdict != Verdict::Fail && users == search.holds() || best.is_none() {
            best = Some(run);
        }
        steps.push((users, summary, verdict));
    }
    bar.finish();
    // The result is sure if its step had enough samples.
    let answer = search.holds();
    let sure = steps.iter().any(|(users, _, verdict)| *users == answer && *verdict == Verdict::Pass);
    let report = Report { args, target, workload, search: true };
    let all = steps.iter().map(|(users, summary, verdict)| {
        Ok(json!({ "users": users, "verdict": report::value(verdict)?, "summary": report::value(summary)? }))
    });
    let all = all.collect::<Result<Vec<Value>, Failure>>()?;
    let parts = [
        ("users", answer.into()),
        ("fails_at", search.fails().into()),
        ("sure", sure.into()),
        ("steps", all.into()),
    ];
    let document = report.document("find_users", &parts)?;
    if let Some(run) = &best {
        report.page(&document, run)?;
    }
    if args.json {
        report::print(&document, out)?;
    } else {
        report.head(out)?;
        table(out, &steps)?;
        let beyond = match search.fails() {
            Some(fails) => format!("{fails} are too many"),
            None => format!("more were not tried (--max-users {})", args.max_users),
        };
        writeln!(out, "\nmaximum within the SLO: {}; {beyond}", plural(answer as usize, "user"))?;
    }
    out.flush()?;
    if answer == 0 {
        return Err(Failure::new("the SLO is missed even with one user"));
    }
    if !sure {
        let why =
            format!("too few requests in the step with {} for a verdict", plural(answer as usize, "user"));
        return Err(Failure::inconclusive(why).hint("use longer steps: --duration"));
    }
    Ok(())
}

/// Returns the workload of a step. Every step has its own prompts, so that none is in a cache.
fn with_users(workload: &Workload, users: u32, step: u64) -> Workload {
    let mut changed = workload.clone();
    if let Arrivals::Users(_, pause) = workload.arrivals {
        changed.arrivals = Arrivals::Users(users, pause);
    }
    changed.seed = workload.seed.wrapping_add(step << 32);
    changed
}

/// Returns the verdict of a step: passed without failed requests and within all limits.
fn held(summary: &Summary) -> Verdict {
    if summary.requests.failed > 0 {
        return Verdict::Fail;
    }
    summary.slo.as_ref().map_or(Verdict::Unsure, |slo| slo.verdict)
}

fn table(out: &mut dyn Write, steps: &[Step]) -> Result<(), Failure> {
    let head =
        ["users", "ttft p95", "inter-token p99", "user t/s p5", "output t/s", "failed", "goodput", "verdict"];
    let mut table = Table::new(&head, &[0, 1, 2, 3, 4, 5, 6]);
    for (users, s, verdict) in steps {
        let none = || "-".to_owned();
        table.add(vec![
            users.to_string(),
            s.ttft_s.map_or_else(none, |p| seconds(p.p95)),
            s.itl_s.map_or_else(none, |p| seconds(p.p99)),
            s.user_tps.map_or_else(none, |user| rate(user.p5)),
            rate(s.output_tps),
            s.requests.failed.to_string(),
            s.slo.as_ref().map_or_else(none, |slo| format!("{:.0} %", slo.goodput * 100.0)),
            report::word(*verdict).to_owned(),
        ]);
    }
    Ok(table.write(out)?)
}
