//! `leyden rm`: removes a model from the store.

use std::io::{self, Write};

use leyden_hub::Store;
use serde_json::json;

use super::failure::Failure;
use super::text::bytes;

/// Removes the model's files, except those shared with another model in the store. Programs that are using the model
/// are not affected.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name as in `leyden list`, or a shorter unambiguous form
    name: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Removes the model and prints its name.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let removed = Store::from_env()?.remove(&args.name)?;
    if args.json {
        serde_json::to_writer(&mut *out, &json!({ "name": removed.name, "freed_bytes": removed.bytes }))?;
        writeln!(out)?;
    } else {
        // Errors of standard error cannot be reported.
        let _ = writeln!(io::stderr(), "removed {}, {} freed", removed.name, bytes(removed.bytes));
    }
    Ok(())
}
