//! [`Bar`]: progress of the measurements.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Progress bar with the current measurement.
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// Returns a bar for `steps` measurements.
    pub(super) fn new(steps: usize) -> Bar {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos} of {len}") {
            bar.set_style(style);
        }
        bar.set_length(steps as u64);
        Bar(bar)
    }

    /// Shows the next measurement.
    pub(super) fn next(&self, what: String) {
        self.0.set_message(what);
        self.0.inc(1);
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
