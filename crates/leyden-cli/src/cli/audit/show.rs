//! `leyden audit show`.

use std::io::Write;
use std::path::PathBuf;

use leyden_audit::{ContentKey, Entry, Phase, read};
use serde_json::Value;

use super::entries::{content, is_of};
use crate::cli::failure::Failure;
use crate::cli::text::printable;

/// Maximum number of characters shown of a value.
const MAX_SHOWN: usize = 1 << 20;

/// Lists the records, one a line: time, id, route, model, tokens of prompt and answer, reason of the end, status. Chain and
/// signatures are not checked: `leyden audit verify` does that.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Folder of the log
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Show only the records with this id, all of their fields
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Secret key of `leyden audit keygen`, to decrypt the contents
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

/// Shows the records.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let key = args.key.as_deref().map(ContentKey::read).transpose()?;
    let (mut shown, mut failed) = (0_u64, None);
    if args.json {
        write!(out, "[")?;
    }
    read(&args.folder, |entry| {
        let is_asked = args.id.as_ref().is_none_or(|id| is_of(&entry, id));
        if is_asked {
            failed = one(args, &entry, key.as_ref(), shown == 0, out).err();
            shown += 1;
        }
        failed.is_none()
    })?;
    if let Some(failure) = failed {
        return Err(failure);
    }
    if args.json {
        writeln!(out, "\n]")?;
    }
    match &args.id {
        Some(id) if shown == 0 => {
            Err(Failure::new(format!("{}: no record has the id {id}", args.folder.display())))
        }
        _ => Ok(()),
    }
}

fn one(
    args: &Args,
    entry: &Entry,
    key: Option<&ContentKey>,
    is_first: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let content = content(entry, key)?;
    if args.json || args.id.is_some() {
        let mut value = serde_json::to_value(entry)?;
        if let Some(content) = content {
            value["content"] = serde_json::to_value(content)?;
            value.as_object_mut().map(|fields| fields.remove("sealed"));
        }
        if args.json {
            write!(out, "{}", if is_first { "\n" } else { ",\n" })?;
            serde_json::to_writer(&mut *out, &value)?;
            return Ok(());
        }
        for (name, value) in value.as_object().into_iter().flatten() {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            writeln!(out, "{name:18} {}", printable(&text, MAX_SHOWN))?;
        }
        return Ok(writeln!(out)?);
    }
    let record = &entry.record;
    let phase = match record.phase {
        Phase::Whole => "",
        Phase::Start => " start",
        Phase::End => " end",
    };
    let number = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let line = format!(
        "{} {} {}{phase} {} {}+{} {} {}",
        entry.time,
        record.id,
        record.task,
        record.model.as_ref().map_or("-", |model| &model.name),
        number(record.prompt_tokens),
        number(record.completion_tokens),
        record.finish.as_deref().unwrap_or("-"),
        record.status.map_or_else(|| "-".to_owned(), |status| status.to_string()),
    );
    writeln!(out, "{}", printable(&line, MAX_SHOWN))?;
    if let Some(content) = content {
        for (name, text) in [("input", content.input), ("output", content.output)] {
            text.map_or(Ok(()), |text| writeln!(out, "  {name}: {}", printable(&text, MAX_SHOWN)))?;
        }
    }
    Ok(())
}
