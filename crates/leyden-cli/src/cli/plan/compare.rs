//! `--compare`: machines or types of weights, ranked.

use std::io::Write;

use leyden_plan::{Error, ModelFacts, Table, Workload};
use serde_json::{Value, json};

use super::args::Args;
use super::planned::{Plan, Speed};
use super::typed::{fits, rate, types, write_types};
use super::{document, machine};
use crate::cli::failure::Failure;
use crate::cli::pages;
use crate::cli::text::Table as Cells;

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
        let rows: Vec<Value> = typed.iter().map(document::typed).collect();
        let document = json!({ "about": pages::about(), "file": model.file, "types": rows });
        if let Some(page) = &args.report {
            pages::write(page, &document, |_| {})?;
        }
        if args.json {
            serde_json::to_writer_pretty(&mut *out, &document)?;
            return Ok(writeln!(out)?);
        }
        return write_types(&typed, out);
    }
    let (plans, missing) = machines(args, asked, model, load)?;
    let rows = plans.iter().map(|plan| document::document(plan, None)).collect::<Result<Vec<_>, _>>()?;
    let not_compared: Vec<Value> =
        missing.iter().map(|(name, why)| json!({ "machine": name, "error": why })).collect();
    let document = json!({ "about": pages::about(), "machines": rows, "not_compared": not_compared });
    if let Some(page) = &args.report {
        pages::write(page, &document, |_| {})?;
    }
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &document)?;
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
