//! A model that is loaded when a request names it.

use crate::abilities::Abilities;
use crate::about::About;
use crate::defaults::Defaults;
use crate::model::{Model, ModelInfo};
use crate::pulls::Abandoned;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Loads a model into at most so many bytes of memory, weights included; `None` where nobody knows how many there are.
/// It runs on a thread of its own.
pub type Loader = Arc<dyn Fn(Option<u64>) -> Result<Model, String> + Send + Sync>;

/// How far the download of a file is.
#[derive(Clone, Copy, Debug)]
pub struct Pulling<'a> {
    /// Its name.
    pub file: &'a str,
    /// Its length.
    pub bytes: u64,
    /// How much of it is there.
    pub done: u64,
}

/// Gets a model by a name that no model of the server has. It tells how far it is, and stops when it hears `false`, or when
/// its clients are gone ([`Abandoned`]). It runs on a thread of its own.
pub type Puller = Arc<
    dyn Fn(&str, &mut dyn FnMut(Pulling<'_>) -> bool, &Abandoned) -> Result<OnDemand, String> + Send + Sync,
>;

/// Finds the models that a text means which is no model's name: gets the text, and returns names of models of the server. It
/// reads nothing from the disk and opens no connection.
pub type NameFinder = Arc<dyn Fn(&str) -> Vec<String> + Send + Sync>;

/// A change of a server's models that a client asks for.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// A model gets another name.
    Copy {
        /// The name of a model of the server.
        from: &'a str,
        /// The new name.
        name: &'a str,
    },
    /// A model gets another name, under which it has these defaults and, of what they leave out, its own.
    Create {
        /// The name of a model of the server.
        from: &'a str,
        /// The new name.
        name: &'a str,
        /// The defaults.
        defaults: &'a Defaults,
    },
    /// A model's files are removed.
    Delete {
        /// The name of a model of the server.
        name: &'a str,
    },
}

/// Models that a server loses and gets, in this order.
#[derive(Debug, Default)]
pub struct Changed {
    /// Names of the models that are no longer there.
    pub gone: Vec<String>,
    /// Models that are new, or of another content.
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

/// Makes a change on the disk. It runs on a thread of its own.
pub type Changer = Arc<dyn Fn(Change<'_>) -> Result<Changed, ChangeError> + Send + Sync>;

/// Finds the models that came and went on the disk since the last call. It is called, on a thread of its own, when a request
/// names a model that the server has not, and when a client lists the models; so it must be quick where nothing has changed.
pub type Lister = Arc<dyn Fn() -> Changed + Send + Sync>;

/// Describes a model from its files, without its weights. It runs on a thread of its own.
pub type Describer = Arc<dyn Fn() -> Result<About, String> + Send + Sync>;

/// What is known of a model before it is loaded, and how it is loaded.
#[derive(Clone)]
pub struct OnDemand {
    /// What clients call it.
    pub name: String,
    /// What else they may call it.
    pub aliases: Vec<String>,
    /// The names of its adapters, which stand for the model with them.
    pub adapters: Vec<String>,
    /// What is told of it.
    pub info: ModelInfo,
    /// Its abilities.
    pub abilities: Abilities,
    /// The longest text in tokens, as far as memory allows it.
    pub context: usize,
    /// Bytes of memory without which it cannot be loaded: weights, workspace, the smallest cache.
    pub least_bytes: u64,
    /// How long it stays in memory after its last request; `None`: until others need the room.
    pub idle: Option<Duration>,
    /// Whether it is loaded when the server starts.
    pub preload: bool,
    /// How it is described.
    pub describe: Describer,
    /// How it is loaded.
    pub load: Loader,
}

impl fmt::Debug for OnDemand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnDemand").field("name", &self.name).finish_non_exhaustive()
    }
}
