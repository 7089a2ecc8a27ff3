//! `leyden report`: pages of results, and several results beside each other.

use std::io::{self, Write};
use std::path::PathBuf;

use leyden_report::{MAX_RUNS, Run};

use super::failure::Failure;
use super::inputs;

/// Reads the JSON that bench, load, eval, verify and plan write with --json, and writes a self-contained page: of one run, as
/// --report of these commands does, or of 2 to 8 runs of one command beside each other, with their differences from the first.
/// Evidence of verify is shown as it is; its signature is checked by leyden verify --check alone.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    leyden report bench.json -o bench.html\n  \
    leyden report monday.json tuesday.json -o both.html\n  \
    leyden report q4.evidence.json q3.evidence.json -o types.html")]
pub(crate) struct Args {
    /// Files with the JSON of runs; `-` is standard input
    #[arg(value_name = "FILE.json", required = true)]
    files: Vec<PathBuf>,
    /// Page to write; `-` is standard output
    #[arg(short, long, value_name = "FILE.html", default_value = "-")]
    output: PathBuf,
}

/// Reads the runs and writes the page.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let to_output = args.output.as_os_str() == "-";
    if args.files.len() > MAX_RUNS {
        let message = format!("{} files: a page has at most {MAX_RUNS} runs", args.files.len());
        return Err(Failure::usage(message).hint("write several pages"));
    }
    if !to_output {
        inputs::none_is(&args.output, args.files.iter().map(PathBuf::as_path))?;
        inputs::can_be_written(&args.output)?;
    }
    let read = |path: &PathBuf| match path.as_os_str() == "-" {
        true => leyden_report::read_from("standard input", &mut io::stdin().lock()),
        false => leyden_report::read_file(path),
    };
    let runs = args.files.iter().map(read).collect::<Result<Vec<Run>, _>>()?;
    let page = match &runs[..] {
        [run] => run.page(),
        runs => leyden_report::side_by_side(runs)?,
    };
    if to_output {
        return Ok(out.write_all(page.html().as_bytes())?);
    }
    Ok(leyden_report::write(&args.output, &page.html())?)
}
