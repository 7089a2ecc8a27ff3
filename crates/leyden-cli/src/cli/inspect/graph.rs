//! Contents of an ONNX graph.

use std::io::Write;
use std::path::Path;

use leyden_graph::{GraphInput, Outline};
use serde_json::{Value, json};

use super::Failure;
use super::{Facts, Table, printable};

/// Returns true for graphs by their name, unless they are the weights of a model: then `config.json` is in their folder or
/// its parent.
pub(super) fn is_graph(path: &Path) -> bool {
    let has_config = |folder: Option<&Path>| folder.is_some_and(|folder| folder.join("config.json").exists());
    let is_weights = has_config(path.parent()) || has_config(path.parent().and_then(Path::parent));
    path.is_file() && path.extension().is_some_and(|e| e.eq_ignore_ascii_case("onnx")) && !is_weights
}

fn described(input: &GraphInput) -> String {
    let ty = input.ty.map_or("?", |ty| ty.name());
    let shape = input.shape.as_ref().map_or_else(|| "?".to_owned(), |dims| dims.join(", "));
    format!("{ty} [{}]", printable(&shape, 100))
}

fn document(path: &Path, outline: &Outline) -> Value {
    let input = |input: &GraphInput| json!({ "name": input.name, "type": input.ty.map(|ty| ty.name()), "shape": input.shape });
    json!({
        "file": path.display().to_string(),
        "format": { "name": "onnx" },
        "supported": outline.missing.is_empty(),
        "inputs": outline.inputs.iter().map(input).collect::<Vec<_>>(),
        "outputs": outline.outputs,
        "operators": outline.operators,
        "missing_operators": outline.missing,
    })
}

/// Prints inputs, outputs and operators.
pub(super) fn write(path: &Path, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let outline = Outline::read(path).map_err(Failure::new)?;
    if json {
        serde_json::to_writer_pretty(&mut *out, &document(path, &outline))?;
        writeln!(out)?;
        return Ok(());
    }
    if !outline.missing.is_empty() {
        writeln!(out, "not supported: operators {}\n", printable(&outline.missing.join(", "), 400))?;
    }
    let mut facts = Facts::default();
    facts.add("file", path.display().to_string());
    facts.add("format", "ONNX graph; run it with leyden run-onnx");
    for input in &outline.inputs {
        facts.add(&format!("input {}", printable(&input.name, 60)), described(input));
    }
    for output in &outline.outputs {
        facts.add("output", printable(output, 100));
    }
    facts.write(out)?;
    writeln!(out)?;
    let mut table = Table::new(&["operator", "nodes"], &[1]);
    for (name, count) in &outline.operators {
        let missing = if outline.missing.contains(name) { ", not supported" } else { "" };
        table.add(vec![format!("{}{missing}", printable(name, 60)), count.to_string()]);
    }
    table.write(out)?;
    Ok(())
}
