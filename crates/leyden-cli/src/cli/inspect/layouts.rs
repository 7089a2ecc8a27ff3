//! Layouts of the matrices of an encoder in 8-bit integers, chosen by loading it.

use std::io::Write;
use std::path::Path;

use leyden::{LayoutChoice, LoadOptions, Model};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::cli::failure::Failure;
use crate::cli::text::{Table, printable};

/// Layout of a matrix.
#[derive(Debug, Serialize)]
pub(super) struct Layout {
    name: String,
    rows: usize,
    inputs: usize,
    /// Share of weights that are zero.
    zeros: f64,
    layout: &'static str,
    /// Times per token that were measured, in seconds, by the name of the layout.
    seconds_per_token: Map<String, Value>,
}

/// Loads a model with floats in 8-bit integers, and returns the layouts of its matrices of INT8 rows.
pub(super) fn layouts(path: &Path) -> Result<Vec<Layout>, Failure> {
    let model = Model::open(path, &LoadOptions::new().int8(true).threads(1))?;
    let layout = |choice: &LayoutChoice| Layout {
        name: choice.name.clone(),
        rows: choice.rows,
        inputs: choice.k,
        zeros: choice.zeros,
        layout: choice.layout,
        seconds_per_token: choice
            .times
            .iter()
            .map(|(name, time)| ((*name).to_owned(), (*time).into()))
            .collect(),
    };
    Ok(model.packs().int8.layouts.iter().map(layout).collect())
}

/// Prints layouts as a table.
pub(super) fn write(layouts: &[Layout], out: &mut dyn Write) -> Result<(), Failure> {
    let n = layouts.len();
    writeln!(
        out,
        "\n{n} matrices of INT8 rows; times are measured when the model is loaded, as for this table"
    )?;
    let mut table =
        Table::new(&["  name", "outputs", "inputs", "zeros", "layout", "us per token"], &[1, 2, 3]);
    for layout in layouts {
        let time = |(name, seconds): (&String, &Value)| {
            format!("{name} {:.2}", seconds.as_f64().unwrap_or(f64::NAN) * 1e6)
        };
        table.add(vec![
            format!("  {}", printable(&layout.name, 80)),
            layout.rows.to_string(),
            layout.inputs.to_string(),
            format!("{:.1} %", layout.zeros * 100.0),
            layout.layout.to_owned(),
            layout.seconds_per_token.iter().map(time).collect::<Vec<_>>().join(", "),
        ]);
    }
    Ok(table.write(out)?)
}
