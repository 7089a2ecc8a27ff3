//! Worker thread that computes, one for each replica of a model.
//!
//! It runs a [`Generator`](leyden_engine::Generator), whose answers sample tokens and put text into mailboxes. Requests
//! are completely checked before they get here. A panic in a step fails the requests that run; the engine is then made
//! again, and those that wait stay in the queue.

mod active;
mod backlog;
mod job;
mod parts;
mod step;
mod trials;

pub(crate) use job::{Choice, Ending, Job, Logprobs, Rule, Task, Work};

use crate::failure::{Error, ErrorKind};
use crate::log::Log;
use crate::metrics::ModelMetrics;
use leyden_kernels::Cpu;
use parts::{Command, Parts};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Capacity of the channel of requests to the thread, which takes all of them after each step.
const SUBMISSIONS: usize = 1024;

/// Stack of the thread: grammar code recurses deeper than most code. The threads of the pool have the same.
const STACK_BYTES: usize = 16 << 20;

/// Handle of the thread; dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct Worker {
    commands: SyncSender<Command>,
    pub(crate) metrics: Arc<ModelMetrics>,
    alive: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Reason why a request did not reach the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreachable {
    /// Too many requests are in the channel.
    Busy,
    /// The thread has ended.
    Dead,
}

impl Worker {
    /// Makes the engine and starts the thread.
    ///
    /// # Errors
    /// There is too little memory, or the thread cannot be started.
    pub(crate) fn start(model: &crate::Model, cpu: Arc<Cpu>, log: Arc<Log>) -> Result<Worker, Error> {
        let parts = Parts {
            network: Arc::clone(&model.network),
            draft: model.draft.clone(),
            cpu,
            tokenizer: Arc::clone(&model.tokenizer),
            options: model.worker,
            log,
        };
        let generator = step::generator(&parts)?;
        let (commands, receiver) = mpsc::sync_channel(SUBMISSIONS);
        let metrics = Arc::new(ModelMetrics::default());
        let alive = Arc::new(AtomicBool::new(true));
        let (m, a) = (Arc::clone(&metrics), Arc::clone(&alive));
        let run = move || {
            // The binding to processors is optional; without it the system places the thread.
            let _ = parts.cpu.bind_caller();
            step::Loop::new(parts, generator, m, Arc::clone(&a)).run(&receiver);
            a.store(false, Ordering::SeqCst);
        };
        let thread = std::thread::Builder::new().name("engine".to_owned()).stack_size(STACK_BYTES).spawn(run);
        let thread = Mutex::new(Some(thread.map_err(ErrorKind::System)?));
        Ok(Worker { commands, metrics, alive, thread })
    }

    /// Returns true if the thread can compute.
    pub(crate) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::SeqCst)
    }

    /// Sends a request to the thread. Its mailbox reports whether it was accepted.
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
        // If the channel is full, the thread is in a step, and takes the command after it. A thread that has ended
        // needs none.
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
