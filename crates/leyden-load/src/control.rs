//! [`Control`]: the end of everything, asked for from outside.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::http::Gate;

/// Stops whatever runs, from another thread: a handler of Ctrl-C, for instance.
#[derive(Debug, Default)]
pub struct Control {
    stopped: AtomicBool,
    gate: Mutex<Option<Arc<Gate>>>,
}

impl Control {
    /// Ends what runs now, and everything after it.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        if let Some(gate) = &*self.gate.lock().unwrap_or_else(PoisonError::into_inner) {
            gate.cut();
        }
    }

    /// Whether it was stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// A gate that this can cut, in place of the one before.
    pub(crate) fn enter(&self) -> Result<Arc<Gate>> {
        let gate = Arc::new(Gate::default());
        *self.gate.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&gate));
        // After the gate can be found, so that a stop meets it here or there.
        if self.is_stopped() { Err(Error::new("", ErrorKind::Stopped)) } else { Ok(gate) }
    }
}
