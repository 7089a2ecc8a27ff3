//! [`Groups`]: a computation of groups of rows, on one thread.

use crate::{Answer, Computation, Feed, Item, Next};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of rows of the first group.
const FIRST_GROUP: usize = 32;
/// Maximum number of rows of a group.
const MAX_GROUP: usize = 256;
/// Target time of a group, so that progress is shown and an interrupt is noticed in time.
const TARGET_TIME: Duration = Duration::from_secs(1);

/// Computation of groups of rows by a function, which returns the answer to each row, or the reason why it has none. The size of
/// groups follows the time that they take.
#[derive(Debug)]
pub struct Groups<F> {
    compute: F,
    size: usize,
}

impl<F> Groups<F> {
    /// Returns the computation by `compute`.
    #[must_use]
    pub fn new<E>(compute: F) -> Groups<F>
    where
        F: FnMut(&[Arc<Item>]) -> Result<Vec<Result<Answer, String>>, E>,
    {
        Groups { compute, size: FIRST_GROUP }
    }
}

/// Function of a group.
pub trait GroupFunction {
    /// Error that ends the run.
    type Failure;

    /// Computes a group.
    ///
    /// # Errors
    /// The computation cannot go on.
    fn call(&mut self, items: &[Arc<Item>]) -> Result<Vec<Result<Answer, String>>, Self::Failure>;
}

impl<E, F: FnMut(&[Arc<Item>]) -> Result<Vec<Result<Answer, String>>, E>> GroupFunction for F {
    type Failure = E;

    fn call(&mut self, items: &[Arc<Item>]) -> Result<Vec<Result<Answer, String>>, E> {
        self(items)
    }
}

impl<F: GroupFunction> Computation for Groups<F> {
    type Failure = F::Failure;

    fn compute(&mut self, feed: &Feed<'_>) -> Result<(), F::Failure> {
        loop {
            let mut group = Vec::new();
            while group.len() < self.size
                && let Next::Row(item) = feed.try_next()
            {
                group.push(item);
            }
            if group.is_empty() {
                return Ok(());
            }
            let start = Instant::now();
            let answers = self.compute.call(&group)?;
            for (item, answer) in group.into_iter().zip(answers) {
                match answer {
                    Ok(answer) => feed.done(item.number, answer),
                    Err(reason) => feed.refuse(&item, &reason),
                }
            }
            feed.flush();
            let took = start.elapsed();
            if took > 2 * TARGET_TIME {
                self.size = (self.size / 2).max(1);
            } else if 2 * took < TARGET_TIME {
                self.size = (2 * self.size).min(MAX_GROUP);
            }
        }
    }
}
