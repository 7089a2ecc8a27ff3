//! `leyden bundle`: models and this program in one signed file, its verification, and its installation.

mod args;
mod create;
mod facts;
mod install;
mod meter;
mod models;
mod places;
mod trust;
mod verify;

use std::io::Write;

use args::Action;
pub(crate) use args::Args;

use super::failure::Failure;

/// Makes, verifies or installs.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    match &args.action {
        None => create::execute(&args.create, out),
        Some(Action::Verify(args)) => verify::execute(args, out),
        Some(Action::Install(args)) => install::execute(args, out),
    }
}
