//! [`Feed`]: hands rows to a computation and takes its answers, on any number of threads.

use crate::ids::Ids;
use crate::{Answer, Item, Limits, Progress, Sink, Source};
use leyden_rows::{Error, Row};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Field with the id that the user gives a row.
const ID: &str = "custom_id";
/// Time between two looks at the flag of an interrupt while a thread waits.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Result of [`Feed::try_next`].
#[derive(Debug)]
pub enum Next {
    /// Row to compute.
    Row(Arc<Item>),
    /// No row before others are done.
    Wait,
    /// No row any more.
    End,
}

/// Rows for a computation, and its answers.
pub struct Feed<'a> {
    /// Locked before the state, and while a row is read: answers are taken meanwhile.
    source: Mutex<Box<dyn Source + 'a>>,
    state: Mutex<State<'a>>,
    changed: Condvar,
    stop: &'a (dyn Fn() -> bool + Sync),
}

impl std::fmt::Debug for Feed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}

/// Row that was handed out.
struct Flight {
    item: Arc<Item>,
    /// Reason with which the computation gave it back.
    given_back: Option<String>,
}

/// State of a run.
pub(crate) struct State<'a> {
    pub(crate) sink: &'a mut dyn Sink,
    error_row: &'a (dyn Fn(&Item, &str) -> String + Sync),
    progress: &'a (dyn Fn(&Progress) + Sync),
    limits: Limits,
    ids: Ids,
    /// Rows to hand out before those of the source.
    queue: VecDeque<Arc<Item>>,
    /// True if only rows of the queue are handed out.
    only_queue: bool,
    in_flight: BTreeMap<u64, Flight>,
    bytes_in_flight: usize,
    n_given_back: usize,
    /// Number of the next row of the source.
    number: u64,
    pub(crate) ended: bool,
    pub(crate) counts: Progress,
    /// First row with an error in the order of the input: its number, and its place with the reason.
    pub(crate) first_error: Option<(u64, String)>,
    /// True if answers are not durable yet.
    is_dirty: bool,
    pub(crate) fault: Option<Error>,
    flushed: Instant,
    shown: Instant,
}

impl<'a> Feed<'a> {
    pub(crate) fn new(run: crate::Run<'a>) -> Feed<'a> {
        let crate::Run { source, sink, error_row, limits, stop, progress } = run;
        let (kept, failed) = sink.kept();
        let counts = Progress { kept, done: kept - failed, failed, ..Progress::default() };
        let now = Instant::now();
        let state = State {
            sink,
            error_row,
            progress,
            limits,
            ids: Ids::default(),
            queue: VecDeque::new(),
            only_queue: false,
            in_flight: BTreeMap::new(),
            bytes_in_flight: 0,
            n_given_back: 0,
            number: 0,
            ended: false,
            counts,
            first_error: None,
            is_dirty: false,
            fault: None,
            flushed: now,
            shown: now,
        };
        Feed { source: Mutex::new(source), state: Mutex::new(state), changed: Condvar::new(), stop }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State<'a>> {
        // A panic within a lock is one of source, sink or progress; the run ends with it anyway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the computation should end at once: after an interrupt or an error. Rows without an answer stay to be
    /// done.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        (self.stop)() || self.lock().fault.is_some()
    }

    /// Returns the next row. Waits while too many rows are in flight, and returns `None` if there is no row any more.
    pub fn next(&self) -> Option<Arc<Item>> {
        loop {
            match self.try_next() {
                Next::Row(item) => return Some(item),
                Next::End => return None,
                Next::Wait => {
                    let state = self.lock();
                    drop(self.changed.wait_timeout(state, LOOK_EVERY));
                }
            }
        }
    }

    /// Returns the next row, without waiting.
    pub fn try_next(&self) -> Next {
        if (self.stop)() {
            return Next::End;
        }
        let next = self.read_next().unwrap_or_else(|error| {
            self.lock().fault.get_or_insert(error);
            Next::End
        });
        if matches!(next, Next::End) {
            self.changed.notify_all();
        }
        next
    }

    fn read_next(&self) -> Result<Next, Error> {
        loop {
            if let Some(next) = self.lock().without_source()? {
                return Ok(next);
            }
            let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
            // Another thread may have read the last row meanwhile.
            if self.lock().ended {
                return Ok(Next::End);
            }
            let row = source.next()?;
            let mut state = self.lock();
            state.counts.share = source.share();
            match row {
                None => {
                    state.ended = true;
                    return Ok(Next::End);
                }
                Some(row) => {
                    if let Some(item) = state.read(row)? {
                        return Ok(Next::Row(item));
                    }
                }
            }
        }
    }

    /// Makes all answers so far durable.
    pub fn flush(&self) {
        let mut state = self.lock();
        if let Err(error) = state.flush() {
            state.fault.get_or_insert(error);
        }
    }

    /// Takes the answer to the row with this number. A second answer is ignored.
    pub fn done(&self, number: u64, answer: Answer) {
        let mut state = self.lock();
        if let Err(error) = state.done(number, answer) {
            state.fault.get_or_insert(error);
        }
        self.changed.notify_all();
    }

    /// Takes the reason why a row cannot be computed.
    pub fn refuse(&self, item: &Item, reason: &str) {
        let row = (self.lock().error_row)(item, reason);
        self.done(item.number, Answer::failed(row, reason));
    }

    /// Takes back a row whose computation failed together with those of others, which may have caused it. It is computed
    /// again, at last alone; the reason is that of its answer if it fails then.
    pub fn give_back(&self, number: u64, reason: &str) {
        let mut state = self.lock();
        if let Some(flight) = state.in_flight.get_mut(&number)
            && flight.given_back.replace(reason.to_owned()).is_none()
        {
            state.n_given_back += 1;
        }
        self.changed.notify_all();
    }

    /// Hands out these rows only, again.
    pub(crate) fn only(&self, items: &[Arc<Item>]) {
        let mut state = self.lock();
        state.queue = items.iter().cloned().collect();
        state.only_queue = true;
        for item in items {
            if let Some(flight) = state.in_flight.get_mut(&item.number)
                && flight.given_back.take().is_some()
            {
                state.n_given_back -= 1;
            }
        }
    }

    /// Hands out this row before those of the source.
    pub(crate) fn put_first(&self, item: Arc<Item>) {
        self.lock().queue.push_front(item);
    }

    /// Hands out rows of the source again.
    pub(crate) fn all(&self) {
        let mut state = self.lock();
        state.queue.clear();
        state.only_queue = false;
    }

    /// Returns the rows that were handed out and have no answer, with the reasons for which they were given back.
    pub(crate) fn left(&self) -> Vec<(Arc<Item>, Option<String>)> {
        let state = self.lock();
        state.in_flight.values().map(|flight| (Arc::clone(&flight.item), flight.given_back.clone())).collect()
    }
}

impl State<'_> {
    /// Returns what is next without the source; `None` if a row is to be read.
    fn without_source(&mut self) -> Result<Option<Next>, Error> {
        if self.fault.is_some() {
            return Ok(Some(Next::End));
        }
        if let Some(item) = self.queue.pop_front() {
            return Ok(Some(Next::Row(item)));
        }
        if self.only_queue || self.ended {
            return Ok(Some(Next::End));
        }
        let low = self.in_flight.first_key_value().map_or(self.number, |(number, _)| *number);
        let full = self.number - low >= self.limits.window as u64
            || self.bytes_in_flight >= self.limits.bytes && !self.in_flight.is_empty();
        if full {
            // Rows that were given back are computed after the others.
            let others = self.in_flight.len() > self.n_given_back;
            return Ok(Some(if others { Next::Wait } else { Next::End }));
        }
        if self.in_flight.is_empty() && self.flushed.elapsed() >= LOOK_EVERY {
            // The source may wait long for the next row.
            self.flush()?;
        }
        Ok(None)
    }

    fn flush(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.is_dirty) {
            self.sink.flush()?;
            self.flushed = Instant::now();
        }
        Ok(())
    }

    /// Takes a row of the source. Returns it if it is to be computed.
    fn read(&mut self, row: Row) -> Result<Option<Arc<Item>>, Error> {
        let index = self.counts.read;
        self.counts.read += 1;
        let id = match row.fields.get(ID) {
            Some(Value::String(id)) => Some(id.clone()),
            Some(Value::Number(id)) => Some(id.to_string()),
            _ => None,
        };
        let earlier = id.as_ref().and_then(|id| self.ids.add(id, index));
        if self.limits.shard.is_some_and(|shard| !shard.has(id.as_deref(), index)) {
            self.counts.skipped += 1;
            return Ok(None);
        }
        let number = self.number;
        self.number += 1;
        if self.sink.has(number, &row)? {
            self.counts.passed += 1;
            return Ok(None);
        }
        let (hash, bytes) = row.hash_and_bytes();
        let mut problem = row.problem.clone();
        if let (Some(id), Some(earlier)) = (&id, earlier) {
            problem.get_or_insert_with(|| format!("custom_id `{id}`: row {} has it, too", earlier + 1));
        }
        let item = Arc::new(Item { number, index, id, row, hash, bytes });
        self.bytes_in_flight += bytes;
        self.in_flight.insert(number, Flight { item: Arc::clone(&item), given_back: None });
        if let Some(problem) = problem {
            let answer = Answer::failed((self.error_row)(&item, &problem), problem);
            self.done(number, answer)?;
            return Ok(None);
        }
        Ok(Some(item))
    }

    fn done(&mut self, number: u64, answer: Answer) -> Result<(), Error> {
        let Some(Flight { item, given_back }) = self.in_flight.remove(&number) else { return Ok(()) };
        self.n_given_back -= usize::from(given_back.is_some());
        self.bytes_in_flight -= item.bytes;
        match &answer.error {
            None => self.counts.done += 1,
            Some(reason) => {
                self.counts.failed += 1;
                if self.first_error.as_ref().is_none_or(|(first, _)| number < *first) {
                    self.first_error = Some((number, format!("{}: {reason}", item.row.place)));
                }
            }
        }
        // A copy only if the computation still holds the row.
        self.sink.put(Arc::try_unwrap(item).unwrap_or_else(|item| (*item).clone()), answer)?;
        self.is_dirty = true;
        if self.flushed.elapsed() >= self.limits.flush_every {
            self.flush()?;
        }
        if self.shown.elapsed() >= LOOK_EVERY {
            self.show();
        }
        Ok(())
    }

    /// Returns true if the source has ended and every row has an answer.
    pub(crate) fn is_complete(&self) -> bool {
        self.ended && self.in_flight.is_empty()
    }

    pub(crate) fn limits_window(&self) -> usize {
        self.limits.window
    }

    pub(crate) fn show(&mut self) {
        (self.progress)(&self.counts);
        self.shown = Instant::now();
    }
}
