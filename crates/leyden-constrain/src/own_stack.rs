//! Threads with a stack of known size.

use crate::error::{Error, ErrorKind};

/// Stack size in bytes that suffices for the deepest grammar within the limits; only used pages occupy memory.
const STACK_BYTES: usize = 64 << 20;

/// Runs a closure on a thread with a stack large enough for compiling a grammar: the caller's may be small.
pub(crate) fn on_own_stack<T: Send>(run: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    let builder = std::thread::Builder::new().name("grammar".into()).stack_size(STACK_BYTES);
    std::thread::scope(|scope| {
        let thread = builder
            .spawn_scoped(scope, run)
            .map_err(|e| Error::from(ErrorKind::Internal(format!("cannot start a thread: {e}"))))?;
        thread.join().unwrap_or_else(|_| Err(ErrorKind::Internal("a thread panicked".into()).into()))
    })
}
