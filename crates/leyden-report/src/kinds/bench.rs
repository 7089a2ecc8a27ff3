//! `leyden bench`: rates of tests.

use super::document::Doc;
use crate::chart::{Axis, Estimate, Extent};
use crate::error::Error;
use crate::html::file_name;
use crate::page::{Block, Cell, Headline, Section, Table, Tone};
use crate::run::{About, Better, Figure, Group, Lines, Run};
use crate::unit::{Unit, number, rate};
use serde_json::Value;

const RATE: Unit = Unit::Rate("t/s");

/// Test of a document.
struct Test<'v> {
    doc: Doc<'v>,
    prompt: f64,
    generate: f64,
    depth: f64,
    parallel: f64,
    batch: f64,
    threads: f64,
    rate: Estimate,
    other: Option<Estimate>,
}

pub(super) fn is_one(document: &Value) -> bool {
    document.get("tests").is_some()
}

pub(super) fn read(doc: &Doc<'_>) -> Result<Run, Error> {
    let tests = doc.items("tests")?.into_iter().map(test).collect::<Result<Vec<_>, _>>()?;
    let first = tests.first().ok_or_else(|| Error::field("tests", "is empty"))?;
    let file = first.doc.need_text("model_filename")?;
    let name = file_name(file).to_owned();
    let mut groups = Vec::new();
    for (title, picked) in [
        ("Prompts (prefill)", (true, false)),
        ("Answers (decode)", (false, true)),
        ("Prompts and answers", (true, true)),
    ] {
        let mut group = Group::new(title, "speed", RATE, Some(Better::Higher));
        for test in tests.iter().filter(|t| (t.prompt > 0.0, t.generate > 0.0) == picked) {
            let figure = Figure::new(test.name(&tests), test.rate.value, test.rate.interval);
            group.figures.push(Figure { beside: test.other, ..figure });
        }
        groups.push(group);
    }
    Ok(Run {
        title: format!("Speed of {name}"),
        headline: headline(&tests),
        about: About {
            command: String::new(),
            program: doc.text("version").map_or(String::new(), |version| format!("leyden {version}")),
            machine: match doc.find("about") {
                Some(_) => String::new(),
                None => first.doc.text("cpu_info").unwrap_or_default().to_owned(),
            },
            date: first.doc.text("test_time").unwrap_or_default().to_owned(),
        },
        names: ["leyden", "other"],
        groups,
        lines: lines(&tests),
        sections: vec![Section::new("Tests", vec![Block::Table(table(&tests)), Block::Facts(facts(doc, first))])],
        notes: vec![
            "Rates are medians of the repetitions; lines over bars go from the lowest to the highest. Prompts are random \
             tokens, and nothing is sampled."
                .to_owned(),
        ],
        name,
        ..Run::default()
    })
}

fn test(doc: Doc<'_>) -> Result<Test<'_>, Error> {
    let middle = |samples: &[f64]| {
        let mut sorted: Vec<f64> = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        let (a, b) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Estimate { value: (a + b) / 2.0, interval: (low < high).then_some((low, high)) })
    };
    let samples = doc.numbers("samples_ts");
    let rate = match middle(&samples) {
        Some(rate) => rate,
        None => Estimate::exact(doc.number("avg_ts")?),
    };
    let users = doc.find_number("parallel").unwrap_or(1.0) * doc.find_number("replicas").unwrap_or(1.0);
    let of_one = |n: f64| if users > 1.0 { n / users } else { n };
    Ok(Test {
        prompt: of_one(doc.number("n_prompt")?),
        generate: of_one(doc.number("n_gen")?),
        depth: doc.find_number("n_depth").unwrap_or(0.0),
        parallel: doc.find_number("parallel").unwrap_or(1.0),
        batch: doc.find_number("n_batch").unwrap_or(0.0),
        threads: doc.find_number("n_threads").unwrap_or(0.0),
        other: doc.find("versus").and_then(|versus| middle(&versus.numbers("samples_ts"))),
        rate,
        doc,
    })
}

impl Test<'_> {
    /// Returns the name of the test among others, as `leyden bench` writes it.
    fn name(&self, all: &[Test<'_>]) -> String {
        let mut name = match (self.prompt > 0.0, self.generate > 0.0) {
            (true, true) => format!("pp{}+tg{}", self.prompt, self.generate),
            (_, false) => format!("pp{}", self.prompt),
            (false, true) => format!("tg{}", self.generate),
        };
        if self.parallel > 1.0 {
            name += &format!(" x{}", self.parallel);
        }
        if self.depth > 0.0 {
            name += &format!(" @ d{}", self.depth);
        }
        let replicas = |test: &Test<'_>| test.doc.find_number("replicas").unwrap_or(1.0);
        if all.iter().any(|other| replicas(other) != replicas(self)) {
            name += &format!(", {} replicas", replicas(self));
        }
        if all.iter().any(|other| other.threads != self.threads) {
            name += &format!(", {} threads", self.threads);
        }
        if all.iter().any(|other| other.batch != self.batch) {
            name += &format!(", batch {}", self.batch);
        }
        name
    }
}

/// Returns the rates of one prompt and one answer in a sentence.
fn headline(tests: &[Test<'_>]) -> Option<Headline> {
    let alone = |t: &&Test<'_>| t.parallel == 1.0 && t.depth == 0.0;
    let prompt = tests.iter().filter(alone).find(|t| t.prompt > 0.0 && t.generate == 0.0);
    let answer = tests.iter().filter(alone).find(|t| t.prompt == 0.0 && t.generate > 0.0);
    let read = prompt.map(|t| format!("reads {} tokens of a prompt per second", rate(t.rate.value)));
    let write = answer.map(|t| format!("generates {} per second", rate(t.rate.value)));
    let parts: Vec<String> = read.into_iter().chain(write).collect();
    let text = format!("The model {}.", parts.join(", and "));
    (!parts.is_empty()).then_some(Headline { tone: Tone::Plain, word: String::new(), text })
}

/// Returns curves over tests that differ in one number alone.
fn lines(tests: &[Test<'_>]) -> Vec<Lines> {
    type Pick = fn(&Test<'_>) -> f64;
    let picks: [(&str, &str, Pick); 4] = [
        ("number of sequences", "sequences", |t| t.parallel),
        ("depth of the cache", "tokens in the cache", |t| t.depth),
        ("threads", "threads", |t| t.threads),
        ("length", "tokens", |t| t.prompt.max(t.generate)),
    ];
    let key = |test: &Test<'_>, without: usize| -> Vec<u64> {
        let all = picks.iter().enumerate().filter(|(i, _)| *i != without).map(|(_, (.., pick))| pick(test));
        all.chain([test.batch]).map(f64::to_bits).collect()
    };
    let mut found = Vec::new();
    for (kind, of_prompts) in [("Prompts", true), ("Answers", false)] {
        let all: Vec<&Test<'_>> = tests
            .iter()
            .filter(|t| (t.prompt > 0.0) == of_prompts && (t.generate > 0.0) != of_prompts)
            .collect();
        for (i, (what, label, pick)) in picks.iter().enumerate() {
            let Some(first) = all.first() else { continue };
            let mut same: Vec<&&Test<'_>> = all.iter().filter(|t| key(t, i) == key(first, i)).collect();
            same.sort_by(|a, b| pick(a).total_cmp(&pick(b)));
            same.dedup_by(|a, b| pick(a) == pick(b));
            if same.len() < 2 {
                continue;
            }
            let axis = |label: &str, unit| Axis { label: label.to_owned(), unit, extent: Extent::Zero };
            found.push(Lines {
                title: format!("{kind} by {what}"),
                x: axis(label, Unit::Number("")),
                y: axis("speed", RATE),
                points: same.iter().map(|t| (pick(t), t.rate.value)).collect(),
                band: same.iter().map(|t| t.rate.interval.unwrap_or((t.rate.value, t.rate.value))).collect(),
                limit: None,
            });
        }
    }
    found
}

fn table(tests: &[Test<'_>]) -> Table {
    let any = |has: fn(&Test<'_>) -> bool| tests.iter().any(has);
    let (several, joules) = (any(|t| t.parallel > 1.0), any(|t| t.doc.find("joules_per_token").is_some()));
    let (shares, others) = (any(|t| t.doc.find("share").is_some()), any(|t| t.other.is_some()));
    let mut head = vec!["test", "#threads", "#t/s", "#lowest", "#highest", "#samples"];
    head.extend(
        [(several, "#t/s each"), (joules, "#J/token"), (shares, "share of a peak")]
            .iter()
            .filter(|c| c.0)
            .map(|c| c.1),
    );
    if others {
        head.extend(["#other t/s", "#ratio", "#lowest", "#highest"]);
    }
    let mut table = Table::new(&head);
    for test in tests {
        let (low, high) = test.rate.interval.unwrap_or((test.rate.value, test.rate.value));
        let mut row = vec![test.name(tests), test.threads.to_string()];
        row.extend([test.rate.value, low, high].map(rate));
        row.push(test.doc.numbers("samples_ts").len().to_string());
        let field = |key: &str| test.doc.find_number(key).map_or(String::new(), number);
        if several {
            row.push(test.doc.find_number("per_user_ts").map_or(String::new(), rate));
        }
        if joules {
            row.push(field("joules_per_token"));
        }
        if shares {
            let of = test.doc.text("share_of").unwrap_or_default();
            row.push(
                test.doc
                    .find_number("share")
                    .map_or(String::new(), |s| format!("{:.0} % of {of}", 100.0 * s)),
            );
        }
        if others {
            let versus = test.doc.find("versus");
            let of = |key: &str| versus.as_ref().and_then(|v| v.find_number(key)).map_or(String::new(), rate);
            row.extend(["median_ts", "ratio", "lowest_ratio", "highest_ratio"].map(of));
        }
        table.add(row.into_iter().map(Cell::from));
    }
    table
}

fn facts(doc: &Doc<'_>, first: &Test<'_>) -> Vec<(String, String)> {
    let test = &first.doc;
    let mut facts = Vec::new();
    let mut add = |label: &str, text: Option<String>| {
        facts.extend(text.filter(|text| !text.is_empty()).map(|text| (label.to_owned(), text)));
    };
    let text = |key: &str| test.text(key).map(str::to_owned);
    add("model", text("model_filename"));
    add("type", text("model_type"));
    add("size", test.find_number("model_size").map(|n| Unit::Bytes.text(n)));
    add("parameters", test.find_number("model_n_params").map(|n| format!("{} million", rate(n / 1e6))));
    add("keys and values", text("type_k"));
    add("instruction set", text("tier"));
    if let Some(peaks) = doc.find("ceilings") {
        for (label, key, unit) in [
            ("read bandwidth", "read_bytes_per_second", "GB/s"),
            ("products of int8", "int8_products_per_second", "G/s"),
            ("products of f32", "f32_products_per_second", "G/s"),
            ("products of bf16", "bf16_products_per_second", "G/s"),
        ] {
            add(label, peaks.find_number(key).map(|n| format!("{} {unit} at most", rate(n / 1e9))));
        }
    }
    facts
}
