//! `leyden cp`: another name for a model.

use std::io::Write;
use std::path::PathBuf;

use leyden_hub::{Defaults, Store};

use super::failure::Failure;
use super::{import, model_file};

/// The new name stays valid when the old one is removed. The file is linked, or copied if the file system has no links.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Model: a name that `leyden run` accepts, or a file or folder
    model: PathBuf,
    /// New name
    name: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Adds the name and prints it.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let path = model_file::locate(&args.model)?;
    import::check(&path)?;
    import::report(&Store::from_env()?.give_name(&path, &args.name, Defaults::default())?, args.json, out)
}
