//! What a rendering may use: steps of work, memory that is alive, and depth.
//!
//! A template comes with a model file from anywhere, and its language can loop, double strings and
//! recurse. So every step is counted here, and every string and list that a template makes is entered
//! when it is made and struck off when it is dropped. What a rendering may use grows with the messages
//! it was given, and with nothing that the template says.

use std::cell::Cell;

/// Why a rendering stopped.
#[derive(Debug, PartialEq)]
pub(super) enum Failure {
    /// The template does something that cannot be done.
    Error(String),
    /// The template called `raise_exception`.
    Raised(String),
    /// A bound was reached.
    Limit(&'static str),
}

impl Failure {
    /// The same, which says what it is about if it does not yet.
    pub(super) fn about(self, what: Option<String>) -> Failure {
        match (self, what) {
            (Failure::Error(message), Some(what)) if !message.starts_with('`') => {
                Failure::Error(format!("`{what}`: {message}"))
            }
            (failure, _) => failure,
        }
    }
}

pub(super) type Result<T, E = Failure> = std::result::Result<T, E>;

/// A failure with a message.
pub(super) fn fail<T>(message: impl Into<String>) -> Result<T> {
    Err(Failure::Error(message.into()))
}

/// Steps for any messages: a long conversation in a large template takes some hundred thousand.
const BASE_STEPS: u64 = 10_000_000;
/// Steps for each byte that the messages take in memory, for templates that look at every message for each.
const STEPS_PER_BYTE: u64 = 20;
/// Bytes alive at once for any messages.
const BASE_BYTES: usize = 16 << 20;
/// Bytes alive at once for each byte that the messages take.
const BYTES_PER_BYTE: usize = 16;
/// Nested expressions, blocks and macro calls being evaluated. The thread's stack is sized for it.
const MAX_DEPTH: u32 = 600;
/// Bytes that count as one step where they are copied or searched.
const BYTES_PER_STEP: usize = 32;

/// The account of one rendering.
#[derive(Debug)]
pub(super) struct Budget {
    steps_left: Cell<u64>,
    bytes: Cell<usize>,
    max_bytes: Cell<usize>,
    depth: Cell<u32>,
}

impl Budget {
    /// An account that bears any messages; [`fix`](Self::fix) sets the bounds once they are in.
    pub(super) fn new() -> Self {
        let (steps, bytes) = (u64::MAX, usize::MAX);
        Budget {
            steps_left: Cell::new(steps),
            bytes: Cell::new(0),
            max_bytes: Cell::new(bytes),
            depth: Cell::new(0),
        }
    }

    /// Sets the bounds by what is alive now.
    pub(super) fn fix(&self) {
        let bytes = self.bytes.get();
        self.max_bytes.set(bytes.saturating_mul(BYTES_PER_BYTE).saturating_add(BASE_BYTES));
        self.steps_left.set((bytes as u64).saturating_mul(STEPS_PER_BYTE).saturating_add(BASE_STEPS));
    }

    /// Counts steps.
    pub(super) fn steps(&self, n: usize) -> Result<()> {
        match self.steps_left.get().checked_sub(n as u64) {
            Some(left) => {
                self.steps_left.set(left);
                Ok(())
            }
            None => Err(Failure::Limit("it runs for too long")),
        }
    }

    /// Counts the steps of looking at `n` bytes.
    pub(super) fn scan(&self, n: usize) -> Result<()> {
        self.steps(1 + n / BYTES_PER_STEP)
    }

    /// Checks that `n` bytes can be made, before they are.
    pub(super) fn can_make(&self, n: usize) -> Result<()> {
        match self.bytes.get().checked_add(n) {
            Some(bytes) if bytes <= self.max_bytes.get() => self.scan(n),
            _ => Err(Failure::Limit("it needs too much memory")),
        }
    }

    /// Enters `n` bytes that are alive from now on.
    pub(super) fn make(&self, n: usize) -> Result<()> {
        self.can_make(n)?;
        self.bytes.set(self.bytes.get() + n);
        Ok(())
    }

    /// Strikes off `n` bytes.
    pub(super) fn free(&self, n: usize) {
        self.bytes.set(self.bytes.get().saturating_sub(n));
    }

    /// Goes one level deeper; [`leave`](Self::leave) comes back.
    pub(super) fn enter(&self) -> Result<()> {
        if self.depth.get() >= MAX_DEPTH {
            return Err(Failure::Limit("its macros or expressions nest too deeply"));
        }
        self.depth.set(self.depth.get() + 1);
        self.steps(1)
    }

    /// Comes back from [`enter`](Self::enter).
    pub(super) fn leave(&self) {
        self.depth.set(self.depth.get().saturating_sub(1));
    }
}
