//! Hyper-parameters in GGUF: keys that change results are computed or refused by name, in every form that files have.
use leyden_models::{ModelConfig, RopeScaling, YarnRamp, config_of, unknown_keys};
use leyden_tensor::{Array, Gguf, GgufWriter, Value};

/// Returns a file with the sizes of a small model, and the keys `more`.
fn file(architecture: &str, more: &[(&str, Value)]) -> Gguf {
    let mut writer = GgufWriter::new();
    writer.set("general.architecture", Value::from(architecture));
    let sizes = [
        ("block_count", Value::U32(3)),
        ("context_length", Value::U32(512)),
        ("embedding_length", Value::U32(64)),
        ("feed_forward_length", Value::U32(96)),
        ("attention.head_count", Value::U32(4)),
        ("attention.head_count_kv", Value::U32(2)),
        ("attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
    ];
    for (key, value) in sizes.iter().chain(more) {
        writer.set(
            &if key.starts_with("general.") || key.starts_with("tokenizer.") {
                (*key).to_owned()
            } else {
                format!("{architecture}.{key}")
            },
            value.clone(),
        );
    }
    Gguf::from_vec(writer.to_vec().unwrap(), "m.gguf").unwrap()
}

fn read(architecture: &str, more: &[(&str, Value)]) -> Result<ModelConfig, String> {
    config_of(&file(architecture, more)).map_err(|e| e.to_string())
}

fn numbers(numbers: &[i32]) -> Value {
    Value::Array(Array::from_i32(numbers))
}

#[test]
fn equal_numbers_for_every_layer_are_one_number() {
    let plain = read("llama", &[]).unwrap();
    for key in ["attention.head_count", "attention.head_count_kv", "feed_forward_length"] {
        let n = match key {
            "attention.head_count" => plain.layers[0].heads,
            "attention.head_count_kv" => plain.layers[0].kv_heads,
            _ => plain.layers[0].ffn,
        };
        let n = i32::try_from(n).unwrap();
        assert_eq!(read("llama", &[(key, numbers(&[n; 3]))]).unwrap(), plain, "{key}");
        for (list, wanted) in [
            (numbers(&[n; 2]), "2 numbers for 3 layers".to_owned()),
            (numbers(&[]), "0 numbers for 3 layers".to_owned()),
            (numbers(&[n, 0, n]), "0 is not between 1 and 16777216".to_owned()),
        ] {
            let error = read("llama", &[(key, list)]).unwrap_err();
            assert_eq!(error, format!("m.gguf: llama.{key}: {wanted}"));
        }
        let error = read("llama", &[(key, numbers(&[-1; 3]))]).unwrap_err();
        assert!(error.contains(key), "{error}");
    }
    // An array is refused for a key that has one value for all layers, even if its values are equal.
    let error = read("llama", &[("embedding_length", numbers(&[64; 3]))]).unwrap_err();
    assert_eq!(error, "m.gguf: llama.embedding_length: want u32, found array of i32");
    for wide in [Value::U64(2), Value::I32(2), Value::U8(2), Value::I64(2)] {
        assert_eq!(read("llama", &[("attention.head_count_kv", wide)]).unwrap(), plain);
    }
}

#[test]
fn layers_may_have_numbers_of_their_own() {
    let keys = [
        ("attention.head_count", numbers(&[4, 2, 4])),
        ("attention.head_count_kv", numbers(&[2, 1, 4])),
        ("feed_forward_length", numbers(&[96, 32, 64])),
        ("attention.key_length", Value::U32(32)),
        ("attention.value_length", Value::U32(48)),
    ];
    let layers = read("llama", &keys).unwrap().layers;
    let sizes = layers.iter().map(|l| (l.heads, l.kv_heads, l.ffn, l.head_dim, l.value_dim));
    assert_eq!(sizes.collect::<Vec<_>>(), [(4, 2, 96, 32, 48), (2, 1, 32, 32, 48), (4, 4, 64, 32, 48)]);
    let error = read("llama", &[("attention.head_count_kv", numbers(&[2, 2, 3]))]).unwrap_err();
    assert!(error.starts_with("m.gguf: llama.attention.head_count_kv: 3 does not divide"), "{error}");
    let error = read("llama", &[("attention.value_length", Value::U32(24))]).unwrap_err();
    assert!(error.starts_with("m.gguf: llama.attention.value_length: heads of 24 values"), "{error}");
    // A key with one value for all layers cannot have different values.
    let used = [("expert_count", Value::U32(8)), ("expert_used_count", numbers(&[2, 2, 1]))];
    let error = read("qwen3moe", &used).unwrap_err();
    assert!(error.ends_with("2 in one layer and 1 in another is not supported"), "{error}");
}

#[test]
fn experts_without_a_width_share_that_of_the_layer() {
    let experts = [("expert_count", Value::U32(8)), ("expert_used_count", numbers(&[2; 3]))];
    assert_eq!(read("qwen3moe", &experts).unwrap().layers[0].ffn, 48);
    let own = [&experts[..], &[("expert_feed_forward_length", numbers(&[32; 3]))]].concat();
    assert_eq!(read("qwen3moe", &own).unwrap().layers[0].ffn, 32);
    let error = read("qwen3moe", &[&own[..], &[("expert_gating_func", Value::U32(2))]].concat()).unwrap_err();
    assert!(error.starts_with("m.gguf: qwen3moe.expert_gating_func: 2 asks for another function"), "{error}");
}

#[test]
fn keys_that_change_the_result_are_refused_by_name() {
    for architecture in ["llama", "qwen2", "qwen3"] {
        for (key, value, wanted) in [
            ("attention.causal", Value::Bool(false), "false asks for attention in both directions"),
            ("attention.sliding_window", Value::U32(128), "128 asks for attention to the last tokens only"),
            ("attention.scale", Value::F32(0.5), "0.5 asks for another scale of attention's scores"),
            ("attention.clamp_kqv", Value::F32(8.0), "8 asks for a bound on queries, keys and values"),
            ("attn_logit_softcapping", Value::F32(20.0), "20 asks for a cap on attention's scores"),
            ("logit_scale", Value::F32(0.25), "0.25 asks for a scale of logits"),
            ("embedding_scale", Value::F32(12.0), "12 asks for a scale of embeddings"),
            ("residual_scale", Value::F32(0.5), "0.5 asks for a scale of residuals"),
            (
                "rope.dimension_sections",
                numbers(&[16, 24, 24, 0]),
                "this value asks for positions in several dimensions (M-RoPE)",
            ),
            ("rope.scaling.alpha", Value::F32(1000.0), "1000 asks for a scaling of the rotation by its base"),
        ] {
            let error = read(architecture, &[(key, value)]).unwrap_err();
            assert_eq!(
                error,
                format!("m.gguf: {architecture}.{key}: {wanted}, which is not supported")
                    .replace("only,", "only (a sliding window),")
            );
        }
    }
    for kind in ["adapter", "mmproj", "imatrix"] {
        let error = read("llama", &[("general.type", Value::from(kind))]).unwrap_err();
        assert!(error.starts_with(&format!("m.gguf: general.type: `{kind}` is ")), "{error}");
    }
    // Values that change nothing, as llama.cpp's saver writes them.
    let off = [
        ("attention.causal", Value::Bool(true)),
        ("attention.sliding_window", Value::U32(0)),
        ("attention.scale", Value::F32(0.25)),
        ("attn_logit_softcapping", Value::F32(50.0)),
        ("expert_count", Value::U32(0)),
        ("logit_scale", Value::F32(0.0)),
        ("rope.scaling.factor", Value::F32(0.0)),
        ("rope.scaling.attn_factor", Value::F32(1.0)),
        ("rope.scaling.yarn_ext_factor", Value::F32(-1.0)),
        ("rope.scaling.yarn_attn_factor", Value::F32(1.0)),
        ("rope.scaling.yarn_beta_fast", Value::F32(32.0)),
        ("rope.scaling.yarn_beta_slow", Value::F32(1.0)),
        ("rope.scaling.yarn_log_multiplier", Value::F32(0.0)),
        ("vocab_size", Value::U32(7)),
        ("general.type", Value::from("model")),
    ];
    assert_eq!(read("llama", &off).unwrap(), read("llama", &[]).unwrap());
    assert_eq!(unknown_keys(&file("llama", &off)), [""; 0]);
    let odd = [
        ("warp.factor", Value::F32(9.0)),
        ("warp.drive", Value::Bool(false)),
        ("ssm.inner_size", Value::U32(64)),
        ("tokenizer.ggml.suppress_tokens", numbers(&[7])),
    ];
    assert_eq!(
        unknown_keys(&file("llama", &odd)),
        ["llama.warp.factor", "llama.ssm.inner_size", "tokenizer.ggml.suppress_tokens"]
    );
}

#[test]
fn the_rotation_has_all_its_factors() {
    let rope =
        |more: &[(&str, Value)]| read("qwen3", more).map(|mut config| config.layers.remove(0).rope.unwrap());
    // llama.cpp multiplies cosine and sine with it, whatever the type of scaling.
    let with = |kind: &str| {
        let keys = [("rope.scaling.type", Value::from(kind)), ("rope.scaling.attn_factor", Value::F32(1.5))];
        rope(&keys).unwrap().magnitude
    };
    assert_eq!(["none", "linear", "yarn"].map(with), [1.5; 3]);
    assert_eq!(rope(&[("rope.scaling.attn_factor", Value::F32(0.5))]).unwrap().magnitude, 0.5);
    let yarn = |key: &str, value: f32| {
        let keys = [("rope.scaling.type", Value::from("yarn")), ("rope.scaling.factor", Value::F32(4.0))];
        rope(&[&keys[..], &[(key, Value::F32(value))]].concat()).map(|rope| rope.scaling)
    };
    let usual = 1.0 + 0.1 * leyden_kernels::ops::ln(4.0);
    let wanted = |ramp: YarnRamp, attention: f64| RopeScaling::Yarn {
        factor: 4.0,
        original_context: 512,
        ramp,
        attention,
    };
    let standard = YarnRamp::default();
    for (key, value, ramp, attention) in [
        ("rope.scaling.yarn_beta_fast", 16.0, YarnRamp { fast: 16.0, ..standard }, usual),
        ("rope.scaling.yarn_beta_slow", 2.0, YarnRamp { slow: 2.0, ..standard }, usual),
        ("rope.scaling.yarn_ext_factor", 0.5, YarnRamp { extrapolated: 0.5, ..standard }, usual),
        ("rope.scaling.yarn_ext_factor", -1.0, standard, usual),
        // As in DeepSeek-V3 and Mistral: with both weights 1 the factor is 1.
        ("rope.scaling.yarn_log_multiplier", 1.0, standard, 1.0),
        // As in DeepSeek-R1-0528-Qwen3-8B; neither llama.cpp nor transformers applies it.
        ("rope.scaling.yarn_attn_factor", 0.878_248_9, standard, usual),
    ] {
        assert_eq!(yarn(key, value).unwrap(), wanted(ramp, attention), "{key}");
    }
    assert_eq!(yarn("rope.scaling.yarn_ext_factor", 0.0).unwrap(), RopeScaling::Linear { factor: 4.0 });
    for (key, value, what) in [
        ("rope.scaling.yarn_attn_factor", 2.0, "2 has two meanings in files"),
        ("rope.scaling.yarn_ext_factor", 64.0, "64 is not an extrapolation factor"),
        ("rope.scaling.yarn_beta_fast", 0.0, "0 is not a positive number"),
        ("rope.scaling.yarn_log_multiplier", -8.0, "-8 gives"),
        ("rope.scaling.attn_factor", -1.0, "-1 is not a positive number"),
    ] {
        let error = yarn(key, value).unwrap_err();
        assert!(error.starts_with(&format!("m.gguf: qwen3.{key}: {what}")), "{error}");
    }
    let error = rope(&[("rope.scaling.yarn_beta_fast", Value::F32(16.0))]).unwrap_err();
    let wanted = "16 is for YaRN, but the key qwen3.rope.scaling.type is missing, not yarn";
    assert_eq!(error, format!("m.gguf: qwen3.rope.scaling.yarn_beta_fast: {wanted}"));
}
