//! `leyden import`: adds a local file or folder to the store under a name.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use leyden::ModelFile;
use leyden_hub::{Defaults, Store};

use super::failure::Failure;
use super::stored;
use super::text::bytes;

/// Adds a GGUF file (for several parts, name the first), an ONNX file or a Hugging Face folder. All commands, and the
/// server with
/// --all, then accept the name. The files are linked into the store, or copied if the file system has no links, until `leyden rm
/// NAME`. A model with the same name is replaced.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// File or folder
    file: PathBuf,
    /// Name, such as my-model, my-model:v2 or me/my-model
    name: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Adds the model and prints its name.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    check(&args.file)?;
    let named = Store::from_env()?.give_name(&args.file, &args.name, Defaults::default())?;
    report(&named, args.json, out)
}

/// Refuses a file or folder that is not a supported model.
pub(super) fn check(path: &Path) -> Result<(), Failure> {
    leyden_models::config_of(ModelFile::open(path)?.into_source()?.as_ref()).map_err(leyden::Error::from)?;
    Ok(())
}

/// Prints a model and its new name.
pub(super) fn report(named: &leyden_hub::Named, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    if json {
        serde_json::to_writer_pretty(&mut *out, &stored::named(named))?;
        return Ok(writeln!(out)?);
    }
    // Errors of standard error cannot be reported.
    let _ = writeln!(io::stderr(), "{}: {}, sha256 {}", named.name, bytes(named.bytes()), named.digest());
    Ok(())
}
