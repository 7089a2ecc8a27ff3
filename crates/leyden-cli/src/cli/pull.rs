//! `leyden pull`: a model from the hub into the store.

mod progress;

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use leyden_hub::{Client, ErrorKind, Options, Reference, Stopper, Store};

use super::failure::{self, Failure};
use super::stored;
use super::text::bytes;
use progress::Progress;

/// Downloads what is missing or wrong, resumes what was begun, and checks every file against the hub's checksum. Prints
/// the path of the model. HF_TOKEN, or the token file of the hub's own tools, opens private and gated models;
/// HF_ENDPOINT names a mirror; https_proxy and no_proxy are honoured.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// hf:ORG/REPO or hf:ORG/REPO:FILE; FILE is a GGUF file, a quantisation such as Q4_K_M, or safetensors
    #[arg(value_name = "hf:ORG/REPO[:FILE]")]
    reference: String,
    /// Branch, tag or commit; by default main
    #[arg(long, value_name = "REV")]
    revision: Option<String>,
    /// Open no connection: the model must be in the store
    #[arg(long)]
    offline: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Brings the model into the store.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let mut reference: Reference = args.reference.parse()?;
    if let Some(revision) = &args.revision {
        reference = reference.with_revision(revision)?;
    }
    let store = Store::from_env()?;
    let mut options = Options::from_env()?;
    options.offline |= args.offline;
    let client = Client::new(options)?;
    on_interrupt(client.stopper())?;

    let mut progress = Progress::new();
    let result = leyden_hub::pull(&client, &store, &reference, &mut |event| progress.hear(&event));
    progress.finish();
    let pulled = result.inspect_err(|error| {
        if matches!(error.kind(), ErrorKind::Stopped) {
            note("stopped; the same command goes on where this one ended");
        }
    })?;
    let model = &pulled.model;
    if args.json {
        let mut object = stored::object(model);
        object["downloaded_bytes"] = pulled.downloaded.into();
        serde_json::to_writer_pretty(&mut *out, &object)?;
        writeln!(out)?;
    } else {
        let (size, downloaded) = (bytes(model.bytes()), bytes(pulled.downloaded));
        note(&format!("{}: {size}, {downloaded} of it downloaded now", model.name));
        writeln!(out, "{}", model.path.display())?;
    }
    Ok(())
}

/// Ctrl-C ends the pull in order; a second one ends the program at once. Either way what has arrived stays.
fn on_interrupt(stopper: Stopper) -> Result<(), Failure> {
    let interrupted = AtomicBool::new(false);
    ctrlc::set_handler(move || {
        if interrupted.swap(true, Ordering::SeqCst) {
            std::process::exit(i32::from(failure::INTERRUPTED));
        }
        stopper.stop();
    })
    .map_err(|error| Failure::new(format!("cannot take over Ctrl-C: {error}")))
}

/// A line for people, on standard error.
fn note(text: &str) {
    // Nobody is left to tell if this fails.
    let _ = writeln!(io::stderr(), "{text}");
}
