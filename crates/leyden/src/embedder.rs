//! [`Embedder`]: vectors, labels, relevance scores and entities of many texts at a time.

use crate::error::Error;
use crate::model::Model;
use crate::runner::Runner;
use leyden_engine::schedule::SchedulerOptions;
use leyden_engine::{Engine, EngineOptions};
use leyden_kernels::attention::{BLOCK_TOKENS, KvType};
use leyden_models::Pooling;
use leyden_tasks::calibration::{Answer, Decider};
use leyden_tasks::{
    Aggregation, Classify, Decide, Embed, EmbedSparse, EmbedTokens, Entity, ExtractLabels, ExtractTokens,
    LongDocument, Plan, Preface, Rerank, Rows, SpanOptions, Task, TaskKind, TextInput, TextOptions,
    Truncation, VectorShape, ranked,
};
use std::fmt;
use std::sync::Arc;

/// Maximum number of tokens of a step with several texts; larger steps are hardly faster.
const STEP_TOKENS: usize = 1024;
/// Maximum number of texts of a step; each takes whole blocks of the cache.
const STEP_TEXTS: usize = 64;
/// Maximum number of texts in the engine's queue.
const QUEUE: usize = 4 * STEP_TEXTS;

/// Options of an [`Embedder`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmbedOptions {
    /// Pooling of hidden states to vectors; by default the model's, or else their mean.
    pub pooling: Option<Pooling>,
    /// True, the default, to scale vectors to length 1.
    pub normalize: bool,
    /// Number of dimensions of each vector to keep, the first; by default all.
    pub dimensions: Option<usize>,
    /// True to cut off the end of texts that are longer than the context, or their beginning if the tokenizer's
    /// `truncation_side` is `left`. By default such a text is an error.
    pub truncate: bool,
    /// Name of the prompt to put before texts; by default the model's default prompt.
    pub prompt_name: Option<String>,
}

impl Default for EmbedOptions {
    fn default() -> EmbedOptions {
        EmbedOptions { pooling: None, normalize: true, dimensions: None, truncate: false, prompt_name: None }
    }
}

impl EmbedOptions {
    /// Sets [`pooling`](Self::pooling).
    #[must_use]
    pub fn pooling(mut self, pooling: Pooling) -> EmbedOptions {
        self.pooling = Some(pooling);
        self
    }

    /// Sets [`normalize`](Self::normalize).
    #[must_use]
    pub fn normalize(mut self, normalize: bool) -> EmbedOptions {
        self.normalize = normalize;
        self
    }

    /// Sets [`dimensions`](Self::dimensions).
    #[must_use]
    pub fn dimensions(mut self, dimensions: usize) -> EmbedOptions {
        self.dimensions = Some(dimensions);
        self
    }

    /// Sets [`prompt_name`](Self::prompt_name).
    #[must_use]
    pub fn prompt_name(mut self, name: impl Into<Option<String>>) -> EmbedOptions {
        self.prompt_name = name.into();
        self
    }

    /// Sets [`truncate`](Self::truncate).
    #[must_use]
    pub fn truncate(mut self, truncate: bool) -> EmbedOptions {
        self.truncate = truncate;
        self
    }
}

/// Label of a text, and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Label<'m> {
    /// Name of the label.
    pub label: &'m str,
    /// Probability or, for a regression model, its value.
    pub score: f32,
}

/// Decision on a text by a calibration.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelDecision<'m> {
    /// Kind.
    pub answer: Answer,
    /// Labels with their calibrated probabilities, the most probable first. An abstention has the set if the promise is
    /// about sets, else nothing.
    pub labels: Vec<Label<'m>>,
}

/// Computation of vectors, labels and relevance scores of texts, many in a step. The results for a text do not depend
/// on the others.
///
/// ```no_run
/// use leyden::{EmbedOptions, LoadOptions, Model};
///
/// let model = Model::open("all-MiniLM-L6-v2", &LoadOptions::new())?;
/// let mut embedder = model.embedder(&EmbedOptions::default())?;
/// let vectors = embedder.embed(&["a cat on a mat", "stock markets fell"])?;
/// assert_eq!(vectors[0].len(), 384);
/// # Ok::<(), leyden::Error>(())
/// ```
pub struct Embedder<'m> {
    model: &'m Model,
    runner: Runner,
    options: EmbedOptions,
    shape: VectorShape,
    text: TextOptions,
}

impl fmt::Debug for Embedder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedder").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Model {
    /// Returns a vector of length 1 for each text; see [`Embedder::embed`].
    ///
    /// # Errors
    /// As [`Embedder::embed`].
    pub fn embed<T: AsRef<str>>(&self, texts: &[T]) -> Result<Vec<Vec<f32>>, Error> {
        self.embedder(&EmbedOptions::default())?.embed(texts)
    }

    /// Returns an [`Embedder`], which computes vectors or labels of many texts at a time.
    ///
    /// # Errors
    /// An option is out of range, or memory is short.
    pub fn embedder(&self, options: &EmbedOptions) -> Result<Embedder<'_>, Error> {
        Embedder::new(self, options)
    }
}

impl<'m> Embedder<'m> {
    fn new(model: &'m Model, options: &EmbedOptions) -> Result<Embedder<'m>, Error> {
        let (config, file) = (model.config(), model.metadata().file());
        let refused = |error| Error::of_task(error, file);
        let shape = VectorShape::new(config, options.dimensions, options.normalize).map_err(refused)?;
        let name = options.prompt_name.as_deref();
        let preface = Preface::named(model.prompts(), name).map_err(|kind| refused(kind.into()))?;
        let truncation =
            if options.truncate { Truncation::TokenizerSide(usize::MAX) } else { Truncation::Refuse };
        // A decoder's texts are computed in parts; a text of an encoder must fit a step.
        let step_tokens =
            if config.needs_whole_texts() { STEP_TOKENS.max(config.context) } else { STEP_TOKENS };
        let engine = EngineOptions {
            kv_type: KvType::default(),
            context: config.context,
            cache_tokens: config.context.max(step_tokens) + STEP_TEXTS * BLOCK_TOKENS,
            step_tokens,
        };
        let engine = Engine::new(model.network().clone(), model.cpu().clone(), engine)?;
        let schedule = SchedulerOptions {
            prompt_tokens_beside_decode: STEP_TOKENS,
            prompt_tokens_alone: STEP_TOKENS,
            running: STEP_TEXTS,
            waiting: QUEUE,
            waiting_per_key: QUEUE,
            ..SchedulerOptions::default()
        };
        let runner = Runner::new(engine, schedule, file.to_owned());
        let text = TextOptions { preface, truncation };
        Ok(Embedder { model, runner, options: options.clone(), shape, text })
    }

    /// Computes a vector of each text, in their order.
    ///
    /// # Errors
    /// A text cannot be tokenized or has more tokens than the model takes, or the model failed.
    pub fn embed<T: AsRef<str>>(&mut self, texts: &[T]) -> Result<Vec<Vec<f32>>, Error> {
        let pooling = self.options.pooling.or(self.model.pooling()).unwrap_or_default();
        let model = self.model.task_model();
        let plan = Embed::plan(&model, inputs(texts), &self.text, (pooling, self.shape));
        self.run(plan)
    }

    /// Computes a sparse vector of each text: weights of tokens of the vocabulary, by ascending id.
    ///
    /// # Errors
    /// As [`embed`](Self::embed), or the model computes no sparse vectors.
    pub fn sparse<T: AsRef<str>>(&mut self, texts: &[T]) -> Result<Vec<Vec<(u32, f32)>>, Error> {
        let model = self.model.task_model();
        self.run(EmbedSparse::plan(&model, inputs(texts), &self.text))
    }

    /// Computes a vector for each token of each text: vectors of length 1 from the model's head for late interaction,
    /// or the hidden states if it has none.
    ///
    /// # Errors
    /// As [`embed`](Self::embed).
    pub fn token_vectors<T: AsRef<str>>(&mut self, texts: &[T]) -> Result<Vec<Vec<Vec<f32>>>, Error> {
        let model = self.model.task_model();
        let all = self.run(EmbedTokens::plan(&model, inputs(texts), &self.text))?;
        let vectors = |rows: Rows| rows.values.chunks_exact(rows.width).map(<[f32]>::to_vec).collect();
        Ok(all.into_iter().map(vectors).collect())
    }

    /// Computes the labels of each text, in the order of texts, each text's best label first.
    ///
    /// # Errors
    /// As [`embed`](Self::embed), or the model does not classify texts.
    pub fn classify<T: AsRef<str>>(&mut self, texts: &[T]) -> Result<Vec<Vec<Label<'m>>>, Error> {
        let (model, kind) = (self.model.task_model(), TaskKind::Classify);
        let form = (self.text.truncation, false);
        let plan = Classify::plan(&model, kind, inputs(texts), form);
        let all = self.run(plan)?;
        let names = self.model.config().classifier().map_or(&[][..], |classifier| &classifier.labels);
        let label = |(label, score): (usize, f32)| Label { label: &names[label], score };
        Ok(all.into_iter().map(|rows| ranked(rows.values).into_iter().map(label).collect()).collect())
    }

    /// Computes the logits of all labels of each text, in the order of texts and of the model's labels.
    ///
    /// # Errors
    /// As [`classify`](Self::classify).
    pub fn label_logits<T: AsRef<str>>(&mut self, texts: &[T]) -> Result<Vec<Vec<f32>>, Error> {
        let form = (self.text.truncation, true);
        let plan = Classify::plan(&self.model.task_model(), TaskKind::Classify, inputs(texts), form);
        Ok(self.run(plan)?.into_iter().map(|rows| rows.values).collect())
    }

    /// Decides on the label of each text, in the order of texts: a label, a set of labels, or an abstention. `decider`
    /// is made for this model by [`Model::decider`].
    ///
    /// # Errors
    /// As [`classify`](Self::classify), or the calibration is for another treatment of texts that are too long.
    pub fn decide<T: AsRef<str>>(
        &mut self,
        texts: &[T],
        decider: &Decider,
    ) -> Result<Vec<LabelDecision<'m>>, Error> {
        let refused = |error| self.model.calibration_error(error);
        decider.check_texts(self.options.truncate, self.model.config().context).map_err(refused)?;
        let form = (self.text.truncation, true);
        let plan = Decide::plan(&self.model.task_model(), inputs(texts), Arc::new(decider.clone()), form);
        let all = self.run(plan)?;
        let names = self.model.config().classifier().map_or(&[][..], |classifier| &classifier.labels);
        let label = |(label, score): (usize, f32)| Label { label: &names[label], score };
        let decided = |decided: leyden_tasks::Decided| LabelDecision {
            answer: decided.decision.answer,
            labels: decided.decision.labels.into_iter().map(label).collect(),
        };
        Ok(all.into_iter().map(decided).collect())
    }

    /// Computes the relevance of each document for a question, from 0 to 1, in their order. A document that does not
    /// fit the context with the question is read in parts, whose best score counts; with [`EmbedOptions::truncate`]
    /// only its beginning is read.
    ///
    /// # Errors
    /// The model is no reranker, a text cannot be tokenized, the question alone is too long, or the model failed.
    pub fn rerank<T: AsRef<str>>(&mut self, query: &str, documents: &[T]) -> Result<Vec<f32>, Error> {
        let long = match self.text.truncation {
            Truncation::Refuse => LongDocument::InParts,
            truncation => LongDocument::Truncate(truncation),
        };
        let pairs = documents.iter().map(|document| (query, document.as_ref()));
        self.run(Rerank::plan(&self.model.task_model(), pairs, long, false))
    }

    /// Finds the entities in texts, in their order. A text that is longer than the context is read in overlapping
    /// windows, and each token's label comes from the window whose edges are farthest from it.
    ///
    /// # Errors
    /// The model has no labels for tokens, a text cannot be tokenized, or the model failed.
    pub fn extract<T: AsRef<str>>(
        &mut self,
        texts: &[T],
        aggregation: Aggregation,
    ) -> Result<Vec<Vec<Entity>>, Error> {
        self.run(ExtractTokens::plan(&self.model.task_model(), texts, aggregation))
    }

    /// Finds the entities of these labels in texts, in their order: spans of words with their best label. A text that
    /// is longer than the context is read in overlapping windows, and each span gets its score from the window whose
    /// edges are farthest from it.
    ///
    /// ```no_run
    /// use leyden::{EmbedOptions, LoadOptions, Model, SpanOptions};
    ///
    /// let model = Model::open("gliner_small-v2.1", &LoadOptions::new())?;
    /// let mut embedder = model.embedder(&EmbedOptions::default())?;
    /// let found = embedder.extract_labels(&["Angela lives in Leiden."], &["person", "city"], SpanOptions::default())?;
    /// # Ok::<(), leyden::Error>(())
    /// ```
    ///
    /// # Errors
    /// The model takes no labels, there are none or too many, a text cannot be tokenized, or the model failed.
    pub fn extract_labels<T: AsRef<str>, L: AsRef<str>>(
        &mut self,
        texts: &[T],
        labels: &[L],
        options: SpanOptions,
    ) -> Result<Vec<Vec<Entity>>, Error> {
        let plan = ExtractLabels::plan(&self.model.task_model(), texts, labels, options);
        self.run(plan)
    }

    /// Computes the prompts of a task, and returns its result.
    fn run<T: Task>(&mut self, plan: Result<Plan<T>, leyden_tasks::Error>) -> Result<T::Result, Error> {
        let refused = |error| Error::of_task(error, self.model.metadata().file());
        let Plan { prompts, task } = plan.map_err(refused)?;
        let outputs = self.runner.outputs(prompts, self.model.adapter_set(), None)?;
        let tier = self.runner.engine().cpu().tier();
        task.finish((self.model.config(), tier), outputs).map_err(refused)
    }
}

/// Returns texts as inputs of a task.
fn inputs<T: AsRef<str>>(texts: &[T]) -> impl Iterator<Item = TextInput<'_>> {
    texts.iter().map(|text| TextInput::from(text.as_ref()))
}
