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
    /// Finds the caller by its key.
    ///
    /// # Errors
    /// 401 without a valid key, 403 if the key may not do this.
    pub(crate) fn admit(
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
