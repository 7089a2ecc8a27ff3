//! [`Notes`]: messages on standard error besides failures.

use std::io::Write;

/// Messages on standard error, which `--quiet` suppresses.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(super) struct Notes {
    /// Print only errors on standard error
    #[arg(long, short)]
    quiet: bool,
}

impl Notes {
    /// Writes a line.
    pub(super) fn say(self, text: &str) {
        if !self.quiet {
            // Errors of standard error cannot be reported.
            let _ = writeln!(super::terminal::errors(), "{text}");
        }
    }

    /// Returns notes that are not written.
    pub(super) fn silent() -> Notes {
        Notes { quiet: true }
    }

    /// Returns true if notes are suppressed.
    pub(super) fn is_quiet(self) -> bool {
        self.quiet
    }
}
