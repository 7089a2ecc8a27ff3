//! From a request to a response: route, access, body, endpoint, and what every response has.

use crate::abilities::Wish;
use crate::adapters::{self, Adapters};
use crate::answer_memory::AnswerMemory;
use crate::auth::{Access, ApiKeys, Caller};
use crate::body::{self, Reply};
use crate::cors::{self, Origins};
use crate::defaults::Defaults;
use crate::dialect::Dialect;
use crate::dialects::memory::Memory;
use crate::dialects::ollama;
use crate::dialects::openai::OPENAI;
use crate::error::ApiError;
use crate::failure::{Error, ErrorKind};
use crate::fields::{self, Fields};
use crate::generic_tools;
use crate::grammars::Grammars;
use crate::ids::{self, Ids};
use crate::json;
use crate::limits::Limits;
use crate::loading::Lease;
use crate::log::{Entry, Log};
use crate::metrics::HttpMetrics;
use crate::model::{Model, ModelInfo};
use crate::models::{Models, without_tag};
use crate::moment::unix_time;
use crate::on_demand::{Changer, Puller};
use crate::openapi;
use crate::options::ServerOptions;
use crate::peers::Network;
use crate::pulls::Pulls;
use crate::replicas::Replicas;
use crate::replies::document;
use crate::residency::Times;
use crate::routes::{self, Found};
use crate::schema::{self, BY_MODEL};
use crate::synonyms;
use crate::turns::{Kind, Turns};
use crate::wire::{self, Hosts, Wire};
use hyper::body::{Body, Bytes};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use leyden_engine::Pooling;
use leyden_engine::sample::{SamplingParams, SequenceBreakers};
use leyden_kernels::{Cpu, Tier};
use leyden_models::{AdapterSet, Prompts};
use leyden_text::output::OutputFormat;
use leyden_text::{ChatTemplate, FillInMiddle, Tokenizer};
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// A model with its workers.
pub(crate) struct Served {
    pub(crate) name: String,
    pub(crate) tokenizer: Arc<dyn Tokenizer>,
    pub(crate) template: Option<Arc<ChatTemplate>>,
    /// Whether special tokens that messages spell out are such.
    pub(crate) special_in_content: bool,
    /// Whole answers that are calls without their marks are calls.
    pub(crate) bare_calls: bool,
    pub(crate) sampling: SamplingParams,
    pub(crate) defaults: Defaults,
    pub(crate) sequence_breakers: Vec<String>,
    /// The last sequence breakers, as texts and as tokens: converting them reads the whole vocabulary.
    pub(crate) breakers: Mutex<(Vec<String>, SequenceBreakers)>,
    pub(crate) grammars: Grammars,
    /// How it writes what is not content.
    pub(crate) format: OutputFormat,
    /// Whether its template says nothing of tools, so that their descriptions and calls are written for it.
    pub(crate) generic_tools: bool,
    /// Whether it shows calls of earlier turns all the same.
    pub(crate) shows_calls: bool,
    /// Special tokens that mark it; ascending.
    pub(crate) visible: Arc<[u32]>,
    pub(crate) replicas: Replicas,
    pub(crate) kv_type: leyden_kernels::attention::KvType,
    pub(crate) context: usize,
    /// Tokens that the cache holds.
    pub(crate) kv_tokens: usize,
    pub(crate) vocabulary: usize,
    pub(crate) tier: Tier,
    pub(crate) width: usize,
    /// Numbers of a text's vector.
    pub(crate) vector_width: usize,
    pub(crate) pooling: Pooling,
    pub(crate) info: ModelInfo,
    /// Whether it has logits; an encoder has states alone.
    pub(crate) generates: bool,
    /// Bytes of memory that weights, caches and workspaces take.
    pub(crate) bytes: u64,
    pub(crate) network: Arc<dyn leyden_models::Network>,
    pub(crate) adapters: Adapters,
    pub(crate) prompts: Prompts,
    /// What heads are computed on, beside the engines: one thread, that of whoever asks.
    pub(crate) heads: Cpu,
    /// Found when it is first asked for: finding it reads the whole vocabulary.
    fim: OnceLock<Option<FillInMiddle>>,
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Served {
    /// The tokens with which it is asked for what stands between two texts, if it was made for that.
    pub(crate) fn fill_in_middle(&self) -> Option<FillInMiddle> {
        *self.fim.get_or_init(|| FillInMiddle::of(self.tokenizer.as_ref()))
    }

    /// Starts its engines.
    ///
    /// # Errors
    /// Memory or threads are short.
    pub(crate) fn start(model: Model, log: &Arc<Log>) -> Result<Served, Error> {
        let replicas = Replicas::start(&model, log)?;
        let config = model.network.config();
        let mut format = model.template.as_deref().map_or_else(OutputFormat::plain, OutputFormat::detect);
        let generic_tools = format.calls().is_none() && !format.is_harmony();
        let shows_calls = generic_tools && model.template.as_deref().is_some_and(generic_tools::shows_calls);
        if generic_tools {
            format = format.with_generic_calls();
        }
        let visible = format.visible_tokens(model.tokenizer.as_ref()).into();
        let blocks = leyden_kernels::attention::BLOCK_TOKENS;
        let bytes = model.bytes();
        Ok(Served {
            bytes,
            fim: OnceLock::new(),
            replicas,
            kv_type: model.worker.kv_type,
            context: model.worker.context,
            kv_tokens: model.worker.kv_tokens.div_ceil(blocks) * blocks,
            vocabulary: model.network.vocabulary(),
            tier: model.cpus[0].tier(),
            width: config.width,
            vector_width: config.vector_width(),
            pooling: model.pooling,
            info: model.info,
            generates: config.generates(),
            heads: Cpu::new(model.cpus[0].tier(), 1)
                .map_err(leyden_engine::Error::from)?
                .with_exact(model.cpus[0].is_exact()),
            network: Arc::clone(&model.network),
            adapters: Adapters::new(model.adapters),
            prompts: model.prompts,
            name: model.name,
            tokenizer: model.tokenizer,
            template: model.template,
            special_in_content: model.special_in_content,
            bare_calls: model.bare_calls,
            sampling: model.sampling,
            defaults: model.defaults,
            sequence_breakers: model.sequence_breakers,
            breakers: Mutex::default(),
            grammars: Grammars::default(),
            format,
            generic_tools,
            shows_calls,
            visible,
        })
    }
}

impl Served {
    /// Bytes of memory that hold something: weights, adapters, the blocks of the caches with tokens in them, and states of
    /// recurrent layers.
    pub(crate) fn used_bytes(&self) -> u64 {
        let blocks: u64 =
            self.replicas.metrics().map(|m| m.kv_blocks_used.get() + m.kv_blocks_cached.get()).sum();
        let states: u64 = self.replicas.metrics().map(|m| m.running.get() + m.state_checkpoints.get()).sum();
        let shape = self.network.kv_shape(self.kv_type).ok();
        let (token, state) = shape.map_or((0, 0), |shape| (shape.token_bytes(), shape.state_bytes()));
        let block = (token * leyden_kernels::attention::BLOCK_TOKENS) as u64;
        let weights = self.network.weight_bytes() as u64 + self.adapters.bytes();
        let cache = blocks.saturating_mul(block).saturating_add(states.saturating_mul(state as u64));
        weights.saturating_add(cache).min(self.bytes)
    }
}

/// What all requests share.
pub(crate) struct App {
    pub(crate) models: Arc<Models>,
    pub(crate) pull: Option<Puller>,
    pub(crate) pulls: Arc<Pulls>,
    pub(crate) change: Option<Changer>,
    pub(crate) keys: Option<ApiKeys>,
    pub(crate) limits: Limits,
    pub(crate) http: HttpMetrics,
    /// Turns at compiling grammars.
    pub(crate) turns: Turns,
    /// Turns at preparing requests, of usual lengths and long ones.
    pub(crate) short: Turns,
    pub(crate) long: Turns,
    pub(crate) request_time: Duration,
    /// When the server started, in seconds since 1970.
    pub(crate) started: u64,
    /// Whether fields that are not known are refused.
    pub(crate) strict: bool,
    /// Objects of schemas are open in the dialects that close them by default.
    pub(crate) open_schemas: bool,
    /// Answers that the next request may name.
    pub(crate) answers: Memory,
    /// Memory of answers under way.
    pub(crate) answer_memory: AnswerMemory,
    bodies: OnceLock<HashMap<&'static str, Value>>,
    log: Arc<Log>,
    retiring: AtomicBool,
    closing: AtomicBool,
    pub(crate) trusted_proxies: Vec<Network>,
    hosts: Hosts,
    origins: Origins,
    ids: Ids,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("models", &self.models).finish_non_exhaustive()
    }
}

/// A request on its way to an endpoint.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) caller: Caller,
    pub(crate) entry: Arc<Entry>,
    /// What the path has in the place of its variable.
    pub(crate) variable: String,
    /// The part of its address behind `?`.
    pub(crate) query: String,
    /// The path of its route.
    route: &'static str,
    body: Vec<u8>,
    given_up: Arc<AtomicBool>,
    /// The use of the model, until the answer has ended.
    lease: Option<Arc<Lease>>,
    /// The adapters that it asks for, once its fields are known.
    adapters: OnceLock<AdapterSet>,
    /// The name by which it asks for its model.
    asked: OnceLock<String>,
    /// Bytes of memory that its answer takes beside the values that are computed.
    shown_bytes: OnceLock<usize>,
}

impl Call {
    /// Changes how long the model stays in memory after its last request, if it is one that goes.
    pub(crate) fn keep_model(&self, idle: Option<Duration>) {
        if let Some(lease) = &self.lease {
            lease.keep(idle);
        }
    }

    /// The use of the model, for what goes on behind the answer of its engine.
    pub(crate) fn lease(&self) -> Option<Arc<Lease>> {
        self.lease.clone()
    }

    /// When its time is over.
    pub(crate) fn deadline(&self, app: &App) -> Instant {
        self.entry.started() + app.request_time
    }

    /// Whether it asks for nothing but that its model leaves the memory.
    pub(crate) fn only_unloads(&self) -> bool {
        ollama::only_unloads(self.route, &self.body)
    }

    /// Bytes of the body.
    pub(crate) fn body_bytes(&self) -> usize {
        self.body.len()
    }

    /// Whether nobody waits any more while it is prepared; behind that it has no meaning.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// What says so.
    pub(crate) fn given_up(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.given_up)
    }

    /// Says how many bytes of memory the answer takes beside the values that are computed.
    pub(crate) fn shows(&self, bytes: usize) {
        let _ = self.shown_bytes.set(bytes);
    }

    /// Bytes of memory that the answer takes beside the values that are computed.
    pub(crate) fn shown_bytes(&self) -> usize {
        self.shown_bytes.get().copied().unwrap_or_default()
    }

    /// The fields of the body, checked, under the names that this server has for them.
    pub(crate) fn fields(&self, app: &App) -> Result<Fields, ApiError> {
        let limits = &app.limits;
        let mut body = json::parse(&self.body, limits.json_depth, limits.json_values)?;
        if let Some(schema) = app.body_schema(self.route) {
            let unknown = schema::check(schema, &mut body, app.strict)?;
            self.entry.note(|facts| facts.ignored = names(&unknown));
        }
        let mut fields = Fields::from(body);
        synonyms::rename(&mut fields)?;
        let wish = Wish::of_route(self.route);
        if wish != Wish::Any && !fields.has("model") {
            fields.put("model", app.models.find_for(None, wish)?.name.as_str());
        }
        let given = fields.list("lora").map(adapters::read);
        let asked = fields.peek("model").or_else(|| fields.peek("name"));
        if let Some(name) = asked {
            let _ = self.asked.set(name.to_owned());
        }
        // Whoever reads the name says what is wrong with it.
        if let Some(model) = app.models.find(asked).ok().and_then(|slot| slot.served()) {
            let name = asked.map(|name| without_tag(name).unwrap_or(name));
            let _ = self.adapters.set(model.adapters.choose(name, given.as_deref())?);
        }
        Ok(fields)
    }

    /// The items of a body that is a list, checked; errors call it `name`.
    pub(crate) fn items(&self, app: &App, name: &str) -> Result<Vec<Value>, ApiError> {
        let items = json::parse(&self.body, app.limits.json_depth, app.limits.json_values)?;
        if !items.is_array() {
            return Err(ApiError::body(format!("the body must be a list, not {}", fields::kind(&items))));
        }
        let schema = json!({ "type": "object", "properties": { name: app.body_schema(self.route) } });
        let mut body = json!({ name: items });
        let unknown = schema::check(&schema, &mut body, app.strict)?;
        self.entry.note(|facts| facts.ignored = names(&unknown));
        Ok(Fields::from(body).list(name).unwrap_or_default())
    }

    /// Notes parts of the body that are left out, each as its place and its kind, for the response's header and the log.
    ///
    /// # Errors
    /// 400 where the server is strict.
    pub(crate) fn leave_out(&self, app: &App, parts: &[String]) -> Result<(), ApiError> {
        let Some(more) = names(&parts[..parts.len().min(MOST_LEFT_OUT)]) else { return Ok(()) };
        if app.strict {
            let place = parts[0].split(':').next().unwrap_or_default();
            return Err(ApiError::unsupported(place, format!("not supported: {more}")));
        }
        self.entry.note(|facts| {
            let before = facts.ignored.take().map(|before| before + ", ").unwrap_or_default();
            facts.ignored = Some(before + &more);
        });
        Ok(())
    }

    /// What the answer calls the model: as the request does, or by its name where that names none.
    pub(crate) fn name_of(&self, model: &Served) -> String {
        self.asked.get().unwrap_or(&model.name).clone()
    }

    /// The adapters that the request is computed with on its model.
    pub(crate) fn adapters(&self, model: &Served) -> Result<AdapterSet, ApiError> {
        self.adapters.get().map_or_else(|| model.adapters.choose(None, None), |set| Ok(set.clone()))
    }
}

/// Names of fields for a header and a log, which may have anything in them.
fn names(unknown: &[String]) -> Option<String> {
    let known = |c: char| if c.is_ascii_alphanumeric() || "_-.[]:".contains(c) { c } else { '?' };
    let shown = |name: &String| name.chars().take(NAME_CHARS).map(known).collect::<String>();
    let names: Vec<String> = unknown.iter().map(shown).collect();
    Some(names.join(", ")).filter(|names| !names.is_empty())
}

/// Characters of a field's name that are shown.
const NAME_CHARS: usize = 64;
/// Parts of a body that are named where they are left out.
const MOST_LEFT_OUT: usize = 16;

impl App {
    /// Starts the workers.
    ///
    /// # Errors
    /// There is no model, two have one name, or memory or threads are short.
    pub(crate) fn start(models: Vec<Model>, mut options: ServerOptions, log: Log) -> Result<Arc<App>, Error> {
        let log = Arc::new(log);
        let on_demand = std::mem::take(&mut options.on_demand);
        // A server that pulls models can begin without any.
        if models.is_empty() && on_demand.is_empty() && options.pull.is_none() && options.list.is_none() {
            return Err(ErrorKind::NoModel.into());
        }
        let room = (options.memory, Times::of(options.limits.room_wait));
        let models = Models::start(models, on_demand, room, &log)?;
        let models = Arc::new(models.found_by(options.names.take(), options.list.take()));
        let processors = available_parallelism().map_or(1, NonZero::get);
        Ok(Arc::new(App {
            turns: Turns::new(Kind::grammars(processors), options.keys.is_some()),
            short: Turns::new(Kind::short(processors), options.keys.is_some()),
            long: Turns::new(Kind::long(processors), options.keys.is_some()),
            answer_memory: AnswerMemory::new(&options.limits, options.keys.is_some()),
            models,
            pull: options.pull,
            pulls: Arc::default(),
            change: options.change,
            keys: options.keys,
            limits: options.limits,
            http: HttpMetrics::default(),
            request_time: options.request_time,
            started: unix_time(),
            strict: options.strict,
            open_schemas: options.open_schemas,
            answers: Memory::default(),
            bodies: OnceLock::new(),
            log,
            retiring: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            trusted_proxies: options.trusted_proxies,
            origins: Origins::new(&options.allowed_origins),
            hosts: Hosts::new(&options.allowed_hosts, &options.host),
            ids: Ids::default(),
        }))
    }

    /// The model that a request names; of one model any request without a name means that. It is loaded: whoever comes
    /// here holds it, or asks for what is there.
    pub(crate) fn model(&self, name: Option<&str>) -> Result<Arc<Served>, ApiError> {
        let slot = self.models.find(name)?;
        slot.served().ok_or_else(|| {
            let message = format!("`{}` is not loaded", slot.name);
            ApiError::unavailable("model_not_loaded", message, Duration::from_secs(1))
        })
    }

    /// The use of the model that a request names, where models are loaded when they are asked for.
    async fn lease(&self, body: &[u8], wish: Wish, deadline: Instant) -> Result<Option<Lease>, ApiError> {
        /// Where a request names its model.
        #[derive(Deserialize)]
        struct Named<'a> {
            #[serde(borrow)]
            model: Option<Cow<'a, str>>,
            #[serde(borrow)]
            name: Option<Cow<'a, str>>,
        }
        if !self.models.come_and_go() {
            return Ok(None);
        }
        // What is no such object is refused when it is read.
        let Ok(named) = serde_json::from_slice::<Named<'_>>(body) else { return Ok(None) };
        let asked = named.model.or(named.name);
        let slot = self.models.look_for(asked.as_deref(), wish).await?;
        match tokio::time::timeout_at(deadline.into(), self.models.lease(&slot)).await {
            Ok(Err(error)) if error.code == "model_load_failed" => {
                // Its files may have been removed meanwhile.
                self.models.refresh().await;
                self.models.find_for(asked.as_deref(), wish)?;
                Err(error)
            }
            Ok(lease) => lease.map(Some),
            Err(_) => Err(ApiError::deadline()),
        }
    }

    /// A model's name in the OpenAPI document. An unknown one is no malformed request, but answered with 404.
    pub(crate) fn model_schema(&self) -> Value {
        json!({ "type": "string", "maxLength": self.limits.name_chars, "enum": self.names(), BY_MODEL: true })
    }

    /// What bodies of a route are held against.
    fn body_schema(&self, path: &str) -> Option<&Value> {
        self.bodies.get_or_init(|| openapi::bodies(routes::ROUTES, self)).get(path)
    }

    /// What the models may be called.
    fn names(&self) -> Vec<String> {
        self.models
            .all()
            .iter()
            .flat_map(|slot| slot.names().map(str::to_owned).collect::<Vec<_>>())
            .collect()
    }

    /// Token ids below this are those of every model that is loaded.
    pub(crate) fn vocabulary(&self) -> usize {
        let of = |m: &Arc<Served>| m.vocabulary.min(m.tokenizer.vocab_size());
        self.models.served().iter().map(of).min().unwrap_or(i32::MAX as usize)
    }

    /// Whether all models that are loaded can compute.
    pub(crate) fn is_able(&self) -> bool {
        self.models.served().iter().all(|m| m.replicas.are_alive())
    }

    /// Whether requests should be sent elsewhere.
    pub(crate) fn is_retiring(&self) -> bool {
        self.retiring.load(Ordering::SeqCst)
    }

    /// From now on the server says that it is not ready.
    pub(crate) fn retire(&self) {
        self.retiring.store(true, Ordering::SeqCst);
    }

    /// Whether requests are no longer taken.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// From now on requests are refused.
    pub(crate) fn close(&self) {
        self.retire();
        self.closing.store(true, Ordering::SeqCst);
    }

    /// Whether no model has anything to do.
    pub(crate) fn is_idle(&self) -> bool {
        let idle = |m: &Arc<Served>| m.replicas.metrics().all(|m| m.running.get() + m.waiting.get() == 0);
        self.models.served().iter().all(idle)
    }

    /// Ends the requests that run.
    pub(crate) fn end_requests(&self) {
        self.models.served().iter().for_each(|m| m.replicas.close());
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// The answer to a connection for which there is no place.
    pub(crate) fn turn_away(&self) -> Response<Reply> {
        self.http.connections_refused.add(1);
        let message = "there are too many connections";
        let mut response =
            failed(&OPENAI, &ApiError::unavailable("overloaded", message, Duration::from_secs(1)));
        self.http.answered(response.status().as_u16());
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    }

    /// Answers a request.
    pub(crate) async fn respond<B>(self: &Arc<App>, request: Request<B>) -> Response<Reply>
    where
        B: Body<Data = Bytes>,
    {
        let found = routes::find(request.method(), request.uri().path());
        let name = found.as_ref().map_or("unknown", |f| f.route.path);
        let dialect = routes::dialect(request.uri().path());
        let given = ids::of_client(request.headers()).map(str::to_owned);
        let entry = Arc::new(Entry::new(Arc::clone(&self.log), self.ids.next(), given, name));
        let mut caller = Caller::anybody();
        let origin = self.origins.allowed(request.headers());
        let result = self.answer(found, request, &entry, &mut caller).await;
        let mut response = result.unwrap_or_else(|error| {
            entry.note(|f| f.code = Some(error.code));
            failed(dialect, &error)
        });
        let status = response.status();
        entry.note(|f| {
            f.status = Some(status);
            f.key = caller.key.map(|_| caller.id.clone());
        });
        self.http.answered(status.as_u16());
        let headers = response.headers_mut();
        if let Some(origin) = origin {
            cors::open(headers, origin);
        }
        if let Some(ignored) = entry.ignored() {
            set(headers, "x-leyden-ignored", &ignored);
        }
        set(headers, "x-request-id", entry.shown());
        set(headers, "x-content-type-options", "nosniff");
        if let Some(keys) = &self.keys {
            keys.headers(&caller, Instant::now()).iter().for_each(|(name, value)| set(headers, name, value));
        }
        response.body_mut().entry = Some(entry);
        response
    }

    async fn answer<B>(
        self: &Arc<App>,
        found: Option<Found>,
        mut request: Request<B>,
        entry: &Arc<Entry>,
        caller: &mut Caller,
    ) -> Result<Response<Reply>, ApiError>
    where
        B: Body<Data = Bytes>,
    {
        let wire = request.extensions_mut().remove::<Wire>();
        if let Some(wire) = &wire {
            let host = wire::check(&request, wire)?;
            // Probes ask by any name, and learn nothing.
            let probe = found.as_ref().is_some_and(|f| f.route.is_health());
            if self.keys.is_none() && !probe {
                self.hosts.check(host.as_deref())?;
            }
        }
        let path_bytes = request.uri().path_and_query().map_or(0, |p| p.as_str().len());
        if path_bytes > self.limits.path_bytes {
            let message = format!("the path is longer than {} bytes", self.limits.path_bytes);
            return Err(ApiError::new(StatusCode::URI_TOO_LONG, "path_too_long", message));
        }
        let Some(Found { route, variable }) = found else {
            if cors::is_preflight(request.method(), request.headers())
                && self.origins.allowed(request.headers()).is_some()
            {
                let methods = routes::methods(request.uri().path()).join(", ");
                let mut response = options(&methods);
                cors::answer_preflight(request.headers(), &methods, response.headers_mut());
                return Ok(response);
            }
            // Who may not ask does not learn what there is.
            self.admit(request.headers(), OPENAI.key, Access::AnyKey)?;
            let methods = routes::methods(request.uri().path());
            if methods.is_empty() {
                return Err(ApiError::new(StatusCode::NOT_FOUND, "not_found", "there is no such endpoint"));
            }
            if request.method() == Method::OPTIONS {
                return Ok(options(&methods.join(", ")));
            }
            let message = format!("this endpoint takes {} only", methods.join(", "));
            return Err(ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message));
        };
        *caller = self.admit(request.headers(), route.dialect.key, route.access)?;
        let query = request.uri().query().unwrap_or_default().to_owned();
        if self.is_closing() && route.method == Method::POST {
            return Err(ApiError::closing());
        }
        if route.generates
            && let Some(keys) = &self.keys
        {
            keys.begin(caller, Instant::now())?;
        }
        let body = if route.has_body() {
            let headers = request.headers();
            let foreign = headers.contains_key(header::ORIGIN) && self.origins.allowed(headers).is_none();
            check_content(headers, route.dialect.any_content && !foreign)?;
            body::read(request.into_body(), &self.limits, wire.map(|w| w.hurry)).await?
        } else {
            Vec::new()
        };
        let given_up = Arc::default();
        let lease = match route.names_model() && !ollama::only_unloads(route.path, &body) {
            true => {
                let deadline = entry.started() + self.request_time;
                self.lease(&body, Wish::of_route(route.path), deadline).await?.map(Arc::new)
            }
            false => None,
        };
        let call = Call {
            lease,
            caller: caller.clone(),
            entry: Arc::clone(entry),
            variable,
            query,
            route: route.path,
            body,
            given_up,
            adapters: OnceLock::new(),
            asked: OnceLock::new(),
            shown_bytes: OnceLock::new(),
        };
        (route.answer)(Arc::clone(self), call).await
    }

    fn admit(
        &self,
        headers: &HeaderMap,
        key: fn(&HeaderMap) -> Result<&[u8], ApiError>,
        access: Access,
    ) -> Result<Caller, ApiError> {
        match (&self.keys, access) {
            (None, _) | (_, Access::Open) => Ok(Caller::anybody()),
            (Some(keys), access) => keys.check(key(headers)?, access),
        }
    }
}

/// Only plain JSON is read: no other type, unless any will do, and no compression.
fn check_content(headers: &HeaderMap, any: bool) -> Result<(), ApiError> {
    let refuse =
        |message| Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message));
    let value = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let kind = value.split(';').next().unwrap_or_default().trim();
    if !any && !kind.eq_ignore_ascii_case("application/json") {
        return refuse("the Content-Type must be application/json");
    }
    match headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None => Ok(()),
        Some(value) if value.eq_ignore_ascii_case(b"identity") => Ok(()),
        Some(_) => refuse("a Content-Encoding is not supported"),
    }
}

/// The response to the question what an endpoint takes.
fn options(methods: &str) -> Response<Reply> {
    let mut response = Response::new(Reply::whole(""));
    *response.status_mut() = StatusCode::NO_CONTENT;
    set(response.headers_mut(), "allow", methods);
    response
}

/// The response to a failed request.
fn failed(dialect: &Dialect, error: &ApiError) -> Response<Reply> {
    let mut response = document(error.status, &(dialect.error)(error));
    let headers = response.headers_mut();
    if let Some(seconds) = error.retry_seconds() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    match error.status {
        StatusCode::UNAUTHORIZED => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // What the client still sends is not read.
        StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT | StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            let methods = error.message.trim_start_matches("this endpoint takes ").trim_end_matches(" only");
            if let Ok(value) = HeaderValue::from_str(methods) {
                headers.insert(header::ALLOW, value);
            }
        }
        _ => {}
    }
    response
}

fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    // Numbers and names of our own, which are valid.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}
