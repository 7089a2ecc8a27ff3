//! Encoders compared with transformers, on tiny folders whose weights follow from a formula
//! (`tests/golden/make/encoders.py`).

use super::architectures::noise;
use super::shared::{engine_on, numbers, one, own};
use leyden_engine::{Engine, ErrorKind, Outputs, Pool, Pooling, StepEntry, StepPlan, WholeText};
use leyden_kernels::attention::KvType;
use leyden_kernels::{Cpu, Tier};
use leyden_models::heads::{
    Head, HeadInput, HeadOutput, LabelLogits, SparseVector, TextVector, TokenVectors,
};
use leyden_models::{HfModel, Labelled, Scores, SparseConfig};
use leyden_tensor::{Array, Gguf, GgufWriter, Value, WeightSource};
use serde_json::{Value as Json, json};
use std::sync::Arc;

pub(crate) fn golden() -> Json {
    let path = own("tests/golden/encoders.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns whether a tensor is the weights of a norm.
fn is_norm(name: &str) -> bool {
    let ends = ["norm.weight", "norm1.weight", "norm2.weight", "_ln.weight"];
    ends.iter().any(|end| name.to_lowercase().ends_with(end))
}

/// The folder of a model, with tensors' names changed.
pub(crate) fn folder_as(model: &Json, rename: impl Fn(&str) -> String) -> tempfile::TempDir {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (seed, tensor) in (1..).zip(model["tensors"].as_array().unwrap()) {
        let name = tensor[0].as_str().unwrap();
        let shape: Vec<usize> = numbers(&tensor[1]).iter().map(|n| *n as usize).collect();
        let (base, scale) = match shape[..] {
            [_] if is_norm(name) => (1.0, 0.4),
            [_] => (0.0, 0.4),
            _ if name.contains("embeddings") => (0.0, 2.0),
            _ => (0.0, 4.0 / (shape[1] as f64).sqrt()),
        };
        let start = data.len();
        for i in 0..shape.iter().product::<usize>() {
            data.extend(noise(i as u64, seed, base, scale).to_le_bytes());
        }
        let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
        header.insert(rename(name), entry);
    }
    let header = Json::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("model.safetensors"), file).unwrap();
    std::fs::write(folder.path().join("config.json"), model["config"].to_string()).unwrap();
    folder
}

pub(crate) fn folder(model: &Json) -> tempfile::TempDir {
    folder_as(model, str::to_owned)
}

fn engine(folder: &tempfile::TempDir, tier: Tier, threads: usize) -> Engine {
    let source = Arc::new(HfModel::open(folder.path()).unwrap());
    // An encoder keeps nothing between steps, whatever the cache type.
    let whole = leyden_models::config_of(source.as_ref()).unwrap().needs_whole_texts();
    let kv_type = if whole { KvType::Q8_0 } else { KvType::F32 };
    engine_on(source, Cpu::new(tier, threads).unwrap().with_exact(true), kv_type)
}

pub(crate) fn texts(golden: &Json) -> Vec<Vec<u32>> {
    let ids = |text: &Json| numbers(text).iter().map(|t| *t as u32).collect();
    golden["texts"].as_array().unwrap().iter().map(ids).collect()
}

/// Returns the hidden states of all tokens of texts that are computed in one step.
pub(crate) fn states(e: &mut Engine, texts: &[&[u32]]) -> Vec<Vec<Vec<f32>>> {
    wanted(e, texts, Outputs::States(0))
}

pub(crate) fn wanted(e: &mut Engine, texts: &[&[u32]], outputs: Outputs) -> Vec<Vec<Vec<f32>>> {
    let ids: Vec<_> = texts.iter().map(|_| e.open()).collect();
    let entry = |(&sequence, text): (_, &&[u32])| StepEntry { sequence, tokens: text.to_vec(), outputs };
    let plan = StepPlan { entries: ids.iter().zip(texts).map(entry).collect() };
    let mut states = vec![Vec::new(); texts.len()];
    for row in e.step(&plan).unwrap().states() {
        states[ids.iter().position(|id| *id == row.sequence).unwrap()].push(row.state.to_vec());
    }
    ids.into_iter().for_each(|id| e.close(id));
    states
}

/// Pools hidden states.
fn pooled(pooling: Pooling, states: &[Vec<f32>]) -> Vec<f32> {
    let mut pool = Pool::new(pooling);
    states.iter().enumerate().for_each(|(at, state)| pool.push(at, state));
    pool.into_vector()
}

/// Computes the head of one text, or of rows of several if it is computed row by row.
pub(crate) fn output(e: &Engine, head: impl Into<Head>, tokens: &[u32], states: &[f32]) -> HeadOutput {
    e.model().head(e.cpu(), HeadInput { head: &head.into(), tokens, states }).unwrap()
}

/// Computes vectors or logits, as [`output`].
pub(crate) fn values(e: &Engine, head: impl Into<Head>, states: &[f32]) -> Vec<f32> {
    match output(e, head, &[], states) {
        HeadOutput::Vectors { values, .. } | HeadOutput::Logits { values, .. } => values,
        other => panic!("{other:?}"),
    }
}

/// Computes the logits of labels for each row of `states`.
pub(crate) fn label_logits(e: &Engine, states: &[f32]) -> Vec<f32> {
    values(e, LabelLogits { of: e.model().config().classifier().unwrap().of }, states)
}

/// Computes a sparse vector.
pub(crate) fn sparse(e: &Engine, special: &[u32], tokens: &[u32], states: &[f32]) -> Vec<(u32, f32)> {
    match output(e, SparseVector { special: special.to_vec() }, tokens, states) {
        HeadOutput::Sparse(weights) => weights,
        other => panic!("{other:?}"),
    }
}

/// Returns the distance of values from the expected ones, relative to their length.
pub(crate) fn distance(got: &[f32], want: &Json) -> f64 {
    let want = numbers(want);
    assert_eq!(got.len(), want.len());
    let size = want.iter().map(|x| x * x).sum::<f64>().sqrt();
    let error: f64 = want.iter().zip(got).map(|(w, g)| (w - f64::from(*g)).powi(2)).sum();
    error.sqrt() / size
}

#[test]
fn states_and_scores_are_those_of_transformers() {
    let golden = golden();
    let texts = texts(&golden);
    let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
    for model in golden["models"].as_array().unwrap() {
        let name = model["name"].as_str().unwrap();
        let mut e = engine(&folder(model), Tier::best(), 2);
        let together = states(&mut e, &texts);
        for ((text, got), want) in texts.iter().zip(&together).zip(model["texts"].as_array().unwrap()) {
            for (at, want) in want["states"].as_object().unwrap() {
                let off = distance(&got[at.parse::<usize>().unwrap()], want);
                assert!(off < 1e-4, "{name}, text of {}, token {at}: {off:e}", text.len());
            }
            let classifier = e.model().config().classifier().cloned();
            if let Some(classifier) = &classifier {
                let states = match classifier.of {
                    Labelled::Text(pooling) => pooled(pooling, got),
                    Labelled::Tokens => [&got[0][..], &got[text.len() - 1]].concat(),
                };
                let logits = label_logits(&e, &states);
                let mut scores = logits.clone();
                classifier.scores(e.cpu().tier(), &mut scores);
                let off = distance(&scores, &want["scores"]);
                assert!(off < 1e-4, "{name}, text of {}: {off:e}", text.len());
                if classifier.ranks() && classifier.scores == Scores::Sigmoid {
                    assert_eq!(classifier.relevance(e.cpu().tier(), &logits, false), scores, "{name}");
                }
            }
            // In a step with other texts the bits are the same as alone.
            assert!(states(&mut e, &[*text])[0] == *got, "{name}");
            if e.model().config().needs_whole_texts() {
                let first = Outputs::Whole(WholeText { second: None, first_only: true });
                assert!(wanted(&mut e, &[*text], first)[0] == got[..1], "{name}");
            }
        }
        if let Some(want) = model.get("pair") {
            let pair = Outputs::Whole(WholeText { second: Some(4), first_only: false });
            let off = distance(&wanted(&mut e, &texts[1..], pair)[0][0], want);
            assert!(off < 1e-4, "{name}, pair: {off:e}");
        }
    }
}

#[test]
fn every_tier_and_team_gives_the_same_bits() {
    let golden = golden();
    let texts = texts(&golden);
    for name in ["bert", "bert, tanh", "roberta"] {
        let models = golden["models"].as_array().unwrap();
        let folder = folder(models.iter().find(|m| m["name"] == name).unwrap());
        let want = states(&mut engine(&folder, Tier::SCALAR, 1), &[&texts[0]]);
        for tier in Tier::available() {
            let got = states(&mut engine(&folder, tier, 3), &[&texts[0]]);
            assert!(got == want, "{name} on {}", tier.level());
        }
    }
}

/// Checkpoints with tensor names older than PyTorch's, and with tensors of training that no result depends on.
#[test]
fn names_of_older_checkpoints_are_known() {
    let golden = golden();
    let models = golden["models"].as_array().unwrap();
    let model = |name: &str| models.iter().find(|m| m["name"] == name).unwrap().clone();
    let texts = texts(&golden);
    let of = |folder: tempfile::TempDir| states(&mut engine(&folder, Tier::best(), 1), &[&texts[1]]);
    let plain = model("bert");
    let want = of(folder(&plain));
    let old = |name: &str| {
        let name =
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta");
        format!("bert.{name}")
    };
    let mut more = plain;
    more["config"]["architectures"] = json!(["BertForPreTraining"]);
    more["tensors"].as_array_mut().unwrap().push(json!(["cls.predictions.bias", [96]]));
    let renamed = folder_as(&more, |name| if name.starts_with("cls.") { name.to_owned() } else { old(name) });
    assert!(of(renamed) == want);
}

/// Hidden states of a golden folder's model equal those of its GGUF file, which has other tensor names.
#[test]
fn a_gguf_file_gives_the_same_states() {
    const NAMES: [(&str, &str); 13] = [
        ("embeddings.word_embeddings", "token_embd"),
        ("embeddings.position_embeddings", "position_embd"),
        ("embeddings.token_type_embeddings", "token_types"),
        ("embeddings.LayerNorm", "token_embd_norm"),
        ("attention.self.query", "attn_q"),
        ("attention.self.key", "attn_k"),
        ("attention.self.value", "attn_v"),
        ("attention.output.dense", "attn_output"),
        ("attention.output.LayerNorm", "attn_output_norm"),
        ("intermediate.dense", "ffn_up"),
        ("output.dense", "ffn_down"),
        ("output.LayerNorm", "layer_output_norm"),
        ("encoder.layer", "blk"),
    ];
    let golden = golden();
    let folder = folder(&golden["models"][0]);
    let texts = texts(&golden);
    let want = states(&mut engine(&folder, Tier::best(), 1), &[&texts[0]]);
    let source = HfModel::open(folder.path()).unwrap();
    let mut file = GgufWriter::new();
    file.set("general.architecture", "bert".into());
    for (key, value) in [
        ("block_count", Value::U32(3)),
        ("context_length", Value::U32(128)),
        ("embedding_length", Value::U32(32)),
        ("feed_forward_length", Value::U32(48)),
        ("attention.head_count", Value::U32(2)),
        ("attention.layer_norm_epsilon", Value::F32(1e-12)),
        ("attention.causal", Value::Bool(false)),
        ("pooling_type", Value::U32(1)),
    ] {
        file.set(&format!("bert.{key}"), value);
    }
    let weights = source.folder().weights();
    for name in weights.tensor_names() {
        let tensor = weights.require(name).unwrap();
        // Longer names come before the names that they contain.
        let known = NAMES.iter().fold(name.to_owned(), |name, (hf, gguf)| name.replace(hf, gguf));
        if !known.starts_with("pooler.") {
            file.add_tensor(&known, tensor.dtype(), tensor.shape(), tensor.bytes().to_vec()).unwrap();
        }
    }
    let file = Arc::new(Gguf::from_vec(file.to_vec().unwrap(), "bert.gguf").unwrap());
    let cpu = Cpu::new(Tier::best(), 2).unwrap().with_exact(true);
    let mut e = engine_on(file, cpu, KvType::F16);
    assert!(states(&mut e, &[&texts[0]]) == want);
}

pub(crate) fn module(folder: &tempfile::TempDir, path: &str, config: &Json) {
    std::fs::create_dir_all(folder.path().join(path)).unwrap();
    std::fs::write(folder.path().join(path).join("config.json"), config.to_string()).unwrap();
}

pub(crate) fn modules(folder: &tempfile::TempDir, list: &[(&str, &str)]) {
    let one = |(class, path): &(&str, &str)| json!({"type": format!("sentence_transformers.{class}"), "path": path});
    let list: Vec<Json> = list.iter().map(one).collect();
    std::fs::write(folder.path().join("modules.json"), json!(list).to_string()).unwrap();
}

/// A folder of SPLADE, made of a model that has such a golden.
pub(crate) fn with_splade(model: &Json, strategy: &str) -> tempfile::TempDir {
    let splade = &model["splade"];
    let mut masked = model.clone();
    masked["tensors"] = splade["tensors"].clone();
    masked["config"]["architectures"] = json!([splade["class"]]);
    let folder = folder(&masked);
    modules(&folder, &[("MLMTransformer", ""), ("models.SpladePooling", "1_SpladePooling")]);
    module(&folder, "1_SpladePooling", &json!({"pooling_strategy": strategy}));
    folder
}

/// A folder of M3-Embedding with its two heads of tokens.
pub(crate) fn with_token_heads(golden: &Json) -> tempfile::TempDir {
    let model = golden["models"].as_array().unwrap().iter().find(|m| m["name"] == "xlm-roberta").unwrap();
    let folder = folder(model);
    for name in ["sparse_linear.pt", "colbert_linear.pt"] {
        std::fs::copy(own(&format!("tests/fixtures/m3/{name}")), folder.path().join(name)).unwrap();
    }
    folder
}

/// SPLADE's pooling of the logits of a masked language model, with and without an output matrix in the checkpoint.
#[test]
fn sparse_vectors_are_those_of_splade() {
    let golden = golden();
    let texts = texts(&golden);
    for model in golden["models"].as_array().unwrap().iter().filter(|m| m.get("splade").is_some()) {
        let splade = &model["splade"];
        for strategy in ["max", "sum"] {
            let folder = with_splade(model, strategy);
            let mut e = engine(&folder, Tier::best(), 2);
            let states = states(&mut e, &[&texts[1]])[0].concat();
            let mut got = vec![0.0; 96];
            for (id, number) in sparse(&e, &[], &[], &states) {
                got[id as usize] = number;
            }
            let off = distance(&got, &splade[strategy]);
            assert!(off < 1e-4, "{}, {strategy}: {off:e}", model["name"]);
        }
    }
}

/// M3-Embedding's heads in the files that PyTorch writes: weights of tokens, and vectors of all but the first.
#[test]
fn heads_of_tokens_are_those_of_flag_embedding() {
    let golden = golden();
    let model = golden["models"].as_array().unwrap().iter().find(|m| m["name"] == "xlm-roberta").unwrap();
    let folder = with_token_heads(&golden);
    let mut e = engine(&folder, Tier::best(), 2);
    let text = &texts(&golden)[0];
    let states = states(&mut e, &[text])[0].concat();
    assert_eq!(
        (e.model().config().sparse, e.model().config().token_width()),
        (Some(SparseConfig::Tokens), 24)
    );
    // The special tokens are the first and the last.
    let special = [text[0], text[text.len() - 1]];
    let (found, weights): (Vec<u32>, Vec<f32>) = sparse(&e, &special, text, &states).into_iter().unzip();
    let want = model["m3"]["sparse"].as_array().unwrap();
    assert_eq!(json!(found), want.iter().map(|row| row[0].clone()).collect::<Json>());
    assert!(distance(&weights, &want.iter().map(|row| row[1].clone()).collect()) < 1e-4);
    let vectors = values(&e, TokenVectors, &states);
    assert_eq!(vectors.len(), (text.len() - 1) * 24);
    for (vector, want) in [&vectors[..24], &vectors[vectors.len() - 24..]].into_iter().zip([0, 1]) {
        assert!(distance(vector, &model["m3"]["vectors"][want]) < 1e-4);
    }
}

/// Returns a folder with matrices after the pooling, of 48 and of 8 rows, and these matrices.
pub(crate) fn with_dense(model: &Json) -> (tempfile::TempDir, [Vec<f32>; 2]) {
    let folder = folder(model);
    modules(
        &folder,
        &[("Transformer", ""), ("Pooling", "1_Pooling"), ("Dense", "2_Dense"), ("Dense", "3_Dense")],
    );
    module(&folder, "1_Pooling", &json!({"pooling_mode_max_tokens": true}));
    let dense = |path: &str, rows: usize, k: usize, function: &str| {
        module(
            &folder,
            path,
            &json!({"in_features": k, "out_features": rows, "activation_function": function}),
        );
        let weights: Vec<f32> = (0..rows * k).map(|i| noise(i as u64, rows as u64, 0.0, 1.0)).collect();
        let data: Vec<u8> = weights.iter().flat_map(|x| x.to_le_bytes()).collect();
        let entry = json!({"dtype": "F32", "shape": [rows, k], "data_offsets": [0, data.len()]});
        let header = json!({"linear.weight": entry}).to_string();
        let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
        std::fs::write(folder.path().join(path).join("model.safetensors"), file).unwrap();
        weights
    };
    let first = dense("2_Dense", 48, 32, "torch.nn.modules.activation.Tanh");
    let second = dense("3_Dense", 8, 48, "torch.nn.modules.linear.Identity");
    (folder, [first, second])
}

/// Matrices after the pooling, as in a folder.
#[test]
fn vectors_go_through_the_matrices_behind_the_pooling() {
    let golden = golden();
    let (folder, [first, second]) = with_dense(&golden["models"][0]);
    let e = engine(&folder, Tier::best(), 1);
    let config = e.model().config();
    assert_eq!((config.width, config.vector_width()), (32, 8));
    let x: Vec<f32> = (0..32).map(|i| noise(i, 7, 0.0, 2.0)).collect();
    let multiply = |w: &[f32], x: &[f64]| -> Vec<f64> {
        w.chunks(x.len()).map(|row| row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum()).collect()
    };
    let middle: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
    let middle: Vec<f64> = multiply(&first, &middle).iter().map(|x| x.tanh()).collect();
    let off =
        distance(&values(&e, TextVector { pooling: Pooling::Max }, &x), &json!(multiply(&second, &middle)));
    assert!(off < 1e-5, "{off:e}");
    let pooling = Pooling::of_metadata(HfModel::open(folder.path()).unwrap().metadata());
    assert_eq!(pooling.unwrap(), Some(Pooling::Max));
    module(&folder, "2_Dense", &json!({"activation_function": "torch.nn.Softsign"}));
    let error = HfModel::open(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("2_Dense/config.json: activation_function: `Softsign` is not supported"),
        "{error}"
    );
}

/// A decoder-based reranker as a GGUF file: the last token's scores of yes and no decide. A file without the tensor for
/// these is refused.
#[test]
fn a_gguf_file_of_a_decoder_ranks() {
    const NAMES: [(&str, &str); 13] = [
        ("embed_tokens", "token_embd"),
        ("input_layernorm", "attn_norm"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.k_norm", "attn_k_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
        ("layers.", "blk."),
    ];
    let golden = golden();
    let model = golden["models"].as_array().unwrap().iter().find(|m| m["name"] == "qwen3, rank").unwrap();
    let folder = folder(model);
    let source = HfModel::open(folder.path()).unwrap();
    let file = |with_head: bool| {
        let mut file = GgufWriter::new();
        file.set("general.architecture", "qwen3".into());
        for (key, value) in [
            ("block_count", Value::U32(2)),
            ("context_length", Value::U32(128)),
            ("embedding_length", Value::U32(32)),
            ("feed_forward_length", Value::U32(48)),
            ("attention.head_count", Value::U32(2)),
            ("attention.head_count_kv", Value::U32(1)),
            ("attention.key_length", Value::U32(16)),
            ("attention.value_length", Value::U32(16)),
            ("attention.layer_norm_rms_epsilon", Value::F32(1e-6)),
            ("pooling_type", Value::U32(4)),
            ("classifier.output_labels", Value::Array(Array::from_strs(["yes", "no"]))),
        ] {
            file.set(&format!("qwen3.{key}"), value);
        }
        let weights = source.folder().weights();
        for name in weights.tensor_names() {
            let tensor = weights.require(name).unwrap();
            let known = name.strip_prefix("model.").unwrap_or(name);
            let known = NAMES.iter().fold(known.to_owned(), |name, (hf, gguf)| name.replace(hf, gguf));
            let known = if known == "norm.weight" { "output_norm.weight".to_owned() } else { known };
            if known == "score.weight" {
                // The odds are those of yes alone, as no has none.
                let rows = [tensor.bytes(), &vec![0; tensor.bytes().len()]].concat();
                if with_head {
                    file.add_tensor("cls.output.weight", tensor.dtype(), &[2, 32], rows).unwrap();
                }
            } else {
                file.add_tensor(&known, tensor.dtype(), tensor.shape(), tensor.bytes().to_vec()).unwrap();
            }
        }
        Arc::new(Gguf::from_vec(file.to_vec().unwrap(), "rank.gguf").unwrap())
    };
    let mut e = engine_on(file(true), Cpu::new(Tier::best(), 2).unwrap().with_exact(true), KvType::F32);
    let texts = texts(&golden);
    let state = states(&mut e, &[&texts[0]])[0].last().unwrap().clone();
    let classifier = e.model().config().classifier().unwrap();
    assert!(classifier.ranks() && classifier.prompt.as_ref().unwrap().contains("<Document>: {document}"));
    let mut logits = label_logits(&e, &state);
    let score = classifier.relevance(e.cpu().tier(), &logits, false);
    let want = &model["texts"][0]["scores"];
    assert!(distance(&score, want) < 1e-4, "{score:?} {want}");
    classifier.scores(e.cpu().tier(), &mut logits);
    assert!(distance(&logits[..1], want) < 1e-4);
    let cpu = Cpu::new(Tier::best(), 1).unwrap();
    let error = leyden_models::load(file(false), &cpu, &mut |_, _| {}).map(drop).unwrap_err().to_string();
    assert!(error.starts_with("rank.gguf: cls.output.weight: is missing"), "{error}");
}

#[test]
fn what_an_encoder_cannot_do_is_an_error() {
    let golden = golden();
    let models = golden["models"].as_array().unwrap();
    let mut e = engine(&folder(&models[0]), Tier::best(), 1);
    let id = e.open();
    let logits = e.step(&one(id, &[1, 2], Outputs::Last)).unwrap_err();
    assert!(matches!(logits.kind(), ErrorKind::NoLogits), "{logits}");
    e.step(&one(id, &[1, 2], Outputs::States(0))).unwrap();
    let part = e.step(&one(id, &[3], Outputs::States(0))).unwrap_err();
    assert!(matches!(part.kind(), ErrorKind::TextInParts), "{part}");
    let long = e.open();
    let long = e.step(&one(long, &[1; 129], Outputs::States(0))).unwrap_err();
    assert_eq!(long.to_string(), "129 tokens do not fit the context of 128");
    let labels = models.iter().find(|m| m["name"] == "bert, labels").unwrap();
    for (key, value, want) in [
        ("hidden_act", json!("relu"), "hidden_act: `relu` is not supported; supported: gelu"),
        ("is_decoder", json!(true), "is_decoder: true is not supported"),
        (
            "position_embedding_type",
            json!("relative_key"),
            "position_embedding_type: `relative_key` asks for",
        ),
        ("architectures", json!(["BertForQuestionAnswering"]), "architectures: BertForQuestionAnswering is"),
        ("id2label", json!({"0": "a", "2": "b"}), "id2label: 2 labels, but none has the number 1"),
        (
            "id2label",
            json!({"0": "a"}),
            "classifier.weight: shape [3, 32] does not match the model's [1, 32]",
        ),
        ("problem_type", json!("ranking"), "problem_type: `ranking` is not supported"),
        ("hidden_size", json!(40), "num_attention_heads: heads of 20 values"),
        (
            "max_position_embeddings",
            json!(200),
            "position_embeddings.weight: 128 rows, but the model has 200",
        ),
    ] {
        let mut changed = labels.clone();
        changed["config"][key] = value;
        let cpu = Cpu::new(Tier::best(), 1).unwrap();
        let opened = HfModel::open(folder(&changed).path());
        let loaded = opened.and_then(|m| leyden_models::load(Arc::new(m), &cpu, &mut |_, _| {}));
        let error = loaded.map(drop).unwrap_err().to_string();
        assert!(error.contains(want), "{key}: {error}");
    }
}
