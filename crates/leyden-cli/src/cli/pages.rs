//! Pages of commands that report (`--report`), and the circumstances that their JSON has under `about`.

use std::path::Path;

use leyden_report::Page;
use serde_json::{Value, json};

use super::failure::Failure;
use super::verify::machine;

/// Returns command line, program, machine and date of this run.
pub(super) fn about() -> Value {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let machine = machine();
    let cores = super::text::plural(machine.cores, "core");
    json!({
        "command": leyden_report::command_line(std::iter::once("leyden".to_owned()).chain(words)),
        "program": concat!("leyden ", env!("CARGO_PKG_VERSION")),
        "machine": format!("{}, {cores}, {}", machine.processor, machine.os),
        "date": leyden_dates::date_time(leyden_dates::unix_time()),
    })
}

/// Writes the page of a document, with what `change` adds to it.
///
/// # Errors
/// The page cannot be written.
pub(super) fn write(path: &Path, document: &Value, change: impl FnOnce(&mut Page)) -> Result<(), Failure> {
    let mut page = leyden_report::read(document)?.page();
    change(&mut page);
    Ok(leyden_report::write(path, &page.html())?)
}
