//! [`Generator`]: the one loop that serves requests of any kind: plan, compute, hand out, choose, commit.
//!
//! It drives a [`Scheduler`] and an [`Engine`] and keeps what each request is for as an [`Answer`]. Masks, sampling and
//! probabilities of a request take up to some milliseconds and depend on no other request: they are computed by the
//! threads that have just computed the step, which have nothing to do then.

use crate::engine::{Engine, OutputRow, Outputs, StateRow, StepOutput};
use crate::error::Error;
use crate::logprobs::TokenLogprobs;
use crate::schedule::{Chosen, Decision, Refusal, Request, RequestId, Scheduled, Scheduler, Step, StepCost};
use leyden_kernels::Cpu;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Reads the position of a token and the logits behind it.
pub type LogitReader = dyn Fn(usize, &[f32]) + Send + Sync;

/// What becomes of a request's results. Its methods run on the threads that compute, for several answers at a time.
pub trait Answer: Send {
    /// With how many of the best tokens each of the prompt's is told, where their logits are wanted
    /// ([`PromptRows::Logits`](crate::schedule::PromptRows)); `None` if they are not told at all.
    fn scores(&self) -> Option<usize> {
        None
    }

    /// Takes the log probabilities of the prompt's next tokens. The first token of all has none.
    fn score(&mut self, _scored: Vec<TokenLogprobs>) {}

    /// What reads the logits behind the prompt's tokens, where they are wanted; it is called on several threads at a time.
    fn reader(&self) -> Option<&LogitReader> {
        None
    }

    /// Takes the states of the prompt's next tokens, where they are wanted.
    fn pool(&mut self, _states: &[StateRow<'_>]) {}

    /// Chooses the tokens behind the rows: one, and one more for each guess that is right, as
    /// [`verify`](crate::schedule::verify) does; and whether the request ends with them. None only where none can be
    /// chosen, with which it ends.
    fn choose(&mut self, rows: &[OutputRow<'_>], guesses: &[u32]) -> (Vec<u32>, bool);
}

/// Requests and the engine that serves them.
///
/// Whoever drives it repeats [`plan`](Self::plan) and [`compute`](Self::compute), and takes out what is over.
#[derive(Debug)]
pub struct Generator<A> {
    engine: Engine,
    cpu: Arc<Cpu>,
    scheduler: Scheduler,
    cost: StepCost,
    active: Active<A>,
}

type Active<A> = HashMap<RequestId, (Request, A)>;

/// What came of a step.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What was decided, in order.
    pub decisions: Vec<Decision>,
    /// Why the step failed, if it did; its requests are over.
    pub failed: Option<Error>,
    /// Tokens guessed ahead, and how many of them were right.
    pub guesses: (usize, usize),
}

/// The fewest prompt tokens beside those who decode: fewer would make long prompts endless.
const LEAST_PROMPT_TOKENS: usize = 16;
/// How many times longer a step in which nobody decodes may take: only those who come meanwhile wait for it.
const ALONE: u32 = 2;
/// How many times longer computing the tokens of such a step takes at least than reading the weights for it, so that
/// longer steps would save little; and the fewest tokens of it.
const LEAST_ALONE: (f64, usize) = (16.0, 64);

impl<A: Answer> Generator<A> {
    /// A generator without requests. The scheduler is one for the engine's cache.
    #[must_use]
    pub fn new(engine: Engine, scheduler: Scheduler) -> Generator<A> {
        let cpu = engine.shared_cpu();
        Generator { engine, cpu, scheduler, cost: StepCost::default(), active: HashMap::new() }
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The same, to open and close sequences that requests are to be held in.
    pub fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// The scheduler.
    #[must_use]
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Whether nothing waits or runs, and no end is still to be reported.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.scheduler.is_idle()
    }

    /// The requests that were not taken out, with their answers.
    pub fn active(&self) -> impl Iterator<Item = (&Request, &A)> {
        self.active.values().map(|(request, answer)| (request, answer))
    }

    /// One of them.
    pub fn get_mut(&mut self, id: RequestId) -> Option<(&Request, &mut A)> {
        self.active.get_mut(&id).map(|(request, answer)| (&*request, answer))
    }

    /// Puts a request in the queue.
    ///
    /// # Errors
    /// It cannot be served, or not now; the answer comes back.
    pub fn submit(&mut self, request: Request, answer: A, now: Duration) -> Result<(), (Refusal, A)> {
        if let Err(refusal) = self.scheduler.submit(request.clone(), now) {
            return Err((refusal, answer));
        }
        self.active.insert(request.id, (request, answer));
        Ok(())
    }

    /// Takes out a request; one that is not over ends.
    pub fn take(&mut self, id: RequestId) -> Option<(Request, A)> {
        let taken = self.active.remove(&id)?;
        self.scheduler.cancel(id, self.engine.tables_mut());
        Some(taken)
    }

    /// The engine, for other work. What was not taken out is forgotten.
    #[must_use]
    pub fn into_engine(self) -> Engine {
        self.engine
    }

    /// All requests that were not taken out; the engine is given back first.
    #[must_use]
    pub fn into_active(self) -> Vec<(Request, A)> {
        drop(self.engine);
        self.active.into_values().collect()
    }

    /// Decides on the next step; see [`Scheduler::plan`]. There is nothing to compute if it schedules nothing.
    ///
    /// # Errors
    /// The step before was not computed to its end.
    pub fn plan(&mut self, now: Duration) -> Result<Step, Error> {
        self.scheduler.plan(now, self.engine.tables_mut())
    }

    /// Runs the step that was planned last, and hands out its results. One without entries does nothing.
    ///
    /// # Errors
    /// An answer broke its promise; the step is still under way. A step that fails is no error but an [`Outcome`].
    pub fn compute(&mut self, step: &Step) -> Result<Outcome, Error> {
        if step.scheduled.is_empty() {
            return Ok(Outcome::default());
        }
        let output = match self.engine.step(&step.plan) {
            Ok(output) => output,
            Err(error) => {
                let decisions = self.scheduler.abandon(self.engine.tables_mut());
                return Ok(Outcome { decisions, failed: Some(error), guesses: (0, 0) });
            }
        };
        let (chosen, guesses) = hand_out(step, &output, &mut self.active, &self.cpu);
        let decisions = self.scheduler.commit(&chosen, self.engine.tables_mut())?;
        Ok(Outcome { decisions, failed: None, guesses })
    }

    /// Adjusts the sizes of steps to what this one has cost, so that prompts hold up those who decode by about `stall`.
    pub fn observe(&mut self, step: &Step, time: Duration, stall: Duration) {
        let tokens = step.scheduled.iter().map(|s| s.tokens).sum();
        let positions = |s: &Scheduled| s.tokens as f64 * (s.position as f64 + s.tokens as f64 / 2.0);
        self.cost.observe(tokens, step.scheduled.iter().map(positions).sum(), time);
        let cost = &self.cost;
        let weights = cost.weights_read_tokens();
        self.scheduler.tune(|tuned| {
            let most = tuned.step_tokens;
            let clamp = |tokens: usize, least: usize| tokens.clamp(least.min(most), most);
            // What is computed whole takes a step as it is.
            if tuned.whole_prompts {
                return;
            }
            if let Some(beside) = cost.tokens_within(stall) {
                tuned.prompt_tokens_beside_decode = clamp(beside, LEAST_PROMPT_TOKENS);
            }
            if let (Some(alone), Some(weights)) = (cost.tokens_within(stall * ALONE), weights) {
                let worth = (weights * LEAST_ALONE.0) as usize;
                tuned.prompt_tokens_alone = clamp(alone, worth.max(LEAST_ALONE.1));
                tuned.weights_read_tokens = weights;
            }
            tuned.position_cost = cost.position_cost().unwrap_or(tuned.position_cost);
        });
    }
}

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
                guesses: &entry.tokens[s.tokens - s.drafted..],
            });
        }
        all
    }
}

/// An entry in the hands of a thread.
struct Turn<'a, A> {
    entry: &'a Entry<'a>,
    /// `None` for one that was taken out.
    answer: Option<&'a mut A>,
    /// Tokens, and whether the request ends. Nothing can be chosen for one that was taken out.
    chosen: (Vec<u32>, bool),
}

/// Gives every answer what the step computed for it, and lets it choose; what was chosen, and how many tokens were
/// guessed and right.
fn hand_out<A: Answer>(
    step: &Step,
    output: &StepOutput<'_>,
    active: &mut Active<A>,
    cpu: &Cpu,
) -> (Vec<Chosen>, (usize, usize)) {
    let rows: Vec<OutputRow<'_>> = output.rows().collect();
    let states: Vec<StateRow<'_>> = output.states().collect();
    let entries = Entry::all(step, &rows, &states);
    score(&entries, active, cpu);
    read(&entries, active, cpu);
    let mut answers: HashMap<RequestId, &mut A> = active.iter_mut().map(|(id, a)| (*id, &mut a.1)).collect();
    let mut turns = Vec::new();
    for entry in &entries {
        let answer = answers.remove(&entry.scheduled.request);
        turns.push(Mutex::new(Turn { entry, answer, chosen: (Vec::new(), true) }));
    }
    cpu.pool().run(turns.len(), |i| {
        let mut turn = turns[i].lock().unwrap_or_else(PoisonError::into_inner);
        let Turn { entry, answer: Some(answer), chosen } = &mut *turn else { return };
        if !entry.states.is_empty() {
            answer.pool(entry.states);
        }
        if entry.scheduled.samples {
            *chosen = answer.choose(entry.choice, entry.guesses);
        }
    });
    let (mut all, mut guesses) = (Vec::new(), (0, 0));
    for turn in turns {
        let turn = turn.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (s, (tokens, stop)) = (turn.entry.scheduled, turn.chosen);
        if s.samples {
            guesses.0 += s.drafted;
            guesses.1 += tokens.len().saturating_sub(1);
            all.push(Chosen { request: s.request, tokens, stop });
        }
    }
    (all, guesses)
}

/// Shows the logits of prompts to those who read them.
fn read<A: Answer>(entries: &[Entry<'_>], active: &Active<A>, cpu: &Cpu) {
    let mut wanted: Vec<(&LogitReader, &OutputRow<'_>)> = Vec::new();
    for entry in entries {
        let reader = active.get(&entry.scheduled.request).and_then(|(_, answer)| answer.reader());
        wanted
            .extend(reader.into_iter().flat_map(|reader| entry.prompt.iter().map(move |row| (reader, row))));
    }
    cpu.pool().run(wanted.len(), |i| {
        let (reader, row) = wanted[i];
        reader(row.position, row.logits);
    });
}

/// Tells answers the log probabilities of their prompts' tokens, as far as this step has them.
fn score<A: Answer>(entries: &[Entry<'_>], active: &mut Active<A>, cpu: &Cpu) {
    let mut wanted = Vec::new();
    for entry in entries {
        let id = entry.scheduled.request;
        let Some((request, answer)) = active.get(&id) else { continue };
        let Some(top) = answer.scores() else { continue };
        for row in entry.prompt {
            // Behind the prompt's last token stands none of its own.
            if let Some(token) = request.prompt.get(row.position + 1) {
                wanted.push((id, row.logits, *token, top));
            }
        }
    }
    let told: Vec<Mutex<Option<TokenLogprobs>>> = wanted.iter().map(|_| Mutex::new(None)).collect();
    cpu.pool().run(wanted.len(), |i| {
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
        if let Some((_, answer)) = active.get_mut(&id) {
            answer.score(told);
        }
    }
}
