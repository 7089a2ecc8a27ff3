//! A bar on standard error, where that is a terminal.

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::interrupt::Interrupt;

/// A bar that looks as `template` says; nothing is drawn where standard error is no terminal.
pub(super) fn bar(template: &str) -> Option<ProgressBar> {
    io::stderr().is_terminal().then(|| {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar
    })
}

/// The way of work that can be interrupted; its bar goes when this value does.
pub(super) struct Progress(Option<ProgressBar>);

impl Progress {
    /// A bar that looks as `template` says.
    pub(super) fn new(template: &str) -> Progress {
        Progress(bar(template))
    }

    /// Shows how much of all is done, and tells whether to go on.
    pub(super) fn step(&self, done: usize, all: usize, stop: &Interrupt) -> ControlFlow<()> {
        if let Some(bar) = &self.0 {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        }
        if stop.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Shows what is being done.
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
