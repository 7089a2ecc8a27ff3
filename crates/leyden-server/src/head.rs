//! What all documents of an answer begin with, whole or in pieces, chat or completion.

use crate::app::{Served, unix_time};
use crate::generate::Running;
use crate::request::Common;
use crate::usage::Usage;
use serde_json::{Value, json};
use std::sync::Arc;

/// The names of a kind of answer: what its ids begin with, and what a whole one and a piece are called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    pub(crate) id: &'static str,
    pub(crate) whole: &'static str,
    pub(crate) piece: &'static str,
}

/// The beginning of an answer's documents.
pub(crate) struct Head {
    names: Names,
    id: String,
    created: u64,
    seed: i64,
    /// Whether a stream ends with what was used.
    usage: bool,
    /// How many alternatives are wanted with each token, if logarithmic probabilities are.
    pub(crate) logprobs: Option<usize>,
    pub(crate) model: Arc<Served>,
}

impl Head {
    pub(crate) fn new(names: Names, running: &Running, common: &Common, logprobs: Option<usize>) -> Head {
        Head {
            names,
            id: format!("{}-{}", names.id, running.id()),
            created: unix_time(),
            seed: common.sampling.params.seed.cast_signed(),
            usage: common.usage_in_stream,
            logprobs,
            model: Arc::clone(&common.model),
        }
    }

    fn json(&self, object: &str, choices: &[Value]) -> Value {
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model.name,
            "choices": choices,
            "seed": self.seed,
            "system_fingerprint": concat!("leyden-", env!("CARGO_PKG_VERSION")),
        })
    }

    /// A whole answer.
    pub(crate) fn whole(&self, choices: &[Value], usage: Usage) -> Value {
        let mut shown = self.json(self.names.whole, choices);
        shown["usage"] = usage.json();
        shown
    }

    /// A piece of a stream.
    pub(crate) fn piece(&self, choice: Value) -> Value {
        let mut shown = self.json(self.names.piece, &[choice]);
        if self.usage {
            shown["usage"] = Value::Null;
        }
        shown
    }

    /// What a stream ends with: what was used, where that is wanted.
    pub(crate) fn last(&self, usage: Usage) -> Vec<Value> {
        if !self.usage {
            return Vec::new();
        }
        let mut shown = self.json(self.names.piece, &[]);
        shown["usage"] = usage.json();
        vec![shown]
    }
}

/// A logarithmic probability. Minus infinity is not JSON; OpenAI's number for "nearly impossible" stands in for it.
pub(crate) fn shown(logprob: f32) -> Value {
    if logprob.is_finite() { json!(logprob) } else { json!(-9999.0) }
}
