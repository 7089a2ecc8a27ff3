//! Estimates of the memory of a request's answers, in bytes.

use crate::worker::{Task, Work};

/// Bytes of a token's text, of a token with its log probability, and of an alternative, as stored in an answer. Most
/// token texts are shorter.
const TEXT: usize = 16;
const TOKEN: usize = 64;
const ALTERNATIVE: usize = size_of::<(u32, f32)>();
/// Bytes of a vector's entry in an answer: its JSON object with its field names and numbers.
const ENTRY: usize = 512;
/// Number of copies: results are collected and then converted, so twice the bytes are allocated at a time.
const COPIES: usize = 2;

/// Returns the maximum bytes of the answers of `tasks`; `width` is the number of values in a token's hidden state.
pub(crate) fn bytes(tasks: &[Task], width: usize) -> usize {
    let of = |task: &Task| match &task.work {
        Work::Head { head, .. } => {
            // A mean needs the states of all tokens, but stores only one vector.
            let rows = if head.pooling().is_none() { task.prompt.len() } else { 1 };
            rows.saturating_mul(width).saturating_mul(size_of::<f32>()).saturating_add(ENTRY)
        }
        Work::Text(choice) => {
            let told = |top: Option<usize>| top.map_or(0, |top| TOKEN + (top + 1) * ALTERNATIVE);
            let generated = TEXT + told(choice.logprobs.top);
            let prompt = told(choice.logprobs.of_prompt);
            let generated = task.max_tokens.saturating_mul(generated);
            generated.saturating_add(task.prompt.len().saturating_mul(prompt))
        }
    };
    tasks.iter().map(of).fold(0, usize::saturating_add).saturating_mul(COPIES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use leyden_engine::Pooling;
    use leyden_models::heads::{Head, TextVector, TokenStates};
    use std::sync::Arc;

    /// Vectors of as many texts as a request may have, for eight clients at a time.
    #[test]
    fn vectors_count_as_vectors_and_states_as_states() {
        let texts = |head: Head, tokens: usize, count: usize| -> Vec<Task> {
            let work = || Work::Head { head: head.clone(), second: None };
            let prompt = Arc::new(vec![0; tokens]);
            let task = || Task { prompt: Arc::clone(&prompt), max_tokens: 0, work: work() };
            (0..count).map(|_| task()).collect()
        };
        let limits = Limits::default();
        for pooling in [Pooling::Mean, Pooling::Cls, Pooling::Last, Pooling::Max] {
            let vectors = bytes(&texts(TextVector { pooling }.into(), 512, limits.embedding_inputs), 1024);
            assert!(vectors >= limits.embedding_inputs * 1024 * size_of::<f32>(), "{pooling:?}");
            assert!(8 * vectors <= limits.answers_bytes, "{pooling:?}: {vectors}");
        }
        let states = bytes(&texts(TokenStates.into(), 512, 2), 1024);
        assert!(states >= 2 * 512 * 1024 * size_of::<f32>());
    }
}
