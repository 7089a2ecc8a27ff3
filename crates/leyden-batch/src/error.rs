//! [`Error`] of a run.

/// Error that ends a run; `E` is the computation's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error<E> {
    /// Error of the source or of the sink.
    #[error("{0}")]
    Rows(#[from] leyden_rows::Error),
    /// Error of the computation that is not about a row.
    #[error("{0}")]
    Computation(E),
    /// Input that lacks rows which an interrupted run finished.
    #[error("the input has {rows} rows less than in the interrupted run")]
    Shorter {
        /// Number of finished rows that the input lacks.
        rows: u64,
    },
    /// Counts that do not add up, which is a bug.
    #[error(
        "{read} rows were read, but {done} are done, {failed} failed and {skipped} belong to other shards"
    )]
    Counts {
        /// Rows of the input.
        read: u64,
        /// Rows with an answer.
        done: u64,
        /// Rows with an error.
        failed: u64,
        /// Rows of other shards.
        skipped: u64,
    },
}
