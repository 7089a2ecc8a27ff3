//! Parameters of mixtures of experts.

use super::checks::MAX_SIZE;
use super::reader::{FFN, Field, NORM_EPS, Reader, field, per_layer};
use super::{ExpertsConfig, ModelConfig, SharedExpert};
use crate::error::Error;
use leyden_kernels::gemm::{ExpertGroups, GatingFunction};
use leyden_kernels::ops::RopePairs;
use leyden_tensor::Value;

const MAX_EXPERTS: u32 = 1 << 16;

/// Number of experts; whether it is required depends on the architecture.
pub(crate) const EXPERTS: Field = field("expert_count", "num_experts");
pub(crate) const EXPERTS_USED: Field = per_layer("expert_used_count", "num_experts_per_tok");
pub(super) const EXPERT_FFN: Field = per_layer("expert_feed_forward_length", "moe_intermediate_size");
pub(super) const DENSE_LAYERS: Field = field("leading_dense_block_count", "first_k_dense_replace");
const GROUPS: Field = field("expert_group_count", "n_group");
const GROUPS_USED: Field = field("expert_group_used_count", "topk_group");
const NORMALISED: Field = field("expert_weights_norm", "norm_topk_prob");
const SCALE: Field = field("expert_weights_scale", "routed_scaling_factor");
const SHARED: Field = field("expert_shared_count", "n_shared_experts");
const GATING: Field = field("expert_gating_func", "");

impl Reader<'_> {
    /// Reads a decoder as [`decoder`](Self::decoder) does, with a mixture of experts of this width in every block
    /// after the leading dense ones.
    pub(crate) fn mixture(
        &self,
        pairs: RopePairs,
        experts: ExpertsConfig,
        width: usize,
    ) -> Result<ModelConfig, Error> {
        self.mixture_with(pairs, experts, width, None)
    }

    /// Reads a decoder as [`mixture`](Self::mixture) does, with these key and value dimensions, if given.
    pub(crate) fn mixture_with(
        &self,
        pairs: RopePairs,
        experts: ExpertsConfig,
        width: usize,
        head_dims: Option<(usize, usize)>,
    ) -> Result<ModelConfig, Error> {
        let layers = self.layers()?;
        let dense = self.opt_u32(DENSE_LAYERS)?.map_or(0, |n| layers.min(n as usize));
        let mut ffn = vec![width; layers];
        if dense > 0 {
            ffn[..dense].copy_from_slice(&self.each_layer(FFN)?[..dense]);
        }
        let config = self.blocks(Some(pairs), self.norm_eps(NORM_EPS)?, &ffn, head_dims)?;
        Ok(config.each(|i, layer| layer.experts = Some(experts).filter(|_| i >= dense)))
    }

    /// Reads the experts of a mixture with softmax gating.
    pub(crate) fn experts(&self, normalise: bool) -> Result<ExpertsConfig, Error> {
        let count = self.required(EXPERTS, MAX_EXPERTS)?;
        let used = self.required(EXPERTS_USED, MAX_EXPERTS)?;
        if used > count {
            let what = format!("{used} of {} {count}", self.short(EXPERTS));
            return Err(self.invalid(EXPERTS_USED, what));
        }
        Ok(ExpertsConfig::softmax(count, used, normalise))
    }

    /// Reads the width of each expert in a mixture that uses `used` experts per token.
    pub(crate) fn expert_ffn(&self, used: usize) -> Result<usize, Error> {
        match (self.opt_size(EXPERT_FFN)?, self) {
            (Some(ffn), _) => Ok(ffn),
            // Older files have the total width of a token's experts.
            (None, Reader::Gguf(..)) => {
                self.bounded(FFN, u32::try_from(self.size(FFN)? / used).unwrap_or(0), MAX_SIZE)
            }
            (None, Reader::Hf(..)) => self.size(EXPERT_FFN),
        }
    }

    /// Reads from GGUF whether gating is by sigmoid instead of softmax; `default` if not given.
    pub(crate) fn sigmoid_gating(&self, default: bool) -> Result<bool, Error> {
        match self.opt_u32(GATING)? {
            None | Some(0) => Ok(default),
            Some(1) => Ok(false),
            Some(2) => Ok(true),
            Some(other) => Err(self.invalid(GATING, format!("{other} is not supported; supported: 1, 2"))),
        }
    }

    /// Reads groups, normalisation and scale of the experts' weights. `normalise` is the default of the
    /// normalisation.
    pub(crate) fn routing(&self, experts: &mut ExpertsConfig, normalise: bool) -> Result<(), Error> {
        let key = self.key(NORMALISED).unwrap_or_default();
        let said = match self {
            Reader::Gguf(meta, _) => match meta.get(&key) {
                Some(Value::Bool(flag)) => Some(*flag),
                _ => None,
            },
            Reader::Hf(config, _) => config.json().opt_bool(&key)?,
        };
        experts.normalise = said.unwrap_or(normalise);
        experts.scale = self.opt_positive(SCALE)?.unwrap_or(1.0);
        let count = self.opt_size(GROUPS)?.unwrap_or(1);
        if count == 1 {
            return Ok(());
        }
        let used = self.opt_size(GROUPS_USED)?.unwrap_or(count);
        let best = if experts.gating == GatingFunction::Sigmoid { 2 } else { 1 };
        let fits = experts.count.is_multiple_of(count)
            && used <= count
            && experts.used <= used * (experts.count / count);
        if !fits {
            let (all, chosen) = (experts.count, experts.used);
            let what = format!("{chosen} of {all} experts in {used} of {count} groups");
            return Err(self.invalid(GROUPS, what));
        }
        experts.groups = Some(ExpertGroups { count, used, best });
        Ok(())
    }

    /// Reads the shared experts, as one of their total width; each is as wide as the routed experts.
    pub(crate) fn shared_experts(&self, experts: &mut ExpertsConfig, width: usize) -> Result<(), Error> {
        let Some(count) = self.opt_u32(SHARED)?.filter(|n| *n > 0) else { return Ok(()) };
        let ffn = u32::try_from(width).unwrap_or(u32::MAX).saturating_mul(count);
        let ffn = self.bounded(SHARED, ffn, MAX_SIZE)?;
        experts.shared = Some(SharedExpert { ffn, gated: false });
        Ok(())
    }
}
