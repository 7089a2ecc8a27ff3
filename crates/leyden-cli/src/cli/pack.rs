//! `leyden pack`: caches a model's packed weights in a file.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;

use leyden::{LoadOptions, Make, ModelFile, PackCache};
use serde_json::json;

use super::failure::Failure;
use super::notes::Notes;
use super::text::bytes;
use super::{knobs, model_file, packs, run};

/// Packs the weights in the layout of the kernels and writes them to a file. Later starts skip the packing, and
/// processes started with `--mmap` share one copy. The model file is still needed. A pack of another version of the
/// model file is made again.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Model: a name, file or folder
    model: PathBuf,
    /// Folder of packed weights; by default leyden/packs in the user's cache folder
    #[arg(long, value_name = "DIR")]
    pack_cache: Option<PathBuf>,
    /// Remove the model's pack
    #[arg(long)]
    remove: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Writes the pack, or removes it.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let Some(path) = args.pack_cache.clone().or_else(knobs::pack_folder) else {
        return Err(
            Failure::new("there is no cache folder: HOME is not set").hint("set one with --pack-cache DIR")
        );
    };
    let cache = PackCache::Folder { path, make: Make::Missing, map: false };
    let model = model_file::locate(&args.model)?;
    if args.remove {
        return remove(args, &cache, &ModelFile::open(&model)?, out);
    }
    let start = Instant::now();
    let options = LoadOptions::new().packs(cache);
    let model = run::load(&model, &options, Notes::default())?;
    let report = model.packs();
    let (file, made) = match (&report.made, &report.read) {
        (Some(file), _) => (file, true),
        (None, Some(file)) => (file, false),
        (None, None) => return Err(Failure::new(report.notes.join("; "))),
    };
    packs::report(&model, Notes::default());
    let size = std::fs::metadata(file).map_or(0, |m| m.len());
    let seconds = start.elapsed().as_secs_f64();
    if args.json {
        let document = json!({
            "model": model.metadata().file(),
            "pack": file.display().to_string(),
            "bytes": size,
            "made": made,
            "seconds": seconds,
        });
        serde_json::to_writer(&mut *out, &document)?;
        writeln!(out)?;
    } else if made {
        writeln!(out, "{}: {}, made in {seconds:.1} s", file.display(), bytes(size))?;
    } else {
        writeln!(out, "{}: {}, up to date", file.display(), bytes(size))?;
    }
    Ok(())
}

/// Removes the pack of a model.
fn remove(args: &Args, cache: &PackCache, model: &ModelFile, out: &mut dyn Write) -> Result<(), Failure> {
    let files = cache.files_of(model.path()).ok_or_else(|| Failure::new("the model has no file"))?;
    let mut removed = Vec::new();
    for file in &files {
        match std::fs::metadata(file).and_then(|m| std::fs::remove_file(file).map(|()| m.len())) {
            Ok(size) => removed.push((file, size)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::new(format!("{}: cannot remove: {error}", file.display()))),
        }
    }
    let Some((file, _)) = removed.first() else {
        return Err(Failure::new(format!("{}: the pack does not exist", files[0].display())));
    };
    let size: u64 = removed.iter().map(|(_, size)| size).sum();
    if args.json {
        let document = json!({ "pack": file.display().to_string(), "freed_bytes": size });
        serde_json::to_writer(&mut *out, &document)?;
        writeln!(out)?;
    } else {
        // Errors of standard error cannot be reported.
        let _ = writeln!(io::stderr(), "removed {}, {} freed", file.display(), bytes(size));
    }
    Ok(())
}
