//! Table of known configuration keys, with one rule per key.
//!
//! A key that changes the result is read, or refused unless its value has no effect; so rules are about values. The
//! meaning of a key without a rule is unknown: it may be from a later version, or a converter's remark. Refusing all
//! of these would refuse every new remark, so they are ignored, as in llama.cpp and transformers, but reported.
//!
//! The keys follow llama.cpp and transformers. Keys that llama.cpp has for other architectures are listed if they
//! could apply to a decoder like these; llama.cpp's own saver writes all of its keys into every file, with values
//! that mean "off".

use super::ModelConfig;
use crate::error::Error;
use leyden_tensor::{Array, Escaped, Json, Metadata, Value};

/// Known key and its rule.
struct Row {
    /// Name of the key; in GGUF without the architecture's name.
    key: &'static str,
    rule: Rule,
    /// Feature that a refused value asks for.
    what: &'static str,
}

/// Rule for the value of a key.
#[derive(Clone, Copy)]
enum Rule {
    /// Any value; read elsewhere: by the reader, the pooling or the tokenizer.
    Read,
    /// Any value; without effect on the result.
    Harmless,
    /// Values that mean "off": zero, false, empty, or -1 for "none".
    Off,
    /// "Off", or one of these numbers.
    OffOr(&'static [f64]),
    /// "Off", or this number, which follows from the configuration.
    OffOrSize(fn(&ModelConfig) -> f64),
    /// "Off", or at least this number, which follows from the configuration.
    OffOrFrom(fn(&ModelConfig) -> f64),
    /// True.
    On,
    /// One of these strings.
    Text(&'static [&'static str]),
}

const fn read(key: &'static str) -> Row {
    Row { key, rule: Rule::Read, what: "" }
}

const fn harmless(key: &'static str) -> Row {
    Row { key, rule: Rule::Harmless, what: "" }
}

const fn only(key: &'static str, rule: Rule, what: &'static str) -> Row {
    Row { key, rule, what }
}

const ONE: Rule = Rule::OffOr(&[1.0]);
const SCORES: Rule = Rule::OffOrSize(|c| f64::from(c.layers[0].attention_scale));
const EXPERT_COUNT: Rule = Rule::OffOrSize(|c| c.experts().map_or(0.0, |e| e.count as f64));
const WINDOW: &str = "attention to the last tokens only (a sliding window)";
const BOTH_WAYS: &str = "attention in both directions";

/// Rules for GGUF keys, after the architecture's name.
static GGUF: &[Row] = &[
    read("context_length"),
    read("embedding_length"),
    read("block_count"),
    read("feed_forward_length"),
    read("expert_feed_forward_length"),
    read("expert_used_count"),
    read("attention.head_count"),
    read("attention.head_count_kv"),
    read("attention.key_length"),
    read("attention.value_length"),
    read("attention.layer_norm_rms_epsilon"),
    read("rope.dimension_count"),
    read("rope.freq_base"),
    read("rope.scale_linear"),
    read("rope.scaling.type"),
    read("rope.scaling.factor"),
    read("rope.scaling.attn_factor"),
    read("rope.scaling.original_context_length"),
    read("rope.scaling.yarn_ext_factor"),
    read("rope.scaling.yarn_attn_factor"),
    read("rope.scaling.yarn_beta_fast"),
    read("rope.scaling.yarn_beta_slow"),
    read("rope.scaling.yarn_log_multiplier"),
    read("pooling_type"),
    // Keys of embedding models, in files converted by this program only: see `docs/convert.md`.
    read("vector.dimensions"),
    read("vector.max_active_dims"),
    read("vector.most_numbers"),
    read("vector.similarity"),
    read("vector.unit"),
    read("prompt.names"),
    read("prompt.texts"),
    read("prompt.default"),
    read("message.in_parts"),
    read("message.add_generation_prompt"),
    read("message.keep_tail"),
    read("message.variables"),
    read("splade.sum"),
    read("splade.log_twice"),
    // Read for architectures with experts.
    only("expert_count", EXPERT_COUNT, "a mixture of experts"),
    only("attention.causal", Rule::On, BOTH_WAYS),
    only("attention.sliding_window", Rule::OffOrFrom(|c| c.context as f64), WINDOW),
    only("attention.sliding_window_pattern", Rule::OffOr(&[1.0]), WINDOW),
    only("attention.rope_pattern", ONE, "RoPE in some layers only"),
    only("attention.scale", SCORES, "another scale of attention's scores"),
    only("attention.output_scale", ONE, "a scale of attention's output"),
    only("attention.value_scale", ONE, "a scale of values"),
    only("attention.temperature_length", Rule::Off, "attention scaled by position"),
    only("attention.temperature_scale", Rule::Off, "attention scaled by position"),
    only("attention.clamp_kqv", Rule::Off, "a bound on queries, keys and values"),
    only("attention.max_alibi_bias", Rule::Off, "a bias by distance (ALiBi)"),
    only("attention.layer_norm_epsilon", Rule::Off, "a norm that subtracts the mean"),
    only("attention.group_norm_epsilon", Rule::Off, "a norm of groups"),
    only("attention.group_norm_groups", Rule::Off, "a norm of groups"),
    only("attention.q_lora_rank", Rule::Off, "latent attention"),
    only("attention.kv_lora_rank", Rule::Off, "latent attention"),
    only("attention.key_length_mla", Rule::Off, "latent attention"),
    only("attention.value_length_mla", Rule::Off, "latent attention"),
    only("attention.gate_lora_rank", Rule::Off, "a gate on attention"),
    only("attention.relative_buckets_count", Rule::Off, "a bias by distance"),
    only("attention.shared_kv_layers", Rule::Off, "layers with shared keys and values"),
    only("attention.recurrent_layers", Rule::Off, "layers without attention"),
    only("attention.indexer.head_count", Rule::Off, "sparse attention"),
    only("full_attention_interval", ONE, "layers without attention"),
    // llama.cpp's saver writes the default of these caps for architectures that have none.
    only("attn_logit_softcapping", Rule::OffOr(&[50.0]), "a cap on attention's scores"),
    only("final_logit_softcapping", Rule::OffOr(&[30.0]), "a cap on logits"),
    only("router_logit_softcapping", Rule::OffOr(&[30.0]), "a cap on the router's scores"),
    only("logit_scale", ONE, "a scale of logits"),
    only("residual_scale", ONE, "a scale of residuals"),
    only("embedding_scale", ONE, "a scale of embeddings"),
    only("embedding_length_out", Rule::OffOrSize(|c| c.width as f64), "embeddings of another dimension"),
    only("embedding_length_per_layer_input", Rule::Off, "per-layer embeddings"),
    only("hidden_activation", Rule::Text(&["silu", "swish"]), "another activation"),
    only("use_parallel_residual", Rule::Off, "parallel attention and feed-forward layers"),
    only("swin_norm", Rule::Off, "norms after the layers"),
    only("rescale_every_n_layers", Rule::Off, "rescaled hidden states"),
    read("leading_dense_block_count"),
    only("interleave_moe_layer_step", ONE, "some layers without experts"),
    only("moe_every_n_layers", ONE, "some layers without experts"),
    only("expert_shared_count", Rule::Off, "shared experts"),
    only("expert_shared_feed_forward_length", Rule::Off, "shared experts"),
    only("expert_group_count", ONE, "experts in groups"),
    only("expert_group_used_count", ONE, "experts in groups"),
    only("expert_latent_length", Rule::Off, "experts of another width"),
    only("expert_weights_scale", ONE, "a scale of the experts' weights"),
    only("expert_weights_norm", Rule::On, "weights of experts that are not normalised"),
    // 1 is softmax.
    only("expert_gating_func", ONE, "another function of the router's scores"),
    only("nextn_predict_layers", Rule::Off, "layers of multi-token prediction (MTP)"),
    only("n_deepstack_layers", Rule::Off, "states of images"),
    only("num_loops", ONE, "repeated layers"),
    only("rope.dimension_sections", Rule::Off, "positions in several dimensions (M-RoPE)"),
    only("rope.scaling.alpha", Rule::Off, "a scaling of the rotation by its base"),
    only("decoder_block_count", Rule::Off, "an encoder and a decoder"),
    only("classifier.output_labels", Rule::Off, "a classifier"),
    // Given by the rows of the embedding matrix.
    harmless("vocab_size"),
    harmless("rope.scaling.finetuned"),
    // Row order of Q and K; all files that name it have the same one.
    harmless("tensor_data_layout"),
    // Keys of sliding-window layers, which these architectures lack.
    harmless("attention.key_length_swa"),
    harmless("attention.value_length_swa"),
    harmless("rope.dimension_count_swa"),
    harmless("rope.freq_base_swa"),
    // Keys of other architectures for which llama.cpp's saver writes values other than "off".
    harmless("token_shift_count"),
    harmless("expert_group_scale"),
    harmless("activation.situ_beta"),
    harmless("kda.gate_lower_bound"),
    harmless("classifier.pooling_type"),
];

/// Rules for the keys of a `config.json`.
static HF: &[Row] = &[
    read("model_type"),
    read("architectures"),
    read("text_config"),
    read("quantization_config"),
    read("hidden_act"),
    read("hidden_size"),
    read("intermediate_size"),
    read("num_hidden_layers"),
    read("num_attention_heads"),
    read("num_key_value_heads"),
    read("head_dim"),
    read("max_position_embeddings"),
    read("rms_norm_eps"),
    only("layer_norm_eps", Rule::Off, "a norm that subtracts the mean"),
    only("type_vocab_size", Rule::Off, "embeddings of token types"),
    only("position_embedding_type", Rule::Text(&["absolute", "rope"]), "another kind of positions"),
    only("use_parallel_residual", Rule::Off, "parallel attention and feed-forward layers"),
    only("rotary_pct", ONE, "RoPE on a part of each head"),
    only("rotary_emb_base", Rule::OffOr(&[10_000.0]), "another RoPE base"),
    only("llama_4_scaling_beta", Rule::Off, "attention scaled by position"),
    only("layer_norm_epsilon", Rule::Off, "a norm that subtracts the mean"),
    only("rms_norm", Rule::On, "states without a norm behind them"),
    // transformers, which defines these classes, always applies the gate first; files of its first version say true.
    harmless("norm_before_gate"),
    only("scale_attn_by_inverse_layer_idx", Rule::Off, "attention scores scaled by the layer"),
    only("scale_attn_weights", Rule::On, "unscaled attention scores"),
    only("use_gated_activation", Rule::On, "a feed-forward layer without a gate"),
    only("use_parallel_block", Rule::On, "sequential attention and feed-forward layers"),
    only("num_ln_in_parallel_attn", Rule::OffOr(&[1.0, 2.0]), "other norms"),
    harmless("block_dim"),
    harmless("block_mlp_init_scale"),
    harmless("block_norm_eps"),
    harmless("block_out_init_scale"),
    harmless("block_use_swiglu"),
    harmless("block_use_xavier_init"),
    harmless("conv_dim"),
    harmless("conv_dim_out"),
    harmless("conv_use_xavier_init"),
    // Read for the classes that have them, and without effect in others.
    read("norm_epsilon"),
    read("use_bias"),
    read("use_qkv_bias"),
    read("bias"),
    read("multi_query"),
    read("new_decoder_architecture"),
    read("num_kv_heads"),
    read("ffn_hidden_size"),
    // Aliases of size keys.
    read("n_embd"),
    read("n_head"),
    read("n_layer"),
    read("n_positions"),
    read("n_inner"),
    read("activation_function"),
    read("dim"),
    read("n_heads"),
    read("n_layers"),
    read("hidden_dim"),
    read("activation"),
    read("rope_theta"),
    read("rope_scaling"),
    read("rope_parameters"),
    read("original_max_position_embeddings"),
    read("partial_rotary_factor"),
    read("tie_word_embeddings"),
    read("vocab_size"),
    read("bos_token_id"),
    read("eos_token_id"),
    // Read for the classes that have them, and without effect in others.
    read("attention_bias"),
    read("mlp_bias"),
    read("sliding_window"),
    read("use_sliding_window"),
    read("max_window_layers"),
    read("layer_types"),
    only("is_causal", Rule::On, BOTH_WAYS),
    only("use_bidirectional_attention", Rule::Off, BOTH_WAYS),
    only("bidirectional", Rule::Off, BOTH_WAYS),
    only("is_encoder_decoder", Rule::Off, "an encoder and a decoder"),
    only("add_cross_attention", Rule::Off, "an encoder and a decoder"),
    only("attention_multiplier", SCORES, "another scale of attention's scores"),
    only(
        "query_pre_attn_scalar",
        Rule::OffOrSize(|c| f64::from(c.layers[0].attention_scale).powi(-2)),
        "another scale of attention's scores",
    ),
    only("attn_logit_softcapping", Rule::Off, "a cap on attention's scores"),
    only("final_logit_softcapping", Rule::Off, "a cap on logits"),
    only("clip_qkv", Rule::Off, "a bound on queries, keys and values"),
    only("use_qk_norm", Rule::Off, "normalised queries and keys"),
    only("qk_layernorm", Rule::Off, "normalised queries and keys"),
    only("hidden_activation", Rule::Text(&["silu", "swish"]), "another activation"),
    only("sliding_window_pattern", ONE, WINDOW),
    only("attn_output_gate", Rule::Off, "a gate on attention"),
    only("attention_chunk_size", Rule::OffOrFrom(|c| c.context as f64), "attention within chunks"),
    only("no_rope_layers", ONE, "RoPE in some layers only"),
    only("no_rope_layer_interval", Rule::Off, "RoPE in some layers only"),
    only("rope_interleaved", Rule::Off, "interleaved RoPE pairs"),
    only("use_mrope", Rule::Off, "positions in several dimensions (M-RoPE)"),
    only("alibi", Rule::Off, "a bias by distance (ALiBi)"),
    only("embedding_multiplier", ONE, "a scale of embeddings"),
    only("scale_emb", ONE, "a scale of embeddings"),
    only("residual_multiplier", ONE, "a scale of residuals"),
    only("logits_scaling", ONE, "a scale of logits"),
    only("logit_scale", ONE, "a scale of logits"),
    only("parallel_attn", Rule::Off, "parallel attention and feed-forward layers"),
    only("num_experts", EXPERT_COUNT, "a mixture of experts"),
    only("num_local_experts", EXPERT_COUNT, "a mixture of experts"),
    only("n_routed_experts", EXPERT_COUNT, "a mixture of experts"),
    read("num_experts_per_tok"),
    read("moe_intermediate_size"),
    read("first_k_dense_replace"),
    only("decoder_sparse_step", ONE, "some layers without experts"),
    only("moe_layer_freq", ONE, "some layers without experts"),
    only("mlp_only_layers", Rule::Off, "some layers without experts"),
    only("shared_expert_intermediate_size", Rule::Off, "shared experts"),
    only("n_shared_experts", Rule::Off, "shared experts"),
    read("norm_topk_prob"),
    read("qkv_bias"),
    only("num_nextn_predict_layers", Rule::Off, "layers of multi-token prediction (MTP)"),
    only("num_mtp_layers", Rule::Off, "layers of multi-token prediction (MTP)"),
    // Settings of training, settings of generation in transformers, and remarks.
    harmless("_name_or_path"),
    harmless("_commit_hash"),
    harmless("_attn_implementation"),
    harmless("_attn_implementation_autoset"),
    harmless("attn_implementation"),
    harmless("_attention_implementation"),
    harmless("auto_map"),
    harmless("transformers_version"),
    harmless("transformers.js_config"),
    harmless("unsloth_version"),
    harmless("unsloth_fixed"),
    harmless("torch_dtype"),
    harmless("dtype"),
    harmless("torchscript"),
    harmless("use_bfloat16"),
    harmless("use_cache"),
    harmless("use_flash_attn"),
    harmless("initializer_range"),
    harmless("attention_dropout"),
    harmless("dropout"),
    harmless("qa_dropout"),
    harmless("seq_classif_dropout"),
    harmless("gradient_checkpointing"),
    // The position table is in the weights either way.
    harmless("sinusoidal_pos_embds"),
    harmless("tie_weights_"),
    harmless("attention_probs_dropout_prob"),
    harmless("hidden_dropout"),
    harmless("hidden_dropout_prob"),
    harmless("attn_pdrop"),
    harmless("embd_pdrop"),
    harmless("resid_pdrop"),
    harmless("classifier_dropout"),
    // DeBERTa: the old naming of the head, and its size, which the tensors give.
    harmless("legacy"),
    harmless("pooler_hidden_size"),
    harmless("neftune_noise_alpha"),
    harmless("embedding_dropout"),
    harmless("residual_dropout"),
    harmless("reorder_and_upcast_attn"),
    harmless("summary_activation"),
    harmless("summary_first_dropout"),
    harmless("summary_proj_to_labels"),
    harmless("summary_type"),
    harmless("summary_use_proj"),
    harmless("n_ctx"),
    // Creation of caches, sharing of embeddings, and the order of layer types.
    harmless("cache_implementation"),
    harmless("use_embedding_sharing"),
    harmless("chunk_size"),
    harmless("init_method"),
    harmless("mamba_chunk_size"),
    harmless("normalization_function"),
    harmless("rescale_prenorm_residual"),
    harmless("residual_in_fp32"),
    harmless("time_step_floor"),
    harmless("time_step_max"),
    harmless("time_step_min"),
    harmless("time_step_rank"),
    harmless("use_parallel_embedding"),
    harmless("layer_switch"),
    harmless("order_of_interleaved_layers"),
    harmless("apply_residual_connection_post_layernorm"),
    // The same products, computed in parts.
    harmless("pretraining_tp"),
    harmless("chunk_size_feed_forward"),
    // The first repeats `layer_types`; the second applies to sliding-window layers only.
    harmless("_sliding_window_pattern"),
    harmless("rope_local_base_freq"),
    harmless("is_llama_config"),
    harmless("is_decoder"),
    harmless("pad_token_id"),
    harmless("unk_token_id"),
    harmless("sep_token_id"),
    harmless("decoder_start_token_id"),
    harmless("tokenizer_class"),
    harmless("model_max_length"),
    harmless("max_sequence_length"),
    harmless("id2label"),
    harmless("label2id"),
    harmless("num_labels"),
    harmless("problem_type"),
    harmless("finetuning_task"),
    harmless("task_specific_params"),
    harmless("prefix"),
    harmless("pruned_heads"),
    harmless("return_dict"),
    harmless("return_dict_in_generate"),
    harmless("output_attentions"),
    harmless("output_hidden_states"),
    harmless("output_scores"),
    harmless("output_router_logits"),
    harmless("router_aux_loss_coef"),
    harmless("router_jitter_noise"),
    harmless("aux_loss_alpha"),
    harmless("seq_aux"),
    harmless("ep_size"),
    harmless("cross_attention_hidden_size"),
    harmless("tie_encoder_decoder"),
    harmless("tf_legacy_loss"),
    harmless("do_sample"),
    harmless("early_stopping"),
    harmless("max_length"),
    harmless("min_length"),
    harmless("max_new_tokens"),
    harmless("num_beams"),
    harmless("num_beam_groups"),
    harmless("num_return_sequences"),
    harmless("diversity_penalty"),
    harmless("temperature"),
    harmless("top_k"),
    harmless("top_p"),
    harmless("typical_p"),
    harmless("length_penalty"),
    harmless("repetition_penalty"),
    harmless("no_repeat_ngram_size"),
    harmless("encoder_no_repeat_ngram_size"),
    harmless("exponential_decay_length_penalty"),
    harmless("remove_invalid_values"),
    harmless("bad_words_ids"),
    harmless("forced_bos_token_id"),
    harmless("forced_eos_token_id"),
    harmless("suppress_tokens"),
    harmless("begin_suppress_tokens"),
];

/// Rules for the keys of RoPE objects in a `config.json`.
static HF_ROTATION: &[Row] = &[
    read("rope_type"),
    read("type"),
    read("rope_theta"),
    read("partial_rotary_factor"),
    read("factor"),
    read("low_freq_factor"),
    read("high_freq_factor"),
    read("original_max_position_embeddings"),
    read("attention_factor"),
    read("beta_fast"),
    read("beta_slow"),
    read("mscale"),
    read("mscale_all_dim"),
    only("llama_4_scaling_beta", Rule::Off, "attention scaled by position"),
    read("truncate"),
    read("short_factor"),
    read("long_factor"),
    // An object for each layer type; refused for classes with one set of RoPE parameters.
    read("full_attention"),
    read("sliding_attention"),
    only("mrope_section", Rule::Off, "positions in several dimensions (M-RoPE)"),
    only("mrope_interleaved", Rule::Off, "positions in several dimensions (M-RoPE)"),
    only("extrapolation_factor", ONE, "another extrapolation factor of RoPE"),
    // The same as the key outside the object.
    harmless("max_position_embeddings"),
    // Read by other programs, but not by transformers, which defines these classes.
    harmless("attn_factor"),
    harmless("finetuned"),
];

const ROTATIONS: [&str; 2] = ["rope_scaling", "rope_parameters"];

/// Value of a key in GGUF or JSON. Lists are borrowed, as they may be long.
enum Given<'a> {
    Number(f64),
    Flag(bool),
    Text(&'a str),
    Array(&'a Array),
    Items(&'a [serde_json::Value]),
    /// `null`.
    Nothing,
    Other,
}

impl<'a> Given<'a> {
    fn of_gguf(value: &'a Value) -> Given<'a> {
        match value {
            Value::Bool(flag) => Given::Flag(*flag),
            Value::String(text) => Given::Text(text),
            Value::F64(number) => Given::Number(*number),
            Value::Array(array) => Given::Array(array),
            other => match (other.as_integer(), other.as_f32()) {
                (Some(n), _) => Given::Number(n as f64),
                (None, Some(x)) => Given::Number(f64::from(x)),
                _ => Given::Other,
            },
        }
    }

    fn of_json(value: &'a serde_json::Value) -> Given<'a> {
        match value {
            serde_json::Value::Null => Given::Nothing,
            serde_json::Value::Bool(flag) => Given::Flag(*flag),
            serde_json::Value::Number(number) => number.as_f64().map_or(Given::Other, Given::Number),
            serde_json::Value::String(text) => Given::Text(text),
            serde_json::Value::Array(items) => Given::Items(items),
            serde_json::Value::Object(_) => Given::Other,
        }
    }

    /// Returns whether the value is "off" or satisfies `number`; of a list, all items.
    fn off_or(&self, number: &dyn Fn(f64) -> bool) -> bool {
        match self {
            Given::Number(n) => *n == 0.0 || *n == -1.0 || number(*n),
            Given::Flag(flag) => !flag,
            Given::Text(text) => text.is_empty(),
            Given::Array(array) => array.iter().all(|item| Given::of_gguf(&item).off_or(number)),
            Given::Items(items) => items.iter().all(|item| Given::of_json(item).off_or(number)),
            Given::Nothing => true,
            Given::Other => false,
        }
    }

    fn shown(&self) -> String {
        match self {
            Given::Number(number) => number.to_string(),
            Given::Flag(flag) => flag.to_string(),
            Given::Text(text) => format!("`{}`", Escaped(text)),
            Given::Array(_) | Given::Items(_) | Given::Nothing | Given::Other => "this value".to_owned(),
        }
    }
}

impl Row {
    fn allows(&self, given: &Given<'_>, config: &ModelConfig) -> bool {
        // Files round to F32.
        let is = |wanted: f64| move |n: f64| (n - wanted).abs() <= wanted.abs() * 1e-6;
        match self.rule {
            Rule::Read | Rule::Harmless => true,
            Rule::Off => given.off_or(&|_| false),
            Rule::OffOr(numbers) => given.off_or(&|n| numbers.contains(&n)),
            Rule::OffOrSize(size) => given.off_or(&is(size(config))),
            Rule::OffOrFrom(size) => given.off_or(&|n| n >= size(config)),
            Rule::On => matches!(given, Given::Flag(true) | Given::Nothing),
            Rule::Text(texts) => matches!(given, Given::Text(text) if texts.contains(text)),
        }
    }
}

/// Keys with their values: the table of rules, the prefix of the key in messages, the key, and the value.
type Keys<'a> = Vec<(&'static [Row], String, &'a str, Given<'a>)>;

fn gguf_keys<'a>(meta: &'a Metadata, architecture: &str) -> Keys<'a> {
    let prefix = format!("{architecture}.");
    let own = |(key, value): (&'a str, &'a Value)| {
        let name = key.strip_prefix(&prefix)?;
        Some((GGUF, prefix.clone(), name, Given::of_gguf(value)))
    };
    meta.iter().filter_map(own).collect()
}

fn hf_keys(json: &Json) -> Keys<'_> {
    let mut keys: Keys<'_> = Vec::new();
    for (key, value) in json.object() {
        keys.push((HF, String::new(), key, Given::of_json(value)));
        if let Some(object) = value.as_object().filter(|_| ROTATIONS.contains(&key.as_str())) {
            for (name, value) in object {
                keys.push((HF_ROTATION, format!("{key}."), name, Given::of_json(value)));
                let inner = value.as_object().into_iter().flatten();
                let prefix = format!("{key}.{name}.");
                keys.extend(inner.map(|(n, v)| (HF_ROTATION, prefix.clone(), n.as_str(), Given::of_json(v))));
            }
        }
    }
    keys
}

fn check(file: &str, keys: Keys<'_>, config: &ModelConfig, own: &[&str]) -> Result<(), Error> {
    for (table, prefix, name, given) in keys.into_iter().filter(|(_, _, name, _)| !own.contains(name)) {
        if let Some(row) = table.iter().find(|row| row.key == name && !row.allows(&given, config)) {
            let what = format!("{} asks for {}, which is not supported", given.shown(), row.what);
            return Err(Error::invalid(file, &format!("{prefix}{name}"), what));
        }
    }
    Ok(())
}

/// Checks that no key of a GGUF file asks for a feature that `config` does not have. `own` are the keys that the
/// architecture reads itself.
pub(crate) fn check_gguf(meta: &Metadata, config: &ModelConfig, own: &[&str]) -> Result<(), Error> {
    check(meta.file(), gguf_keys(meta, config.architecture), config, own)
}

/// Checks that no key of a `config.json` asks for a feature that `config` does not have, as [`check_gguf`].
pub(crate) fn check_hf(json: &Json, config: &ModelConfig, own: &[&str]) -> Result<(), Error> {
    check(json.file(), hf_keys(json), config, own)
}

/// Returns the keys of an architecture's GGUF metadata that have no rule and are not in `own`, unless their value
/// means "off".
pub(crate) fn unknown_gguf(meta: &Metadata, architecture: &str, own: &[&str]) -> Vec<String> {
    unknown(gguf_keys(meta, architecture), own)
}

/// Returns the keys of a `config.json` that have no rule and are not in `own`, unless their value means "off".
pub(crate) fn unknown_hf(json: &Json, own: &[&str]) -> Vec<String> {
    unknown(hf_keys(json), own)
}

fn unknown(keys: Keys<'_>, own: &[&str]) -> Vec<String> {
    let no_row = |(table, _, name, given): &(&[Row], String, &str, Given<'_>)| {
        !table.iter().any(|row| row.key == *name) && !own.contains(name) && !given.off_or(&|_| false)
    };
    keys.into_iter().filter(no_row).map(|(_, prefix, name, _)| format!("{prefix}{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::config_of_json;
    use crate::config::mixture;
    use crate::config::reader::{
        CONTEXT, FFN, Field, HEAD_DIM, HEADS, KV_HEADS, LAYER_NORM_EPS, LAYERS, NORM_EPS, ROPE_DIMS,
        VALUE_DIM, WIDTH,
    };
    use crate::unknown_keys::unknown_keys_of_json;
    use std::collections::HashSet;

    /// Fields that the reader reads.
    const FIELDS: [Field; 15] = [
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
        LAYER_NORM_EPS,
        mixture::EXPERTS,
        mixture::EXPERTS_USED,
        mixture::EXPERT_FFN,
        mixture::DENSE_LAYERS,
    ];

    const JSON: &str = r#"{"model_type": "qwen2", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "max_position_embeddings": 128, "rms_norm_eps": 1e-5}"#;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes(), "config.json").unwrap()
    }

    fn tables() -> [&'static [Row]; 3] {
        [GGUF, HF, HF_ROTATION]
    }

    #[test]
    fn every_key_has_one_row_and_the_readers_keys_are_read() {
        for table in tables() {
            let keys: HashSet<&str> = table.iter().map(|row| row.key).collect();
            assert_eq!(keys.len(), table.len());
        }
        let row = |table: &'static [Row], key: &str| table.iter().find(|row| row.key == key);
        for (gguf, hf) in FIELDS.iter().map(|field| field.keys()) {
            // Read for some architectures and restricted by rules for the others.
            let some = ["expert_count", "num_experts", "attention.layer_norm_epsilon", "layer_norm_eps"];
            let is_read = |table, key| {
                row(table, key).is_some_and(|r| matches!(r.rule, Rule::Read) || some.contains(&key))
            };
            assert!(is_read(GGUF, gguf), "{gguf}");
            assert!(hf.is_empty() || is_read(HF, hf), "{hf}");
        }
    }

    #[test]
    fn values_that_change_the_result_are_refused_and_others_are_not() {
        let config = config_of_json(&json(JSON)).unwrap();
        let number = Given::Number;
        for row in tables().into_iter().flatten() {
            let allows = |given: Given<'_>| row.allows(&given, &config);
            let (odd, nothing) = (allows(number(0.75)), allows(number(0.0)) && allows(Given::Flag(false)));
            let wanted = match row.rule {
                Rule::Read | Rule::Harmless => (true, true),
                Rule::On | Rule::Text(_) => (false, false),
                _ => (false, true),
            };
            assert_eq!((odd, nothing), wanted, "{}", row.key);
            assert_eq!(row.what.is_empty(), wanted.0, "{}", row.key);
        }
        let row = |key: &str| GGUF.iter().find(|row| row.key == key).unwrap();
        for (key, given, wanted) in [
            ("attention.causal", Given::Flag(true), true),
            ("attention.scale", number(0.25), true),
            ("attention.sliding_window", number(127.0), false),
            ("attention.sliding_window", number(128.0), true),
            ("attention.rope_pattern", Given::Array(&Array::from_i32(&[1, 1])), true),
            ("attention.rope_pattern", Given::Array(&Array::from_i32(&[1, 4])), false),
            ("hidden_activation", Given::Text("silu"), true),
            ("hidden_activation", Given::Text("gelu"), false),
            ("expert_count", number(8.0), false),
        ] {
            assert_eq!(row(key).allows(&given, &config), wanted, "{key}: {}", given.shown());
        }
    }

    #[test]
    fn refusals_name_key_and_value_and_unknown_keys_are_reported() {
        let with = |more: &str| json(&format!("{}, {more}}}", JSON.trim_end_matches('}')));
        for (more, wanted) in [
            (r#""is_causal": false"#, "is_causal: false asks for attention in both directions"),
            (
                r#""use_bidirectional_attention": "all""#,
                "use_bidirectional_attention: `all` asks for attention in both",
            ),
            (
                r#""logits_scaling": 8"#,
                "logits_scaling: 8 asks for a scale of logits, which is not supported",
            ),
            (
                r#""rope_scaling": {"type": "default", "mrope_section": [16, 24, 24]}"#,
                "rope_scaling.mrope_section: this value asks for positions in several dimensions (M-RoPE)",
            ),
        ] {
            let error = config_of_json(&with(more)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("config.json: {wanted}")), "{error}");
        }
        let unknown = |more: &str| unknown_keys_of_json(&with(more));
        assert_eq!(unknown(r#""is_causal": true, "use_bidirectional_attention": null"#), [""; 0]);
        assert_eq!(
            unknown(r#""warp": 2, "woof": 0, "rope_scaling": {"bend": true}"#),
            ["warp", "rope_scaling.bend"]
        );
        // Keys that only one architecture reads are known there; sizes of states are checked.
        let mamba = |more: &str| {
            json(&format!(
                r#"{{"model_type": "mamba2", "hidden_size": 48, "num_hidden_layers": 1, "num_heads": 6, "head_dim": 16,
                "layer_norm_epsilon": 1e-5, "time_step_limit": [0.0, Infinity], {more}}}"#
            ))
        };
        let fits = mamba(r#""n_groups": 2, "state_size": 16"#);
        assert_eq!(unknown_keys_of_json(&fits), [""; 0]);
        assert_eq!(config_of_json(&fits).unwrap().context, 1 << 20);
        for (more, wanted) in [
            (r#""n_groups": 2, "state_size": 20"#, "state_size: 20 is not a multiple of 16"),
            (r#""n_groups": 4, "state_size": 16"#, "num_heads: 6 heads in 4 groups do not divide 96 values"),
            (r#""n_groups": 2, "expand": 4"#, "head_dim: 16 is not 192 / 6 = 32"),
            (
                r#""n_groups": 2, "state_size": 16, "rms_norm": false"#,
                "rms_norm: false asks for states without a norm behind them",
            ),
        ] {
            let error = config_of_json(&mamba(more)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("config.json: {wanted}")), "{error}");
        }
    }
}
