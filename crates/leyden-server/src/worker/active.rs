//! A choice that waits or runs.

use super::Parts;
use super::job::{Said, Stuck, Work};
use crate::mailbox::{End, Sender};
use crate::metrics::ModelMetrics;
use leyden_engine::schedule::{Request, verify};
use leyden_engine::{ErrorKind, OutputRow, StateRow, TokenLogprobs};
use std::sync::Arc;
use std::time::Instant;

/// A choice in the scheduler.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) work: Work,
    /// For another engine, should this one fail.
    pub(super) request: Request,
    pub(super) mailbox: Arc<Sender>,
    pub(super) choice: usize,
    pub(super) arrived: Instant,
    pub(super) admitted: bool,
    pub(super) generated: usize,
    pub(super) last_token: Option<Instant>,
    /// How it ended, if that was decided here.
    pub(super) end: Option<End>,
}

impl Active {
    /// Chooses the tokens of a text at an entry's rows; they, and whether the answer ends.
    pub(super) fn answer(
        &mut self,
        parts: &Parts,
        rows: &[OutputRow<'_>],
        guesses: &[u32],
        now: Instant,
        metrics: &ModelMetrics,
    ) -> (Vec<u32>, bool) {
        let Work::Text(choice) = &mut self.work else { return (Vec::new(), true) };
        let mut said = Vec::new();
        let mut tokens = Vec::new();
        // An error ends the choosing, also where it only means that the answer is complete.
        let choose = |i: usize| {
            let row = &rows[i];
            let token =
                choice.choose(parts.tokenizer.as_ref(), row.logits, row.position + 1).map_err(Some)?;
            tokens.push(token);
            let what = choice.say(parts.tokenizer.as_ref(), token, row.logits);
            let stops = what.stops;
            said.push(what);
            if stops { Err(None) } else { Ok(token) }
        };
        if let Some(stuck) = verify::<Option<Stuck>>(guesses, choose).err().flatten() {
            self.end = Some(match stuck {
                Stuck::Sampler(error) if matches!(error.kind(), ErrorKind::NotFinite) => End::NotFinite,
                Stuck::Sampler(error) if matches!(error.kind(), ErrorKind::NothingAllowed) => End::Stuck,
                Stuck::Sampler(_) => End::Failed,
                Stuck::Grammar => End::Stuck,
            });
            return (Vec::new(), true);
        }
        let stop = said.iter().any(|s| s.stops);
        let mut held = (Vec::new(), Vec::new());
        if said.iter().any(|s| s.releases) {
            held = choice.finish();
        }
        self.measure(said.iter().filter(|s| s.counts).count(), now, metrics);
        let generated = self.generated;
        let quiet = |s: &Said| s.events.is_empty() && s.logprobs.is_empty() && !s.counts;
        if !said.iter().all(quiet) || !held.0.is_empty() || !held.1.is_empty() {
            self.mailbox.update(self.choice, |u| {
                let said = said.into_iter().map(|s| (s.events, s.logprobs));
                for (events, logprobs) in said.chain([held]) {
                    u.say(events);
                    u.logprobs.extend(logprobs);
                }
                u.generated = generated;
            });
        }
        (tokens, stop)
    }

    /// Takes the log probabilities of more of the prompt's tokens.
    pub(super) fn score(&mut self, told: Vec<TokenLogprobs>) {
        if told.iter().any(|t| t.logprob.is_nan()) {
            self.end = Some(End::NotFinite);
        }
        self.mailbox.update(self.choice, |u| u.prompt_logprobs.extend(told));
    }

    /// Takes the states of a part of the text; with those of its last token there is a vector.
    pub(super) fn pool(&mut self, states: &[StateRow<'_>]) {
        let Work::State(pool) = &mut self.work else { return };
        states.iter().for_each(|row| pool.push(row.position, row.state));
        if states.last().is_none_or(|row| row.position + 1 < self.request.prompt.len()) {
            return;
        }
        let state = pool.vector();
        self.end = Some(if state.iter().all(|x| x.is_finite()) { End::Stop } else { End::NotFinite });
        self.mailbox.update(self.choice, |u| u.state = state);
    }

    fn measure(&mut self, tokens: usize, now: Instant, metrics: &ModelMetrics) {
        if tokens == 0 {
            return;
        }
        match self.last_token {
            None => metrics.first_token.observe(now - self.arrived),
            Some(last) => {
                let each = (now - last) / u32::try_from(tokens).unwrap_or(u32::MAX);
                (0..tokens).for_each(|_| metrics.inter_token.observe(each));
            }
        }
        self.last_token = Some(now);
        self.generated += tokens;
        metrics.generated_tokens.add(tokens);
    }
}
