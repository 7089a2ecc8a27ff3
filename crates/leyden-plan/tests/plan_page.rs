//! `docs/plan.md`: its tables of machines, sources and errors, generated.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use leyden_compress::Target;
use leyden_kernels::attention::KvType;
use leyden_plan::{
    Fact, KernelClass, Kind, Machine, ModelFacts, Prices, Stated, Table, Workload, costs, figures, grades,
    summary,
};
use leyden_tensor::{DType, Json};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

const BEGIN: &str = "<!-- Written by a test from here on. Do not edit. -->\n";

fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/plan.md")
}

/// Returns the generated part.
fn generated() -> String {
    let mut text = String::from(BEGIN);
    published(&mut text);
    errors(&mut text);
    machines(&mut text);
    text
}

fn model(shape: &str, types: &str) -> ModelFacts {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("data/shapes/{shape}.json"));
    let json = Json::parse(&fs::read(path).unwrap(), shape).unwrap();
    ModelFacts::of_json(&json, DType::F16).unwrap().with_types(Target::from_name(types).unwrap())
}

fn machine(name: &str, stated: &Stated) -> Machine {
    Table::read().unwrap().find(name).unwrap().machine(stated).unwrap()
}

/// Figures that others published for other programs, beside predictions for leyden.
fn published(text: &mut String) {
    text.push_str(
        "\n## Published figures of other programs\n\n\
         Predictions are for leyden, one user, a prompt of 512 tokens and an answer of 128; the published programs are others, and \
         their prompts are not stated.\n\n\
         | machine | model | figure | published | predicted (low to high) |\n|---|---|---|---|---|\n",
    );
    let load =
        Workload { users: 1, prompt: 512, output: 128, context: 640, step_tokens: 512, kv_type: KvType::F16 };
    // The bandwidth with which Q8_0 reads as fast as published: it is not stated.
    let stated = Stated { read_bytes: Some(92e9), ..Stated::default() };
    let a2 = machine("oci-a2-16", &stated);
    for (types, tps, dollars) in [("Q4_K_M", 11.5, 4.6), ("Q8_0", 9.2, 5.7)] {
        let f = figures(&model("llama-3.1-8b", types), &a2, &load);
        let d = f.decode_tps;
        let prices = Prices { per_hour: Some(0.19), utilisation: 1.0, ..Prices::default() };
        let price = costs(&f, [load.prompt, load.output], &prices, None).per_million_output.unwrap();
        let row = format!("| oci-a2-16, `--bandwidth 92` | Llama 3.1 8B {types}");
        let _ =
            writeln!(text, "{row} | decode, t/s | {tps} | {:.1} ({:.1} to {:.1}) |", d.value, d.low, d.high);
        let _ = writeln!(
            text,
            "{row} | $ a million output tokens, busy, at $0.19 an hour | {dollars} | {:.1} ({:.1} to {:.1}) |",
            price.value, price.low, price.high
        );
    }
    let epyc = machine("epyc-9334-x2", &Stated::default());
    for (shape, name, types, ttft, tps) in [
        ("llama-3.1-8b", "DeepSeek-R1-8B", "Q4_K_M", 4.1, 27.8),
        ("gpt-oss-20b", "gpt-oss-20b", "MXFP4", 3.6, 18.3),
    ] {
        let f = figures(&model(shape, types), &epyc, &load);
        let row = format!("| epyc-9334-x2 | {name} {types}");
        for (figure, said, x) in [("TTFT, s", ttft, f.ttft_s), ("decode, t/s", tps, f.decode_tps)] {
            let _ = writeln!(
                text,
                "{row} | {figure} | {said} | {:.1} ({:.1} to {:.1}) |",
                x.value, x.low, x.high
            );
        }
    }
}

/// Every recorded measurement with its prediction.
fn errors(text: &mut String) {
    let all = grades().unwrap();
    text.push_str(
        "\n## Errors\n\nAbsolute errors of the predictions of all recorded measurements, by kernels:\n\n\
         | kernels | test | measurements | median | worst |\n|---|---|---|---|---|\n",
    );
    let kinds = [
        ("prompts", Kind::Prefill),
        ("one sequence", Kind::Decode),
        ("several sequences", Kind::Together),
        ("encoders", Kind::Encoder),
    ];
    for class in KernelClass::all() {
        for (name, kind) in kinds {
            let Some(s) = summary(&all, class, kind).filter(|s| s.same_class) else { continue };
            let [median, worst] = [s.median_error, s.worst_error].map(|e| e * 100.0);
            let _ =
                writeln!(text, "| {} | {name} | {} | {median:.0} % | {worst:.0} % |", class.name(), s.count);
        }
    }
    text.push_str(
        "\nEach of them (t/s; sequences per second of encoders):\n\n| machine | model | test | measured | predicted | error |\n|---|---|---|---|---|---|\n",
    );
    for g in &all {
        let error = g.error() * 100.0;
        let _ = writeln!(
            text,
            "| {} | {} {} | {} | {:.1} | {:.1} | {error:+.0} % |",
            g.folder, g.model, g.types, g.test, g.measured, g.predicted
        );
    }
}

/// The table of machines, and its sources.
fn machines(text: &mut String) {
    let table = Table::read().unwrap();
    text.push_str(
        "\n## Machines\n\nEach number has its source in brackets; GB/s are those of the memory modules; `-` has no source and is stated by an option.\n\n\
         | name | processor | kernels | cores | cores of the socket | GHz | GB/s | GiB | $ an hour | W |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let place = |fact: Fact| table.sources.iter().position(|s| s.id == fact.source.id).map_or(0, |i| i + 1);
    let cell = |fact: Option<Fact>| fact.map_or("-".to_owned(), |f| format!("{} [{}]", f.value, place(f)));
    for r in &table.rows {
        let clock = match r.clock_max_ghz {
            Some(max) => format!("{} to {}", cell(r.clock_ghz), cell(Some(max))),
            None => cell(r.clock_ghz),
        };
        let cells = [r.memory_gib, r.price_usd_h, r.watts].map(cell).join(" | ");
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {clock} | {} | {cells} |",
            r.name,
            r.processor,
            r.class.name(),
            cell(r.cores),
            cell(r.socket_cores),
            cell(r.bandwidth_gb_s),
        );
    }
    text.push('\n');
    for (i, s) in table.sources.iter().enumerate() {
        let _ = writeln!(text, "{}. {}: {}; <{}>", i + 1, s.date, s.says, s.address);
    }
}

#[test]
fn the_page_is_up_to_date() {
    let found = fs::read_to_string(page()).unwrap();
    let at = found.find(BEGIN).expect("the page has a generated part");
    let how = "cargo test --release -p leyden-plan --test plan_page -- --ignored";
    assert!(found[at..] == generated(), "docs/plan.md is not up to date; write it: {how}");
}

#[test]
#[ignore = "writes docs/plan.md: cargo test --release -p leyden-plan --test plan_page -- --ignored"]
fn write_the_page() {
    let found = fs::read_to_string(page()).unwrap();
    let at = found.find(BEGIN).unwrap_or(found.len());
    fs::write(page(), format!("{}{}", &found[..at], generated())).unwrap();
}
