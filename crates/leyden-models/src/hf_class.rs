//! Model classes of Hugging Face's libraries: their `config.json` and tensor names.

use crate::config::{HfConfig, KeyNames};
use crate::error::Error;
use crate::stored::Stored;
use leyden_kernels::ops::Activation;
use leyden_tensor::{Escaped, HfQuantised, Json, StackRows};

/// Model class of Hugging Face's libraries that an architecture supports.
#[derive(Debug)]
pub(crate) struct HfClass {
    /// Value of `model_type`.
    pub(crate) model_type: &'static str,
    /// Returns whether a `config.json` is of this class; distinguishes classes with the same `model_type`.
    pub(crate) when: fn(&Json) -> bool,
    /// Supported values of `architectures`; for a decoder, the class with a language-model head.
    pub(crate) classes: &'static [&'static str],
    /// Renamed keys of `config.json`: the usual name, and the class's name.
    pub(crate) keys: &'static [(&'static str, &'static str)],
    /// Aliases of keys, as written by other releases of transformers: the usual name, and the alias.
    pub(crate) aliases: &'static [(&'static str, &'static str)],
    /// Default values of missing keys, by the usual name of the key.
    pub(crate) defaults: &'static [(&'static str, u32)],
    /// Default of `tie_word_embeddings`.
    pub(crate) tied: bool,
    /// Supported activations of the feed-forward layer by name; the first is the default.
    pub(crate) activations: &'static [(&'static str, Activation)],
    /// Function that refuses options which change the result, and returns the GGUF names of the matrices and norms
    /// that have biases.
    pub(crate) biases: fn(&HfConfig<'_>) -> Result<Vec<&'static str>, Error>,
    /// Backbone prefix (transformers' `base_model_prefix`): prefix of all tensor names but the head's. Models that were
    /// saved without a head lack it.
    pub(crate) prefix: &'static str,
    /// Part of a layer's tensor names between the prefix and the layer's number.
    pub(crate) layers: &'static str,
    /// Tensor names: GGUF's name and the class's name after the prefix, for tensors of a layer without its number. Of
    /// several rows for one GGUF name, the first that the checkpoint has is used.
    pub(crate) tensors: &'static [(&'static str, &'static str)],
    /// GGUF names by which llama.cpp's files differ from `tensors`: the name in `tensors`, and llama.cpp's name.
    pub(crate) in_gguf: &'static [(&'static str, &'static str)],
    /// Names that are written where `tensors` has several for one GGUF name: GGUF's name, and the class's name.
    pub(crate) written: &'static [(&'static str, &'static str)],
    /// Tensor names of the head, which have no prefix: GGUF's name, and the class's name. They take precedence over
    /// `tensors`.
    pub(crate) head: &'static [(&'static str, &'static str)],
    /// Layout of the matrices.
    pub(crate) stored: Stored,
    /// True if GGUF files have the rows of Q and K permuted such that the two values of a RoPE pair are adjacent.
    pub(crate) interleaved: bool,
    /// Expert stacks of a layer: GGUF's name, and the source of its matrices.
    pub(crate) stacks: &'static [(&'static str, Stack)],
    /// Additional supported values of `quantization_config.quant_method`.
    pub(crate) quantised: &'static [&'static str],
    /// Prefixes of tensor names, after `prefix` or within a layer, whose tensors may be present but are not used.
    pub(crate) unused: &'static [&'static str],
}

impl HfClass {
    /// Returns the configuration in a `config.json` of this class.
    pub(crate) fn config<'a>(&self, json: &'a Json) -> HfConfig<'a> {
        let &HfClass { keys, aliases, defaults, activations, .. } = self;
        HfConfig::new(json, KeyNames { keys, aliases, defaults, activations })
    }

    /// Checks that a configuration is of this class, with weights quantised in a supported way.
    ///
    /// # Errors
    /// `architectures` names another class, the model takes more than text, or its quantisation is not supported.
    pub(crate) fn check(&self, config: &HfConfig<'_>) -> Result<(), Error> {
        config.check_aliases()?;
        let (json, classes) = (config.json(), self.classes);
        if let Some(found) = json.opt_array_str("architectures")?
            && !classes.iter().any(|class| found.contains(class))
            && !found.iter().any(|name| self.has_body(name))
        {
            let (found, known) = (found.join(", "), classes.join(" or "));
            let what = format!("{} is not supported; this type of model as {known} is", Escaped(&found));
            return Err(config.invalid("architectures", what));
        }
        if json.get("text_config").is_some() {
            let what = "a model of text and other media, which is not supported";
            return Err(config.invalid("text_config", what));
        }
        if json.get("quantization_config").is_some() {
            let method = "quantization_config.quant_method";
            let found = json.opt_str(method)?;
            if found.is_some_and(|name| self.quantised.contains(&name)) || HfQuantised::of(json)?.is_some() {
                return config.activation().map(|_| ());
            }
            let (key, name) = match found {
                Some(name) => (method, format!("weights quantised by {}", Escaped(name))),
                None => ("quantization_config", "quantised weights".to_owned()),
            };
            let methods = HfQuantised::METHODS.join(", ");
            let what = format!("{name} are not supported; supported: F32, F16, BF16, {methods}");
            return Err(config.invalid(key, what));
        }
        config.activation()?;
        Ok(())
    }

    /// Returns whether the classes that a configuration names are headless bodies of this class, and none is a
    /// supported class.
    pub(crate) fn is_body(&self, named: &[&str]) -> bool {
        !self.classes.iter().any(|class| named.contains(class))
            && named.iter().any(|name| self.has_body(name))
    }

    /// Returns whether a class is the headless body of a supported class: `Qwen3Model` of `Qwen3ForCausalLM`,
    /// `Gemma3TextModel` of `Gemma3ForCausalLM`.
    pub(crate) fn has_body(&self, name: &str) -> bool {
        let stems = self.classes.iter().filter_map(|class| {
            class.strip_suffix("ForCausalLM").or_else(|| class.strip_suffix("LMHeadModel"))
        });
        let rest = |stem: &str| name.strip_prefix(stem).map(str::to_owned);
        stems.filter_map(rest).any(|rest| rest == "Model" || rest == "TextModel")
    }
}

/// Source of the matrices of all experts of a layer. Names follow that of the layer.
#[derive(Debug)]
pub(crate) enum Stack {
    /// One tensor per expert, with the expert's number in place of `{}`.
    Each(&'static str),
    /// The given rows of one tensor for all experts, as in [`Stacked`](leyden_tensor::Stacked).
    Rows(&'static str, StackRows),
    /// The given rows of one transposed tensor for all experts, or of one in MXFP4.
    Columns(&'static str, StackRows),
}

/// Defaults common to nearly all decoders.
pub(crate) const DECODER: HfClass = HfClass {
    model_type: "",
    when: |_| true,
    classes: &[],
    keys: &[],
    aliases: &[],
    defaults: &[],
    tied: false,
    activations: &[("silu", Activation::Silu), ("swish", Activation::Silu)],
    biases: |_| Ok(Vec::new()),
    prefix: "model.",
    layers: "layers",
    tensors: DECODER_TENSORS,
    in_gguf: &[],
    written: &[],
    head: &[("output", "lm_head")],
    stored: Stored::AS_GGUF,
    interleaved: false,
    stacks: &[],
    quantised: &[],
    unused: &[],
};

/// Tensor names of nearly all decoders in Hugging Face's libraries: GGUF's name, and the library's.
pub(crate) const DECODER_TENSORS: &[(&str, &str)] = &[
    ("token_embd", "embed_tokens"),
    ("output_norm", "norm"),
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
    // Mixtures of experts, and multi-head latent attention (MLA).
    ("attn_sinks.weight", "self_attn.sinks"),
    ("ffn_gate_inp", "mlp.gate"),
    ("ffn_gate_inp", "mlp.router"),
    ("ffn_gate_inp", "block_sparse_moe.gate"),
    ("exp_probs_b.bias", "mlp.gate.e_score_correction_bias"),
    ("ffn_gate_inp_shexp", "mlp.shared_expert_gate"),
    ("ffn_gate_shexp", "mlp.shared_expert.gate_proj"),
    ("ffn_up_shexp", "mlp.shared_expert.up_proj"),
    ("ffn_down_shexp", "mlp.shared_expert.down_proj"),
    ("ffn_gate_shexp", "mlp.shared_experts.gate_proj"),
    ("ffn_up_shexp", "mlp.shared_experts.up_proj"),
    ("ffn_down_shexp", "mlp.shared_experts.down_proj"),
    ("attn_q_a", "self_attn.q_a_proj"),
    ("attn_q_a_norm", "self_attn.q_a_layernorm"),
    ("attn_q_b", "self_attn.q_b_proj"),
    ("attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"),
    ("attn_kv_a_norm", "self_attn.kv_a_layernorm"),
    ("attn_kv_b", "self_attn.kv_b_proj"),
    // Gated DeltaNet.
    ("attn_qkv", "linear_attn.in_proj_qkv"),
    ("attn_gate", "linear_attn.in_proj_z"),
    ("ssm_in", "linear_attn.in_proj_qkvz"),
    ("ssm_ba", "linear_attn.in_proj_ba"),
    ("ssm_beta", "linear_attn.in_proj_b"),
    ("ssm_alpha", "linear_attn.in_proj_a"),
    ("ssm_conv1d", "linear_attn.conv1d"),
    ("ssm_dt.bias", "linear_attn.dt_bias"),
    ("ssm_a_log", "linear_attn.A_log"),
    ("ssm_norm", "linear_attn.norm"),
    ("ssm_out", "linear_attn.out_proj"),
];

/// Tensor names of experts in most mixtures.
pub(crate) const EXPERTS: &[(&str, Stack)] = &[
    ("ffn_gate_exps.weight", Stack::Each("mlp.experts.{}.gate_proj.weight")),
    ("ffn_up_exps.weight", Stack::Each("mlp.experts.{}.up_proj.weight")),
    ("ffn_down_exps.weight", Stack::Each("mlp.experts.{}.down_proj.weight")),
];

/// Tensor names of experts in Mixtral.
pub(crate) const MIXTRAL_EXPERTS: &[(&str, Stack)] = &[
    ("ffn_gate_exps.weight", Stack::Each("block_sparse_moe.experts.{}.w1.weight")),
    ("ffn_up_exps.weight", Stack::Each("block_sparse_moe.experts.{}.w3.weight")),
    ("ffn_down_exps.weight", Stack::Each("block_sparse_moe.experts.{}.w2.weight")),
];

/// Matrices of attention and of the feed-forward layer, for flags that add biases to all of them.
pub(crate) const ATTENTION: [&str; 4] = ["attn_q", "attn_k", "attn_v", "attn_output"];
pub(crate) const FFN: [&str; 3] = ["ffn_gate", "ffn_up", "ffn_down"];

/// Returns the attention matrices if `attention_bias` is set.
pub(crate) fn attention_biases(config: &HfConfig<'_>) -> Result<Vec<&'static str>, Error> {
    Ok(if config.flag("attention_bias")? { ATTENTION.to_vec() } else { Vec::new() })
}
