//! Abilities of models, and the choice of a model for a request without the field `model`.

use crate::error::ApiError;
use hyper::StatusCode;
use leyden_models::ModelConfig;
use leyden_tasks::TaskKind;

/// Bit of speech recognisers, which compute no [`TaskKind`].
const SPEECH: u32 = 1 << 31;

/// Tasks for which a model was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// A bit for each [`TaskKind`].
    tasks: u32,
}

impl Abilities {
    /// Reads the abilities off a configuration; see [`TaskKind::is_trained_for`].
    #[must_use]
    pub fn of(config: &ModelConfig) -> Abilities {
        let tasks = TaskKind::all().filter(|task| task.is_trained_for(config));
        tasks.fold(Abilities::default(), Abilities::with)
    }

    /// Returns the ability of speech recognisers.
    #[must_use]
    pub fn speech() -> Abilities {
        Abilities { tasks: SPEECH }
    }

    /// Adds a task.
    #[must_use]
    pub fn with(self, task: TaskKind) -> Abilities {
        Abilities { tasks: self.tasks | 1 << task as u32 }
    }

    fn has(self, task: TaskKind) -> bool {
        self.tasks >> task as u32 & 1 == 1
    }
}

/// Task that an endpoint needs a model for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequiredAbility {
    /// None in particular.
    Any,
    Task(TaskKind),
    /// Transcription of speech.
    Speech,
}

impl RequiredAbility {
    fn met_by(self, abilities: Abilities) -> bool {
        match self {
            RequiredAbility::Any => true,
            RequiredAbility::Task(task) => abilities.has(task),
            RequiredAbility::Speech => abilities.tasks & SPEECH != 0,
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
            (RequiredAbility::Speech, 0) => "no model transcribes speech".to_owned(),
            (RequiredAbility::Speech, _) => "each of several models transcribes speech".to_owned(),
            (RequiredAbility::Task(task), 0) => format!("no model {}", task.predicate()),
            (RequiredAbility::Task(task), _) => format!("each of several models {}", task.predicate()),
        };
        let message = format!("`model` is missing, and {what}: {}", names.join(", "));
        let error = ApiError::new(StatusCode::BAD_REQUEST, "missing_required_parameter", message);
        Err(ApiError { param: Some("model".to_owned()), ..error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::RequestBody;
    use crate::routes::ROUTES;

    #[test]
    fn the_one_model_that_can_is_meant() {
        let all = [
            ("chat", Abilities::default().with(TaskKind::Generate)),
            ("embed", Abilities::default().with(TaskKind::Embed)),
            ("rank", Abilities::default().with(TaskKind::Classify).with(TaskKind::Rerank)),
            ("mood", Abilities::default().with(TaskKind::Classify)),
        ];
        for (path, wanted) in [
            ("/v1/chat/completions", Ok("chat")),
            ("/completion", Ok("chat")),
            ("/v1/messages", Ok("chat")),
            ("/v1/responses/compact", Ok("chat")),
            ("/embed", Ok("embed")),
            ("/v1/embeddings", Ok("embed")),
            ("/v2/embed", Ok("embed")),
            ("/rerank", Ok("rank")),
            ("/v1/score", Ok("rank")),
            ("/predict", Err("each of several models classifies texts: rank, mood")),
            ("/embed_sparse", Err("no model computes sparse vectors: chat, embed, rank, mood")),
            ("/tokenize", Err("the server has several models: chat")),
        ] {
            let body = ROUTES.iter().find(|route| route.path == path).unwrap().body;
            let RequestBody::Model(wish) = body else { panic!("{path}: {body:?}") };
            let chosen = wish.choose(&all).map(|i| all[i].0);
            match (chosen, wanted) {
                (Ok(name), Ok(wanted)) => assert_eq!(name, wanted, "{path}"),
                (Err(error), Err(wanted)) => assert!(error.message.contains(wanted), "{}", error.message),
                (chosen, _) => panic!("{path}: {chosen:?}"),
            }
        }
    }
}
