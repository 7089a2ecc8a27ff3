//! RoPE parameters by layer type: sliding-window layers, and full-attention layers, which may have another head
//! dimension and partial rotation.

use super::reader::{CONTEXT, Field, Reader, field};
use super::{HfConfig, RopeConfig, RopeScaling};
use crate::error::Error;
use leyden_kernels::ops::RopePairs;

const WINDOWED_BASE: Field = field("rope.freq_base_swa", "");
const WINDOWED_ROPE_DIMS: Field = field("rope.dimension_count_swa", "");

/// Defaults of missing keys.
const DEFAULT_WINDOWED_BASE: f32 = 10_000.0;
const DEFAULT_FULL_BASE: f32 = 1_000_000.0;
const DEFAULT_FULL_SHARE: f32 = 0.25;

impl Reader<'_> {
    /// Reads the RoPE parameters of full-attention layers: partial rotation, which GGUF expresses by frequency
    /// divisors.
    pub(crate) fn full_rope(&self, dim: usize) -> Result<RopeConfig, Error> {
        let Reader::Hf(hf, _) = self else {
            return self.rope(RopePairs::Halves, dim, self.size(CONTEXT)?);
        };
        let key = |name: &str| format!("rope_parameters.full_attention.{name}");
        let base = hf.positive(&key("rope_theta"))?.unwrap_or(DEFAULT_FULL_BASE);
        let kind = hf.json().opt_str(&key("rope_type"))?;
        let default = if hf.json().get("rope_parameters").is_some() { 1.0 } else { DEFAULT_FULL_SHARE };
        let share = hf.positive(&key("partial_rotary_factor"))?.unwrap_or(default);
        if share > 1.0 {
            return Err(hf.invalid(&key("partial_rotary_factor"), format!("{share} is more than 1")));
        }
        let scaling = match kind {
            Some("default") => RopeScaling::None,
            None | Some("proportional") => {
                let pairs = (f64::from(share) * dim as f64 / 2.0) as usize;
                RopeScaling::Proportional { pairs, factor: hf.positive(&key("factor"))?.unwrap_or(1.0) }
            }
            Some(_) => {
                return Err(
                    hf.invalid(&key("rope_type"), "is not supported; supported: default, proportional")
                );
            }
        };
        Ok(RopeConfig { pairs: RopePairs::Halves, dims: dim, base, scaling, magnitude: 1.0 })
    }

    /// Reads the RoPE parameters of sliding-window layers.
    pub(crate) fn windowed_rope(&self, dim: usize) -> Result<RopeConfig, Error> {
        let local = |hf: &HfConfig<'_>| hf.local_base("rope_parameters.sliding_attention");
        let base = match self {
            Reader::Hf(hf, _) => local(hf)?,
            Reader::Gguf(..) => self.opt_positive(WINDOWED_BASE)?,
        };
        let dims = self.opt_size(WINDOWED_ROPE_DIMS)?.unwrap_or(dim);
        if dims > dim || !dims.is_multiple_of(2) {
            let what = format!("{dims} is not an even number up to the head size {dim}");
            return Err(self.invalid(WINDOWED_ROPE_DIMS, what));
        }
        let base = base.unwrap_or(DEFAULT_WINDOWED_BASE);
        Ok(RopeConfig {
            pairs: RopePairs::Halves,
            dims,
            base,
            scaling: RopeScaling::Undivided,
            magnitude: 1.0,
        })
    }
}
