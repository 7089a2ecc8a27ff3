//! The thread that computes: one for each replica of a model.
//!
//! It drives a [`Generator`](leyden_engine::Generator), whose answers choose tokens and put text into mailboxes. Everything that can be wrong
//! about a request was found before it came here. A panic in a step fails the requests that run; the engine is then made
//! anew, and those that wait stay in the queue.

mod active;
mod backlog;
mod job;
mod parts;
mod step;

pub(crate) use job::{Choice, Ending, Job, Logprobs, Rule, States, Task, Work};

use crate::failure::{Error, ErrorKind};
use crate::log::Log;
use crate::metrics::ModelMetrics;
use leyden_kernels::Cpu;
use parts::{Command, Parts};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Requests on their way to the thread: it takes them all after each step.
const SUBMISSIONS: usize = 1024;

/// The thread's stack: following a grammar goes deeper than most code. The pool's threads have as much.
const STACK_BYTES: usize = 16 << 20;

/// A handle to the thread. Dropped, it ends it.
#[derive(Debug)]
pub(crate) struct Worker {
    commands: SyncSender<Command>,
    pub(crate) metrics: Arc<ModelMetrics>,
    alive: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Why a request did not reach the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreachable {
    /// Too many are on their way.
    Busy,
    /// It has ended.
    Dead,
}

impl Worker {
    /// Makes the engine and starts the thread.
    ///
    /// # Errors
    /// Memory or threads are short.
    pub(crate) fn start(model: &crate::Model, cpu: Arc<Cpu>, log: Arc<Log>) -> Result<Worker, Error> {
        let parts = Parts {
            network: Arc::clone(&model.network),
            cpu,
            tokenizer: Arc::clone(&model.tokenizer),
            options: model.worker,
            log,
        };
        let engine = parts.engine()?;
        let (commands, receiver) = mpsc::sync_channel(SUBMISSIONS);
        let metrics = Arc::new(ModelMetrics::default());
        let alive = Arc::new(AtomicBool::new(true));
        let (m, a) = (Arc::clone(&metrics), Arc::clone(&alive));
        let run = move || {
            // Placement is advice; without it the thread runs where the system puts it.
            let _ = parts.cpu.bind_caller();
            step::Loop::new(parts, engine, m, Arc::clone(&a)).run(&receiver);
            a.store(false, Ordering::SeqCst);
        };
        let thread = std::thread::Builder::new().name("engine".to_owned()).stack_size(STACK_BYTES).spawn(run);
        let thread = Mutex::new(Some(thread.map_err(ErrorKind::System)?));
        Ok(Worker { commands, metrics, alive, thread })
    }

    /// Whether it can compute.
    pub(crate) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::SeqCst)
    }

    /// Hands over a request. Its mailbox tells whether it was taken.
    pub(crate) fn submit(&self, job: Job) -> Result<(), Unreachable> {
        if !self.is_alive() {
            return Err(Unreachable::Dead);
        }
        self.commands.try_send(Command::Job(Box::new(job))).map_err(|e| match e {
            TrySendError::Full(_) => Unreachable::Busy,
            TrySendError::Disconnected(_) => Unreachable::Dead,
        })
    }

    /// Ends all requests.
    pub(crate) fn close(&self) {
        // A full channel means that the thread is in a step; it takes the command after it. A dead thread needs none.
        let _ = self.commands.send(Command::Close);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Stop);
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}
