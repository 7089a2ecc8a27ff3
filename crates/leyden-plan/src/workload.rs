//! [`Workload`]: use of a model.

use leyden_kernels::attention::KvType;
use serde::Serialize;

/// Use of a model by several users at a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Workload {
    /// Users at the same time; each sends a prompt, gets an answer, and sends the next.
    pub users: usize,
    /// Tokens of a prompt.
    pub prompt: usize,
    /// Tokens of an answer.
    pub output: usize,
    /// Tokens of context that memory is kept for, per user.
    pub context: usize,
    /// Most tokens in one step.
    pub step_tokens: usize,
    /// Storage type of keys and values.
    #[serde(serialize_with = "name")]
    pub kv_type: KvType,
}

fn name<S: serde::Serializer>(kv_type: &KvType, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(kv_type.name())
}
