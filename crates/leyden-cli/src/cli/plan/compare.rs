//! `--compare`: machines or types of weights, ranked.

use std::io::Write;

use leyden_compress::Target;
use leyden_plan::{Error, Machine, ModelFacts, Table, Workload, max_context};
use serde_json::{Value, json};

use super::args::Args;
use super::{Plan, Speed, document, machine};
use crate::cli::failure::Failure;
use crate::cli::text::{Table as Cells, bytes};

/// Types that are compared.
const TYPES: [&str; 5] = ["Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0", "F16"];

/// Model with one of the types, on a machine.
#[derive(Debug)]
pub(super) struct Typed {
    pub(super) types: &'static str,
    pub(super) plan: Plan,
    /// Longest context of all users that fits; `None` if memory is not known or weights do not fit.
    pub(super) longest: Option<usize>,
}

/// Returns the plan for each type; encoders are also compared with INT8 rows.
pub(super) fn types(
    args: &Args,
    model: &ModelFacts,
    machine: &Machine,
    load: &Workload,
) -> Result<Vec<Typed>, Failure> {
    let encoder = model.config.needs_whole_texts();
    let names = TYPES
        .into_iter()
        .filter(|_| !encoder)
        .chain(encoder.then_some(["INT8", "Q8_0", "F16"]).into_iter().flatten());
    let targets = names.filter_map(Target::from_name);
    let of = |target: Target| {
        let plan = Plan::new(args, model.with_types(target), machine.clone(), *load)?;
        let longest =
            machine.memory_bytes.and_then(|available| max_context(&plan.model, &plan.load, available));
        Ok(Typed { types: target.name(), plan, longest })
    };
    targets.map(of).collect()
}

/// Writes the table of types.
pub(super) fn write_types(typed: &[Typed], out: &mut dyn Write) -> Result<(), Failure> {
    let documents = typed.iter().any(|t| matches!(t.plan.speed, Speed::Documents(_)));
    let rates = if documents { ["documents/h", "one, ms"] } else { ["prefill t/s", "decode t/s"] };
    let mut cells = Cells::new(
        &["type", "weights", "memory", "fits", "longest context", rates[0], rates[1]],
        &[1, 2, 4, 5, 6],
    );
    for Typed { types, plan, longest } in typed {
        let (first, second) = match &plan.speed {
            Speed::Tokens(f) => (rate(f.prefill_tps.value), rate(f.decode_tps.value)),
            Speed::Documents(f) => (rate(f.documents_per_hour.value), rate(f.latency_s.value * 1e3)),
        };
        cells.add(vec![
            (*types).to_owned(),
            bytes(plan.memory.weight_bytes),
            bytes(plan.memory.total_bytes),
            fits(plan).to_owned(),
            if documents { "-".to_owned() } else { longest.map_or("-".to_owned(), |n| n.to_string()) },
            first,
            second,
        ]);
    }
    Ok(cells.write(out)?)
}

pub(super) fn fits(plan: &Plan) -> &'static str {
    plan.fits().map_or("-", |fits| if fits { "yes" } else { "no" })
}

/// Returns a number with three digits that tell something.
pub(super) fn rate(x: f64) -> String {
    match x {
        x if x >= 1000.0 => format!("{x:.0}"),
        x if x >= 100.0 => format!("{x:.0}"),
        x if x >= 10.0 => format!("{x:.1}"),
        x => format!("{x:.2}"),
    }
}

/// Writes the comparison that the arguments ask for.
pub(super) fn write(
    args: &Args,
    asked: &str,
    model: &ModelFacts,
    load: &Workload,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if asked == "types" {
        let typed = types(args, model, &machine::machine(args)?, load)?;
        if args.json {
            let rows: Vec<Value> = typed.iter().map(document::typed).collect();
            serde_json::to_writer_pretty(&mut *out, &json!({ "types": rows }))?;
            return Ok(writeln!(out)?);
        }
        return write_types(&typed, out);
    }
    let (plans, missing) = machines(args, asked, model, load)?;
    if args.json {
        let rows = plans.iter().map(|plan| document::document(plan, None)).collect::<Result<Vec<_>, _>>()?;
        let missing: Vec<Value> =
            missing.iter().map(|(name, why)| json!({ "machine": name, "error": why })).collect();
        serde_json::to_writer_pretty(&mut *out, &json!({ "machines": rows, "not_compared": missing }))?;
        return Ok(writeln!(out)?);
    }
    write_machines(&plans, out)?;
    writeln!(out, "prices: at a utilisation of {:.0} %", args.utilisation * 100.0)?;
    for (name, why) in &missing {
        writeln!(out, "not compared: {name}: {why}")?;
    }
    Ok(())
}

/// Machines that lack a fact, with the sentence about it.
type Missing = Vec<(String, String)>;

/// Returns the plans of the named machines, or of all, the best first; and machines that lack a fact.
fn machines(
    args: &Args,
    asked: &str,
    model: &ModelFacts,
    load: &Workload,
) -> Result<(Vec<Plan>, Missing), Failure> {
    let table = Table::read()?;
    let stated = machine::stated(&args.facts);
    let rows = match asked {
        "machines" => table.rows.iter().collect(),
        names => {
            names.split(',').map(|name| machine::row(&table, name.trim())).collect::<Result<Vec<_>, _>>()?
        }
    };
    let (mut plans, mut missing) = (Vec::new(), Vec::new());
    for row in rows {
        match row.machine(&stated) {
            Ok(machine) => plans.push(Plan::new(args, model.clone(), machine, *load)?),
            Err(Error::Unknown { machine, fact, option }) => {
                missing.push((machine, format!("{fact} is not known; {option} states it")));
            }
            Err(error) => return Err(error.into()),
        }
    }
    // Machines with a price come first, the cheapest token first; the others by speed.
    plans.sort_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal));
    Ok((plans, missing))
}

/// Returns the key of the ranking: machines that the model does not fit last, then those without a price.
fn key(plan: &Plan) -> (bool, bool, f64) {
    let price = match &plan.speed {
        Speed::Tokens(_) => plan.costs.per_million_output_all.map(|price| price.value),
        Speed::Documents(_) => plan.per_million_documents().map(|price| price.value),
    };
    let speed = match &plan.speed {
        Speed::Tokens(f) => f.output_tps.value,
        Speed::Documents(f) => f.documents_per_hour.value,
    };
    (plan.fits() == Some(false), price.is_none(), price.unwrap_or(-speed))
}

fn write_machines(plans: &[Plan], out: &mut dyn Write) -> Result<(), Failure> {
    let documents = plans.iter().any(|plan| matches!(plan.speed, Speed::Documents(_)));
    let head: &[&str] = match documents {
        true => &["machine", "cores", "fits", "documents/h", "one, ms", "$/h", "$/M documents"],
        false => &[
            "machine",
            "cores",
            "fits",
            "prefill t/s",
            "decode t/s",
            "all users",
            "TTFT s",
            "$/h",
            "$/M in",
            "$/M out",
        ],
    };
    let mut cells = Cells::new(head, &(1..head.len()).filter(|i| *i != 2).collect::<Vec<_>>());
    let money = |price: Option<f64>| price.map_or("-".to_owned(), |p| format!("{p:.2}"));
    for plan in plans {
        let mut row = vec![plan.machine.name.clone(), plan.machine.cores.to_string(), fits(plan).to_owned()];
        match &plan.speed {
            Speed::Tokens(f) => {
                row.extend([f.prefill_tps, f.decode_tps, f.decode_tps_all, f.ttft_s].map(|x| rate(x.value)));
                row.extend([
                    money(plan.costs.per_hour),
                    money(plan.costs.per_million_input.map(|x| x.value)),
                    money(plan.costs.per_million_output.map(|x| x.value)),
                ]);
            }
            Speed::Documents(f) => {
                row.extend([rate(f.documents_per_hour.value), rate(f.latency_s.value * 1e3)]);
                row.extend([
                    money(plan.costs.per_hour),
                    money(plan.per_million_documents().map(|x| x.value)),
                ]);
            }
        }
        cells.add(row);
    }
    Ok(cells.write(out)?)
}
