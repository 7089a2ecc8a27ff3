//! [`DraftPlan`]: number of tokens that a draft model drafts for each request.
//!
//! A draft of `k` tokens costs `k` steps of the draft model, which computes one token of every request with a draft in
//! each, and `k` more rows in the model's own step. Both times are predicted from past steps ([`StepTime`]). With the
//! probability `a` that a draft token is right, it brings `a + a² + … + aᵏ` tokens. The plan is the length and the
//! number of requests, those with the best drafts first, for which the most tokens are expected in a second; none if
//! that is hardly more than without drafts, as in steps of many requests, whose rows cost as much as they bring.
//!
//! A balance bounds the loss if the expectation is wrong, in tokens of all answers: it grows by 2 % of the generated
//! tokens and by accepted ones, and shrinks by the time of drafts. A draft that costs more than the balance is not
//! made. So drafts never cost more than [`START`] tokens and 2 % of the time.
//!
//! The draft model reads a text when its first draft is planned, as far as half of the balance and half of what the rest
//! of the answer is expected to gain pay for that: the whole text or its end. If drafts from the end turn out well, it
//! reads the whole text later.

use super::acceptance::Acceptance;
use super::request::Progress;
use super::step_time::{StepLoad, StepTime};
use std::time::Duration;

/// Maximum number of draft tokens of a request in a step.
pub(crate) const MAX_DRAFT: usize = 8;
/// Share of the generated tokens that may be lost.
const LOSS: f64 = 0.02;
/// Balance at the beginning, and its maximum, in tokens.
const START: f64 = 8.0;
const MAX_BALANCE: f64 = 256.0;
/// Minimum ratio of the expected rate to the rate without drafts.
const WORTH: f64 = 1.03;
/// Expected probability of a right draft token, and expected length of an answer, before the first.
const EXPECTED: f64 = 0.7;
const ANSWER: f64 = 128.0;
/// Factor on the mean length of answers when one is added.
const MEMORY: f64 = 0.9;
/// Number of steps without a draft after which one is tried anyway, its length, and the balance that this needs.
const TRIAL: (u32, usize, f64) = (64, 2, 4.0);
/// Factor on the estimated time of a draft model that has not been measured: it is to be tried.
const UNMEASURED: f64 = 0.5;
/// Number of tokens that a draft model may have to read before it counts as having read the text.
pub(crate) const READ: usize = 2 * MAX_DRAFT;

/// Cost of a draft model relative to the model's, until its own is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DraftCost {
    /// Ratio of the bytes of weights that a step reads.
    pub reading: f64,
    /// Ratio of the multiplications for a token.
    pub computing: f64,
}

/// Request for which tokens may be drafted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    /// Index of its task.
    pub(crate) task: usize,
    /// Probability that a draft token is right.
    pub(crate) rate: f64,
    /// Maximum number of draft tokens.
    pub(crate) most: usize,
    /// Progress of the draft model in its text.
    pub(crate) progress: Progress,
    /// Expected number of tokens still to be generated.
    pub(crate) left: f64,
}

/// Lengths of drafts in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Lengths {
    /// Number of requests with a draft.
    pub(crate) requests: usize,
    /// Number of draft tokens of each of them, if it may have as many.
    pub(crate) tokens: usize,
    /// Ratio of the expected rate to the rate without drafts.
    pub(crate) gain: f64,
    /// Cost of one more draft token, in tokens.
    pub(crate) marginal: f64,
}

/// Measured times, acceptance and balance of a draft model.
#[derive(Clone, Debug)]
pub(crate) struct DraftPlan {
    relative: DraftCost,
    /// Times of the model's steps, and of the draft model's.
    target: StepTime,
    draft: StepTime,
    draft_steps: u32,
    /// Acceptance in all answers.
    all: Acceptance,
    balance: f64,
    answer: f64,
    /// Number of steps since the last draft.
    since: u32,
    /// Cost in tokens of the drafts of the step under way.
    spent: f64,
}

impl DraftPlan {
    pub(crate) fn new(relative: DraftCost) -> DraftPlan {
        DraftPlan {
            relative,
            target: StepTime::default(),
            draft: StepTime::default(),
            draft_steps: 0,
            all: Acceptance::default(),
            balance: START,
            answer: ANSWER,
            since: 0,
            spent: 0.0,
        }
    }

    /// Records the time of a step of the model.
    pub(crate) fn observe(&mut self, load: StepLoad, time: Duration) {
        self.target.observe(load, time);
    }

    /// Records the time of a step of the draft model.
    pub(crate) fn observe_draft(&mut self, load: StepLoad, time: Duration) {
        self.draft_steps = self.draft_steps.saturating_add(1);
        self.draft.observe(load, time);
    }

    /// Returns the expected probability of a right draft token in any answer.
    pub(crate) fn expected(&self) -> f64 {
        self.all.rate(EXPECTED)
    }

    /// Returns the expected number of tokens that an answer of `generated` tokens has still to come.
    pub(crate) fn left(&self, generated: usize) -> f64 {
        let generated = generated as f64;
        (self.answer - generated).max(generated / 2.0).max(16.0)
    }

    /// Records the length of a finished answer.
    pub(crate) fn ended(&mut self, generated: usize) {
        self.answer = self.answer * MEMORY + generated as f64 * (1.0 - MEMORY);
    }

    /// Returns the predicted time in seconds of a step of the draft model.
    fn draft_seconds(&self, load: StepLoad) -> Option<f64> {
        if let Some(seconds) = self.draft.predict(load) {
            return Some(seconds);
        }
        let all = self.target.predict(load)?;
        let reading = self.target.fixed().min(all);
        let seconds = reading * self.relative.reading + (all - reading) * self.relative.computing;
        Some(seconds * UNMEASURED)
    }

    /// Returns the cost of reading one token, in tokens of `decoding` answers in a step of this load.
    fn cost_of_reading(&self, load: StepLoad, decoding: usize) -> Option<f64> {
        let seconds = if self.draft_steps > 0 && self.draft.predict(StepLoad::default()).is_some() {
            self.draft.of_prompt_token()
        } else {
            self.target.of_prompt_token() * self.relative.computing
        };
        Some(seconds / self.target.predict(load)? * decoding as f64)
    }

    /// Returns the best lengths for candidates, the most likely first, in a step of this load with a token of each of
    /// `decoding` answers. Drafts cost at most the balance.
    pub(crate) fn lengths(&self, load: StepLoad, decoding: usize, candidates: &[Candidate]) -> Lengths {
        let mut best = Lengths { gain: WORTH, ..Lengths::default() };
        let Some(plain) = self.target.predict(load) else { return best };
        let n = decoding.max(1) as f64;
        for requests in 1..=candidates.len() {
            let chosen = &candidates[..requests];
            let (mut expected, mut rows, mut drafting, mut before) = (0.0, 0, 0.0, 0.0);
            for tokens in 1..=MAX_DRAFT {
                let longer = || chosen.iter().filter(|c| c.most >= tokens);
                let count = longer().count();
                if count == 0 {
                    break;
                }
                expected += longer().map(|c| c.rate.powi(tokens as i32)).sum::<f64>();
                rows += count;
                let of_step = StepLoad { samples: count as f64, others: 0.0, positions: load.positions };
                let (Some(step), Some(all)) = (
                    self.draft_seconds(of_step),
                    self.target.predict(StepLoad { samples: load.samples + rows as f64, ..load }),
                ) else {
                    break;
                };
                drafting += step;
                // More rows never take less time.
                let added = (all - plain).max(0.0) + drafting;
                let cost = added / plain * n;
                let gain = (n + expected) / n / (1.0 + added / plain);
                if cost > self.balance {
                    break;
                }
                if gain > best.gain {
                    let marginal = (cost - before) / count as f64 * gain;
                    best = Lengths { requests, tokens, gain, marginal };
                }
                before = cost;
            }
        }
        best
    }

    /// Returns the lengths of a trial, if it is time for one.
    pub(crate) fn trial(&mut self, load: StepLoad, decoding: usize, first: &Candidate) -> Lengths {
        self.since = self.since.saturating_add(1);
        let sure = Candidate { rate: 1.0, most: first.most.min(TRIAL.1), ..*first };
        if self.since < TRIAL.0 || self.balance < TRIAL.2 {
            return Lengths::default();
        }
        // Where even right drafts would not pay, there is nothing to try.
        Lengths { marginal: 0.0, ..self.lengths(load, decoding, &[sure]) }
    }

    /// Returns the number of last tokens of its text that the draft model should read for a candidate, given the gain
    /// that is expected of its drafts; `None` for no reading.
    pub(crate) fn reading(
        &self,
        load: StepLoad,
        decoding: usize,
        candidate: &Candidate,
        gain: f64,
    ) -> Option<usize> {
        let each = self.cost_of_reading(load, decoding)?.max(1e-9);
        let share = |part: f64| (candidate.left * (gain - 1.0)).min(self.balance) * part / each;
        let Progress { read, skipped, behind, .. } = candidate.progress;
        if behind <= READ {
            // It drafts from the end of the text alone, and reads all when the drafts have paid for that.
            let all = read + skipped + behind;
            return (all as f64 <= share(0.25)).then_some(all);
        }
        // The drafts themselves need some of the balance.
        let affordable = behind.min(share(0.5) as usize);
        // A text that was read in part is not begun anew.
        (affordable >= behind || read == 0 && affordable >= READ).then_some(affordable)
    }

    /// Records what is drafted in a step: for each of the draft model's steps the number of its rows, the number of
    /// tokens that it read, and the number of draft tokens to be checked.
    pub(crate) fn spend(
        &mut self,
        load: StepLoad,
        decoding: usize,
        steps: &[usize],
        read: usize,
        drafted: usize,
    ) {
        let Some(plain) = self.target.predict(load) else { return };
        let of_rows =
            |rows: &usize| StepLoad { samples: *rows as f64, others: 0.0, positions: load.positions };
        let drafting: f64 = steps.iter().filter_map(|rows| self.draft_seconds(of_rows(rows))).sum();
        let all = self.target.predict(StepLoad { samples: load.samples + drafted as f64, ..load });
        let added = drafting + (all.unwrap_or(plain) - plain).max(0.0);
        let reading = self.cost_of_reading(load, decoding).unwrap_or_default() * read as f64;
        self.spent += added / plain * decoding as f64 + reading;
        self.since = 0;
    }

    /// Records a draft's result, as [`Acceptance::record`] does.
    pub(crate) fn record(&mut self, drafted: usize, accepted: usize, doubt: Option<f64>) {
        self.all.record(drafted, accepted, doubt);
        self.balance += accepted as f64;
    }

    /// Ends a step that generated a token for each of `decoding` answers besides accepted draft tokens.
    pub(crate) fn settle(&mut self, decoding: usize) {
        let earned = LOSS * decoding as f64 - std::mem::take(&mut self.spent);
        self.balance = (self.balance + earned).min(MAX_BALANCE);
    }
}

#[cfg(test)]
mod tests;
