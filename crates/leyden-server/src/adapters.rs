//! LoRA adapters of a model, and their scales: those of a request, and the defaults.

use crate::error::ApiError;
use crate::fields::Fields;
use crate::fingerprint::Fingerprint;
use hyper::StatusCode;
use leyden_models::{Adapter, AdapterSet};
use serde_json::{Value, json};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of entries in a list of scales.
const MAX_SCALES: usize = 256;

/// Adapter that is served with a model.
#[derive(Clone)]
pub struct ServedAdapter {
    /// Model name by which clients select this adapter at scale 1.
    pub name: Option<String>,
    /// Path of its file, as the operator gave it.
    pub path: String,
    /// Scale for requests that name no adapters.
    pub scale: f32,
    /// Adapter, read for the model's network.
    pub adapter: Arc<Adapter>,
    /// SHA-256 of its files.
    pub digest: Fingerprint,
}

impl fmt::Debug for ServedAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedAdapter").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Adapters of a model; the id of an adapter is its index.
#[derive(Debug)]
pub(crate) struct Adapters {
    all: Vec<ServedAdapter>,
    /// Scales by id for requests that name no adapters.
    scales: Mutex<Vec<f32>>,
}

impl Adapters {
    pub(crate) fn new(all: Vec<ServedAdapter>) -> Adapters {
        let scales = all.iter().map(|adapter| adapter.scale).collect();
        Adapters { all, scales: Mutex::new(scales) }
    }

    /// Returns true if the model has no adapters.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the adapters and scales of a request that names the model `name` and gives the scales `given` by id.
    /// Adapters that are not in `given` get scale 0.
    ///
    /// # Errors
    /// An id in `given` does not exist.
    pub(crate) fn choose(
        &self,
        name: Option<&str>,
        given: Option<&[(usize, f32)]>,
    ) -> Result<AdapterSet, ApiError> {
        let mut scales = match given {
            Some(given) => self.listed(given)?,
            None => self.scales(),
        };
        let named = self.all.iter().position(|adapter| name.is_some() && adapter.name.as_deref() == name);
        if let (Some(named), None) = (named, given) {
            scales[named] = 1.0;
        }
        let all = self.all.iter().zip(scales).map(|(served, scale)| (Arc::clone(&served.adapter), scale));
        AdapterSet::new(all).map_err(|_| ApiError::internal("the scale of an adapter is not a number"))
    }

    /// Returns the adapters of a set with their scales.
    pub(crate) fn of_set(&self, set: &AdapterSet) -> Vec<(&ServedAdapter, f32)> {
        let served = |adapter: &Arc<Adapter>| self.all.iter().find(|one| Arc::ptr_eq(&one.adapter, adapter));
        set.iter().filter_map(|(adapter, scale)| Some((served(adapter)?, scale))).collect()
    }

    /// Sets the default scales by id; adapters that are not in `given` get 0.
    ///
    /// # Errors
    /// As [`choose`](Self::choose).
    pub(crate) fn set(&self, given: &[(usize, f32)]) -> Result<(), ApiError> {
        let scales = self.listed(given)?;
        *self.scales.lock().unwrap_or_else(PoisonError::into_inner) = scales;
        Ok(())
    }

    /// Returns the bytes of all adapters together.
    pub(crate) fn bytes(&self) -> u64 {
        self.all.iter().map(|served| served.adapter.bytes() as u64).sum()
    }

    /// Returns the list for llama-server's `GET /lora-adapters`, with full paths if `paths` is set, or else with the
    /// file names.
    pub(crate) fn shown(&self, paths: bool) -> Value {
        let one = |(id, (adapter, scale)): (usize, (&ServedAdapter, f32))| {
            let last = Path::new(&adapter.path).file_name().and_then(|name| name.to_str());
            let path = if paths { &adapter.path } else { last.unwrap_or_default() };
            json!({
                "id": id, "path": path, "scale": scale, "name": adapter.name,
                "rank": adapter.adapter.rank(), "bytes": adapter.adapter.bytes(),
            })
        };
        self.all.iter().zip(self.scales()).enumerate().map(one).collect()
    }

    fn scales(&self) -> Vec<f32> {
        self.scales.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the scales by id. If an id occurs twice, its last scale counts, as in llama-server.
    fn listed(&self, given: &[(usize, f32)]) -> Result<Vec<f32>, ApiError> {
        let mut scales = vec![0.0; self.all.len()];
        for (i, &(id, scale)) in given.iter().enumerate() {
            *scales.get_mut(id).ok_or_else(|| unknown(i, id, self.all.len()))? = scale;
        }
        Ok(scales)
    }
}

/// Returns the error for the unknown id in entry `i` of a list, for a model with `count` adapters.
pub(crate) fn unknown(i: usize, id: usize, count: usize) -> ApiError {
    let field = format!("lora[{i}].id");
    let message = format!("`{field}`: there is no adapter {id}; the model has {count} adapters");
    let error = ApiError::new(StatusCode::NOT_FOUND, "adapter_not_found", message);
    ApiError { param: Some(field), ..error }
}

/// Returns the ids and scales of a list that was checked against [`schema`].
pub(crate) fn read(list: Vec<Value>) -> Vec<(usize, f32)> {
    let one = |item: Value| {
        let mut item = Fields::from(item);
        Some((item.size("id")?, item.number("scale")?))
    };
    list.into_iter().filter_map(one).collect()
}

/// Returns the schema of the field `lora` for the OpenAPI document.
pub(crate) fn schema() -> Value {
    json!({
        "type": "array", "maxItems": MAX_SCALES,
        "description": "Scales of the model's LoRA adapters, by the ids of /lora-adapters; adapters not listed get 0",
        "items": {
            "type": "object", "additionalProperties": false, "required": ["id", "scale"],
            "properties": {
                "id": { "type": "integer", "minimum": 0, "maximum": i32::MAX },
                "scale": { "type": "number", "minimum": -1000, "maximum": 1000 }
            }
        }
    })
}
