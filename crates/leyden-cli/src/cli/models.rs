//! `leyden models`: models with short names.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use leyden::ModelFile;
use leyden_hub::{ShortName, Store};
use leyden_kernels::attention::KvType;
use leyden_kernels::topology::Topology;
use leyden_models::ARCHITECTURES;
use leyden_plan::{ModelFacts, Workload};
use serde_json::{Value, json};

use super::failure::Failure;
use super::text::{Table, bytes};

/// Prints for each model its command, the size of the download, whether it fits the free memory, and whether it was
/// pulled. `leyden run NAME` downloads a missing model. Any other model of the hub has the name hf:ORG/REPO[:FILE].
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// List only models with all of these words in names, repository, architecture or command, such as: qwen3, embed,
    /// bert
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Returns an estimate of a model's memory in bytes: weights, KV cache and workspace.
pub(super) fn memory_needed(weights: u64) -> u64 {
    weights.saturating_add(weights / 8).saturating_add(256 << 20)
}

/// Tokens of context that the memory of a pulled model is planned with.
const CONTEXT: usize = 8192;

/// Returns the memory that a pulled model takes with one user: its weights, workspace, and a context of 8,192 tokens or
/// the model's; `None` if its sizes cannot be read.
fn memory_planned(path: &Path) -> Option<u64> {
    let source = ModelFile::open(path).ok()?.into_source().ok()?;
    let model = ModelFacts::of_source(source.as_ref()).ok()?;
    let context = CONTEXT.min(model.config.context);
    let load = Workload {
        users: 1,
        prompt: context,
        output: 0,
        context,
        step_tokens: 512,
        kv_type: KvType::default(),
    };
    Some(leyden_plan::memory(&model, &load).ok()?.total_bytes)
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
    // Without a store nothing was pulled.
    let store = Store::from_env().ok();
    let usable = Topology::detect().memory.usable_bytes();
    let all: Vec<ShortName> =
        ShortName::all().into_iter().filter(|short| has_all(short, &args.words)).collect();
    let path = |short: &ShortName| {
        let reference = short.reference.to_string();
        store.as_ref().and_then(|store| leyden_hub::resolve(Path::new(&reference), store).ok())
    };
    let needed = |short: &ShortName| {
        path(short).and_then(|path| memory_planned(&path)).unwrap_or(memory_needed(short.bytes))
    };
    let fits = |short: &ShortName| usable.map(|usable| needed(short) <= usable);
    if args.json {
        let object = |short: &ShortName| {
            json!({
                "names": short.names,
                "model": short.reference.to_string(),
                "bytes": short.bytes,
                "memory_bytes": needed(short),
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
        return Err(Failure::new(format!("no model with a short name matches: {words}"))
            .hint("`leyden models` lists all; other models of the hub have names like hf:ORG/REPO[:FILE]"));
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
        let free = usable.map_or(String::new(), |n| format!("free memory: {}; ", bytes(n)));
        // Errors of standard error cannot be reported.
        let _ = writeln!(
            io::stderr(),
            "{free}`leyden run NAME` downloads a missing model, `leyden plan NAME` predicts its speed first"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands that take the name of a model first.
    const COMMANDS: [&str; 7] = ["run", "serve", "embed", "classify", "extract", "rerank", "pull"];

    /// Readers type the commands of the documentation, so each model in them must be a short name or its repository.
    #[test]
    fn models_in_commands_of_the_documentation_have_names() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
        let files = docs.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
        let known = ShortName::all();
        let mut found = 0;
        for path in files.chain([root.join("README.md")]) {
            let text = std::fs::read_to_string(&path).unwrap();
            // Parts with odd indices are code blocks.
            let blocks = text.split("```").skip(1).step_by(2).filter(|block| block.starts_with("sh\n"));
            for command in blocks.flat_map(str::lines).flat_map(|line| line.split('|')) {
                let mut words = command.split_whitespace();
                if words.next() != Some("leyden")
                    || !words.next().is_some_and(|word| COMMANDS.contains(&word))
                {
                    continue;
                }
                let Some(model) = words.next() else { continue };
                // Skips paths, options, prompts and placeholders.
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
