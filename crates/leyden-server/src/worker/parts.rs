//! Commands for the worker thread, and the parts of a model that it needs.

use super::job::Job;
use crate::log::Log;
use crate::worker_options::WorkerOptions;
use leyden_engine::{Engine, EngineOptions};
use leyden_kernels::Cpu;
use leyden_models::Network;
use leyden_text::Tokenizer;
use std::sync::Arc;

/// Command for the worker thread.
#[derive(Debug)]
pub(super) enum Command {
    /// New request.
    Job(Box<Job>),
    /// End of all requests: the server shuts down.
    Close,
    /// End of the thread.
    Stop,
}

/// Parts of a model that the worker thread needs.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) network: Arc<dyn Network>,
    pub(super) draft: Option<Arc<dyn Network>>,
    pub(super) cpu: Arc<Cpu>,
    pub(super) tokenizer: Arc<dyn Tokenizer>,
    pub(super) options: WorkerOptions,
    pub(super) log: Arc<Log>,
}

impl Parts {
    /// Makes the engine.
    ///
    /// # Errors
    /// There is too little memory.
    pub(super) fn engine(&self) -> Result<Engine, leyden_engine::Error> {
        let o = &self.options;
        let options = EngineOptions {
            kv_type: o.kv_type,
            context: o.context,
            cache_tokens: o.kv_tokens,
            step_tokens: o.step_tokens,
        };
        let (network, cpu) = (Arc::clone(&self.network), Arc::clone(&self.cpu));
        Ok(Engine::with_windows(network, cpu, options, o.parallel)?.with_checkpoints(o.state_cache))
    }

    /// Makes the engine of the draft model, if there is one.
    ///
    /// # Errors
    /// There is too little memory.
    pub(super) fn draft_engine(&self) -> Result<Option<Engine>, leyden_engine::Error> {
        let o = &self.options;
        let Some(draft) = self.draft.as_ref().filter(|_| o.speculate) else { return Ok(None) };
        let options = EngineOptions {
            kv_type: o.kv_type,
            context: o.context.min(draft.config().context),
            cache_tokens: o.kv_tokens,
            step_tokens: o.step_tokens,
        };
        Engine::with_windows(Arc::clone(draft), Arc::clone(&self.cpu), options, o.parallel).map(Some)
    }
}
