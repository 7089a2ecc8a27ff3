//! [`Embedder`]: vectors, labels and relevance scores of many texts at a time.

use crate::error::Error;
use crate::model::Model;
use leyden_engine::{Engine, EngineOptions, Outputs, Pool, SequenceId, StepEntry, StepPlan, WholeText};
use leyden_kernels::attention::{BLOCK_TOKENS, KvType};
use leyden_models::heads::{
    Head, HeadInput, HeadOutput, LabelLogits, SparseVector, TextVector, TokenVectors,
};
use leyden_models::{Labelled, Pooling};
use leyden_text::{Bounds, Pairs, RenderOptions, SoleMessage};
use std::collections::HashMap;
use std::fmt;

/// Maximum number of tokens of a step with several texts; larger steps are hardly faster.
const STEP_TOKENS: usize = 1024;
/// Maximum number of texts of a step; each takes whole blocks of the cache.
const STEP_TEXTS: usize = 64;

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
    pub(crate) model: &'m Model,
    pub(crate) engine: Engine,
    options: EmbedOptions,
}

impl fmt::Debug for Embedder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedder").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Tokenized text.
pub(crate) struct Text {
    pub(crate) ids: Vec<u32>,
    /// Index of the first token of a pair's second text, for models with token types.
    pub(crate) second: Option<usize>,
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
    pub(crate) fn new(model: &'m Model, options: &EmbedOptions) -> Result<Embedder<'m>, Error> {
        let config = model.config();
        if let Some(n) = options.dimensions
            && !(1..=config.vector_width()).contains(&n)
        {
            let what = format!("{n} is not between 1 and {}, which the vectors have", config.vector_width());
            return Err(Error::Option { name: "dimensions", what });
        }
        if let Some(name) = &options.prompt_name
            && model.prompts().get(Some(name)).is_none()
        {
            let known: Vec<&str> = model.prompts().names().collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let what = format!("the model has no prompt `{name}`; it has {known}");
            return Err(Error::Option { name: "prompt-name", what });
        }
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
        Ok(Embedder { model, engine, options: options.clone() })
    }

    /// Computes a vector of each text, in their order.
    ///
    /// # Errors
    /// A text cannot be tokenized or has more tokens than the model takes, or the model failed.
    pub fn embed<T: AsRef<str>>(&mut self, texts: &[T]) -> Result<Vec<Vec<f32>>, Error> {
        let pooling = self.options.pooling.or(self.model.pooling()).unwrap_or_default();
        let texts = self.prompted(texts)?;
        let mut vectors = self.values(&texts, &TextVector { pooling }.into())?;
        let dimensions = self.options.dimensions.unwrap_or(self.model.config().usual_dimensions());
        for vector in &mut vectors {
            vector.truncate(dimensions);
            if self.options.normalize {
                normalize(vector);
            }
        }
        Ok(vectors)
    }

    /// Computes a sparse vector of each text: weights of tokens of the vocabulary, by ascending id.
    ///
    /// # Errors
    /// As [`embed`](Self::embed), or the model computes no sparse vectors.
    pub fn sparse<T: AsRef<str>>(&mut self, texts: &[T]) -> Result<Vec<Vec<(u32, f32)>>, Error> {
        if self.model.config().sparse.is_none() {
            return Err(Error::NotSparse { file: self.file() });
        }
        let texts = self.prompted(texts)?;
        let tokenizer = self.model.tokenizer();
        let head = |text: &Text| {
            let special = text.ids.iter().copied().filter(|id| tokenizer.is_special(*id));
            SparseVector { special: special.collect() }.into()
        };
        let heads: Vec<Head> = texts.iter().map(head).collect();
        let weights = self.outputs(&texts, &heads)?.into_iter().map(|output| match output {
            HeadOutput::Sparse(weights) => weights,
            _ => Vec::new(),
        });
        Ok(weights.collect())
    }

    /// Computes a vector for each token of each text: vectors of length 1 from the model's head for late interaction,
    /// or the hidden states if it has none.
    ///
    /// # Errors
    /// As [`embed`](Self::embed).
    pub fn token_vectors<T: AsRef<str>>(&mut self, texts: &[T]) -> Result<Vec<Vec<Vec<f32>>>, Error> {
        let texts = self.prompted(texts)?;
        let width = self.model.config().token_width();
        let vectors = self.values(&texts, &TokenVectors.into())?;
        Ok(vectors.iter().map(|all| all.chunks_exact(width).map(<[f32]>::to_vec).collect()).collect())
    }

    /// Computes the output of each text's head; all of them have the same pooling.
    pub(crate) fn outputs(&mut self, texts: &[Text], heads: &[Head]) -> Result<Vec<HeadOutput>, Error> {
        let pooling = heads.first().and_then(Head::pooling);
        // Hidden states of all tokens take more memory than pooled ones.
        let count = if pooling.is_some() { texts.len() } else { STEP_TEXTS };
        let mut all = Vec::new();
        for (texts, heads) in texts.chunks(count.max(1)).zip(heads.chunks(count.max(1))) {
            let mut pools = vec![pooling.map_or_else(Pool::every, Pool::new); texts.len()];
            self.run(texts, pooling, &mut |text, at, state| pools[text].push(at, state))?;
            let states: Vec<Vec<f32>> = pools.into_iter().map(Pool::into_vector).collect();
            let of_texts = heads.iter().zip(texts).zip(&states);
            let inputs: Vec<HeadInput<'_>> = of_texts
                .map(|((head, text), states)| HeadInput { head, tokens: &text.ids, states })
                .collect();
            let mut outputs = vec![None; texts.len()];
            let network = self.model.network();
            network.heads(self.engine.cpu(), &inputs, &mut |i, output| outputs[i] = output);
            for output in outputs {
                all.push(output.ok_or_else(|| Error::NotFinite { file: self.file() })?);
            }
        }
        Ok(all)
    }

    /// Computes the vectors or logits of a head for each text.
    fn values(&mut self, texts: &[Text], head: &Head) -> Result<Vec<Vec<f32>>, Error> {
        let outputs = self.outputs(texts, &vec![head.clone(); texts.len()])?;
        let values = outputs.into_iter().map(|output| match output {
            HeadOutput::Vectors { values, .. } | HeadOutput::Logits { values, .. } => values,
            _ => Vec::new(),
        });
        Ok(values.collect())
    }

    /// Computes the labels of each text, in the order of texts, each text's best label first.
    ///
    /// # Errors
    /// As [`embed`](Self::embed), or the model does not classify texts.
    pub fn classify<T: AsRef<str>>(&mut self, texts: &[T]) -> Result<Vec<Vec<Label<'m>>>, Error> {
        let model = self.model;
        let found = model.config().classifier().and_then(|classifier| match classifier.of {
            Labelled::Text(pooling) => Some((classifier, pooling)),
            Labelled::Tokens => None,
        });
        let Some((classifier, pooling)) = found else {
            return Err(Error::NoClassifier { file: self.file() });
        };
        let names = &classifier.labels;
        let texts = texts.iter().enumerate().map(|(i, text)| self.tokens(i, text.as_ref()));
        let texts = texts.collect::<Result<Vec<_>, _>>()?;
        let head = LabelLogits { of: Labelled::Text(pooling) };
        let mut scores = self.values(&texts, &head.into())?.concat();
        classifier.scores(self.engine.cpu().tier(), &mut scores);
        let label = |(name, &score): (&'m String, &f32)| Label { label: name, score };
        let labels = scores.chunks_exact(names.len()).map(|scores| {
            let mut labels: Vec<Label<'m>> = names.iter().zip(scores).map(label).collect();
            // The sort is stable: labels with equal scores keep their order.
            labels.sort_by(|a, b| b.score.total_cmp(&a.score));
            labels
        });
        Ok(labels.collect())
    }

    /// Computes the relevance of each document for a question, from 0 to 1, in their order. A document that does not
    /// fit the context with the question is read in parts, whose best score counts; with [`EmbedOptions::truncate`]
    /// only its beginning is read.
    ///
    /// # Errors
    /// The model is no reranker, a text cannot be tokenized, the question alone is too long, or the model failed.
    pub fn rerank<T: AsRef<str>>(&mut self, query: &str, documents: &[T]) -> Result<Vec<f32>, Error> {
        let model = self.model;
        let found = model.config().classifier().filter(|classifier| classifier.ranks());
        let (Some(classifier), Some(Labelled::Text(pooling))) = (found, found.map(|c| c.of)) else {
            return Err(Error::NoReranker { file: self.file() });
        };
        let pairs = Pairs::new(model.tokenizer(), classifier.prompt.as_deref());
        let max = self.engine.options().context;
        let (mut texts, mut of) = (Vec::new(), Vec::new());
        for (number, document) in documents.iter().enumerate() {
            let document = document.as_ref();
            let windows = if self.options.truncate {
                let mut pair = pairs.encode(query, document, &Bounds::NONE)?;
                pair.truncate(max, model.tokenizer().drops_beginning()).then(|| vec![pair])
            } else {
                pairs.windows(query, document, max, &Bounds::NONE)?
            };
            let Some(windows) = windows else {
                let tokens = pairs.encode(query, "", &Bounds::NONE)?.ids.len();
                return Err(Error::QueryTooLong { tokens, context: max });
            };
            of.extend(windows.iter().map(|_| number));
            texts.extend(windows.into_iter().map(|pair| Text { ids: pair.ids, second: pair.second }));
        }
        let head = LabelLogits { of: Labelled::Text(pooling) };
        let logits = self.values(&texts, &head.into())?.concat();
        let scores = classifier.relevance(self.engine.cpu().tier(), &logits, false);
        let mut best = vec![f32::NEG_INFINITY; documents.len()];
        for (number, score) in of.into_iter().zip(scores) {
            best[number] = best[number].max(score);
        }
        Ok(best)
    }

    pub(crate) fn file(&self) -> String {
        self.model.metadata().file().to_owned()
    }

    /// Tokenizes texts for vectors: after the prompt or, for a model of messages, through the chat template.
    fn prompted<T: AsRef<str>>(&self, texts: &[T]) -> Result<Vec<Text>, Error> {
        let model = self.model;
        let prompt = model.prompts().get(self.options.prompt_name.as_deref()).unwrap_or_default();
        let Some(form) = model.prompts().message() else {
            let with = |(i, text): (usize, &T)| match prompt {
                "" => self.tokens(i, text.as_ref()),
                prompt => self.tokens(i, &format!("{prompt}{}", text.as_ref())),
            };
            return texts.iter().enumerate().map(with).collect();
        };
        let Some(template) = model.chat_template() else {
            return Err(Error::NoMessages { file: self.file() });
        };
        let options = RenderOptions {
            add_generation_prompt: form.add_generation_prompt,
            extra: form.variables.clone(),
            ..RenderOptions::default()
        };
        let sole = SoleMessage { template, in_parts: form.in_parts, system: prompt, options: &options };
        let tail = if form.keep_tail && self.options.truncate { sole.tail(model.tokenizer())? } else { 0 };
        let message = |(i, text): (usize, &T)| {
            let ids = sole.encode_within(model.tokenizer(), text.as_ref(), &Bounds::NONE)?;
            self.fitting(i, ids, tail)
        };
        texts.iter().enumerate().map(message).collect()
    }

    /// Tokenizes a text and fits it to the context.
    fn tokens(&self, number: usize, text: &str) -> Result<Text, Error> {
        let tokenizer = self.model.tokenizer();
        let ids = leyden_text::encode_whole(tokenizer, text)?;
        let ends = tokenizer.eos().is_some_and(|eos| tokenizer.add_eos() && ids.last() == Some(&eos));
        self.fitting(number, ids, usize::from(ends))
    }

    /// Fits tokens to the context. If there are too many and truncation is on, tokens before the last `tail` ones are
    /// removed.
    fn fitting(&self, number: usize, mut ids: Vec<u32>, tail: usize) -> Result<Text, Error> {
        let context = self.engine.options().context;
        if ids.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        if ids.len() > context {
            if !self.options.truncate {
                return Err(Error::TextTooLong { number, tokens: ids.len(), context });
            }
            let excess = ids.len() - context;
            let tokenizer = self.model.tokenizer();
            let from = if tokenizer.drops_beginning() {
                usize::from(tokenizer.add_bos() && ids.first().copied() == tokenizer.bos())
            } else {
                context - tail.min(context)
            };
            ids.drain(from..from + excess);
        }
        Ok(Text { ids, second: None })
    }

    /// Runs texts, and calls `tell` with the index of a text, the position of a token and its hidden state, for the
    /// tokens that `pooling` needs, or for all.
    fn run(
        &mut self,
        texts: &[Text],
        pooling: Option<Pooling>,
        tell: &mut dyn FnMut(usize, usize, &[f32]),
    ) -> Result<(), Error> {
        let mut first = 0;
        while first < texts.len() {
            let mut tokens = 0;
            let fits = |text: &&Text| {
                tokens += text.ids.len();
                tokens <= STEP_TOKENS
            };
            let count = texts[first..].iter().take(STEP_TEXTS).take_while(fits).count().max(1);
            let group = &texts[first..first + count];
            let adapters = self.model.adapter_set();
            let ids: Vec<SequenceId> =
                group.iter().map(|_| self.engine.open_adapted(adapters.clone())).collect();
            let result = self.compute(&ids, group, pooling, &mut |i, at, state| tell(first + i, at, state));
            ids.into_iter().for_each(|id| self.engine.close(id));
            result?;
            first += count;
        }
        Ok(())
    }

    /// Runs texts that fit one step together, or one longer text.
    fn compute(
        &mut self,
        ids: &[SequenceId],
        texts: &[Text],
        pooling: Option<Pooling>,
        tell: &mut dyn FnMut(usize, usize, &[f32]),
    ) -> Result<(), Error> {
        let indices: HashMap<SequenceId, usize> = ids.iter().enumerate().map(|(i, id)| (*id, i)).collect();
        let whole = self.engine.model().config().needs_whole_texts();
        let max = self.engine.options().step_tokens;
        let longest = texts.iter().map(|text| text.ids.len()).max().unwrap_or(0);
        for from in (0..longest).step_by(max) {
            let part = |(&sequence, text): (&SequenceId, &Text)| {
                let n = text.ids.len();
                let tokens = text.ids.get(from..n.min(from + max)).filter(|t| !t.is_empty())?.to_vec();
                let last = from + tokens.len() == n;
                let outputs = match pooling {
                    _ if whole => {
                        let first_only = pooling == Some(Pooling::Cls);
                        Outputs::Whole(WholeText { second: text.second, first_only })
                    }
                    Some(Pooling::Last) if last => Outputs::States(tokens.len() - 1),
                    Some(Pooling::Last) => Outputs::None,
                    _ => Outputs::States(0),
                };
                Some(StepEntry { sequence, tokens, outputs })
            };
            let plan = StepPlan { entries: ids.iter().zip(texts).filter_map(part).collect() };
            let output = self.engine.step(&plan)?;
            for row in output.states() {
                if let Some(&index) = indices.get(&row.sequence) {
                    tell(index, row.position, row.state);
                }
            }
        }
        Ok(())
    }
}

/// Scales a vector to length 1; a vector of zeros stays as it is.
fn normalize(vector: &mut [f32]) {
    let sum: f64 = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
    let length = if sum > 0.0 { sum.sqrt() } else { 1.0 };
    vector.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
}
