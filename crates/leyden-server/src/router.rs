//! Processing of a request: route, admission, body, endpoint, and the headers of every response.

use crate::admission::{Admitted, check_content, upload_boundary};
use crate::app::{App, Descriptions};
use crate::auth::{Access, Caller};
use crate::body::{self, Reply};
use crate::call::{Call, Upload};
use crate::cors;
use crate::dialect::Dialect;
use crate::dialects::openai::OPENAI;
use crate::error::ApiError;
use crate::failure::Error;
use crate::ids;
use crate::keep_alive;
use crate::log::{Entry, Log};
use crate::model::Model;
use crate::openapi;
use crate::options::ServerOptions;
use crate::replies::document;
use crate::request_head::{self, ConnectionContext};
use crate::route::RequestBody;
use crate::routes::{self, Found, ROUTES};
use hyper::body::{Body, Bytes};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use leyden_audit::Phase;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Pieces of an upload that wait to be written.
const UPLOAD_PIECES: usize = 8;
/// Bytes of an upload besides those of its file.
const UPLOAD_FIELDS_BYTES: usize = 64 << 10;

/// Functions that build descriptions from the table of routes.
const DESCRIPTIONS: Descriptions = Descriptions {
    document: |app| openapi::document(ROUTES, app),
    bodies: |app| openapi::bodies(ROUTES, app),
};

impl App {
    /// Starts the engines of the models that stay in memory.
    ///
    /// # Errors
    /// There is no model, two have one name, or memory or threads are short.
    pub(crate) fn start(models: Vec<Model>, options: ServerOptions, log: Log) -> Result<Arc<App>, Error> {
        App::new(models, options, log, DESCRIPTIONS).map(Arc::new)
    }

    /// Returns the response for a connection above the connection limit.
    pub(crate) fn turn_away(&self) -> Response<Reply> {
        self.http.connections_refused.add(1);
        let message = "there are too many connections";
        let mut response =
            failed(&OPENAI, &ApiError::unavailable("overloaded", message, Duration::from_secs(1)));
        self.http.answered(response.status().as_u16());
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    }

    /// Returns the response to HTTP without TLS on a port with TLS.
    pub(crate) fn refuse_plain(&self) -> Response<Reply> {
        let message = "this port speaks TLS; use https://";
        let mut response = failed(&OPENAI, &ApiError::new(StatusCode::BAD_REQUEST, "tls_required", message));
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
        // Probes and pages are not traced, but requests that take work.
        let traces = self.traces.as_ref().filter(|_| found.as_ref().is_some_and(|f| f.route.generates));
        let trace =
            traces.and_then(|traces| traces.begin(request.headers(), request.method().as_str(), &self.ids));
        let entry = Entry::new(Arc::clone(&self.log), self.ids.next(), given, name)
            .traced(trace)
            .with_audit(self.audit.as_ref());
        let entry = Arc::new(entry);
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
        if let Err(error) = audited(&entry, &mut response).await {
            response = failed(dialect, &error);
            let status = response.status();
            entry.note(|f| (f.code, f.status) = (Some(error.code), Some(status)));
        }
        self.http.answered(response.status().as_u16());
        let headers = response.headers_mut();
        if let Some(origin) = origin {
            cors::open(headers, origin);
        }
        if let Some(ignored) = entry.ignored() {
            set(headers, "x-leyden-ignored", &ignored);
        }
        if let Some(trace) = entry.trace() {
            set(headers, "traceresponse", &trace.header());
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
        let context = request.extensions_mut().remove::<ConnectionContext>();
        if let Some(context) = &context {
            let host = request_head::check(&request, context)?;
            // Health probes use any host name, and get no information.
            let probe = found.as_ref().is_some_and(|f| f.route.is_health());
            // A page under another name cannot reach a server with TLS, whose certificate has its own name.
            if self.keys.is_none() && self.tls.is_none() && !probe {
                self.hosts.check(host.as_deref())?;
            }
        }
        let identities = context.as_ref().map(|c| Arc::clone(&c.session));
        let identities = identities.as_ref().map_or(&[][..], |session| session.identities());
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
            // Without valid access the response does not tell which paths exist.
            self.admit((request.headers(), identities), OPENAI.key, Access::AnyKey)?;
            let methods = routes::methods(request.uri().path());
            if methods.is_empty() {
                return Err(ApiError::new(StatusCode::NOT_FOUND, "not_found", "there is no such endpoint"));
            }
            if request.method() == Method::OPTIONS {
                return Ok(options(&methods.join(", ")));
            }
            return Err(ApiError::method_not_allowed(methods));
        };
        *caller = match request.extensions_mut().remove::<Admitted>() {
            Some(Admitted(caller)) => caller,
            None => self.admit((request.headers(), identities), route.dialect.key, route.access)?,
        };
        let query = request.uri().query().unwrap_or_default().to_owned();
        if self.is_closing() && route.method == Method::POST {
            return Err(ApiError::closing());
        }
        if route.generates {
            self.begin(caller)?;
        }
        let headers = request.headers();
        let foreign = headers.contains_key(header::ORIGIN) && self.origins.allowed(headers).is_none();
        if route.body == RequestBody::Upload {
            let boundary = upload_boundary(headers, foreign)?;
            let (to, pieces) = mpsc::channel(UPLOAD_PIECES);
            let call = Call::new(caller.clone(), Arc::clone(entry), (route.path, variable), query);
            let call = call.with_upload(Upload { pieces, boundary });
            let mut answer = (route.answer)(Arc::clone(self), call);
            let contention = context.map(|w| w.contention_signal);
            let most = self.limits.file_bytes.saturating_add(UPLOAD_FIELDS_BYTES);
            let mut reading =
                std::pin::pin!(body::forward(request.into_body(), &self.limits, most, contention, to));
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                () = &mut reading => {}
            }
            return answer.await;
        }
        let body = if route.has_body() {
            check_content(headers, route.dialect.any_content && !foreign)?;
            body::read(request.into_body(), &self.limits, context.map(|w| w.contention_signal)).await?
        } else {
            Vec::new()
        };
        if let Some(trail) = entry.trail().filter(|_| route.generates) {
            trail.begin(&query, &body);
        }
        let only_unloads = keep_alive::only_unloads(route.path, &body);
        let mut call = Call::new(caller.clone(), Arc::clone(entry), (route.path, variable), query);
        if let RequestBody::Model(wish) = route.body {
            let deadline = entry.started() + self.request_time;
            let lease = if only_unloads { None } else { self.lease(&body, wish, deadline).await? };
            call = call.with_model(wish, lease);
        }
        (route.answer)(Arc::clone(self), call.with_body(body, only_unloads)).await
    }
}

/// Writes a computed answer to the audit log, or the beginning of a stream, before it is sent.
///
/// # Errors
/// 503: it cannot be written.
async fn audited(entry: &Entry, response: &mut Response<Reply>) -> Result<(), ApiError> {
    let Some(trail) = entry.trail().filter(|trail| trail.has_computed()) else { return Ok(()) };
    let written = match response.body().bytes() {
        Some(bytes) => {
            trail.sent(bytes);
            entry.audit(Phase::Whole)
        }
        None => entry.audit(Phase::Start),
    };
    if !written.await.unwrap_or(false) {
        let message = "the audit log cannot be written, so no answer is given";
        return Err(ApiError::unavailable("audit_failed", message, Duration::from_secs(10)));
    }
    if response.body().bytes().is_none() {
        response.body_mut().audit_end();
    }
    Ok(())
}

/// Returns the response to `OPTIONS` with an endpoint's methods.
fn options(methods: &str) -> Response<Reply> {
    let mut response = Response::new(Reply::whole(""));
    *response.status_mut() = StatusCode::NO_CONTENT;
    set(response.headers_mut(), "allow", methods);
    response
}

/// Returns the response to a failed request.
fn failed(dialect: &Dialect, error: &ApiError) -> Response<Reply> {
    let mut response = document(error.status, &(dialect.error)(error));
    let headers = response.headers_mut();
    if let Some(seconds) = error.retry_seconds() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if !error.methods.is_empty() {
        set(headers, "allow", &error.methods.join(", "));
    }
    match error.status {
        StatusCode::UNAUTHORIZED => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // The rest of the body is not read.
        StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT | StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        _ => {}
    }
    response
}

fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    // Numbers and our own names are always valid.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}
