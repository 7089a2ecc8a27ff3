//! `config.json` as published with well-known models, and invalid ones.
//!
//! The published values are facts about these models; keys that no loader reads are left out.

use leyden_kernels::attention::Mask;
use leyden_kernels::ops::RopePairs;
use leyden_models::{
    HeadConfig, LayerConfig, ModelConfig, NormConfig, NormKind, QkNorm, RopeConfig, RopeScaling, YarnRamp,
    config_of_json,
};
use leyden_tensor::Json;

fn read(text: &str) -> Result<ModelConfig, String> {
    let json = Json::parse(text.as_bytes(), "config.json").map_err(|e| e.to_string())?;
    config_of_json(&json).map_err(|e| e.to_string())
}

/// Layers, width, heads, key-value heads, head size, feed-forward width, context.
type Sizes = [usize; 7];

fn decoder(architecture: &'static str, sizes: Sizes, norm_eps: f32, rope: (f32, RopeScaling)) -> ModelConfig {
    let [layers, width, heads, kv_heads, head_dim, ffn, context] = sizes;
    let layer = LayerConfig {
        heads,
        kv_heads,
        head_dim,
        value_dim: head_dim,
        attention_scale: 1.0 / (head_dim as f32).sqrt(),
        rope: Some(RopeConfig {
            pairs: RopePairs::Halves,
            dims: head_dim,
            base: rope.0,
            scaling: rope.1,
            magnitude: 1.0,
        }),
        qk_norm: if architecture == "qwen3" { QkNorm::Head } else { QkNorm::None },
        ffn,
        ..LayerConfig::default()
    };
    ModelConfig {
        architecture,
        width,
        context,
        embedding_scale: 1.0,
        learned_positions: None,
        embedding_norm: false,
        embedding_width: None,
        vectors: leyden_models::VectorForm::default(),
        vector_dense: Vec::new(),
        sparse: None,
        token_vectors: None,
        spans: None,
        norm: NormConfig { kind: NormKind::Rms, eps: norm_eps, offset: 0.0 },
        head: HeadConfig::Logits,
        logit_scale: 1.0,
        logit_soft_cap: None,
        per_layer_input: None,
        altup: None,
        mtp_layers: 0,
        layers: vec![layer; layers],
    }
}

fn llama3(factor: f32) -> RopeScaling {
    RopeScaling::Llama3 { factor, low: 1.0, high: 4.0, original_context: 8192 }
}

const LLAMA_32_1B: &str = r#"{
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 128000,
  "eos_token_id": 128001, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
  "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama",
  "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8, "pretraining_tp": 1,
  "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
  "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0,
  "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 128256 }"#;

const LLAMA_31_8B: &str = r#"{
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "hidden_act": "silu", "hidden_size": 4096,
  "intermediate_size": 14336, "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama",
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "pretraining_tp": 1,
  "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
  "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 128256 }"#;

const TINYLLAMA: &str = r#"{
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "hidden_act": "silu", "hidden_size": 2048,
  "intermediate_size": 5632, "max_position_embeddings": 2048, "model_type": "llama", "num_attention_heads": 32,
  "num_hidden_layers": 22, "num_key_value_heads": 4, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
  "rope_scaling": null, "rope_theta": 10000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "vocab_size": 32000 }"#;

const MISTRAL_7B_V03: &str = r#"{
  "architectures": ["MistralForCausalLM"], "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 4096,
  "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mistral",
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
  "rope_theta": 1000000.0, "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "vocab_size": 32768 }"#;

const QWEN25_05B: &str = r#"{
  "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 896,
  "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 24, "model_type": "qwen2",
  "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
  "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
  "use_mrope": false, "use_sliding_window": false, "vocab_size": 151936 }"#;

const R1_DISTILL_QWEN_15B: &str = r#"{
  "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 1536,
  "intermediate_size": 8960, "max_position_embeddings": 131072, "max_window_layers": 21, "model_type": "qwen2",
  "num_attention_heads": 12, "num_hidden_layers": 28, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
  "rope_theta": 10000, "sliding_window": 4096, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "use_mrope": false, "use_sliding_window": false, "vocab_size": 151936 }"#;

const QWEN3_06B: &str = r#"{
  "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "head_dim": 128,
  "hidden_act": "silu", "hidden_size": 1024, "intermediate_size": 3072, "max_position_embeddings": 40960,
  "max_window_layers": 28, "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28,
  "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000,
  "sliding_window": null, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_sliding_window": false,
  "vocab_size": 151936 }"#;

/// Configuration with an `attn_factor`, which transformers does not know.
const R1_0528_QWEN3_8B: &str = r#"{
  "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "head_dim": 128,
  "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 12288, "max_position_embeddings": 131072,
  "max_window_layers": 36, "model_type": "qwen3", "num_attention_heads": 32, "num_hidden_layers": 36,
  "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": {"rope_type": "yarn", "factor": 4.0,
  "original_max_position_embeddings": 32768, "attn_factor": 0.8782488562869419}, "rope_theta": 1000000,
  "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_sliding_window": false,
  "vocab_size": 151936 }"#;

/// Returns a configuration with some keys replaced or added, and some left out.
fn changed(base: &str, changes: &str, without: &[&str]) -> String {
    let json = Json::parse(base.as_bytes(), "config.json").unwrap();
    let more = Json::parse(format!("{{{changes}}}").as_bytes(), "changes").unwrap();
    let mut object = json.object().clone();
    object.extend(more.object().iter().map(|(k, v)| (k.clone(), v.clone())));
    object.retain(|key, _| !without.contains(&key.as_str()));
    let kept: Vec<String> = object.iter().map(|(k, v)| format!("\"{k}\": {v}")).collect();
    format!("{{{}}}", kept.join(", "))
}

/// Returns a configuration in the dialect of transformers 5.
fn nested(text: &str) -> String {
    let json = Json::parse(text.as_bytes(), "config.json").unwrap();
    let theta = json.f32("rope_theta").unwrap();
    let scaling = json.get("rope_scaling").map_or(r#""rope_type": "default""#.to_owned(), |v| {
        v.to_string().trim_matches(['{', '}']).to_owned()
    });
    let rope = format!(r#""rope_parameters": {{{scaling}, "rope_theta": {theta}}}, "dtype": "bfloat16""#);
    changed(text, &rope, &["rope_theta", "rope_scaling", "torch_dtype"])
}

#[test]
fn published_configurations_are_read_in_both_dialects() {
    let none = || RopeScaling::None;
    let yarn = RopeScaling::Yarn {
        factor: 4.0,
        original_context: 32768,
        ramp: YarnRamp::default(),
        attention: 1.0 + 0.1 * leyden_kernels::ops::ln(4.0),
    };
    for (text, wanted) in [
        (LLAMA_32_1B, decoder("llama", [16, 2048, 32, 8, 64, 8192, 131_072], 1e-5, (5e5, llama3(32.0)))),
        (LLAMA_31_8B, decoder("llama", [32, 4096, 32, 8, 128, 14336, 131_072], 1e-5, (5e5, llama3(8.0)))),
        (TINYLLAMA, decoder("llama", [22, 2048, 32, 4, 64, 5632, 2048], 1e-5, (1e4, none()))),
        (MISTRAL_7B_V03, decoder("llama", [32, 4096, 32, 8, 128, 14336, 32768], 1e-5, (1e6, none()))),
        (QWEN25_05B, decoder("qwen2", [24, 896, 14, 2, 64, 4864, 32768], 1e-6, (1e6, none()))),
        (R1_DISTILL_QWEN_15B, decoder("qwen2", [28, 1536, 12, 2, 128, 8960, 131_072], 1e-6, (1e4, none()))),
        (QWEN3_06B, decoder("qwen3", [28, 1024, 16, 8, 128, 3072, 40960], 1e-6, (1e6, none()))),
        (R1_0528_QWEN3_8B, decoder("qwen3", [36, 4096, 32, 8, 128, 12288, 131_072], 1e-6, (1e6, yarn))),
    ] {
        assert_eq!(read(text).unwrap(), wanted, "{text}");
        assert_eq!(read(&nested(text)).unwrap(), wanted, "{}", nested(text));
    }
}

#[test]
fn options_that_change_nothing_are_accepted() {
    for (base, changes) in [
        (LLAMA_31_8B, r#""sliding_window": 4096, "rope_interleaved": false"#),
        (LLAMA_31_8B, r#""hidden_act": "swish""#),
        (LLAMA_31_8B, r#""quantization_config": null, "text_config": null, "architectures": null"#),
        (LLAMA_31_8B, r#""num_key_value_heads": null"#),
        (LLAMA_31_8B, r#""partial_rotary_factor": 1.0"#),
        (MISTRAL_7B_V03, r#""sliding_window": 32768"#),
        (QWEN25_05B, r#""use_sliding_window": true"#),
        (QWEN25_05B, r#""use_sliding_window": true, "sliding_window": null, "max_window_layers": 0"#),
        (QWEN25_05B, r#""use_sliding_window": true, "sliding_window": 8, "layer_types": ["full_attention"]"#),
        (QWEN3_06B, r#""rope_scaling": {"type": "default"}"#),
        (QWEN3_06B, r#""rope_scaling": {"type": "yarn", "rope_type": "yarn", "factor": 2}"#),
        (QWEN3_06B, r#""rope_parameters": {"rope_theta": 1000000}"#),
    ] {
        let text = changed(base, changes, &[]);
        assert!(read(&text).is_ok(), "{changes}: {:?}", read(&text));
    }
}

#[test]
fn yarn_has_all_its_options() {
    let read = |options: &str| {
        let scaling = format!(r#""rope_scaling": {{"rope_type": "yarn", "factor": 4, {options}}}"#);
        match read(&changed(QWEN3_06B, &scaling, &[])).unwrap().layers.remove(0).rope.unwrap().scaling {
            RopeScaling::Yarn { factor, original_context, ramp, attention } => {
                assert_eq!(factor, 4.0);
                (original_context, ramp, attention)
            }
            other => panic!("{other:?}"),
        }
    };
    let (standard, plain) = (YarnRamp::default(), 1.0 + 0.1 * 4f64.ln());
    for (options, wanted) in [
        (r#""x": 1"#, (40960, standard, plain)),
        (r#""original_max_position_embeddings": 1024"#, (1024, standard, plain)),
        (r#""attention_factor": 0.5, "mscale": 1, "mscale_all_dim": 1"#, (40960, standard, 0.5)),
        (r#""mscale": 1, "mscale_all_dim": 1"#, (40960, standard, 1.0)),
        (r#""mscale": 0.5"#, (40960, standard, plain)),
        (
            r#""mscale": 2, "mscale_all_dim": 1"#,
            (40960, standard, (1.0 + 0.2 * 4f64.ln()) / (1.0 + 0.1 * 4f64.ln())),
        ),
        (
            r#""beta_fast": 16, "beta_slow": 2.5, "truncate": false"#,
            (40960, YarnRamp { fast: 16.0, slow: 2.5, whole: false, ..standard }, plain),
        ),
        (r#""beta_fast": 0, "beta_slow": null"#, (40960, standard, plain)),
    ] {
        let found = read(options);
        assert_eq!((found.0, found.1), (wanted.0, wanted.1), "{options}");
        assert!((found.2 - wanted.2).abs() < 1e-15, "{options}: {}", found.2);
    }
}

#[test]
fn what_would_change_the_result_is_refused_by_name() {
    let llama = [
        (
            r#""model_type": "gemma3""#,
            "model_type: architecture `gemma3` is not supported; supported: llama, ",
        ),
        (r#""model_type": "warp""#, "model_type: architecture `warp` is not supported; supported: llama, "),
        (r#""model_type": null"#, "model_type: required metadata key is missing"),
        (r#""model_type": 7"#, "model_type: want string, found integer"),
        (
            r#""architectures": ["LlamaForSequenceClassification"]"#,
            "architectures: LlamaForSequenceClassification is not supported; this type of model as LlamaForCausalLM is",
        ),
        (r#""text_config": {}"#, "text_config: a model of text and other media, which is not supported"),
        (
            r#""quantization_config": {"quant_method": "hqq", "bits": 4}"#,
            "quantization_config.quant_method: weights quantised by hqq are not supported",
        ),
        (
            r#""quantization_config": {"load_in_8bit": true}"#,
            "quantization_config: quantised weights are not supported",
        ),
        (r#""quantization_config": 8"#, "quantization_config: quantised weights are not supported"),
        (r#""hidden_act": "gelu""#, "hidden_act: `gelu` is not supported; supported: silu"),
        (r#""hidden_size": null"#, "hidden_size: required metadata key is missing"),
        (r#""hidden_size": 0"#, "hidden_size: 0 is not between 1 and 16777216"),
        (r#""num_hidden_layers": 5000"#, "num_hidden_layers: 5000 is not between 1 and 1024"),
        (r#""num_key_value_heads": 5"#, "num_key_value_heads: 5 does not divide num_attention_heads 32"),
        (r#""num_attention_heads": 24"#, "num_attention_heads: 24 does not divide hidden_size 4096"),
        (r#""head_dim": 40"#, "head_dim: heads of 40 values; supported are multiples of 16 up to"),
        (r#""rms_norm_eps": null"#, "rms_norm_eps: is missing and has no default"),
        (r#""rms_norm_eps": -1"#, "rms_norm_eps: -1 is not a positive number"),
        (r#""attention_bias": "yes""#, "attention_bias: want boolean, found string"),
        (r#""rope_theta": "10000""#, "rope_theta: want number, found string"),
        (r#""rope_scaling": 8"#, "rope_scaling: want object, found integer"),
        (
            r#""rope_scaling": {"rope_type": "dynamic", "factor": 2}"#,
            "rope_scaling.rope_type: `dynamic` is not supported; supported: default, linear, llama3, yarn",
        ),
        (r#""rope_scaling": {"type": "su"}"#, "rope_scaling.short_factor: is not a list of numbers"),
        (
            r#""rope_scaling": {"type": "linear", "rope_type": "yarn"}"#,
            "rope_scaling.type: `linear` differs from rope_type, which is `yarn`",
        ),
        (r#""rope_scaling": {"type": "linear"}"#, "rope_scaling.factor: required metadata key is missing"),
        (
            r#""rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4}"#,
            "rope_scaling.high_freq_factor: 4 is not above low_freq_factor, which is 4",
        ),
        (
            r#""rope_scaling": {"type": "yarn", "factor": 0}"#,
            "rope_scaling.factor: 0 is not a positive number",
        ),
        (
            r#""rope_scaling": {"type": "yarn", "factor": 2, "original_max_position_embeddings": 0}"#,
            "rope_scaling.original_max_position_embeddings: 0 is not between",
        ),
        (
            r#""rope_parameters": {"rope_type": "linear", "factor": 2}"#,
            "rope_parameters: differs from rope_scaling, which is there too",
        ),
        (
            r#""rope_scaling": null, "rope_parameters": {"rope_theta": 1}"#,
            "rope_parameters.rope_theta: 1 differs from rope_theta, which is 500000",
        ),
        (
            r#""rope_parameters": {"full_attention": {"rope_theta": 1}}"#,
            "rope_parameters.full_attention: a rotation for some layers only is not supported",
        ),
        (r#""partial_rotary_factor": 0.5"#, "partial_rotary_factor: 0.5 is not supported"),
        (
            r#""rope_scaling": {"partial_rotary_factor": 0.5}"#,
            "rope_scaling.partial_rotary_factor: 0.5 is not supported",
        ),
    ];
    let others = [
        (
            QWEN25_05B,
            r#""use_sliding_window": true, "sliding_window": 4096, "max_window_layers": 21"#,
            "sliding_window: attention to the last 4096",
        ),
        (
            QWEN3_06B,
            r#""layer_types": ["full_attention", "sliding_attention"]"#,
            "layer_types: `sliding_attention` is not supported; supported: full_attention",
        ),
    ];
    let llama = llama.map(|(changes, wanted)| (LLAMA_31_8B, changes, wanted));
    for (base, changes, wanted) in llama.into_iter().chain(others) {
        let error = read(&changed(base, changes, &[])).unwrap_err();
        assert!(error.starts_with(&format!("config.json: {wanted}")), "{changes}: {error}");
    }
}

#[test]
fn mistrals_class_has_a_window_where_nothing_is_said() {
    for (change, without, wanted) in [
        ("", &["sliding_window"][..], Mask::Window(4096)),
        (r#""sliding_window": 128"#, &[], Mask::Window(128)),
        ("", &[], Mask::Causal),
    ] {
        let config = read(&changed(MISTRAL_7B_V03, change, without)).unwrap();
        assert!(config.layers.iter().all(|layer| layer.mask == wanted), "{change}");
    }
}

const MINILM: &str = r#"{
  "architectures": ["BertModel"], "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": false, "hidden_act": "gelu",
  "hidden_dropout_prob": 0.1, "hidden_size": 384, "initializer_range": 0.02, "intermediate_size": 1536,
  "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "bert", "num_attention_heads": 12,
  "num_hidden_layers": 6, "pad_token_id": 0, "position_embedding_type": "absolute", "transformers_version": "4.8.2",
  "type_vocab_size": 2, "use_cache": true, "vocab_size": 30522}"#;

#[test]
fn encoders_are_known_by_their_own_keys() {
    let minilm = read(MINILM).unwrap();
    assert!(minilm.needs_whole_texts() && !minilm.generates() && minilm.classifier().is_none());
    assert_eq!((minilm.context, minilm.layers[0].head_dim, minilm.learned_positions), (512, 32, Some(0)));
    let roberta = MINILM.replace("\"bert\"", "\"xlm-roberta\"").replace("BertModel", "XLMRobertaModel");
    let roberta = read(&roberta.replace("\"pad_token_id\": 0", "\"pad_token_id\": 1")).unwrap();
    assert_eq!((roberta.context, roberta.learned_positions), (510, Some(2)));
    let classifier = MINILM.replace("BertModel", "BertForSequenceClassification");
    let labels = read(&classifier).unwrap().classifier().unwrap().labels.clone();
    assert_eq!(labels, ["LABEL_0", "LABEL_1"]);
}
