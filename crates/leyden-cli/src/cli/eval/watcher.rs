//! Progress of an evaluation on the terminal, and its interruption.

use std::ops::ControlFlow;

use indicatif::ProgressBar;
use leyden_eval::Progress;

use crate::cli::failure::Failure;
use crate::cli::interrupt::Interrupt;
use crate::cli::progress;

/// Progress bar of an evaluation, ended by Ctrl-C.
pub(in crate::cli) struct Watcher {
    bar: Option<ProgressBar>,
    stop: Interrupt,
}

impl Watcher {
    /// Creates the bar and handles Ctrl-C.
    pub(in crate::cli) fn new() -> Result<Watcher, Failure> {
        Ok(Watcher {
            bar: progress::bar("{msg} {wide_bar} {pos}/{len} {eta} left"),
            stop: Interrupt::install()?,
        })
    }

    /// Shows the progress; breaks after Ctrl-C.
    pub(in crate::cli) fn hear(&self, progress: &Progress<'_>) -> ControlFlow<()> {
        if let Some(bar) = &self.bar {
            bar.set_length(progress.all as u64);
            bar.set_position(progress.done as u64);
            bar.set_message(progress.so_far.to_owned());
            if progress.done == progress.all {
                bar.finish_and_clear();
            }
        }
        if self.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Returns true after Ctrl-C.
    pub(in crate::cli) fn is_stopped(&self) -> bool {
        self.stop.is_set()
    }
}
