//! [`App`]: the state that all requests share.

use crate::answer_memory::AnswerMemory;
use crate::auth::ApiKeys;
use crate::batches::Batches;
use crate::cors::Origins;
use crate::dialects::answer_store::AnswerStore;
use crate::error::ApiError;
use crate::failure::{Error, ErrorKind};
use crate::fair_semaphore::{FairSemaphore, WorkKind};
use crate::ids::Ids;
use crate::ip_network::Network;
use crate::limits::Limits;
use crate::log::Log;
use crate::metrics::HttpMetrics;
use crate::model::Model;
use crate::models::Models;
use crate::on_demand::{Changer, Puller};
use crate::options::ServerOptions;
use crate::pulls::Pulls;
use crate::request_head::Hosts;
use crate::residency::Times;
use crate::schema::BY_MODEL;
use crate::served::Served;
use crate::service::Service;
use crate::timestamp::unix_time;
use crate::tls::Tls;
use crate::trace::Traces;
use leyden_audit::AuditLog;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;
use std::time::Duration;

/// Schemas of the bodies of all routes that take one, by path.
pub(crate) type Bodies = HashMap<&'static str, Value>;

/// Functions that describe all endpoints. The table of endpoints is in a higher layer than this module, so it passes
/// them in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptions {
    /// Function that makes the OpenAPI document.
    pub(crate) document: fn(&App) -> Value,
    /// Function that makes the schemas of bodies.
    pub(crate) bodies: fn(&App) -> Bodies,
}

/// State that all requests share.
pub(crate) struct App {
    pub(crate) models: Arc<Models>,
    pub(crate) pull: Option<Puller>,
    pub(crate) pulls: Arc<Pulls>,
    pub(crate) change: Option<Changer>,
    pub(crate) keys: Option<ApiKeys>,
    /// TLS of the listening socket; `None` without it.
    pub(crate) tls: Option<Tls>,
    pub(crate) traces: Option<Traces>,
    /// Uploaded files and batches.
    pub(crate) batches: Option<Arc<Batches>>,
    pub(crate) limits: Limits,
    pub(crate) http: HttpMetrics,
    /// Semaphore for compiling grammars.
    pub(crate) grammar_compiling: FairSemaphore,
    /// Semaphores for preparing requests: of usual length, and long ones.
    pub(crate) short_requests: FairSemaphore,
    pub(crate) long_requests: FairSemaphore,
    pub(crate) request_time: Duration,
    /// Start of the server, in seconds since 1970.
    pub(crate) started: u64,
    /// True if unknown fields are refused.
    pub(crate) strict: bool,
    /// True if schemas allow properties that they do not name, in the dialects that forbid them by default.
    pub(crate) open_schemas: bool,
    /// Stored answers that a later request may refer to.
    pub(crate) answers: AnswerStore,
    /// Memory of the answers in progress.
    pub(crate) answer_memory: AnswerMemory,
    descriptions: Descriptions,
    bodies: OnceLock<Bodies>,
    pub(crate) log: Arc<Log>,
    pub(crate) audit: Option<Arc<AuditLog>>,
    retiring: AtomicBool,
    closing: AtomicBool,
    pub(crate) trusted_proxies: Vec<Network>,
    pub(crate) hosts: Hosts,
    pub(crate) origins: Origins,
    pub(crate) ids: Ids,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("models", &self.models).finish_non_exhaustive()
    }
}

impl App {
    /// Starts the engines of the models that stay in memory.
    ///
    /// # Errors
    /// There is no model, two have one name, or memory or threads are short.
    pub(crate) fn new(
        models: Vec<Model>,
        mut options: ServerOptions,
        log: Log,
        descriptions: Descriptions,
    ) -> Result<App, Error> {
        let log = Arc::new(log);
        let on_demand = std::mem::take(&mut options.on_demand);
        // A server that pulls models can start without any.
        if models.is_empty() && on_demand.is_empty() && options.pull.is_none() && options.list.is_none() {
            return Err(ErrorKind::NoModel.into());
        }
        let room = (options.memory, Times::of(options.limits.room_wait));
        let models = Models::start(models, on_demand, room, &log)?;
        let models = Arc::new(models.found_by(options.names.take(), options.list.take()));
        let batches =
            options.batch_dir.as_deref().map(|folder| Batches::open(folder, &options.limits)).transpose()?;
        let batches = batches.map(Arc::new);
        let processors = available_parallelism().map_or(1, NonZero::get);
        Ok(App {
            grammar_compiling: FairSemaphore::new(WorkKind::grammars(processors), options.keys.is_some()),
            short_requests: FairSemaphore::new(WorkKind::short(processors), options.keys.is_some()),
            long_requests: FairSemaphore::new(WorkKind::long(processors), options.keys.is_some()),
            answer_memory: AnswerMemory::new(&options.limits, options.keys.is_some()),
            models,
            pull: options.pull,
            pulls: Arc::default(),
            change: options.change,
            keys: options.keys,
            traces: options.traces,
            tls: options.tls.map(|files| Tls::new(files, options.tls_interval)),
            batches,
            limits: options.limits,
            http: HttpMetrics::default(),
            request_time: options.request_time,
            started: unix_time(),
            strict: options.strict,
            open_schemas: options.open_schemas,
            answers: AnswerStore::default(),
            descriptions,
            bodies: OnceLock::new(),
            log,
            audit: options.audit,
            retiring: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            trusted_proxies: options.trusted_proxies,
            origins: Origins::new(&options.allowed_origins),
            hosts: Hosts::new(&options.allowed_hosts, &options.host),
            ids: Ids::default(),
        })
    }

    /// Returns the loaded model that a request names; on a server with one model, a request without a name gets that
    /// model. The caller holds a lease of the model, or only wants a model that is loaded at present.
    pub(crate) fn served(&self, name: Option<&str>) -> Result<Arc<Served>, ApiError> {
        self.service(name)
    }

    /// Returns the loaded model of a kind that a request names, as [`served`](Self::served) does.
    pub(crate) fn service<T: Service>(&self, name: Option<&str>) -> Result<Arc<T>, ApiError> {
        let entry = self.models.find(name)?;
        let service = entry.service().ok_or_else(|| {
            let message = format!("`{}` is not loaded", entry.name);
            ApiError::unavailable("model_not_loaded", message, Duration::from_secs(1))
        })?;
        service.of_kind().ok_or_else(|| {
            let message = format!("`{}` is a model of another kind than this endpoint needs", entry.name);
            ApiError { code: "unsupported_model", ..ApiError::field("model", message) }
        })
    }

    /// Returns the schema of a model's name for the OpenAPI document. It lists no names: an unknown name is answered
    /// with 404, not as a malformed request.
    pub(crate) fn model_schema(&self) -> Value {
        json!({ "type": "string", "maxLength": self.limits.name_chars, "enum": self.names(), BY_MODEL: true })
    }

    /// Returns the schema against which the bodies of a route are checked.
    pub(crate) fn body_schema(&self, path: &str) -> Option<&Value> {
        self.bodies.get_or_init(|| (self.descriptions.bodies)(self)).get(path)
    }

    /// Returns the OpenAPI document.
    pub(crate) fn document(&self) -> Value {
        (self.descriptions.document)(self)
    }

    /// Returns all names of all models.
    fn names(&self) -> Vec<String> {
        self.models
            .all()
            .iter()
            .flat_map(|entry| entry.names().map(str::to_owned).collect::<Vec<_>>())
            .collect()
    }

    /// Returns the size of the smallest vocabulary of the loaded models: token ids below it are valid for all of them.
    pub(crate) fn vocabulary(&self) -> usize {
        let of = |m: &Arc<Served>| m.vocabulary.min(m.tokenizer.vocab_size());
        self.models.served().iter().map(of).min().unwrap_or(i32::MAX as usize)
    }

    /// Returns true if all models that are loaded can compute.
    pub(crate) fn is_able(&self) -> bool {
        self.models.services().iter().all(|service| service.is_alive())
    }

    /// Returns true if requests should be sent elsewhere.
    pub(crate) fn is_retiring(&self) -> bool {
        self.retiring.load(Ordering::SeqCst)
    }

    /// Makes the server report that it is not ready, from now on.
    pub(crate) fn retire(&self) {
        self.retiring.store(true, Ordering::SeqCst);
    }

    /// Returns true if requests are no longer taken.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Makes the server refuse requests, from now on.
    pub(crate) fn close(&self) {
        self.retire();
        self.closing.store(true, Ordering::SeqCst);
    }

    /// Returns true if no model has a request.
    pub(crate) fn is_idle(&self) -> bool {
        self.models.services().iter().all(|service| service.requests() == 0)
    }

    /// Ends the requests in progress.
    pub(crate) fn end_requests(&self) {
        self.models.services().iter().for_each(|service| service.end_requests());
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }
}
