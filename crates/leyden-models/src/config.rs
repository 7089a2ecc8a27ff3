//! The decoder's parameters, and the checks that hold for every architecture.

use crate::error::Error;
use leyden_kernels::attention::MAX_HEAD_DIM;
use leyden_kernels::ops::RopePairs;
use leyden_tensor::{Escaped, Metadata};

/// Sizes and options of a decoder-only transformer.
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderConfig {
    /// The architecture's name in the file.
    pub architecture: &'static str,
    /// Transformer blocks.
    pub layers: usize,
    /// Width of the residual stream.
    pub width: usize,
    /// Query heads.
    pub heads: usize,
    /// Key-value heads; divides `heads`.
    pub kv_heads: usize,
    /// Values per head.
    pub head_dim: usize,
    /// Width of the feed-forward layer.
    pub ffn: usize,
    /// Longest sequence the model was made for, in tokens.
    pub context: usize,
    /// Added to the mean square in normalisations.
    pub norm_eps: f32,
    /// Whether every head of queries and keys is normalised before it turns.
    pub head_norm: bool,
    /// Position embedding.
    pub rope: RopeConfig,
}

/// Rotary position embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeConfig {
    /// Which values form a pair.
    pub pairs: RopePairs,
    /// Leading values of a head that turn; even.
    pub dims: usize,
    /// Base of the geometric series of frequencies.
    pub base: f32,
    /// How longer contexts than the original are reached.
    pub scaling: RopeScaling,
}

/// Scaling of rotary frequencies. Llama 3's own scaling comes as divisors in the tensor `rope_freqs.weight`.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// None.
    None,
    /// All frequencies divided by a factor.
    Linear {
        /// The factor.
        factor: f32,
    },
    /// YaRN (Peng et al., 2023): low frequencies divided, high ones kept, a ramp between, and a temperature.
    Yarn {
        /// The factor.
        factor: f32,
        /// The context length before scaling, in tokens.
        original_context: usize,
    },
}

/// Bounds that keep arithmetic on sizes far from overflow. No published model comes near them.
const MAX_LAYERS: u32 = 4096;
const MAX_SIZE: u32 = 1 << 24;

/// Reads sizes of one architecture from a file's metadata.
pub(crate) struct Reader<'a> {
    pub(crate) meta: &'a Metadata,
    pub(crate) prefix: &'static str,
}

impl Reader<'_> {
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    pub(crate) fn invalid(&self, name: &str, what: impl Into<String>) -> Error {
        Error::invalid(self.meta.file(), &self.key(name), what)
    }

    fn bounded(&self, name: &str, value: u32, max: u32) -> Result<usize, Error> {
        if value == 0 || value > max {
            return Err(self.invalid(name, format!("{value} is not between 1 and {max}")));
        }
        Ok(value as usize)
    }

    /// A required size.
    pub(crate) fn size(&self, name: &str) -> Result<usize, Error> {
        let max = if name == "block_count" { MAX_LAYERS } else { MAX_SIZE };
        self.bounded(name, self.meta.u32(&self.key(name))?, max)
    }

    /// An optional size.
    pub(crate) fn opt_size(&self, name: &str) -> Result<Option<usize>, Error> {
        match self.meta.opt_u32(&self.key(name))? {
            Some(v) => self.bounded(name, v, MAX_SIZE).map(Some),
            None => Ok(None),
        }
    }

    /// An optional positive, finite number.
    pub(crate) fn opt_positive(&self, name: &str) -> Result<Option<f32>, Error> {
        match self.meta.opt_f32(&self.key(name))? {
            Some(v) if v.is_finite() && v > 0.0 => Ok(Some(v)),
            Some(v) => Err(self.invalid(name, format!("{v} is not a positive number"))),
            None => Ok(None),
        }
    }

    /// The keys all architectures share: sizes, heads, normalisation and rotation.
    pub(crate) fn decoder(&self, pairs: RopePairs) -> Result<DecoderConfig, Error> {
        let width = self.size("embedding_length")?;
        let heads = self.size("attention.head_count")?;
        let kv_heads = self.opt_size("attention.head_count_kv")?.unwrap_or(heads);
        if !heads.is_multiple_of(kv_heads) {
            let what = format!("{kv_heads} does not divide attention.head_count {heads}");
            return Err(self.invalid("attention.head_count_kv", what));
        }
        let (head_dim, head_dim_key) = match self.opt_size("attention.key_length")? {
            Some(d) => (d, "attention.key_length"),
            None if width.is_multiple_of(heads) => (width / heads, "attention.head_count"),
            None => {
                let what = format!("{heads} does not divide embedding_length {width}");
                return Err(self.invalid("attention.head_count", what));
            }
        };
        if let Some(v) = self.opt_size("attention.value_length")?
            && v != head_dim
        {
            let what = format!("{v} differs from the key length {head_dim}, which is not supported");
            return Err(self.invalid("attention.value_length", what));
        }
        if !head_dim.is_multiple_of(16) || head_dim > MAX_HEAD_DIM {
            let what =
                format!("heads of {head_dim} values; supported are multiples of 16 up to {MAX_HEAD_DIM}");
            return Err(self.invalid(head_dim_key, what));
        }
        if heads.checked_mul(head_dim).is_none_or(|w| w > MAX_SIZE as usize) {
            return Err(
                self.invalid("attention.head_count", format!("{heads} heads of {head_dim} are too many"))
            );
        }
        let dims = self.opt_size("rope.dimension_count")?.unwrap_or(head_dim);
        if dims > head_dim || !dims.is_multiple_of(2) {
            let what = format!("{dims} is not an even number up to the head size {head_dim}");
            return Err(self.invalid("rope.dimension_count", what));
        }
        let eps = "attention.layer_norm_rms_epsilon";
        let norm_eps =
            self.opt_positive(eps)?.ok_or_else(|| self.invalid(eps, "is missing and has no default"))?;
        Ok(DecoderConfig {
            architecture: self.prefix,
            layers: self.size("block_count")?,
            width,
            heads,
            kv_heads,
            head_dim,
            ffn: self.size("feed_forward_length")?,
            context: self.size("context_length")?,
            norm_eps,
            head_norm: false,
            rope: RopeConfig {
                pairs,
                dims,
                base: self.opt_positive("rope.freq_base")?.unwrap_or(10_000.0),
                scaling: self.rope_scaling()?,
            },
        })
    }

    fn rope_scaling(&self) -> Result<RopeScaling, Error> {
        let key = "rope.scaling.type";
        let factor = match self.opt_positive("rope.scaling.factor")? {
            Some(f) => Some(f),
            None => self.opt_positive("rope.scale_linear")?,
        };
        // Before the type existed a factor alone meant linear scaling.
        match self.meta.opt_str(&self.key(key))? {
            None => Ok(factor.map_or(RopeScaling::None, |factor| RopeScaling::Linear { factor })),
            Some("none") => Ok(RopeScaling::None),
            Some("linear") => Ok(RopeScaling::Linear { factor: factor.unwrap_or(1.0) }),
            Some("yarn") => {
                let original = "rope.scaling.original_context_length";
                let original_context = match self.opt_size(original)? {
                    Some(n) => n,
                    None => self.size("context_length")?,
                };
                Ok(RopeScaling::Yarn { factor: factor.unwrap_or(1.0), original_context })
            }
            Some(other) => {
                let other = Escaped(other);
                Err(self.invalid(key, format!("`{other}` is not supported; supported: none, linear, yarn")))
            }
        }
    }
}
