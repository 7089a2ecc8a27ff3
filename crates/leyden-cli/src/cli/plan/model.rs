//! Model of a plan: its sizes, without its weights.

use std::path::Path;

use leyden::ModelFile;
use leyden_hub::{Client, Event, Header, Located, Options, Store, fetch_header};
use leyden_plan::ModelFacts;
use leyden_tensor::{DType, ErrorKind, Gguf, HfFile, Json};

use super::args::Args;
use crate::cli::failure::Failure;
use crate::cli::model_file::is_path;
use crate::cli::text::{plural, printable};

/// Reads the sizes of the model that the arguments name.
pub(super) fn facts(args: &Args, model: &Path) -> Result<ModelFacts, Failure> {
    let facts = own(args, model)?;
    Ok(args.types.map_or_else(|| facts.clone(), |target| facts.with_types(target)))
}

fn own(args: &Args, model: &Path) -> Result<ModelFacts, Failure> {
    if model.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json")) {
        return of_json(model);
    }
    let reference = match leyden_hub::locate(model, Store::from_env) {
        Ok(Located::Here(path)) => return of_path(&path),
        Ok(Located::Hub(reference)) => reference,
        Err(error) if is_path(model, &error) => return of_path(model),
        Err(error) => return Err(error.into()),
    };
    let mut options = Options::from_env()?;
    options.offline |= args.offline;
    let client = Client::new(options)?;
    let folder = leyden_files::TemporaryFolder::create(&std::env::temp_dir())
        .map_err(|error| Failure::new(format!("cannot create a temporary folder: {error}")))?;
    let mut tell = |event: Event<'_>| {
        if let Event::Chosen { file, of } = event {
            // Nobody is left to tell if this fails.
            eprintln!("{}: one of {}", printable(file, 200), plural(of, "model"));
        }
    };
    let header = fetch_header(&client, &reference, folder.path(), &mut is_whole, &mut tell)?;
    let mut facts = match header {
        Header::Gguf(path) => of_path(&path)?,
        Header::Config(path) => of_json(&path)?,
    };
    facts.file = reference.to_string();
    Ok(facts)
}

/// Returns true if these first bytes of a GGUF file have its whole header, or are no GGUF file at all.
fn is_whole(bytes: &[u8]) -> bool {
    match Gguf::from_vec(bytes.to_vec(), "header") {
        Ok(_) => true,
        // A tensor beyond the end was described before it.
        Err(error) => !matches!(error.kind(), ErrorKind::Truncated { .. } | ErrorKind::TooMany { .. }),
    }
}

fn of_path(path: &Path) -> Result<ModelFacts, Failure> {
    if path.is_dir() && !has_weights(path) && path.join(HfFile::Config.name()).is_file() {
        return of_json(&path.join(HfFile::Config.name()));
    }
    let source = ModelFile::open(path)?.into_source()?;
    Ok(ModelFacts::of_source(source.as_ref())?)
}

/// Returns true for a folder with files of weights.
fn has_weights(folder: &Path) -> bool {
    const ENDINGS: [&str; 3] = ["safetensors", "onnx", "bin"];
    let is_weights = |path: &Path| path.extension().is_some_and(|e| ENDINGS.iter().any(|known| e == *known));
    let any = |folder: &Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.take(4096).any(|entry| is_weights(&entry.path()))
    };
    any(folder) || any(&folder.join("onnx"))
}

/// Reads a `config.json`; the weights have the type that it states, or F16.
fn of_json(path: &Path) -> Result<ModelFacts, Failure> {
    let label = path.display().to_string();
    let length = std::fs::metadata(path).map_err(|error| not_read(&label, &error))?.len();
    if length > HfFile::Config.max_bytes() {
        return Err(Failure::new(format!("{label}: {length} bytes are too many for a config.json")));
    }
    let bytes = std::fs::read(path).map_err(|error| not_read(&label, &error))?;
    let json = Json::parse(&bytes, &label)?;
    let stated = ["dtype", "torch_dtype"].into_iter().find_map(|key| json.opt_str(key).ok().flatten());
    let dtype = match stated {
        Some("bfloat16") => DType::BF16,
        Some("float32") => DType::F32,
        _ => DType::F16,
    };
    Ok(ModelFacts::of_json(&json, dtype)?)
}

fn not_read(label: &str, error: &std::io::Error) -> Failure {
    Failure::new(format!("{label}: cannot read: {error}"))
        .hint("name a GGUF file, a folder or a config.json, or a model on the hub: hf:ORG/REPO")
}
