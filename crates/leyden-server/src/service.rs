//! [`Service`]: what stands behind a model's name once it is loaded, a language model or a model of another kind.

use crate::failure::Error;
use crate::log::Log;
use crate::metrics::ModelMetrics;
use crate::service_level;
use serde_json::Value;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Loaded model that answers requests.
///
/// Loading and unloading, the memory budget, metrics and the end of requests are the same for all kinds. An endpoint
/// gets the kind that it computes with from [`App::service`](crate::app::App::service). A kind whose engine has no queue
/// takes permits ([`crate::fair_semaphore`]).
pub(crate) trait Service: Any + fmt::Debug + Send + Sync {
    /// Returns the bytes of memory that it may take: weights, caches and workspaces.
    fn reserved_bytes(&self) -> u64;

    /// Returns the bytes of memory in use.
    fn used_bytes(&self) -> u64;

    /// Returns the maximum number of tokens of a request; 0 if it reads no tokens.
    fn context(&self) -> usize;

    /// Returns the metrics of each of its engines.
    fn metrics(&self) -> Vec<Arc<ModelMetrics>>;

    /// Returns true if all its engines can compute.
    fn is_alive(&self) -> bool;

    /// Ends all requests.
    fn end_requests(&self);
}

impl dyn Service {
    /// Returns the number of requests that wait or run.
    pub(crate) fn requests(&self) -> u64 {
        self.metrics().iter().map(|m| m.running.get() + m.waiting.get()).sum()
    }

    /// Returns the state of its promise as a document; null without a promise.
    pub(crate) fn service_level(&self) -> Value {
        let metrics = self.metrics();
        let levels: Vec<_> = metrics.iter().map(|metrics| &metrics.service_level).collect();
        service_level::document(&levels)
    }

    /// Returns the service as one of a kind; `None` if it is of another.
    pub(crate) fn of_kind<T: Service>(self: Arc<Self>) -> Option<Arc<T>> {
        let any: Arc<dyn Any + Send + Sync> = self;
        any.downcast().ok()
    }
}

/// Function that starts the engines of a model.
type Start = Box<dyn FnOnce(&Arc<Log>) -> Result<Arc<dyn Service>, Error> + Send>;

/// Model in memory whose engines are not started yet; of any kind, such as a [`Model`](crate::Model).
pub struct Loaded(Start);

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loaded").finish_non_exhaustive()
    }
}

impl Loaded {
    /// Returns a model that `start` starts.
    pub(crate) fn new<T: Service>(
        start: impl FnOnce(&Arc<Log>) -> Result<T, Error> + Send + 'static,
    ) -> Loaded {
        Loaded(Box::new(|log| Ok(Arc::new(start(log)?))))
    }

    /// Starts the engines.
    ///
    /// # Errors
    /// Memory or threads are short.
    pub(crate) fn start(self, log: &Arc<Log>) -> Result<Arc<dyn Service>, Error> {
        (self.0)(log)
    }
}
