//! `leyden import`: a file or folder of this machine under a name.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use leyden::ModelFile;
use leyden_hub::{Defaults, Store};

use super::failure::Failure;
use super::stored;
use super::text::bytes;

/// Gives a GGUF file (or the first of its parts), an ONNX file or a folder from the hub a name, by which every command and the
/// server of `serve --all` find it. The files are linked into the store where the file system can, else copied, and stay there
/// until leyden rm NAME. A model that had the name is replaced.
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

/// Imports.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    check(&args.file)?;
    let named = Store::from_env()?.give_name(&args.file, &args.name, Defaults::default())?;
    tell(&named, args.json, out)
}

/// Refuses a file or folder that does not run here, before it gets a name.
pub(super) fn check(path: &Path) -> Result<(), Failure> {
    leyden_models::config_of(ModelFile::open(path)?.into_source()?.as_ref()).map_err(leyden::Error::from)?;
    Ok(())
}

/// Tells of a model that has got a name.
pub(super) fn tell(named: &leyden_hub::Named, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    if json {
        serde_json::to_writer_pretty(&mut *out, &stored::named(named))?;
        return Ok(writeln!(out)?);
    }
    // Nobody is left to tell if this fails.
    let _ = writeln!(io::stderr(), "{}: {}, sha256 {}", named.name, bytes(named.bytes()), named.digest());
    Ok(())
}
