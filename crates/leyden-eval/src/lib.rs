//! How good a model is, and how sure one can be of it.
//!
//! - [`perplexity`] and [`divergence`] over [`Windows`] of a text, with llama-perplexity's formulas; [`LogitsFile`] is its
//!   file of a model's log probabilities.
//! - [`Suite`]: the questions of a [`Task`] that is known by name, scored as lm-evaluation-harness does, or of the user's own
//!   file; [`State`] keeps what was found so far.
//! - [`Page`]: all of it as one HTML page.
//! - [`stats`]: intervals, and tests of pairs.
#![forbid(unsafe_code)]

mod compare;
mod divergence;
mod error;
mod item;
mod logits_file;
mod own;
mod page;
mod state;
pub mod stats;
mod suite;
mod task;
mod verdict;
mod windows;

pub use compare::{Compared, Row, compare, encode, row_len};
pub use divergence::{Divergence, Estimate, divergence};
pub use error::Error;
pub use item::{Ask, Check, Item, Outcome, Prompt};
pub use logits_file::{Header, LogitsFile, LogitsWriter};
pub use page::{Bar, Curve, Page};
pub use state::{State, fingerprint};
pub use suite::{BadRow, Paired, Score, Source, Suite};
pub use task::Task;
pub use verdict::{Verdict, questions_to_decide};
pub use windows::{Perplexity, Reference, Run, Windows, perplexity, save_logits};

use std::ops::ControlFlow;

/// How far an evaluation is: what is done of what is to do, and what it looks like so far.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// Windows or questions that are done.
    pub done: usize,
    /// All of them.
    pub all: usize,
    /// What it looks like so far.
    pub so_far: &'a str,
}

/// Hears how far it is, and may say stop.
pub type Watch<'a> = dyn FnMut(Progress<'_>) -> ControlFlow<()> + 'a;

pub(crate) fn tell(watch: &mut Watch<'_>, done: usize, all: usize, so_far: &str) -> Result<(), Error> {
    match watch(Progress { done, all, so_far }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Stopped),
    }
}
