//! [`About`]: description of a model for Ollama's `/api/show`, also of a model that is not loaded.

use crate::defaults::Defaults;
use leyden_engine::Pooling;
use leyden_models::{Labelled, ModelConfig};
use leyden_text::output::OutputFormat;
use leyden_text::{ChatTemplate, FillInMiddle, Tokenizer};

/// Description of a model, read from its files without the weights.
#[derive(Clone, Debug)]
pub struct About {
    pub(crate) template: String,
    pub(crate) capabilities: Vec<&'static str>,
    pub(crate) width: usize,
    pub(crate) vocabulary: usize,
    pub(crate) defaults: Defaults,
}

impl About {
    /// Describes a speech recogniser.
    #[must_use]
    pub fn speech(width: usize, vocabulary: usize) -> About {
        About {
            template: String::new(),
            capabilities: vec!["transcription"],
            width,
            vocabulary,
            defaults: Defaults::default(),
        }
    }

    /// Describes a model with a vocabulary of `vocabulary` tokens and vectors made by `pooling`.
    #[must_use]
    pub fn new(
        config: &ModelConfig,
        pooling: Pooling,
        tokenizer: &dyn Tokenizer,
        template: Option<&ChatTemplate>,
        vocabulary: usize,
    ) -> About {
        let fills = config.generates() && FillInMiddle::of(tokenizer).is_some();
        let format = template.map_or_else(OutputFormat::plain, OutputFormat::detect);
        About {
            template: template.map_or_else(String::new, |template| template.source().to_owned()),
            capabilities: capabilities(config, pooling, fills, &format),
            width: config.width,
            vocabulary,
            defaults: Defaults::default(),
        }
    }

    /// Adds the default values of request fields.
    #[must_use]
    pub fn with_defaults(self, defaults: Defaults) -> About {
        About { defaults, ..self }
    }
}

/// Returns the tasks of a model, in Ollama's words where it has them. An encoder generates no text; any decoder can
/// make vectors, but `embedding` is listed only if the model's files name a pooling.
pub(crate) fn capabilities(
    config: &ModelConfig,
    pooling: Pooling,
    fills: bool,
    format: &OutputFormat,
) -> Vec<&'static str> {
    if !config.generates() {
        return vec![match config.classifier() {
            Some(head) if !matches!(head.of, Labelled::Text(_)) => "extract",
            Some(head) if head.ranks() => "rerank",
            Some(_) => "classify",
            None if config.spans.is_some() => "extract",
            None => "embedding",
        }];
    }
    // Tools can be called on any model.
    let mut all = vec!["completion", "tools"];
    if fills {
        all.push("insert");
    }
    if pooling != Pooling::default() {
        all.push("embedding");
    }
    if format.reasoning().is_some() || format.is_harmony() {
        all.push("thinking");
    }
    all
}
