//! `--machines`: the table of cloud shapes and processors.

use std::io::Write;

use leyden_plan::{Row, Table};
use serde_json::json;

use super::args::Args;
use crate::cli::failure::Failure;
use crate::cli::text::{Facts, Table as Cells};

/// Writes the table and its sources.
pub(super) fn write(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let table = Table::read()?;
    if args.json {
        let document = json!({ "machines": table.rows, "sources": table.sources });
        serde_json::to_writer_pretty(&mut *out, &document)?;
        return Ok(writeln!(out)?);
    }
    let head = ["name", "processor", "kernels", "cores", "GHz", "GB/s", "GiB", "$/h", "W"];
    let mut cells = Cells::new(&head, &[3, 4, 5, 6, 7, 8]);
    for row in &table.rows {
        let cell =
            |fact: Option<leyden_plan::Fact>| fact.map_or("-".to_owned(), |fact| fact.value.to_string());
        let Row {
            name,
            processor,
            class,
            cores,
            clock_ghz,
            bandwidth_gb_s,
            memory_gib,
            price_usd_h,
            watts,
            ..
        } = row;
        let mut line = vec![(*name).to_owned(), (*processor).to_owned(), class.name().to_owned()];
        line.extend(
            [cores, clock_ghz, bandwidth_gb_s, memory_gib, price_usd_h, watts].map(|fact| cell(*fact)),
        );
        cells.add(line);
    }
    cells.write(out)?;
    writeln!(out, "\nGB/s: of the memory modules; -: no source, stated by an option\n\nsources")?;
    let mut facts = Facts::default();
    for source in &table.sources {
        facts.add(
            &format!("  {}", source.id),
            format!("{}: {} ({})", source.date, source.says, source.address),
        );
    }
    Ok(facts.write(out)?)
}
