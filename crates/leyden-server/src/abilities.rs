//! Abilities of models, and the choice of a model for a request without the field `model`.

use hyper::StatusCode;
use leyden_models::{HeadConfig, Labelled, ModelConfig};

use crate::error::ApiError;

/// Tasks for which a model was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    text: bool,
    vectors: bool,
    sparse: bool,
    labels: bool,
    ranks: bool,
}

impl Abilities {
    /// Reads the abilities off a configuration. `vectors` means a model without any other head: the states of any model can be
    /// pooled, but only such a model was trained for it.
    #[must_use]
    pub fn of(config: &ModelConfig) -> Abilities {
        let classifier = config.classifier();
        Abilities {
            text: config.generates(),
            vectors: config.head == HeadConfig::States && config.sparse.is_none() && config.spans.is_none(),
            sparse: config.sparse.is_some(),
            labels: classifier.is_some_and(|classifier| matches!(classifier.of, Labelled::Text(_))),
            ranks: classifier.is_some_and(|classifier| classifier.ranks()),
        }
    }
}

/// Ability that an endpoint requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequiredAbility {
    /// No particular ability.
    Any,
    Text,
    Vectors,
    Sparse,
    Labels,
    Ranks,
}

impl RequiredAbility {
    /// Returns the ability that the route with this path requires.
    pub(crate) fn of_route(path: &str) -> RequiredAbility {
        match path.trim_start_matches("/v1").trim_start_matches("/v2") {
            "/chat/completions" | "/completions" | "/completion" | "/infill" | "/messages" | "/responses"
            | "/apply-template" => RequiredAbility::Text,
            "/chat/completions/input_tokens" | "/responses/input_tokens" | "/messages/count_tokens" => {
                RequiredAbility::Text
            }
            "/embeddings" | "/embedding" | "/embed" | "/embed_all" | "/similarity" => {
                RequiredAbility::Vectors
            }
            "/embed_sparse" => RequiredAbility::Sparse,
            "/predict" | "/classify" => RequiredAbility::Labels,
            "/rerank" | "/reranking" | "/score" => RequiredAbility::Ranks,
            _ => RequiredAbility::Any,
        }
    }

    fn met_by(self, abilities: Abilities) -> bool {
        match self {
            RequiredAbility::Any => true,
            RequiredAbility::Text => abilities.text,
            RequiredAbility::Vectors => abilities.vectors,
            RequiredAbility::Sparse => abilities.sparse,
            RequiredAbility::Labels => abilities.labels,
            RequiredAbility::Ranks => abilities.ranks,
        }
    }

    /// Returns the predicate for messages: "no model ...", "each ...".
    fn words(self) -> &'static str {
        match self {
            RequiredAbility::Any => "answers",
            RequiredAbility::Text => "generates text",
            RequiredAbility::Vectors => "is an embedding model",
            RequiredAbility::Sparse => "computes sparse vectors",
            RequiredAbility::Labels => "classifies texts",
            RequiredAbility::Ranks => "reranks documents",
        }
    }

    /// Returns the index of the only model with the ability. The models are given with their names.
    ///
    /// # Errors
    /// 400: there is none, or there are several.
    pub(crate) fn choose(self, models: &[(&str, Abilities)]) -> Result<usize, ApiError> {
        let able: Vec<usize> = (0..models.len()).filter(|i| self.met_by(models[*i].1)).collect();
        if let [one] = able[..] {
            return Ok(one);
        }
        let among = if able.is_empty() { (0..models.len()).collect() } else { able.clone() };
        let names: Vec<&str> = among.iter().map(|i| models[*i].0).collect();
        let what = match (self, able.len()) {
            (RequiredAbility::Any, _) => "the server has several models".to_owned(),
            (_, 0) => format!("no model {}", self.words()),
            _ => format!("each of several models {}", self.words()),
        };
        let message = format!("`model` is missing, and {what}: {}", names.join(", "));
        let error = ApiError::new(StatusCode::BAD_REQUEST, "missing_required_parameter", message);
        Err(ApiError { param: Some("model".to_owned()), ..error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::ROUTES;

    #[test]
    fn the_one_model_that_can_is_meant() {
        let none = Abilities::default();
        let all = [
            ("chat", Abilities { text: true, ..none }),
            ("embed", Abilities { vectors: true, ..none }),
            ("rank", Abilities { labels: true, ranks: true, ..none }),
            ("mood", Abilities { labels: true, ..none }),
        ];
        for (path, wanted) in [
            ("/v1/chat/completions", Ok("chat")),
            ("/completion", Ok("chat")),
            ("/v1/messages", Ok("chat")),
            ("/embed", Ok("embed")),
            ("/v1/embeddings", Ok("embed")),
            ("/v2/embed", Ok("embed")),
            ("/rerank", Ok("rank")),
            ("/v1/score", Ok("rank")),
            ("/predict", Err("each of several models classifies texts: rank, mood")),
            ("/embed_sparse", Err("no model computes sparse vectors: chat, embed, rank, mood")),
            ("/tokenize", Err("the server has several models: chat")),
        ] {
            assert!(ROUTES.iter().any(|route| route.path == path), "{path}");
            let chosen = RequiredAbility::of_route(path).choose(&all).map(|i| all[i].0);
            match (chosen, wanted) {
                (Ok(name), Ok(wanted)) => assert_eq!(name, wanted, "{path}"),
                (Err(error), Err(wanted)) => assert!(error.message.contains(wanted), "{}", error.message),
                (chosen, _) => panic!("{path}: {chosen:?}"),
            }
        }
    }
}
