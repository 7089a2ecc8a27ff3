//! [`Batch`]: answers, log probabilities and vectors of many texts at once.

use crate::error::Error;
use crate::generation::{Finish, Generation};
use crate::job::{Job, Samplers, Text, named};
use crate::options::{BatchOptions, GenerateOptions};
use crate::session::{PROMPT_STEP, Parts, context, state_cache};
use leyden_engine::schedule::{Decision, KeyId, PromptRows, Request, RequestId, Scheduler, SchedulerOptions};
use leyden_engine::{
    ActivationSums, AdapterSet, Engine, EngineOptions, Generator, Pooling, Scope, TokenLogprobs,
};
use leyden_models::heads::{HeadOutput, PooledStates, TextVector};
use leyden_text::Tokenizer;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Callback for logits. It gets the index of a text, the position of the token that they follow, and the logits
/// `[vocabulary]`.
pub type LogitsReader = dyn Fn(usize, usize, &[f32]) + Send + Sync;

/// Engine for many texts at once, which computes common prefixes once. Created by
/// [`Model::batch`](crate::Model::batch).
///
/// Answers, log probabilities and vectors of a text do not depend on the other texts, to the bit.
pub struct Batch {
    generator: Generator<Job>,
    tokenizer: Arc<dyn Tokenizer>,
    pooling: Pooling,
    file: String,
    scope: Option<Arc<Scope>>,
    /// Adapters of texts without their own.
    adapters: AdapterSet,
    samplers: Samplers,
    requests: u64,
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Batch {
    pub(crate) fn new(parts: Parts, pooling: Pooling, options: &BatchOptions) -> Result<Batch, Error> {
        let Parts { network, cpu, tokenizer, file, adapters, .. } = parts;
        let context = context(network.as_ref(), options.context)?;
        let vocabulary = network.vocabulary();
        let kv_type = options.kv_type;
        let cache_tokens = options.cache_tokens.unwrap_or(context);
        let whole_prompts = network.config().needs_whole_texts();
        let step_tokens = PROMPT_STEP.max(options.parallel).max(if whole_prompts { context } else { 0 });
        let engine = EngineOptions { kv_type, context, cache_tokens, step_tokens };
        let state_cache = state_cache(network.as_ref(), kv_type, options.state_cache, options.parallel)?;
        let engine = Engine::new(network, cpu, engine)?.with_checkpoints(state_cache);
        let scheduler = SchedulerOptions {
            step_tokens,
            // A batch is run for throughput, so prompts may fill whole steps.
            prompt_tokens_beside_decode: step_tokens,
            running: options.parallel,
            waiting: usize::MAX,
            waiting_per_key: usize::MAX,
            context,
            vocabulary,
            logit_rows: SchedulerOptions::logit_rows_for(vocabulary),
            whole_prompts,
            ..SchedulerOptions::default()
        };
        let scheduler = Scheduler::new(scheduler, engine.tables().total_blocks());
        let (owner, salt) = Default::default();
        // The cache keeps nothing of an encoder's texts.
        let scope = (!whole_prompts)
            .then(|| Scope { model: file.clone(), kv_type, owner, adapters: adapters.clone(), salt })
            .map(Arc::new);
        let generator = Generator::new(engine, scheduler);
        let samplers = Samplers::default();
        Ok(Batch { generator, tokenizer, pooling, file, scope, adapters, samplers, requests: 0 })
    }

    /// Sets the adapters for scores and vectors, and for prompts without [`GenerateOptions::adapters`].
    #[must_use]
    pub fn with_adapters(self, adapters: AdapterSet) -> Batch {
        Batch { adapters, ..self }
    }

    /// Continues all prompts, with the same answers as [`Session::generate`](crate::Session::generate). Common prefixes
    /// of prompts are computed once.
    ///
    /// # Errors
    /// A prompt is empty or too long, an option is out of range, or the model failed. There are no answers then.
    ///
    /// ```
    /// use leyden::{BatchOptions, GenerateOptions, LoadOptions, Model};
    ///
    /// let model = Model::embedded(&LoadOptions::default())?;
    /// let prompts = [model.tokenize("The king")?, model.tokenize("The queen")?];
    /// let options = GenerateOptions::new().max_tokens(8);
    /// let answers = model.batch(&BatchOptions::new())?.generate(&prompts, &options)?;
    /// assert_eq!(answers.len(), 2);
    /// # Ok::<(), leyden::Error>(())
    /// ```
    pub fn generate<P: AsRef<[u32]>>(
        &mut self,
        prompts: &[P],
        options: &GenerateOptions,
    ) -> Result<Vec<Generation>, Error> {
        let each: Vec<(&[u32], &GenerateOptions)> = prompts.iter().map(|p| (p.as_ref(), options)).collect();
        self.generate_each(&each)
    }

    /// Continues all prompts like [`generate`](Self::generate), each with options of its own, adapters included.
    ///
    /// # Errors
    /// As [`generate`](Self::generate).
    pub fn generate_each<P: AsRef<[u32]>>(
        &mut self,
        prompts: &[(P, &GenerateOptions)],
    ) -> Result<Vec<Generation>, Error> {
        let start = Instant::now();
        let mut jobs = Vec::new();
        for (prompt, options) in prompts {
            let max_tokens = options.max_tokens.unwrap_or(usize::MAX);
            let adapters = options.adapters.as_ref().unwrap_or(&self.adapters).clone();
            let sampler = self.samplers.sampler(self.generator.engine(), self.tokenizer.as_ref(), options)?;
            let text = Text::new(Arc::clone(&self.tokenizer), sampler, prompt.as_ref(), options);
            jobs.push((prompt.as_ref(), max_tokens, PromptRows::None, Job::Text(Box::new(text)), adapters));
        }
        let served = self.serve_adapted(jobs)?;
        let finished = |(served, (prompt, _)): (Served, &(P, &GenerateOptions))| {
            let mut answer = Generation::new(prompt.as_ref().len());
            answer.cached_tokens = served.cached_tokens;
            let Job::Text(mut text) = served.job else { return Ok(answer) };
            if let Some(end) = text.end.take() {
                answer.finish = end.map_err(|error| named(error, &self.file))?;
            } else {
                answer.finish = Finish::Length;
            }
            text.complete();
            if let Some(first) = text.first {
                answer.prefill = first - start;
                answer.first_token = answer.prefill;
                answer.decode = served.ended - first;
            }
            (answer.text, answer.tokens, answer.logprobs) = (text.text, text.tokens, text.scores);
            Ok(answer)
        };
        served.into_iter().zip(prompts).map(finished).collect()
    }

    /// Computes the log probability of every token of each text but the first, given the tokens before it, and the
    /// `top` most probable tokens at its position. Their sum is the log probability of the text.
    ///
    /// # Errors
    /// A text is empty or too long, or the model failed.
    ///
    /// ```
    /// use leyden::{BatchOptions, LoadOptions, Model};
    ///
    /// let model = Model::embedded(&LoadOptions::default())?;
    /// let texts = [model.tokenize("Once upon a time")?, model.tokenize("Once time upon a")?];
    /// let scores = model.batch(&BatchOptions::new())?.score(&texts, 0)?;
    /// let sums: Vec<f32> = scores.iter().map(|text| text.iter().map(|token| token.logprob).sum()).collect();
    /// assert!(sums[0] > sums[1]);
    /// # Ok::<(), leyden::Error>(())
    /// ```
    pub fn score<P: AsRef<[u32]>>(
        &mut self,
        texts: &[P],
        top: usize,
    ) -> Result<Vec<Vec<TokenLogprobs>>, Error> {
        self.score_from(texts, 0, top)
    }

    /// Scores like [`score`](Self::score), but only the tokens after position `from`; no logits are computed for
    /// earlier ones.
    ///
    /// # Errors
    /// As [`score`](Self::score).
    pub fn score_from<P: AsRef<[u32]>>(
        &mut self,
        texts: &[P],
        from: usize,
        top: usize,
    ) -> Result<Vec<Vec<TokenLogprobs>>, Error> {
        self.scores(texts.iter().map(|text| (text.as_ref(), from)), top)
    }

    /// Scores like [`score_from`](Self::score_from) without top tokens, each text after a position of its own.
    ///
    /// # Errors
    /// As [`score`](Self::score).
    pub fn score_each<P: AsRef<[u32]>>(
        &mut self,
        texts: &[(P, usize)],
    ) -> Result<Vec<Vec<TokenLogprobs>>, Error> {
        self.scores(texts.iter().map(|(text, from)| (text.as_ref(), *from)), 0)
    }

    fn scores<'p>(
        &mut self,
        texts: impl Iterator<Item = (&'p [u32], usize)>,
        top: usize,
    ) -> Result<Vec<Vec<TokenLogprobs>>, Error> {
        let job = |text: &[u32]| Job::Scores(top, Vec::with_capacity(text.len()));
        let jobs = texts.map(|(text, from)| (text, 0, PromptRows::Logits { from }, job(text)));
        let served = self.serve(jobs.collect())?;
        let scores = |served: Served| match served.job {
            Job::Scores(_, scores) if scores.iter().any(|score| score.logprob.is_nan()) => {
                Err(Error::NotFinite { file: self.file.clone() })
            }
            Job::Scores(_, scores) => Ok(scores),
            _ => Ok(Vec::new()),
        };
        served.into_iter().map(scores).collect()
    }

    /// Calls `read` with the logits that follow each token of each text, from position `from` on. `read` is called on
    /// several threads at the same time, in no particular order, and gets the logits without a copy.
    ///
    /// # Errors
    /// A text is empty or too long, or the model failed.
    pub fn read_logits<P: AsRef<[u32]>>(
        &mut self,
        texts: &[P],
        from: usize,
        read: &Arc<LogitsReader>,
    ) -> Result<(), Error> {
        let job = |number: usize| {
            let read = Arc::clone(read);
            Job::Logits(Arc::new(move |position, logits: &[f32]| read(number, position, logits)))
        };
        let rows = PromptRows::Logits { from };
        let jobs = texts.iter().enumerate().map(|(i, text)| (text.as_ref(), 0, rows.clone(), job(i)));
        let jobs = jobs.collect();
        self.serve(jobs)?;
        Ok(())
    }

    /// Computes sums of squares, by column, of the inputs of every matrix on these texts. The output matrix is not
    /// included.
    ///
    /// # Errors
    /// A text is empty or too long, or the model failed.
    ///
    /// ```
    /// use leyden::{BatchOptions, LoadOptions, Model};
    ///
    /// let model = Model::embedded(&LoadOptions::default())?;
    /// let text = model.tokenize("Once upon a time there was a king.")?;
    /// let sums = model.batch(&BatchOptions::new())?.activation_sums(&[&text])?;
    /// let (_, query) = sums.iter().find(|(name, _)| *name == "blk.0.attn_q.weight").unwrap();
    /// assert_eq!(query.rows, [text.len() as u64]);
    /// # Ok::<(), leyden::Error>(())
    /// ```
    pub fn activation_sums<P: AsRef<[u32]>>(&mut self, texts: &[P]) -> Result<ActivationSums, Error> {
        // Without a scope no prefix comes from the cache, so every token is computed and counted.
        let scope = self.scope.take();
        self.generator.engine_mut().record_activations();
        // A mean needs the hidden states of all tokens, so all layers compute all tokens.
        let rows = PromptRows::head(PooledStates { pooling: Pooling::Mean });
        let jobs = texts.iter().map(|text| (text.as_ref(), 0, rows.clone(), Job::Run)).collect();
        let served = self.serve(jobs);
        let sums = self.generator.engine_mut().recorded_activations();
        self.scope = scope;
        served.map(|_| sums)
    }

    /// Computes a vector of length 1 for each text from the hidden states of its tokens, pooled by
    /// [`BatchOptions::pooling`].
    ///
    /// # Errors
    /// A text is empty or too long, or the model failed.
    ///
    /// ```
    /// use leyden::{BatchOptions, LoadOptions, Model};
    ///
    /// let model = Model::embedded(&LoadOptions::default())?;
    /// let texts = [model.tokenize("A fox ran into the wood.")?, model.tokenize("A king.")?];
    /// let vectors = model.batch(&BatchOptions::new())?.embed(&texts)?;
    /// assert!((vectors[0].iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5);
    /// # Ok::<(), leyden::Error>(())
    /// ```
    pub fn embed<P: AsRef<[u32]>>(&mut self, texts: &[P]) -> Result<Vec<Vec<f32>>, Error> {
        let rows = PromptRows::head(TextVector { pooling: self.pooling });
        let jobs = texts.iter().map(|text| (text.as_ref(), 0, rows.clone(), Job::Head(None))).collect();
        let served = self.serve(jobs)?;
        let vector = |served: Served| match served.job {
            Job::Head(Some(HeadOutput::Vectors { values: mut vector, .. })) => {
                let engine = self.generator.engine();
                vector.truncate(engine.model().config().usual_dimensions());
                let square: f64 = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
                if !square.is_finite() {
                    return Err(Error::NotFinite { file: self.file.clone() });
                }
                let length = if square > 0.0 { square.sqrt() } else { 1.0 };
                Ok(vector.into_iter().map(|x| (f64::from(x) / length) as f32).collect())
            }
            _ => Err(Error::NotFinite { file: self.file.clone() }),
        };
        served.into_iter().map(vector).collect()
    }

    /// Serves requests with the batch's adapters, and returns them in order when all are finished.
    fn serve(&mut self, jobs: Vec<(&[u32], usize, PromptRows, Job)>) -> Result<Vec<Served>, Error> {
        let adapted = |(prompt, max, rows, job)| (prompt, max, rows, job, self.adapters.clone());
        let jobs = jobs.into_iter().map(adapted).collect();
        self.serve_adapted(jobs)
    }

    fn serve_adapted(&mut self, jobs: Vec<BatchRequest<'_>>) -> Result<Vec<Served>, Error> {
        let first = self.requests;
        let count = jobs.len();
        let mut served: Vec<Option<Served>> = (0..count).map(|_| None).collect();
        let done = self.run(jobs, first, &mut served);
        // Requests that are left after an error.
        (first..self.requests).for_each(|id| drop(self.generator.take(RequestId(id))));
        done?;
        Ok(served.into_iter().flatten().collect())
    }

    fn run(
        &mut self,
        jobs: Vec<BatchRequest<'_>>,
        first: u64,
        served: &mut [Option<Served>],
    ) -> Result<(), Error> {
        for (prompt, max_tokens, rows, job, adapters) in jobs {
            if prompt.is_empty() {
                return Err(Error::EmptyPrompt);
            }
            let context = self.generator.engine().options().context;
            if prompt.len() > context {
                return Err(Error::PromptTooLong { tokens: prompt.len(), context });
            }
            let request = Request {
                id: RequestId(self.requests),
                key: KeyId(0),
                priority: 0,
                prompt: prompt.to_vec(),
                max_tokens,
                scope: self.scope.clone(),
                adapters,
                deadline: None,
                speculate: false,
                rows,
                held: None,
            };
            let submitted = self.generator.submit(request, job, Duration::ZERO);
            submitted.map_err(|(refusal, _)| Error::Refused(refusal))?;
            self.requests += 1;
        }
        let mut cached = vec![0; served.len()];
        while !self.generator.is_idle() {
            let step = self.generator.plan(Duration::ZERO)?;
            let outcome = self.generator.compute(&step)?;
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
                    Decision::Preempted { .. } => {}
                    Decision::Finished { request, .. } => {
                        let Some(i) = index(request).filter(|i| *i < served.len()) else { continue };
                        let taken = self.generator.take(request);
                        let (cached_tokens, ended) = (cached[i], Instant::now());
                        served[i] = taken.map(|(_, job)| Served { job, cached_tokens, ended });
                    }
                }
            }
        }
        Ok(())
    }
}

/// Request: prompt, max_tokens, wanted rows of the prompt, consumer of the results, and adapters.
type BatchRequest<'p> = (&'p [u32], usize, PromptRows, Job, AdapterSet);

/// Finished request.
struct Served {
    job: Job,
    cached_tokens: usize,
    ended: Instant,
}
