//! [`Sink`] of answers, and the one with a journal.

use crate::{Answer, Item};
use leyden_rows::{Entry, Error, Journal, Mark, Row};

/// Taker of answers, which may come in any order.
pub trait Sink: Send {
    /// Returns true if an earlier run finished the row. Rows are passed in order.
    ///
    /// # Errors
    /// The row differs from the one with this number then.
    fn has(&mut self, _number: u64, _row: &Row) -> Result<bool, Error> {
        Ok(false)
    }

    /// Returns the number of rows of an earlier run, and of those with an error.
    fn kept(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Returns the number of rows of an earlier run that were not asked for by [`has`](Self::has).
    ///
    /// # Errors
    /// The earlier run cannot be read.
    fn unmatched(&mut self) -> Result<u64, Error> {
        Ok(0)
    }

    /// Takes the answer to a row.
    ///
    /// # Errors
    /// Writing failed; for a recorder, with its reason.
    fn put(&mut self, item: Item, answer: Answer) -> Result<(), Error>;

    /// Makes all answers so far durable.
    ///
    /// # Errors
    /// Writing failed.
    fn flush(&mut self) -> Result<(), Error>;

    /// Notes the begin of the computation. Returns true if earlier processes were killed again and again without finishing a
    /// row, so that rows should be computed one at a time, each announced by [`begin_alone`](Self::begin_alone).
    ///
    /// # Errors
    /// Writing failed.
    fn begin(&mut self) -> Result<bool, Error> {
        Ok(false)
    }

    /// Notes the begin of the computation of one row alone. Returns the number of processes that ended in it before.
    ///
    /// # Errors
    /// Writing failed.
    fn begin_alone(&mut self, _number: u64) -> Result<u32, Error> {
        Ok(0)
    }

    /// Notes the end of the computation in order: completion, interrupt or an error.
    ///
    /// # Errors
    /// Writing failed.
    fn end(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// Recorder of answers, for an audit: a row counts as done after its record.
pub trait Recorder: Send {
    /// Writes the record of a row.
    ///
    /// # Errors
    /// The reason why it cannot be written.
    fn record(&mut self, item: &Item, answer: &Answer) -> Result<(), String>;

    /// Makes all records so far durable.
    ///
    /// # Errors
    /// The reason why they cannot be written.
    fn flush(&mut self) -> Result<(), String>;
}

/// Number of processes killed without finishing a row after which rows are computed alone.
const MAX_DEATHS: u32 = 3;

/// Sink with a journal, from which a run resumes.
pub struct JournalSink {
    journal: Journal,
    recorder: Option<Box<dyn Recorder>>,
    /// Answers that are not in the journal yet, because their records are not durable.
    waiting: Vec<(Item, Answer)>,
    /// Number of these that are recorded.
    recorded: usize,
}

impl std::fmt::Debug for JournalSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JournalSink").field("journal", &self.journal).finish_non_exhaustive()
    }
}

impl JournalSink {
    /// Returns a sink to a journal.
    #[must_use]
    pub fn new(journal: Journal) -> JournalSink {
        JournalSink { journal, recorder: None, waiting: Vec::new(), recorded: 0 }
    }

    /// Adds a recorder: each answer is recorded, and its record made durable, before it is in the journal.
    #[must_use]
    pub fn with_recorder(self, recorder: Box<dyn Recorder>) -> JournalSink {
        JournalSink { recorder: Some(recorder), ..self }
    }

    /// Returns the journal.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns the journal, to write the output from it and to remove it.
    pub fn journal_mut(&mut self) -> &mut Journal {
        &mut self.journal
    }

    fn append(&mut self, item: &Item, answer: Answer) -> Result<(), Error> {
        let failed = answer.error.is_some();
        let entry = Entry { number: item.number, hash: item.hash, failed, key: answer.key, row: answer.row };
        self.journal.append(&entry).map(drop)
    }
}

impl Sink for JournalSink {
    fn has(&mut self, number: u64, row: &Row) -> Result<bool, Error> {
        self.journal.has(number, row)
    }

    fn kept(&self) -> (u64, u64) {
        (self.journal.rows(), self.journal.failed())
    }

    fn unmatched(&mut self) -> Result<u64, Error> {
        self.journal.unmatched()
    }

    fn put(&mut self, item: Item, answer: Answer) -> Result<(), Error> {
        if self.recorder.is_some() {
            self.waiting.push((item, answer));
            return Ok(());
        }
        self.append(&item, answer)
    }

    fn flush(&mut self) -> Result<(), Error> {
        if let Some(recorder) = &mut self.recorder {
            let failed = |what: String| Error::new("audit", what);
            for (item, answer) in &self.waiting[self.recorded..] {
                recorder.record(item, answer).map_err(failed)?;
                self.recorded += 1;
            }
            recorder.flush().map_err(failed)?;
        }
        self.recorded = 0;
        for (item, answer) in std::mem::take(&mut self.waiting) {
            self.append(&item, answer)?;
        }
        self.journal.sync()
    }

    fn begin(&mut self) -> Result<bool, Error> {
        let alone = self.journal.deaths() >= MAX_DEATHS;
        if self.journal.is_resumable() {
            self.journal.mark(Mark::Begin)?;
        }
        Ok(alone)
    }

    fn begin_alone(&mut self, number: u64) -> Result<u32, Error> {
        let trials = self.journal.trials(number);
        self.journal.mark(Mark::Trial(number))?;
        Ok(trials)
    }

    fn end(&mut self) -> Result<(), Error> {
        self.flush()?;
        if self.journal.is_resumable() { self.journal.mark(Mark::End) } else { Ok(()) }
    }
}
