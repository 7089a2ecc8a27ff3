//! `leyden models`: models with short names.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use leyden_hub::{ShortName, Store};
use leyden_kernels::topology::Topology;
use leyden_models::ARCHITECTURES;
use serde_json::{Value, json};

use super::failure::Failure;
use super::text::{Table, bytes};

/// Lists models that have a short name, with the command that they are for, the size of the download, whether they fit the
/// memory that is free here, and whether they were pulled. `leyden run NAME` pulls what is not here. Any other model of the hub is named
/// hf:ORG/REPO[:FILE].
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Show the models alone that have all of these in a name, in the repository, in the architecture or as the command: qwen3,
    /// embed, bert
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Memory that a model takes: its weights, and a cache and workspace that grow with it.
pub(super) fn memory_needed(weights: u64) -> u64 {
    weights.saturating_add(weights / 8).saturating_add(256 << 20)
}

/// Returns true if leyden supports the architecture.
pub(super) fn is_supported(short: &ShortName) -> bool {
    ARCHITECTURES.iter().any(|known| known.name == short.architecture)
}

/// Returns true if a model's row has all words, in any case.
fn has_all(short: &ShortName, words: &[String]) -> bool {
    let told = [&short.names.join(" "), &short.reference.to_string(), short.architecture, short.command];
    let told = told.join(" ").to_ascii_lowercase();
    words.iter().all(|word| told.contains(&word.to_ascii_lowercase()))
}

/// Prints the list.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    // Without a place for a store nothing was pulled.
    let store = Store::from_env().ok();
    let usable = Topology::detect().memory.usable_bytes();
    let all: Vec<ShortName> =
        ShortName::all().into_iter().filter(|short| has_all(short, &args.words)).collect();
    let path = |short: &ShortName| {
        let reference = short.reference.to_string();
        store.as_ref().and_then(|store| leyden_hub::resolve(Path::new(&reference), store).ok())
    };
    let fits = |short: &ShortName| usable.map(|usable| memory_needed(short.bytes) <= usable);
    if args.json {
        let object = |short: &ShortName| {
            json!({
                "names": short.names,
                "model": short.reference.to_string(),
                "bytes": short.bytes,
                "memory_bytes": memory_needed(short.bytes),
                "architecture": short.architecture,
                "command": short.command,
                "supported": is_supported(short),
                "fits": fits(short),
                "path": path(short).map(|path| path.display().to_string()),
            })
        };
        let models: Vec<Value> = all.iter().map(object).collect();
        serde_json::to_writer_pretty(&mut *out, &json!({ "usable_memory_bytes": usable, "models": models }))?;
        return Ok(writeln!(out)?);
    }
    if all.is_empty() {
        let words = args.words.join(" ");
        return Err(Failure::new(format!("{words}: no short name has it"))
            .hint("leyden models lists all; any other model of the hub is hf:ORG/REPO[:FILE]"));
    }
    let mut table = Table::new(&["NAME", "SIZE", "FITS", "PULLED", "FOR", "MODEL"], &[1]);
    for short in all {
        let fits = match fits(&short) {
            _ if !is_supported(&short) => "not supported yet",
            Some(true) => "yes",
            Some(false) => "no",
            None => "-",
        };
        table.add(vec![
            short.names[0].to_owned(),
            bytes(short.bytes),
            fits.to_owned(),
            if path(&short).is_some() { "yes" } else { "-" }.to_owned(),
            short.command.to_owned(),
            short.reference.to_string(),
        ]);
    }
    table.write(out)?;
    if io::stdout().is_terminal() {
        let free = usable.map_or(String::new(), |n| format!("{} of memory are free here; ", bytes(n)));
        // Nobody is left to tell if this fails.
        let _ = writeln!(io::stderr(), "{free}leyden run NAME pulls what is not here");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands that take the name of a model first.
    const COMMANDS: [&str; 7] = ["run", "serve", "embed", "classify", "extract", "rerank", "pull"];

    /// A reader of the documentation types its commands: a name in them is a short name or the name of its repository.
    #[test]
    fn models_in_commands_of_the_documentation_have_names() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
        let files = docs.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
        let known = ShortName::all();
        let mut found = 0;
        for path in files.chain([root.join("README.md")]) {
            let text = std::fs::read_to_string(&path).unwrap();
            // The parts with odd numbers are blocks of code.
            let blocks = text.split("```").skip(1).step_by(2).filter(|block| block.starts_with("sh\n"));
            for command in blocks.flat_map(str::lines).flat_map(|line| line.split('|')) {
                let mut words = command.split_whitespace();
                if words.next() != Some("leyden")
                    || !words.next().is_some_and(|word| COMMANDS.contains(&word))
                {
                    continue;
                }
                let Some(model) = words.next() else { continue };
                // Paths, options, prompts and names that stand for any.
                if model.contains(['.', '/', '"']) || model.starts_with('-') || model == model.to_uppercase()
                {
                    continue;
                }
                let is_it = |short: &ShortName| {
                    short.names.contains(&model)
                        || short.reference.to_string().contains(&format!("/{model}:"))
                };
                assert!(known.iter().any(is_it), "{}: {command}", path.display());
                found += 1;
            }
        }
        assert!(found > 15, "{found}");
    }
}
