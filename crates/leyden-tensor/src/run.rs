//! [`Run`]: threads of the caller for work of this crate, which has none of its own.

/// Executor of independent tasks: calls the function once for each index below the count, on any threads and in any
/// order, and returns when all calls have returned. A panic of a call reaches the caller.
pub type Run<'a> = dyn Fn(usize, &(dyn Fn(usize) + Sync)) + 'a;

/// Runs tasks one after the other on the calling thread.
pub fn run_sequentially(n: usize, task: &(dyn Fn(usize) + Sync)) {
    (0..n).for_each(task);
}
