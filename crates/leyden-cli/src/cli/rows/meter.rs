//! Progress of rows and remaining time: a bar on a terminal, occasional lines elsewhere.

use super::super::notes::Notes;
use super::super::progress;
use indicatif::{HumanDuration, ProgressBar};
use leyden_batch::Progress;
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
    /// Share of the input at the start of the computation, after the rows of an interrupted run.
    first_share: Option<f64>,
    /// Rows that this process finished.
    rows: u64,
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
        Meter { bar, notes, start: Instant::now(), said: Instant::now(), first_share: None, rows: 0 }
    }

    /// Shows the counts.
    pub(crate) fn show(&mut self, progress: &Progress) {
        let Progress { done, failed, kept, share, .. } = *progress;
        let finished = done + failed;
        self.rows = finished.saturating_sub(kept);
        let first = *self.first_share.get_or_insert_with(|| {
            if let Some(bar) = &self.bar {
                bar.set_position((share.unwrap_or(0.0) * STEPS as f64) as u64);
                bar.reset_eta();
            }
            if kept > 0 { share.unwrap_or(0.0) } else { 0.0 }
        });
        let rate = self.rate();
        let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
        if let Some(bar) = &self.bar {
            match share {
                Some(share) => bar.set_position((share * STEPS as f64) as u64),
                None => bar.set_length(0),
            }
            bar.set_message(format!("{finished} rows{failed}, {rate:.1}/s"));
            return;
        }
        if self.said.elapsed() >= LINES_EVERY {
            self.said = Instant::now();
            let share = share.map_or_else(String::new, |share| {
                let left = self.start.elapsed().as_secs_f64() * (1.0 - share) / (share - first).max(1e-9);
                let left = HumanDuration(Duration::from_secs_f64(left.clamp(0.0, 1e9)));
                format!(", {:.0} %, {left} left", 100.0 * share)
            });
            self.notes.say(&format!("{finished} rows{failed}, {rate:.1}/s{share}"));
        }
    }

    /// Returns the rows per second of this process.
    pub(crate) fn rate(&self) -> f64 {
        self.rows as f64 / self.start.elapsed().as_secs_f64().max(1e-6)
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
