//! `leyden pull`: downloads a model from the hub to the local store.

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

/// Downloads missing and damaged files, resumes interrupted downloads, and checks every file against the hub's
/// checksum. Prints the path of the model. Without FILE, chooses Q4_K_M or the nearest quantisation. For private and
/// gated models, the token is HF_TOKEN or the token file of the hub's own tools. HF_ENDPOINT sets a mirror; https_proxy
/// and no_proxy are used.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Short name (`leyden models` lists them), or hf:ORG/REPO[:FILE]; FILE is a GGUF file, a quantisation such as
    /// Q4_K_M, an .onnx file, safetensors or pytorch; hf: is optional
    #[arg(value_name = "NAME|hf:ORG/REPO[:FILE]")]
    reference: String,
    /// Branch, tag or commit; by default main
    #[arg(long, value_name = "REV")]
    revision: Option<String>,
    /// Do not use the network: the model must be in the store
    #[arg(long)]
    offline: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    notes: Notes,
}

/// Pulls the model and prints its path.
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

/// Returns a line with the next command: the one that the model is for.
fn next(path: &Path, name: &str) -> String {
    let config = ModelFile::open(path).and_then(ModelFile::into_source);
    let config = config.ok().and_then(|source| leyden_models::config_of(source.as_ref()).ok());
    // A decoder may be an embedding model; the table of short names has this information.
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

/// Pulls a model with a progress bar; `hear` gets the events, too.
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
            notes.say("stopped; the same command continues the download");
        }
    })?)
}

/// Makes Ctrl-C stop the pull, and a second Ctrl-C end the program at once. Downloaded data stay in both cases.
fn on_interrupt(stopper: Stopper) -> Result<(), Failure> {
    let interrupted = AtomicBool::new(false);
    ctrlc::set_handler(move || {
        if interrupted.swap(true, Ordering::SeqCst) {
            signals::exit(failure::INTERRUPTED);
        }
        stopper.stop();
    })
    .map_err(|error| Failure::new(format!("cannot handle Ctrl-C: {error}")))
}
