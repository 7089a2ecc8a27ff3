//! [`Meter`]: progress over bytes.

use std::ops::ControlFlow;

use crate::cli::failure::Failure;
use crate::cli::interrupt::Interrupt;
use crate::cli::progress::Progress;

/// Progress over bytes, which Ctrl-C ends.
pub(super) struct Meter {
    bar: Progress,
    stop: Interrupt,
    done: u64,
    all: u64,
}

impl Meter {
    pub(super) fn new(what: &str, all: u64) -> Result<Meter, Failure> {
        let bar = Progress::new(&format!("{what} {{wide_bar}} {{bytes}}/{{total_bytes}} {{eta}} left"));
        Ok(Meter { bar, stop: Interrupt::install()?, done: 0, all })
    }

    /// Shows so many more bytes.
    pub(super) fn heard(&mut self, bytes: u64) -> ControlFlow<()> {
        self.done = self.done.saturating_add(bytes);
        let counted = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        self.bar.step(counted(self.done), counted(self.all), &self.stop)
    }
}
