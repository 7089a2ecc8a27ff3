//! [`Interrupt`]: flag for long work, set by Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::failure::Failure;

/// Flag that Ctrl-C sets.
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Installs a handler for Ctrl-C.
    ///
    /// # Errors
    /// If the handler of the signal cannot be installed.
    pub(super) fn install() -> Result<Interrupt, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        ctrlc::set_handler(move || flag.store(true, Ordering::SeqCst))
            .map_err(|error| Failure::new(format!("cannot handle Ctrl-C: {error}")))?;
        Ok(Interrupt(stop))
    }

    /// Returns true after Ctrl-C.
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
