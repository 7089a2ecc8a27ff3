//! [`Test`]: one row of the results.

use leyden_kernels::placement::{PlacementRequest, Replicas};

/// Test of llama-bench: sizes of the prompt and the answer, and threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Test {
    /// Number of prompt tokens.
    pub(super) prompt: usize,
    /// Number of generated tokens per sequence.
    pub(super) generate: usize,
    /// Number of tokens in the KV cache before the test, not timed.
    pub(super) depth: usize,
    /// Number of sequences that generate together in each replica.
    pub(super) parallel: usize,
    /// Maximum number of prompt tokens in a step.
    pub(super) batch: usize,
    /// Number of replicas that run the test at the same time.
    pub(super) replicas: usize,
    /// Threads of each replica for decode, if given.
    pub(super) threads: Option<usize>,
    /// Threads of each replica for prefill, if given.
    pub(super) threads_batch: Option<usize>,
}

impl Test {
    /// Returns llama-bench's name: `pp512`, `tg128 @ d4096`; `x8` is added for eight sequences.
    pub(super) fn name(&self) -> String {
        let mut name = match (self.prompt, self.generate) {
            (p, 0) => format!("pp{p}"),
            (0, n) => format!("tg{n}"),
            (p, n) => format!("pp{p}+tg{n}"),
        };
        if self.parallel > 1 {
            name += &format!(" x{}", self.parallel);
        }
        if self.depth > 0 {
            name += &format!(" @ d{}", self.depth);
        }
        name
    }

    /// Returns the number of sequences of all replicas.
    pub(super) fn users(&self) -> usize {
        self.parallel * self.replicas
    }

    /// Returns the number of timed tokens of all sequences.
    pub(super) fn tokens(&self) -> usize {
        (self.prompt + self.generate) * self.users()
    }

    /// Returns the request for threads.
    pub(super) fn request(&self) -> PlacementRequest {
        let replicas = Replicas::Count(self.replicas);
        PlacementRequest { replicas, threads: self.threads, threads_batch: self.threads_batch }
    }
}
