//! `leyden cp`: another name for a model.

use std::io::Write;
use std::path::PathBuf;

use leyden_hub::{Defaults, Store};

use super::failure::Failure;
use super::{import, model_file};

/// Gives a model another name, under which it stays when the first one is removed. The data is not copied where the file
/// system can give it two names.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Model: any name by which leyden run finds it, or its file or folder
    model: PathBuf,
    /// Its new name
    name: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Copies.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let path = model_file::locate(&args.model)?;
    import::check(&path)?;
    import::tell(&Store::from_env()?.give_name(&path, &args.name, Defaults::default())?, args.json, out)
}
