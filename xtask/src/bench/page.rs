//! The benchmark page and the README's table, in Markdown.

use super::results::{Results, Serving, Test};
use std::fmt::Write as _;

/// Peers, in the order of the columns.
pub(super) const PEERS: [&str; 2] = ["llama.cpp", "ik_llama.cpp"];

const HEAD: &str = "\
<!-- Written by `cargo xtask bench-report` from bench/results. Do not edit. -->
# Benchmarks

![Q4_K_M on every machine: leyden's tokens per second as a multiple of each peer's](benchmarks.svg)

Each table is one machine: the newest file under `bench/results/MACHINE/`, which has the samples' ranges and the versions.
Models have random weights in real shapes: 1B is Llama-3.2-1B, 8B is Llama-3.1-8B, the others bear their names. `ppN` is the
prefill of N tokens, `tgN` the decode of N; t/s is tokens per second. A ratio is leyden's rate divided by the peer's, of medians of
samples taken in turn (A B A B) in one run, at equal threads, with the lowest and the highest pair in brackets. Bandwidth
is the share of the read bandwidth that was measured in the same run. The machines are shared: compare ratios, not rates.

";

/// Returns the text of `docs/benchmarks.md`.
pub(super) fn page(all: &[Results], serving: &Serving) -> String {
    let mut out = HEAD.to_owned();
    for results in all {
        machine(&mut out, results);
    }
    load(&mut out, serving);
    out += "## Adding results\n\n```sh\n\
        leyden bench -m MODEL -p 512 -n 32 -t 2 -r 5 --json --versus 'llama-bench' > run.json\n\
        cargo xtask bench-add MACHINE 1B Q4_K_M llama.cpp run.json   # into bench/results/MACHINE/TODAY.json\n\
        cargo xtask bench-report                                     # this page, the chart, the README's table\n```\n";
    out
}

fn machine(out: &mut String, r: &Results) {
    let _ = writeln!(out, "## {}\n", r.machine);
    let _ =
        write!(out, "{}; {} threads; {}; leyden at {}. `{}`", r.isa, r.threads, r.date, r.commit, r.command);
    for (name, version) in &r.peers {
        let _ = write!(out, "; {name}: {version}");
    }
    out.push('.');
    if let Some(c) = &r.ceilings {
        let _ = write!(out, " Peaks: {:.0} GB/s read", c.read_gb_s);
        for (what, peak) in [("int8", c.int8_gmac_s), ("f32", c.f32_gmac_s), ("bf16", c.bf16_gmac_s)] {
            if let Some(peak) = peak {
                let _ = write!(out, ", {peak:.0} GMAC/s {what}");
            }
        }
        out.push('.');
    }
    if let Some(note) = &r.note {
        let _ = write!(out, " Note: {note}.");
    }
    out.push_str("\n\n");
    let first = |decode| r.tests.iter().map(|t| t.test.as_str()).find(|t| is_plain(t, decode));
    let (prefill, decode) = (first(false).unwrap_or("pp"), first(true).unwrap_or("tg"));
    let _ = writeln!(
        out,
        "| model | {prefill}, t/s | / {0} | / {1} | {decode}, t/s | / {0} | / {1} | bandwidth |",
        PEERS[0], PEERS[1]
    );
    out.push_str("|---|---|---|---|---|---|---|---|\n");
    for (model, dtype) in models(r) {
        let find = |decode: bool, peer: Option<&str>| {
            r.tests.iter().find(|t| {
                t.model == model
                    && t.dtype == dtype
                    && is_plain(&t.test, decode)
                    && peer.is_none_or(|p| t.peer.as_deref() == Some(p))
            })
        };
        let rate = |t: Option<&Test>| t.map_or(String::new(), |t| format_rate(t.leyden_ts));
        let cell = |decode, peer| find(decode, Some(peer)).map_or(String::new(), ratio);
        let share =
            find(true, None).and_then(|t| t.share).map_or(String::new(), |s| format!("{:.0} %", s * 100.0));
        let _ = writeln!(
            out,
            "| {model} {dtype} | {} | {} | {} | {} | {} | {} | {share} |",
            rate(find(false, None)),
            cell(false, PEERS[0]),
            cell(false, PEERS[1]),
            rate(find(true, None)),
            cell(true, PEERS[0]),
            cell(true, PEERS[1]),
        );
    }
    let others: Vec<String> =
        r.tests.iter().filter(|t| !is_plain(&t.test, false) && !is_plain(&t.test, true)).map(other).collect();
    if !others.is_empty() {
        let _ = write!(out, "\nAlso: {}.\n", others.join("; "));
    }
    out.push('\n');
}

/// Returns true if a test is `tg` or `pp` and a number, and nothing more.
fn is_plain(test: &str, decode: bool) -> bool {
    test.strip_prefix(if decode { "tg" } else { "pp" }).is_some_and(|n| n.parse::<usize>().is_ok())
}

/// Returns every model and type of a machine, in the order of the file.
fn models(r: &Results) -> Vec<(&str, &str)> {
    let mut all: Vec<(&str, &str)> = Vec::new();
    for t in &r.tests {
        let key = (t.model.as_str(), t.dtype.as_str());
        if !all.contains(&key) {
            all.push(key);
        }
    }
    all
}

fn format_rate(rate: f64) -> String {
    if rate < 100.0 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}

fn ratio(t: &Test) -> String {
    let Some(ratio) = t.ratio else { return String::new() };
    match (t.ratio_low, t.ratio_high) {
        (Some(low), Some(high)) => format!("{ratio:.2} ({low:.2} to {high:.2})"),
        _ => format!("{ratio:.2}"),
    }
}

fn other(t: &Test) -> String {
    let mut text = format!("{} {} {}: {} t/s", t.model, t.dtype, t.test, format_rate(t.leyden_ts));
    if let (Some(peer), Some(ratio)) = (&t.peer, t.ratio) {
        let _ = write!(text, " ({ratio:.2} times {peer})");
    }
    text
}

fn load(out: &mut String, s: &Serving) {
    let _ = writeln!(out, "## Fifty users on one server\n\n{}; peer: {}.\n\n```sh", s.model, s.peer);
    for command in &s.commands {
        let _ = writeln!(out, "{command}");
    }
    out.push_str("```\n\n");
    for run in &s.runs {
        let _ = writeln!(out, "{}, {}, leyden at {}; {}:\n", run.machine, run.date, run.commit, run.load);
        out.push_str("| figure | leyden | llama-server |\n|---|---|---|\n");
        for (figure, ours, theirs) in &run.rows {
            let _ = writeln!(out, "| {figure} | {ours} | {theirs} |");
        }
        out.push('\n');
    }
}

/// Returns the README's table: Q4_K_M on every machine.
pub(super) fn headline(all: &[Results]) -> String {
    let mut out = format!(
        "| machine | model | prefill, t/s | / {0} | / {1} | decode, t/s | / {0} | / {1} |\n\
         |---|---|---|---|---|---|---|---|\n",
        PEERS[0], PEERS[1]
    );
    for r in all {
        for (model, dtype) in
            models(r).into_iter().filter(|(model, dtype)| ["1B", "8B"].contains(model) && *dtype == "Q4_K_M")
        {
            let mut cells = Vec::new();
            for decode in [false, true] {
                let tests: Vec<&Test> = r
                    .tests
                    .iter()
                    .filter(|t| t.model == model && t.dtype == dtype)
                    .filter(|t| is_plain(&t.test, decode))
                    .collect();
                cells.push(tests.first().map_or(String::new(), |t| format_rate(t.leyden_ts)));
                for peer in PEERS {
                    let of = tests.iter().find(|t| t.peer.as_deref() == Some(peer));
                    cells.push(of.and_then(|t| t.ratio).map_or(String::new(), |x| format!("{x:.2}")));
                }
            }
            let _ = writeln!(out, "| {} | {model} {dtype} | {} |", r.machine, cells.join(" | "));
        }
    }
    out
}
