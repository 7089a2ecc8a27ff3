//! [`Route`]: a row of the table of endpoints.

use crate::abilities::RequiredAbility;
use crate::app::App;
use crate::auth::Access;
use crate::body::Reply;
use crate::call::Call;
use crate::dialect::Dialect;
use crate::error::ApiError;
use hyper::{Method, Response};
use serde_json::Value;
use std::pin::Pin;
use std::sync::Arc;

/// Future of an endpoint's response.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<Response<Reply>, ApiError>> + Send>>;

/// Body of an endpoint's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestBody {
    /// No body.
    None,
    /// Parts of `multipart/form-data`, which the endpoint reads as they arrive.
    Upload,
    /// Fields, none of which names a model that computes.
    Fields,
    /// Fields that name the model that computes. Without a name it is the only model with the ability.
    Model(RequiredAbility),
}

/// An endpoint.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) method: Method,
    /// Pattern of the path. A part in braces matches anything, slashes included unless its name ends with `_id`. The first match in
    /// the table counts.
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    /// True if it computes, and counts as a request of its key.
    pub(crate) generates: bool,
    pub(crate) body: RequestBody,
    pub(crate) dialect: &'static Dialect,
    pub(crate) answer: fn(Arc<App>, Call) -> Answering,
    /// Function that returns its operation in the OpenAPI document.
    pub(crate) describe: fn(&App) -> Value,
}

impl Route {
    /// Returns true if a request has a body.
    pub(crate) fn has_body(&self) -> bool {
        self.body != RequestBody::None
    }

    /// Returns true if it only reports the server's health.
    pub(crate) fn is_health(&self) -> bool {
        ["/health", "/v1/health", "/v2/health"].iter().any(|start| self.path.starts_with(start))
    }
}
