//! [`Call`]: request on its way to an endpoint.

use crate::abilities::RequiredAbility;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::fields::{self, Fields};
use crate::json;
use crate::log::Entry;
use crate::models::Lease;
use crate::schema;
use crate::synonyms;
use hyper::body::Bytes;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Receiver;

/// Body of `multipart/form-data` that has not arrived yet.
#[derive(Debug)]
pub(crate) struct Upload {
    /// Bytes of the body as they arrive; an error is the last item.
    pub(crate) pieces: Receiver<Result<Bytes, ApiError>>,
    /// Boundary of the parts.
    pub(crate) boundary: String,
}

/// Request on its way to an endpoint.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) caller: Caller,
    pub(crate) entry: Arc<Entry>,
    /// Value of the variable in the path.
    pub(crate) variable: String,
    /// Query string: the part of the address after `?`.
    pub(crate) query: String,
    /// Path of its route.
    route: &'static str,
    body: Vec<u8>,
    upload: Option<Upload>,
    /// True if the request only asks to unload its model.
    only_unloads: bool,
    /// Ability of the model that is chosen where the body names none.
    wish: RequiredAbility,
    given_up: Arc<AtomicBool>,
    /// Lease of the model, until the answer has ended.
    lease: Option<Arc<Lease>>,
    /// Bytes of memory of the answer beyond those of the computed values.
    shown_bytes: OnceLock<usize>,
}

impl Call {
    /// Returns a request without a body. `place` has the path of its route and the value of the path's variable.
    pub(crate) fn new(
        caller: Caller,
        entry: Arc<Entry>,
        place: (&'static str, String),
        query: String,
    ) -> Call {
        let (route, variable) = place;
        Call {
            caller,
            entry,
            variable,
            query,
            route,
            body: Vec::new(),
            upload: None,
            only_unloads: false,
            wish: RequiredAbility::Any,
            given_up: Arc::default(),
            lease: None,
            shown_bytes: OnceLock::new(),
        }
    }

    /// Adds the body; `only_unloads` is true if the request only asks to unload its model.
    pub(crate) fn with_body(self, body: Vec<u8>, only_unloads: bool) -> Call {
        Call { body, only_unloads, ..self }
    }

    /// Adds a body that has not arrived yet.
    pub(crate) fn with_upload(self, upload: Upload) -> Call {
        Call { upload: Some(upload), ..self }
    }

    /// Takes the body that has not arrived yet.
    ///
    /// # Errors
    /// The route has no such body.
    pub(crate) fn take_upload(&mut self) -> Result<Upload, ApiError> {
        self.upload.take().ok_or_else(|| ApiError::internal("the body was read already"))
    }

    /// Adds the ability of the model that is chosen where the body names none, and the model's lease.
    pub(crate) fn with_model(self, wish: RequiredAbility, lease: Option<Lease>) -> Call {
        Call { wish, lease: lease.map(Arc::new), ..self }
    }

    /// Returns a call for further work of the same request, without its body and without a model.
    pub(crate) fn further(&self) -> Call {
        let (place, query) = ((self.route, self.variable.clone()), self.query.clone());
        let call = Call::new(self.caller.clone(), Arc::clone(&self.entry), place, query);
        // The answers so far stay in memory.
        Call { shown_bytes: self.shown_bytes.clone(), ..call }
    }

    /// Sets how long the model stays in memory after its last request, if it is loaded on demand.
    pub(crate) fn keep_model(&self, idle: Option<Duration>) {
        if let Some(lease) = &self.lease {
            lease.keep(idle);
        }
    }

    /// Returns the lease of the model, for work that goes on after the engine's answer.
    pub(crate) fn lease(&self) -> Option<Arc<Lease>> {
        self.lease.clone()
    }

    /// Returns the request's deadline.
    pub(crate) fn deadline(&self, app: &App) -> Instant {
        self.entry.started() + app.request_time
    }

    /// Returns true if the request only asks to unload its model.
    pub(crate) fn only_unloads(&self) -> bool {
        self.only_unloads
    }

    /// Returns the bytes of the body.
    pub(crate) fn body_bytes(&self) -> usize {
        self.body.len()
    }

    /// Returns true if the client disconnected while the request is prepared. Without meaning after that.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Returns the flag of [`is_given_up`](Self::is_given_up).
    pub(crate) fn given_up(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.given_up)
    }

    /// Sets the bytes of memory of the answer beyond those of the computed values.
    pub(crate) fn shows(&self, bytes: usize) {
        let _ = self.shown_bytes.set(bytes);
    }

    /// Returns the bytes of memory of the answer beyond those of the computed values.
    pub(crate) fn shown_bytes(&self) -> usize {
        self.shown_bytes.get().copied().unwrap_or_default()
    }

    /// Returns the checked fields of the body, renamed to this server's names.
    pub(crate) fn fields(&self, app: &App) -> Result<Fields, ApiError> {
        let limits = &app.limits;
        let mut body = json::parse(&self.body, limits.json_depth, limits.json_values)?;
        if let Some(schema) = app.body_schema(self.route) {
            let unknown = schema::check(schema, &mut body, app.strict)?;
            self.entry.note(|facts| facts.ignored = names(&unknown));
        }
        let mut fields = Fields::from(body);
        synonyms::rename(&mut fields)?;
        if self.wish != RequiredAbility::Any && !fields.has("model") {
            fields.put("model", app.models.find_for(None, self.wish)?.name.as_str());
        }
        Ok(fields)
    }

    /// Returns the checked items of a body that is a list; error messages call the list `name`.
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

    /// Records parts of the body that are ignored, each as its path and its kind, for the response's header and the
    /// log.
    ///
    /// # Errors
    /// 400 where the server is strict.
    pub(crate) fn leave_out(&self, app: &App, parts: &[String]) -> Result<(), ApiError> {
        let Some(more) = names(&parts[..parts.len().min(MAX_LEFT_OUT)]) else { return Ok(()) };
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
}

/// Escapes names of fields, which may contain any characters, for a header and a log.
fn names(unknown: &[String]) -> Option<String> {
    let known = |c: char| if c.is_ascii_alphanumeric() || "_-.[]:".contains(c) { c } else { '?' };
    let shown = |name: &String| name.chars().take(NAME_CHARS).map(known).collect::<String>();
    let names: Vec<String> = unknown.iter().map(shown).collect();
    Some(names.join(", ")).filter(|names| !names.is_empty())
}

/// Maximum number of characters shown of a field's name.
const NAME_CHARS: usize = 64;
/// Maximum number of ignored parts of a body that are named.
const MAX_LEFT_OUT: usize = 16;
