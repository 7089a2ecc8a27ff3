//! Every encoder of the goldens as a folder, converted to GGUF and back: the same states, vectors and scores, to the
//! bit, and the same tensors.

use super::converted::{back, converted, same_tensors};
use super::encoders::{
    folder, golden, label_logits, module, modules, sparse, states, texts, values, wanted, with_dense,
    with_splade, with_token_heads,
};
use super::gliner;
use super::shared::engine_on;
use leyden_engine::{Outputs, WholeText};
use leyden_kernels::attention::KvType;
use leyden_kernels::{Cpu, Tier};
use leyden_models::heads::{SpanLogits, TextVector, TokenVectors};
use leyden_models::{ARCHITECTURES, HfModel, Labelled, Pooling, Prompts, ToGguf, config_of};
use leyden_tensor::WeightSource;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use tempfile::TempDir;

/// The folders, each with its name.
pub(crate) fn cases() -> Vec<(String, TempDir)> {
    let golden = golden();
    let models = golden["models"].as_array().unwrap();
    let mut all: Vec<(String, TempDir)> =
        models.iter().map(|model| (model["name"].as_str().unwrap().to_owned(), folder(model))).collect();
    all.push(("dense".to_owned(), with_dense(&models[0]).0));
    all.push(("heads of tokens".to_owned(), with_token_heads(&golden)));
    for model in models.iter().filter(|model| model.get("splade").is_some()) {
        all.push((format!("splade, {}", model["name"]), with_splade(model, "sum")));
    }
    all.push(("decoder with a head, for vectors".to_owned(), decoder_for_vectors(models, false)));
    all.push(("decoder with scaled rotations, for vectors".to_owned(), decoder_for_vectors(models, true)));
    for model in gliner::golden()["models"].as_array().unwrap() {
        all.push((format!("gliner, {}", model["name"]), gliner::folder(model)));
    }
    all
}

/// A folder as that of Qwen3-Embedding: a class with a language model's head, and modules of sentence-transformers.
fn decoder_for_vectors(models: &[Value], scaled: bool) -> TempDir {
    let mut model = models.iter().find(|model| model["name"] == "qwen3, rank").unwrap().clone();
    model["config"]["architectures"] = json!(["Qwen3ForCausalLM"]);
    model["config"]["tie_word_embeddings"] = json!(true);
    model["tensors"].as_array_mut().unwrap().retain(|tensor| tensor[0] != "score.weight");
    if scaled {
        model["config"]["rope_parameters"] = json!({
            "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 16
        });
    }
    let folder = folder(&model);
    modules(&folder, &[("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]);
    module(&folder, "1_Pooling", &json!({"pooling_mode": "lasttoken"}));
    let sentence =
        json!({"prompts": {"query": "Query: "}, "default_prompt_name": "query", "truncate_dim": 8});
    std::fs::write(folder.path().join("config_sentence_transformers.json"), sentence.to_string()).unwrap();
    folder
}

/// The architectures of the goldens' files.
pub(crate) fn architectures() -> BTreeSet<&'static str> {
    let of = |model: &Value| {
        let open = HfModel::open(folder(model).path()).unwrap();
        let made = ToGguf::new(&open).unwrap();
        let (_, name) = made.entries().iter().find(|row| row.0 == "general.architecture").unwrap();
        ARCHITECTURES.iter().map(|row| row.name).find(|known| *name == (*known).into()).unwrap()
    };
    golden()["models"].as_array().unwrap().iter().map(of).collect()
}

/// All that a model makes of texts: states, vectors, scores, numbers of tokens, logits of spans.
fn results(source: Arc<dyn WeightSource>, texts: &[&[u32]]) -> Vec<Vec<f32>> {
    let cpu = Cpu::new(Tier::best(), 2).unwrap().with_exact(true);
    let kv_type =
        if config_of(source.as_ref()).unwrap().needs_whole_texts() { KvType::Q8_0 } else { KvType::F32 };
    let mut e = engine_on(source, cpu, kv_type);
    let config = e.model().config().clone();
    let mut all = Vec::new();
    // Tokens that the model has, as many as it takes.
    let known = |id: &u32| *id % e.model().vocabulary() as u32;
    let texts: Vec<Vec<u32>> =
        texts.iter().map(|text| text.iter().take(config.context).map(known).collect()).collect();
    let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
    for text in &texts {
        let rows = states(&mut e, &[text])[0].clone();
        all.push(rows.concat());
        if let Some(classifier) = config.classifier() {
            let of = match classifier.of {
                Labelled::Text(_) => rows[0].clone(),
                Labelled::Tokens => rows.concat(),
            };
            let mut scores = label_logits(&e, &of);
            classifier.scores(e.cpu().tier(), &mut scores);
            all.push(scores);
        }
        if !config.vector_dense.is_empty() {
            all.push(values(&e, TextVector { pooling: Pooling::Cls }, &rows[0]));
        }
        if config.sparse.is_some() {
            let weights = sparse(&e, &[], text, &rows.concat());
            all.push(weights.into_iter().flat_map(|(id, weight)| [id as f32, weight]).collect());
        }
        if config.token_vectors.is_some() {
            all.push(values(&e, TokenVectors, &rows.concat()));
        }
        if config.spans.is_some() {
            let words: Vec<Range<usize>> = (2..text.len()).map(|at| at..at + 1).collect();
            all.push(values(&e, SpanLogits { words, labels: vec![0, 1] }, &rows.concat()));
        }
    }
    if config.needs_whole_texts() && config.spans.is_none() {
        // The second text of a pair is of another type.
        let pair = Outputs::Whole(WholeText { second: Some(4), first_only: false });
        all.push(wanted(&mut e, &texts[..1], pair)[0].concat());
    }
    all
}

#[test]
fn folders_of_all_encoders_become_files_and_folders_with_the_same_bits() {
    let golden = golden();
    let texts = texts(&golden);
    let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
    let mut wrong = Vec::new();
    for (name, folder) in cases() {
        let check = || -> Result<(), String> {
            let open = |folder: &TempDir| HfModel::open(folder.path()).map_err(|e| e.to_string());
            let model = open(&folder)?;
            let file = converted(&model)?;
            let made = back(&file).map_err(|why| format!("back: {why}"))?;
            same_tensors(folder.path(), made.path())?;
            let said = |source: &dyn WeightSource| {
                let meta = source.metadata();
                let vectors = config_of(source).unwrap().vectors;
                (Pooling::of_metadata(meta).unwrap(), Prompts::of_metadata(meta).unwrap(), vectors)
            };
            if said(&model) != said(&file) {
                return Err(format!("the file says {:?}, the folder {:?}", said(&file), said(&model)));
            }
            let want = results(Arc::new(model), &texts);
            for (what, got) in
                [("file", results(Arc::new(file), &texts)), ("back", results(Arc::new(open(&made)?), &texts))]
            {
                let off = want
                    .iter()
                    .flatten()
                    .zip(got.iter().flatten())
                    .map(|(a, b)| (a - b).abs())
                    .fold(0.0, f32::max);
                // Divisors of a scaled rotation are rounded to F32 in a file.
                if got != want && !(name.contains("scaled rotations") && off < 1e-5) {
                    return Err(format!("{what}: results are off by {off:e}"));
                }
            }
            Ok(())
        };
        if let Err(why) = check() {
            wrong.push(format!("{name}: {why}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
