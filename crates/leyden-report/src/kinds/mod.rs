//! Kinds of documents, one file each, listed in one table.

mod bench;
mod document;
mod eval;
mod load;
mod plan;
mod verify;

use crate::error::Error;
use crate::run::{About, Run};
use document::Doc;
use serde_json::Value;

/// Kind of documents.
struct Kind {
    /// Command that writes them.
    name: &'static str,
    /// Returns true for documents of this kind.
    is_one: fn(&Value) -> bool,
    /// Reads one.
    read: fn(&Doc<'_>) -> Result<Run, Error>,
}

/// KINDS, in the order in which they are tried.
const KINDS: &[Kind] = &[
    Kind { name: "bench", is_one: bench::is_one, read: bench::read },
    Kind { name: "load", is_one: load::is_one, read: load::read },
    Kind { name: "eval", is_one: eval::is_one, read: eval::read },
    Kind { name: "verify", is_one: verify::is_one, read: verify::read },
    Kind { name: "plan", is_one: plan::is_one, read: plan::read },
];

/// Reads the JSON that a command wrote with `--json`.
///
/// # Errors
/// It is of no known kind, or a field is missing or has another type; the message names it.
pub fn read(document: &Value) -> Result<Run, Error> {
    let Some(kind) = KINDS.iter().find(|kind| (kind.is_one)(document)) else {
        let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        let (last, first) = names.split_last().unwrap_or((&"", &[]));
        return Err(Error::Runs(format!(
            "no document of {} or {last}; name the JSON that one of them wrote with --json",
            first.join(", ")
        )));
    };
    let doc = Doc::new(document);
    let mut run = (kind.read)(&doc)?;
    run.kind = kind.name;
    run.about = about(&doc, run.about);
    Ok(run)
}

/// Returns the circumstances that commands write under `about`; what is missing there is that of `known`.
fn about(doc: &Doc<'_>, known: About) -> About {
    let Some(about) = doc.find("about") else { return known };
    let text = |key: &str, known: String| about.text(key).map_or(known, str::to_owned);
    About {
        command: text("command", known.command),
        program: text("program", known.program),
        // The machine of a plan is seldom the one that made it.
        machine: if known.machine.is_empty() { text("machine", String::new()) } else { known.machine },
        date: text("date", known.date),
    }
}
