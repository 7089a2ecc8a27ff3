//! [`Setting`]: the parts of a run that all tasks share.

use super::args::Args;
use crate::cli::failure::Failure;
use crate::cli::interrupt::Interrupt;
use crate::cli::rows::Session;
use crate::cli::serve::{InMemoryOptions, start_in_memory};
use leyden::Model;
use leyden_batch::Summary;
use std::time::Duration;

/// Name of the model within the program.
pub(super) const MODEL: &str = "model";

/// Parts of a run that all tasks share.
pub(super) struct Setting<'a> {
    pub(super) args: &'a Args,
    pub(super) model: &'a Model,
    pub(super) session: Session<'a>,
    pub(super) stop: &'a Interrupt,
    /// Begin of the name of the input in messages.
    pub(super) name: &'a str,
}

/// Counts of a run, with its seconds and its rows per second.
pub(super) type Counts = (Summary, f64, f64);

impl Setting<'_> {
    /// Starts the engine for requests.
    pub(super) fn server(&self) -> Result<leyden_server::InMemory, Failure> {
        let options = InMemoryOptions {
            parallel: self.args.parallel as usize,
            context: self.args.ctx.filter(|n| *n > 0),
            kv_type: self.args.kv_type,
            sampling: self.args.sampling.options(None)?.sampling,
            request_time: self.args.row_timeout.map(Duration::from_secs),
        };
        start_in_memory(self.model, MODEL, options, self.args.notes)
    }
}
