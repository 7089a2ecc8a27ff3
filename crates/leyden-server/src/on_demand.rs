//! [`OnDemand`]: a model that is loaded when a request names it.

use crate::abilities::Abilities;
use crate::about::About;
use crate::defaults::Defaults;
use crate::model::ModelInfo;
use crate::pulls::Abandoned;
use crate::service::Loaded;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Loads a model into at most this many bytes of memory, weights included; `None` if the memory size is unknown. Runs
/// on a thread of its own.
pub type Loader = Arc<dyn Fn(Option<u64>) -> Result<Loaded, String> + Send + Sync>;

/// Progress of a file's download.
#[derive(Clone, Copy, Debug)]
pub struct Pulling<'a> {
    /// Name of the file.
    pub file: &'a str,
    /// Size of the file.
    pub bytes: u64,
    /// Bytes downloaded so far.
    pub done: u64,
}

/// Downloads a model that the server does not have. Reports its progress, and stops when the callback returns `false`
/// or all clients have disconnected ([`Abandoned`]). Runs on a thread of its own.
pub type Puller = Arc<
    dyn Fn(&str, &mut dyn FnMut(Pulling<'_>) -> bool, &Abandoned) -> Result<OnDemand, String> + Send + Sync,
>;

/// Returns the names of the models that match a text that is not a model's name. Reads nothing from the disk and opens
/// no connection.
pub type NameFinder = Arc<dyn Fn(&str) -> Vec<String> + Send + Sync>;

/// A change of a server's models, requested by a client.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// Adds a second name for a model.
    Copy {
        /// The name of a model of the server.
        from: &'a str,
        /// The new name.
        name: &'a str,
    },
    /// Adds a second name for a model with these defaults; where they have no value, the model's own apply.
    Create {
        /// The name of a model of the server.
        from: &'a str,
        /// The new name.
        name: &'a str,
        /// The defaults.
        defaults: &'a Defaults,
    },
    /// Removes a model's files.
    Delete {
        /// The name of a model of the server.
        name: &'a str,
    },
}

/// Changes of a server's list of models; removals come first.
#[derive(Debug, Default)]
pub struct Changed {
    /// Names of the removed models.
    pub gone: Vec<String>,
    /// New or changed models.
    pub new: Vec<OnDemand>,
}

/// Error of a change.
#[derive(Debug)]
pub struct ChangeError {
    /// True if the client asked for something impossible, false if the system failed.
    pub is_usage: bool,
    /// The reason, for the client.
    pub message: String,
}

/// Makes a change on the disk. Runs on a thread of its own.
pub type Changer = Arc<dyn Fn(Change<'_>) -> Result<Changed, ChangeError> + Send + Sync>;

/// Returns the models that appeared on or vanished from the disk since the last call. Called on a thread of its own
/// when a request names an unknown model and when a client lists the models, so it must be fast if nothing has changed.
pub type Lister = Arc<dyn Fn() -> Changed + Send + Sync>;

/// Describes a model from its files, without loading weights. Runs on a thread of its own.
pub type Describer = Arc<dyn Fn() -> Result<About, String> + Send + Sync>;

/// Description of a model that is not loaded, and the function that loads it.
#[derive(Clone)]
pub struct OnDemand {
    /// Name for clients.
    pub name: String,
    /// Further names for clients.
    pub aliases: Vec<String>,
    /// Names of its LoRA adapters, each of which is a name of the model with that adapter.
    pub adapters: Vec<String>,
    /// Description for clients.
    pub info: ModelInfo,
    /// Its abilities.
    pub abilities: Abilities,
    /// Maximum context in tokens, as far as memory allows it.
    pub context: usize,
    /// Minimum of memory in bytes: weights, workspace and the smallest KV cache.
    pub least_bytes: u64,
    /// Time that it stays in memory after its last request; `None`: until others need the memory.
    pub idle: Option<Duration>,
    /// True if it is loaded when the server starts.
    pub preload: bool,
    /// Function that describes it.
    pub describe: Describer,
    /// Function that loads it.
    pub load: Loader,
}

impl fmt::Debug for OnDemand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnDemand").field("name", &self.name).finish_non_exhaustive()
    }
}
