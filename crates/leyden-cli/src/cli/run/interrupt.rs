//! Ctrl-C: stops an answer; where there is none, ends the program, unless that holds a conversation.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::cli::failure::{self, Failure};
use crate::cli::signals;

/// The model is being loaded: an interrupt ends the program.
const LOADING: u8 = 3;
/// Nothing is being generated.
const IDLE: u8 = 0;
/// An answer is being generated: an interrupt stops it.
const ANSWERING: u8 = 1;
/// It was told to stop, and does so after the step it is in.
const STOPPING: u8 = 2;

/// The state that the signal handler and the program share.
#[derive(Debug)]
pub(super) struct Interrupt {
    state: Arc<AtomicU8>,
}

/// Effect of an interrupt while no answer is generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Idle {
    /// Ends the program. So who cannot wait for an answer to stop interrupts twice.
    Exit,
    /// Nothing: it came a moment after the answer was complete, and the conversation should not be lost for that.
    /// While a line is typed the editor sees Ctrl-C as a key.
    Stay,
}

impl Default for Interrupt {
    fn default() -> Self {
        Self { state: Arc::new(AtomicU8::new(LOADING)) }
    }
}

impl Interrupt {
    /// Takes over Ctrl-C, which ends the program until it is [`ready`](Self::ready).
    pub(super) fn install(idle: Idle) -> Result<Self, Failure> {
        let interrupt = Self::default();
        let state = Arc::clone(&interrupt.state);
        ctrlc::set_handler(move || {
            match state.compare_exchange(ANSWERING, STOPPING, Ordering::SeqCst, Ordering::SeqCst) {
                Err(now) if now == LOADING || idle == Idle::Exit => {
                    // The shell's prompt should not stand behind a progress bar or an unfinished line.
                    if io::stderr().is_terminal() {
                        let _ = writeln!(io::stderr());
                    }
                    signals::exit(failure::INTERRUPTED);
                }
                _ => {}
            }
        })
        .map_err(|error| Failure::new(format!("cannot take over Ctrl-C: {error}")))?;
        Ok(interrupt)
    }

    /// Declares that the model is loaded.
    pub(super) fn ready(&self) {
        self.state.store(IDLE, Ordering::SeqCst);
    }

    /// Declares that an answer is being generated, until the returned value goes.
    pub(super) fn answering(&self) -> Answering<'_> {
        self.state.store(ANSWERING, Ordering::SeqCst);
        Answering { interrupt: self }
    }
}

/// An answer that can be stopped.
#[derive(Debug)]
pub(super) struct Answering<'a> {
    interrupt: &'a Interrupt,
}

impl Answering<'_> {
    /// Returns true if the answer should stop.
    pub(super) fn stopped(&self) -> bool {
        self.interrupt.state.load(Ordering::SeqCst) == STOPPING
    }

    /// Does the same as Ctrl-C.
    #[cfg(test)]
    pub(super) fn stop(&self) {
        self.interrupt.state.store(STOPPING, Ordering::SeqCst);
    }
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        self.interrupt.state.store(IDLE, Ordering::SeqCst);
    }
}
