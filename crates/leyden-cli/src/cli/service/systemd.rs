//! [`Manager`]: systemd's commands, of the user or of the system.

use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::cli::failure::Failure;
use crate::cli::knobs;

/// A manager of services.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manager {
    pub(super) is_user: bool,
}

impl Manager {
    /// Returns the folder of units that an administrator or user writes.
    ///
    /// # Errors
    /// There is no home folder.
    pub(super) fn folder(self) -> Result<PathBuf, Failure> {
        if !self.is_user {
            return Ok(PathBuf::from("/etc/systemd/system"));
        }
        knobs::user_units().ok_or_else(|| {
            Failure::new("no place for a service: neither XDG_CONFIG_HOME nor HOME is set")
                .hint("set HOME, or install a service of the system with --system")
        })
    }

    /// Runs systemctl, and returns its output.
    pub(super) fn run(self, words: &[&str]) -> Result<String, Failure> {
        let output = self.command("systemctl").args(words).stdin(Stdio::null()).output();
        let output = output.map_err(|error| missing("systemctl", &error))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim();
        let said =
            if said.is_empty() { format!("systemctl ended with {}", output.status) } else { said.to_owned() };
        Err(self.explained(words, &said))
    }

    /// Shows the log, with the words of journalctl.
    pub(super) fn show_log(self, words: &[&str]) -> Result<(), Failure> {
        let status = self.command("journalctl").args(words).stdin(Stdio::null()).status();
        let status = status.map_err(|error| missing("journalctl", &error))?;
        if status.success() {
            return Ok(());
        }
        Err(Failure::new(format!("journalctl ended with {status}")))
    }

    fn command(self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(self.is_user.then_some("--user"));
        command
    }

    fn explained(self, words: &[&str], said: &str) -> Failure {
        let failure = Failure::new(format!("systemctl {}: {said}", words.join(" ")));
        if said.contains("has not been booted with systemd") {
            return failure.hint(NO_SYSTEMD);
        }
        if said.contains("Failed to connect") && self.is_user {
            return failure
                .hint("no manager of this user runs: log in by ssh or at the console, not by su or sudo");
        }
        if said.contains("not loaded") || said.contains("not found") || said.contains("does not exist") {
            return failure.hint("`leyden service install MODEL` makes the service");
        }
        if ["ccess denied", "uthentication", "ermission denied"].iter().any(|part| said.contains(part)) {
            return failure.hint("run it with sudo, or use --user");
        }
        failure
    }
}

const NO_SYSTEMD: &str = "this machine has no running systemd: start `leyden serve` in a container (docs/deploy.md) or by another manager; \
                          --dry-run prints the unit";

fn missing(program: &str, error: &io::Error) -> Failure {
    let failure = Failure::new(format!("cannot start {program}: {error}"));
    if error.kind() == io::ErrorKind::NotFound { failure.hint(NO_SYSTEMD) } else { failure }
}
