//! Last layers that share keys and values with earlier layers.

use super::ModelConfig;
use super::reader::{Field, Reader, field};
use crate::error::Error;

/// Number of last layers without their own keys and values.
const SHARED: Field = field("attention.shared_kv_layers", "num_kv_shared_layers");

impl Reader<'_> {
    /// Reads the number of layers that share others' keys and values, of `layers` in all; `default` if not given.
    pub(crate) fn shared_kv_layers(&self, layers: usize, default: usize) -> Result<usize, Error> {
        let shared = self.opt_u32(SHARED)?.map_or(default, |n| n as usize);
        match shared < layers {
            true => Ok(shared),
            false => Err(self.invalid(SHARED, format!("{shared} of {layers} layers"))),
        }
    }

    /// Returns the model with its last `shared` layers using the keys and values of the last earlier layer of the
    /// same type, with or without a sliding window.
    pub(crate) fn share_kv(&self, mut config: ModelConfig, shared: usize) -> Result<ModelConfig, Error> {
        let first = config.layers.len() - shared;
        for i in first..config.layers.len() {
            let windowed = config.layers[i].mask.window().is_some();
            let of = config.layers[..first].iter().rposition(|l| l.mask.window().is_some() == windowed);
            let Some(of) = of else {
                let what = format!("{shared} layers, and before them none of the kind of layer {i}");
                return Err(self.invalid(SHARED, what));
            };
            config.layers[i].kv_of = Some(of);
        }
        Ok(config)
    }
}
