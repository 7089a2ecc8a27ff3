//! The engines of one model, and which of them a request goes to.
//!
//! Each has a processor, a queue and a cache of its own; the weights are one copy. A request goes where the longest beginning
//! of its prompt went before, as that one's cache may still have it, unless others have much less to do; else to the one
//! that has least. Answers do not depend on the choice.

use crate::failure::{Error, ErrorKind};
use crate::log::Log;
use crate::mailbox::Sender;
use crate::metrics::ModelMetrics;
use crate::worker::{Job, Unreachable, Worker};
use leyden_kernels::Cpu;
use leyden_kernels::attention::BLOCK_TOKENS;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Beginnings of prompts that are remembered. Two that fall on one place cost a hit of the cache at most.
const PLACES: usize = 1 << 16;

/// One engine, and what it has been given.
#[derive(Debug)]
struct Replica {
    worker: Worker,
    /// Requests that have not ended, by their mailboxes, and how many choices each has.
    given: Mutex<Vec<(Weak<Sender>, usize)>>,
}

impl Replica {
    /// Choices that have not been made whole.
    fn load(&self) -> usize {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.retain(|(sender, _)| sender.strong_count() > 0);
        given.iter().map(|(_, choices)| choices).sum()
    }
}

/// The engines of one model.
#[derive(Debug)]
pub(crate) struct Replicas {
    all: Vec<Replica>,
    /// Requests that an engine runs at a time.
    parallel: usize,
    /// By the hash of a beginning, the engine that had it last, plus 1.
    beginnings: Vec<AtomicU16>,
    hasher: RandomState,
}

impl Replicas {
    /// Starts an engine on each processor.
    ///
    /// # Errors
    /// There is no processor or there are too many, or memory or threads are short.
    pub(crate) fn start(model: &crate::Model, log: &Arc<Log>) -> Result<Replicas, Error> {
        if model.cpus.is_empty() || model.cpus.len() >= usize::from(u16::MAX) {
            let what = format!("{} engines, not 1 to {}", model.cpus.len(), u16::MAX - 1);
            return Err(ErrorKind::Option { name: "replicas", what }.into());
        }
        let start = |cpu: &Arc<Cpu>| {
            let worker = Worker::start(model, Arc::clone(cpu), Arc::clone(log))?;
            Ok(Replica { worker, given: Mutex::default() })
        };
        let all = model.cpus.iter().map(start).collect::<Result<Vec<_>, Error>>()?;
        let places = if all.len() > 1 { PLACES } else { 0 };
        let beginnings = (0..places).map(|_| AtomicU16::new(0)).collect();
        Ok(Replicas { all, parallel: model.worker.parallel, beginnings, hasher: RandomState::new() })
    }

    /// What each engine counts.
    pub(crate) fn metrics(&self) -> impl Iterator<Item = &Arc<ModelMetrics>> {
        self.all.iter().map(|replica| &replica.worker.metrics)
    }

    /// How many requests all of them run at a time.
    pub(crate) fn parallel(&self) -> usize {
        self.all.len() * self.parallel
    }

    /// Whether all can compute.
    pub(crate) fn are_alive(&self) -> bool {
        self.all.iter().all(|replica| replica.worker.is_alive())
    }

    /// Ends all requests.
    pub(crate) fn close(&self) {
        self.all.iter().for_each(|replica| replica.worker.close());
    }

    /// Hands over a request. Its mailbox tells whether it was taken.
    pub(crate) fn submit(&self, job: Job) -> Result<(), Unreachable> {
        let replica = match &self.all[..] {
            [one] => one,
            all => {
                let prompt: &[u32] = job.tasks.first().map_or(&[], |task| &task.prompt);
                let places = self.places(prompt);
                let replica = &all[self.choose(&places).ok_or(Unreachable::Dead)?];
                let mut given = replica.given.lock().unwrap_or_else(PoisonError::into_inner);
                given.push((Arc::downgrade(&job.mailbox), job.tasks.len()));
                replica
            }
        };
        replica.worker.submit(job)
    }

    /// The places of a prompt's beginnings, the shortest first: as many whole blocks as a cache shares.
    fn places(&self, prompt: &[u32]) -> Vec<usize> {
        let mut hasher = self.hasher.build_hasher();
        let mut after = |block: &[u32; BLOCK_TOKENS]| {
            block.iter().for_each(|token| hasher.write_u32(*token));
            hasher.finish() as usize % PLACES
        };
        prompt.as_chunks().0.iter().map(&mut after).collect()
    }

    /// The engine for a prompt; it is remembered for its beginnings. `None` if none can compute.
    fn choose(&self, places: &[usize]) -> Option<usize> {
        let able = self.all.iter().enumerate().filter(|(_, replica)| replica.worker.is_alive());
        let loads: Vec<(usize, usize)> = able.map(|(i, replica)| (replica.load(), i)).collect();
        let &(least, idlest) = loads.iter().min()?;
        // Whom it could join at once, and who have little more to do than the idlest.
        let near = |load: usize| load < self.parallel && load <= least + 1 + least / 4;
        let had = |place: &usize| usize::from(self.beginnings[*place].load(Ordering::Relaxed)).checked_sub(1);
        let can = |had: &usize| loads.iter().any(|(load, i)| i == had && near(*load));
        let chosen = places.iter().rev().filter_map(had).find(can).unwrap_or(idlest);
        for place in places {
            self.beginnings[*place].store(chosen as u16 + 1, Ordering::Relaxed);
        }
        Some(chosen)
    }
}
