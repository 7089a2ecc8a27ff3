//! `leyden list`: the models in the local store.

use std::io::{self, Write};

use leyden_hub::{Contents, Store};
use serde_json::{Value, json};

use super::failure::Failure;
use super::stored;
use super::text::{Table, bytes};
use leyden_dates::date;

/// Prints each model under its shortest name, with its size and, for a pulled model, its commit. The store is the
/// folder LEYDEN_MODELS, by default leyden/models in the user's data folder.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Prints the list.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let store = Store::from_env()?;
    let contents = store.contents()?;
    if args.json {
        let models: Vec<Value> =
            contents.models.iter().map(|model| stored::listed(model, &contents)).collect();
        let unfinished: Vec<Value> = contents
            .unfinished
            .iter()
            .map(|(repo, bytes)| json!({ "repo": repo.to_string(), "bytes": bytes }))
            .collect();
        let problems: Vec<String> = contents.problems.iter().map(ToString::to_string).collect();
        let named: Vec<Value> = contents.named.iter().map(stored::named).collect();
        let report = json!({
            "named": named,
            "store": store.root().display().to_string(),
            "models": models,
            "unfinished": unfinished,
            "problems": problems,
        });
        serde_json::to_writer_pretty(&mut *out, &report)?;
        return Ok(writeln!(out)?);
    }
    // Errors of standard error cannot be reported.
    for problem in &contents.problems {
        let _ = writeln!(io::stderr(), "warning: {problem}");
        if let Some(hint) = problem.hint() {
            let _ = writeln!(io::stderr(), "hint: {hint}");
        }
    }
    if contents.models.is_empty() && contents.named.is_empty() && contents.unfinished.is_empty() {
        let root = store.root().display();
        let _ = writeln!(
            io::stderr(),
            "no models in {root}; `leyden models` lists models that `leyden pull NAME` downloads"
        );
        return Ok(());
    }
    table(&contents).write(out)?;
    Ok(())
}

fn table(contents: &Contents) -> Table {
    let mut table = Table::new(&["NAME", "SIZE", "FORMAT", "COMMIT", "PULLED", "STATE", "MODEL"], &[1]);
    for model in &contents.models {
        table.add(vec![
            model.short_name(&contents.models),
            bytes(model.bytes()),
            model.format.name().to_owned(),
            model.commit.chars().take(8).collect(),
            date(model.pulled),
            model.damage.as_ref().map_or_else(|| "whole".to_owned(), |damage| format!("damaged: {damage}")),
            model.name.clone(),
        ]);
    }
    for model in &contents.named {
        table.add(vec![
            model.name.clone(),
            bytes(model.bytes()),
            "named".to_owned(),
            "-".to_owned(),
            date(model.created),
            model.damage.as_ref().map_or_else(|| "whole".to_owned(), |damage| format!("damaged: {damage}")),
            model.from.clone(),
        ]);
    }
    for (repo, size) in &contents.unfinished {
        let none = || "-".to_owned();
        table.add(vec![
            repo.to_string(),
            bytes(*size),
            none(),
            none(),
            none(),
            "unfinished".to_owned(),
            none(),
        ]);
    }
    table
}
