//! Limits of a rendering: steps of work, bytes of live memory, and depth.
//!
//! A template comes with an untrusted model file, and its language can loop, double strings and recurse. So every
//! step is counted here, and every string and list that a template creates is added when it is created and
//! subtracted when it is dropped. The limits grow with the size of the messages, and do not depend on the template.

use std::cell::Cell;

/// Reason for which a rendering stopped.
#[derive(Debug, PartialEq)]
pub(super) enum Failure {
    /// The template does something invalid.
    Error(String),
    /// The template called `raise_exception`.
    Raised(String),
    /// A limit was reached.
    Limit(&'static str),
}

impl Failure {
    /// Prefixes an error message with the expression that it concerns, unless it has a prefix.
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

/// Returns an error with a message.
pub(super) fn fail<T>(message: impl Into<String>) -> Result<T> {
    Err(Failure::Error(message.into()))
}

/// Steps allowed for any messages: a long conversation in a large template takes some hundred thousand.
const BASE_STEPS: u64 = 10_000_000;
/// Further steps allowed per byte of the messages, for templates that look at all messages for each message.
const STEPS_PER_BYTE: u64 = 20;
/// Live bytes allowed for any messages.
const BASE_BYTES: usize = 16 << 20;
/// Further live bytes allowed per byte of the messages.
const BYTES_PER_BYTE: usize = 16;
/// Maximum depth of nested expressions, blocks and macro calls. The thread's stack is sized for it.
const MAX_DEPTH: u32 = 600;
/// Bytes that count as one step when copied or searched.
const BYTES_PER_STEP: usize = 32;

/// Resource usage and limits of one rendering.
#[derive(Debug)]
pub(super) struct Budget {
    steps_left: Cell<u64>,
    bytes: Cell<usize>,
    max_bytes: Cell<usize>,
    depth: Cell<u32>,
}

impl Budget {
    /// Creates a budget without limits; [`fix`](Self::fix) sets the limits once the messages are converted.
    pub(super) fn new() -> Self {
        let (steps, bytes) = (u64::MAX, usize::MAX);
        Budget {
            steps_left: Cell::new(steps),
            bytes: Cell::new(0),
            max_bytes: Cell::new(bytes),
            depth: Cell::new(0),
        }
    }

    /// Sets the limits from the bytes that are live now.
    pub(super) fn fix(&self) {
        let bytes = self.bytes.get();
        self.max_bytes.set(bytes.saturating_mul(BYTES_PER_BYTE).saturating_add(BASE_BYTES));
        self.steps_left.set((bytes as u64).saturating_mul(STEPS_PER_BYTE).saturating_add(BASE_STEPS));
    }

    /// Counts `n` steps.
    pub(super) fn steps(&self, n: usize) -> Result<()> {
        match self.steps_left.get().checked_sub(n as u64) {
            Some(left) => {
                self.steps_left.set(left);
                Ok(())
            }
            None => Err(Failure::Limit("it runs for too long")),
        }
    }

    /// Counts the steps of reading `n` bytes.
    pub(super) fn scan(&self, n: usize) -> Result<()> {
        self.steps(1 + n / BYTES_PER_STEP)
    }

    /// Checks that `n` bytes can be allocated, before they are.
    pub(super) fn can_make(&self, n: usize) -> Result<()> {
        match self.bytes.get().checked_add(n) {
            Some(bytes) if bytes <= self.max_bytes.get() => self.scan(n),
            _ => Err(Failure::Limit("it needs too much memory")),
        }
    }

    /// Adds `n` live bytes.
    pub(super) fn make(&self, n: usize) -> Result<()> {
        self.can_make(n)?;
        self.bytes.set(self.bytes.get() + n);
        Ok(())
    }

    /// Subtracts `n` live bytes.
    pub(super) fn free(&self, n: usize) {
        self.bytes.set(self.bytes.get().saturating_sub(n));
    }

    /// Enters a nested level; [`leave`](Self::leave) returns from it.
    pub(super) fn enter(&self) -> Result<()> {
        if self.depth.get() >= MAX_DEPTH {
            return Err(Failure::Limit("its macros or expressions nest too deeply"));
        }
        self.depth.set(self.depth.get() + 1);
        self.steps(1)
    }

    /// Returns from the level of [`enter`](Self::enter).
    pub(super) fn leave(&self) {
        self.depth.set(self.depth.get().saturating_sub(1));
    }
}
