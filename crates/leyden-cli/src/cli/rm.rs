//! `leyden rm`: removes a model from the store.

use std::io::{self, Write};

use leyden_hub::Store;
use serde_json::json;

use super::failure::Failure;
use super::text::bytes;

/// Removes the model's files, except those that another model in the store shares. A program that uses the model at
/// the moment is not disturbed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name as `leyden list` shows it, or any shorter form that fits one model alone
    name: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Removes it.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let removed = Store::from_env()?.remove(&args.name)?;
    if args.json {
        serde_json::to_writer(&mut *out, &json!({ "name": removed.name, "freed_bytes": removed.bytes }))?;
        writeln!(out)?;
    } else {
        // Nobody is left to tell if this fails.
        let _ = writeln!(io::stderr(), "removed {}, {} freed", removed.name, bytes(removed.bytes));
    }
    Ok(())
}
