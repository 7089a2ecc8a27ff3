//! [`ServerOptions`]: the options of a server.

use crate::auth::ApiKeys;
use crate::ip_network::Network;
use crate::limits::Limits;
use crate::log::LogFormat;
use crate::on_demand::{Changer, Lister, NameFinder, OnDemand, Puller};
use crate::trace::Traces;
use leyden_audit::AuditLog;
use leyden_tls::ServerTls;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Requests and waits of a graceful shutdown.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// Number of requests being answered.
    pub requests: usize,
    /// Time during which requests are still accepted while health checks report that the server is not ready.
    pub lame_duck: Duration,
    /// Time for running requests after that.
    pub drain: Duration,
}

/// Function that is called at the beginning of a graceful shutdown.
pub type TellEnd = Arc<dyn Fn(Waits) + Send + Sync>;

/// Options of a server.
pub struct ServerOptions {
    /// Models that are loaded when a request names them.
    pub on_demand: Vec<OnDemand>,
    /// Memory budget of these models together in bytes; `None`: no limit.
    pub memory: Option<u64>,
    /// Function that downloads models for `/api/pull`; `None` if clients may not pull.
    pub pull: Option<Puller>,
    /// Function that copies, creates and deletes models for clients; `None` if they may not.
    pub change: Option<Changer>,
    /// Function that finds models on the disk while the server runs; `None` for a fixed list of models.
    pub list: Option<Lister>,
    /// Function that finds models by texts that are not their names.
    pub names: Option<NameFinder>,
    /// Folder of uploaded files and batches; `None` for a server without them.
    pub batch_dir: Option<PathBuf>,
    /// The address to listen on.
    pub host: String,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// API keys; without them access is open.
    pub keys: Option<ApiKeys>,
    /// Certificate and key of encrypted connections; without them the server speaks plain HTTP.
    pub tls: Option<Arc<ServerTls>>,
    /// Interval at which the files of TLS are compared with those in use.
    pub tls_interval: Duration,
    /// Traces of requests; `None` for none.
    pub traces: Option<Traces>,
    /// True to allow serving without keys on an address that others can reach.
    pub no_auth: bool,
    /// Host names that a server without keys accepts, beside addresses and names of the local network: full names,
    /// suffixes such as `*.example.org`, or `*` for any.
    pub allowed_hosts: Vec<String>,
    /// Origins beyond those of this machine whose pages may read answers in a browser (CORS), such as
    /// `https://chat.example.org`, or `*` for any.
    pub allowed_origins: Vec<String>,
    /// True to refuse unknown fields instead of ignoring them with a warning.
    pub strict: bool,
    /// True if objects in JSON schemas may have properties that the schema does not name, unless it forbids them; also
    /// for Ollama's and llama-server's dialects.
    pub open_schemas: bool,
    /// Trusted proxies, which are exempt from the connection limit per address.
    pub trusted_proxies: Vec<Network>,
    /// Time after the shutdown signal during which requests are still accepted while the server reports that it is not
    /// ready.
    pub lame_duck: Duration,
    /// Time for running requests after that.
    pub drain: Duration,
    /// Function that is called at the beginning of a graceful shutdown.
    pub tell_end: Option<TellEnd>,
    /// Maximum duration of a request, including the wait in the queue.
    pub request_time: Duration,
    /// Limits of requests.
    pub limits: Limits,
    /// Format of the request log.
    pub log: LogFormat,
    /// Audit log in which every computed answer is recorded before it is sent.
    pub audit: Option<Arc<AuditLog>>,
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
            batch_dir: None,
            host: "127.0.0.1".to_owned(),
            port: 8080,
            keys: None,
            traces: None,
            tls: None,
            tls_interval: Duration::from_secs(3),
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
            audit: None,
        }
    }
}
