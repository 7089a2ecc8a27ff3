//! Progress of rows and remaining time: a bar on a terminal, occasional lines elsewhere.

use super::super::notes::Notes;
use super::super::progress;
use indicatif::{HumanDuration, ProgressBar};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// Number of steps of a full bar.
const STEPS: u64 = 10_000;
/// Time between two lines if standard error is not a terminal.
const LINES_EVERY: Duration = Duration::from_secs(30);

/// Progress of a run.
pub(crate) struct Meter {
    bar: Option<ProgressBar>,
    notes: Notes,
    start: Instant,
    said: Instant,
    /// Rows and share of the input at the start, after the rows of an interrupted run.
    first: Option<(u64, f64)>,
}

impl Meter {
    /// Creates the progress display. Nothing is shown if results are printed on the same terminal.
    pub(crate) fn new(to_file: bool, notes: Notes) -> Meter {
        let shown = !notes.is_quiet() && (to_file || !io::stdout().is_terminal());
        let bar = shown.then(|| progress::bar("{msg} {wide_bar} {percent} % {eta} left")).flatten();
        if let Some(bar) = &bar {
            bar.set_length(STEPS);
        }
        // Results on standard output show the progress themselves.
        let notes = if to_file { notes } else { Notes::silent() };
        Meter { bar, notes, start: Instant::now(), said: Instant::now(), first: None }
    }

    /// Marks the start of the computation, after `rows` rows of an interrupted run.
    pub(crate) fn begin(&mut self, rows: u64, share: Option<f64>) {
        self.first = Some((rows, share.unwrap_or(0.0)));
        (self.start, self.said) = (Instant::now(), Instant::now());
        if let Some(bar) = &self.bar {
            bar.set_position((share.unwrap_or(0.0) * STEPS as f64) as u64);
            bar.reset_eta();
        }
    }

    /// Shows the number of finished rows.
    pub(crate) fn show(&mut self, rows: u64, share: Option<f64>) {
        let rate = self.rate(rows);
        if let Some(bar) = &self.bar {
            match share {
                Some(share) => bar.set_position((share * STEPS as f64) as u64),
                None => bar.set_length(0),
            }
            bar.set_message(format!("{rows} rows, {rate:.1}/s"));
            return;
        }
        if self.said.elapsed() >= LINES_EVERY {
            self.said = Instant::now();
            let share = share.map_or_else(String::new, |share| {
                let begun = self.first.map_or(0.0, |(_, share)| share);
                let left = self.start.elapsed().as_secs_f64() * (1.0 - share) / (share - begun).max(1e-9);
                let left = HumanDuration(Duration::from_secs_f64(left.clamp(0.0, 1e9)));
                format!(", {:.0} %, {left} left", 100.0 * share)
            });
            self.notes.say(&format!("{rows} rows, {rate:.1}/s{share}"));
        }
    }

    /// Returns the rows per second since the start of the computation.
    pub(crate) fn rate(&self, rows: u64) -> f64 {
        let before = self.first.map_or(0, |(rows, _)| rows);
        rows.saturating_sub(before) as f64 / self.start.elapsed().as_secs_f64().max(1e-6)
    }

    /// Returns the seconds since the start of the computation.
    pub(crate) fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
