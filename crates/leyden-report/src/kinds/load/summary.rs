//! Figures of one load.

use super::super::document::Doc;
use super::limit::Limit;
use crate::error::Error;
use crate::page::{Block, Cell, Section, Table, Tone};
use crate::run::{Better, Figure, Group, Run};
use crate::unit::{Unit, duration, rate};

const PERCENTILES: [&str; 4] = ["p50", "p90", "p95", "p99"];
/// Title, key, and metric of times.
const TIMES: [(&str, &str, &str); 3] = [
    ("Time to first token", "ttft_s", "ttft"),
    ("Inter-token time", "itl_s", "itl"),
    ("Time to the end", "e2e_s", "e2e"),
];

/// Returns the limits of the SLO.
pub(super) fn limits(summary: &Doc<'_>) -> Result<Vec<Limit>, Error> {
    let Some(slo) = summary.find("slo") else { return Ok(Vec::new()) };
    Ok(slo.items("limits")?.iter().filter_map(|row| Limit::read(row.text("limit")?)).collect())
}

/// Adds tiles, figures and tables of a summary.
pub(super) fn add(summary: &Doc<'_>, run: &mut Run) -> Result<(), Error> {
    let limits = limits(summary)?;
    tiles(summary, run)?;
    let mut output = Group::new("Output of all users", "", Unit::Rate("t/s"), Some(Better::Higher));
    output.figures.push(Figure::new("output", summary.number("output_tps")?, None));
    run.compared.push(output);
    if let Some(user) = summary.find("user_tps") {
        let mut rates = Group::new("Speed of each user", "", Unit::Rate("t/s"), Some(Better::Higher));
        for (name, key, percentile) in [("median", "p50", "50"), ("slowest 5 %", "p5", "5")] {
            let mut figure = Figure::new(name, user.number(key)?, None);
            let limit = limits.iter().find(|l| l.metric == "user_tps" && l.percentile == percentile);
            figure.limit = limit.map(Limit::mark);
            rates.figures.push(figure);
        }
        run.groups.push(rates);
    }
    for (title, key, metric) in TIMES {
        let Some(times) = summary.find(key) else { continue };
        let mut group = Group::new(title, "", Unit::Seconds, Some(Better::Lower));
        for percentile in PERCENTILES {
            let mut figure = Figure::new(percentile, times.number(percentile)?, None);
            let limit = limits.iter().find(|l| l.metric == metric && l.percentile == percentile[1..]);
            figure.limit = limit.map(Limit::mark);
            group.figures.push(figure);
        }
        run.groups.push(group);
    }
    if let Some(slo) = summary.find("slo") {
        run.sections.push(Section::new("Limits", vec![Block::Table(verdicts(&slo)?)]));
    }
    run.sections.push(Section::new("Percentiles", vec![Block::Table(percentiles(summary)?)]));
    let errors = summary.items_or_none("errors")?;
    if !errors.is_empty() {
        let mut table = Table::new(&["failure", "#requests", "one of them"]);
        for row in &errors {
            let class = Cell { text: row.need_text("class")?.to_owned(), tone: Tone::Bad };
            let count = Cell::from(row.number("count")?.to_string());
            table.add([class, count, Cell::from(row.text("example").unwrap_or_default())]);
        }
        run.sections.push(Section::new("Failures", vec![Block::Table(table)]));
    }
    Ok(())
}

fn tiles(summary: &Doc<'_>, run: &mut Run) -> Result<(), Error> {
    let requests = summary.get("requests")?;
    let mut tile = |label: &str, text: String| run.tiles.push((label.to_owned(), text));
    tile("output t/s, all users", rate(summary.number("output_tps")?));
    if let Some(user) = summary.find("user_tps") {
        tile("t/s per user, median", rate(user.number("p50")?));
        tile("t/s per user, slowest 5 %", rate(user.number("p5")?));
    }
    if let Some(ttft) = summary.find("ttft_s") {
        tile("first token, p95", duration(ttft.number("p95")?));
    }
    tile("input t/s", rate(summary.number("input_tps")?));
    tile("requests/s", rate(summary.number("requests_per_s")?));
    tile("complete", requests.number("completed")?.to_string());
    tile("failed", requests.number("failed")?.to_string());
    if let Some(slo) = summary.find("slo") {
        tile("goodput", format!("{:.0} %", 100.0 * slo.number("goodput")?));
    }
    Ok(())
}

fn verdicts(slo: &Doc<'_>) -> Result<Table, Error> {
    let mut table = Table::new(&["limit", "#measured", "#samples", "verdict"]);
    for row in slo.items("limits")? {
        let text = row.need_text("limit")?;
        let unit = if text.starts_with("user_tps") { Unit::Rate("t/s") } else { Unit::Seconds };
        let (tone, word) = match row.need_text("verdict")? {
            "pass" => (Tone::Good, "PASS"),
            "fail" => (Tone::Bad, "FAIL"),
            _ => (Tone::Open, "too few samples"),
        };
        table.add([
            Cell::from(text),
            Cell::from(row.find_number("value").map_or("never".to_owned(), |value| unit.text(value))),
            Cell::from(row.number("count")?.to_string()),
            Cell { text: word.to_owned(), tone },
        ]);
    }
    Ok(table)
}

fn percentiles(summary: &Doc<'_>) -> Result<Table, Error> {
    let mut table = Table::new(&["", "#mean", "#p50", "#p90", "#p95", "#p99", "#max", "#samples"]);
    let number = Unit::Rate("");
    for (name, key, unit) in [
        ("time to first token", "ttft_s", Unit::Seconds),
        ("inter-token", "itl_s", Unit::Seconds),
        ("end to end", "e2e_s", Unit::Seconds),
        ("prompt tokens", "prompt_tokens", number),
        ("output tokens", "output_tokens", number),
        ("lag of the generator", "send_lag_s", Unit::Seconds),
    ] {
        let Some(found) = summary.find(key) else { continue };
        let mut row = vec![name.to_owned()];
        for key in ["mean", "p50", "p90", "p95", "p99", "max"] {
            row.push(unit.text(found.number(key)?));
        }
        row.push(found.number("count")?.to_string());
        table.add(row);
    }
    Ok(table)
}
