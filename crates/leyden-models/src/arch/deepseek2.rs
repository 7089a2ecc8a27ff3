//! DeepSeek V2 and V3 (DeepSeek-AI, 2024): multi-head latent attention, and mixtures with shared experts. V2 has
//! softmax gating; V3, R1 and others have sigmoid gating with a bias that balances the choice of experts, and expert
//! groups.

use super::{Architecture, Conversion, DECODER, EXPERTS, HfClass};
use crate::config::{Field, LatentConfig, ModelConfig, Reader, RopeScaling, field, yarn_attention};
use crate::error::Error;
use leyden_kernels::gemm::GatingFunction;
use leyden_kernels::ops::RopePairs;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "deepseek2",
    models: "DeepSeek-V2-Lite, V2, V2.5, V3, R1, Kimi-K2",
    config,
    conversion: Conversion::None("GGUF has other matrices for latent attention"),
    own_keys: &[
        "attention.key_length_mla",
        "attention.kv_lora_rank",
        "attention.q_lora_rank",
        "attention.value_length_mla",
        "expert_gating_func",
        "expert_group_count",
        "expert_group_used_count",
        "expert_shared_count",
        "expert_weights_norm",
        "expert_weights_scale",
        "kv_lora_rank",
        "n_group",
        "n_shared_experts",
        "nextn_predict_layers",
        "num_mtp_layers",
        "num_nextn_predict_layers",
        "q_lora_rank",
        "qk_nope_head_dim",
        "qk_rope_head_dim",
        "rope_interleave",
        "routed_scaling_factor",
        "scoring_func",
        "topk_group",
        "topk_method",
        "v_head_dim",
    ],
    hf: &[
        HfClass { model_type: "deepseek_v2", classes: &["DeepseekV2ForCausalLM"], ..CLASS },
        HfClass { model_type: "deepseek_v3", classes: &["DeepseekV3ForCausalLM"], ..CLASS },
    ],
};

const CLASS: HfClass = HfClass {
    keys: &[("num_experts", "n_routed_experts")],
    // Keys of V2 and V3.
    aliases: &[
        ("num_experts", "num_experts"),
        ("num_experts", "num_local_experts"),
        ("num_nextn_predict_layers", "num_mtp_layers"),
    ],
    biases: |config| {
        for (key, wanted) in [("attention_bias", false), ("mlp_bias", false), ("rope_interleave", true)] {
            if config.json().opt_bool(key)?.is_some_and(|flag| flag != wanted) {
                return Err(config.invalid(key, format!("only {wanted} is supported")));
            }
        }
        if config.json().opt_u32("moe_layer_freq")?.is_some_and(|n| n != 1) {
            return Err(config.invalid("moe_layer_freq", "only 1 is supported"));
        }
        Ok(Vec::new())
    },
    stacks: EXPERTS,
    ..DECODER
};

const QUERY_RANK: Field = field("attention.q_lora_rank", "q_lora_rank");
const RANK: Field = field("attention.kv_lora_rank", "kv_lora_rank");
const KEY_MLA: Field = field("attention.key_length_mla", "");
const VALUE_MLA: Field = field("attention.value_length_mla", "");
const KEY: Field = field("attention.key_length", "qk_nope_head_dim");
const VALUE: Field = field("attention.value_length", "v_head_dim");
const ROPE_DIM: Field = field("rope.dimension_count", "qk_rope_head_dim");

/// Returns `qk_nope_head_dim`, `qk_rope_head_dim` and `v_head_dim`.
fn head_sizes(r: &Reader<'_>) -> Result<[usize; 3], Error> {
    let qk_rope = r.size(ROPE_DIM)?;
    if !qk_rope.is_multiple_of(2) {
        return Err(r.invalid(ROPE_DIM, format!("{qk_rope} is odd; RoPE rotates values in pairs")));
    }
    if let Reader::Hf(..) = r {
        return Ok([r.size(KEY)?, qk_rope, r.size(VALUE)?]);
    }
    // Files in MLA's compressed form have the compressed sizes under the usual keys.
    let either = |own: Field, usual: Field| match r.opt_u32(own)? {
        None | Some(0) => r.size(usual),
        Some(_) => r.size(own),
    };
    let (whole, value) = (either(KEY_MLA, KEY)?, either(VALUE_MLA, VALUE)?);
    match whole.checked_sub(qk_rope).filter(|qk_nope| *qk_nope > 0) {
        Some(qk_nope) => Ok([qk_nope, qk_rope, value]),
        None => Err(r.invalid(ROPE_DIM, format!("{qk_rope} is not below the head size {whole}"))),
    }
}

/// Returns YaRN's factor on attention scores by `mscale_all_dim`. GGUF stores a tenth of the weight; its files have
/// no factor on cosine and sine.
fn scores_factor(r: &Reader<'_>, config: &mut ModelConfig) -> Result<f64, Error> {
    const LOG_MULTIPLIER: Field = field("rope.scaling.yarn_log_multiplier", "");
    let weight = match r {
        Reader::Gguf(..) => r.opt_positive(LOG_MULTIPLIER)?.map(|w| f64::from(w) * 10.0),
        Reader::Hf(config, _) => {
            let mut found = None;
            for object in ["rope_parameters", "rope_scaling"] {
                found = found.or(config.json().opt_f32(&format!("{object}.mscale_all_dim"))?);
            }
            found.filter(|w| *w != 0.0).map(f64::from)
        }
    };
    let Some(weight) = weight else { return Ok(1.0) };
    let mut factor_of_scores = 1.0;
    for layer in &mut config.layers {
        if let Some(rope) = &mut layer.rope
            && let RopeScaling::Yarn { factor, attention, .. } = &mut rope.scaling
        {
            factor_of_scores = yarn_attention(*factor, weight).powi(2);
            if matches!(r, Reader::Gguf(..)) {
                *attention = 1.0;
            }
        }
    }
    Ok(factor_of_scores)
}

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let mut experts = r.experts(false)?;
    let width = r.expert_ffn(experts.used)?;
    let sigmoid = match r {
        Reader::Gguf(..) => r.sigmoid_gating(false)?,
        Reader::Hf(config, _) => {
            let v3 = config.json().str("model_type")? == "deepseek_v3";
            let name = config.json().opt_str("scoring_func")?;
            if name.is_some_and(|name| name != if v3 { "sigmoid" } else { "softmax" }) {
                return Err(config.invalid("scoring_func", "is not the gating function of this class"));
            }
            v3
        }
    };
    experts.correction = true;
    if sigmoid {
        experts.gating = GatingFunction::Sigmoid;
    }
    r.routing(&mut experts, sigmoid)?;
    r.shared_experts(&mut experts, width)?;
    let [qk_nope, qk_rope, value_dim] = head_sizes(r)?;
    let latent = LatentConfig {
        query_rank: r.opt_u32(QUERY_RANK)?.filter(|n| *n > 0).map(|_| r.size(QUERY_RANK)).transpose()?,
        rank: r.size(RANK)?,
        qk_nope,
        qk_rope,
    };
    let key_dim = qk_nope + qk_rope;
    r.check_head_size(KEY, key_dim)?;
    r.check_head_size(VALUE, value_dim)?;
    let mut config = r.mixture_with(RopePairs::Interleaved, experts, width, Some((key_dim, value_dim)))?;
    let factor = scores_factor(r, &mut config)?;
    Ok(config.each(|_, layer| {
        layer.kv_heads = layer.heads;
        layer.attention_scale = (factor / (key_dim as f64).sqrt()) as f32;
        layer.latent = Some(latent);
        if let Some(rope) = &mut layer.rope {
            rope.dims = qk_rope;
        }
    }))
}
