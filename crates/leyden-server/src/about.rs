//! [`About`]: the description of a model that Ollama's `/api/show` gives, of one that is not loaded too.

use crate::defaults::Defaults;
use leyden_engine::Pooling;
use leyden_models::{Labelled, ModelConfig};
use leyden_text::output::OutputFormat;
use leyden_text::{ChatTemplate, FillInMiddle, Tokenizer};

/// Description of a model, which is read off its files without the weights.
#[derive(Clone, Debug)]
pub struct About {
    pub(crate) template: String,
    pub(crate) capabilities: Vec<&'static str>,
    pub(crate) width: usize,
    pub(crate) vocabulary: usize,
    pub(crate) defaults: Defaults,
}

impl About {
    /// Describes a model with a vocabulary of `vocabulary` tokens, whose vectors are made by `pooling`.
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

    /// Adds the values that requests get where they name none.
    #[must_use]
    pub fn with_defaults(self, defaults: Defaults) -> About {
        About { defaults, ..self }
    }
}

/// The tasks of a model, in Ollama's words where it has them. An encoder generates no text; vectors are made of any decoder,
/// but told of those alone whose files say how.
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
    // Tools are called on any model.
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
