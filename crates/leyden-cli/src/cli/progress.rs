//! Progress bars on standard error, if it is a terminal.

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::interrupt::Interrupt;

/// Returns a bar with this template; `None` if standard error is not a terminal.
pub(super) fn bar(template: &str) -> Option<ProgressBar> {
    io::stderr().is_terminal().then(|| {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar
    })
}

/// Progress of work that can be interrupted; dropping it removes the bar.
pub(super) struct Progress(Option<ProgressBar>);

impl Progress {
    /// Creates a bar with this template.
    pub(super) fn new(template: &str) -> Progress {
        Progress(bar(template))
    }

    /// Shows the progress. Returns `Break` after Ctrl-C.
    pub(super) fn step(&self, done: usize, all: usize, stop: &Interrupt) -> ControlFlow<()> {
        if let Some(bar) = &self.0 {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        }
        if stop.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Shows a message beside the bar.
    pub(super) fn message(&self, text: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(text.to_owned());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
