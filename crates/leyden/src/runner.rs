//! [`Runner`]: loop that serves requests of the library until all have ended.

use crate::error::Error;
use crate::job::Job;
use leyden_engine::schedule::{
    Decision, KeyId, PromptRows, Request, RequestId, Scheduler, SchedulerOptions, Step,
};
use leyden_engine::{AdapterSet, Engine, Generator, Outcome, Scope};
use leyden_models::heads::HeadOutput;
use leyden_tasks::TaskPrompt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Key of all requests.
const KEY: KeyId = KeyId(0);

/// Request with the consumer of its results.
pub(crate) struct Submission {
    pub(crate) prompt: Vec<u32>,
    pub(crate) max_tokens: usize,
    pub(crate) rows: PromptRows,
    pub(crate) job: Job,
    pub(crate) adapters: AdapterSet,
}

/// Finished request.
pub(crate) struct Served {
    pub(crate) job: Job,
    pub(crate) cached_tokens: usize,
    pub(crate) ended: Instant,
}

/// Engine with a scheduler, for requests of one caller.
pub(crate) struct Runner {
    generator: Generator<Job>,
    /// Path of the model, for errors.
    file: String,
    /// Number of requests so far.
    requests: u64,
}

impl Runner {
    /// Returns a runner of an engine; the engine's model determines the vocabulary and the treatment of whole texts in
    /// `options`.
    pub(crate) fn new(engine: Engine, options: SchedulerOptions, file: String) -> Runner {
        let vocabulary = engine.model().vocabulary();
        let options = SchedulerOptions {
            step_tokens: engine.options().step_tokens,
            context: engine.options().context,
            vocabulary,
            logit_rows: SchedulerOptions::logit_rows_for(vocabulary),
            whole_prompts: engine.model().config().needs_whole_texts(),
            ..options
        };
        let scheduler = Scheduler::new(options, engine.tables().total_blocks());
        Runner { generator: Generator::new(engine, scheduler), file, requests: 0 }
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.generator.engine()
    }

    pub(crate) fn engine_mut(&mut self) -> &mut Engine {
        self.generator.engine_mut()
    }

    pub(crate) fn generator(&self) -> &Generator<Job> {
        &self.generator
    }

    pub(crate) fn generator_mut(&mut self) -> &mut Generator<Job> {
        &mut self.generator
    }

    /// Plans and computes a step. A step that failed is no error but an [`Outcome`].
    ///
    /// # Errors
    /// A contradiction between engine and scheduler.
    pub(crate) fn step(&mut self) -> Result<(Step, Outcome), Error> {
        let step = self.generator.plan(Duration::ZERO)?;
        let outcome = self.generator.compute(&step)?;
        Ok((step, outcome))
    }

    /// Returns the path of the model.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// Computes the outputs of the heads of prompts, in order.
    ///
    /// # Errors
    /// A prompt is empty or too long, outputs are not finite, or the model failed.
    pub(crate) fn outputs(
        &mut self,
        prompts: Vec<TaskPrompt>,
        adapters: &AdapterSet,
        scope: Option<&Arc<Scope>>,
    ) -> Result<Vec<HeadOutput>, Error> {
        let submission = |prompt: TaskPrompt| Submission {
            prompt: prompt.ids,
            max_tokens: 0,
            rows: PromptRows::Head { head: prompt.head, second: prompt.second },
            job: Job::Head(None),
            adapters: adapters.clone(),
        };
        let served = self.serve(prompts.into_iter().map(submission).collect(), scope)?;
        let output = |served: Served| match served.job {
            Job::Head(Some(output)) => Ok(output),
            _ => Err(Error::NotFinite { file: self.file.clone() }),
        };
        served.into_iter().map(output).collect()
    }

    /// Serves requests, and returns them in order when all have ended.
    ///
    /// # Errors
    /// A prompt is empty or too long, or the model failed.
    pub(crate) fn serve(
        &mut self,
        jobs: Vec<Submission>,
        scope: Option<&Arc<Scope>>,
    ) -> Result<Vec<Served>, Error> {
        let context = self.engine().options().context;
        for job in &jobs {
            let tokens = job.prompt.len();
            if tokens == 0 {
                return Err(Error::EmptyPrompt);
            }
            if tokens > context {
                return Err(Error::PromptTooLong { tokens, context });
            }
        }
        let first = self.requests;
        let mut served: Vec<Option<Served>> = jobs.iter().map(|_| None).collect();
        let done = self.run(jobs, first, &mut served, scope);
        // Requests that are left after an error.
        (first..self.requests).for_each(|id| drop(self.generator.take(RequestId(id))));
        done?;
        Ok(served.into_iter().flatten().collect())
    }

    fn run(
        &mut self,
        jobs: Vec<Submission>,
        first: u64,
        served: &mut [Option<Served>],
        scope: Option<&Arc<Scope>>,
    ) -> Result<(), Error> {
        let mut jobs = jobs.into_iter();
        let mut cached = vec![0; served.len()];
        loop {
            while self.generator.scheduler().has_place(KEY)
                && let Some(job) = jobs.next()
            {
                self.submit(job, scope)?;
            }
            if self.generator.is_idle() {
                return Ok(());
            }
            let (step, outcome) = self.step()?;
            if let Some(error) = outcome.failed {
                return Err(error.into());
            }
            // Ids below `first` belong to requests left by an earlier error, whose decisions are ignored.
            let index = |request: RequestId| usize::try_from(request.0.checked_sub(first)?).ok();
            for decision in step.decisions.into_iter().chain(outcome.decisions) {
                match decision {
                    Decision::Admitted { request, cached_tokens } => {
                        let of = index(request).and_then(|i| cached.get_mut(i));
                        of.into_iter().for_each(|of| *of = cached_tokens);
                    }
                    Decision::Preempted { .. } | Decision::Refused { .. } => {}
                    Decision::Finished { request, .. } => {
                        let Some(i) = index(request).filter(|i| *i < served.len()) else { continue };
                        let taken = self.generator.take(request);
                        let (cached_tokens, ended) = (cached[i], Instant::now());
                        served[i] = taken.map(|(_, job)| Served { job, cached_tokens, ended });
                    }
                }
            }
        }
    }

    /// Puts a request in the scheduler's queue, and returns its number.
    ///
    /// # Errors
    /// The scheduler refuses it.
    pub(crate) fn submit(&mut self, job: Submission, scope: Option<&Arc<Scope>>) -> Result<RequestId, Error> {
        let Submission { prompt, max_tokens, rows, job, adapters } = job;
        let id = RequestId(self.requests);
        let request = Request {
            id,
            key: KEY,
            priority: 0,
            prompt,
            max_tokens,
            scope: scope.cloned(),
            adapters,
            deadline: None,
            speculate: false,
            rows,
            held: None,
        };
        let submitted = self.generator.submit(request, job, Duration::ZERO);
        submitted.map_err(|(refusal, _)| Error::Refused(refusal))?;
        self.requests += 1;
        Ok(id)
    }
}
