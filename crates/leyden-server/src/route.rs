//! [`Route`]: a row of the table of endpoints.

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

/// An endpoint.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) method: Method,
    /// Pattern of the path. A part in braces matches anything, slashes included. The first match in the table counts.
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    /// True if it computes, and counts as a request of its key.
    pub(crate) generates: bool,
    pub(crate) dialect: &'static Dialect,
    pub(crate) answer: fn(Arc<App>, Call) -> Answering,
    /// Function that returns its operation in the OpenAPI document.
    pub(crate) describe: fn(&App) -> Value,
}

impl Route {
    /// Returns true if a request's body names the model that computes it.
    pub(crate) fn names_model(&self) -> bool {
        // Endpoints that pull, change or describe models compute nothing on them.
        let without = ["/api/pull", "/api/copy", "/api/create", "/api/show"].contains(&self.path);
        self.method == Method::POST && !without
    }

    /// Returns true if a request has a body.
    pub(crate) fn has_body(&self) -> bool {
        self.method == Method::POST && !self.path.ends_with("/cancel") || self.path == "/api/delete"
    }

    /// Returns true if it only reports the server's health.
    pub(crate) fn is_health(&self) -> bool {
        ["/health", "/v1/health", "/v2/health"].iter().any(|start| self.path.starts_with(start))
    }
}
