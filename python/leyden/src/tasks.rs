//! [`Tasks`]: a thread that owns the engine for vectors, labels and scores, which borrows its model.

use crate::answers::SIGNALS;
use crate::errors::of_library;
use leyden::{EmbedOptions, Embedder, Error, Model};
use pyo3::prelude::*;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Engine with the options that it was made for.
type Held<'m> = Option<(EmbedOptions, Embedder<'m>)>;

/// Piece of work for the thread.
type Work = Box<dyn for<'m> FnOnce(&'m Model, &mut Held<'m>) + Send>;

/// Thread with an engine. It ends when this is dropped.
pub(crate) struct Tasks {
    work: Mutex<Sender<Work>>,
}

impl Tasks {
    /// Starts the thread.
    pub(crate) fn start(model: Arc<Model>) -> Result<Tasks, Error> {
        let (work, all) = channel::<Work>();
        let run = move || {
            let mut held = None;
            for work in all {
                work(&model, &mut held);
            }
        };
        let thread = std::thread::Builder::new().name("leyden-tasks".into()).spawn(run);
        match thread {
            Ok(_) => Ok(Tasks { work: Mutex::new(work) }),
            Err(error) => Err(Error::Thread { what: error.to_string() }),
        }
    }

    /// Computes something with an engine of these options, without Python's lock. Ctrl-C ends the wait.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        py: Python<'_>,
        options: EmbedOptions,
        compute: impl for<'m> FnOnce(&mut Embedder<'m>) -> Result<T, Error> + Send + 'static,
    ) -> PyResult<T> {
        let (done, result) = channel();
        let work: Work = Box::new(move |model, held| {
            // A caller who was interrupted does not listen.
            let _ = done.send(with_engine(model, held, options, compute));
        });
        let sent = self.work.lock().unwrap_or_else(PoisonError::into_inner).send(work);
        if sent.is_err() {
            return Err(of_library(py, &Error::Closed));
        }
        let result = Mutex::new(result);
        loop {
            let wait = || result.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(SIGNALS);
            match py.detach(wait) {
                Ok(result) => return result.map_err(|error| of_library(py, &error)),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => return Err(of_library(py, &Error::Closed)),
            }
        }
    }
}

/// Computes with the held engine, or with a new one if its options differ.
fn with_engine<'m, T>(
    model: &'m Model,
    held: &mut Held<'m>,
    options: EmbedOptions,
    compute: impl FnOnce(&mut Embedder<'m>) -> Result<T, Error>,
) -> Result<T, Error> {
    if held.as_ref().is_none_or(|(made_for, _)| *made_for != options) {
        *held = None;
        *held = Some((options.clone(), model.embedder(&options)?));
    }
    match held {
        Some((_, embedder)) => compute(embedder),
        None => Err(Error::Closed),
    }
}
