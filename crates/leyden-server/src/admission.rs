//! Admission of a request: its API key and rate limit, the type of its body, and the lease of its model.

use crate::abilities::RequiredAbility;
use crate::app::App;
use crate::auth::{Access, Caller};
use crate::error::ApiError;
use crate::models::Lease;
use hyper::StatusCode;
use hyper::header::{self, HeaderMap, HeaderValue};
use serde::Deserialize;
use std::borrow::Cow;
use std::time::Instant;

impl App {
    /// Finds the caller by the identities of its certificate, or else by its key. A valid key of another caller than the
    /// certificate's is refused; a text that is no key is ignored beside a certificate, because many clients send one
    /// always.
    ///
    /// # Errors
    /// 401 without a known certificate and a valid key, 403 if the caller may not do this.
    pub(crate) fn admit(
        &self,
        (headers, identities): (&HeaderMap, &[String]),
        key: fn(&HeaderMap) -> Result<&[u8], ApiError>,
        access: Access,
    ) -> Result<Caller, ApiError> {
        match (&self.keys, access) {
            (None, _) | (_, Access::Open) => Ok(Caller::anybody()),
            (Some(keys), access) => match keys.find_certificate(identities) {
                None => keys.check(key(headers).map_err(|error| without_key(error, identities))?, access),
                Some(found) => {
                    if key(headers).and_then(|key| keys.find(key)).is_ok_and(|other| other != found) {
                        let message = "the API key is not that of the client certificate";
                        return Err(ApiError::new(StatusCode::FORBIDDEN, "key_of_another_client", message));
                    }
                    keys.caller(found, access)
                }
            },
        }
    }

    /// Takes a request from the rate limit of its key.
    ///
    /// # Errors
    /// 429: requests or tokens of the key are used up.
    pub(crate) fn begin(&self, caller: &Caller) -> Result<(), ApiError> {
        self.keys.as_ref().map_or(Ok(()), |keys| keys.begin(caller, Instant::now()))
    }

    /// Waits until the model that a request names is loaded, if models are loaded on demand.
    pub(crate) async fn lease(
        &self,
        body: &[u8],
        wish: RequiredAbility,
        deadline: Instant,
    ) -> Result<Option<Lease>, ApiError> {
        /// Fields in which a request names its model.
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
        // A body that is not JSON is refused when it is read.
        let Ok(named) = serde_json::from_slice::<Named<'_>>(body) else { return Ok(None) };
        let asked = named.model.or(named.name);
        let entry = self.models.look_for(asked.as_deref(), wish).await?;
        match tokio::time::timeout_at(deadline.into(), self.models.lease(&entry)).await {
            Ok(Err(error)) if error.code == "model_load_failed" => {
                // The model's files may have been removed meanwhile.
                self.models.refresh().await;
                self.models.find_for(asked.as_deref(), wish)?;
                Err(error)
            }
            Ok(lease) => lease.map(Some),
            Err(_) => Err(ApiError::deadline()),
        }
    }
}

/// Maximum number of identities that an error names.
const MAX_NAMED_IDENTITIES: usize = 4;

/// Adds to the error of a request without a key why its client's certificate does not replace one.
fn without_key(error: ApiError, identities: &[String]) -> ApiError {
    if identities.is_empty() {
        return error;
    }
    let named = identities[..identities.len().min(MAX_NAMED_IDENTITIES)].join(", ");
    let message = format!("{}; no key has an identity of the client certificate: {named}", error.message);
    ApiError { message, ..error }
}

/// Caller of a request that the server makes itself, for a row of a batch; its key was checked already.
#[derive(Clone, Debug)]
pub(crate) struct Admitted(pub(crate) Caller);

/// Returns the boundary of a body of `multipart/form-data`.
///
/// # Errors
/// 415 for another type, a compressed body, and for requests of pages of other origins, which a browser sends without asking.
pub(crate) fn upload_boundary(headers: &HeaderMap, foreign: bool) -> Result<String, ApiError> {
    let refuse =
        |message| Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message));
    if foreign {
        return refuse("pages of this origin may not upload files; allow it with --cors");
    }
    if headers.get(header::CONTENT_ENCODING).is_some_and(|v| !v.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return refuse("a Content-Encoding is not supported");
    }
    let value = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    match multer::parse_boundary(value) {
        Ok(boundary) => Ok(boundary),
        Err(_) => refuse("the Content-Type must be multipart/form-data with a boundary"),
    }
}

/// Refuses bodies that are not plain JSON: other types, unless `any` is set, and compressed ones.
pub(crate) fn check_content(headers: &HeaderMap, any: bool) -> Result<(), ApiError> {
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
