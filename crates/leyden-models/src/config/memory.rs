//! Memory of a model in addition to its weights, from its configuration alone.

use super::{LayerConfig, ModelConfig};
use crate::error::Error;
use leyden_kernels::attention::{KvLayer, KvShape, KvType};

impl ModelConfig {
    /// Returns the shape of the model's KV cache. If [`needs_whole_texts`](Self::needs_whole_texts), keys and values
    /// are used only within a step. `file` is named in errors.
    ///
    /// # Errors
    /// The head dimension does not fit the storage type, or an encoder's layers have keys and values of different
    /// sizes.
    pub fn kv_shape(&self, file: &str, kv_type: KvType) -> Result<KvShape, Error> {
        // Whole texts need keys and values only within a step and for one layer at a time.
        let whole = self.needs_whole_texts();
        let (layers, kv_type) = match &self.layers[..] {
            [first, ..] if whole => (std::slice::from_ref(first), KvType::F32),
            all => (all, kv_type),
        };
        if let Some(layer) =
            layers.iter().find(|l| kv_type == KvType::Q8_0 && (l.head_dim | l.value_dim) % 32 != 0)
        {
            let (k, v) = (layer.head_dim, layer.value_dim);
            let what = format!("q8_0 keys and values need heads of a multiple of 32 values, not {k} and {v}");
            return Err(Error::invalid(file, "head size", what));
        }
        let kv = |l: &LayerConfig| KvLayer {
            heads: if l.recurrent.is_some() || l.kv_of.is_some() { 0 } else { l.kv_heads },
            key_dim: l.head_dim,
            value_dim: l.value_dim,
            windowed: l.mask.window().is_some() && l.kv_of.is_none(),
            state: l.recurrent.map_or(0, |r| r.state(self.width)),
        };
        let layers: Vec<KvLayer> = layers.iter().map(kv).collect();
        if whole && self.layers.iter().any(|l| kv(l) != layers[0]) {
            let what = "keys and values of different sizes in an encoder's layers are not supported";
            return Err(Error::invalid(file, "layers", what));
        }
        Ok(KvShape { layers, kv_type })
    }

    /// Returns the bytes of the workspace for a step of `tokens` tokens that computes `logits` logits.
    #[must_use]
    pub fn workspace_bytes(&self, tokens: usize, logits: usize) -> usize {
        // Floats per token: the residual stream and its norm; queries, keys, values and the attention output; the two
        // halves of the feed-forward layer; and the packed activations of each. Then the logits.
        let floats =
            |most: &dyn Fn(&LayerConfig) -> usize| self.layers.iter().map(most).max().unwrap_or_default();
        let (heads, ffn) = (floats(&|l| l.heads * l.head_dim.max(l.value_dim)), floats(&|l| l.ffn));
        let states = floats(&|l| l.recurrent.map_or(0, |r| r.between(self.width)));
        // A dense layer beside the experts, per-layer embeddings, and AltUp streams with their predictions.
        let dense = floats(&|l| l.dense.map_or(0, |dense| 3 * dense + 2 * self.width));
        let besides = 2 * self.per_layer_input.unwrap_or_default() * self.layers.len();
        let streams = self.altup.map_or(0, |a| (2 * a.streams + 1) * self.width);
        let all = 4 * self.width + 4 * heads + 3 * ffn + states + dense + besides + streams;
        4 * (tokens * all + logits)
    }
}
