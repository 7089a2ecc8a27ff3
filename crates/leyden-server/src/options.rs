//! What a server is made for.

use crate::auth::ApiKeys;
use crate::limits::Limits;
use crate::log::LogFormat;
use crate::on_demand::{Changer, Lister, NameFinder, OnDemand, Puller};
use crate::peers::Network;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What a server waits for that was told to end.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// Requests that are being answered.
    pub requests: usize,
    /// How long it still takes requests, and says that it is not ready.
    pub lame_duck: Duration,
    /// How long running requests have after that.
    pub drain: Duration,
}

/// Hears what a server waits for when it is told to end.
pub type TellEnd = Arc<dyn Fn(Waits) + Send + Sync>;

/// Of the server as a whole.
pub struct ServerOptions {
    /// Models that are loaded when a request names them.
    pub on_demand: Vec<OnDemand>,
    /// Bytes of memory for these together; `None`: as much as they take.
    pub memory: Option<u64>,
    /// How models are pulled that clients ask for with `/api/pull`; `None` where they may not.
    pub pull: Option<Puller>,
    /// Copies, makes and deletes models that clients name; `None` where they may not.
    pub change: Option<Changer>,
    /// Finds models that come and go on the disk while the server runs; `None` where it serves only those that it was given.
    pub list: Option<Lister>,
    /// Finds models by texts that are no names of theirs.
    pub names: Option<NameFinder>,
    /// The address to listen on.
    pub host: String,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// Who may ask; without keys anybody may.
    pub keys: Option<ApiKeys>,
    /// Whether an address that others can reach is meant to be served without keys.
    pub no_auth: bool,
    /// Names under which a server without keys may be asked, beside addresses and names of the local network: names,
    /// ends of names as `*.example.org`, or `*` for any.
    pub allowed_hosts: Vec<String>,
    /// Origins beside those of this machine whose pages may read answers in a browser, such as `https://chat.example.org`, or `*` for any.
    pub allowed_origins: Vec<String>,
    /// Whether fields that the server does not know are refused, and not ignored with a warning.
    pub strict: bool,
    /// Objects may have properties that their schema does not name, where it says nothing of them, also in
    /// Ollama's and llama-server's dialects.
    pub open_schemas: bool,
    /// Proxies, which may have any number of connections.
    pub trusted_proxies: Vec<Network>,
    /// How long requests are still taken after the signal to end, while the server says that it is not ready.
    pub lame_duck: Duration,
    /// How long running requests have to finish then.
    pub drain: Duration,
    /// Who is told what the server waits for when it is told to end.
    pub tell_end: Option<TellEnd>,
    /// The longest that a request may take, waiting included.
    pub request_time: Duration,
    /// What requests may look like.
    pub limits: Limits,
    /// How requests are logged.
    pub log: LogFormat,
}

impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions")
            .field("host", &self.host)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            on_demand: Vec::new(),
            memory: None,
            pull: None,
            change: None,
            list: None,
            names: None,
            host: "127.0.0.1".to_owned(),
            port: 8080,
            keys: None,
            no_auth: false,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            strict: false,
            open_schemas: false,
            trusted_proxies: Vec::new(),
            lame_duck: Duration::from_secs(5),
            drain: Duration::from_secs(30),
            tell_end: None,
            request_time: Duration::from_secs(3600),
            limits: Limits::default(),
            log: LogFormat::Text,
        }
    }
}
