//! `leyden pull`: a model from the hub into the store.

mod progress;

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use leyden::ModelFile;
use leyden_hub::{Client, ErrorKind, Event, Options, Pulled, Reference, ShortName, Stopper, Store};
use leyden_models::Labelled;

use super::failure::{self, Failure};
use super::notes::Notes;
use super::signals;
use super::stored;
use super::text::bytes;
use progress::Progress;

/// Downloads what is missing or wrong, resumes what was begun, and checks every file against the hub's checksum. Prints
/// the path of the model. Of several quantisations Q4_K_M is chosen, or the nearest, if none is named. HF_TOKEN, or the token file of the hub's own tools, opens private and gated models;
/// HF_ENDPOINT names a mirror; https_proxy and no_proxy are honoured.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A short name, which leyden models lists, or hf:ORG/REPO[:FILE]; FILE is a GGUF file, a quantisation such as Q4_K_M,
    /// an .onnx file, safetensors or pytorch; hf: may be left out
    #[arg(value_name = "NAME|hf:ORG/REPO[:FILE]")]
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
    #[command(flatten)]
    notes: Notes,
}

/// Brings the model into the store.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let mut reference = Reference::named(&args.reference)?;
    if let Some(revision) = &args.revision {
        reference = reference.with_revision(revision)?;
    }
    let store = Store::from_env()?;
    let mut options = Options::from_env()?;
    options.offline |= args.offline;
    let client = Client::new(options)?;
    on_interrupt(client.stopper())?;
    let pulled = fetch(&client, &store, &reference, args.notes, &mut |_| {})?;
    let model = &pulled.model;
    if args.json {
        let mut object = stored::object(model);
        object["downloaded_bytes"] = pulled.downloaded.into();
        serde_json::to_writer_pretty(&mut *out, &object)?;
        writeln!(out)?;
    } else {
        let (size, downloaded) = (bytes(model.bytes()), bytes(pulled.downloaded));
        args.notes.say(&format!("{}: {size}, {downloaded} of it downloaded now", model.name));
        writeln!(out, "{}", model.path.display())?;
        out.flush()?;
        let is_short = ShortName::find(&args.reference).is_some() && args.revision.is_none();
        let name = if is_short { &args.reference } else { &model.name };
        args.notes.say(&next(&model.path, name));
    }
    Ok(())
}

/// Returns the line that tells the command for which a model was made.
fn next(path: &Path, name: &str) -> String {
    let config = ModelFile::open(path).and_then(ModelFile::into_source);
    let config = config.ok().and_then(|source| leyden_models::config_of(source.as_ref()).ok());
    // A decoder may still be meant for vectors, which the table of short names tells.
    let Some(config) = config.filter(|config| !config.generates()) else {
        return match ShortName::find(name).map_or("run", |short| short.command) {
            "embed" => format!("next: leyden embed {name} \"A text.\""),
            command => format!("next: leyden {command} {name}"),
        };
    };
    match config.classifier() {
        Some(head) if !matches!(head.of, Labelled::Text(_)) => {
            format!("next: leyden extract {name} \"A text.\"")
        }
        Some(head) if head.ranks() => format!("next: leyden rerank {name} \"A question?\" \"A document.\""),
        Some(_) => format!("next: leyden classify {name} \"A text.\""),
        None if config.spans.is_some() => {
            format!("next: leyden extract {name} \"A text.\" --labels person,city")
        }
        None => format!("next: leyden embed {name} \"A text.\""),
    }
}

/// Pulls, with a progress bar; `hear` gets the events too.
pub(super) fn fetch(
    client: &Client,
    store: &Store,
    reference: &Reference,
    notes: Notes,
    hear: &mut dyn FnMut(&Event<'_>),
) -> Result<Pulled, Failure> {
    let mut progress = Progress::new(notes);
    let result = leyden_hub::pull(client, store, reference, &mut |event| {
        progress.hear(&event);
        hear(&event);
    });
    progress.finish();
    Ok(result.inspect_err(|error| {
        if matches!(error.kind(), ErrorKind::Stopped) {
            notes.say("stopped; the same command goes on where this one ended");
        }
    })?)
}

/// Ctrl-C ends the pull in order; a second one ends the program at once. Either way what has arrived stays.
fn on_interrupt(stopper: Stopper) -> Result<(), Failure> {
    let interrupted = AtomicBool::new(false);
    ctrlc::set_handler(move || {
        if interrupted.swap(true, Ordering::SeqCst) {
            signals::exit(failure::INTERRUPTED);
        }
        stopper.stop();
    })
    .map_err(|error| Failure::new(format!("cannot take over Ctrl-C: {error}")))
}
