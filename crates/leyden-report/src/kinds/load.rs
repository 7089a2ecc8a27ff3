//! `leyden load`: a load, a search for users, and a comparison of two servers.

mod limit;
mod summary;

use super::document::Doc;
use crate::chart::{Axis, Estimate, Extent, Mark, Row, RowPlot};
use crate::error::Error;
use crate::page::{Block, Cell, Headline, Section, Table, Tone};
use crate::run::{Better, Figure, Group, Lines, Run};
use crate::unit::{Unit, duration, rate};
use limit::Limit;
use serde_json::Value;

pub(super) fn is_one(document: &Value) -> bool {
    let kind = document.get("kind").and_then(Value::as_str);
    matches!(kind, Some("run" | "find_users" | "compare"))
}

pub(super) fn read(doc: &Doc<'_>) -> Result<Run, Error> {
    let server = doc.get("server")?;
    let url = server.need_text("url")?;
    let model = server.text("model").unwrap_or_default();
    let name = if model.is_empty() { url } else { model }.to_owned();
    let mut run = Run { title: format!("Load test of {name}"), name, ..Run::default() };
    match doc.need_text("kind")? {
        "find_users" => search(doc, &mut run)?,
        "compare" => compare(doc, &mut run)?,
        _ => {
            let summary = doc.get("summary")?;
            run.headline = Some(headline(&summary)?);
            summary::add(&summary, &mut run)?;
        }
    }
    run.sections.push(Section::new("Load", vec![Block::Facts(facts(doc, url, model)?)]));
    run.notes.push(
        "Percentiles are by the nearest rank. Time to first token and inter-token times are those of events with content, as \
         they arrived."
            .to_owned(),
    );
    Ok(run)
}

/// Returns the line of a limit, from its text.
pub(super) fn mark(limit: &str) -> Option<Mark> {
    Limit::read(limit).map(|limit| limit.mark())
}

/// Returns the verdict on the SLO, or the main figures.
fn headline(summary: &Doc<'_>) -> Result<Headline, Error> {
    let mut parts = Vec::new();
    if let Some(users) = summary.find("user_tps") {
        parts.push(format!(
            "each user gets {} in the median",
            Unit::Rate("tokens/s").text(users.number("p50")?)
        ));
    }
    if let Some(ttft) = summary.find("ttft_s") {
        parts.push(format!("95 of 100 answers begin within {}", duration(ttft.number("p95")?)));
    }
    let failed = summary.get("requests")?.number("failed")?;
    if failed > 0.0 {
        parts.push(format!("{failed} requests failed"));
    }
    let mut text = parts.join("; ");
    if let Some(first) = text.get(..1).map(str::to_uppercase) {
        text.replace_range(..1, &first);
        text.push('.');
    }
    let (tone, word) = match summary.find("slo").as_ref().and_then(|slo| slo.text("verdict")) {
        Some("pass") if failed == 0.0 => (Tone::Good, "PASS."),
        Some("unsure") if failed == 0.0 => (Tone::Open, "Too few samples for a verdict."),
        Some(_) => (Tone::Bad, "FAIL."),
        None if failed > 0.0 => (Tone::Bad, ""),
        None => (Tone::Plain, ""),
    };
    Ok(Headline { tone, word: word.to_owned(), text })
}

fn search(doc: &Doc<'_>, run: &mut Run) -> Result<(), Error> {
    let users = doc.number("users")?;
    let mut steps = doc
        .items("steps")?
        .into_iter()
        .map(|step| Ok((step.number("users")?, step)))
        .collect::<Result<Vec<_>, Error>>()?;
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (tone, word) = match users {
        0.0 => (Tone::Bad, "The SLO is missed even with one user.".to_owned()),
        1.0 => (Tone::Good, "1 user within the SLO.".to_owned()),
        n => (Tone::Good, format!("{n} users within the SLO.")),
    };
    let tone = if users > 0.0 && !doc.is_true("sure") { Tone::Open } else { tone };
    let beyond = match doc.find_number("fails_at") {
        Some(n) if n > 1.0 => format!("{n} are too many."),
        Some(_) => String::new(),
        None => "More were not tried.".to_owned(),
    };
    let unsure = if tone == Tone::Open { " The step had too few requests to be sure." } else { "" };
    run.headline = Some(Headline { tone, word, text: format!("{beyond}{unsure}") });
    // Figures are those of the maximum, or of the first step if one user is too many.
    let shown = steps.iter().find(|(n, _)| *n == users).or(steps.first());
    let mut limits = Vec::new();
    if let Some((n, step)) = shown {
        let summary = step.get("summary")?;
        limits = summary::limits(&summary)?;
        summary::add(&summary, run)?;
        run.groups.iter_mut().for_each(|group| group.title += " at the maximum");
        let what = if *n == 1.0 { "1 user".to_owned() } else { format!("{n} users") };
        run.notes.push(format!("Figures without a number of users are those of {what}."));
    }
    let mut table = Table::new(&[
        "#users",
        "verdict",
        "#ttft p95",
        "#inter-token p99",
        "#user t/s p5",
        "#output t/s",
        "#failed",
        "#goodput",
    ]);
    for (n, step) in &steps {
        let summary = step.get("summary")?;
        let of = |group: &str, key: &str| summary.find(group).and_then(|g| g.find_number(key));
        let time = |value: Option<f64>| value.map_or("–".to_owned(), duration);
        let (tone, word) = match step.text("verdict") {
            Some("pass") => (Tone::Good, "pass"),
            Some("unsure") => (Tone::Open, "too few samples"),
            _ => (Tone::Bad, "fail"),
        };
        let plain = [
            time(of("ttft_s", "p95")),
            time(of("itl_s", "p99")),
            of("user_tps", "p5").map_or("–".to_owned(), rate),
            summary.find_number("output_tps").map_or("–".to_owned(), rate),
            of("requests", "failed").map_or("–".to_owned(), |n| n.to_string()),
            of("slo", "goodput").map_or("–".to_owned(), |share| format!("{:.0} %", 100.0 * share)),
        ];
        let verdict = Cell { text: word.to_owned(), tone };
        table.add([Cell::from(n.to_string()), verdict].into_iter().chain(plain.into_iter().map(Cell::from)));
    }
    run.lines = curves(&steps, &limits);
    run.lines_first = true;
    let mut group = Group::new("Users within the SLO", "users", Unit::Number(""), Some(Better::Higher));
    group.figures.push(Figure::new("maximum", users, None));
    // A single number needs no bar on a page of its own; beside other runs it is the main figure.
    run.compared.insert(0, group);
    run.sections.insert(0, Section::new("Steps of the search", vec![Block::Table(table)]));
    Ok(())
}

/// Returns latencies and rates by number of users.
fn curves(steps: &[(f64, Doc<'_>)], limits: &[Limit]) -> Vec<Lines> {
    let users = || Axis { label: "users".to_owned(), unit: Unit::Number(""), extent: Extent::Zero };
    let tps = Unit::Rate("t/s");
    let rows: [(&str, &str, Unit, &str, &str, &str); 4] = [
        ("Time to first token by users", "95th percentile", Unit::Seconds, "ttft_s", "p95", "ttft"),
        ("Inter-token time by users", "99th percentile", Unit::Seconds, "itl_s", "p99", "itl"),
        ("Rate of the slowest users", "5th percentile of users", tps, "user_tps", "p5", "user_tps"),
        ("Output of all users", "output", tps, "", "output_tps", ""),
    ];
    let line = |(title, label, unit, group, key, metric): (&str, &str, Unit, &str, &str, &str)| {
        let value = |step: &Doc<'_>| {
            let summary = step.find("summary")?;
            if group.is_empty() { summary.find_number(key) } else { summary.find(group)?.find_number(key) }
        };
        let points: Vec<(f64, f64)> = steps.iter().filter_map(|(n, step)| Some((*n, value(step)?))).collect();
        let limit = limits.iter().find(|limit| limit.metric == metric);
        let extent =
            if unit == Unit::Seconds { Extent::of(points.iter().map(|p| p.1)) } else { Extent::Zero };
        Lines {
            title: title.to_owned(),
            x: users(),
            y: Axis { label: label.to_owned(), unit, extent },
            points,
            band: Vec::new(),
            limit: limit.map(Limit::mark),
        }
    };
    rows.into_iter().map(line).collect()
}

fn compare(doc: &Doc<'_>, run: &mut Run) -> Result<(), Error> {
    let other = doc.get("compared_with")?;
    let names = |server: &Doc<'_>| {
        let model = server.text("model").unwrap_or_default();
        format!("{} ({model})", server.text("url").unwrap_or_default())
    };
    let (a, b) = (names(&doc.get("server")?), names(&other));
    let mut table = Table::new(&["median of turns", "#A", "#B", "#A/B", "#lowest", "#highest", "better"]);
    let mut rows = Vec::new();
    let mut better = [0, 0];
    for row in doc.items("ratios")? {
        let metric = row.need_text("metric")?;
        let is_time = metric.ends_with("_s") && !metric.ends_with("per_s");
        let name = metric.trim_end_matches(if is_time { "_s" } else { "" }).replace('_', " ");
        let unit = if is_time { Unit::Seconds } else { Unit::Rate("") };
        let figure = |key: &str| row.find_number(key).map_or("–".to_owned(), |x| unit.text(x));
        let ratio = |key: &str| row.find_number(key).map_or("–".to_owned(), |x| format!("{x:.2}"));
        let value = row.find_number("ratio");
        let winner =
            value.filter(|r| *r != 1.0).map(|r| usize::from((r > 1.0) != row.is_true("more_is_better")));
        better.iter_mut().enumerate().for_each(|(i, n)| *n += usize::from(winner == Some(i)));
        let word = winner.map_or("–", |i| ["A", "B"][i]);
        table.add([
            name.clone(),
            figure("a"),
            figure("b"),
            ratio("ratio"),
            ratio("least"),
            ratio("most"),
            word.to_owned(),
        ]);
        let interval = row.find_number("least").zip(row.find_number("most")).filter(|(low, high)| low < high);
        if let Some(value) = value {
            let note = if row.is_true("more_is_better") { "more is better" } else { "less is better" };
            let values = vec![Some(Estimate { value, interval })];
            rows.push(Row { label: format!("{name} ({note})"), values });
        }
    }
    run.title = "Two servers under the same load".to_owned();
    let text = format!("A is better in {} figures, B in {}.", better[0], better[1]);
    run.headline = Some(Headline { tone: Tone::Plain, word: String::new(), text });
    run.plots.push(Block::Rows(RowPlot {
        title: "A divided by B".to_owned(),
        axis: Axis { label: "ratio".to_owned(), unit: Unit::Number(""), extent: Extent::Fitted },
        names: vec![String::new()],
        rows,
        marks: vec![Mark { at: 1.0, label: "equal".to_owned() }],
        note: "Dots are ratios of medians over the turns; lines go from the lowest to the highest ratio of a pair.".to_owned(),
    }));
    let servers = vec![("A".to_owned(), a), ("B".to_owned(), b)];
    run.sections.push(Section::new("Figures", vec![Block::Facts(servers), Block::Table(table)]));
    Ok(())
}

fn facts(doc: &Doc<'_>, url: &str, model: &str) -> Result<Vec<(String, String)>, Error> {
    let load = doc.get("workload")?;
    let mut facts = vec![("server".to_owned(), url.to_owned()), ("model".to_owned(), model.to_owned())];
    let mut add = |label: &str, text: Option<String>| facts.extend(text.map(|text| (label.to_owned(), text)));
    let arrivals = load.get("arrivals")?;
    add("users", arrivals.find("users").map(|n| n.shown()));
    add("requests per second", arrivals.find("rate").map(|n| n.shown()));
    add("trace", arrivals.text("trace").map(str::to_owned));
    for (label, key) in [
        ("SLO", "slo"),
        ("tokens of a prompt", "prompt_tokens"),
        ("tokens of an answer", "output_tokens"),
        ("endpoint", "endpoint"),
        ("seed", "seed"),
    ] {
        add(label, load.find(key).map(|value| value.shown()));
    }
    let exact = if load.is_true("ignore_eos") { "exactly as asked for" } else { "at most as asked for" };
    add("lengths of answers", Some(exact.to_owned()));
    for (label, key) in [("duration", "duration_s"), ("warm-up", "warmup_s"), ("ramp", "ramp_s")] {
        add(label, load.find_number(key).filter(|s| *s > 0.0).map(duration));
    }
    let calibration = doc.get("server")?.find("calibration");
    if let Some(found) = calibration.as_ref().and_then(|c| c.find_number("tokens_per_word")) {
        add("a word", Some(format!("{found:.2} tokens")));
    }
    Ok(facts)
}
