//! `leyden plan`: memory, speed and cost of a model on a machine, predicted.

mod args;
mod check;
mod compare;
mod document;
mod machine;
mod model;
mod report;
mod table;

use std::io::Write;

use leyden_plan::{
    Costs, EncoderFigures, Figures, Interval, Machine, MemoryParts, ModelFacts, Prices, Rival, Slo, Workload,
    costs, encoder_figures, figures, memory, users_within,
};

use super::failure::Failure;

pub(crate) use args::Args;

/// Maximum numbers of users and of tokens: far beyond any use, low enough to notice a slip.
const MAX_USERS: usize = 4096;
const MAX_TOKENS: usize = 1 << 24;

/// Prediction for a model on a machine.
#[derive(Debug)]
struct Plan {
    model: ModelFacts,
    machine: Machine,
    load: Workload,
    memory: MemoryParts,
    speed: Speed,
    slo: Option<(Slo, Interval)>,
    prices: Prices,
    costs: Costs,
}

/// Predicted rates of a kind of model.
#[derive(Debug)]
enum Speed {
    /// Language model.
    Tokens(Figures),
    /// Encoder.
    Documents(EncoderFigures),
}

/// Prints the prediction.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let Some(path) = args.model.as_deref().filter(|_| !args.machines) else {
        return table::write(args, out);
    };
    let load = workload(args)?;
    machine::check(&args.facts)?;
    let model = model::facts(args, path)?;
    fits_context(&model, &load)?;
    if let Some(asked) = &args.compare {
        return compare::write(args, asked, &model, &load, out);
    }
    let machine = machine::machine(args)?;
    let plan = Plan::new(args, model, machine, load)?;
    let checked = if args.check { Some(check::run(path, &plan)?) } else { None };
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &document::document(&plan, checked.as_deref())?)?;
        return Ok(writeln!(out)?);
    }
    report::write(args, &plan, checked.as_deref(), out)
}

/// Returns the workload that the arguments describe.
fn workload(args: &Args) -> Result<Workload, Failure> {
    let &Args { users, prompt, output, step_tokens, kv_type, .. } = args;
    let context = args.context.unwrap_or(prompt.saturating_add(output));
    if !(1..=MAX_USERS).contains(&users) {
        return Err(Failure::usage(format!("`--users` takes 1 to {MAX_USERS} users")));
    }
    let tokens =
        [("--prompt", prompt), ("--output", output), ("--context", context), ("--step-tokens", step_tokens)];
    if let Some((option, _)) = tokens.iter().find(|(_, n)| !(1..=MAX_TOKENS).contains(n)) {
        return Err(Failure::usage(format!("`{option}` takes 1 to {MAX_TOKENS} tokens")));
    }
    Ok(Workload { users, prompt, output, context, step_tokens, kv_type })
}

/// Refuses texts that the model was not made for.
fn fits_context(model: &ModelFacts, load: &Workload) -> Result<(), Failure> {
    let (most, file) = (model.config.context, &model.file);
    let needed = if model.config.generates() { load.prompt.saturating_add(load.output) } else { load.prompt };
    if load.context > most && model.config.generates() {
        return Err(Failure::usage(format!(
            "--context {}: {file} was made for at most {most} tokens",
            load.context
        )));
    }
    if needed > most {
        return Err(Failure::usage(format!("{needed} tokens: {file} was made for at most {most}"))
            .hint("--prompt and --output set the tokens of a request"));
    }
    if model.config.generates() && needed > load.context {
        return Err(Failure::usage(format!(
            "--context {}: prompt and answer have {needed} tokens",
            load.context
        )));
    }
    Ok(())
}

impl Plan {
    fn new(args: &Args, model: ModelFacts, machine: Machine, mut load: Workload) -> Result<Plan, Failure> {
        let generates = model.config.generates();
        if !generates {
            load.context = load.prompt;
        }
        let prices = Prices {
            per_hour: machine.price_per_hour,
            purchase: args.facts.purchase,
            watts: machine.watts,
            per_kwh: args.facts.price_per_kwh,
            utilisation: args.utilisation,
        };
        let speed = match generates {
            true => Speed::Tokens(figures(&model, &machine, &load)),
            false => Speed::Documents(encoder_figures(&model, &machine, load.prompt, load.step_tokens)),
        };
        let costs = match &speed {
            Speed::Tokens(figures) => costs(figures, [load.prompt, load.output], &prices, rival(args)),
            Speed::Documents(_) => Costs { per_hour: prices.hour(), ..Costs::default() },
        };
        let slo = Slo { ttft_s: args.ttft, user_tps: args.user_tps };
        let asked = generates && (slo.ttft_s.is_some() || slo.user_tps.is_some());
        let slo = asked.then(|| (slo, users_within(&model, &machine, &load, &slo)));
        Ok(Plan { memory: memory(&model, &load)?, model, machine, load, speed, slo, prices, costs })
    }

    /// Returns whether the model fits the memory, if that is known.
    fn fits(&self) -> Option<bool> {
        self.machine.memory_bytes.map(|available| self.memory.total_bytes <= available)
    }

    /// Returns the price of a million documents, if the price of an hour is known.
    fn per_million_documents(&self) -> Option<Interval> {
        let Speed::Documents(figures) = &self.speed else { return None };
        let hour = self.prices.hour()? / self.prices.utilisation;
        Some(figures.documents_per_hour.inverse(hour * 1e6))
    }
}

/// Returns the other way to get the same tokens, if the arguments name one.
fn rival(args: &Args) -> Option<Rival> {
    match (args.api_price, args.gpu_price_per_hour.zip(args.gpu_tps)) {
        (Some([input, output]), _) => Some(Rival::Api { input, output }),
        (None, Some((per_hour, output_tps))) => Some(Rival::Gpu { per_hour, output_tps }),
        (None, None) => None,
    }
}
