//! Report of a plan for people.

use std::io::Write;

use leyden_plan::{Figures, Interval, Kind, Rival, TCO_YEARS, grades, summary};

use super::args::Args;
use super::check::Checked;
use super::planned::{Plan, Speed, rival};
use super::typed::{rate, types, write_types};
use crate::cli::failure::Failure;
use crate::cli::terminal;
use crate::cli::text::{Facts, Table, bytes, count, plural, printable};

/// Writes the report.
pub(super) fn write(
    args: &Args,
    plan: &Plan,
    checked: Option<&[Checked]>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    head(plan).write(out)?;
    writeln!(out)?;
    speed(plan).write(out)?;
    writeln!(out)?;
    let typed = types(args, &plan.model, &plan.machine, &plan.load)?;
    write_types(&typed, out)?;
    writeln!(out)?;
    costs(args, plan).write(out)?;
    if let Some(checked) = checked {
        writeln!(out)?;
        write_checked(checked, out)?;
    }
    writeln!(out)?;
    let errors = errors(plan)?;
    writeln!(out, "{}", terminal::folded(&errors, terminal::columns_of_output(), 0))?;
    Ok(())
}

/// Returns model, machine, workload and memory.
fn head(plan: &Plan) -> Facts {
    let (model, machine, load) = (&plan.model, &plan.machine, &plan.load);
    let mut facts = Facts::default();
    let parameters = count(model.parameters());
    let architecture = model.config.architecture;
    facts.add(
        "model",
        format!(
            "{}: {architecture}, {parameters} parameters, {}",
            printable(&model.file, 200),
            model.types_name()
        ),
    );
    let origin = if machine.measured { "measured now" } else { "from specifications" };
    facts.add(
        "machine",
        format!(
            "{}: {}, {}; {:.1} GB/s read, {:.0} G multiply-adds of int8 per second, {origin}",
            machine.name,
            plural(machine.cores, "core"),
            machine.class.name(),
            machine.read_bytes.value / 1e9,
            machine.peaks.int8 / 1e9,
        ),
    );
    facts.add(
        "workload",
        match &plan.speed {
            Speed::Tokens(_) => format!(
                "{}, prompts of {} and answers of {} tokens, context of {} tokens each, keys and values {}",
                plural(load.users, "user"),
                load.prompt,
                load.output,
                load.context,
                load.kv_type
            ),
            Speed::Documents(_) => format!("documents of {} tokens", load.prompt),
        },
    );
    let parts = &plan.memory;
    let types: Vec<String> = parts.weights.iter().map(|t| format!("{} {}", t.name, bytes(t.bytes))).collect();
    facts.add("weights", format!("{} ({})", bytes(parts.weight_bytes), types.join(", ")));
    if parts.kv_token_bytes > 1 {
        facts.add("KV cache", format!("{} ({} a token)", bytes(parts.kv_bytes), bytes(parts.kv_token_bytes)));
    }
    if parts.state_bytes > 0 {
        facts.add("states", format!("{} of recurrent layers", bytes(parts.state_bytes)));
    }
    facts.add("workspace", bytes(parts.workspace_bytes));
    let verdict = match (machine.memory_bytes, plan.fits()) {
        (Some(available), Some(true)) => format!("fits the {} of memory", bytes(available)),
        (Some(available), _) => format!("does not fit the {} of memory", bytes(available)),
        (None, _) => "the memory of the machine is not known; --memory states it".to_owned(),
    };
    facts.add("total", format!("{}: {verdict}", bytes(parts.total_bytes)));
    facts
}

/// Returns the table of predicted rates.
fn speed(plan: &Plan) -> Table {
    let mut table = Table::new(&["predicted", "value", "low", "high"], &[1, 2, 3]);
    let mut add = |name: &str, x: Interval| {
        table.add([name.to_owned()].into_iter().chain([x.value, x.low, x.high].map(rate)).collect());
    };
    match &plan.speed {
        Speed::Tokens(f) => {
            let Figures { prefill_tps, decode_tps, decode_tps_all, ttft_s, ttft_burst_s, .. } = **f;
            add("prefill, t/s", prefill_tps);
            add(if plan.load.users > 1 { "decode, t/s per user" } else { "decode, t/s" }, decode_tps);
            if plan.load.users > 1 {
                add("decode, t/s of all users", decode_tps_all);
            }
            add("TTFT, s", ttft_s);
            if plan.load.users > 1 {
                add("TTFT of the last if all come at once, s", ttft_burst_s);
                add("steady use, t/s per user", f.user_tps);
            }
            add("steady use, t/s of all, prompts included", f.output_tps);
            add("requests per hour", f.requests_per_hour);
            if let Some((slo, users)) = &plan.slo {
                let ttft = slo.ttft_s.map(|s| format!("TTFT of at most {s} s"));
                let tps = slo.user_tps.map(|n| format!("at least {n} t/s each"));
                let limits: Vec<String> = ttft.into_iter().chain(tps).collect();
                let cells = [users.value, users.low, users.high].map(|n| format!("{n:.0}"));
                let name = format!("users with {}", limits.join(" and "));
                table.add([name].into_iter().chain(cells).collect());
            }
        }
        Speed::Documents(f) => {
            add("documents per hour", f.documents_per_hour);
            add("documents per second", f.documents_per_second);
            add("tokens per second", f.tokens_per_second);
            add("one document alone, ms", f.latency_s.times(1e3));
        }
    }
    table
}

/// Returns prices, or the options that they need.
fn costs(args: &Args, plan: &Plan) -> Facts {
    let mut facts = Facts::default();
    let (prices, costs) = (&plan.prices, &plan.costs);
    let dollars = |x: Interval| format!("${:.2} ({:.2} to {:.2})", x.value, x.low, x.high);
    let busy = format!("at a utilisation of {:.0} %", prices.utilisation * 100.0);
    match costs.per_hour {
        Some(hour) => facts.add("cost", format!("${hour:.4} an hour")),
        None => facts
            .add("cost", "the price of the machine is not known; --price-per-hour or --purchase states it"),
    }
    for (name, price) in [
        ("input", costs.per_million_input),
        ("output", costs.per_million_output),
        ("both", costs.per_million_output_all),
    ] {
        let of = match name {
            "input" => "a million input tokens",
            "output" => "a million output tokens",
            _ => "a million output tokens with their prompts",
        };
        if let Some(price) = price {
            facts.add(name, format!("{} {of}, {busy}", dollars(price)));
        }
    }
    if let Some(price) = plan.per_million_documents() {
        facts.add("documents", format!("{} a million, {busy}", dollars(price)));
    }
    if let Some(joules) = costs.joules_per_output_token {
        let Interval { value, low, high } = joules;
        facts.add("energy", format!("{value:.2} J an output token ({low:.2} to {high:.2})"));
    }
    if let (Some(tco), Some(rival)) = (costs.tco, rival(args)) {
        let other = match rival {
            Rival::Api { input, output } => format!("the API at ${input} and ${output} a million tokens"),
            Rival::Gpu { per_hour, .. } => {
                let n = tco.gpus.map_or(1.0, |n| n.value);
                format!("{} at ${per_hour} an hour", plural(n as usize, "GPU"))
            }
        };
        let Interval { value, low, high } = tco.rival;
        facts.add(
            &format!("{TCO_YEARS:.0} years"),
            format!("${:.0} for the machine; ${value:.0} ({low:.0} to {high:.0}) for {other}, for the same tokens", tco.machine),
        );
    }
    facts
}

fn write_checked(checked: &[Checked], out: &mut dyn Write) -> Result<(), Failure> {
    let mut table = Table::new(
        &["check", "predicted t/s", "measured t/s", "lowest", "highest", "error"],
        &[1, 2, 3, 4, 5],
    );
    for Checked { test, predicted, measured, .. } in checked {
        let error = (predicted / measured.value - 1.0) * 100.0;
        let cells = [*predicted, measured.value, measured.low, measured.high].map(rate);
        table.add([test.clone()].into_iter().chain(cells).chain([format!("{error:+.0} %")]).collect());
    }
    Ok(table.write(out)?)
}

/// Returns the sentence about the errors of the nearest recorded measurements.
fn errors(plan: &Plan) -> Result<String, Failure> {
    let all = grades()?;
    let kinds: &[(&str, Kind)] = match &plan.speed {
        Speed::Tokens(_) if plan.load.users > 1 => &[
            ("prompts", Kind::Prefill),
            ("one sequence", Kind::Decode),
            ("several sequences", Kind::Together),
        ],
        Speed::Tokens(_) => &[("prompts", Kind::Prefill), ("one sequence", Kind::Decode)],
        Speed::Documents(_) => &[("encoders", Kind::Encoder)],
    };
    let mut parts = Vec::new();
    let mut other = false;
    for (name, kind) in kinds {
        let Some(s) = summary(&all, plan.machine.class, *kind) else { continue };
        other |= !s.same_class;
        let [median, worst] = [s.median_error, s.worst_error].map(|e| e * 100.0);
        parts.push(format!("{name}: median {median:.0} %, worst {worst:.0} % of {}", s.count));
    }
    let class = plan.machine.class.name();
    let whose = if other {
        "other processors, as nothing was measured on this kind".to_owned()
    } else {
        class.to_owned()
    };
    Ok(format!("error of these predictions against recorded measurements of {whose}: {}", parts.join("; ")))
}
