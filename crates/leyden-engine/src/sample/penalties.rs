//! Penalties on tokens that occurred before.
//!
//! The repetition penalty counts tokens of the prompt and of the answer, presence and frequency penalties those of the
//! answer only, as in OpenAI's API and in vLLM.

use super::candidates::Candidates;
use super::params::SamplingParams;
use super::step::{Context, Effect, Step};
use super::tally::Tally;

pub(super) const STEP: Step =
    Step { effect: Effect::Penalises, is_active: |p| !p.penalties.is_neutral(), apply };

/// Lowers the logits of the tokens in the window.
fn apply(p: &SamplingParams, c: &mut Candidates, at: &mut Context<'_>) {
    let p = &p.penalties;
    let from = at.history.len().saturating_sub(p.window);
    let count = |tally: &mut Tally, tokens: &[u32]| {
        tokens.iter().for_each(|&id| tally.update(at.vocabulary, id, |n| n.saturating_add(1)));
    };
    if p.repeat != 1.0 {
        count(at.tally, &at.history[from..]);
        c.adjust(at.tally.ids(), |id, logit| match at.tally.get(id) {
            0 => logit,
            _ if logit > 0.0 => logit / p.repeat,
            _ => logit * p.repeat,
        });
        at.tally.clear();
    }
    if p.frequency != 0.0 || p.presence != 0.0 {
        count(at.tally, &at.history[from.max(at.prompt)..]);
        c.adjust(at.tally.ids(), |id, logit| match at.tally.get(id) {
            0 => logit,
            n => logit - (n as f32 * p.frequency + p.presence),
        });
        at.tally.clear();
    }
}
