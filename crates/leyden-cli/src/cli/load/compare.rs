//! Two servers under the same load, in turns.

use std::io::Write;

use leyden_load::{Comparison, Control, Summary, Target, Workload};
use serde_json::Value;

use super::args::Args;
use super::progress::{self, Bar};
use super::report::{self, Report, rate, seconds};
use super::settings;
use crate::cli::failure::Failure;
use crate::cli::pages;
use crate::cli::text::Table;

/// Runs the turns and prints medians and their ratios.
pub(super) fn execute(
    args: &Args,
    first: &Target,
    workload: &Workload,
    control: &Control,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let Some(base) = &args.compare else { return Err(Failure::usage("--compare is missing")) };
    let second = settings::target(args, base, true, control)?;
    let bar = Bar::new(workload);
    let mut blocks: Vec<(Summary, Summary)> = Vec::new();
    for turn in 1..=args.turns {
        // Both servers get the same requests; each turn has others.
        let mut step = workload.clone();
        step.seed = workload.seed.wrapping_add(u64::from(turn) << 32);
        let side = |target: &Target, name: &str| -> Result<Summary, Failure> {
            bar.again();
            let what = format!("turn {turn} of {}, {name}: ", args.turns);
            let (run, _) = progress::measured(target, &step, control, &bar, &what)?;
            let summary = Summary::new(&run, args.slo.as_ref());
            bar.suspend(|| report::warn(&summary));
            if run.interrupted { Err(Failure::interrupted()) } else { Ok(summary) }
        };
        blocks.push((side(first, "A")?, side(&second, "B")?));
    }
    bar.finish();
    let compared = Comparison::new(&blocks);
    let report = Report { args, target: first, workload, search: false };
    let turns = blocks.iter().map(|(a, b)| Ok(Value::Array(vec![report::value(a)?, report::value(b)?])));
    let turns = turns.collect::<Result<Vec<Value>, Failure>>()?;
    let parts = [
        ("compared_with", report::server(&second)?),
        ("ratios", report::value(&compared.ratios)?),
        ("turns", turns.into()),
    ];
    let document = report.document("compare", &parts)?;
    if let Some(path) = &args.report {
        pages::write(path, &document, |_| {})?;
    }
    if args.json {
        report::print(&document, out)?;
    } else {
        report.head(out)?;
        writeln!(out, "A  {}  {}", first.server().base(), first.model())?;
        writeln!(out, "B  {}  {}\n", second.server().base(), second.model())?;
        let mut table =
            Table::new(&["median of turns", "A", "B", "A/B", "from", "to", "better"], &[1, 2, 3, 4, 5]);
        for row in &compared.ratios {
            let time = row.metric.ends_with("_s") && !row.metric.ends_with("per_s");
            let figure = |v: Option<f64>| v.map_or("-".to_owned(), if time { seconds } else { rate });
            let ratio = |v: Option<f64>| v.map_or("-".to_owned(), |v| format!("{v:.2}"));
            let better = row.ratio.map_or("-", |r| match r.total_cmp(&1.0) {
                std::cmp::Ordering::Equal => "=",
                order => {
                    if (order == std::cmp::Ordering::Greater) == row.more_is_better {
                        "A"
                    } else {
                        "B"
                    }
                }
            });
            let name = row.metric.trim_end_matches(if time { "_s" } else { "" }).replace('_', " ");
            let cells = [figure(row.a), figure(row.b), ratio(row.ratio), ratio(row.least), ratio(row.most)];
            table.add([name].into_iter().chain(cells).chain([better.to_owned()]).collect());
        }
        table.write(out)?;
    }
    out.flush()?;
    let failed = |pick: fn(&(Summary, Summary)) -> &Summary| -> usize {
        blocks.iter().map(|pair| pick(pair).requests.failed).sum()
    };
    match (failed(|pair| &pair.0), failed(|pair| &pair.1)) {
        (0, 0) => Ok(()),
        (a, b) => Err(Failure::new(format!("requests failed: {a} of A, {b} of B"))),
    }
}
