//! `leyden plan`: memory, speed and cost of a model on a machine, predicted.

mod args;
mod check;
mod compare;
mod document;
mod machine;
mod model;
mod planned;
mod report;
mod table;
mod typed;

use std::io::{self, Write};

use leyden_plan::{ModelFacts, Workload};

use super::failure::Failure;
use super::{inputs, pages};

pub(crate) use args::Args;
use planned::Plan;

/// Maximum numbers of users and of tokens: far beyond any use, low enough to notice a slip.
const MAX_USERS: usize = 4096;
const MAX_TOKENS: usize = 1 << 24;

/// Prints the prediction.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let Some(path) = args.model.as_deref().filter(|_| !args.machines) else {
        return table::write(args, out);
    };
    let mut err = io::stderr();
    let out = inputs::report_beside(args.report.as_deref(), out, &mut err);
    args.report.as_deref().map_or(Ok(()), inputs::can_be_written)?;
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
    let document = document::document(&plan, checked.as_deref())?;
    if let Some(page) = &args.report {
        pages::write(page, &document, |_| {})?;
    }
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &document)?;
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
