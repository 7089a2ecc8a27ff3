//! What is chosen after a step, for all its requests at once.
//!
//! Masks, sampling and probabilities of a request take up to some milliseconds and depend on no other request. They
//! are computed by the threads that have just computed the step: those have nothing to do then, while threads of their
//! own beside the step would take turns with it.

use super::Parts;
use super::active::Active;
use super::job::Work;
use crate::metrics::ModelMetrics;
use leyden_engine::schedule::{Chosen, RequestId, Scheduled, Step};
use leyden_engine::{OutputRow, Outputs, StateRow, StepOutput, TokenLogprobs};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// What a step computed for one request.
struct Entry<'a> {
    scheduled: &'a Scheduled,
    /// Of its prompt.
    prompt: &'a [OutputRow<'a>],
    /// To choose from; the first may be the prompt's last.
    choice: &'a [OutputRow<'a>],
    states: &'a [StateRow<'a>],
    guesses: &'a [u32],
}

impl<'a> Entry<'a> {
    /// Of every entry of a step that wanted anything, in order.
    fn all(step: &'a Step, mut rows: &'a [OutputRow<'a>], mut states: &'a [StateRow<'a>]) -> Vec<Entry<'a>> {
        let mut all = Vec::new();
        for (s, entry) in step.scheduled.iter().zip(&step.plan.entries) {
            let (n_rows, n_states) = match entry.outputs {
                Outputs::None => continue,
                Outputs::Last => (1, 0),
                Outputs::From(from) => (s.tokens - from, 0),
                Outputs::States(from) => (0, s.tokens - from),
            };
            let (own, own_states);
            (own, rows) = rows.split_at(n_rows);
            (own_states, states) = states.split_at(n_states);
            all.push(Entry {
                scheduled: s,
                prompt: &own[..s.rows.min(n_rows)],
                choice: if s.samples { &own[n_rows - s.drafted - 1..] } else { &[] },
                states: own_states,
                guesses: &entry.tokens[s.tokens - s.drafted..],
            });
        }
        all
    }
}

/// What one request has to choose from.
struct Turn<'a> {
    entry: &'a Entry<'a>,
    /// `None` for one that was cancelled.
    active: Option<&'a mut Active>,
    /// What was chosen: tokens, and whether the request ends. Nothing can be for one that was cancelled.
    chosen: (Vec<u32>, bool),
}

/// Gives every request what the step computed for it, and lets it choose.
pub(super) fn choose(
    parts: &Parts,
    step: &Step,
    output: &StepOutput<'_>,
    active: &mut HashMap<RequestId, Active>,
    metrics: &ModelMetrics,
) -> Vec<Chosen> {
    let rows: Vec<OutputRow<'_>> = output.rows().collect();
    let states: Vec<StateRow<'_>> = output.states().collect();
    let entries = Entry::all(step, &rows, &states);
    score(parts, &entries, active);
    let mut actives: HashMap<RequestId, &mut Active> = active.iter_mut().map(|(id, a)| (*id, a)).collect();
    let mut turns = Vec::new();
    for entry in &entries {
        let active = actives.remove(&entry.scheduled.request);
        turns.push(Mutex::new(Turn { entry, active, chosen: (Vec::new(), true) }));
    }
    let now = Instant::now();
    parts.cpu.pool().run(turns.len(), |i| {
        let mut turn = turns[i].lock().unwrap_or_else(PoisonError::into_inner);
        let Turn { entry, active: Some(active), chosen } = &mut *turn else { return };
        active.pool(entry.states);
        if entry.scheduled.samples {
            *chosen = active.answer(parts, entry.choice, entry.guesses, now, metrics);
        }
    });
    let mut all = Vec::new();
    for turn in turns {
        let Turn { entry, chosen: (tokens, stop), .. } =
            turn.into_inner().unwrap_or_else(PoisonError::into_inner);
        let s = entry.scheduled;
        if s.samples {
            metrics.guesses.add(s.drafted);
            metrics.right_guesses.add(tokens.len().saturating_sub(1));
            all.push(Chosen { request: s.request, tokens, stop });
        }
    }
    all
}

/// Tells requests the log probabilities of their prompts' tokens, as far as this step has them.
fn score(parts: &Parts, entries: &[Entry<'_>], active: &mut HashMap<RequestId, Active>) {
    let mut wanted = Vec::new();
    for entry in entries {
        let id = entry.scheduled.request;
        let Some(a) = active.get(&id) else { continue };
        let Work::Text(choice) = &a.work else { continue };
        let Some(top) = choice.logprobs.of_prompt else { continue };
        for row in entry.prompt {
            // Behind the prompt's last token stands none of its own.
            if let Some(token) = a.request.prompt.get(row.position + 1) {
                wanted.push((id, row.logits, *token, top));
            }
        }
    }
    let told: Vec<Mutex<Option<TokenLogprobs>>> = wanted.iter().map(|_| Mutex::new(None)).collect();
    parts.cpu.pool().run(wanted.len(), |i| {
        let (_, logits, token, top) = wanted[i];
        *told[i].lock().unwrap_or_else(PoisonError::into_inner) = Some(TokenLogprobs::of(logits, token, top));
    });
    let mut by_request: Vec<(RequestId, Vec<TokenLogprobs>)> = Vec::new();
    for ((id, ..), told) in wanted.into_iter().zip(told) {
        if by_request.last().is_none_or(|(last, _)| *last != id) {
            by_request.push((id, Vec::new()));
        }
        if let (Some((_, all)), Ok(Some(told))) = (by_request.last_mut(), told.into_inner()) {
            all.push(told);
        }
    }
    for (id, told) in by_request {
        if let Some(a) = active.get_mut(&id) {
            a.score(told);
        }
    }
}
