//! [`Session`]: a run over rows with its display, its interrupt and its messages.

use super::{Meter, Sink};
use crate::cli::failure::Failure;
use crate::cli::interrupt::Interrupt;
use crate::cli::notes::Notes;
use crate::cli::text::plural;
use leyden_batch::{Computation, Item, Limits, Progress, Run, Sink as _, Source, Summary};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Run over rows.
pub(crate) struct Session<'a> {
    /// Output file; `None` for standard output.
    pub(crate) to_file: Option<&'a Path>,
    pub(crate) limits: Limits,
    pub(crate) notes: Notes,
    /// Flag that ends the run.
    pub(crate) stop: Option<&'a Interrupt>,
}

/// Formats a number of rows: `1 row`, `2 rows`.
fn counted(rows: u64) -> String {
    plural(usize::try_from(rows).unwrap_or(usize::MAX), "row")
}

impl Session<'_> {
    /// Computes all rows and writes the output. Returns the counts, with the seconds and the rows per second.
    ///
    /// # Errors
    /// The run failed or was interrupted. Rows with errors are no failure.
    pub(crate) fn go_over<C: Computation<Failure = Failure>>(
        &self,
        source: Box<dyn Source + '_>,
        sink: &mut Sink<'_>,
        error_row: &(dyn Fn(&Item, &str) -> String + Sync),
        computation: &mut C,
    ) -> Result<(Summary, f64, f64), Failure> {
        let (kept, _) = sink.kept();
        let place = self.to_file.map(|path| path.display().to_string()).unwrap_or_default();
        if kept > 0 {
            let rows = counted(kept);
            self.notes.say(&format!("{place}: continuing after {rows} of an interrupted run"));
        }
        let meter = Mutex::new(Meter::new(self.to_file.is_some(), self.notes));
        let show = |progress: &Progress| meter.lock().unwrap_or_else(PoisonError::into_inner).show(progress);
        let stopped = || self.stop.is_some_and(Interrupt::is_set);
        let run = Run::new(source, sink, error_row).limits(self.limits).stop(&stopped).progress(&show);
        let outcome = leyden_batch::run(run, computation);
        let meter = meter.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (seconds, rate) = (meter.seconds(), meter.rate());
        drop(meter);
        if let Some(lost) = sink.lost() {
            return Err(lost);
        }
        let summary = outcome?;
        let finished = counted(summary.done + summary.failed);
        if summary.stopped {
            self.notes.say(&format!("stopped after {finished}; the same command continues from there"));
            return Err(Failure::interrupted());
        }
        sink.finish()?;
        if self.to_file.is_some() {
            self.notes.say(&format!("{place}: {finished}, {seconds:.1} s, {rate:.1} rows/s"));
        }
        Ok((summary, seconds, rate))
    }
}
