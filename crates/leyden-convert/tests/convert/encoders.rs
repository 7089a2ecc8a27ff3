//! Folders of encoders converted to GGUF and back: configuration, tensors, tokenizer and settings are kept.

use super::folder::tokenizer;
use leyden_convert::{to_folder, to_gguf};
use leyden_models::{HfModel, ModelConfig, Prompts, config_of};
use leyden_tensor::{Gguf, HfFolder, WeightSource};
use leyden_text::Special;
use serde_json::{Value as Json, json};
use std::ops::ControlFlow;
use std::path::Path;

const WIDTH: usize = 32;

/// Returns a file of tensors with distinct numbers.
fn safetensors(tensors: &[(String, Vec<usize>)]) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::<u8>::new());
    for (at, (name, shape)) in tensors.iter().enumerate() {
        let (start, n) = (data.len(), shape.iter().product::<usize>());
        data.extend((0..n).flat_map(|i| (((i * 7 + at) % 31) as f32 / 64.0 - 0.2).to_le_bytes()));
        header.insert(
            name.clone(),
            json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, data.len()] }),
        );
    }
    let header = Json::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

/// Returns the tensors of a BERT-like model, under a prefix.
fn bert(prefix: &str, vocabulary: usize, positions: usize, types: usize) -> Vec<(String, Vec<usize>)> {
    let mut all = vec![
        (format!("{prefix}embeddings.word_embeddings.weight"), vec![vocabulary, WIDTH]),
        (format!("{prefix}embeddings.position_embeddings.weight"), vec![positions, WIDTH]),
        (format!("{prefix}embeddings.token_type_embeddings.weight"), vec![types, WIDTH]),
    ];
    let mut both = |name: &str, shape: Vec<usize>| {
        all.push((format!("{prefix}{name}.bias"), vec![shape[0]]));
        all.push((format!("{prefix}{name}.weight"), shape));
    };
    both("embeddings.LayerNorm", vec![WIDTH]);
    let layer = |part: &str| format!("encoder.layer.0.{part}");
    for part in ["query", "key", "value"] {
        both(&layer(&format!("attention.self.{part}")), vec![WIDTH, WIDTH]);
    }
    both(&layer("attention.output.dense"), vec![WIDTH, WIDTH]);
    both(&layer("attention.output.LayerNorm"), vec![WIDTH]);
    both(&layer("intermediate.dense"), vec![64, WIDTH]);
    both(&layer("output.dense"), vec![WIDTH, 64]);
    both(&layer("output.LayerNorm"), vec![WIDTH]);
    all
}

fn size(document: &Json) -> usize {
    super::folder::size(document)
}

fn config(model_type: &str, class: &str, vocabulary: usize) -> Json {
    json!({
        "model_type": model_type, "architectures": [class], "hidden_size": WIDTH, "intermediate_size": 64,
        "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 40, "type_vocab_size": 2,
        "layer_norm_eps": 1e-5, "hidden_act": "gelu", "vocab_size": vocabulary, "pad_token_id": 1,
        "id2label": { "0": "no", "1": "yes", "2": "maybe" },
    })
}

/// Writes files, in subfolders if their names have any.
fn write(to: &Path, files: &[(&str, Vec<u8>)]) {
    for (name, bytes) in files {
        let path = to.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

/// Converts a folder to GGUF and back, and compares all parts of the model.
fn round(made: &Path) -> ModelConfig {
    let (file, back) = (made.join("model.gguf"), made.join("back"));
    let mut watch = |_: usize, _: usize| ControlFlow::Continue(());
    to_gguf(made, &file, None, &mut watch).unwrap();
    to_folder(&file, &back, None, &mut watch).unwrap();
    let folder = HfModel::open(made).unwrap();
    let gguf = Gguf::open(&file).unwrap();
    let (of_folder, of_file) = (config_of(&folder).unwrap(), config_of(&gguf).unwrap());
    let same = ModelConfig { learned_positions: of_folder.learned_positions.map(|_| 0), ..of_folder.clone() };
    assert_eq!(of_file, same);
    for name in gguf.tensor_names() {
        let (there, here) = (gguf.require(name).unwrap(), folder.require(name).unwrap());
        let skipped = here.bytes().len() - there.bytes().len();
        assert!(skipped == 0 || name == "position_embd.weight", "{name}");
        assert_eq!(there.bytes(), &here.bytes()[skipped..], "{name}");
    }
    assert_eq!(
        Prompts::of_metadata(gguf.metadata()).unwrap(),
        Prompts::of_metadata(folder.metadata()).unwrap()
    );
    let theirs = leyden_text::from_hf(folder.folder()).unwrap();
    let ours = leyden_text::from_gguf(gguf.metadata(), "model.gguf").unwrap();
    for text in ["Hello  World, ﬁne naïve ½", "多国語 русский हिन्दी ไทย", "x_y!=z... \u{200b}z "]
    {
        let ids = ours.encode(text, Special::Parse).unwrap();
        assert_eq!(ids, theirs.encode(text, Special::Parse).unwrap(), "{text}");
    }
    assert_eq!((ours.pair(), ours.bos(), ours.eos()), (theirs.pair(), theirs.bos(), theirs.eos()));
    // The way back gives the same settings and tensors, except rows beyond the last position.
    let again = HfModel::new(HfFolder::open(&back).unwrap()).unwrap();
    assert_eq!(config_of(&again).unwrap(), of_folder);
    let mut names = folder.tensor_names();
    names.sort_unstable();
    let mut found = again.tensor_names();
    found.sort_unstable();
    assert_eq!(found, names);
    for name in names {
        let [a, b] = [&again, &folder].map(|model| model.weights().require(name).unwrap());
        if !name.contains("position_embeddings") {
            assert_eq!((a.shape(), a.bytes()), (b.shape(), b.bytes()), "{name}");
        }
        assert_eq!(a.shape(), b.shape(), "{name}");
    }
    of_folder
}

#[test]
fn a_model_for_vectors_keeps_its_modules_and_prompts() {
    let document = tokenizer("bert_uncased");
    let vocabulary = size(&document);
    let made = tempfile::tempdir().unwrap();
    let modules = json!([
        { "idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer" },
        { "idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling" },
        { "idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense" },
    ]);
    let dense = json!({ "in_features": WIDTH, "out_features": 16, "bias": true, "activation_function": "torch.nn.modules.activation.Tanh" });
    let sentence =
        json!({ "prompts": { "query": "query: " }, "default_prompt_name": "query", "truncate_dim": 8 });
    let linear = [("linear.weight".to_owned(), vec![16, WIDTH]), ("linear.bias".to_owned(), vec![16])];
    write(
        made.path(),
        &[
            ("config.json", config("bert", "BertModel", vocabulary).to_string().into()),
            ("tokenizer.json", document.to_string().into()),
            (
                "tokenizer_config.json",
                json!({ "tokenizer_class": "BertTokenizer", "do_lower_case": false }).to_string().into(),
            ),
            ("modules.json", modules.to_string().into()),
            ("1_Pooling/config.json", json!({ "pooling_mode": "max" }).to_string().into()),
            ("2_Dense/config.json", dense.to_string().into()),
            ("2_Dense/model.safetensors", safetensors(&linear)),
            ("config_sentence_transformers.json", sentence.to_string().into()),
            (
                "sentence_bert_config.json",
                json!({ "max_seq_length": 24, "do_lower_case": true }).to_string().into(),
            ),
            ("model.safetensors", safetensors(&bert("", vocabulary, 40, 2))),
        ],
    );
    let config = round(made.path());
    assert_eq!((config.context, config.usual_dimensions(), config.vector_width()), (24, 8, 16));
}

#[test]
fn classifiers_keep_their_heads_and_positions_their_places() {
    for (model_type, class, prefix, head, of) in [
        ("bert", "BertForSequenceClassification", "bert.", &["bert.pooler.dense", "classifier"][..], 2),
        ("bert", "BertForTokenClassification", "bert.", &["classifier"], 2),
        (
            "roberta",
            "RobertaForSequenceClassification",
            "roberta.",
            &["classifier.dense", "classifier.out_proj"],
            1,
        ),
    ] {
        let document = tokenizer("bert_cased");
        let vocabulary = size(&document);
        let made = tempfile::tempdir().unwrap();
        let mut tensors = bert(prefix, vocabulary, 40, of);
        for (i, name) in head.iter().enumerate() {
            let rows = if i + 1 == head.len() { 3 } else { WIDTH };
            tensors.push((format!("{name}.weight"), vec![rows, WIDTH]));
            tensors.push((format!("{name}.bias"), vec![rows]));
        }
        let mut config = config(model_type, class, vocabulary);
        config["type_vocab_size"] = json!(of);
        write(
            made.path(),
            &[
                ("config.json", config.to_string().into()),
                ("tokenizer.json", document.to_string().into()),
                ("model.safetensors", safetensors(&tensors)),
            ],
        );
        let config = round(made.path());
        assert!(config.head != leyden_models::HeadConfig::States, "{class}");
    }
}
