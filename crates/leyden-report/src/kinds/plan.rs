//! `leyden plan`: a prediction, or a ranking of machines or types of weights.

mod roofline;

use super::document::Doc;
use crate::chart::{Estimate, Extent, Mark};
use crate::error::Error;
use crate::html::file_name;
use crate::page::{Block, Cell, Headline, Section, Table, Tone};
use crate::run::{About, Better, Figure, Group, Run};
use crate::unit::{Unit, number, rate};
use serde_json::Value;

const RATE: Unit = Unit::Rate("t/s");
/// Label, key, unit and direction of the predicted figures.
const FIGURES: [(&str, &str, &str, Unit, Better); 11] = [
    ("Prompts (prefill)", "one prompt", "prefill_tps", RATE, Better::Higher),
    ("Answers (decode)", "each user", "decode_tps", RATE, Better::Higher),
    ("Answers (decode)", "all users", "decode_tps_all", RATE, Better::Higher),
    ("Answers (decode)", "all users, with their prompts", "output_tps", RATE, Better::Higher),
    ("Time to first token", "one prompt", "ttft_s", Unit::Seconds, Better::Lower),
    ("Time to first token", "last of all at once", "ttft_burst_s", Unit::Seconds, Better::Lower),
    ("Requests", "requests per hour", "requests_per_hour", Unit::Rate(""), Better::Higher),
    ("Documents", "documents per hour", "documents_per_hour", Unit::Rate(""), Better::Higher),
    ("Time of a document", "one alone", "latency_s", Unit::Seconds, Better::Lower),
    ("Cost of a million tokens", "input", "costs.per_million_input", Unit::Dollars, Better::Lower),
    (
        "Cost of a million tokens",
        "output with prompts",
        "costs.per_million_output_all",
        Unit::Dollars,
        Better::Lower,
    ),
];
/// Figures by which machines are ranked.
const RANKED: [(&str, &str, Unit, Better); 6] = [
    ("Prompts (prefill)", "prefill_tps", RATE, Better::Higher),
    ("Answers (decode), each user", "decode_tps", RATE, Better::Higher),
    ("Answers (decode), all users", "decode_tps_all", RATE, Better::Higher),
    ("Documents per hour", "documents_per_hour", Unit::Rate(""), Better::Higher),
    (
        "Cost of a million output tokens with their prompts",
        "costs.per_million_output_all",
        Unit::Dollars,
        Better::Lower,
    ),
    ("Memory", "memory_bytes", Unit::Bytes, Better::Lower),
];

pub(super) fn is_one(document: &Value) -> bool {
    let has = |key: &str| document.get(key).is_some();
    has("workload") && has("memory_bytes") || has("machines") || has("types")
}

pub(super) fn read(doc: &Doc<'_>) -> Result<Run, Error> {
    if doc.find("machines").is_some() {
        return machines(doc);
    }
    if doc.find("types").is_some() {
        return types(doc);
    }
    let (model, machine) = (doc.get("model")?, doc.get("machine")?);
    let name = file_name(model.need_text("file")?).to_owned();
    let place = machine.need_text("name")?.to_owned();
    let mut run = Run {
        title: format!("Plan for {name}"),
        headline: Some(headline(doc)?),
        about: About {
            program: doc.text("version").map_or(String::new(), |version| format!("leyden {version}")),
            machine: format!("{place}, {} cores", machine.number("cores")?),
            ..About::default()
        },
        names: ["predicted", "measured"],
        groups: groups(doc)?,
        name: format!("{name} on {place}"),
        ..Run::default()
    };
    if let Some(users) = doc.find("slo").and_then(|slo| slo.find_number("users.value")) {
        run.tiles.push(("users within the limits".to_owned(), number(users)));
    }
    run.tiles.extend(tiles(doc));
    run.plots.extend(memory(doc)?);
    run.plots.extend(roofline::plot(doc)?);
    if let Some(table) = checked(doc, &mut run)? {
        run.sections.push(Section::new("Predicted and measured", vec![Block::Table(table)]));
    }
    run.sections.push(Section::new("Predicted figures", vec![Block::Table(table(doc)?)]));
    run.sections.push(Section::new("Model, machine and load", vec![Block::Facts(facts(doc)?)]));
    run.notes.push(
        "Lines over bars go from the 10th to the 90th percentile of measured / predicted on the same kind of processor, and are \
         wider where the machine comes from specifications."
            .to_owned(),
    );
    Ok(run)
}

/// Returns the place of a key with dots.
fn within<'v>(doc: &Doc<'v>, key: &str) -> Option<Doc<'v>> {
    key.split('.').try_fold(doc.clone(), |doc, part| doc.find(part))
}

/// Returns a predicted figure, if it is known.
fn estimate(doc: &Doc<'_>, key: &str) -> Option<Estimate> {
    let (parent, key) = key.rsplit_once('.').unwrap_or(("", key));
    let place = if parent.is_empty() { doc.clone() } else { within(doc, parent)? };
    match place.find_number(key) {
        Some(value) => Some(Estimate::exact(value)),
        None => place.estimate(key).ok(),
    }
}

fn headline(doc: &Doc<'_>) -> Result<Headline, Error> {
    let bytes = Unit::Bytes.text(doc.get("memory_bytes")?.number("value")?);
    let available = doc.get("machine")?.find_number("memory_bytes").map(|n| Unit::Bytes.text(n));
    let fits = doc.find("fits").map(|_| doc.is_true("fits"));
    let (tone, word) = match fits {
        Some(true) => (Tone::Good, "It fits."),
        Some(false) => (Tone::Bad, "It does not fit."),
        None => (Tone::Open, ""),
    };
    let of =
        available.map_or(", and the memory of the machine is not known".to_owned(), |n| format!(" of {n}"));
    let mut text = format!("The model needs {bytes}{of}");
    if let (Some(first), Some(each)) = (estimate(doc, "ttft_s"), estimate(doc, "decode_tps")) {
        text += &format!(
            "; the first token comes after {}, then {}",
            Unit::Seconds.text(first.value),
            rate(each.value)
        );
        text += " tokens per second for each user";
    } else if let Some(each) = estimate(doc, "documents_per_hour") {
        text += &format!("; it computes {} documents per hour", rate(each.value));
    }
    Ok(Headline { tone, word: word.to_owned(), text: text + "." })
}

fn tiles(doc: &Doc<'_>) -> Vec<(String, String)> {
    let rows = [
        ("memory", "memory_bytes", Unit::Bytes),
        ("prompt, t/s", "prefill_tps", Unit::Rate("")),
        ("answer, t/s each", "decode_tps", Unit::Rate("")),
        ("answers, t/s of all", "decode_tps_all", Unit::Rate("")),
        ("first token", "ttft_s", Unit::Seconds),
        ("documents/h", "documents_per_hour", Unit::Rate("")),
        ("per million output tokens", "costs.per_million_output_all", Unit::Dollars),
    ];
    let tile = |(label, key, unit): (&str, &str, Unit)| {
        Some((label.to_owned(), unit.text(estimate(doc, key)?.value)))
    };
    rows.into_iter().filter_map(tile).collect()
}

fn groups(doc: &Doc<'_>) -> Result<Vec<Group>, Error> {
    let slo = doc.find("slo");
    let limit = |key: &str| slo.as_ref().and_then(|slo| slo.find_number(key));
    let mut groups: Vec<Group> = Vec::new();
    for (title, name, key, unit, better) in FIGURES {
        let Some(value) = estimate(doc, key) else { continue };
        if !groups.iter().any(|group| group.title == title) {
            groups.push(Group::new(title, "", unit, Some(better)));
        }
        let mut figure = Figure::new(name, value.value, value.interval);
        let mark = |at: f64, label: &str| Some(Mark { at, label: label.to_owned() });
        figure.limit = match key {
            "ttft_s" => limit("ttft_s").and_then(|at| mark(at, "limit")),
            _ => None,
        };
        groups.iter_mut().filter(|g| g.title == title).for_each(|g| g.figures.push(figure.clone()));
    }
    Ok(groups)
}

/// Returns the parts of the memory.
fn memory(doc: &Doc<'_>) -> Result<Option<Block>, Error> {
    let Some(memory) = doc.find("memory") else { return Ok(None) };
    let mut group = Group::new("Memory", "", Unit::Bytes, Some(Better::Lower));
    for (name, key) in [
        ("weights", "weight_bytes"),
        ("keys and values", "kv_bytes"),
        ("recurrent states", "state_bytes"),
        ("workspace", "workspace_bytes"),
        ("total", "total_bytes"),
    ] {
        let value = memory.number(key)?;
        if value > 0.0 {
            group.figures.push(Figure::new(name, value, None));
        }
    }
    let available = doc.get("machine")?.find_number("memory_bytes");
    let marks =
        available.map(|at| Mark { at, label: "memory of the machine".to_owned() }).into_iter().collect();
    let row =
        |figure: &Figure| crate::chart::Row { label: figure.name.clone(), values: vec![Some(figure.value)] };
    Ok(Some(group.drawn(vec![String::new()], group.figures.iter().map(row).collect(), marks)))
}

/// Adds the measured rates of `--check`, and returns their table.
fn checked(doc: &Doc<'_>, run: &mut Run) -> Result<Option<Table>, Error> {
    let tests = doc.items_or_none("check")?;
    if tests.is_empty() {
        return Ok(None);
    }
    let mut table = Table::new(&["test", "#predicted t/s", "#measured t/s", "#lowest", "#highest", "#error"]);
    let mut groups = [("Check: prompts", "pp"), ("Check: answers", "tg")]
        .map(|(title, prefix)| (Group::new(title, "speed", RATE, None), prefix));
    for test in &tests {
        let (name, predicted) = (test.need_text("test")?, test.number("predicted")?);
        let measured = test.estimate("measured")?;
        let (low, high) = measured.interval.unwrap_or((measured.value, measured.value));
        let error = format!("{:+.0} %", 100.0 * (predicted / measured.value - 1.0));
        table.add([name.to_owned(), rate(predicted), rate(measured.value), rate(low), rate(high), error]);
        let figure = Figure { beside: Some(measured), ..Figure::new(name, predicted, None) };
        groups
            .iter_mut()
            .filter(|(_, prefix)| name.starts_with(prefix))
            .for_each(|(g, _)| g.figures.push(figure.clone()));
    }
    run.groups
        .splice(0..0, groups.into_iter().map(|(group, _)| group).filter(|group| !group.figures.is_empty()));
    Ok(Some(table))
}

fn table(doc: &Doc<'_>) -> Result<Table, Error> {
    let mut table = Table::new(&["figure", "#value", "#low", "#high"]);
    for (title, name, key, unit, _) in FIGURES {
        let Some(value) = estimate(doc, key) else { continue };
        let (low, high) = value.interval.unwrap_or((value.value, value.value));
        let name = Group::new(title, "", unit, None).name_of(name);
        table.add([name, unit.text(value.value), unit.text(low), unit.text(high)]);
    }
    Ok(table)
}

fn facts(doc: &Doc<'_>) -> Result<Vec<(String, String)>, Error> {
    let (model, machine, load) = (doc.get("model")?, doc.get("machine")?, doc.get("workload")?);
    let mut facts = Vec::new();
    let mut add = |label: &str, text: Option<String>| facts.extend(text.map(|text| (label.to_owned(), text)));
    let shown = |doc: &Doc<'_>, key: &str| doc.find(key).map(|value| value.shown());
    add("model", shown(&model, "file"));
    add("architecture", shown(&model, "architecture"));
    add("parameters", model.find_number("parameters").map(|n| format!("{} million", rate(n / 1e6))));
    add("types of weights", shown(&model, "types"));
    add("machine", shown(&machine, "name"));
    add("kernels", shown(&machine, "class"));
    add("cores", shown(&machine, "cores"));
    let origin = if machine.is_true("measured") { "measured" } else { "from specifications" };
    add(
        "read bandwidth",
        estimate(&machine, "read_bytes").map(|x| format!("{} GB/s, {origin}", rate(x.value / 1e9))),
    );
    for (label, key) in
        [("products of int8", "int8"), ("products of f32", "f32"), ("products of bf16", "bf16")]
    {
        let peak = machine.find("peaks").and_then(|peaks| peaks.find_number(key));
        add(label, peak.map(|n| format!("{} G/s", rate(n / 1e9))));
    }
    for (label, key) in [
        ("users", "users"),
        ("tokens of a prompt", "prompt"),
        ("tokens of an answer", "output"),
        ("tokens of context", "context"),
        ("tokens of a step", "step_tokens"),
        ("keys and values", "kv_type"),
    ] {
        add(label, shown(&load, key));
    }
    add("cost of an hour", estimate(doc, "costs.per_hour").map(|x| Unit::Dollars.text(x.value)));
    if let Some(errors) = doc.find("errors") {
        for (label, key) in [
            ("prompts", "prefill"),
            ("one sequence", "decode"),
            ("several sequences", "together"),
            ("encoders", "encoder"),
        ] {
            let Some(error) = errors.find(key) else { continue };
            let [median, worst] =
                ["median_error", "worst_error"].map(|key| error.find_number(key).unwrap_or(0.0) * 100.0);
            let count = error.find_number("count").unwrap_or(0.0);
            add(
                &format!("error of {label}"),
                Some(format!("median {median:.0} %, worst {worst:.0} % of {count}")),
            );
        }
    }
    Ok(facts)
}

fn machines(doc: &Doc<'_>) -> Result<Run, Error> {
    let all = doc.items("machines")?;
    let first = all.first().ok_or_else(|| Error::field("machines", "is empty"))?;
    let name = file_name(first.get("model")?.need_text("file")?).to_owned();
    let labels = all.iter().map(|plan| Ok(plan.get("machine")?.need_text("name")?.to_owned()));
    let labels = labels.collect::<Result<Vec<_>, Error>>()?;
    let mut run = ranking(&all, &labels);
    run.title = format!("Machines for {name}");
    let fitting = all.iter().filter(|plan| plan.is_true("fits")).count();
    let text = format!(
        "{fitting} of {} machines have the memory for the model; the first of the table is {}.",
        all.len(),
        labels[0]
    );
    run.headline = Some(Headline { tone: Tone::Plain, word: String::new(), text });
    let missing = doc.items_or_none("not_compared")?;
    let row = |row: &Doc<'_>| Some((row.text("machine")?.to_owned(), row.text("error")?.to_owned()));
    let missing: Vec<(String, String)> = missing.iter().filter_map(row).collect();
    if !missing.is_empty() {
        run.sections.push(Section::new("Not compared", vec![Block::Facts(missing)]));
    }
    run.sections.push(Section::new("Load", vec![Block::Facts(facts(first)?)]));
    run.name = name;
    Ok(run)
}

fn types(doc: &Doc<'_>) -> Result<Run, Error> {
    let all = doc.items("types")?;
    let labels =
        all.iter().map(|row| Ok(row.need_text("type")?.to_owned())).collect::<Result<Vec<_>, Error>>()?;
    let mut run = ranking(&all, &labels);
    run.name = doc.text("file").map_or("types of weights", file_name).to_owned();
    run.title = doc
        .text("file")
        .map_or("Types of weights".to_owned(), |_| format!("Types of weights for {}", run.name));
    Ok(run)
}

/// Returns figures of several plans, a row for each.
fn ranking(all: &[Doc<'_>], labels: &[String]) -> Run {
    let mut groups = Vec::new();
    let mut columns = Vec::new();
    for (title, key, unit, better) in RANKED {
        let mut group = Group::new(title, "", unit, Some(better));
        let values: Vec<Option<Estimate>> = all.iter().map(|plan| estimate(plan, key)).collect();
        for (label, value) in labels.iter().zip(&values) {
            group.figures.extend(value.map(|v| Figure::new(label.clone(), v.value, v.interval)));
        }
        let known = values.iter().flatten().map(|v| v.value);
        group.axis.extent = if unit == Unit::Dollars { Extent::of(known) } else { Extent::Zero };
        // Figures that are the same for all, or as those before, tell nothing.
        let is_new = columns.iter().all(|(_, _, known)| *known != values);
        let differ = values.iter().any(|value| *value != values[0]) || values.len() == 1;
        if !group.figures.is_empty() && is_new && differ {
            columns.push((title, unit, values));
            groups.push(group);
        }
    }
    let mut head = vec!["".to_owned(), "fits".to_owned()];
    head.extend(columns.iter().map(|(title, ..)| format!("#{title}")));
    let mut table = Table::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
    for (i, (plan, label)) in all.iter().zip(labels).enumerate() {
        let fits = match plan.find("fits") {
            Some(_) if plan.is_true("fits") => Cell { text: "yes".to_owned(), tone: Tone::Good },
            Some(_) => Cell { text: "no".to_owned(), tone: Tone::Bad },
            None => Cell::from("–"),
        };
        let values = columns.iter().map(|(_, unit, values)| {
            Cell::from(values.get(i).copied().flatten().map_or("–".to_owned(), |v| unit.text(v.value)))
        });
        table.add([Cell::from(label.as_str()), fits].into_iter().chain(values));
    }
    let sections = vec![Section::new("All figures", vec![Block::Table(table)])];
    Run { groups, sections, ..Run::default() }
}
