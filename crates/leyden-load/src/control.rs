//! [`Control`]: stops a run from outside.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::http::Gate;

/// Stops a run from another thread, for example a Ctrl-C handler.
#[derive(Debug, Default)]
pub struct Control {
    stopped: AtomicBool,
    gate: Mutex<Option<Arc<Gate>>>,
}

impl Control {
    /// Stops the current run and every later one.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        if let Some(gate) = &*self.gate.lock().unwrap_or_else(PoisonError::into_inner) {
            gate.cut();
        }
    }

    /// Returns true if it was stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Makes a gate that [`stop`](Self::stop) cuts, in place of the previous gate.
    pub(crate) fn enter(&self) -> Result<Arc<Gate>> {
        let gate = Arc::new(Gate::default());
        *self.gate.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&gate));
        // Checked after the gate is registered, so that a concurrent stop is noticed here or cuts the gate.
        if self.is_stopped() { Err(Error::new("", ErrorKind::Stopped)) } else { Ok(gate) }
    }
}
