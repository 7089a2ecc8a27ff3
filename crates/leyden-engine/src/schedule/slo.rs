//! Admission under a [`Promise`](super::Promise).
//!
//! A waiting request is admitted if the predicted times of steps ([`StepTime`](super::StepTime)) keep the promise for it and for all
//! running requests: its first token comes in time, after the prompts being computed, and a step with one more decoding
//! request is short enough. It waits while that may still become true, and is refused as soon as it cannot: when even
//! an idle engine would be too late, or the requests before it take too long. In each step, prompts get the time that
//! decoding requests can spare: the one that is least ahead of its promised speed decides.
//!
//! Predictions have margins that follow their errors: of steps in [`StepTime`](super::StepTime), of first tokens in [`Slo::late`].
//!
//! **Fairness.** A refused request is told when to come back. Until then a place is kept for its key: requests of keys
//! that had more service and have more running requests are admitted only if the refused one would fit, too. The same
//! holds for passing a request that waits. Admitted requests are not preempted for other keys.

use super::Scheduler;
use super::priority_ageing;
use super::request::{Decision, KeyId, PromptRows, RequestId, SloRefusal, Step};
use super::slo_state::{Outlook, Places, Slo, Work};
use super::step_time::StepLoad;
use super::task::Task;
use crate::tables::BlockTables;
use leyden_kernels::attention::BLOCK_TOKENS;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time without a step after which an idle engine admits a request whatever the predictions say, to measure again.
const STALE: Duration = Duration::from_secs(10);
/// As [`STALE`], for a prompt of more than twice the usual length, which is more likely to be too long.
const STALE_FOR_LONG: Duration = Duration::from_secs(120);
/// Minimum of prompt tokens in a step with decoding requests, so that admitted prompts are computed even if a prediction
/// was wrong.
const MIN_CHUNK: f64 = 8.0;
/// Number of steps by which a decoding request may be behind its promised speed and still be waited for: one that was
/// preempted or stood still would otherwise hold up all prompts for the rest of its answer.
const MAX_STEPS_BEHIND: f64 = 8.0;
/// Maximum number of steps of a prediction; longer times are extrapolated.
const MAX_STEPS: usize = 512;

/// Decision on a waiting request that is next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// It is admitted.
    Admit,
    /// It waits; others that need less may go first.
    Wait,
    /// It waits, and so do all others.
    Full,
}

impl Scheduler {
    /// Records the time of a step that was committed or abandoned, without that of drafting, from which admission under
    /// a promise and drafts of a draft model predict the times of others.
    pub fn observe(&mut self, step: &Step, time: Duration) {
        if let Some(drafts) = &mut self.drafts {
            drafts.observe(super::drafting::load(step), time);
        }
        let Some(slo) = &mut self.slo else { return };
        let mut load = StepLoad::default();
        for s in &step.scheduled {
            let samples = f64::from(u8::from(s.samples));
            load.samples += samples;
            load.others += s.tokens as f64 - samples;
            load.positions += s.tokens as f64 * (s.position as f64 + s.tokens as f64 / 2.0);
        }
        slo.time.observe(load, time);
        let seconds = time.as_secs_f64();
        slo.mean_step = if slo.mean_step == 0.0 { seconds } else { slo.mean_step * 0.95 + seconds * 0.05 };
        let at = slo.planned + time;
        slo.measured = Some(at);
        for task in &mut self.running {
            if task.generated() > 0 && task.served.first_token.is_none() {
                task.served.first_token = Some(at);
                slo.first_token(&task.served, at);
            }
        }
        for (served, generated) in std::mem::take(&mut slo.ended) {
            if served.first_token.is_none() {
                slo.first_token(&served, at);
            }
            if generated > 0 {
                slo.answered(generated);
            }
        }
    }

    /// Records the time of a step that was computed before any request, to know the machine's speed.
    pub fn calibrate(&mut self, load: StepLoad, time: Duration) {
        if let Some(slo) = &mut self.slo {
            slo.time.observe(load, time);
            slo.mean_step = time.as_secs_f64();
            slo.measured = Some(Duration::ZERO);
        }
    }

    /// Returns what a request that arrives now can expect; `None` without a promise.
    #[must_use]
    pub fn outlook(&self, now: Duration) -> Option<Outlook> {
        let slo = self.slo.as_ref()?;
        let known = slo.decode(1.0, slo.mean_prompt).is_some();
        let own = Work { cost: slo.mean_prompt, decodes_at: Some(slo.mean_prompt) };
        let (n, positions) = self.generating();
        let more = slo.decode(n + 1.0, positions + slo.mean_prompt + slo.mean_answer / 2.0);
        Some(Outlook {
            ttft: known.then(|| self.time_to_first_token(slo, now, &[own])),
            user_tps: more.map(|step| 1.0 / step),
            admitted: slo.admitted,
            delayed: slo.delayed,
            refused: slo.refused,
        })
    }

    /// Returns the number of running requests that generate tokens, and the sum of their expected positions.
    fn generating(&self) -> (f64, f64) {
        let expected = self.slo.as_ref().map_or(0.0, |slo| slo.mean_answer / 2.0);
        let tasks = self.running.iter().filter(|t| t.generates());
        let positions = |t: &Task| (t.tokens.len() as f64 + expected).min(t.limit as f64);
        tasks.fold((0.0, 0.0), |(n, sum), t| (n + 1.0, sum + positions(t)))
    }

    /// Returns the work on the rest of a prompt of which `computed` tokens are computed or cached, and on further
    /// prompts of its request.
    fn work(&self, task: &Task, computed: usize) -> Work {
        let n = (task.tokens.len() - computed.min(task.tokens.len())) as f64;
        let deep = self.options.position_cost;
        let more = task.served.arrival.more_tokens as f64;
        let cost = n + deep * n * (computed as f64 + n / 2.0) + more;
        Work { cost, decodes_at: task.generates().then_some(task.tokens.len() as f64) }
    }

    /// Returns the work on prompts that are being computed, the earliest first.
    fn prompts_under_way(&self) -> Vec<Work> {
        let mut tasks: Vec<&Task> = self.running.iter().filter(|t| !t.decodes()).collect();
        tasks.sort_by_key(|t| t.order);
        tasks.into_iter().map(|t| self.work(t, t.computed)).collect()
    }

    /// Returns the least time in seconds by which a decoding request is ahead of its promised speed, with the time of
    /// the next token; infinity if no speed is promised or no request decodes.
    pub(super) fn least_ahead(&self, slo: &Slo, now: Duration) -> f64 {
        let Some(budget) = slo.mean_budget() else { return f64::INFINITY };
        let ahead = |t: &Task| {
            let since = t.served.first_token.map_or(0.0, |first| now.saturating_sub(first).as_secs_f64());
            let ahead = t.generated() as f64 * budget - since;
            if ahead < -MAX_STEPS_BEHIND * budget { budget } else { ahead }
        };
        self.running.iter().filter(|t| t.decodes()).map(ahead).fold(f64::INFINITY, f64::min)
    }

    /// Returns the maximum cost of prompts and drafts in a step with decoding requests, in tokens at the beginning of a
    /// text: that which the promise leaves.
    pub(super) fn promised_prompt_tokens(&self, now: Duration) -> usize {
        let most = self.options.prompt_tokens_beside_decode;
        let Some(slo) = &self.slo else { return most };
        let decoding = self.running.iter().filter(|t| t.decodes());
        let (n, positions) = decoding.fold((0.0, 0.0), |(n, sum), t| (n + 1.0, sum + t.tokens.len() as f64));
        let Some(decode) = slo.decode(n, positions) else { return most };
        let time = self.least_ahead(slo, now).min(slo.step_budget()) - decode;
        // The conversion saturates.
        ((time / slo.time.of_prompt_token()).max(MIN_CHUNK) as usize).clamp(1, most.max(1))
    }

    /// Predicts the time in seconds from now to the end of `own`, after the prompts being computed.
    fn time_to_first_token(&self, slo: &Slo, now: Duration, own: &[Work]) -> f64 {
        let decoding = self.running.iter().filter(|t| t.decodes());
        let (mut n, mut positions) =
            decoding.fold((0.0, 0.0), |(n, sum), t| (n + 1.0, sum + t.tokens.len() as f64));
        let each = slo.time.of_prompt_token();
        let (most, budget) = (slo.step_budget(), slo.mean_budget());
        let mut ahead = self.least_ahead(slo, now);
        let mut works = self.prompts_under_way();
        works.extend(own);
        let all: f64 = works.iter().map(|work| work.cost).sum();
        let (mut seconds, mut done) = (0.0, 0.0);
        let mut works = works.into_iter().peekable();
        for _ in 0..MAX_STEPS {
            let decode = if n > 0.0 { slo.decode(n, positions).unwrap_or(0.0) } else { slo.time.fixed() };
            let mut room = if n > 0.0 {
                let chunk = ((ahead.min(most) - decode) / each).max(MIN_CHUNK);
                chunk.min(self.options.prompt_tokens_beside_decode as f64)
            } else {
                self.options.prompt_tokens_alone as f64
            };
            room = room.min(self.options.step_tokens as f64 - n).max(1.0);
            let (mut taken, mut begun) = (0.0, 0.0);
            while let Some(work) = works.peek_mut() {
                let part = work.cost.min(room);
                (room, taken, work.cost) = (room - part, taken + part, work.cost - part);
                if work.cost > 0.0 {
                    break;
                }
                if let Some(length) = work.decodes_at {
                    (begun, positions) = (begun + 1.0, positions + length);
                }
                works.next();
            }
            let step = decode + taken * each;
            (seconds, done, n) = (seconds + step, done + taken, n + begun);
            if let Some(budget) = budget {
                ahead += budget - step;
                if begun > 0.0 {
                    ahead = ahead.min(budget);
                }
            }
            if works.peek().is_none() {
                return seconds;
            }
        }
        seconds * all / f64::max(done, 1.0)
    }

    /// Predicts the time in seconds to the end of this work on an idle engine.
    fn least_time(&self, slo: &Slo, work: Work) -> f64 {
        let steps =
            (work.cost / self.options.prompt_tokens_alone.min(self.options.step_tokens) as f64).ceil();
        work.cost * slo.time.of_prompt_token() + steps.max(1.0) * slo.time.fixed()
    }

    /// Refuses the waiting requests for which the promise of a first token cannot be kept any more.
    pub(super) fn refuse_late(&mut self, now: Duration, tables: &BlockTables, decisions: &mut Vec<Decision>) {
        let Some(slo) = &mut self.slo else { return };
        slo.planned = now;
        slo.forget(now);
        let Some((limit, share)) = slo.promise.first_token() else { return };
        let idle_time = slo.measured.map_or(Duration::MAX, |at| now.saturating_sub(at));
        if self.queue.len() == 0 || slo.decode(1.0, 0.0).is_none() {
            return;
        }
        for task in self.queue.iter_mut().filter(|t| t.served.cached.is_none()) {
            let fit = tables.fit(task.request.scope.as_ref(), task.cacheable(), task.tokens.len());
            task.served.cached = Some(task.request.held.map_or(fit.cached_tokens, |held| held.same));
        }
        let Some(slo) = &self.slo else { return };
        let late = slo.late(share);
        let idle = self.running.is_empty();
        let under_way: f64 = self.prompts_under_way().iter().map(|work| work.cost).sum();
        // Seconds until the next of the waiting requests can be admitted, at the earliest.
        let mut wait = under_way * slo.time.of_prompt_token();
        let mut refused: Vec<(RequestId, (KeyId, Work), SloRefusal)> = Vec::new();
        let interval = slo.interval(self.running.len());
        for (i, task) in self.in_turn().into_iter().enumerate() {
            let own = self.work(task, task.served.cached.unwrap_or(0));
            let least = self.least_time(slo, own);
            let since = now.saturating_sub(task.served.arrival.at).as_secs_f64();
            let expected = since + (wait + least) * late;
            // A request on an idle engine whose speed may have changed is a measurement.
            let usual = own.cost <= 2.0 * slo.mean_prompt;
            let is_probe = i == 0 && idle && idle_time > if usual { STALE } else { STALE_FOR_LONG };
            if task.may_be_refused() && !is_probe && expected > limit {
                let alone = least * late;
                let why = if alone > limit {
                    SloRefusal::TooLong { expected: seconds(alone) }
                } else {
                    SloRefusal::Busy { expected: seconds(expected), retry_after: Duration::ZERO }
                };
                refused.push((task.request.id, (task.request.key, own), why));
                continue;
            }
            // It is admitted when an answer ends, or when its prompt can be computed.
            wait += if task.generates() && !idle { interval.max(least) } else { least };
        }
        let of_prompt = wait / (self.queue.len() + 1 - refused.len()).max(1) as f64;
        let places = self.places(slo, refused.len(), of_prompt);
        for (id, (key, work), mut why) in refused {
            if self.queue.remove(id).is_none() {
                continue;
            }
            if let (SloRefusal::Busy { retry_after, .. }, Some(slo)) = (&mut why, &mut self.slo) {
                *retry_after = slo.refuse(key, work, now, &places);
            } else if let Some(slo) = &mut self.slo {
                slo.refused += 1;
            }
            decisions.push(Decision::Refused { request: id, why });
        }
    }

    /// Returns the times at which there are likely to be places after the waiting requests, but for those `refused`.
    fn places(&self, slo: &Slo, refused: usize, prompt: f64) -> Places {
        let waiting = self.queue.len().saturating_sub(refused);
        let (n, positions) = self.generating();
        // Steps are as long as the promise allows while requests are refused.
        let step = slo.mean_budget().map_or(slo.mean_step, |budget| budget.max(slo.mean_step));
        let left = |t: &Task| {
            let usual = (slo.mean_answer - t.generated() as f64).max(slo.mean_answer / 4.0);
            usual.min(t.limit.saturating_sub(t.tokens.len()) as f64) * step
        };
        let ends = self.running.iter().filter(|t| t.generates()).map(left);
        let whole = slo.mean_answer * step;
        let first = ends.fold(whole, f64::min);
        let interval = (whole / (n + waiting as f64).max(1.0)).max(prompt);
        let most = slo.mean_budget().unwrap_or(f64::INFINITY).min(slo.step_budget());
        let fits = |more: usize| {
            let all = n + more as f64;
            let positions = positions + more as f64 * (slo.mean_prompt + slo.mean_answer / 2.0);
            all as usize <= self.options.running && slo.decode(all, positions).is_none_or(|time| time <= most)
        };
        let free = (1..=self.options.running).take_while(|more| fits(*more)).count();
        Places {
            free: free.saturating_sub(waiting),
            prompt,
            // The first ends are for those who wait.
            first: first + interval * waiting.saturating_sub(free) as f64,
            interval,
        }
    }

    /// Returns the waiting requests in the order in which they are likely to be admitted: by priority, then those that
    /// would be the first running ones of their keys, the second ones, and so on.
    fn in_turn(&self) -> Vec<&Task> {
        let mut of_key = BTreeMap::<KeyId, usize>::new();
        self.running.iter().for_each(|t| *of_key.entry(t.request.key).or_default() += 1);
        let mut all: Vec<(_, &Task)> = Vec::new();
        for task in self.queue.iter() {
            let r = &task.request;
            let turn = of_key.entry(r.key).or_default();
            *turn += 1;
            let first = (Reverse(r.priority), !task.was_admitted(), *turn);
            all.push(((first, self.counters.get(r.key), task.order), task));
        }
        all.sort_by_key(|(rank, _)| *rank);
        all.into_iter().map(|(_, task)| task).collect()
    }

    /// Decides whether the waiting request that is next may run now.
    /// `before` are waiting requests that are to be passed: of other keys only if there is room for them, too.
    pub(super) fn judge(
        &mut self,
        id: RequestId,
        before: &[RequestId],
        now: Duration,
        tables: &BlockTables,
    ) -> Verdict {
        let Some(slo) = &self.slo else { return Verdict::Admit };
        let Some(task) = self.queue.get(id) else { return Verdict::Full };
        let fit = tables.fit(task.request.scope.as_ref(), task.cacheable(), task.tokens.len());
        let cached = task.request.held.map_or(fit.cached_tokens, |held| held.same);
        let own = self.work(task, cached);
        let mut owed = self.owed_before(slo, task.request.key);
        let before = before.iter().filter_map(|id| self.queue.get(*id));
        let before = before.filter(|other| other.request.key != task.request.key);
        owed.extend(before.map(|other| self.work(other, other.served.cached.unwrap_or(0))));
        let known = slo.decode(1.0, 0.0).is_some();
        let first = known.then(|| self.time_to_first_token(slo, now, &[own]));
        let verdict = if self.running.is_empty() || task.was_admitted() {
            Verdict::Admit
        } else if !known {
            // Until the first request has been measured, it runs alone.
            Verdict::Full
        } else if task.generates()
            && !(self.is_fast_enough(slo, task, &owed) && self.has_room(slo, task, fit.blocks, tables))
        {
            Verdict::Full
        } else {
            let since = now.saturating_sub(task.served.arrival.at).as_secs_f64();
            let in_time = |(limit, share): (f64, f64)| {
                let late = slo.late(share);
                let of_owed = || {
                    let works: Vec<Work> = [own].into_iter().chain(owed.iter().copied()).collect();
                    self.time_to_first_token(slo, now, &works)
                };
                !task.served.arrival.refusable
                    || first.is_some_and(|first| since + first * late <= limit)
                        && (owed.is_empty() || of_owed() * late <= limit)
            };
            let passable = priority_ageing::slack(task) > 0;
            match slo.promise.first_token().is_none_or(in_time) {
                true => Verdict::Admit,
                false if passable => Verdict::Wait,
                false => Verdict::Full,
            }
        };
        if verdict == Verdict::Admit
            && let Some(task) = self.queue.get_mut(id)
            && !task.was_admitted()
        {
            task.served.predicted = first.map(|first| (first, now));
        }
        verdict
    }

    /// Returns whether all running requests keep their promised speed with this one beside them, and with those to which
    /// places are owed before it.
    fn is_fast_enough(&self, slo: &Slo, task: &Task, owed: &[Work]) -> bool {
        let (n, positions) = self.generating();
        let more = slo.mean_answer / 2.0;
        let length = task.tokens.len() as f64 + more;
        let of_owed = owed.iter().filter_map(|work| Some(work.decodes_at? + more));
        let (n, positions) = of_owed.fold((n + 1.0, positions + length), |(n, sum), at| (n + 1.0, sum + at));
        let most = slo.mean_budget().unwrap_or(f64::INFINITY).min(slo.step_budget());
        slo.decode(n, positions).is_none_or(|step| step <= most)
    }

    /// Returns the work on the prompts of refused requests that are to come back, of keys that had less service than
    /// `key` and have fewer running requests.
    fn owed_before(&self, slo: &Slo, key: KeyId) -> Vec<Work> {
        let service = self.counters.get(key);
        let held = |key: KeyId| self.running.iter().filter(|t| t.request.key == key).count();
        let is_before = |k: KeyId| k != key && self.counters.get(k) <= service && held(k) < held(key);
        slo.owed.iter().filter(|(k, _)| is_before(**k)).map(|(_, (_, work))| *work).collect()
    }

    /// Returns whether the cache has room for the answers of all running requests and this one, as far as their lengths
    /// can be expected.
    fn has_room(&self, slo: &Slo, task: &Task, blocks: usize, tables: &BlockTables) -> bool {
        let growth = |t: &Task| {
            let left = (slo.mean_answer - t.generated() as f64).max(BLOCK_TOKENS as f64);
            (left as usize).min(t.limit.saturating_sub(t.tokens.len())).div_ceil(BLOCK_TOKENS)
        };
        let more: usize = self.running.iter().map(growth).sum();
        blocks + more + growth(task) <= tables.available_blocks()
    }
}

/// Returns a time that may be huge.
fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds.clamp(0.0, 86_400.0))
}

impl Task {
    /// Returns whether tokens are generated after its prompt.
    fn generates(&self) -> bool {
        self.limit > self.prompt_tokens && !matches!(self.request.rows, PromptRows::Head { .. })
    }

    /// Returns whether it ran before and was preempted.
    fn was_admitted(&self) -> bool {
        self.admitted_in > 0
    }

    fn may_be_refused(&self) -> bool {
        self.served.arrival.refusable && !self.was_admitted() && self.request.held.is_none()
    }
}
