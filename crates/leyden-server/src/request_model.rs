//! [`RequestModel`]: the model of a request, with the LoRA adapters that it chose.

use crate::adapters::{self, ServedAdapter};
use crate::app::App;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::model_entry::without_tag;
use crate::served::Served;
use leyden_models::AdapterSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Loaded model of a request, with the name and the LoRA adapters that the request chose.
///
/// [`submit`](crate::generate::submit) takes no other type, and the fields of a request are the only source of a value:
/// every endpoint that computes chooses adapters.
#[derive(Clone)]
pub(crate) struct RequestModel {
    served: Arc<Served>,
    adapters: AdapterSet,
    name: String,
}

impl RequestModel {
    /// Takes `model` and `lora` from the fields of a request.
    ///
    /// # Errors
    /// 404: there is no such model, or the model lacks an adapter of `lora`. 503: the model is not loaded.
    pub(crate) fn take(app: &App, body: &mut Fields) -> Result<RequestModel, ApiError> {
        let name = body.text("model");
        let scales = body.list("lora").map(adapters::read);
        let served = app.served(name.as_deref())?;
        let plain = name.as_deref().map(|name| without_tag(name).unwrap_or(name));
        let adapters = served.adapters.choose(plain, scales.as_deref())?;
        let name = name.unwrap_or_else(|| served.name.clone());
        Ok(RequestModel { served, adapters, name })
    }

    /// Returns the adapters with their scales.
    pub(crate) fn adapters(&self) -> &AdapterSet {
        &self.adapters
    }

    /// Returns the adapters as the operator named them, with their scales.
    pub(crate) fn served_adapters(&self) -> Vec<(&ServedAdapter, f32)> {
        self.served.adapters.of_set(&self.adapters)
    }

    /// Returns the model's name for the answer: the one in the request, or the model's own if the request names none.
    pub(crate) fn answer_name(&self) -> String {
        self.name.clone()
    }
}

impl Deref for RequestModel {
    type Target = Arc<Served>;

    fn deref(&self) -> &Arc<Served> {
        &self.served
    }
}

impl fmt::Debug for RequestModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestModel").field("name", &self.name).finish_non_exhaustive()
    }
}
