//! `leyden verify`: evidence of a verdict.

mod settings;

use super::document::Doc;
use crate::chart::{Extent, Mark};
use crate::error::Error;
use crate::html::file_name;
use crate::page::{Block, Cell, Headline, Section, Table, Tone};
use crate::run::{About, Better, Figure, Group, Run};
use crate::unit::{Unit, duration, number};
use serde_json::Value;

pub(super) fn is_one(document: &Value) -> bool {
    document.get("evidence").is_some_and(Value::is_object) && document.get("signature").is_some()
}

pub(super) fn read(doc: &Doc<'_>) -> Result<Run, Error> {
    let evidence = doc.get("evidence")?;
    let path = evidence.get("model")?.need_text("path")?;
    let name = file_name(path).to_owned();
    let (machine, program) = (evidence.get("machine")?, evidence.get("program")?);
    let mut run = Run {
        title: format!("Verification of {name}"),
        name,
        headline: Some(headline(&evidence)?),
        about: About {
            command: settings::command(&evidence)?,
            program: format!("leyden {}", program.need_text("version")?),
            machine: format!(
                "{}, {} cores, {}",
                machine.need_text("processor")?,
                machine.number("cores")?,
                machine.need_text("os")?
            ),
            date: evidence.need_text("made")?.to_owned(),
        },
        names: ["model", "reference"],
        ..Run::default()
    };
    for floor in evidence.items("floors")? {
        run.groups.push(group(&floor)?);
        run.sections.push(Section::new("", judgement(&floor)?));
    }
    if let Some(load) = evidence.find("load") {
        add_load(&load, &evidence, &mut run)?;
    }
    run.sections.push(Section::new("Method", method(&evidence)?));
    run.sections.push(Section::new("Files", settings::files(&evidence)?));
    run.sections
        .push(Section::new("Program, machine and settings", vec![Block::Facts(settings::facts(&evidence)?)]));
    let signature = doc.get("signature")?;
    let facts = [
        ("algorithm", "Ed25519"),
        ("public key", signature.need_text("key")?),
        ("signature", signature.need_text("value")?),
    ];
    let facts = facts.into_iter().map(|(label, text)| (label.to_owned(), text.to_owned())).collect();
    let text = "The signature covers the evidence, from which this page was made. leyden verify --check FILE --key KEY.pub checks it, \
        the files, the program and the processor; a page proves nothing.";
    run.sections.push(Section::new("Signature", vec![Block::Long(facts), Block::Text(text.to_owned())]));
    Ok(run)
}

/// Returns tone and word of a verdict.
fn verdict(of: &Doc<'_>) -> Result<(Tone, &'static str), Error> {
    Ok(match of.need_text("verdict")? {
        "pass" => (Tone::Good, "PASS"),
        "fail" => (Tone::Bad, "FAIL"),
        _ => (Tone::Open, "INCONCLUSIVE"),
    })
}

fn headline(evidence: &Doc<'_>) -> Result<Headline, Error> {
    let (tone, word) = verdict(evidence)?;
    let mut confidences = Vec::new();
    for floor in evidence.items("floors")? {
        if verdict(&floor)?.1 == word {
            confidences.push(floor.number("confidence")?);
        }
    }
    // All conditions of a PASS hold, and one that fails is enough for a FAIL.
    let confidence = match word {
        "FAIL" => confidences.into_iter().reduce(f64::max),
        _ => confidences.into_iter().reduce(f64::min),
    };
    let sure = confidence.map_or(String::new(), |c| format!(" The confidence is {}.", sure(c)));
    let text = match word {
        "PASS" => format!("The model keeps every condition below.{sure}"),
        "FAIL" => format!("The model misses at least one condition below.{sure}"),
        _ => "The data are too few to decide every condition below.".to_owned(),
    };
    Ok(Headline { tone, word: word.to_owned(), text })
}

/// Returns the drawing of a floor: estimate, bounds and limit.
fn group(floor: &Doc<'_>) -> Result<Group, Error> {
    let text = floor.need_text("floor")?;
    let title = format!("{text} on {}", floor.need_text("data")?);
    let better = if text.contains("<=") { Better::Lower } else { Better::Higher };
    let mut group = Group::new(&title, floor.need_text("quantity")?, Unit::Number(""), Some(better));
    group.axis.extent = Extent::Fitted;
    let bounds = floor.pair("bounds").filter(|(low, high)| low < high);
    let mut figure = Figure::new("", floor.number("estimate")?, bounds);
    let limit = floor.number("limit")?;
    figure.limit = Some(Mark { at: limit, label: format!("limit {}", number(limit)) });
    group.figures.push(figure);
    Ok(group)
}

/// Returns the figures of a floor.
fn judgement(floor: &Doc<'_>) -> Result<Vec<Block>, Error> {
    let (tone, word) = verdict(floor)?;
    let heading = format!("{} on {}", floor.need_text("floor")?, floor.need_text("data")?);
    let unit = floor.need_text("unit")?;
    let mut facts = vec![("model".to_owned(), number(floor.number("value")?))];
    let mut add = |label: &str, text: String| facts.push((label.to_owned(), text));
    if let Some(reference) = floor.find_number("reference") {
        add("reference", number(reference));
    }
    add(floor.need_text("quantity")?, number(floor.number("estimate")?));
    match floor.pair("bounds") {
        Some((low, high)) => add("95 % bounds", format!("{} and {}", number(low), number(high))),
        None => add("95 % bounds", "none: too few data".to_owned()),
    }
    add("limit", number(floor.number("limit")?));
    add("confidence", sure(floor.number("confidence")?));
    add(unit, floor.number("samples")?.to_string());
    if let Some(pairs) = floor.find("pairs").filter(|_| floor.find("reference").is_some()) {
        for (label, key) in [
            ("both right", "both"),
            ("only the model right", "only_model"),
            ("only the reference right", "only_reference"),
            ("both wrong", "neither"),
        ] {
            add(label, pairs.number(key)?.to_string());
        }
    }
    if word == "INCONCLUSIVE" {
        let needed = match floor.find_number("needed") {
            Some(n) => format!("about {n} {unit} if the figures stay as they are"),
            None => "more than a million, as the figure is at its limit".to_owned(),
        };
        add("to decide", needed);
    }
    Ok(vec![Block::Heading(tone, word.to_owned(), heading), Block::Facts(facts)])
}

fn add_load(load: &Doc<'_>, evidence: &Doc<'_>, run: &mut Run) -> Result<(), Error> {
    let (tone, word) = verdict(load)?;
    let settings = evidence.get("settings")?;
    let heading = settings.text("load").unwrap_or_default().to_owned();
    let tps = Unit::Rate("t/s");
    let output = load.number("output_tps")?;
    let facts = [
        ("requests", load.need_text("requests")?.to_owned()),
        ("complete", load.number("completed")?.to_string()),
        ("failed", load.number("failed")?.to_string()),
        ("measured for", duration(load.number("seconds")?)),
        ("output of all users", tps.text(output)),
    ];
    let mut table = Table::new(&["limit", "#measured", "#samples", "verdict"]);
    for row in load.items("limits")? {
        let text = row.need_text("limit")?;
        let is_rate = text.starts_with("user_tps");
        let unit = if is_rate { tps } else { Unit::Seconds };
        let value = row.find_number("value");
        let (tone, word) = verdict(&row)?;
        table.add([
            Cell::from(text),
            Cell::from(value.map_or("never".to_owned(), |value| unit.text(value))),
            Cell::from(row.number("samples")?.to_string()),
            Cell { text: word.to_owned(), tone },
        ]);
        let Some(value) = value else { continue };
        let better = if is_rate { Better::Higher } else { Better::Lower };
        let mut group = Group::new(&format!("{text} under load"), "", unit, Some(better));
        let name = text.split(['<', '>', '=']).next().unwrap_or(text);
        let mut figure = Figure::new(name, value, None);
        figure.limit = super::load::mark(text);
        group.figures.push(figure);
        run.groups.push(group);
    }
    let facts = facts.into_iter().map(|(label, text)| (label.to_owned(), text)).collect();
    let blocks =
        vec![Block::Heading(tone, word.to_owned(), heading), Block::Facts(facts), Block::Table(table)];
    run.sections.push(Section::new("Load", blocks));
    Ok(())
}

fn method(evidence: &Doc<'_>) -> Result<Vec<Block>, Error> {
    let floors = evidence.items("floors")?;
    let of_text = |floor: &&Doc<'_>| floor.text("unit") == Some("windows");
    let mut texts = vec![
        "PASS and FAIL are each stated with at least 95 % confidence: a model whose true value lies at a limit passes with a \
         probability of at most 5 %. Otherwise the verdict is INCONCLUSIVE. Every condition is tested by itself; the joint PASS \
         needs all of them, and any FAIL fails.",
    ];
    if floors.iter().any(|floor| !of_text(&floor)) {
        texts.push(
            "Model and reference answered the same questions. The bounds are those of Gaffke (2005) for the mean of paired \
             outcomes, which for right and wrong answers are the exact ones of Clopper and Pearson (1934).",
        );
    }
    if floors.iter().any(|floor| of_text(&floor)) {
        texts.push(
            "Texts are cut into windows of equal length, and the second half of each is predicted. The bounds are from a \
             studentised bootstrap over windows (Efron, 1981).",
        );
    }
    if evidence.find("load").is_some() {
        texts.push(
            "The model was served on this machine, and the load was sent to it over the loopback interface. Limits of percentiles \
             are compared with the measured percentile of enough samples, and failed requests count as infinitely slow.",
        );
    }
    Ok(texts.into_iter().map(|text| Block::Text(text.to_owned())).collect())
}

/// Formats a confidence in per cent, never rounded up to 100.
fn sure(confidence: f64) -> String {
    if confidence >= 0.9995 { "above 99.9 %".to_owned() } else { format!("{:.1} %", 100.0 * confidence) }
}
