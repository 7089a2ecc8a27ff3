//! [`Generator`]: the loop that serves requests of all kinds. It plans a step, computes it, distributes the results,
//! samples and commits.
//!
//! It drives a [`Scheduler`] and an [`Engine`] and keeps an [`Answer`] per request, which receives the results. Grammar
//! masks, sampling and probabilities of a request take up to some milliseconds and depend on no other request: they run
//! in parallel on the pool's threads, which are idle between two forward passes. Heads of prompts that are complete are
//! computed after them, one after the other or together, with each matrix product on the pool.

use crate::drafter::{Drafter, Wished, scope_of};
use crate::engine::{Engine, OutputRow, Outputs, StateRow, StepEntry, StepOutput, StepPlan, WholeText};
use crate::error::{Error, ErrorKind};
use crate::logprobs::TokenLogprobs;
use crate::pooling::Pool;
use crate::sample::Proposal;
use crate::schedule::{
    Arrival, Chosen, Decision, PromptRows, Refusal, Request, RequestId, Scheduled, Scheduler, Step, StepCost,
    StepLoad,
};
use leyden_kernels::Cpu;
use leyden_models::Network;
use leyden_models::heads::{HeadInput, HeadOutput};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Callback for the position of a token and the logits after it.
pub type LogitReader = dyn Fn(usize, &[f32]) + Send + Sync;

/// Receiver of a request's results. Its methods run on the pool's threads, for several answers at a time, unless they
/// say otherwise.
pub trait Answer: Send {
    /// Returns the number of top tokens to report with the log probability of each prompt token, where the request asks
    /// for their logits ([`PromptRows::Logits`](crate::schedule::PromptRows)); `None` if log probabilities are not
    /// reported.
    fn scores(&self) -> Option<usize> {
        None
    }

    /// Takes the log probabilities of the next prompt tokens. The first token of a prompt has none.
    fn score(&mut self, _scored: Vec<TokenLogprobs>) {}

    /// Returns the callback for the logits after the prompt's tokens, if they are requested. It is called on several
    /// threads at a time.
    fn reader(&self) -> Option<&LogitReader> {
        None
    }

    /// Takes the output of the head that the request asks for
    /// ([`PromptRows::Head`](crate::schedule::PromptRows)): once, when the prompt is computed, on the thread that runs
    /// [`Generator::compute`]. An error of kind [`ErrorKind::NotFinite`] means that the hidden states or the output
    /// have values that are not finite.
    fn output(&mut self, _output: Result<HeadOutput, Error>) {}

    /// Proposes the token for a position from the logits of a draft model, as
    /// [`Sampler::propose`](crate::sample::Sampler::propose) does. `None` ends the draft, as a token does that the answer
    /// would end with.
    fn propose(&mut self, _logits: &[f32], _position: usize) -> Option<Proposal> {
        None
    }

    /// Samples the tokens after the rows: one, and one more for each accepted draft token, as
    /// [`verify`](crate::schedule::verify) does. Returns them and whether the request ends with them. An empty list
    /// means that no token can be chosen, which ends the request.
    fn choose(&mut self, rows: &[OutputRow<'_>], draft: &[u32]) -> (Vec<u32>, bool);
}

/// Requests with the engine that serves them.
///
/// The caller repeats [`plan`](Self::plan) and [`compute`](Self::compute), and takes out finished requests.
#[derive(Debug)]
pub struct Generator<A> {
    engine: Engine,
    cpu: Arc<Cpu>,
    scheduler: Scheduler,
    cost: StepCost,
    active: Active<A>,
    drafter: Option<Drafter>,
}

type Active<A> = HashMap<RequestId, Member<A>>;

/// Request that was not taken out.
#[derive(Debug)]
struct Member<A> {
    request: Request,
    answer: A,
    /// Hidden states of the prompt so far, if the request asks for the output of a head.
    pool: Option<Pool>,
}

/// Result of a step.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Decisions about requests, in order.
    pub decisions: Vec<Decision>,
    /// Error of a failed step; its requests have ended.
    pub failed: Option<Error>,
    /// Number of draft tokens in the step.
    pub drafted: usize,
    /// Number of draft tokens that were accepted.
    pub accepted: usize,
}

/// Minimum of prompt tokens in a step with decoding requests: with fewer, long prompts would take too long.
const MIN_PROMPT_TOKENS: usize = 16;
/// Factor by which a step without decoding requests may take longer: only requests that arrive meanwhile wait for it.
const ALONE_FACTOR: u32 = 2;
/// Minimum ratio of the time of computing the tokens of such a step to the time of reading the weights (longer steps
/// would save little), and the minimum of tokens in it.
const MIN_ALONE: (f64, usize) = (16.0, 64);

impl<A: Answer> Generator<A> {
    /// Creates a generator without requests. The scheduler must be one for the engine's cache.
    #[must_use]
    pub fn new(engine: Engine, scheduler: Scheduler) -> Generator<A> {
        let cpu = engine.shared_cpu();
        Generator { engine, cpu, scheduler, cost: StepCost::default(), active: HashMap::new(), drafter: None }
    }

    /// Adds a draft model: an engine on the same processor, for the same number of sequences. Texts do not depend on it.
    ///
    /// # Errors
    /// As [`check_draft`](crate::check_draft).
    pub fn with_draft(self, draft: Engine) -> Result<Generator<A>, Error> {
        let drafter = Drafter::new(draft, self.engine.model())?;
        let scheduler = self.scheduler.with_draft_model(drafter.cost(self.engine.model()));
        Ok(Generator { scheduler, drafter: Some(drafter), ..self })
    }

    /// Returns the engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the engine, to open and close sequences for requests with [`Held`](crate::schedule::Held) sequences.
    pub fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Returns the scheduler.
    #[must_use]
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Returns true if no request waits or runs, and no end of a request is still to be reported.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.scheduler.is_idle()
    }

    /// Returns the requests that were not taken out, with their answers.
    pub fn active(&self) -> impl Iterator<Item = (&Request, &A)> {
        self.active.values().map(|member| (&member.request, &member.answer))
    }

    /// Returns one of these requests.
    pub fn get_mut(&mut self, id: RequestId) -> Option<(&Request, &mut A)> {
        self.active.get_mut(&id).map(|member| (&member.request, &mut member.answer))
    }

    /// Puts a request in the queue.
    ///
    /// # Errors
    /// The request cannot be served, or not now; its answer is returned.
    pub fn submit(&mut self, request: Request, answer: A, now: Duration) -> Result<(), (Refusal, A)> {
        self.submit_arrived(request, answer, Arrival { at: now, refusable: true, more_tokens: 0 }, now)
    }

    /// Puts a request in the queue that arrived earlier, or is a part of a larger one; see
    /// [`Scheduler::submit_arrived`].
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn submit_arrived(
        &mut self,
        request: Request,
        answer: A,
        arrival: Arrival,
        now: Duration,
    ) -> Result<(), (Refusal, A)> {
        let mut pool = None;
        if let PromptRows::Head { head, .. } = &request.rows {
            if let Err(error) = head.check(self.engine.model().config(), request.prompt.len()) {
                return Err((Refusal::Head(error), answer));
            }
            pool = Some(Pool::of(head));
        }
        if let Err(refusal) = self.scheduler.submit_arrived(request.clone(), arrival, now) {
            return Err((refusal, answer));
        }
        self.active.insert(request.id, Member { request, answer, pool });
        Ok(())
    }

    /// Takes out a request, and cancels it if it is unfinished.
    pub fn take(&mut self, id: RequestId) -> Option<(Request, A)> {
        let Member { request, answer, .. } = self.active.remove(&id)?;
        self.drafter.iter_mut().for_each(|drafter| drafter.close(id));
        self.scheduler.cancel(id, self.engine.tables_mut());
        Some((request, answer))
    }

    /// Returns the engine and drops the requests that were not taken out.
    #[must_use]
    pub fn into_engine(self) -> Engine {
        self.engine
    }

    /// Drops the engine and returns the requests that were not taken out.
    #[must_use]
    pub fn into_active(self) -> Vec<(Request, A)> {
        drop(self.engine);
        self.active.into_values().map(|member| (member.request, member.answer)).collect()
    }

    /// Plans the next step; see [`Scheduler::plan`]. If it schedules nothing, there is nothing to compute.
    ///
    /// # Errors
    /// The previous step was not completed.
    pub fn plan(&mut self, now: Duration) -> Result<Step, Error> {
        self.scheduler.plan(now, self.engine.tables_mut())
    }

    /// Lets the draft model, if there is one, add drafts to the step that was planned last. `clock` returns the time, on
    /// any clock.
    ///
    /// # Errors
    /// The draft model failed. It is dropped; the step is as it was planned.
    pub fn draft(&mut self, step: &mut Step, clock: &dyn Fn() -> Duration) -> Result<(), Error> {
        let Some(drafter) = self.drafter.as_mut().filter(|_| !step.scheduled.is_empty()) else {
            return Ok(());
        };
        let wishes = self.scheduler.wishes(step, &|request, tokens| drafter.progress(request, tokens));
        if wishes.is_empty() {
            return Ok(());
        }
        let mut wished = Vec::new();
        for wish in &wishes {
            let member = self.active.get(&wish.request);
            if let (Some(member), Some(tokens)) = (member, self.scheduler.text(wish.request)) {
                wished.push(Wished { wish, scope: scope_of(&member.request), tokens });
            }
        }
        let chunk = self.scheduler.options().prompt_tokens_beside_decode;
        let (active, cpu) = (&mut self.active, &self.cpu);
        let made = match drafter.make(&wished, chunk, &mut |rows| propose(rows, active, cpu), clock) {
            Ok(made) => made,
            Err(error) => {
                self.drafter = None;
                return Err(error);
            }
        };
        self.scheduler.attach(step, made.drafts, &made.steps, self.engine.tables_mut());
        made.times.into_iter().for_each(|(load, time)| self.scheduler.observe_draft(load, time));
        Ok(())
    }

    /// Runs the step that was planned last, and distributes its results. A step without entries does nothing.
    ///
    /// # Errors
    /// An answer returned tokens that [`Scheduler::commit`] refuses; the step is still under way. A failed step is no
    /// error but an [`Outcome`].
    pub fn compute(&mut self, step: &Step) -> Result<Outcome, Error> {
        if step.scheduled.is_empty() {
            return Ok(Outcome::default());
        }
        let output = match self.engine.step(&step.plan) {
            Ok(output) => output,
            Err(error) => {
                let decisions = self.scheduler.abandon(self.engine.tables_mut());
                return Ok(Outcome { decisions, failed: Some(error), ..Outcome::default() });
            }
        };
        let (chosen, drafted, accepted) = hand_out(step, &output, &mut self.active, &self.cpu);
        let tokens = step.scheduled.iter().map(|s| s.tokens).sum();
        compute_heads(step, self.engine.model(), self.cpu.for_tokens(tokens), &mut self.active);
        let decisions = self.scheduler.commit(&chosen, self.engine.tables_mut())?;
        Ok(Outcome { decisions, failed: None, drafted, accepted })
    }

    /// Computes a step of so many new sequences with so many tokens each, to measure its time, and returns its size for
    /// [`calibrate`](Self::calibrate). Nothing of it is kept.
    ///
    /// # Errors
    /// The step does not fit the cache, or failed.
    pub fn trial(&mut self, sequences: usize, tokens: usize) -> Result<StepLoad, Error> {
        let config = self.engine.model().config();
        let samples = config.generates() && tokens == 1;
        let outputs = if config.needs_whole_texts() {
            Outputs::Whole(WholeText::default())
        } else if samples {
            Outputs::Last
        } else {
            Outputs::None
        };
        let text: Vec<u32> =
            (0..tokens as u32).map(|i| i % self.engine.model().vocabulary().max(1) as u32).collect();
        let opened: Vec<_> = (0..sequences).map(|_| self.engine.open()).collect();
        let entry = |sequence: &_| StepEntry { sequence: *sequence, tokens: text.clone(), outputs };
        let plan = StepPlan { entries: opened.iter().map(entry).collect() };
        let done = self.engine.step(&plan).map(drop);
        opened.into_iter().for_each(|sequence| self.engine.close(sequence));
        done?;
        let (n, all) = (sequences as f64, (sequences * tokens) as f64);
        let samples = if samples { n } else { 0.0 };
        Ok(StepLoad { samples, others: all - samples, positions: all * tokens as f64 / 2.0 })
    }

    /// Records the time of such a step, before any request; see [`Scheduler::calibrate`].
    pub fn calibrate(&mut self, load: StepLoad, time: Duration) {
        self.scheduler.calibrate(load, time);
    }

    /// Adjusts the sizes of steps to the measured time of this one, so that prompts delay decoding requests by about
    /// `stall`.
    pub fn observe(&mut self, step: &Step, time: Duration, stall: Duration) {
        self.scheduler.observe(step, time);
        let tokens = step.scheduled.iter().map(|s| s.tokens).sum();
        let positions = |s: &Scheduled| s.tokens as f64 * (s.position as f64 + s.tokens as f64 / 2.0);
        self.cost.observe(tokens, step.scheduled.iter().map(positions).sum(), time);
        let cost = &self.cost;
        let weights = cost.weights_read_tokens();
        self.scheduler.tune(|tuned| {
            let most = tuned.step_tokens;
            let clamp = |tokens: usize, least: usize| tokens.clamp(least.min(most), most);
            // Whole prompts cannot be divided.
            if tuned.whole_prompts {
                return;
            }
            if let Some(beside) = cost.tokens_within(stall) {
                tuned.prompt_tokens_beside_decode = clamp(beside, MIN_PROMPT_TOKENS);
            }
            if let (Some(alone), Some(weights)) = (cost.tokens_within(stall * ALONE_FACTOR), weights) {
                let worth = (weights * MIN_ALONE.0) as usize;
                tuned.prompt_tokens_alone = clamp(alone, worth.max(MIN_ALONE.1));
                tuned.weights_read_tokens = weights;
            }
            tuned.position_cost = cost.position_cost().unwrap_or(tuned.position_cost);
        });
    }
}

/// Lets answers propose tokens after rows of a draft model's logits.
fn propose<A: Answer>(
    rows: &[(RequestId, &[f32], usize)],
    active: &mut Active<A>,
    cpu: &Cpu,
) -> Vec<Option<Proposal>> {
    let mut members: HashMap<RequestId, &mut Member<A>> = active.iter_mut().map(|(id, m)| (*id, m)).collect();
    let mut turns = Vec::new();
    for &(id, logits, position) in rows {
        turns.push(Mutex::new((members.remove(&id), logits, position, None)));
    }
    cpu.pool().run(turns.len(), |i| {
        let mut turn = turns[i].lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(member), logits, position, proposal) = &mut *turn else { return };
        *proposal = member.answer.propose(logits, *position);
    });
    turns.into_iter().map(|turn| turn.into_inner().unwrap_or_else(PoisonError::into_inner).3).collect()
}

/// Results of a step for one request.
struct Entry<'a> {
    scheduled: &'a Scheduled,
    /// Logits of prompt tokens.
    prompt: &'a [OutputRow<'a>],
    /// Logits to sample from; the first row may be the prompt's last.
    choice: &'a [OutputRow<'a>],
    states: &'a [StateRow<'a>],
    draft: &'a [u32],
}

impl<'a> Entry<'a> {
    /// Returns the results of every entry of a step that asked for any, in order.
    fn all(step: &'a Step, mut rows: &'a [OutputRow<'a>], mut states: &'a [StateRow<'a>]) -> Vec<Entry<'a>> {
        let mut all = Vec::new();
        for (s, entry) in step.scheduled.iter().zip(&step.plan.entries) {
            let n_states = entry.outputs.states(s.tokens).len();
            let n_rows = match entry.outputs {
                Outputs::None => continue,
                Outputs::Last => 1,
                Outputs::From(from) => s.tokens - from,
                Outputs::States(_) | Outputs::Whole(_) => 0,
            };
            let (own, own_states);
            (own, rows) = rows.split_at(n_rows);
            (own_states, states) = states.split_at(n_states);
            all.push(Entry {
                scheduled: s,
                prompt: &own[..s.rows.min(n_rows)],
                choice: if s.samples { &own[n_rows - s.drafted - 1..] } else { &[] },
                states: own_states,
                draft: &entry.tokens[s.tokens - s.drafted..],
            });
        }
        all
    }
}

/// Entry that a thread of the pool processes.
struct Turn<'a, A> {
    entry: &'a Entry<'a>,
    /// The request; `None` if it was taken out.
    member: Option<&'a mut Member<A>>,
    /// Sampled tokens, and whether the request ends. A request that was taken out has none.
    chosen: (Vec<u32>, bool),
}

/// Passes every answer its results and lets it sample. Returns the sampled tokens, and the numbers of draft tokens and
/// of accepted ones.
fn hand_out<A: Answer>(
    step: &Step,
    output: &StepOutput<'_>,
    active: &mut Active<A>,
    cpu: &Cpu,
) -> (Vec<Chosen>, usize, usize) {
    let rows: Vec<OutputRow<'_>> = output.rows().collect();
    let states: Vec<StateRow<'_>> = output.states().collect();
    let entries = Entry::all(step, &rows, &states);
    score(&entries, active, cpu);
    read(&entries, active, cpu);
    let mut members: HashMap<RequestId, &mut Member<A>> = active.iter_mut().map(|(id, m)| (*id, m)).collect();
    let mut turns = Vec::new();
    for entry in &entries {
        let member = members.remove(&entry.scheduled.request);
        turns.push(Mutex::new(Turn { entry, member, chosen: (Vec::new(), true) }));
    }
    cpu.pool().run(turns.len(), |i| {
        let mut turn = turns[i].lock().unwrap_or_else(PoisonError::into_inner);
        let Turn { entry, member: Some(member), chosen } = &mut *turn else { return };
        if let Some(pool) = &mut member.pool {
            entry.states.iter().for_each(|row| pool.push(row.position, row.state));
        }
        if entry.scheduled.samples {
            *chosen = member.answer.choose(entry.choice, entry.draft);
        }
    });
    let (mut all, mut drafted, mut accepted) = (Vec::new(), 0, 0);
    for turn in turns {
        let turn = turn.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (s, (tokens, stop)) = (turn.entry.scheduled, turn.chosen);
        if s.samples {
            drafted += s.drafted;
            accepted += tokens.len().saturating_sub(1);
            all.push(Chosen { request: s.request, tokens, stop });
        }
    }
    (all, drafted, accepted)
}

/// Computes the heads of the prompts that a step completes, and passes the outputs to the answers.
fn compute_heads<A: Answer>(step: &Step, model: &dyn Network, cpu: &Cpu, active: &mut Active<A>) {
    let pooled = active.iter_mut().filter(|(_, member)| member.pool.is_some());
    let mut members: HashMap<RequestId, &mut Member<A>> = pooled.map(|(id, m)| (*id, m)).collect();
    let mut complete = Vec::new();
    for s in &step.scheduled {
        let Some(Member { request, answer, pool }) = members.remove(&s.request) else { continue };
        if let PromptRows::Head { head, .. } = &request.rows
            && s.position + s.tokens == request.prompt.len()
            && let Some(pool) = pool.take()
        {
            complete.push((head, &request.prompt[..], pool.into_vector(), answer));
        }
    }
    let (mut inputs, mut answers) = (Vec::new(), Vec::new());
    for (head, tokens, states, answer) in &mut complete {
        inputs.push(HeadInput { head, tokens, states });
        answers.push(answer);
    }
    model.heads(cpu, &inputs, &mut |i, output| {
        answers[i].output(output.ok_or_else(|| ErrorKind::NotFinite.into()));
    });
}

/// Passes the logits of prompts to their readers.
fn read<A: Answer>(entries: &[Entry<'_>], active: &Active<A>, cpu: &Cpu) {
    let mut wanted: Vec<(&LogitReader, &OutputRow<'_>)> = Vec::new();
    for entry in entries {
        let reader = active.get(&entry.scheduled.request).and_then(|member| member.answer.reader());
        wanted
            .extend(reader.into_iter().flat_map(|reader| entry.prompt.iter().map(move |row| (reader, row))));
    }
    cpu.pool().run(wanted.len(), |i| {
        let (reader, row) = wanted[i];
        reader(row.position, row.logits);
    });
}

/// Passes answers the log probabilities of their prompts' tokens, as far as this step has them.
fn score<A: Answer>(entries: &[Entry<'_>], active: &mut Active<A>, cpu: &Cpu) {
    let mut wanted = Vec::new();
    for entry in entries {
        let id = entry.scheduled.request;
        let Some(Member { request, answer, .. }) = active.get(&id) else { continue };
        let Some(top) = answer.scores() else { continue };
        for row in entry.prompt {
            // The prompt's last token is followed by no token of the prompt.
            if let Some(token) = request.prompt.get(row.position + 1) {
                wanted.push((id, row.logits, *token, top));
            }
        }
    }
    let scores: Vec<Mutex<Option<TokenLogprobs>>> = wanted.iter().map(|_| Mutex::new(None)).collect();
    cpu.pool().run(wanted.len(), |i| {
        let (_, logits, token, top) = wanted[i];
        *scores[i].lock().unwrap_or_else(PoisonError::into_inner) =
            Some(TokenLogprobs::of(logits, token, top));
    });
    let mut by_request: Vec<(RequestId, Vec<TokenLogprobs>)> = Vec::new();
    for ((id, ..), scores) in wanted.into_iter().zip(scores) {
        if by_request.last().is_none_or(|(last, _)| *last != id) {
            by_request.push((id, Vec::new()));
        }
        if let (Some((_, all)), Ok(Some(scores))) = (by_request.last_mut(), scores.into_inner()) {
            all.push(scores);
        }
    }
    for (id, scores) in by_request {
        if let Some(member) = active.get_mut(&id) {
            member.answer.score(scores);
        }
    }
}
