//! `leyden service status`.

use std::io::Write;

use serde_json::json;

use super::which::Which;
use crate::cli::failure::Failure;
use crate::cli::text::{Facts, bytes};

/// Shows state, process, memory and start of the service; the exit code is 1 if it does not run.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    which: Which,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Properties that are asked for.
const PROPERTIES: &str = "LoadState,ActiveState,SubState,UnitFileState,MainPID,MemoryCurrent,NRestarts,ActiveEnterTimestamp,Result";

/// Prints the state.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let unit = args.which.unit();
    let shown = args.which.manager().run(&["show", &unit, "--property", PROPERTIES])?;
    let of = |name: &str| {
        let value = shown.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.filter(|value| !value.is_empty() && *value != "[not set]").unwrap_or_default()
    };
    let number = |name: &str| of(name).parse::<u64>().ok();
    if of("LoadState") == "not-found" {
        return Err(Failure::new(format!("{unit}: no such service")).hint(
            "`leyden service install MODEL` makes it; --user or --system, and --name, choose another",
        ));
    }
    let is_active = of("ActiveState") == "active";
    let pid = number("MainPID").filter(|pid| *pid > 0);
    if args.json {
        let document = json!({
            "service": args.which.name, "active": is_active, "state": of("ActiveState"), "substate": of("SubState"),
            "starts_with_machine": of("UnitFileState") == "enabled", "process": pid, "memory_bytes": number("MemoryCurrent"),
            "restarts": number("NRestarts"), "since": of("ActiveEnterTimestamp"), "result": of("Result"),
        });
        writeln!(out, "{document}")?;
    } else {
        let mut facts = Facts::default();
        facts.add("service", &unit[..]);
        facts.add("state", format!("{} ({})", of("ActiveState"), of("SubState")));
        facts.add("starts", if of("UnitFileState") == "enabled" { "by itself" } else { "by hand" });
        if let Some(pid) = pid {
            facts.add("process", pid.to_string());
        }
        if let Some(memory) = number("MemoryCurrent") {
            facts.add("memory", bytes(memory));
        }
        if !of("ActiveEnterTimestamp").is_empty() {
            facts.add("since", of("ActiveEnterTimestamp"));
        }
        if let Some(restarts) = number("NRestarts").filter(|restarts| *restarts > 0) {
            facts.add("restarts", restarts.to_string());
        }
        facts.write(out)?;
    }
    if is_active {
        return Ok(());
    }
    let why = of("Result");
    Err(Failure::new(format!("{unit} does not run ({why})"))
        .hint("`leyden service logs` shows why, `leyden service start` starts it"))
}
