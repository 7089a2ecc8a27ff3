//! [`Test`]: one row of the results.

use leyden_kernels::placement::{PlacementRequest, Replicas};

/// Test of llama-bench: sizes of the prompt and the answer, and threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Test {
    /// Tokens read at once.
    pub(super) prompt: usize,
    /// Tokens generated one by one, per sequence.
    pub(super) generate: usize,
    /// Tokens in the context before, not timed.
    pub(super) depth: usize,
    /// Sequences that generate together, in each replica.
    pub(super) parallel: usize,
    /// The most tokens of a prompt in one step.
    pub(super) batch: usize,
    /// Teams that run the test at the same time.
    pub(super) replicas: usize,
    /// Threads of each to generate with, if the arguments name them.
    pub(super) threads: Option<usize>,
    /// Threads of each to read prompts with, if the arguments name them.
    pub(super) threads_batch: Option<usize>,
}

impl Test {
    /// As llama-bench names it: `pp512`, `tg128 @ d4096`, and `x8` for eight sequences.
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

    /// Sequences of all replicas.
    pub(super) fn users(&self) -> usize {
        self.parallel * self.replicas
    }

    /// Tokens that are timed, of all sequences.
    pub(super) fn tokens(&self) -> usize {
        (self.prompt + self.generate) * self.users()
    }

    /// Returns the request for threads.
    pub(super) fn request(&self) -> PlacementRequest {
        let replicas = Replicas::Count(self.replicas);
        PlacementRequest { replicas, threads: self.threads, threads_batch: self.threads_batch }
    }
}
