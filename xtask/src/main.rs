//! Automation of this repository: `cargo xtask lint`.
#![expect(clippy::print_stdout, reason = "a program that reports to a terminal")]

mod embed;
mod lint;

use std::path::Path;
use std::process::ExitCode;

/// A task: its name, what it does, and the function that does it.
struct Task {
    name: &'static str,
    help: &'static str,
    run: fn(&Path) -> Result<(), String>,
}

/// Every task, one line each.
const TASKS: &[Task] = &[
    Task { name: "embed", help: "make the embedded model from its F16 weights", run: embed::run },
    Task { name: "lint", help: "check the invariants of ARCHITECTURE.md", run: lint::run },
];

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let task = match arguments.as_slice() {
        [name] => TASKS.iter().find(|task| task.name == *name),
        _ => None,
    };
    let Some(task) = task else {
        println!("usage: cargo xtask TASK\n");
        for task in TASKS {
            println!("  {:<8} {}", task.name, task.help);
        }
        return ExitCode::from(2);
    };
    match (task.run)(&root) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("{message}");
            ExitCode::FAILURE
        }
    }
}
