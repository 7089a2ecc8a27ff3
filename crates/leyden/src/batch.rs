//! [`Batch`]: answers, log probabilities and vectors of many texts at once.

use crate::error::Error;
use crate::generation::{Finish, Generation};
use crate::job::{Job, Text, named, sampler};
use crate::options::{BatchOptions, GenerateOptions};
use crate::runner::{Runner, Served, Submission};
use crate::service_thread::Worker;
use crate::session::{PROMPT_STEP, Parts, context, state_cache};
use leyden_engine::schedule::{PromptRows, SchedulerOptions};
use leyden_engine::{
    ActivationSums, AdapterSet, Engine, EngineOptions, MatrixInput, Pooling, Scope, TokenLogprobs,
};
use leyden_models::heads::{HeadOutput, PooledStates, TextVector};
use leyden_tasks::{Samplers, VectorShape};
use leyden_text::Tokenizer;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// Callback for logits. It gets the index of a text, the position of the token that they follow, and the logits
/// `[vocabulary]`.
pub type LogitsReader = dyn Fn(usize, usize, &[f32]) + Send + Sync;

/// Engine for many texts at once, which computes common prefixes once. Created by
/// [`Model::batch`](crate::Model::batch).
///
/// Answers, log probabilities and vectors of a text do not depend on the other texts, to the bit.
pub struct Batch {
    runner: Runner,
    tokenizer: Arc<dyn Tokenizer>,
    pooling: Pooling,
    scope: Option<Arc<Scope>>,
    /// Adapters of texts without their own.
    adapters: AdapterSet,
    samplers: Samplers,
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("file", &self.runner.file()).finish_non_exhaustive()
    }
}

impl Batch {
    pub(crate) fn new(parts: Parts, pooling: Pooling, options: &BatchOptions) -> Result<Batch, Error> {
        let Parts { network, cpu, tokenizer, file, adapters, .. } = parts;
        let context = context(network.as_ref(), options.context)?;
        let kv_type = options.kv_type;
        let cache_tokens = options.cache_tokens.unwrap_or(context);
        let whole_prompts = network.config().needs_whole_texts();
        let step_tokens = PROMPT_STEP.max(options.parallel).max(if whole_prompts { context } else { 0 });
        let engine = EngineOptions { kv_type, context, cache_tokens, step_tokens };
        let state_cache = state_cache(network.as_ref(), kv_type, options.state_cache, options.parallel)?;
        let engine = Engine::new(network, cpu, engine)?.with_checkpoints(state_cache);
        let schedule = SchedulerOptions {
            // A batch is run for throughput, so prompts may fill whole steps.
            prompt_tokens_beside_decode: step_tokens,
            running: options.parallel,
            waiting: usize::MAX,
            waiting_per_key: usize::MAX,
            ..SchedulerOptions::default()
        };
        let (owner, salt) = Default::default();
        // The cache keeps nothing of an encoder's texts.
        let scope = (!whole_prompts)
            .then(|| Scope { model: file.clone(), kv_type, owner, adapters: adapters.clone(), salt })
            .map(Arc::new);
        let runner = Runner::new(engine, schedule, file);
        Ok(Batch { runner, tokenizer, pooling, scope, adapters, samplers: Samplers::default() })
    }

    /// Returns the batch's engine for the thread of a service.
    pub(crate) fn into_worker(self) -> Worker {
        let Batch { runner, tokenizer, scope, adapters, samplers, .. } = self;
        Worker { runner, tokenizer, scope, adapters, samplers }
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
            let (engine, prompt) = (self.runner.engine(), prompt.as_ref());
            let sampler = sampler(&self.samplers, engine, self.tokenizer.as_ref(), options, prompt)?;
            let text = Text::new(Arc::clone(&self.tokenizer), sampler, prompt, options);
            jobs.push(Submission {
                prompt: prompt.to_vec(),
                max_tokens,
                rows: PromptRows::None,
                job: Job::Text(Box::new(text)),
                adapters,
            });
        }
        let served = self.runner.serve(jobs, self.scope.as_ref())?;
        let finished = |(served, (prompt, _)): (Served, &(P, &GenerateOptions))| {
            let mut answer = Generation::new(prompt.as_ref().len());
            answer.cached_tokens = served.cached_tokens;
            let Job::Text(mut text) = served.job else { return Ok(answer) };
            if let Some(end) = text.end.take() {
                answer.finish = end.map_err(|error| named(error, self.runner.file()))?;
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
        let served = self.serve(texts.map(|(text, from)| (text, PromptRows::Logits { from }, job(text))))?;
        let scores = |served: Served| match served.job {
            Job::Scores(_, scores) if scores.iter().any(|score| score.logprob.is_nan()) => {
                Err(self.not_finite())
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
        self.serve(texts.iter().enumerate().map(|(i, text)| (text.as_ref(), rows.clone(), job(i))))?;
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
        self.runner.engine_mut().record_activations();
        self.recorded(texts)
    }

    /// Computes the inputs of the matrices with these names in GGUF on these texts: a row for each token, in the order
    /// of the texts if each is one step. Matrices that share an input share its rows. Names that the model lacks, and
    /// those of experts, are ignored.
    ///
    /// # Errors
    /// A text is empty or too long, or the model failed.
    ///
    /// ```
    /// use leyden::{BatchOptions, LoadOptions, Model};
    ///
    /// let model = Model::embedded(&LoadOptions::default())?;
    /// let text = model.tokenize("Once upon a time there was a king.")?;
    /// let names = ["blk.0.attn_q.weight", "blk.0.attn_k.weight"];
    /// let inputs = model.batch(&BatchOptions::new())?.matrix_inputs(&[&text], &names)?;
    /// assert_eq!(inputs.len(), 1);
    /// assert_eq!(inputs[0].values.len(), text.len() * inputs[0].columns);
    /// # Ok::<(), leyden::Error>(())
    /// ```
    pub fn matrix_inputs<P: AsRef<[u32]>, N: AsRef<str>>(
        &mut self,
        texts: &[P],
        names: &[N],
    ) -> Result<Vec<MatrixInput>, Error> {
        self.runner.engine_mut().record_inputs(names.iter().map(|name| name.as_ref().to_owned()));
        Ok(self.recorded(texts)?.into_inputs())
    }

    /// Runs texts, and returns the activations that are recorded.
    fn recorded<P: AsRef<[u32]>>(&mut self, texts: &[P]) -> Result<ActivationSums, Error> {
        // Without a scope no prefix comes from the cache, so every token is computed and counted.
        let scope = self.scope.take();
        // A mean needs the hidden states of all tokens, so all layers compute all tokens.
        let rows = PromptRows::head(PooledStates { pooling: Pooling::Mean });
        let served = self.serve(texts.iter().map(|text| (text.as_ref(), rows.clone(), Job::Run)));
        let sums = self.runner.engine_mut().recorded_activations();
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
        let jobs = texts.iter().map(|text| (text.as_ref(), rows.clone(), Job::Head(None)));
        let served = self.serve(jobs)?;
        let shape = VectorShape::new(self.runner.engine().model().config(), None, true);
        let shape = shape.map_err(|error| Error::of_task(error, self.runner.file()))?;
        let vector = |served: Served| match served.job {
            Job::Head(Some(HeadOutput::Vectors { values, .. })) => Ok(shape.apply(values)),
            _ => Err(self.not_finite()),
        };
        served.into_iter().map(vector).collect()
    }

    fn not_finite(&self) -> Error {
        Error::NotFinite { file: self.runner.file().to_owned() }
    }

    /// Serves requests that generate nothing with the batch's adapters, and returns them in order.
    fn serve<'p>(
        &mut self,
        jobs: impl Iterator<Item = (&'p [u32], PromptRows, Job)>,
    ) -> Result<Vec<Served>, Error> {
        let submission = |(prompt, rows, job): (&[u32], PromptRows, Job)| Submission {
            prompt: prompt.to_vec(),
            max_tokens: 0,
            rows,
            job,
            adapters: self.adapters.clone(),
        };
        let jobs = jobs.map(submission).collect();
        self.runner.serve(jobs, self.scope.as_ref())
    }
}
