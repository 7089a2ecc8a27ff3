//! Automation of this repository: `cargo xtask TASK`.
#![expect(clippy::print_stdout, reason = "a program that reports to a terminal")]

mod bench;
mod command;
mod coverage;
mod dist;
mod embed;
mod lint;
mod nightly;
mod third_party;
mod wheel;

use std::path::Path;
use std::process::ExitCode;

/// A task: its name, its description, and its function.
struct Task {
    name: &'static str,
    help: &'static str,
    run: fn(&Path, &[String]) -> Result<(), String>,
}

/// Every task, one per line.
const TASKS: &[Task] = &[
    Task { name: "bench-add", help: "add a run of `leyden bench --json` to bench/results", run: bench::add },
    Task {
        name: "bench-report",
        help: "write docs/benchmarks.md and its chart from bench/results",
        run: bench::report,
    },
    Task {
        name: "coverage",
        help: "print the lines of each crate that tests run; -p CRATE for some crates",
        run: coverage::run,
    },
    Task {
        name: "dist",
        help: "make a release: archives, Debian packages, checksums, SBOM, signatures; --help for options",
        run: dist::run,
    },
    Task { name: "embed", help: "make the embedded model from its F16 weights", run: embed::run },
    Task {
        name: "lint",
        help: "check the invariants of ARCHITECTURE.md, and commits; --since COMMIT for published ones",
        run: lint::run,
    },
    Task {
        name: "nightly",
        help: "run .ci/nightly, or the named steps of it, and keep its result in .ci/nightly.json",
        run: nightly::run,
    },
    Task {
        name: "third-party",
        help: "write the list of crates in the program, and their licences, for `leyden bundle`",
        run: third_party::run,
    },
    Task { name: "wheel", help: "build the Python package, with module and program", run: wheel::run },
];

fn main() -> ExitCode {
    // The parent and not `..`, since paths of other programs are compared with it.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let task = arguments.first().and_then(|name| TASKS.iter().find(|task| task.name == *name));
    let Some(task) = task else {
        println!("usage: cargo xtask TASK [ARGUMENTS]\n");
        for task in TASKS {
            println!("  {:<13} {}", task.name, task.help);
        }
        return ExitCode::from(2);
    };
    match (task.run)(root, arguments.get(1..).unwrap_or_default()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("{message}");
            ExitCode::FAILURE
        }
    }
}
