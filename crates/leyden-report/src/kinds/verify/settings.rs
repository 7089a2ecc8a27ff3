//! Files, settings and command of evidence.

use super::super::document::Doc;
use crate::error::Error;
use crate::html::{command_line, file_name};
use crate::page::Block;

/// Returns the files of model, reference and data, with their hashes.
pub(super) fn files(evidence: &Doc<'_>) -> Result<Vec<Block>, Error> {
    let mut sets = vec![("Model", evidence.get("model")?)];
    sets.extend(evidence.find("reference").map(|set| ("Reference", set)));
    sets.extend(evidence.items("data")?.into_iter().map(|set| ("Data", set)));
    let mut blocks = Vec::new();
    for (what, set) in sets {
        let mut facts = vec![(what.to_owned(), set.need_text("path")?.to_owned())];
        for file in set.items("files")? {
            let label = format!("{}, {} bytes", file.need_text("name")?, file.number("bytes")?);
            facts.push((label, file.need_text("sha256")?.to_owned()));
        }
        blocks.push(Block::Long(facts));
    }
    Ok(blocks)
}

/// Returns program, machine and settings.
pub(super) fn facts(evidence: &Doc<'_>) -> Result<Vec<(String, String)>, Error> {
    let (settings, machine) = (evidence.get("settings")?, evidence.get("machine")?);
    let or = |key: &str, absent: &str| settings.find(key).map_or(absent.to_owned(), |value| value.shown());
    let yes = |key: &str| if settings.is_true(key) { "yes" } else { "no" }.to_owned();
    let of_machine = |key: &str| machine.text(key).unwrap_or_default().to_owned();
    let vendor = [of_machine("vendor"), of_machine("model")];
    let vendor: Vec<&str> = vendor.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    let mut facts = vec![
        ("processor", of_machine("processor")),
        ("vendor, family, model", vendor.join(", ")),
        ("architecture", of_machine("arch")),
        ("cores", machine.number("cores")?.to_string()),
        ("operating system", of_machine("os")),
        ("instruction set", or("isa", "")),
        ("threads", or("threads", "one per core")),
        ("keys and values", or("kv_type", "")),
        ("BF16 unrounded", yes("exact")),
        ("8-bit integers", yes("int8")),
        ("seed", or("seed", "")),
        ("questions", or("limit", "all")),
        ("tokens of a window", or("ctx", "")),
        ("windows", or("chunks", "all")),
        ("sha256 of the program", evidence.get("program")?.need_text("sha256")?.to_owned()),
    ];
    facts.retain(|(_, text)| !text.is_empty());
    Ok(facts.into_iter().map(|(label, text)| (label.to_owned(), text)).collect())
}

/// Returns the command that repeats the verification, from the settings of the evidence.
pub(super) fn command(evidence: &Doc<'_>) -> Result<String, Error> {
    let settings = evidence.get("settings")?;
    let mut words =
        vec!["leyden".to_owned(), "verify".to_owned(), evidence.get("model")?.need_text("path")?.to_owned()];
    if let Some(reference) = evidence.find("reference") {
        words.extend(["--reference".to_owned(), reference.need_text("path")?.to_owned()]);
    }
    let data = evidence.items("data")?;
    // A floor names its data by the file's name, or by the name of a task, in the order of the tasks.
    let floors = evidence.items("floors")?;
    let files = data.iter().map(file_of).collect::<Result<Vec<_>, Error>>()?;
    let mut tasks: Vec<&str> = Vec::new();
    for floor in &floors {
        let name = floor.need_text("data")?;
        if !files.contains(&name) && !tasks.contains(&name) {
            tasks.push(name);
        }
    }
    let mut tasks = tasks.into_iter();
    for (data, file) in data.iter().zip(files) {
        let path = data.need_text("path")?;
        let is_named = floors.iter().any(|floor| floor.text("data") == Some(file));
        let task = if is_named { None } else { tasks.next() };
        words.extend(["--data".to_owned(), task.map_or(path.to_owned(), |task| format!("{task}={path}"))]);
    }
    for (option, key) in [
        ("--floor", "floor"),
        ("--load", "load"),
        ("--limit", "limit"),
        ("--chunks", "chunks"),
        ("--column", "column"),
        ("--label", "label"),
        ("--ctx", "ctx"),
        ("--seed", "seed"),
        ("--threads", "threads"),
        ("--kv-type", "kv_type"),
        ("--isa", "isa"),
    ] {
        if let Some(value) = settings.find(key) {
            words.extend([option.to_owned(), value.shown()]);
        }
    }
    words.extend(["exact", "int8"].iter().filter(|key| settings.is_true(key)).map(|key| format!("--{key}")));
    Ok(command_line(&words))
}

/// Returns the name of a file of data as it was given; its path may be that of the file behind a link.
fn file_of<'v>(data: &Doc<'v>) -> Result<&'v str, Error> {
    match data.items("files")?.first() {
        Some(file) => file.need_text("name"),
        None => Ok(file_name(data.need_text("path")?)),
    }
}
