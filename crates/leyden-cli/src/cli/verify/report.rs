//! A verdict as text.

use std::io::{self, Write};
use std::path::Path;

use leyden_verify::{Evidence, Judgement, Key, LoadResult, Verdict};

use crate::cli::text::{Facts, plural};

/// Writes verdict and figures.
pub(super) fn print(document: &Evidence, path: &Path, key: &Key, out: &mut dyn Write) -> io::Result<()> {
    let mut facts = Facts::default();
    for floor in &document.floors {
        facts.add(floor.verdict.word(), judgement(floor));
    }
    if let Some(load) = &document.load {
        facts.add(load.verdict.word(), of_load(load, document));
    }
    let confidence = document.confidence().map(|c| format!(", confidence {}", sure(c))).unwrap_or_default();
    facts.add("verdict", format!("{}{confidence}", document.verdict.word()));
    facts.add("evidence", format!("{}, signed with the key {}", path.display(), &key.id()[..16]));
    facts.write(out)
}

/// One floor in a few lines.
fn judgement(floor: &Judgement) -> String {
    let reference = floor.reference.map(|r| format!(", reference {}", number(r))).unwrap_or_default();
    let bounds = match floor.bounds {
        Some((low, high)) => format!("95 % bounds {} and {}", number(low), number(high)),
        None => "too few for bounds".to_owned(),
    };
    let samples = plural(floor.samples, floor.unit.trim_end_matches('s'));
    let mut text = format!("{} on {}: {}{reference}\n", floor.floor, floor.data, number(floor.value));
    text += &format!(
        "{} is {}, {bounds}, limit {}; confidence {}, {samples}",
        floor.quantity,
        number(floor.estimate),
        number(floor.limit),
        sure(floor.confidence)
    );
    if let Some(pairs) = floor.pairs.filter(|_| floor.reference.is_some()) {
        let (model, reference) = (pairs.only_model, pairs.only_reference);
        text += &format!(", right by the model alone {model}, by the reference alone {reference}");
    }
    if floor.verdict == Verdict::Inconclusive {
        text += &format!("\n{}", more(floor));
    }
    text
}

fn of_load(load: &LoadResult, document: &Evidence) -> String {
    let given = document.settings.load.as_deref().unwrap_or_default();
    let mut text = format!(
        "{given}: {} complete, {} failed in {:.0} s, {:.1} answer tokens/s",
        load.completed, load.failed, load.seconds, load.output_tps
    );
    for limit in &load.limits {
        let unit = if limit.limit.starts_with("user_tps") { "tokens/s" } else { "s" };
        let value = limit.value.map_or("never".to_owned(), |value| format!("{} {unit}", number(value)));
        let samples = plural(limit.samples, "sample");
        text += &format!("\n{}: {value}, {samples}, {}", limit.limit, limit.verdict.word());
    }
    text
}

/// Returns the amount of data that would decide.
fn more(floor: &Judgement) -> String {
    match floor.needed {
        Some(n) => format!("about {n} {} would decide if the figures stay as they are", floor.unit),
        None => "the figure is at its limit: a million would not decide".to_owned(),
    }
}

/// Returns the conditions with this verdict.
pub(super) fn causes(document: &Evidence, verdict: Verdict) -> String {
    let floors = document.floors.iter().filter(|floor| floor.verdict == verdict);
    let mut all: Vec<String> = floors.map(|floor| format!("{} on {}", floor.floor, floor.data)).collect();
    let load = document.load.as_ref().filter(|load| load.verdict == verdict);
    let limits = load.map_or(&[][..], |load| &load.limits);
    all.extend(limits.iter().filter(|limit| limit.verdict == verdict).map(|limit| limit.limit.clone()));
    if let Some(load) = load.filter(|load| load.failed > 0) {
        all.push(format!("{} of the load failed", plural(load.failed, "request")));
    }
    all.join("; ")
}

/// Returns the advice for an inconclusive verdict.
pub(super) fn hint(document: &Evidence) -> String {
    let open: Vec<&Judgement> =
        document.floors.iter().filter(|floor| floor.verdict == Verdict::Inconclusive).collect();
    match open.iter().max_by_key(|floor| floor.needed.unwrap_or(usize::MAX)) {
        Some(floor) => format!("{}: {}", floor.floor, more(floor)),
        None => "give the load more time with duration=".to_owned(),
    }
}

/// Four significant digits.
fn number(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return format!("{x}");
    }
    let digits = (3 - x.abs().log10().floor() as i32).clamp(0, 9);
    format!("{x:.*}", digits as usize)
}

/// A confidence in percent, never rounded up to 100.
fn sure(confidence: f64) -> String {
    if confidence >= 0.9995 { "above 99.9 %".to_owned() } else { format!("{:.1} %", 100.0 * confidence) }
}
