//! Encoders from ONNX exports compared with onnxruntime (`tests/golden/make/onnx_encoders.py`), and graphs of no
//! encoder.

use super::encoders::{distance, label_logits, states};
use super::shared::{engine_on, numbers, own};
use leyden_engine::{Engine, Pool};
use leyden_kernels::attention::KvType;
use leyden_kernels::{Cpu, Tier};
use leyden_models::{HfModel, Labelled};
use leyden_tensor::{WeightSource, run_sequentially};
use leyden_testkit::random;
use serde_json::{Value as Json, json};
use std::path::Path;
use std::sync::Arc;

fn golden() -> Json {
    let path = own("tests/golden/onnx_encoders.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A folder as hubs have it, with a graph in a folder of its own.
fn folder(config: &Json, graph: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("onnx")).unwrap();
    std::fs::write(folder.path().join("onnx/model.onnx"), graph).unwrap();
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    folder
}

fn graph(file: &str) -> Vec<u8> {
    std::fs::read(own(&format!("tests/fixtures/onnx/{file}"))).unwrap()
}

fn engine(path: &Path) -> Engine {
    let source = Arc::new(HfModel::open(path).unwrap());
    engine_on(source, Cpu::new(Tier::best(), 2).unwrap().with_exact(true), KvType::Q8_0)
}

#[test]
fn states_and_scores_are_those_of_onnxruntime() {
    let golden = golden();
    let text = |text: &Json| -> Vec<u32> { numbers(text).iter().map(|t| *t as u32).collect() };
    let texts: Vec<Vec<u32>> = golden["texts"].as_array().unwrap().iter().map(text).collect();
    for model in golden["models"].as_array().unwrap() {
        let file = model["file"].as_str().unwrap();
        let within = model["within"].as_f64().unwrap();
        let folder = folder(&model["config"], &graph(file));
        let mut e = engine(folder.path());
        for (text, want) in texts.iter().zip(model["results"].as_array().unwrap()) {
            let found = &states(&mut e, &[text])[0];
            let ends = [&found[0][..], &found[text.len() - 1]];
            let found: Vec<Vec<f32>> = match e.model().config().classifier().cloned() {
                None => ends.map(<[f32]>::to_vec).to_vec(),
                Some(classifier) => {
                    let states = match classifier.of {
                        Labelled::Tokens => ends.map(<[f32]>::to_vec).to_vec(),
                        Labelled::Text(pooling) => {
                            let mut pool = Pool::new(pooling);
                            found.iter().enumerate().for_each(|(at, state)| pool.push(at, state));
                            vec![pool.into_vector()]
                        }
                    };
                    states.iter().map(|state| label_logits(&e, state)).collect()
                }
            };
            assert_eq!(found.len(), want.as_array().unwrap().len(), "{file}");
            for (found, want) in found.iter().zip(want.as_array().unwrap()) {
                let off = distance(found, want);
                assert!(off < within, "{file}: {off:e}");
            }
        }
    }
}

/// A graph that computes something else than the configuration says is refused, with the name of the node.
#[test]
fn graphs_that_are_no_known_encoder_are_refused() {
    let golden = golden();
    let models = golden["models"].as_array().unwrap();
    for (file, key, value, wanted) in [
        (
            "bert.onnx",
            "num_hidden_layers",
            json!(2),
            "does not add a matrix's results to the residual stream",
        ),
        (
            "bert-layers.onnx",
            "num_hidden_layers",
            json!(1),
            "adds a value to the embeddings that is no embedding",
        ),
        ("bert.onnx", "hidden_act", json!("gelu_new"), "has the function Gelu, the configuration GeluTanh"),
        ("bert-old.onnx", "hidden_act", json!("gelu"), "has the function GeluTanh, the configuration Gelu"),
        ("bert.onnx", "layer_norm_eps", json!(1e-5), "to the variance, the configuration says"),
        ("bert.onnx", "num_attention_heads", json!(1), "no attention here that is known"),
        (
            "bert.onnx",
            "intermediate_size",
            json!(48),
            "is a matrix of [32, 32], the configuration says [48, 32]",
        ),
        ("electra-fused.onnx", "num_attention_heads", json!(1), "no attention here that is known"),
        ("electra-fused.onnx", "embedding_size", json!(32), "no layer normalisation for `token_embd_norm`"),
        ("bert.onnx", "vocab_size", json!(49), "vocab_size: 49 differs from the 48 rows"),
        ("bert.onnx", "architectures", json!(["BertForTokenClassification"]), "no matrix for `cls.tokens`"),
        ("bert-tokens.onnx", "id2label", json!({"0": "a", "1": "b"}), "`cls.tokens` is a matrix of [32, 3]"),
        (
            "bert-tokens.onnx",
            "architectures",
            json!(["BertForSequenceClassification"]),
            "the head has no Tanh",
        ),
        (
            "roberta-rank.onnx",
            "pad_token_id",
            json!(2),
            "by values that are no token ids, types or positions",
        ),
        ("bert.onnx", "model_type", json!("nomic_bert"), "graphs of this architecture are not read"),
    ] {
        let model = models.iter().find(|model| model["file"] == file).unwrap();
        let mut config = model["config"].clone();
        config[key] = value;
        if key == "model_type" {
            config["architectures"] = json!(["NomicBertModel"]);
            config.as_object_mut().unwrap().remove("hidden_act");
        }
        let error = HfModel::open(folder(&config, &graph(file)).path()).unwrap_err().to_string();
        assert!(error.contains(wanted), "{file}, {key}: {error}");
    }
    // NaN is close to no number.
    let model = models.iter().find(|model| model["file"] == "electra-fused.onnx").unwrap();
    let mut bytes = graph("electra-fused.onnx");
    let at = bytes.windows(4).position(|four| four == 1e-12_f32.to_le_bytes()).unwrap();
    bytes[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    let error = HfModel::open(folder(&model["config"], &bytes).path()).unwrap_err().to_string();
    assert!(error.contains("adds NaN to the variance"), "{error}");
}

/// Damaged graphs are refused, or read as the same encoder with other numbers; none makes the program fail.
#[test]
fn damaged_graphs_are_refused_or_still_the_encoder() {
    let golden = golden();
    let (mut refused, mut whole) = (0, 0);
    for file in
        ["bert-int8.onnx", "bert-old.onnx", "bert.onnx", "electra-fused.onnx", "electra-fused-int8.onnx"]
    {
        let model = golden["models"].as_array().unwrap().iter().find(|model| model["file"] == file).unwrap();
        let good = graph(file);
        let folder = folder(&model["config"], &good);
        // Nodes stand before the weights.
        let nodes = good.len() / 3;
        for i in 0..400 {
            let at = random(2 * i) as usize % nodes;
            let mut bytes = good.clone();
            match random(2 * i + 1) % 4 {
                0 => bytes[at] ^= 1 << (i % 8),
                1 => bytes[at] = random(3 * i) as u8,
                2 => drop(bytes.remove(at)),
                _ => bytes.swap(at, random(5 * i) as usize % nodes),
            }
            std::fs::write(folder.path().join("onnx/model.onnx"), bytes).unwrap();
            let Ok(found) = HfModel::open(folder.path()) else {
                refused += 1;
                continue;
            };
            whole += 1;
            for part in ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down"] {
                let name = format!("blk.0.{part}.weight");
                assert_eq!(
                    found.composed(&name, &[32, 32], &run_sequentially).unwrap().unwrap().shape,
                    [32, 32]
                );
            }
        }
    }
    assert!(refused > 1000 && whole > 100, "{refused} refused, {whole} opened");
}
