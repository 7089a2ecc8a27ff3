//! `leyden bundle MODEL... -o FILE`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use leyden_bundle::{Content, Contents, Entry, Prepared, Program, sbom, third_party};
use leyden_files::{Output, OutputOptions};
use serde_json::json;

use super::args::Create;
use super::meter::Meter;
use super::{models, places};
use crate::cli::failure::Failure;
use crate::cli::inputs;
use crate::cli::text::{Facts, bytes, plural, printable};
use crate::cli::verify;

/// Writes the bundle.
pub(super) fn execute(args: &Create, out: &mut dyn Write) -> Result<(), Failure> {
    let usage = |what: &str| Failure::usage(what).hint("leyden bundle MODEL... -o FILE");
    if args.models.is_empty() {
        return Err(usage("MODEL is missing"));
    }
    let file = args.out.as_deref().ok_or_else(|| usage("-o is missing: the file for the bundle"))?;
    inputs::can_be_written(file)?;
    let program = match &args.program {
        Some(path) => path.clone(),
        None => std::env::current_exe()
            .map_err(|error| Failure::new(format!("the file of this program cannot be found: {error}")))?,
    };
    let found = models::find_all(args)?;
    for model in found.iter().filter(|found| found.lacks_licence()) {
        args.notes.say(&format!(
            "{}: no licence is stated in its files, and no text lies beside it; --licence FILE adds one",
            model.model.name
        ));
    }
    let described = Program {
        file: places::PROGRAM.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        // Another program may be for any machine; its sender knows.
        target: match args.program {
            Some(_) => "as given".to_owned(),
            None => format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        },
    };
    let (mut entries, mut described_models) = (third_party::entries(), Vec::new());
    entries.push(Entry::file(places::PROGRAM, &program, None));
    for one in found {
        entries.extend(one.entries);
        described_models.push(one.model);
    }
    let contents = Contents::new(Some(described), described_models);
    check_inputs(file, &entries)?;
    let key = verify::signing(args.key.as_deref(), args.key_days, args.notes)?;
    let mut meter = Meter::new("writing", work(&entries))?;
    let components = |files: &[(&str, &str)]| {
        let document = sbom::document(&contents, env!("CARGO_PKG_VERSION"), files);
        let text = serde_json::to_string_pretty(&document).unwrap_or_default();
        vec![Entry::bytes(sbom::NAME, text + "\n")]
    };
    let prepared = Prepared::new(entries, &components, &contents, &key, &mut |n| meter.heard(n))?;
    let failed = |error: io::Error| Failure::new(format!("{}: cannot write: {error}", file.display()));
    let mut output = Output::with(file, OutputOptions::new()).map_err(failed)?;
    prepared.write(&mut output, file, &mut |n| meter.heard(n))?;
    output.finish().map_err(failed)?;
    drop(meter);
    let mut err = io::stderr();
    let out = inputs::report_beside(Some(file), out, &mut err);
    if args.json {
        let models: Vec<_> = contents.models.iter().map(|model| &model.name).collect();
        let document = json!({
            "file": file.display().to_string(),
            "bytes": prepared.archive_bytes(),
            "files": prepared.files().len() + 1,
            "key": key.id(),
            "models": models,
        });
        serde_json::to_writer_pretty(&mut *out, &document)?;
        return Ok(writeln!(out)?);
    }
    let mut facts = Facts::default();
    let size = bytes(prepared.archive_bytes());
    facts
        .add("bundle", format!("{}: {size}, {}", file.display(), plural(prepared.files().len() + 1, "file")));
    for model in &contents.models {
        let papers = [
            model.licence.as_deref().map(|licence| format!("licence {}", printable(licence, 80))),
            model.evidence.is_some().then(|| "with evidence".to_owned()),
            (!model.calibrations.is_empty()).then(|| "with calibration".to_owned()),
        ];
        let papers: String = papers.into_iter().flatten().map(|text| format!(", {text}")).collect();
        facts.add("model", format!("{}{papers}", model.name));
    }
    facts.add("key", format!("{}: tell it to the receivers by another way than the bundle", key.id()));
    Ok(facts.write(out)?)
}

/// Checks that the output is none of the files that go into it.
fn check_inputs(file: &Path, entries: &[Entry]) -> Result<(), Failure> {
    let paths: Vec<&PathBuf> = entries
        .iter()
        .filter_map(|entry| match &entry.content {
            Content::File(path, _) => Some(path),
            Content::Bytes(_) => None,
        })
        .collect();
    inputs::none_is(file, paths.into_iter().map(PathBuf::as_path))
}

/// Returns the number of bytes that are read: files are hashed, unless their checksum is known, and copied.
fn work(entries: &[Entry]) -> u64 {
    let one = |entry: &Entry| match &entry.content {
        Content::File(path, known) => {
            let bytes = path.metadata().map_or(0, |found| found.len());
            if known.is_some() { bytes } else { bytes.saturating_mul(2) }
        }
        Content::Bytes(_) => 0,
    };
    entries.iter().map(one).fold(0, u64::saturating_add)
}
