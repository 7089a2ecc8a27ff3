//! JSON of a plan.

use leyden_plan::{Interval, Kind, grades, summary};
use serde_json::{Value, json};

use super::check::Checked;
use super::planned::{Plan, Speed};
use super::typed::Typed;
use crate::cli::failure::Failure;
use crate::cli::pages;

/// Returns the document of a plan.
pub(super) fn document(plan: &Plan, checked: Option<&[Checked]>) -> Result<Value, Failure> {
    let exact = |n: u64| json!(Interval::exact(n as f64));
    let mut document = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "about": pages::about(),
        "model": {
            "file": plan.model.file,
            "architecture": plan.model.config.architecture,
            "parameters": plan.model.parameters(),
            "types": plan.model.types_name(),
            "context": plan.model.config.context,
            "generates": plan.model.config.generates(),
        },
        "machine": plan.machine,
        "workload": plan.load,
        "memory": plan.memory,
        "memory_bytes": exact(plan.memory.total_bytes),
        "fits": plan.fits(),
        "prices": plan.prices,
        "costs": plan.costs,
        "errors": errors(plan)?,
    });
    let figures = match &plan.speed {
        Speed::Tokens(figures) => serde_json::to_value(figures)?,
        Speed::Documents(figures) => serde_json::to_value(figures)?,
    };
    if let (Value::Object(all), Value::Object(figures)) = (&mut document, figures) {
        all.extend(figures);
    }
    if let Some((slo, users)) = &plan.slo {
        document["slo"] = json!({ "ttft_s": slo.ttft_s, "user_tps": slo.user_tps, "users": users });
    }
    if let Some(price) = plan.per_million_documents() {
        document["costs"]["per_million_documents"] = json!(price);
    }
    if let Some(checked) = checked {
        document["check"] = json!(checked);
    }
    Ok(document)
}

/// Returns the errors of the nearest recorded measurements, by kind.
fn errors(plan: &Plan) -> Result<Value, Failure> {
    let all = grades()?;
    let kinds: &[(&str, Kind)] = match &plan.speed {
        Speed::Tokens(_) => {
            &[("prefill", Kind::Prefill), ("decode", Kind::Decode), ("together", Kind::Together)]
        }
        Speed::Documents(_) => &[("encoder", Kind::Encoder)],
    };
    let of = |kind: Kind| summary(&all, plan.machine.class, kind);
    Ok(kinds.iter().map(|(name, kind)| ((*name).to_owned(), json!(of(*kind)))).collect())
}

/// Returns the row of a type.
pub(super) fn typed(typed: &Typed) -> Value {
    let plan = &typed.plan;
    let mut row = json!({
        "type": typed.types,
        "weight_bytes": plan.memory.weight_bytes,
        "memory_bytes": plan.memory.total_bytes,
        "fits": plan.fits(),
        "longest_context": typed.longest,
    });
    match &plan.speed {
        Speed::Tokens(figures) => {
            row["prefill_tps"] = json!(figures.prefill_tps);
            row["decode_tps"] = json!(figures.decode_tps);
        }
        Speed::Documents(figures) => row["documents_per_hour"] = json!(figures.documents_per_hour),
    }
    row
}
