//! [`Typed`]: plan for each of several types of weights.

use std::io::Write;

use leyden_compress::Target;
use leyden_plan::{Machine, ModelFacts, Workload, max_context};

use super::args::Args;
use super::planned::{Plan, Speed};
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
