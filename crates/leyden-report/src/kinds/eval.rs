//! `leyden eval`: scores of tasks, perplexity and KL divergence.

use super::document::Doc;
use crate::chart::{Axis, Estimate, Extent, Mark};
use crate::error::Error;
use crate::html::file_name;
use crate::page::{Block, Cell, Headline, Section, Table, Tone};
use crate::run::{Better, Figure, Group, Lines, Run};
use crate::unit::{Unit, duration, number};
use serde_json::Value;

pub(super) fn is_one(document: &Value) -> bool {
    ["tasks", "perplexity"].iter().any(|key| document.get(key).is_some())
}

pub(super) fn read(doc: &Doc<'_>) -> Result<Run, Error> {
    let model = doc.need_text("model")?;
    let name = file_name(model).to_owned();
    let mut run =
        Run { title: format!("Quality of {name}"), names: ["model", "reference"], name, ..Run::default() };
    if doc.find("tasks").is_some() {
        tasks(doc, &mut run)?
    } else {
        text(doc, &mut run)?
    }
    if let Some(verdict) = doc.text("verdict") {
        run.headline = Some(headline(doc, verdict, run.headline.as_ref())?);
    }
    let mut facts = vec![("model".to_owned(), model.to_owned())];
    for (label, key) in [("reference", "reference"), ("text", "file")] {
        facts.extend(doc.text(key).map(|text| (label.to_owned(), text.to_owned())));
    }
    for (label, key) in
        [("windows", "windows"), ("tokens of a window", "ctx"), ("tokens scored", "tokens"), ("seed", "seed")]
    {
        facts.extend(doc.find(key).map(|value| (label.to_owned(), value.shown())));
    }
    facts.extend(doc.find_number("seconds").map(|s| ("took".to_owned(), duration(s))));
    run.sections.push(Section::new("Settings", vec![Block::Facts(facts)]));
    run.notes.push("Lines over bars and dots are 95 % intervals.".to_owned());
    Ok(run)
}

/// Returns the verdict on the floor, followed by the main figure.
fn headline(doc: &Doc<'_>, verdict: &str, figure: Option<&Headline>) -> Result<Headline, Error> {
    let floor = doc.number("floor")?;
    let (tone, word) = match verdict {
        "reached" => (Tone::Good, "reached"),
        "missed" => (Tone::Bad, "missed"),
        _ => (Tone::Open, "undecided"),
    };
    let text = figure.map_or("", |figure| figure.text.as_str());
    Ok(Headline { tone, word: format!("Floor of {:.2} % {word}.", 100.0 * floor), text: text.to_owned() })
}

/// Returns the value, the hits and the number of items of a score.
fn score(score: &Doc<'_>) -> Result<(Estimate, f64, f64), Error> {
    let value = Estimate { value: score.number("value")?, interval: score.pair("interval") };
    Ok((value, score.number("hits")?, score.number("items")?))
}

fn tasks(doc: &Doc<'_>, run: &mut Run) -> Result<(), Error> {
    let mut group = Group::new("Right answers", "right answers", Unit::Share, Some(Better::Higher));
    let mut differences = Group::new("Difference from the reference", "", Unit::Share, Some(Better::Higher));
    differences.axis =
        Axis { label: "percentage points".to_owned(), unit: Unit::Points, extent: Extent::Fitted };
    differences.note =
        "Both models answer the same questions, so this is narrower than the intervals of the two."
            .to_owned();
    let with_reference = doc.find("reference").is_some();
    let mut head = vec!["task", "metric", "#questions", "#right", "#%", "#95 %"];
    if with_reference {
        head.extend(["#reference, %", "#difference", "#95 %", "#p"]);
    }
    let mut table = Table::new(&head);
    let mut main = Vec::new();
    for task in doc.items("tasks")? {
        let name = task.need_text("task")?;
        let references = task.items_or_none("reference")?;
        let paired = task.items_or_none("paired")?;
        for (i, found) in task.items("scores")?.iter().enumerate() {
            let metric = found.need_text("metric")?;
            let (value, hits, items) = score(found)?;
            let (low, high) = value.interval.unwrap_or((value.value, value.value));
            let mut figure = Figure::new(format!("{name} {metric}"), value.value, value.interval);
            let percent = |x: f64| Unit::Share.bare(x);
            let mut row = vec![name.to_owned(), metric.to_owned(), items.to_string(), hits.to_string()];
            row.extend([percent(value.value), format!("{} to {}", percent(low), percent(high))]);
            if let Some(other) = references.get(i) {
                let other = score(other)?.0;
                figure.beside = Some(other);
                row.push(percent(other.value));
            }
            if let Some(pair) = paired.get(i) {
                let (difference, interval) = (pair.number("difference")?, pair.pair("interval"));
                let signed = |x: f64| format!("{:+.2}", 100.0 * x);
                row.push(signed(difference));
                row.push(
                    interval
                        .map_or(String::new(), |(low, high)| format!("{} to {}", signed(low), signed(high))),
                );
                row.push(pair.find_number("p").map_or(String::new(), |p| format!("{p:.3}")));
                let mut figure = Figure::new(format!("{name} {metric}"), difference, interval);
                if differences.figures.is_empty() {
                    figure.limit = Some(Mark { at: 0.0, label: "equal".to_owned() });
                }
                differences.figures.push(figure);
            }
            if i == 0 {
                main.push(format!("{} % of {name}", percent(value.value)));
                if let Some(floor) = doc.find_number("floor") {
                    figure.limit = Some(Mark { at: floor, label: "floor".to_owned() });
                }
            }
            group.figures.push(figure);
            table.add(row.into_iter().map(Cell::from));
        }
        let errors = task.items_or_none("errors")?;
        if !errors.is_empty() {
            run.notes.push(format!("{name}: {} rows are no valid questions.", errors.len()));
        }
    }
    // The floor is one line, however many tasks are compared with it.
    let limited = group.figures.iter_mut().filter(|figure| figure.limit.is_some());
    limited.skip(1).for_each(|figure| figure.limit = None);
    run.headline = Some(Headline {
        tone: Tone::Plain,
        word: String::new(),
        text: format!("The model answers right {}.", main.join(", ")),
    });
    run.groups = vec![group, differences];
    run.sections.push(Section::new("Scores", vec![Block::Table(table)]));
    Ok(())
}

/// Key, name, unit, title of the group and direction of a figure of texts.
type Row = (&'static str, &'static str, Unit, &'static str, Better);

const FIGURES: [Row; 7] = [
    ("mean_kld", "mean KL divergence", Unit::Number("nats"), "KL divergence", Better::Lower),
    ("same_top", "the same best token", Unit::Share, "The same best token", Better::Higher),
    (
        "p_diff_rms",
        "RMS of the change of a token's probability",
        Unit::Share,
        "Change of a token's probability",
        Better::Lower,
    ),
    (
        "p_diff",
        "mean change of a token's probability",
        Unit::Share,
        "Mean change of a token's probability",
        Better::Higher,
    ),
    ("perplexity", "perplexity", Unit::Number(""), "Perplexity", Better::Lower),
    ("perplexity_reference", "perplexity of the reference", Unit::Number(""), "Perplexity", Better::Lower),
    ("perplexity_ratio", "ratio of perplexities", Unit::Number(""), "Ratio of perplexities", Better::Lower),
];

fn text(doc: &Doc<'_>, run: &mut Run) -> Result<(), Error> {
    if doc.find_number("perplexity").is_some() {
        let (value, interval) = (doc.number("perplexity")?, doc.pair("interval"));
        let mut group = dots("Perplexity", Unit::Number(""), Better::Lower);
        group.figures.push(Figure::new("perplexity", value, interval));
        let text = format!(
            "The perplexity is {}: at each token the model is as uncertain as among so many equally likely tokens.",
            number(value)
        );
        run.headline = Some(Headline { tone: Tone::Plain, word: String::new(), text });
        run.groups.push(group);
        return Ok(());
    }
    let mut table = Table::new(&["figure", "#value", "#standard error", "#95 %"]);
    for (key, name, unit, title, better) in FIGURES {
        let found = doc.get(key)?;
        let Estimate { value, interval } = doc.estimate(key)?;
        let (low, high) = interval.unwrap_or((value, value));
        let error = found.find_number("standard_error").map_or(String::new(), |e| unit.bare(e));
        table.add([
            name.to_owned(),
            unit.bare(value),
            error,
            format!("{} to {}", unit.bare(low), unit.bare(high)),
        ]);
        if !run.groups.iter().any(|group| group.title == title) {
            run.groups.push(dots(title, unit, better));
        }
        let figure = Figure::new(name, value, interval);
        run.groups.iter_mut().filter(|g| g.title == title).for_each(|g| g.figures.push(figure.clone()));
    }
    for group in &mut run.groups {
        if group.title == "The same best token" {
            group.figures.iter_mut().for_each(|f| {
                f.limit = doc.find_number("floor").map(|at| Mark { at, label: "floor".to_owned() });
            });
        }
    }
    let (kld, same) = (doc.estimate("mean_kld")?, doc.estimate("same_top")?);
    let text = format!(
        "The mean KL divergence from the reference is {} nats, and at {:.1} of 100 positions both have the same best token.",
        number(kld.value),
        100.0 * same.value
    );
    run.headline = Some(Headline { tone: Tone::Plain, word: String::new(), text });
    run.sections.push(Section::new("Figures", vec![Block::Table(table)]));
    let axis = |label: &str, unit, extent| Axis { label: label.to_owned(), unit, extent };
    let shares = || axis("share of positions", Unit::Share, Extent::Zero);
    let divergences = doc.pairs("kld_percentiles");
    let positive: Vec<(f64, f64)> = divergences.into_iter().filter(|p| p.1 > 0.0).collect();
    for (title, y, points) in [
        (
            "KL divergence of positions, sorted",
            axis("KL divergence", Unit::Number("nats"), Extent::Log),
            positive,
        ),
        (
            "Change of a token's probability, sorted",
            axis("change of probability", Unit::Share, Extent::Zero),
            doc.pairs("p_diff_percentiles"),
        ),
    ] {
        run.lines.push(Lines {
            title: title.to_owned(),
            x: shares(),
            y,
            points,
            band: Vec::new(),
            limit: None,
        });
    }
    Ok(())
}

fn dots(title: &str, unit: Unit, better: Better) -> Group {
    let mut group = Group::new(title, "", unit, Some(better));
    group.axis.extent = Extent::Fitted;
    group
}
