//! Requests to prompts and outputs to results, without a model's weights.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use leyden_kernels::Tier;
use leyden_models::heads::HeadOutput;
use leyden_models::{ModelConfig, Prompts, config_of_json};
use leyden_tasks::{
    Classify, Compare, ErrorKind, LongDocument, Place, Plan, Preface, Rerank, Task, TaskKind, TaskModel,
    TextInput, TextOptions, Truncation, encode_texts,
};
use leyden_tensor::Json;
use leyden_text::Tokenizer;

const CONFIG: &str = r#"{
    "architectures": ["BertForSequenceClassification"], "model_type": "bert", "hidden_act": "gelu", "hidden_size": 32,
    "intermediate_size": 64, "layer_norm_eps": 1e-12, "max_position_embeddings": 16, "num_attention_heads": 2,
    "num_hidden_layers": 1, "pad_token_id": 0, "position_embedding_type": "absolute", "type_vocab_size": 2,
    "vocab_size": 8, "id2label": {"0": "no"}
}"#;

const TOKENIZER: &[u8] = br#"{
    "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"},
    "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2, "c": 3, "query": 4, "d": 5}}
}"#;

fn config() -> ModelConfig {
    config_of_json(&Json::parse(CONFIG.as_bytes(), "config.json").unwrap()).unwrap()
}

/// Runs a test with a model that takes prompts of 4 tokens.
fn with_model(test: impl FnOnce(&TaskModel<'_>)) {
    let (config, prompts) = (config(), Prompts::default());
    let tokenizer: Box<dyn Tokenizer> =
        leyden_text::from_tokenizer_json(TOKENIZER, "tokenizer.json").unwrap();
    test(&TaskModel {
        config: &config,
        tokenizer: tokenizer.as_ref(),
        template: None,
        prompts: &prompts,
        vocabulary: 8,
        max_tokens: 4,
        counts_excess: true,
        stop: &|| false,
    });
}

fn texts(texts: &[&'static str]) -> Vec<TextInput<'static>> {
    texts.iter().map(|text| TextInput::from(*text)).collect()
}

#[test]
fn errors_have_the_place_and_the_numbers_of_tokens() {
    with_model(|model| {
        let options = TextOptions { preface: Preface::none(), truncation: Truncation::Refuse };
        let error = encode_texts(model, texts(&["a", "a b c", "a b c a b"]), &options).unwrap_err();
        assert_eq!(error.place, Place::Text(2));
        assert!(
            matches!(error.kind, ErrorKind::TooLong { tokens: 5, counted: true, max_tokens: 4 }),
            "{error}"
        );
        assert_eq!(error.to_string(), "text 2: 5 tokens, but the model takes 4");
        let error = encode_texts(model, texts(&["a", ""]), &options).unwrap_err();
        assert!(matches!((error.kind, error.place), (ErrorKind::Empty, Place::Text(1))));
        // A server stops at the limit.
        let early = TaskModel { counts_excess: false, ..*model };
        let error = encode_texts(&early, texts(&["a b c a b a b"]), &options).unwrap_err();
        assert!(matches!(error.kind, ErrorKind::TooLong { counted: false, .. }), "{error}");
        let stopped = TaskModel { stop: &|| true, ..*model };
        assert!(matches!(
            encode_texts(&stopped, texts(&["a"]), &options).unwrap_err().kind,
            ErrorKind::Text(_)
        ));
    });
}

#[test]
fn texts_follow_the_prompt_and_lose_what_is_too_much() {
    with_model(|model| {
        let encode = |truncation, inputs| {
            let options = TextOptions { preface: Preface::Words("query ".to_owned()), truncation };
            encode_texts(model, inputs, &options).unwrap()
        };
        assert_eq!(encode(Truncation::Refuse, texts(&["a b"])), [[4, 1, 2]]);
        assert_eq!(encode(Truncation::End(usize::MAX), texts(&["a b c d"])), [[4, 1, 2, 3]]);
        assert_eq!(encode(Truncation::Beginning(2), texts(&["a b c d"])), [[3, 5]]);
        // Tokens have no prompt.
        assert_eq!(encode(Truncation::End(2), vec![TextInput::Tokens(vec![5, 5, 5])]), [[5, 5]]);
    });
}

#[test]
fn a_document_in_parts_has_the_score_of_its_best_part() {
    with_model(|model| {
        let pairs = [("a", "b"), ("a", "b c d b c")];
        let Plan { prompts, task } =
            Rerank::plan(model, pairs.into_iter(), LongDocument::InParts, true).unwrap();
        assert!(prompts.len() > 2 && prompts.iter().all(|prompt| prompt.ids.len() <= 4), "{prompts:?}");
        let logits = |i: usize| HeadOutput::Logits { labels: 1, values: vec![i as f32] };
        let outputs: Vec<HeadOutput> = (0..prompts.len()).map(logits).collect();
        let best = prompts.len() as f32 - 1.0;
        assert_eq!(task.finish((model.config, Tier::SCALAR), outputs).unwrap(), [0.0, best]);
        let error = Rerank::plan(model, [("a b c d a", "b")].into_iter(), LongDocument::InParts, true);
        let error = error.unwrap_err();
        assert!(matches!((error.kind, error.place), (ErrorKind::QueryTooLong { .. }, Place::Query(0))));
    });
}

#[test]
fn texts_are_compared_with_one_or_with_each() {
    with_model(|model| {
        let options = TextOptions { preface: Preface::none(), truncation: Truncation::Refuse };
        let vectors = [[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]];
        let outputs = || {
            let output = |v: &[f32; 2]| HeadOutput::Vectors { width: 2, values: v.to_vec() };
            vectors.iter().map(output).collect()
        };
        let pooling = leyden_models::Pooling::Mean;
        let plan = Compare::plan(model, texts(&["a", "b", "c"]), &options, (pooling, 1)).unwrap();
        assert_eq!(plan.prompts.len(), 3);
        assert_eq!(plan.task.finish((model.config, Tier::SCALAR), outputs()).unwrap(), [0.0, 1.0]);
    });
}

#[test]
fn a_task_without_its_head_is_refused() {
    with_model(|model| {
        let form = (Truncation::Refuse, false);
        let error = Classify::plan(model, TaskKind::ExtractTokens, texts(&["a"]), form).unwrap_err();
        assert_eq!(error.to_string(), "the model does not extract: it has no head that gives tokens labels");
        let Plan { task, .. } = Classify::plan(model, TaskKind::Classify, texts(&["a"]), form).unwrap();
        // The output of another head is an error and no wrong result.
        let other = vec![HeadOutput::Sparse(Vec::new())];
        assert!(matches!(
            task.finish((model.config, Tier::SCALAR), other).unwrap_err().kind,
            ErrorKind::Output
        ));
    });
}
