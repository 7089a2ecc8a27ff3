//! Answers that say no: the one way from a failure to a client, whose dialect gives it its form.
//!
//! The codes are a closed set, and a message never holds more of what a client sent than a name or a number.

use hyper::StatusCode;
use std::time::Duration;

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    /// The field at fault, as a path into the body.
    pub(crate) param: Option<String>,
    pub(crate) message: String,
    /// When to try again.
    pub(crate) retry_after: Option<Duration>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError { status, code, param: None, message: message.into(), retry_after: None }
    }

    /// A field whose value cannot be served.
    pub(crate) fn field(param: impl Into<String>, message: impl Into<String>) -> ApiError {
        let error = ApiError::new(StatusCode::BAD_REQUEST, "invalid_value", message);
        ApiError { param: Some(param.into()), ..error }
    }

    /// A field, or a value of it, that this server does not know.
    pub(crate) fn unsupported(param: impl Into<String>, message: impl Into<String>) -> ApiError {
        ApiError { code: "unsupported_parameter", ..ApiError::field(param, message) }
    }

    /// A field that another field forbids, or that lacks another one.
    pub(crate) fn conflict(param: impl Into<String>, message: impl Into<String>) -> ApiError {
        ApiError { code: "conflicting_parameters", ..ApiError::field(param, message) }
    }

    /// A body that cannot be read.
    pub(crate) fn body(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_json", message)
    }

    /// A prompt that the context does not hold, in OpenAI's words: clients know the case by them (litellm's
    /// `ContextWindowExceededError`, for one), to shorten the prompt or to ask another model.
    pub(crate) fn context_length(param: &str, tokens: usize, context: usize) -> ApiError {
        let message = format!(
            "This model's maximum context length is {context} tokens. However, your {param} resulted in {tokens} tokens. \
             Please reduce the length of the {param}."
        );
        ApiError { code: "context_length_exceeded", ..ApiError::field(param, message) }
    }

    /// A question that is too long or, where documents are read in parts, leaves too little to a long one.
    pub(crate) fn no_room(param: &str, tokens: usize, context: usize) -> ApiError {
        if tokens > context {
            return ApiError::context_length(param, tokens, context);
        }
        let message = format!(
            "`{param}` has {tokens} of the {context} tokens that the model takes, which leaves too few to a long document"
        );
        ApiError { code: "context_length_exceeded", ..ApiError::field(param, message) }
    }

    /// [A prompt that is too long](Self::context_length) where it is not known how many tokens it has, as they were not all counted.
    pub(crate) fn context_length_at_least(param: &str, tokens: usize, context: usize) -> ApiError {
        let message = format!(
            "This model's maximum context length is {context} tokens. However, your {param} resulted in at least \
             {tokens} tokens. Please reduce the length of the {param}."
        );
        ApiError { code: "context_length_exceeded", ..ApiError::field(param, message) }
    }

    pub(crate) fn internal(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message)
    }

    /// The server as a whole cannot take it now.
    pub(crate) fn unavailable(code: &'static str, message: impl Into<String>, retry: Duration) -> ApiError {
        let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, code, message);
        ApiError { retry_after: Some(retry), ..error }
    }

    /// The time of the request is over.
    pub(crate) fn deadline() -> ApiError {
        ApiError::unavailable("deadline_exceeded", "the request took too long", Duration::from_secs(1))
    }

    /// The server is about to end.
    pub(crate) fn closing() -> ApiError {
        ApiError::unavailable("server_closing", "the server is closing", Duration::from_secs(10))
    }

    /// The caller's own limit is reached.
    pub(crate) fn too_many(code: &'static str, message: impl Into<String>, retry: Duration) -> ApiError {
        let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, code, message);
        ApiError { retry_after: Some(retry), ..error }
    }

    /// Whole seconds for `Retry-After`, at least 1.
    pub(crate) fn retry_seconds(&self) -> Option<u64> {
        self.retry_after.map(|d| d.as_millis().div_ceil(1000).max(1) as u64)
    }
}
