//! [`Reader`]: parameters of a transformer from GGUF metadata or `config.json`, and the checks that apply to both.
//!
//! A [`Field`] has a key in each format, so that a check is written once and its message names the key in the file.

use super::checks::{MAX_LAYERS, MAX_SIZE};
use super::gguf::{self, Rotation};
use super::hf::HfConfig;
use super::{
    HeadConfig, LayerConfig, ModelConfig, NormConfig, NormKind, NormPlacement, RopeConfig, RopeScaling,
};
use crate::error::Error;
use crate::vector_form::VectorForm;
use leyden_kernels::attention::{MAX_HEAD_DIM, Mask};
use leyden_kernels::ops::{Activation, MAX_TAPS, RopePairs};
use leyden_tensor::{Metadata, Value};

/// Parameter: its key in GGUF without the architecture's name, and its key in `config.json`; empty if there is none.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    gguf: &'static str,
    hf: &'static str,
    /// True if GGUF may have an array with a number for every layer instead.
    per_layer: bool,
}

pub(crate) const fn field(gguf: &'static str, hf: &'static str) -> Field {
    Field { gguf, hf, per_layer: false }
}

pub(super) const fn per_layer(gguf: &'static str, hf: &'static str) -> Field {
    Field { gguf, hf, per_layer: true }
}

pub(super) const LAYERS: Field = field("block_count", "num_hidden_layers");
pub(super) const WIDTH: Field = field("embedding_length", "hidden_size");
pub(crate) const FFN: Field = per_layer("feed_forward_length", "intermediate_size");
pub(super) const CONTEXT: Field = field("context_length", "max_position_embeddings");
pub(super) const HEADS: Field = per_layer("attention.head_count", "num_attention_heads");
pub(crate) const KV_HEADS: Field = per_layer("attention.head_count_kv", "num_key_value_heads");
pub(super) const HEAD_DIM: Field = field("attention.key_length", "head_dim");
pub(super) const VALUE_DIM: Field = field("attention.value_length", "");
pub(super) const ROPE_DIMS: Field = field("rope.dimension_count", "");
pub(crate) const NORM_EPS: Field = field("attention.layer_norm_rms_epsilon", "rms_norm_eps");
pub(super) const LAYER_NORM_EPS: Field = field("attention.layer_norm_epsilon", "layer_norm_eps");
/// Default epsilon of LayerNorm in Hugging Face's encoders, and in their decoders.
const DEFAULT_LAYER_NORM_EPS: f32 = 1e-12;
const DEFAULT_DECODER_EPS: f32 = 1e-5;
/// Number of MTP layers, which in GGUF are included in the number of layers.
const MTP_LAYERS: Field = field("nextn_predict_layers", "num_nextn_predict_layers");

impl Field {
    /// Returns the key in the `config.json` of most classes.
    pub(crate) fn hf(self) -> &'static str {
        self.hf
    }

    #[cfg(test)]
    pub(super) fn keys(self) -> (&'static str, &'static str) {
        (self.gguf, self.hf)
    }
}

/// Reader of the parameters of one architecture.
pub(crate) enum Reader<'a> {
    /// Metadata of a GGUF file, and the architecture's name, which is the prefix of its keys.
    Gguf(&'a Metadata, &'static str),
    /// A `config.json`, and the architecture's name.
    Hf(HfConfig<'a>, &'static str),
}

impl Reader<'_> {
    /// Returns the key for messages that already name the architecture.
    pub(super) fn short(&self, field: Field) -> &'static str {
        match self {
            Reader::Gguf(..) => field.gguf,
            Reader::Hf(config, _) => config.key(field.hf),
        }
    }

    /// Returns the key in the file; `None` if the format has no such parameter.
    pub(crate) fn key(&self, field: Field) -> Option<String> {
        match self {
            Reader::Gguf(_, prefix) => (!field.gguf.is_empty()).then(|| format!("{prefix}.{}", field.gguf)),
            Reader::Hf(config, _) => (!field.hf.is_empty()).then(|| config.key(field.hf).to_owned()),
        }
    }

    fn file(&self) -> &str {
        match self {
            Reader::Gguf(meta, _) => meta.file(),
            Reader::Hf(config, _) => config.json().file(),
        }
    }

    /// Returns the architecture's name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Reader::Gguf(_, name) | Reader::Hf(_, name) => name,
        }
    }

    /// Returns the error for a parameter with an impossible value.
    pub(crate) fn invalid(&self, field: Field, what: impl Into<String>) -> Error {
        Error::invalid(self.file(), &self.key(field).unwrap_or_default(), what)
    }

    /// Reads an optional number.
    pub(crate) fn opt_u32(&self, field: Field) -> Result<Option<u32>, Error> {
        let Some(key) = self.key(field) else { return Ok(None) };
        Ok(match self {
            Reader::Gguf(meta, _) => match meta.get(&key) {
                Some(Value::Array(a)) if field.per_layer => {
                    Some(self.same_in_layers(meta, field, &key, a.len())?)
                }
                _ => meta.opt_u32(&key)?,
            },
            Reader::Hf(config, _) => match config.json().opt_u32(&key)? {
                // `null` means none, without a default.
                None if !config.json().object().contains_key(&key) => config.default(field.hf),
                found => found,
            },
        })
    }

    /// Reads an array with the same number for every layer.
    fn same_in_layers(&self, meta: &Metadata, field: Field, key: &str, found: usize) -> Result<u32, Error> {
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

    /// Reads an optional size for every layer: one number for all, or in GGUF an array.
    fn opt_sizes(&self, field: Field, layers: usize) -> Result<Option<Vec<usize>>, Error> {
        Ok(match self.opt_sizes_or_zero(field, layers)? {
            Some(sizes) if sizes.contains(&0) => {
                return Err(self.invalid(field, format!("0 is not between 1 and {MAX_SIZE}")));
            }
            sizes => sizes,
        })
    }

    /// Reads an optional size for every layer; arrays in GGUF may have zeros for layers without the feature.
    pub(crate) fn opt_sizes_or_zero(&self, field: Field, layers: usize) -> Result<Option<Vec<usize>>, Error> {
        if let (Reader::Gguf(meta, _), Some(key)) = (self, self.key(field))
            && let Some(Value::Array(array)) = meta.get(&key)
        {
            let all = layers + self.mtp_layers()?;
            if array.len() != all {
                return Err(self.invalid(field, format!("{} numbers for {all} layers", array.len())));
            }
            let numbers = meta.opt_array_u32(&key)?.unwrap_or_default();
            return numbers
                .iter()
                .take(layers)
                .map(|n| if *n == 0 { Ok(0) } else { self.bounded(field, *n, MAX_SIZE) })
                .collect::<Result<_, _>>()
                .map(Some);
        }
        if let (Reader::Hf(hf, _), Some(key)) = (self, self.key(field))
            && hf.json().get(&key).is_some_and(serde_json::Value::is_array)
        {
            let numbers = hf.json().opt_u32_or_array(&key)?.unwrap_or_default();
            if numbers.len() != layers {
                return Err(self.invalid(field, format!("{} numbers for {layers} layers", numbers.len())));
            }
            return numbers
                .iter()
                .map(|n| self.bounded(field, *n, MAX_SIZE))
                .collect::<Result<_, _>>()
                .map(Some);
        }
        Ok(self.opt_size(field)?.map(|size| vec![size; layers]))
    }

    /// Reads the number of MTP layers, which are not computed.
    fn mtp_layers(&self) -> Result<usize, Error> {
        Ok(self.opt_u32(MTP_LAYERS)?.map_or(0, |n| n.min(MAX_LAYERS) as usize))
    }

    /// Reads the number of layers without MTP layers.
    pub(super) fn layers(&self) -> Result<usize, Error> {
        let all = self.required(LAYERS, MAX_LAYERS)?;
        match self {
            Reader::Hf(..) => Ok(all),
            Reader::Gguf(..) => match all.checked_sub(self.mtp_layers()?).filter(|n| *n > 0) {
                Some(layers) => Ok(layers),
                None => Err(self.invalid(MTP_LAYERS, format!("not fewer than the {all} layers"))),
            },
        }
    }

    /// Reads a required size for every layer.
    pub(crate) fn each_layer(&self, field: Field) -> Result<Vec<usize>, Error> {
        let layers = self.layers()?;
        match self.opt_sizes(field, layers)? {
            Some(sizes) => Ok(sizes),
            // Returns the error of the missing key.
            None => self.size(field).map(|size| vec![size; layers]),
        }
    }

    pub(crate) fn bounded(&self, field: Field, value: u32, max: u32) -> Result<usize, Error> {
        if value == 0 || value > max {
            return Err(self.invalid(field, format!("{value} is not between 1 and {max}")));
        }
        Ok(value as usize)
    }

    pub(super) fn required(&self, field: Field, max: u32) -> Result<usize, Error> {
        let key = self.key(field).unwrap_or_default();
        let value = match (self.opt_u32(field)?, self) {
            (Some(value), _) => value,
            // Returns the error of the missing key.
            (None, Reader::Gguf(meta, _)) => meta.u32(&key)?,
            (None, Reader::Hf(config, _)) => config.json().u32(&key)?,
        };
        self.bounded(field, value, max)
    }

    /// Reads a required size.
    pub(crate) fn size(&self, field: Field) -> Result<usize, Error> {
        self.required(field, MAX_SIZE)
    }

    /// Reads an optional size.
    pub(crate) fn opt_size(&self, field: Field) -> Result<Option<usize>, Error> {
        self.opt_u32(field)?.map(|v| self.bounded(field, v, MAX_SIZE)).transpose()
    }

    /// Reads the activation of the feed-forward layer; `usual` in GGUF, which does not store it.
    pub(crate) fn activation(&self, usual: Activation) -> Result<Activation, Error> {
        match self {
            Reader::Gguf(..) => Ok(usual),
            Reader::Hf(config, _) => config.activation(),
        }
    }

    /// Returns the reader with partial rotation allowed; `share` is the default fraction of a head's dimensions in a
    /// folder.
    pub(crate) fn with_partial_rotation(&self, share: f32) -> Reader<'_> {
        match self {
            Reader::Gguf(meta, name) => Reader::Gguf(meta, name),
            Reader::Hf(config, name) => Reader::Hf(config.with_partial_rotation(share), name),
        }
    }

    /// Reads an optional flag.
    pub(crate) fn opt_bool(&self, field: Field) -> Result<Option<bool>, Error> {
        let Some(key) = self.key(field) else { return Ok(None) };
        Ok(match self {
            Reader::Gguf(meta, _) => meta.opt_bool(&key)?,
            Reader::Hf(config, _) => config.json().opt_bool(&key)?,
        })
    }

    fn opt_f32(&self, field: Field) -> Result<Option<f32>, Error> {
        let Some(key) = self.key(field) else { return Ok(None) };
        Ok(match self {
            Reader::Gguf(meta, _) => meta.opt_f32(&key)?,
            Reader::Hf(config, _) => config.json().opt_f32(&key)?,
        })
    }

    /// Reads an optional finite number.
    pub(crate) fn opt_number(&self, field: Field) -> Result<Option<f32>, Error> {
        match self.opt_f32(field)? {
            Some(number) if !number.is_finite() => {
                Err(self.invalid(field, format!("{number} is not a number")))
            }
            value => Ok(value),
        }
    }

    /// Reads an optional positive number.
    pub(crate) fn opt_positive(&self, field: Field) -> Result<Option<f32>, Error> {
        match self.opt_f32(field)? {
            Some(number) if !number.is_finite() || number <= 0.0 => {
                Err(self.invalid(field, format!("{number} is not a positive number")))
            }
            value => Ok(value),
        }
    }

    pub(crate) fn norm_eps(&self, field: Field) -> Result<f32, Error> {
        self.opt_positive(field)?.ok_or_else(|| self.invalid(field, "is missing and has no default"))
    }

    /// Reads the kernel size of a short convolution, in tokens.
    pub(crate) fn taps(&self, field: Field) -> Result<usize, Error> {
        let taps = self.size(field)?;
        match taps <= MAX_TAPS {
            true => Ok(taps),
            false => Err(self.invalid(field, format!("{taps} tokens; at most {MAX_TAPS} are supported"))),
        }
    }

    /// Reads the head dimensions of keys and values, in a model whose first layer has `heads` heads.
    fn head_dims(&self, width: usize, heads: usize) -> Result<(usize, usize), Error> {
        let (head_dim, from) = match self.opt_size(HEAD_DIM)? {
            Some(d) => (d, HEAD_DIM),
            None if width.is_multiple_of(heads) => (width / heads, HEADS),
            None => {
                let what = format!("{heads} does not divide {} {width}", self.short(WIDTH));
                return Err(self.invalid(HEADS, what));
            }
        };
        let value_dim = self.opt_size(VALUE_DIM)?;
        self.check_head_size(from, head_dim)?;
        self.check_head_size(VALUE_DIM, value_dim.unwrap_or(head_dim))?;
        Ok((head_dim, value_dim.unwrap_or(head_dim)))
    }

    /// Checks that attention supports a head dimension.
    pub(crate) fn check_head_size(&self, from: Field, dim: usize) -> Result<(), Error> {
        if dim.is_multiple_of(16) && dim <= MAX_HEAD_DIM {
            return Ok(());
        }
        let what = format!("heads of {dim} values; supported are multiples of 16 up to {MAX_HEAD_DIM}");
        Err(self.invalid(from, what))
    }

    /// Reads the parameters that all decoders share, with one feed-forward layer in each block.
    pub(crate) fn decoder(&self, pairs: RopePairs) -> Result<ModelConfig, Error> {
        self.blocks(Some(pairs), self.norm_eps(NORM_EPS)?, &self.each_layer(FFN)?, None)
    }

    fn layer_norm_eps(&self, default: f32) -> Result<f32, Error> {
        match self {
            Reader::Hf(config, _) if config.json().get(config.key(LAYER_NORM_EPS.hf)).is_none() => {
                Ok(default)
            }
            _ => self.norm_eps(LAYER_NORM_EPS),
        }
    }

    /// Reads a decoder as [`decoder`](Self::decoder) does, with LayerNorm of this kind, and RoPE if `pairs` are
    /// given. In a folder that does not say, the feed-forward layer is `times` as wide as the hidden size, unless
    /// `times` is 0.
    pub(crate) fn layer_norm_decoder(
        &self,
        kind: NormKind,
        pairs: Option<RopePairs>,
        times: usize,
    ) -> Result<ModelConfig, Error> {
        let eps = self.layer_norm_eps(DEFAULT_DECODER_EPS)?;
        let layers = self.layers()?;
        let ffn = match self.opt_sizes(FFN, layers)? {
            None if times > 0 && matches!(self, Reader::Hf(..)) => vec![times * self.size(WIDTH)?; layers],
            _ => self.each_layer(FFN)?,
        };
        let mut config = self.blocks(pairs, eps, &ffn, None)?;
        config.norm.kind = kind;
        Ok(config)
    }

    /// Reads an encoder built like the original Transformer: bidirectional attention, LayerNorm after each half of a
    /// block, a feed-forward layer without a gate, and no head.
    pub(crate) fn encoder(&self) -> Result<ModelConfig, Error> {
        self.rotating_encoder(None)
    }

    /// Reads an encoder as [`encoder`](Self::encoder) does, with RoPE if `pairs` are given.
    pub(crate) fn rotating_encoder(&self, pairs: Option<RopePairs>) -> Result<ModelConfig, Error> {
        let eps = self.layer_norm_eps(DEFAULT_LAYER_NORM_EPS)?;
        let config = self.blocks(pairs, eps, &self.each_layer(FFN)?, None)?;
        let mut config = config.each(|_, layer| {
            layer.mask = Mask::Full;
            layer.norms = NormPlacement::Post;
            layer.gated = false;
            layer.activation = Activation::Gelu;
        });
        config.norm.kind = NormKind::Layer;
        config.embedding_norm = true;
        config.head = HeadConfig::States;
        Ok(config)
    }

    /// Reads sizes, heads, normalisation and, if `pairs` are given, RoPE. `ffn` is the width of each layer's
    /// feed-forward layer; `head_dims` are the key and value dimensions, if the usual fields do not give them.
    pub(crate) fn blocks(
        &self,
        pairs: Option<RopePairs>,
        eps: f32,
        ffn: &[usize],
        head_dims: Option<(usize, usize)>,
    ) -> Result<ModelConfig, Error> {
        let width = self.size(WIDTH)?;
        let heads = self.each_layer(HEADS)?;
        let kv_heads = self.opt_sizes_or_zero(KV_HEADS, heads.len())?.unwrap_or_else(|| heads.clone());
        let (head_dim, value_dim) = match head_dims {
            Some(dims) => dims,
            None => self.head_dims(width, heads[0])?,
        };
        for (&heads, kv_heads) in heads.iter().zip(&kv_heads) {
            if *kv_heads > 0 && !heads.is_multiple_of(*kv_heads) {
                let what = format!("{kv_heads} does not divide {} {heads}", self.short(HEADS));
                return Err(self.invalid(KV_HEADS, what));
            }
            if heads.checked_mul(head_dim.max(value_dim)).is_none_or(|w| w > MAX_SIZE as usize) {
                return Err(self.invalid(HEADS, format!("{heads} heads of {head_dim} are too many")));
            }
        }
        let context = self.size(CONTEXT)?;
        let rope = pairs.map(|pairs| self.rope(pairs, head_dim, context)).transpose()?;
        let layer = |i: usize| LayerConfig {
            heads: heads[i],
            kv_heads: kv_heads[i],
            head_dim,
            value_dim,
            attention_scale: 1.0 / (head_dim as f32).sqrt(),
            rope: rope.clone(),
            ffn: ffn[i],
            ..LayerConfig::default()
        };
        self.model(context, eps, (0..heads.len()).map(layer).collect())
    }

    /// Reads a model whose blocks have neither attention nor feed-forward layers.
    pub(crate) fn without_attention(&self) -> Result<ModelConfig, Error> {
        let layers = vec![LayerConfig::default(); self.layers()?];
        self.model(self.size(CONTEXT)?, self.norm_eps(NORM_EPS)?, layers)
    }

    /// Creates a decoder of these blocks.
    fn model(&self, context: usize, eps: f32, layers: Vec<LayerConfig>) -> Result<ModelConfig, Error> {
        let width = self.size(WIDTH)?;
        Ok(ModelConfig {
            architecture: self.name(),
            width,
            context,
            embedding_scale: 1.0,
            learned_positions: None,
            embedding_norm: false,
            embedding_width: None,
            norm: NormConfig { kind: NormKind::Rms, eps, offset: 0.0 },
            head: HeadConfig::Logits,
            logit_scale: 1.0,
            vectors: VectorForm::default(),
            vector_dense: Vec::new(),
            sparse: None,
            token_vectors: None,
            spans: None,
            logit_soft_cap: None,
            per_layer_input: None,
            altup: None,
            mtp_layers: self.mtp_layers()?,
            layers,
        })
    }

    /// Reads the RoPE parameters of heads of `head_dim` dimensions.
    pub(crate) fn rope(
        &self,
        pairs: RopePairs,
        head_dim: usize,
        context: usize,
    ) -> Result<RopeConfig, Error> {
        let dims = match self {
            Reader::Gguf(..) => self.opt_size(ROPE_DIMS)?.unwrap_or(head_dim),
            Reader::Hf(config, _) => config.rotated(head_dim)?,
        };
        if dims > head_dim || !dims.is_multiple_of(2) {
            let what = format!("{dims} is not an even number up to the head size {head_dim}");
            return Err(self.invalid(ROPE_DIMS, what));
        }
        let Rotation { base, scaling, magnitude } = match self {
            Reader::Gguf(meta, prefix) => gguf::rope(meta, prefix, context)?,
            Reader::Hf(config, _) => {
                let (base, scaling) = config.rope(context)?;
                Rotation { base, scaling, magnitude: 1.0 }
            }
        };
        if let RopeScaling::LongRope { divisors, .. } = &scaling {
            // GGUF has them in tensors, whose shapes are checked when they are read.
            let counts = [("short_factor", divisors[0].len()), ("long_factor", divisors[1].len())];
            if let Some((name, n)) = counts.iter().find(|(_, n)| *n != dims / 2)
                && matches!(self, Reader::Hf(..))
            {
                let what = format!("{n} numbers for {} RoPE pairs", dims / 2);
                return Err(Error::invalid(self.file(), name, what));
            }
        }
        Ok(RopeConfig { pairs, dims, base, scaling, magnitude })
    }
}
