//! [`Worker`]: the loop of a [`Service`](crate::Service)'s thread.
//!
//! Requests enter the scheduler's queue when they arrive, and leave when they finish, fail or are cancelled, which is
//! seen between two steps. A step that fails ends all its requests with the same error.

use crate::error::Error;
use crate::generation::{Finish, Generation, StreamEvent};
use crate::job::{Job, Text, named, sampler};
use crate::options::GenerateOptions;
use crate::runner::{Runner, Submission};
use leyden_engine::schedule::{Decision, PromptRows, RequestId, Step};
use leyden_engine::{AdapterSet, Scope, TokenLogprobs};
use leyden_tasks::Samplers;
use leyden_text::Tokenizer;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

/// Request on its way to the thread.
pub(crate) struct Incoming {
    pub(crate) prompt: Vec<u32>,
    pub(crate) work: Work,
    pub(crate) reply: Sender<Result<Reply, Error>>,
    pub(crate) cancelled: Arc<AtomicBool>,
}

/// Kind of a request.
pub(crate) enum Work {
    /// Answer, with its text in pieces or not.
    Text { options: Box<GenerateOptions>, pieces: bool },
    /// Log probabilities after a position, with this number of top tokens.
    Scores { from: usize, top: usize },
}

/// Message about a request.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Event of an answer.
    Event(StreamEvent),
    /// Log probabilities of a text.
    Scores(Vec<TokenLogprobs>),
}

/// Request that the scheduler has.
struct Open {
    reply: Sender<Result<Reply, Error>>,
    cancelled: Arc<AtomicBool>,
    pieces: bool,
    prompt_tokens: usize,
    cached_tokens: usize,
    start: Instant,
}

/// Engine and the requests that it has.
pub(crate) struct Worker {
    pub(crate) runner: Runner,
    pub(crate) tokenizer: Arc<dyn Tokenizer>,
    pub(crate) scope: Option<Arc<Scope>>,
    pub(crate) adapters: AdapterSet,
    pub(crate) samplers: Samplers,
}

/// Requests by their numbers.
type All = BTreeMap<RequestId, Open>;

impl Worker {
    /// Serves requests until `closed`, or until nobody can send any.
    pub(crate) fn run(mut self, incoming: &Receiver<Incoming>, closed: &AtomicBool) {
        // A system that refuses the binding refused it when the model was loaded, which `Model::unplaced` tells.
        let _ = self.runner.engine().cpu().bind_caller();
        let mut open = All::new();
        while !closed.load(Ordering::Relaxed) {
            if self.runner.generator().is_idle() {
                match incoming.recv() {
                    Ok(request) => self.submit(request, &mut open),
                    Err(_) => return,
                }
            }
            for request in incoming.try_iter() {
                self.submit(request, &mut open);
            }
            self.drop_cancelled(&mut open);
            if let Err(error) = self.step(&mut open) {
                let error = Arc::new(error);
                for id in open.keys().copied().collect::<Vec<_>>() {
                    self.fail(id, Error::Shared(Arc::clone(&error)), &mut open);
                }
            }
        }
    }

    /// Puts a request in the scheduler's queue, or replies with the reason why not.
    fn submit(&mut self, request: Incoming, open: &mut All) {
        let Incoming { prompt, work, reply, cancelled } = request;
        let start = Instant::now();
        let prompt_tokens = prompt.len();
        let pieces = matches!(work, Work::Text { pieces: true, .. });
        let submitted = match work {
            Work::Text { options, .. } if options.max_tokens == Some(0) => {
                let nothing = Generation::new(prompt_tokens);
                let _ = reply.send(Ok(Reply::Event(StreamEvent::Done(nothing))));
                return;
            }
            Work::Text { options, .. } => self.text(prompt, &options),
            Work::Scores { from, top } => Ok(Submission {
                job: Job::Scores(top, Vec::with_capacity(prompt.len())),
                prompt,
                max_tokens: 0,
                rows: PromptRows::Logits { from },
                adapters: self.adapters.clone(),
            }),
        };
        match submitted.and_then(|submission| self.runner.submit(submission, self.scope.as_ref())) {
            Ok(id) => {
                let request = Open { reply, cancelled, pieces, prompt_tokens, cached_tokens: 0, start };
                open.insert(id, request);
            }
            // A caller who no longer waits needs no error.
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    fn text(&self, prompt: Vec<u32>, options: &GenerateOptions) -> Result<Submission, Error> {
        let (engine, tokenizer) = (self.runner.engine(), self.tokenizer.as_ref());
        let sampler = sampler(&self.samplers, engine, tokenizer, options, &prompt)?;
        let text = Text::new(Arc::clone(&self.tokenizer), sampler, &prompt, options);
        Ok(Submission {
            prompt,
            max_tokens: options.max_tokens.unwrap_or(usize::MAX),
            rows: PromptRows::None,
            job: Job::Text(Box::new(text)),
            adapters: options.adapters.as_ref().unwrap_or(&self.adapters).clone(),
        })
    }

    /// Takes out the requests that nobody waits for.
    fn drop_cancelled(&mut self, open: &mut All) {
        let cancelled =
            |(id, request): (&RequestId, &Open)| request.cancelled.load(Ordering::Relaxed).then_some(*id);
        for id in open.iter().filter_map(cancelled).collect::<Vec<_>>() {
            self.end(id, Some(Finish::Cancelled), open);
        }
    }

    /// Computes a step and tells the requests about it.
    fn step(&mut self, open: &mut All) -> Result<(), Error> {
        let (step, outcome) = self.runner.step()?;
        let failed = outcome.failed.map(|error| Arc::new(Error::from(error)));
        let decisions: Vec<Decision> = step.decisions.iter().chain(&outcome.decisions).copied().collect();
        for decision in decisions {
            match decision {
                Decision::Admitted { request, cached_tokens } => {
                    if let Some(request) = open.get_mut(&request) {
                        request.cached_tokens = cached_tokens;
                    }
                }
                Decision::Preempted { .. } | Decision::Refused { .. } => {}
                Decision::Finished { request, .. } => match &failed {
                    Some(error) => self.fail(request, Error::Shared(Arc::clone(error)), open),
                    None => self.end(request, None, open),
                },
            }
        }
        self.tell_pieces(&step, open);
        Ok(())
    }

    /// Sends the new text and the progress of requests that are streamed.
    fn tell_pieces(&mut self, step: &Step, open: &mut All) {
        for scheduled in &step.scheduled {
            let Some(request) = open.get(&scheduled.request).filter(|request| request.pieces) else {
                continue;
            };
            let all = request.prompt_tokens;
            let mut events = Vec::new();
            if scheduled.position < all {
                events.push(StreamEvent::Prompt((scheduled.position + scheduled.tokens).min(all), all));
            }
            if let Some((_, Job::Text(text))) = self.runner.generator_mut().get_mut(scheduled.request) {
                events.extend(text.new_text().map(StreamEvent::Text));
            }
            for event in events {
                // A caller who no longer waits has cancelled the request.
                let _ = request.reply.send(Ok(Reply::Event(event)));
            }
        }
    }

    /// Takes out a request and replies with an error.
    fn fail(&mut self, id: RequestId, error: Error, open: &mut All) {
        drop(self.runner.generator_mut().take(id));
        if let Some(request) = open.remove(&id) {
            let _ = request.reply.send(Err(error));
        }
    }

    /// Takes out a request and replies with its result.
    fn end(&mut self, id: RequestId, finish: Option<Finish>, open: &mut All) {
        let taken = self.runner.generator_mut().take(id);
        let Some(request) = open.remove(&id) else { return };
        let reply = match taken {
            Some((_, Job::Text(text))) => self.answer(*text, finish, &request),
            Some((_, Job::Scores(_, scores))) if scores.iter().all(|score| !score.logprob.is_nan()) => {
                Ok(Reply::Scores(scores))
            }
            _ => Err(Error::NotFinite { file: self.runner.file().to_owned() }),
        };
        let _ = request.reply.send(reply);
    }

    fn answer(&self, mut text: Text, finish: Option<Finish>, request: &Open) -> Result<Reply, Error> {
        let ended = Instant::now();
        let mut answer = Generation::new(request.prompt_tokens);
        answer.cached_tokens = request.cached_tokens;
        answer.finish = match (finish, text.end.take()) {
            (Some(finish), _) => finish,
            (None, Some(end)) => end.map_err(|error| named(error, self.runner.file()))?,
            (None, None) => Finish::Length,
        };
        text.complete();
        if request.pieces
            && let Some(rest) = text.new_text()
        {
            let _ = request.reply.send(Ok(Reply::Event(StreamEvent::Text(rest))));
        }
        if let Some(first) = text.first {
            answer.prefill = first - request.start;
            answer.first_token = answer.prefill;
            answer.decode = ended - first;
        }
        (answer.text, answer.tokens, answer.logprobs) = (text.text, text.tokens, text.scores);
        Ok(Reply::Event(StreamEvent::Done(answer)))
    }
}
