//! [`Reader`]: the parameters of a decoder out of either description, and the checks that hold for both.
//!
//! A [`Field`] has a name in each dialect, so that a check is written once and its message names the key that
//! stands in the file.

use super::gguf::{self, Rotation};
use super::hf::HfConfig;
use super::{DecoderConfig, ExpertsConfig, LayerConfig, NormConfig, NormPlacement, RopeConfig};
use crate::error::Error;
use leyden_kernels::attention::{MAX_HEAD_DIM, Mask};
use leyden_kernels::ops::{Activation, RopePairs};
use leyden_tensor::{Metadata, Value};

/// Bounds that keep arithmetic on sizes far from overflow. No published model comes near them.
const MAX_LAYERS: u32 = 4096;
const MAX_SIZE: u32 = 1 << 24;
const MAX_EXPERTS: u32 = 1 << 16;

/// A parameter: its key in GGUF without the architecture, and that in `config.json`; empty where there is none.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    gguf: &'static str,
    hf: &'static str,
    /// Whether GGUF may have an array instead, with a number for every layer.
    per_layer: bool,
}

pub(crate) const fn field(gguf: &'static str, hf: &'static str) -> Field {
    Field { gguf, hf, per_layer: false }
}

const fn per_layer(gguf: &'static str, hf: &'static str) -> Field {
    Field { gguf, hf, per_layer: true }
}

pub(super) const LAYERS: Field = field("block_count", "num_hidden_layers");
pub(super) const WIDTH: Field = field("embedding_length", "hidden_size");
pub(super) const FFN: Field = per_layer("feed_forward_length", "intermediate_size");
pub(super) const CONTEXT: Field = field("context_length", "max_position_embeddings");
pub(super) const HEADS: Field = per_layer("attention.head_count", "num_attention_heads");
pub(super) const KV_HEADS: Field = per_layer("attention.head_count_kv", "num_key_value_heads");
pub(super) const HEAD_DIM: Field = field("attention.key_length", "head_dim");
const VALUE_DIM: Field = field("attention.value_length", "");
const ROPE_DIMS: Field = field("rope.dimension_count", "");
const NORM_EPS: Field = field("attention.layer_norm_rms_epsilon", "rms_norm_eps");
/// The number of experts; their presence is a matter of the architecture.
pub(crate) const EXPERTS: Field = field("expert_count", "");
const EXPERTS_USED: Field = per_layer("expert_used_count", "");
const EXPERT_FFN: Field = per_layer("expert_feed_forward_length", "");

/// All of them, for the test that compares them with the table of keys.
#[cfg(test)]
pub(super) const FIELDS: [Field; 13] = [
    LAYERS,
    WIDTH,
    FFN,
    CONTEXT,
    HEADS,
    KV_HEADS,
    HEAD_DIM,
    VALUE_DIM,
    ROPE_DIMS,
    NORM_EPS,
    EXPERTS,
    EXPERTS_USED,
    EXPERT_FFN,
];

#[cfg(test)]
impl Field {
    pub(super) fn keys(self) -> (&'static str, &'static str) {
        (self.gguf, self.hf)
    }
}

/// Reads the parameters of one architecture.
pub(crate) enum Reader<'a> {
    /// Metadata of a GGUF file, and the architecture's name, which begins its keys.
    Gguf(&'a Metadata, &'static str),
    /// A `config.json`, and the architecture's name.
    Hf(HfConfig<'a>, &'static str),
}

impl Reader<'_> {
    /// The key as messages that already name the architecture show it.
    fn short(&self, field: Field) -> &'static str {
        match self {
            Reader::Gguf(..) => field.gguf,
            Reader::Hf(..) => field.hf,
        }
    }

    /// The key in the file; none where the dialect has no such parameter.
    fn key(&self, field: Field) -> Option<String> {
        match self {
            Reader::Gguf(_, prefix) => (!field.gguf.is_empty()).then(|| format!("{prefix}.{}", field.gguf)),
            Reader::Hf(..) => (!field.hf.is_empty()).then(|| field.hf.to_owned()),
        }
    }

    fn file(&self) -> &str {
        match self {
            Reader::Gguf(meta, _) => meta.file(),
            Reader::Hf(config, _) => config.json().file(),
        }
    }

    fn architecture(&self) -> &'static str {
        match self {
            Reader::Gguf(_, name) | Reader::Hf(_, name) => name,
        }
    }

    /// The error of a parameter with an impossible value.
    pub(crate) fn invalid(&self, field: Field, what: impl Into<String>) -> Error {
        Error::invalid(self.file(), &self.key(field).unwrap_or_default(), what)
    }

    /// An optional number.
    pub(crate) fn opt_u32(&self, field: Field) -> Result<Option<u32>, Error> {
        let Some(key) = self.key(field) else { return Ok(None) };
        Ok(match self {
            Reader::Gguf(meta, _) => match meta.get(&key) {
                Some(Value::Array(a)) if field.per_layer => {
                    Some(self.of_layers(meta, field, &key, a.len())?)
                }
                _ => meta.opt_u32(&key)?,
            },
            Reader::Hf(config, _) => config.json().opt_u32(&key)?,
        })
    }

    /// The number that an array has for every layer.
    fn of_layers(&self, meta: &Metadata, field: Field, key: &str, found: usize) -> Result<u32, Error> {
        let layers = self.required(LAYERS, MAX_LAYERS)?;
        if found != layers {
            return Err(self.invalid(field, format!("{found} numbers for {layers} layers")));
        }
        let numbers = meta.opt_array_u32(key)?.unwrap_or_default();
        let first = numbers.first().copied().unwrap_or_default();
        match numbers.iter().find(|&&n| n != first) {
            Some(other) => {
                let what = format!("{first} in one layer and {other} in another is not supported");
                Err(self.invalid(field, what))
            }
            None => Ok(first),
        }
    }

    fn bounded(&self, field: Field, value: u32, max: u32) -> Result<usize, Error> {
        if value == 0 || value > max {
            return Err(self.invalid(field, format!("{value} is not between 1 and {max}")));
        }
        Ok(value as usize)
    }

    fn required(&self, field: Field, max: u32) -> Result<usize, Error> {
        let key = self.key(field).unwrap_or_default();
        let value = match (self.opt_u32(field)?, self) {
            (Some(value), _) => value,
            // Says that it is missing.
            (None, Reader::Gguf(meta, _)) => meta.u32(&key)?,
            (None, Reader::Hf(config, _)) => config.json().u32(&key)?,
        };
        self.bounded(field, value, max)
    }

    /// A required size.
    pub(crate) fn size(&self, field: Field) -> Result<usize, Error> {
        self.required(field, MAX_SIZE)
    }

    /// An optional size.
    pub(crate) fn opt_size(&self, field: Field) -> Result<Option<usize>, Error> {
        self.opt_u32(field)?.map(|v| self.bounded(field, v, MAX_SIZE)).transpose()
    }

    /// An optional positive number.
    pub(crate) fn opt_positive(&self, field: Field) -> Result<Option<f32>, Error> {
        let Some(key) = self.key(field) else { return Ok(None) };
        let value = match self {
            Reader::Gguf(meta, _) => meta.opt_f32(&key)?,
            Reader::Hf(config, _) => config.json().opt_f32(&key)?,
        };
        value.map(|v| checked_positive(self.file(), &key, v)).transpose()
    }

    fn norm_eps(&self) -> Result<f32, Error> {
        let key = self.key(NORM_EPS).unwrap_or_default();
        let value = match self {
            Reader::Gguf(meta, _) => meta.opt_f32(&key)?,
            Reader::Hf(config, _) => config.json().opt_f32(&key)?,
        };
        match value {
            Some(v) if v.is_finite() && v > 0.0 => Ok(v),
            Some(v) => Err(self.invalid(NORM_EPS, format!("{v} is not a positive number"))),
            None => Err(self.invalid(NORM_EPS, "is missing and has no default")),
        }
    }

    fn head_dim(&self, width: usize, heads: usize) -> Result<usize, Error> {
        let (head_dim, from) = match self.opt_size(HEAD_DIM)? {
            Some(d) => (d, HEAD_DIM),
            None if width.is_multiple_of(heads) => (width / heads, HEADS),
            None => {
                let what = format!("{heads} does not divide {} {width}", self.short(WIDTH));
                return Err(self.invalid(HEADS, what));
            }
        };
        if let Some(v) = self.opt_size(VALUE_DIM)?
            && v != head_dim
        {
            let what = format!("{v} differs from the key length {head_dim}, which is not supported");
            return Err(self.invalid(VALUE_DIM, what));
        }
        if !head_dim.is_multiple_of(16) || head_dim > MAX_HEAD_DIM {
            let what =
                format!("heads of {head_dim} values; supported are multiples of 16 up to {MAX_HEAD_DIM}");
            return Err(self.invalid(from, what));
        }
        if heads.checked_mul(head_dim).is_none_or(|w| w > MAX_SIZE as usize) {
            return Err(self.invalid(HEADS, format!("{heads} heads of {head_dim} are too many")));
        }
        Ok(head_dim)
    }

    /// What all architectures share, with one feed-forward layer in each block.
    pub(crate) fn decoder(&self, pairs: RopePairs) -> Result<DecoderConfig, Error> {
        self.blocks(pairs, self.size(FFN)?)
    }

    /// As [`decoder`](Self::decoder), with a mixture of experts in each block.
    pub(crate) fn mixture(&self, pairs: RopePairs, normalise: bool) -> Result<DecoderConfig, Error> {
        let count = self.required(EXPERTS, MAX_EXPERTS)?;
        let used = self.required(EXPERTS_USED, MAX_EXPERTS)?;
        if used > count {
            let what = format!("{used} of {} {count}", self.short(EXPERTS));
            return Err(self.invalid(EXPERTS_USED, what));
        }
        let experts = Some(ExpertsConfig { count, used, normalise });
        let ffn = match self.opt_size(EXPERT_FFN)? {
            Some(ffn) => ffn,
            // Older files have the width of all experts of a token together.
            None => self.bounded(FFN, u32::try_from(self.size(FFN)? / used).unwrap_or(0), MAX_SIZE)?,
        };
        Ok(self.blocks(pairs, ffn)?.each(|_, layer| layer.experts = experts))
    }

    /// Sizes, heads, normalisation and rotation. `ffn` is the width of a feed-forward layer.
    fn blocks(&self, pairs: RopePairs, ffn: usize) -> Result<DecoderConfig, Error> {
        let width = self.size(WIDTH)?;
        let heads = self.size(HEADS)?;
        let kv_heads = self.opt_size(KV_HEADS)?.unwrap_or(heads);
        if !heads.is_multiple_of(kv_heads) {
            let what = format!("{kv_heads} does not divide {} {heads}", self.short(HEADS));
            return Err(self.invalid(KV_HEADS, what));
        }
        let head_dim = self.head_dim(width, heads)?;
        let dims = self.opt_size(ROPE_DIMS)?.unwrap_or(head_dim);
        if dims > head_dim || !dims.is_multiple_of(2) {
            let what = format!("{dims} is not an even number up to the head size {head_dim}");
            return Err(self.invalid(ROPE_DIMS, what));
        }
        let eps = self.norm_eps()?;
        let layers = self.required(LAYERS, MAX_LAYERS)?;
        let context = self.size(CONTEXT)?;
        let Rotation { base, scaling, magnitude } = match self {
            Reader::Gguf(meta, prefix) => gguf::rope(meta, prefix, context)?,
            Reader::Hf(config, _) => {
                let (base, scaling) = config.rope(context)?;
                Rotation { base, scaling, magnitude: 1.0 }
            }
        };
        let layer = LayerConfig {
            heads,
            kv_heads,
            head_dim,
            mask: Mask::Causal,
            attention_scale: 1.0 / (head_dim as f32).sqrt(),
            attention_soft_cap: None,
            rope: RopeConfig { pairs, dims, base, scaling, magnitude },
            head_norm: false,
            norms: NormPlacement::Pre,
            ffn,
            activation: Activation::Silu,
            experts: None,
        };
        Ok(DecoderConfig {
            architecture: self.architecture(),
            width,
            context,
            embedding_scale: 1.0,
            norm: NormConfig { eps, offset: 0.0 },
            logit_soft_cap: None,
            layers: vec![layer; layers],
        })
    }
}

/// A size under a key of its own, between 1 and the most that is believed.
pub(super) fn checked_size(file: &str, key: &str, value: u32) -> Result<usize, Error> {
    if value == 0 || value > MAX_SIZE {
        return Err(Error::invalid(file, key, format!("{value} is not between 1 and {MAX_SIZE}")));
    }
    Ok(value as usize)
}

/// A positive, finite number under a key of its own.
pub(super) fn checked_positive(file: &str, key: &str, value: f32) -> Result<f32, Error> {
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    Err(Error::invalid(file, key, format!("{value} is not a positive number")))
}
