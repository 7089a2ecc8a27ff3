//! Ctrl-C: stops an answer; without an answer, ends the program, except in a conversation.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::cli::failure::{self, Failure};
use crate::cli::signals;

/// State while the model is loaded: an interrupt ends the program.
const LOADING: u8 = 3;
/// State while no answer is generated.
const IDLE: u8 = 0;
/// State while an answer is generated: an interrupt stops it.
const ANSWERING: u8 = 1;
/// State of an answer that stops after the current step.
const STOPPING: u8 = 2;

/// State shared by the signal handler and the program.
#[derive(Debug)]
pub(super) struct Interrupt {
    state: Arc<AtomicU8>,
}

/// Effect of an interrupt while no answer is generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Idle {
    /// Ends the program. So a second interrupt ends the program before an answer has stopped.
    Exit,
    /// None: the answer ended just before, and the conversation should not be lost. At the prompt, the editor handles
    /// Ctrl-C as a key.
    Stay,
}

impl Default for Interrupt {
    fn default() -> Self {
        Self { state: Arc::new(AtomicU8::new(LOADING)) }
    }
}

impl Interrupt {
    /// Installs a handler for Ctrl-C, which ends the program until [`ready`](Self::ready) is called.
    pub(super) fn install(idle: Idle) -> Result<Self, Failure> {
        let interrupt = Self::default();
        let state = Arc::clone(&interrupt.state);
        ctrlc::set_handler(move || {
            match state.compare_exchange(ANSWERING, STOPPING, Ordering::SeqCst, Ordering::SeqCst) {
                Err(now) if now == LOADING || idle == Idle::Exit => {
                    // The shell's prompt should be on a new line, not after a progress bar or an incomplete line.
                    if io::stderr().is_terminal() {
                        let _ = writeln!(io::stderr());
                    }
                    signals::exit(failure::INTERRUPTED);
                }
                _ => {}
            }
        })
        .map_err(|error| Failure::new(format!("cannot handle Ctrl-C: {error}")))?;
        Ok(interrupt)
    }

    /// Marks the model as loaded.
    pub(super) fn ready(&self) {
        self.state.store(IDLE, Ordering::SeqCst);
    }

    /// Marks that an answer is being generated, until the returned value is dropped.
    pub(super) fn answering(&self) -> Answering<'_> {
        self.state.store(ANSWERING, Ordering::SeqCst);
        Answering { interrupt: self }
    }
}

/// Guard of an answer that can be stopped.
#[derive(Debug)]
pub(super) struct Answering<'a> {
    interrupt: &'a Interrupt,
}

impl Answering<'_> {
    /// Returns true if the answer should stop.
    pub(super) fn stopped(&self) -> bool {
        self.interrupt.state.load(Ordering::SeqCst) == STOPPING
    }

    /// Stops the answer, like Ctrl-C.
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
