//! The table of converted architectures in `docs/convert.md`, generated from the registry.

use leyden_models::{ARCHITECTURES, Conversion};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Marks around the table.
const BEGIN: &str = "<!-- Written by a test of leyden-models, which says how. Do not edit. -->\n";
const END: &str = "<!-- End of the table. -->\n";

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/convert.md")
}

fn table() -> String {
    let mut table =
        "| GGUF | folders (`model_type`) | to GGUF | to a folder |\n|---|---|---|---|\n".to_owned();
    for row in ARCHITECTURES {
        let mut types: Vec<String> = row.model_types().map(|kind| format!("`{kind}`")).collect();
        types.dedup();
        if types.is_empty() {
            continue;
        }
        let ways = match row.conversion {
            Conversion::Both => "yes | yes".to_owned(),
            Conversion::ToGguf(why) => format!("yes | no: {why}"),
            Conversion::None(why) => format!("no: {why} | no"),
        };
        writeln!(table, "| `{}` | {} | {ways} |", row.name, types.join(", ")).unwrap();
    }
    table
}

/// Returns the page with the current table.
fn page(found: &str) -> String {
    let (before, rest) = found.split_once(BEGIN).unwrap_or((found, ""));
    let after = rest.split_once(END).map_or("", |(_, after)| after);
    format!("{before}{BEGIN}\n{}\n{END}{after}", table())
}

#[test]
fn the_table_of_conversions_is_up_to_date() {
    let found = fs::read_to_string(path()).unwrap_or_default();
    let how =
        "cargo test --release -p leyden-models --test models -- --ignored write_the_table_of_conversions";
    assert!(found == page(&found), "docs/convert.md is not up to date; write it: {how}");
}

#[test]
#[ignore = "writes docs/convert.md: cargo test --release -p leyden-models --test models -- --ignored write_the_table_of_conversions"]
fn write_the_table_of_conversions() {
    let found = fs::read_to_string(path()).unwrap_or_default();
    fs::write(path(), page(&found)).unwrap();
}
