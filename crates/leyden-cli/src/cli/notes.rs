//! What is said to people on standard error beside failures.

use std::io::Write;

/// Says things, unless `--quiet` asks for silence.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(super) struct Notes {
    /// Say nothing on standard error but errors
    #[arg(long, short)]
    quiet: bool,
}

impl Notes {
    /// Writes a line.
    pub(super) fn say(self, text: &str) {
        if !self.quiet {
            // Nobody is left to tell if this fails.
            let _ = writeln!(super::terminal::errors(), "{text}");
        }
    }

    /// Notes that nobody sees.
    pub(super) fn silent() -> Notes {
        Notes { quiet: true }
    }

    /// Whether nothing is to be said.
    pub(super) fn is_quiet(self) -> bool {
        self.quiet
    }
}
