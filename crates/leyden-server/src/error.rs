//! Error responses: the one way from a failure to a client; the dialect defines the form of the body.
//!
//! The codes are a closed set. A message contains nothing that a client sent except a name or a number.

use hyper::StatusCode;
use leyden_tasks::ErrorKind;
use leyden_text::ErrorKind as TextError;
use std::time::Duration;

/// Failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    /// Field at fault, as a path into the body.
    pub(crate) param: Option<String>,
    pub(crate) message: String,
    /// Time after which to try again.
    pub(crate) retry_after: Option<Duration>,
    /// Methods of the endpoint, for a request with another one.
    pub(crate) methods: Vec<&'static str>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError {
            status,
            code,
            param: None,
            message: message.into(),
            retry_after: None,
            methods: Vec::new(),
        }
    }

    /// Returns the error of a field whose value cannot be served.
    pub(crate) fn field(param: impl Into<String>, message: impl Into<String>) -> ApiError {
        let error = ApiError::new(StatusCode::BAD_REQUEST, "invalid_value", message);
        ApiError { param: Some(param.into()), ..error }
    }

    /// Returns the error of a field, or of a value of it, that this server does not know.
    pub(crate) fn unsupported(param: impl Into<String>, message: impl Into<String>) -> ApiError {
        ApiError { code: "unsupported_parameter", ..ApiError::field(param, message) }
    }

    /// Returns the error of a field that excludes another field, or requires another one.
    pub(crate) fn conflict(param: impl Into<String>, message: impl Into<String>) -> ApiError {
        ApiError { code: "conflicting_parameters", ..ApiError::field(param, message) }
    }

    /// Returns the error of a body that cannot be read.
    pub(crate) fn body(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_json", message)
    }

    /// Returns the error of a prompt that exceeds the context, in OpenAI's words: clients detect it by them (litellm's
    /// `ContextWindowExceededError`, for example), to shorten the prompt or to ask another model.
    pub(crate) fn context_length(param: &str, tokens: usize, context: usize) -> ApiError {
        let message = format!(
            "This model's maximum context length is {context} tokens. However, your {param} resulted in {tokens} tokens. \
             Please reduce the length of the {param}."
        );
        ApiError { code: "context_length_exceeded", ..ApiError::field(param, message) }
    }

    /// Returns the error of a question that is too long or, if documents are scored in parts, leaves too few tokens to
    /// a document.
    pub(crate) fn no_room(param: &str, tokens: usize, context: usize) -> ApiError {
        if tokens > context {
            return ApiError::context_length(param, tokens, context);
        }
        let message = format!(
            "`{param}` has {tokens} tokens of the model's maximum of {context}, which leaves too few for a long document"
        );
        ApiError { code: "context_length_exceeded", ..ApiError::field(param, message) }
    }

    /// Returns the error of [a prompt that is too long](Self::context_length) whose tokens were not all counted.
    pub(crate) fn context_length_at_least(param: &str, tokens: usize, context: usize) -> ApiError {
        let message = format!(
            "This model's maximum context length is {context} tokens. However, your {param} resulted in at least \
             {tokens} tokens. Please reduce the length of the {param}."
        );
        ApiError { code: "context_length_exceeded", ..ApiError::field(param, message) }
    }

    /// Returns the error of a task on the part of the request at `param`.
    pub(crate) fn of_task(kind: ErrorKind, param: &str) -> ApiError {
        let field = |message: String| ApiError::field(param, message);
        match kind {
            ErrorKind::Empty => field("the prompt is empty, and the model has no begin token".to_owned()),
            ErrorKind::TooLong { tokens, counted: true, max_tokens }
            | ErrorKind::LabelsTooLong { tokens, max_tokens } => {
                ApiError::context_length(param, tokens, max_tokens)
            }
            ErrorKind::TooLong { tokens, counted: false, max_tokens } => {
                ApiError::context_length_at_least(param, tokens, max_tokens)
            }
            ErrorKind::QueryTooLong { tokens, max_tokens } => ApiError::no_room(param, tokens, max_tokens),
            ErrorKind::Dimensions { dimensions, width } => {
                field(format!("`{param}` is {dimensions}, but the vectors have {width}"))
            }
            ErrorKind::UnknownPrompt { known, .. } => {
                field(format!("`{param}`: the model does not have this prompt; it has: {known}"))
            }
            ErrorKind::Labels(what) => field(format!("`{param}`: {what}")),
            ErrorKind::NoTemplate => ApiError::internal("the model's messages cannot be written"),
            ErrorKind::LabelMark(_) => {
                ApiError::internal("the model's mark of labels is not in its vocabulary")
            }
            ErrorKind::Output => ApiError::internal("the model computed another output than was asked for"),
            ErrorKind::TooManyEntities { max } => {
                let message = format!(
                    "the answer has more than {max} entities: raise `threshold`, or send fewer texts or labels at a time"
                );
                let error = ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "answer_too_large", message);
                ApiError { param: Some("threshold".to_owned()), ..error }
            }
            ErrorKind::Text(error) => match error.kind() {
                // No client receives this error.
                TextError::Stopped => ApiError::internal("the client has disconnected"),
                kind @ (TextError::TemplateRaised(_)
                | TextError::TemplateRender { .. }
                | TextError::TemplateLimit { .. }) => {
                    field(format!("the model's chat template cannot render `{param}`: {kind}"))
                }
                _ => field(format!("`{param}` cannot be encoded in the model's vocabulary")),
            },
            other => field(format!("`{param}`: {other}")),
        }
    }

    /// Returns the error of a request with a method that the endpoint lacks.
    pub(crate) fn method_not_allowed(methods: Vec<&'static str>) -> ApiError {
        let message = format!("this endpoint takes {} only", methods.join(", "));
        let error = ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message);
        ApiError { methods, ..error }
    }

    pub(crate) fn internal(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message)
    }

    /// Returns the error of a request that the server as a whole cannot take now.
    pub(crate) fn unavailable(code: &'static str, message: impl Into<String>, retry: Duration) -> ApiError {
        let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, code, message);
        ApiError { retry_after: Some(retry), ..error }
    }

    /// Returns the error of a request that exceeded its time.
    pub(crate) fn deadline() -> ApiError {
        ApiError::unavailable("deadline_exceeded", "the request took too long", Duration::from_secs(1))
    }

    /// Returns the error of a request to a server that shuts down.
    pub(crate) fn closing() -> ApiError {
        ApiError::unavailable("server_closing", "the server is shutting down", Duration::from_secs(10))
    }

    /// Returns the error of a caller that exceeded its own limit.
    pub(crate) fn too_many(code: &'static str, message: impl Into<String>, retry: Duration) -> ApiError {
        let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, code, message);
        ApiError { retry_after: Some(retry), ..error }
    }

    /// Returns the whole seconds for `Retry-After`, at least 1.
    pub(crate) fn retry_seconds(&self) -> Option<u64> {
        self.retry_after.map(|d| d.as_millis().div_ceil(1000).max(1) as u64)
    }
}
