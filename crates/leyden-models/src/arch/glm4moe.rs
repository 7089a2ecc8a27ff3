//! GLM-4.5 to 4.7 (Zhipu AI, 2025): RoPE on half of each head; mixtures after leading dense layers, with sigmoid
//! gating, a bias that balances the choice of experts, and a shared expert.

use super::{ATTENTION, Architecture, Conversion, DECODER, EXPERTS, HfClass};
use crate::config::{ModelConfig, QkNorm, Reader};
use crate::error::Error;
use leyden_kernels::gemm::GatingFunction;
use leyden_kernels::ops::RopePairs;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "glm4moe",
    models: "GLM-4.5, GLM-4.5-Air, GLM-4.6, GLM-4.7",
    config,
    conversion: Conversion::Both,
    own_keys: &[
        "expert_gating_func",
        "expert_group_count",
        "expert_group_used_count",
        "expert_shared_count",
        "expert_weights_norm",
        "expert_weights_scale",
        "n_group",
        "n_shared_experts",
        "nextn_predict_layers",
        "num_mtp_layers",
        "num_nextn_predict_layers",
        "routed_scaling_factor",
        "topk_group",
        "use_qk_norm",
    ],
    hf: &[HfClass {
        model_type: "glm4_moe",
        classes: &["Glm4MoeForCausalLM"],
        aliases: &[("num_experts", "num_local_experts"), ("num_nextn_predict_layers", "num_mtp_layers")],
        keys: &[("num_experts", "n_routed_experts")],
        biases: |config| {
            Ok(if config.flag("attention_bias")? { ATTENTION[..3].to_vec() } else { Vec::new() })
        },
        stacks: EXPERTS,
        written: &[
            ("ffn_gate_shexp", "mlp.shared_experts.gate_proj"),
            ("ffn_up_shexp", "mlp.shared_experts.up_proj"),
            ("ffn_down_shexp", "mlp.shared_experts.down_proj"),
        ],
        in_gguf: &[("ffn_norm", "post_attention_norm")],
        ..DECODER
    }],
};

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let mut experts = r.experts(true)?;
    let width = r.expert_ffn(experts.used)?;
    if r.sigmoid_gating(true)? {
        (experts.gating, experts.correction) = (GatingFunction::Sigmoid, true);
    }
    r.routing(&mut experts, true)?;
    r.shared_experts(&mut experts, width)?;
    let qk_norm = match r {
        Reader::Gguf(..) => QkNorm::HeadIfThere,
        Reader::Hf(config, _) if config.flag("use_qk_norm")? => QkNorm::Head,
        Reader::Hf(..) => QkNorm::None,
    };
    let config = r.with_partial_rotation(0.5).mixture(RopePairs::Halves, experts, width)?;
    Ok(config.each(|_, layer| layer.qk_norm = qk_norm))
}
