//! The engines of one model, and the choice of an engine for a request.
//!
//! Each engine has a processor, a queue and a KV cache of its own; the weights are shared. A request goes to the engine
//! that last got the longest prefix of its prompt, because its prefix cache may still have it, unless other engines
//! have much less load; else to the one with the least load. Answers do not depend on the choice.

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

/// Number of prompt prefixes that are remembered. A hash collision costs at most a hit of the prefix cache.
const PLACES: usize = 1 << 16;

/// One engine, and the requests that it was given.
#[derive(Debug)]
struct Replica {
    worker: Worker,
    /// Requests that have not ended, as their mailboxes, each with its number of choices.
    given: Mutex<Vec<(Weak<Sender>, usize)>>,
}

impl Replica {
    /// Returns the number of unfinished choices.
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
    /// Maximum number of requests that an engine runs at a time.
    parallel: usize,
    /// By hash of a prefix, the index of the engine that last got it, plus 1.
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

    /// Returns the metrics of each engine.
    pub(crate) fn metrics(&self) -> impl Iterator<Item = &Arc<ModelMetrics>> {
        self.all.iter().map(|replica| &replica.worker.metrics)
    }

    /// Returns the maximum number of requests that all engines together run at a time.
    pub(crate) fn parallel(&self) -> usize {
        self.all.len() * self.parallel
    }

    /// Returns true if all engines can compute.
    pub(crate) fn are_alive(&self) -> bool {
        self.all.iter().all(|replica| replica.worker.is_alive())
    }

    /// Ends all requests.
    pub(crate) fn close(&self) {
        self.all.iter().for_each(|replica| replica.worker.close());
    }

    /// Submits a request. Its mailbox tells if it was accepted.
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

    /// Returns the indices in `beginnings` of a prompt's prefixes, the shortest first: one per
    /// whole block of the prefix cache.
    fn places(&self, prompt: &[u32]) -> Vec<usize> {
        let mut hasher = self.hasher.build_hasher();
        let mut after = |block: &[u32; BLOCK_TOKENS]| {
            block.iter().for_each(|token| hasher.write_u32(*token));
            hasher.finish() as usize % PLACES
        };
        prompt.as_chunks().0.iter().map(&mut after).collect()
    }

    /// Chooses the engine for a prompt, and remembers it for the prompt's prefixes. `None` if no engine can compute.
    fn choose(&self, places: &[usize]) -> Option<usize> {
        let able = self.all.iter().enumerate().filter(|(_, replica)| replica.worker.is_alive());
        let loads: Vec<(usize, usize)> = able.map(|(i, replica)| (replica.load(), i)).collect();
        let &(least, idlest) = loads.iter().min()?;
        // Engines that can start the request at once and whose load is little more than the least.
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
