//! Classes of Hugging Face's libraries: what their `config.json` and their tensors are like.

use crate::config::{HfConfig, KeyNames};
use crate::error::Error;
use crate::stored::Stored;
use leyden_kernels::ops::Activation;
use leyden_tensor::{Escaped, HfQuantised, Json, StackRows};

/// A class of Hugging Face's libraries that computes the same.
#[derive(Debug)]
pub(crate) struct HfClass {
    /// The value of `model_type`.
    pub(crate) model_type: &'static str,
    /// Whether it is this one, where models of the same type are told apart by something else.
    pub(crate) when: fn(&Json) -> bool,
    /// The classes that are computed, as in `architectures`: of a decoder the one with a language model's head.
    pub(crate) classes: &'static [&'static str],
    /// Keys of `config.json` that have another name than most classes give them: the usual one, and theirs.
    pub(crate) keys: &'static [(&'static str, &'static str)],
    /// Further names of keys, which the class takes for the same: the usual name, and the other. Releases of transformers write
    /// one or the other.
    pub(crate) aliases: &'static [(&'static str, &'static str)],
    /// Numbers that the class takes where a key is missing, if there is one for that: the usual name of the key.
    pub(crate) defaults: &'static [(&'static str, u32)],
    /// Whether the head is the embedding where nothing is said.
    pub(crate) tied: bool,
    /// The functions that the feed-forward layer may have, by name; the first where nothing is said.
    pub(crate) activations: &'static [(&'static str, Activation)],
    /// Refuses options that change the result, and gives the matrices and norms that have biases.
    pub(crate) biases: fn(&HfConfig<'_>) -> Result<Vec<&'static str>, Error>,
    /// What the names of all tensors but the head's begin with, unless the model was saved without a head.
    pub(crate) prefix: &'static str,
    /// What those of a layer go on with, before its number.
    pub(crate) layers: &'static str,
    /// Names of its tensors behind the prefix, those of a layer without its number: GGUF's name, theirs. Of rows
    /// with the same name the first counts that a checkpoint has.
    pub(crate) tensors: &'static [(&'static str, &'static str)],
    /// Parts that llama.cpp's files call otherwise than the table does: the table's name, theirs.
    pub(crate) in_gguf: &'static [(&'static str, &'static str)],
    /// Of names that the table has several of for one part, the class's own: GGUF's name, theirs.
    pub(crate) written: &'static [(&'static str, &'static str)],
    /// Names of the tensors that the prefix is not before: those of a head. They come first where both have one.
    pub(crate) head: &'static [(&'static str, &'static str)],
    /// How its matrices lie.
    pub(crate) stored: Stored,
    /// Whether GGUF files have the rows of queries and keys in another order, in which values that turn together are neighbours.
    pub(crate) interleaved: bool,
    /// Tensors that stand for those of all experts of a layer: GGUF's name, and where they lie.
    pub(crate) stacks: &'static [(&'static str, Stack)],
    /// Methods of quantisation that the weights may have, by their names in `quantization_config`.
    pub(crate) quantised: &'static [&'static str],
    /// What the names of tensors begin with, behind the prefix, that may be there and are not needed.
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

    /// Whether these classes of a configuration are such a body and nothing else that is computed.
    pub(crate) fn is_body(&self, named: &[&str]) -> bool {
        !self.classes.iter().any(|class| named.contains(class))
            && named.iter().any(|name| self.has_body(name))
    }

    /// Whether a class of Hugging Face's libraries is the body of one that is computed with a language model's head: of
    /// `Qwen3ForCausalLM` the class `Qwen3Model`, of `Gemma3ForCausalLM` the class `Gemma3TextModel`.
    pub(crate) fn has_body(&self, name: &str) -> bool {
        let stems = self.classes.iter().filter_map(|class| {
            class.strip_suffix("ForCausalLM").or_else(|| class.strip_suffix("LMHeadModel"))
        });
        let rest = |stem: &str| name.strip_prefix(stem).map(str::to_owned);
        stems.filter_map(rest).any(|rest| rest == "Model" || rest == "TextModel")
    }
}

/// Where the matrices of all experts of a layer lie: names behind that of the layer.
#[derive(Debug)]
pub(crate) enum Stack {
    /// In a tensor for each expert, whose number stands for `{}`.
    Each(&'static str),
    /// In one tensor, as [`Stacked`](leyden_tensor::Stacked) has it, of which some rows are meant.
    Rows(&'static str, StackRows),
    /// The same with rows and columns exchanged, or as MXFP4.
    Columns(&'static str, StackRows),
}

/// What nearly all decoders have in common.
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

/// The names that nearly all decoders of Hugging Face's libraries give their tensors: GGUF's name, theirs.
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
    // Of some mixtures, and of latent attention.
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
    // Of gated delta nets.
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

/// The names that most of them give the experts of a mixture.
pub(crate) const EXPERTS: &[(&str, Stack)] = &[
    ("ffn_gate_exps.weight", Stack::Each("mlp.experts.{}.gate_proj.weight")),
    ("ffn_up_exps.weight", Stack::Each("mlp.experts.{}.up_proj.weight")),
    ("ffn_down_exps.weight", Stack::Each("mlp.experts.{}.down_proj.weight")),
];

/// Those of Mixtral.
pub(crate) const MIXTRAL_EXPERTS: &[(&str, Stack)] = &[
    ("ffn_gate_exps.weight", Stack::Each("block_sparse_moe.experts.{}.w1.weight")),
    ("ffn_up_exps.weight", Stack::Each("block_sparse_moe.experts.{}.w3.weight")),
    ("ffn_down_exps.weight", Stack::Each("block_sparse_moe.experts.{}.w2.weight")),
];

/// The matrices of attention and those of the feed-forward layer, for flags that give all of them biases.
pub(crate) const ATTENTION: [&str; 4] = ["attn_q", "attn_k", "attn_v", "attn_output"];
pub(crate) const FFN: [&str; 3] = ["ffn_gate", "ffn_up", "ffn_down"];

/// Those of attention, where the usual flag is set.
pub(crate) fn attention_biases(config: &HfConfig<'_>) -> Result<Vec<&'static str>, Error> {
    Ok(if config.flag("attention_bias")? { ATTENTION.to_vec() } else { Vec::new() })
}
