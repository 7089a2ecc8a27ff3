//! Models of `run` and `serve`, which are pulled if they are missing.

use std::path::{Path, PathBuf};

use leyden_hub::{Client, Event, Located, Options, Reference, ShortName, Store};
use leyden_kernels::topology::Topology;

use super::failure::Failure;
use super::models::{is_supported, memory_needed};
use super::notes::Notes;
use super::text::bytes;
use super::{model_file, pull};

/// Permission to pull models.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(super) struct Hub {
    /// Do not download models: a missing model is an error
    #[arg(long)]
    offline: bool,
}

impl Hub {
    /// Returns the file or folder of MODEL: a path, the name of a pulled model, a short name, `hf:ORG/REPO[:FILE]` or
    /// `ORG/REPO[:FILE]`. Pulls a missing model.
    pub(super) fn obtain(self, model: &Path, notes: Notes) -> Result<PathBuf, Failure> {
        let reference = match leyden_hub::locate(model, Store::from_env) {
            Ok(Located::Here(path)) => return Ok(path),
            Ok(Located::Hub(reference)) => reference,
            Err(error) if model_file::is_path(model, &error) => return Ok(model.to_owned()),
            Err(error) => return Err(error.into()),
        };
        let name = model.display().to_string();
        if let Some(short) = ShortName::find(&name).filter(|short| !is_supported(short)) {
            let what = format!("{name}: the architecture {} is not supported yet", short.architecture);
            return Err(Failure::new(what).hint("`leyden models` lists supported models"));
        }
        let store = Store::from_env()?;
        let mut options = Options::from_env()?;
        options.offline |= self.offline;
        if !options.offline {
            let path = if Reference::is_one(&name) || !name.contains('/') { "" } else { "no such file; " };
            notes.say(&format!("{name}: {path}pulling {reference}"));
        }
        let usable = Topology::detect().memory.usable_bytes();
        let client = Client::new(options)?;
        let pulled = pull::fetch(&client, &store, &reference, notes, &mut |event| {
            if let (Event::Plan { bytes: size, .. }, Some(usable)) = (event, usable)
                && memory_needed(*size) > usable
            {
                let (needed, usable) = (bytes(memory_needed(*size)), bytes(usable));
                notes.say(&format!("the model needs about {needed} of memory, but only {usable} are free"));
            }
        })?;
        Ok(pulled.model.path)
    }
}
