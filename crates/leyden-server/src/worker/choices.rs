//! What is chosen after a step, for all its requests at once.
//!
//! Masks, sampling and probabilities of a request take up to some milliseconds and depend on no other request. They
//! are computed by the threads that have just computed the step: those have nothing to do then, while threads of their
//! own beside the step would take turns with it.

use super::Parts;
use super::active::Active;
use crate::metrics::ModelMetrics;
use leyden_engine::schedule::{Chosen, RequestId, Step};
use leyden_engine::{OutputRow, Outputs, StateRow, StepOutput};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// What one request has to choose from.
struct Turn<'a> {
    /// `None` for one that was cancelled.
    active: Option<&'a mut Active>,
    rows: &'a [OutputRow<'a>],
    states: &'a [StateRow<'a>],
    guesses: &'a [u32],
    /// What was chosen: tokens, and whether the request ends.
    chosen: Option<(Vec<u32>, bool)>,
}

/// Lets every request of a step choose.
pub(super) fn choose(
    parts: &Parts,
    step: &Step,
    output: &StepOutput<'_>,
    active: &mut HashMap<RequestId, Active>,
    metrics: &ModelMetrics,
) -> Vec<Chosen> {
    let rows: Vec<OutputRow<'_>> = output.rows().collect();
    let states: Vec<StateRow<'_>> = output.states().collect();
    let (mut rest, mut rest_of_states) = (&rows[..], &states[..]);
    let mut actives: HashMap<RequestId, &mut Active> = active.iter_mut().map(|(id, a)| (*id, a)).collect();
    let mut turns = Vec::new();
    for (s, entry) in step.scheduled.iter().zip(&step.plan.entries) {
        let (n_rows, n_states) = match entry.outputs {
            Outputs::None => continue,
            Outputs::Last | Outputs::From(_) => (s.drafted + 1, 0),
            Outputs::States(_) => (0, entry.tokens.len()),
        };
        let (rows, states);
        (rows, rest) = rest.split_at(n_rows);
        (states, rest_of_states) = rest_of_states.split_at(n_states);
        let guesses = &entry.tokens[s.tokens - s.drafted..];
        let turn = Turn { active: actives.remove(&s.request), rows, states, guesses, chosen: None };
        turns.push((s, Mutex::new(turn)));
    }
    let now = Instant::now();
    parts.cpu.pool().run(turns.len(), |i| {
        let (scheduled, turn) = &turns[i];
        let mut turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let Turn { active, rows, states, guesses, chosen } = &mut *turn;
        let Some(active) = active else { return };
        *chosen = if states.is_empty() {
            Some(active.answer(parts, rows, guesses, now, metrics))
        } else {
            active.pool(states, scheduled.samples)
        };
    });
    let mut all = Vec::new();
    for (s, turn) in turns.into_iter().filter(|(s, _)| s.samples) {
        let turn = turn.into_inner().unwrap_or_else(PoisonError::into_inner);
        // The scheduler wants a token of those who were cancelled, too.
        let (tokens, stop) = turn.chosen.unwrap_or_else(|| (vec![0], true));
        metrics.guesses.add(s.drafted);
        metrics.right_guesses.add(tokens.len() - 1);
        all.push(Chosen { request: s.request, tokens, stop });
    }
    all
}
