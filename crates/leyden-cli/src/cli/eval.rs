//! `leyden eval`: perplexity, KL divergence and scores of tasks.

mod args;
mod language;
mod tasks;
mod watcher;
mod words;

use std::io::{self, Write};

use super::failure::Failure;
use super::inputs;

pub(crate) use args::Args;
pub(super) use watcher::Watcher;

/// Measures and prints.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let mut err = io::stderr();
    let out = inputs::report_beside(args.report.as_deref().or(args.save_logits.as_deref()), out, &mut err);
    for output in [&args.report, &args.save_logits].into_iter().flatten() {
        inputs::can_be_written(output)?;
    }
    if args.task.is_empty() && args.data.is_empty() {
        language::execute(args, out)
    } else {
        tasks::execute(args, out)
    }
}
