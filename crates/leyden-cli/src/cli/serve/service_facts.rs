//! [`ServiceFacts`]: facts about a server's options that a manager of services has to know.

use std::path::PathBuf;
use std::time::Duration;

use super::Args;

/// Facts.
#[derive(Clone, Debug)]
pub(crate) struct ServiceFacts {
    /// Models of the command line.
    pub(crate) models: Vec<PathBuf>,
    /// Address of clients.
    pub(crate) address: String,
    /// Time in which the server ends after SIGTERM.
    pub(crate) ends_within: Duration,
    /// File of API keys.
    pub(crate) keys: Option<PathBuf>,
    /// True if a key is among the options.
    pub(crate) has_secret: bool,
    /// Options with folders to which the server writes.
    pub(crate) writes: Vec<(&'static str, PathBuf)>,
}

impl Args {
    /// Returns the facts.
    pub(crate) fn service_facts(&self) -> ServiceFacts {
        let writes = [("--batch-dir", &self.batch_dir), ("--audit", &self.audit.audit)];
        ServiceFacts {
            models: self.named(),
            address: format!("{}:{}", self.host, self.port),
            ends_within: Duration::from_secs(self.lame_duck + self.drain_timeout),
            keys: self.api_keys.clone(),
            has_secret: !self.api_key.is_empty(),
            writes: writes.into_iter().filter_map(|(option, path)| Some((option, path.clone()?))).collect(),
        }
    }
}
