//! Recurrent layers, with a state of constant size per sequence: their parameters, and how they are read.

use super::checks::MAX_SIZE;
use super::reader::{Field, Reader, WIDTH, field};
use crate::error::Error;

/// Maximum head dimension of a DeltaNet, whose state has `key_dim * value_dim` values per head.
const MAX_HEAD_DIM: usize = 256;

/// Recurrent layer in place of attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RecurrentConfig {
    /// Gated short convolution over the last tokens of each channel (LFM2).
    ShortConv {
        /// Kernel size in tokens.
        taps: usize,
    },
    /// Gated DeltaNet (Yang et al., 2024), after a short convolution.
    DeltaNet(DeltaNetConfig),
    /// State-space model of Mamba 2 (Dao and Gu, 2024), after a short convolution.
    Mamba2(Mamba2Config),
}

impl RecurrentConfig {
    /// Returns the number of values in the state per sequence, for this hidden size.
    pub(crate) fn state(self, width: usize) -> usize {
        match self {
            RecurrentConfig::ShortConv { taps } => (taps - 1) * width,
            RecurrentConfig::DeltaNet(net) => {
                (net.taps - 1) * net.channels() + net.heads * net.key_dim * net.value_dim
            }
            RecurrentConfig::Mamba2(net) => (net.taps - 1) * net.channels() + net.inner() * net.state,
        }
    }

    /// Returns the number of intermediate values per token between the layer's matrices, for this hidden size.
    pub(crate) fn between(self, width: usize) -> usize {
        match self {
            RecurrentConfig::ShortConv { .. } => 4 * width,
            RecurrentConfig::DeltaNet(net) => net.channels() + 2 * net.heads * (net.value_dim + 1),
            RecurrentConfig::Mamba2(net) => net.channels() + 2 * net.inner() + net.heads,
        }
    }
}

/// Sizes of a Gated DeltaNet layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaNetConfig {
    /// Kernel size of the convolution in tokens.
    pub taps: usize,
    /// Number of value heads.
    pub heads: usize,
    /// Number of query and key heads; divides `heads`.
    pub key_heads: usize,
    /// Head dimension of queries and keys.
    pub key_dim: usize,
    /// Head dimension of values.
    pub value_dim: usize,
    /// True if value head `h` uses key head `h % key_heads`; false for `h / (heads / key_heads)`.
    pub round_robin: bool,
}

impl DeltaNetConfig {
    /// Returns the number of channels of the convolution: all queries, keys and values of a token.
    pub(crate) fn channels(self) -> usize {
        2 * self.key_heads * self.key_dim + self.heads * self.value_dim
    }
}

/// Sizes of a Mamba 2 layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mamba2Config {
    /// Kernel size of the convolution in tokens.
    pub taps: usize,
    /// Number of heads.
    pub heads: usize,
    /// Head dimension.
    pub head_dim: usize,
    /// State size per channel of a head.
    pub state: usize,
    /// Number of groups of heads that share the state's input and output vectors (B and C) and are normalised
    /// together.
    pub groups: usize,
    /// Limits of the time step.
    pub step_limits: (f32, f32),
}

impl Mamba2Config {
    /// Returns the number of channels of all heads.
    pub(crate) fn inner(self) -> usize {
        self.heads * self.head_dim
    }

    /// Returns the number of channels of the convolution.
    pub(crate) fn channels(self) -> usize {
        self.inner() + 2 * self.groups * self.state
    }
}

const MAMBA2_TAPS: Field = field("ssm.conv_kernel", "mamba_d_conv");
const MAMBA2_HEADS: Field = field("ssm.time_step_rank", "mamba_n_heads");
const MAMBA2_STATE: Field = field("ssm.state_size", "mamba_d_state");
const MAMBA2_GROUPS: Field = field("ssm.group_count", "mamba_n_groups");
const MAMBA2_INNER: Field = field("ssm.inner_size", "mamba_expand");
const MAMBA2_HEAD_DIM: Field = field("", "mamba_d_head");
const MAMBA2_LIMITS: Field = field("", "time_step_limit");

impl Reader<'_> {
    /// Reads the sizes of Mamba 2 layers.
    pub(crate) fn mamba2(&self) -> Result<Mamba2Config, Error> {
        let taps = self.taps(MAMBA2_TAPS)?;
        let (heads, state, groups) =
            (self.size(MAMBA2_HEADS)?, self.size(MAMBA2_STATE)?, self.size(MAMBA2_GROUPS)?);
        let inner = match self {
            Reader::Gguf(..) => self.size(MAMBA2_INNER)?,
            Reader::Hf(..) => self.size(MAMBA2_INNER)?.saturating_mul(self.size(WIDTH)?),
        };
        if !inner.is_multiple_of(heads) || !heads.is_multiple_of(groups) {
            let what = format!("{heads} heads in {groups} groups do not divide {inner} values");
            return Err(self.invalid(MAMBA2_HEADS, what));
        }
        let head_dim = inner / heads;
        if let Reader::Hf(hf, _) = self
            && let Some(key) = self.key(MAMBA2_HEAD_DIM)
            && let Some(said) = hf.json().get(&key).and_then(serde_json::Value::as_u64)
            && said != head_dim as u64
        {
            return Err(
                self.invalid(MAMBA2_HEAD_DIM, format!("{said} is not {inner} / {heads} = {head_dim}"))
            );
        }
        if !state.is_multiple_of(16) {
            return Err(self.invalid(MAMBA2_STATE, format!("{state} is not a multiple of 16")));
        }
        let net = Mamba2Config { taps, heads, head_dim, state, groups, step_limits: self.step_limits()? };
        // Products of these sizes are the sizes of matrices.
        let most = MAX_SIZE as usize;
        if groups.saturating_mul(state) > most
            || inner > most
            || net.inner().saturating_mul(state) > most << 4
        {
            return Err(
                self.invalid(MAMBA2_STATE, format!("{heads} heads of {head_dim} by {state} are too many"))
            );
        }
        Ok(net)
    }

    /// Reads the limits of the time step, of which the upper may be infinite.
    fn step_limits(&self) -> Result<(f32, f32), Error> {
        let none = (0.0, f32::INFINITY);
        let (Reader::Hf(hf, _), Some(key)) = (self, self.key(MAMBA2_LIMITS)) else { return Ok(none) };
        let Some(value) = hf.json().get(&key) else { return Ok(none) };
        let wrong = || self.invalid(MAMBA2_LIMITS, "is not a pair of ascending numbers");
        let number = |value: &serde_json::Value| {
            // transformers writes numbers that JSON lacks in this form.
            let infinite = value.get("__float__").unwrap_or(value).as_str() == Some("Infinity");
            if infinite { Some(f32::INFINITY) } else { value.as_f64().map(|x| x as f32) }
        };
        match value.as_array().map(|pair| pair.iter().map(number).collect::<Option<Vec<f32>>>()) {
            Some(Some(pair)) if pair.len() == 2 && 0.0 <= pair[0] && pair[0] <= pair[1] => {
                Ok((pair[0], pair[1]))
            }
            _ => Err(wrong()),
        }
    }
}

const TAPS: Field = field("ssm.conv_kernel", "linear_conv_kernel_dim");
const KEY_DIM: Field = field("ssm.state_size", "linear_key_head_dim");
const KEY_HEADS: Field = field("ssm.group_count", "linear_num_key_heads");
const HEADS: Field = field("ssm.time_step_rank", "linear_num_value_heads");
const VALUES: Field = field("ssm.inner_size", "linear_value_head_dim");

impl Reader<'_> {
    /// Reads the sizes of Gated DeltaNet layers. `round_robin` is [`DeltaNetConfig::round_robin`].
    pub(crate) fn delta_net(&self, round_robin: bool) -> Result<DeltaNetConfig, Error> {
        let taps = self.taps(TAPS)?;
        let (heads, key_heads, key_dim) = (self.size(HEADS)?, self.size(KEY_HEADS)?, self.size(KEY_DIM)?);
        let values = self.size(VALUES)?;
        let together = matches!(self, Reader::Gguf(..));
        let value_dim = if together { values / heads } else { values };
        if !heads.is_multiple_of(key_heads) || (together && !values.is_multiple_of(heads)) || value_dim == 0 {
            return Err(self.invalid(HEADS, format!("{heads} heads of values with {key_heads} of keys")));
        }
        if key_dim.max(value_dim) > MAX_HEAD_DIM {
            let what =
                format!("heads of {key_dim} and {value_dim} values; at most {MAX_HEAD_DIM} are supported");
            return Err(self.invalid(KEY_DIM, what));
        }
        let most = MAX_SIZE as usize;
        if [heads * value_dim, key_heads * key_dim].iter().any(|n| *n > most) {
            return Err(self.invalid(HEADS, format!("{heads} heads of {value_dim} are too many")));
        }
        Ok(DeltaNetConfig { taps, heads, key_heads, key_dim, value_dim, round_robin })
    }
}
