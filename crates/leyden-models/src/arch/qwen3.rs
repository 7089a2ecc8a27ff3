//! Qwen3: Llama's blocks with queries and keys normalised per head before RoPE.

use super::qwen2::refuse_windows;
use super::{Architecture, Conversion, DECODER, HfClass, attention_biases};
use crate::config::{HeadClass, HeadConfig, ModelConfig, QkNorm, Reader, Scores, gguf_head, hf_head};
use crate::error::Error;
use crate::pooling::Pooling;
use leyden_kernels::ops::RopePairs;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "qwen3",
    models: "Qwen3, DeepSeek-R1-0528-Qwen3-8B",
    config,
    conversion: Conversion::Both,
    own_keys: &["classifier.output_labels"],
    hf: &[HfClass {
        model_type: "qwen3",
        classes: &["Qwen3ForCausalLM", "Qwen3ForSequenceClassification"],
        head: &[("output", "lm_head"), ("cls.output", "score")],
        biases: |config| {
            refuse_windows(config)?;
            attention_biases(config)
        },
        ..DECODER
    }],
};

/// Prompt of the published rerankers, with their default instruction.
const RANK_PROMPT: &str = "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the \
    Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a \
    web search query, retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n\
    <|im_start|>assistant\n<think>\n\n</think>\n\n";

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let mut config = r.decoder(RopePairs::Halves)?.each(|_, layer| layer.qk_norm = QkNorm::Head);
    let head = match r {
        // Rerankers classify the last token's state as yes or no.
        Reader::Gguf(meta, name) => gguf_head(meta, name, Pooling::Last)?,
        Reader::Hf(hf, _) => Some(hf_head(hf, HeadClass::new(Pooling::Last, None))?),
    };
    if let Some(HeadConfig::Classifier(mut classifier)) = head {
        if matches!(r, Reader::Gguf(..)) && classifier.labels.len() == 2 {
            classifier.scores = Scores::YesNo;
        }
        if classifier.ranks() {
            classifier.prompt.get_or_insert_with(|| RANK_PROMPT.to_owned());
        }
        config.head = HeadConfig::Classifier(classifier);
    }
    Ok(config)
}
