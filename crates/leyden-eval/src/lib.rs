//! Evaluation of models: perplexity, divergence and tasks, with confidence intervals.
//!
//! - [`perplexity`] and [`divergence`] over [`Windows`] of a text, with llama-perplexity's formulas; [`LogitsFile`]
//!   is its file format for a model's log probabilities.
//! - [`Suite`]: the questions of a [`Task`] with a known name, scored as in lm-evaluation-harness, or of the user's
//!   own file; [`State`] keeps the outcomes so far.
//! - [`calibrate`]: calibration of classifiers, and its check on held-out halves.
//! - [`stats`]: intervals, and tests of paired outcomes.
#![forbid(unsafe_code)]

pub mod calibrate;
mod compare;
mod divergence;
mod error;
mod item;
mod logits_file;
mod own;
mod state;
pub mod stats;
mod suite;
mod task;
mod verdict;
mod windows;

pub use compare::{Compared, Row, compare, encode, row_len};
pub use divergence::{Divergence, Estimate, WindowMeans, divergence};
pub use error::Error;
pub use item::{Ask, Check, Item, Outcome, Prompt};
pub use logits_file::{Header, LogitsFile, LogitsWriter};
pub use state::{State, fingerprint};
pub use suite::{BadRow, Paired, Score, Source, Suite};
pub use task::Task;
pub use verdict::{Verdict, questions_to_decide};
pub use windows::{Perplexity, Reference, Run, Windows, perplexity, save_logits};

use std::ops::ControlFlow;

/// Progress of an evaluation, with a preliminary result.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// Number of windows or questions that are done.
    pub done: usize,
    /// Number of all windows or questions.
    pub all: usize,
    /// Preliminary result.
    pub so_far: &'a str,
}

/// Callback that gets the progress and may ask to stop.
pub type Watch<'a> = dyn FnMut(Progress<'_>) -> ControlFlow<()> + 'a;

pub(crate) fn report_progress(
    watch: &mut Watch<'_>,
    done: usize,
    all: usize,
    so_far: &str,
) -> Result<(), Error> {
    match watch(Progress { done, all, so_far }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Stopped),
    }
}
