//! Choice of a request, waiting or running.

use super::job::{Said, Stuck, Work};
use crate::mailbox::{End, Sender};
use crate::metrics::ModelMetrics;
use leyden_engine::sample::Proposal;
use leyden_engine::schedule::{Arrival, verify};
use leyden_engine::{Answer, Error, ErrorKind, OutputRow, TokenLogprobs};
use leyden_models::heads::HeadOutput;
use leyden_text::Tokenizer;
use std::sync::Arc;
use std::time::Instant;

/// Choice in the scheduler.
pub(super) struct Active {
    pub(super) work: Work,
    pub(super) tokenizer: Arc<dyn Tokenizer>,
    pub(super) metrics: Arc<ModelMetrics>,
    pub(super) mailbox: Arc<Sender>,
    pub(super) choice: usize,
    pub(super) arrived: Instant,
    pub(super) admitted: bool,
    pub(super) generated: usize,
    /// Numbers of draft tokens, and of accepted ones.
    pub(super) drafts: (usize, usize),
    /// Times of the first and the last token.
    pub(super) first_token: Option<Instant>,
    pub(super) last_token: Option<Instant>,
    pub(super) arrival: Arrival,
    /// End of the choice, if it was decided here and not by the scheduler.
    pub(super) end: Option<End>,
}

impl Answer for Active {
    fn scores(&self) -> Option<usize> {
        match &self.work {
            Work::Text(choice) => choice.logprobs.of_prompt,
            Work::Head { .. } => None,
        }
    }

    fn score(&mut self, scored: Vec<TokenLogprobs>) {
        if scored.iter().any(|t| t.logprob.is_nan()) {
            self.end = Some(End::NotFinite);
        }
        self.mailbox.update(self.choice, |u| u.prompt_logprobs.extend(scored));
    }

    fn output(&mut self, output: Result<HeadOutput, Error>) {
        match output {
            Ok(output) => {
                self.end = Some(End::Stop);
                self.metrics.service_level.first_token(self.arrived.elapsed());
                self.mailbox.update(self.choice, |u| u.output = Some(output));
            }
            Err(_) => self.end = Some(End::NotFinite),
        }
    }

    fn propose(&mut self, logits: &[f32], position: usize) -> Option<Proposal> {
        let Work::Text(choice) = &mut self.work else { return None };
        choice.propose(self.tokenizer.as_ref(), logits, position)
    }

    fn choose(&mut self, rows: &[OutputRow<'_>], draft: &[u32]) -> (Vec<u32>, bool) {
        let Work::Text(choice) = &mut self.work else { return (Vec::new(), true) };
        let tokenizer = &self.tokenizer;
        let mut said = Vec::new();
        let mut tokens = Vec::new();
        // An error ends the sampling; `None` means that the answer is complete.
        let choose = |i: usize| {
            let row = &rows[i];
            let token = choice.choose(tokenizer.as_ref(), row.logits, row.position + 1).map_err(Some)?;
            tokens.push(token);
            let what = choice.say(tokenizer.as_ref(), token, row.logits);
            let stops = what.stops;
            said.push(what);
            if stops { Err(None) } else { Ok(token) }
        };
        if let Some(stuck) = verify::<Option<Stuck>>(draft, choose).err().flatten() {
            self.end = Some(match stuck {
                Stuck::Sampler(error) if matches!(error.kind(), ErrorKind::NotFinite) => End::NotFinite,
                Stuck::Sampler(error) if matches!(error.kind(), ErrorKind::NothingAllowed) => End::Stuck,
                Stuck::Sampler(_) => End::Failed,
                Stuck::Grammar => End::Stuck,
            });
            return (Vec::new(), true);
        }
        self.drafts = (self.drafts.0 + draft.len(), self.drafts.1 + tokens.len().saturating_sub(1));
        let drafts = self.drafts;
        let stop = said.iter().any(|s| s.stops);
        let mut held = (Vec::new(), Vec::new());
        if said.iter().any(|s| s.releases) {
            held = choice.finish();
        }
        self.measure(said.iter().filter(|s| s.counts).count());
        let generated = self.generated;
        let quiet = |s: &Said| s.events.is_empty() && s.logprobs.is_empty() && !s.counts;
        if !said.iter().all(quiet) || !held.0.is_empty() || !held.1.is_empty() {
            self.mailbox.update(self.choice, |u| {
                let said = said.into_iter().map(|s| (s.events, s.logprobs));
                for (events, logprobs) in said.chain([held]) {
                    u.say(events);
                    u.logprobs.extend(logprobs);
                }
                (u.generated, u.drafts) = (generated, drafts);
            });
        }
        (tokens, stop)
    }
}

impl Active {
    fn measure(&mut self, tokens: usize) {
        if tokens == 0 {
            return;
        }
        let (now, metrics) = (Instant::now(), &self.metrics);
        match self.last_token {
            None => {
                metrics.first_token.observe(now - self.arrived);
                metrics.service_level.first_token(now - self.arrived);
                self.first_token = Some(now);
            }
            Some(last) => {
                let each = (now - last) / u32::try_from(tokens).unwrap_or(u32::MAX);
                (0..tokens).for_each(|_| metrics.inter_token.observe(each));
                metrics.service_level.between_tokens(now - last);
            }
        }
        self.last_token = Some(now);
        self.generated += tokens;
        metrics.generated_tokens.add(tokens);
    }
}
