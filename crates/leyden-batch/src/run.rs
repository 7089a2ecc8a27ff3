//! [`run`]: the loop of a run.

use crate::{Error, Feed, Item, Next, Run};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Computation of answers.
pub trait Computation {
    /// Error that is not about a row, and ends the run.
    type Failure;

    /// Takes rows from the feed until there are no more, and gives it their answers. It ends early if
    /// [`Feed::is_stopped`].
    ///
    /// A panic is taken for the fault of one of the rows in flight: they are computed again, in ever smaller groups. A
    /// computation with threads of its own catches their panics and gives rows back ([`Feed::give_back`]).
    ///
    /// # Errors
    /// It cannot go on.
    fn compute(&mut self, feed: &Feed<'_>) -> Result<(), Self::Failure>;

    /// Makes the computation usable after a panic.
    ///
    /// # Errors
    /// It cannot go on.
    fn reset(&mut self) -> Result<(), Self::Failure> {
        Ok(())
    }
}

/// Counts of a run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// Rows of the input.
    pub read: u64,
    /// Rows with an answer.
    pub done: u64,
    /// Rows with an error.
    pub failed: u64,
    /// Rows of other shards.
    pub skipped: u64,
    /// Rows that earlier runs finished.
    pub kept: u64,
    /// Place and reason of the first row with an error of this process.
    pub first_error: Option<String>,
    /// True if an interrupt ended the run before all rows were done.
    pub stopped: bool,
}

/// Number of processes that must have ended in a row alone before it gets an error.
const MAX_TRIALS: u32 = 2;

/// Computes all rows of a run. The caller then writes the output, unless [`Summary::stopped`].
///
/// # Errors
/// The input cannot be read or differs from that of the interrupted run, answers cannot be written, or the computation failed.
/// Answers so far are kept by the sink.
pub fn run<C: Computation>(run: Run<'_>, computation: &mut C) -> Result<Summary, Error<C::Failure>> {
    let feed = Feed::new(run);
    let outcome = go_over(&feed, computation);
    let mut state = feed.lock();
    let fault = state.fault.take();
    if let (None, Ok(())) = (&fault, &outcome) {
        state.show();
    }
    let complete = fault.is_none() && outcome.is_ok() && state.is_complete();
    let ended = if complete { state.sink.flush() } else { state.sink.end() };
    if let Some(fault) = fault {
        return Err(fault.into());
    }
    outcome?;
    ended?;
    let counts = state.counts;
    let (read, done, failed, skipped) = (counts.read, counts.done, counts.failed, counts.skipped);
    let summary = Summary {
        read,
        done,
        failed,
        skipped,
        kept: counts.kept,
        first_error: state.first_error.take().map(|(_, error)| error),
        stopped: !complete,
    };
    if complete {
        let rows = state.sink.unmatched()?;
        if rows > 0 {
            return Err(Error::Shorter { rows });
        }
        if read != done + failed + skipped {
            return Err(Error::Counts { read, done, failed, skipped });
        }
    }
    Ok(summary)
}

fn go_over<C: Computation>(feed: &Feed<'_>, computation: &mut C) -> Result<(), Error<C::Failure>> {
    let mut first = match feed.try_next() {
        Next::Row(item) => item,
        _ => return Ok(()),
    };
    let alone = feed.lock().sink.begin()?;
    if alone {
        // As many rows as can have been in flight when the processes were killed.
        let window = feed.lock().limits_window();
        for left in (0..window).rev() {
            let trials = feed.lock().sink.begin_alone(first.number)?;
            if trials >= MAX_TRIALS {
                let reason =
                    format!("the process was killed {trials} times while it computed this row alone");
                feed.refuse(&first, &reason);
            } else {
                retry(feed, computation, vec![Arc::clone(&first)])?;
            }
            feed.lock().sink.flush()?;
            feed.all();
            first = match feed.try_next() {
                Next::Row(item) => item,
                _ => return Ok(()),
            };
            if left == 0 {
                break;
            }
        }
    }
    feed.put_first(first);
    loop {
        let panicked = pass(feed, computation)?;
        if feed.is_stopped() {
            return Ok(());
        }
        let left = feed.left();
        if !left.is_empty() {
            let suspects: Vec<Arc<Item>> = left.into_iter().map(|(item, _)| item).collect();
            retry(feed, computation, suspects)?;
            feed.all();
        }
        let ended = feed.lock().ended;
        if feed.is_stopped() || ended && panicked.is_none() {
            return Ok(());
        }
    }
}

/// Computes rows that may be poisonous in smaller and smaller groups, until each has an answer.
fn retry<C: Computation>(
    feed: &Feed<'_>,
    computation: &mut C,
    suspects: Vec<Arc<Item>>,
) -> Result<(), Error<C::Failure>> {
    let mut open = vec![suspects];
    while let Some(mut set) = open.pop() {
        if set.len() > 1 {
            open.push(set.split_off(set.len() / 2));
        }
        feed.only(&set);
        let panicked = pass(feed, computation)?;
        if feed.is_stopped() {
            return Ok(());
        }
        let of_set = |item: &Item| set.iter().any(|one| one.number == item.number);
        let left: Vec<_> = feed.left().into_iter().filter(|(item, _)| of_set(item)).collect();
        if set.len() > 1 {
            if !left.is_empty() {
                open.push(left.into_iter().map(|(item, _)| item).collect());
            }
            continue;
        }
        for (item, given_back) in left {
            let reason =
                given_back.or(panicked.as_ref().map(|what| format!("the computation failed: {what}")));
            feed.refuse(&item, reason.as_deref().unwrap_or("the computation gave no answer"));
        }
    }
    Ok(())
}

/// Computes once. Returns the message of a panic.
fn pass<C: Computation>(feed: &Feed<'_>, computation: &mut C) -> Result<Option<String>, Error<C::Failure>> {
    match catch_unwind(AssertUnwindSafe(|| computation.compute(feed))) {
        Ok(result) => result.map(|()| None).map_err(Error::Computation),
        Err(panic) => {
            computation.reset().map_err(Error::Computation)?;
            Ok(Some(message(panic.as_ref())))
        }
    }
}

/// Returns the message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic".to_owned())
}
