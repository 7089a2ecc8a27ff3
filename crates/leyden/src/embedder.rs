//! [`Embedder`]: vectors and labels for many texts at a time.

use crate::error::Error;
use crate::model::Model;
use leyden_engine::{Engine, EngineOptions, Outputs, Pool, SequenceId, StepEntry, StepPlan};
use leyden_kernels::attention::{BLOCK_TOKENS, KvType};
use leyden_models::Pooling;
use std::collections::HashMap;
use std::fmt;

/// Tokens of one step: beyond that larger products save little.
const STEP_TOKENS: usize = 1024;
/// The most texts in one step; each takes whole blocks of the cache.
const STEP_TEXTS: usize = 64;

/// How vectors of texts are made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmbedOptions {
    /// Which states make the vector; by default what the model says, and the mean for one that says nothing.
    pub pooling: Option<Pooling>,
    /// Whether vectors get length 1, as they do by default.
    pub normalize: bool,
    /// How many numbers of each vector are wanted, the first; by default all.
    pub dimensions: Option<usize>,
    /// Whether the end of a text that is too long for the model is left out. By default such a text is an error.
    pub truncate: bool,
}

impl Default for EmbedOptions {
    fn default() -> EmbedOptions {
        EmbedOptions { pooling: None, normalize: true, dimensions: None, truncate: false }
    }
}

impl EmbedOptions {
    /// Which states make the vector.
    #[must_use]
    pub fn pooling(mut self, pooling: Pooling) -> EmbedOptions {
        self.pooling = Some(pooling);
        self
    }

    /// Whether vectors get length 1.
    #[must_use]
    pub fn normalize(mut self, normalize: bool) -> EmbedOptions {
        self.normalize = normalize;
        self
    }

    /// How many numbers of each vector are wanted.
    #[must_use]
    pub fn dimensions(mut self, dimensions: usize) -> EmbedOptions {
        self.dimensions = Some(dimensions);
        self
    }

    /// Whether the end of a text that is too long is left out.
    #[must_use]
    pub fn truncate(mut self, truncate: bool) -> EmbedOptions {
        self.truncate = truncate;
        self
    }
}

/// A label and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Label<'m> {
    /// Its name.
    pub label: &'m str,
    /// A probability, unless the model was made for regression.
    pub score: f32,
}

/// Makes vectors of texts, or gives them labels, many in a step. The results for a text do not depend on the others.
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
    engine: Engine,
    options: EmbedOptions,
}

impl fmt::Debug for Embedder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedder").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<'m> Embedder<'m> {
    pub(crate) fn new(model: &'m Model, options: &EmbedOptions) -> Result<Embedder<'m>, Error> {
        let config = model.config();
        if let Some(n) = options.dimensions
            && !(1..=config.width).contains(&n)
        {
            let what = format!("{n} is not between 1 and {}, which the vectors have", config.width);
            return Err(Error::Option { name: "dimensions", what });
        }
        // A decoder's texts are computed in parts, one after the other; an encoder's need a step that holds them.
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

    /// The vectors of texts, in their order.
    ///
    /// # Errors
    /// A text cannot be tokenized or has more tokens than the model takes, or the model failed.
    pub fn embed<T: AsRef<str>>(&mut self, texts: &[T]) -> Result<Vec<Vec<f32>>, Error> {
        let pooling = self.options.pooling.or(self.model.pooling()).unwrap_or_default();
        let mut vectors = self.vectors(texts, pooling)?;
        for vector in &mut vectors {
            vector.truncate(self.options.dimensions.unwrap_or(usize::MAX));
            if self.options.normalize {
                normalize(vector);
            }
        }
        Ok(vectors)
    }

    /// The labels of texts, in their order, each text's best label first.
    ///
    /// # Errors
    /// As [`embed`](Self::embed), or the model does not classify.
    pub fn classify<T: AsRef<str>>(&mut self, texts: &[T]) -> Result<Vec<Vec<Label<'m>>>, Error> {
        let Some(classifier) = self.model.config().classifier() else {
            return Err(Error::NoClassifier { file: self.model.metadata().file().to_owned() });
        };
        let names = &classifier.labels;
        let states = self.vectors(texts, Pooling::Cls)?.concat();
        let scores = self.model.network().classify(self.engine.cpu(), &states);
        let label = |(name, &score): (&'m String, &f32)| Label { label: name, score };
        let labels = scores.chunks_exact(names.len()).map(|scores| {
            let mut labels: Vec<Label<'m>> = names.iter().zip(scores).map(label).collect();
            // Of equal scores the first label's comes first.
            labels.sort_by(|a, b| b.score.total_cmp(&a.score));
            labels
        });
        Ok(labels.collect())
    }

    /// Tokens of a text, as many as the model takes.
    fn tokens(&self, number: usize, text: &str) -> Result<Vec<u32>, Error> {
        let (tokenizer, context) = (self.model.tokenizer(), self.engine.options().context);
        let mut tokens = leyden_text::encode_whole(tokenizer, text)?;
        if tokens.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        if tokens.len() > context {
            if !self.options.truncate {
                return Err(Error::TextTooLong { number, tokens: tokens.len(), context });
            }
            let end = tokenizer.eos().filter(|eos| tokenizer.add_eos() && tokens.last() == Some(eos));
            tokens.truncate(context - usize::from(end.is_some()));
            tokens.extend(end);
        }
        Ok(tokens)
    }

    /// What the states of texts are pooled to.
    fn vectors<T: AsRef<str>>(&mut self, texts: &[T], pooling: Pooling) -> Result<Vec<Vec<f32>>, Error> {
        let texts = texts.iter().enumerate().map(|(i, text)| self.tokens(i, text.as_ref()));
        let texts = texts.collect::<Result<Vec<_>, _>>()?;
        let mut pools = vec![Pool::new(pooling); texts.len()];
        let mut first = 0;
        while first < texts.len() {
            let mut tokens = 0;
            let fits = |text: &&Vec<u32>| {
                tokens += text.len();
                tokens <= STEP_TOKENS
            };
            let count = texts[first..].iter().take(STEP_TEXTS).take_while(fits).count().max(1);
            let group = first..first + count;
            self.step(&texts[group.clone()], &mut pools[group])?;
            first += count;
        }
        let vectors: Vec<Vec<f32>> = pools.iter().map(Pool::vector).collect();
        match vectors.iter().flatten().all(|x| x.is_finite()) {
            true => Ok(vectors),
            false => Err(Error::NotFinite { file: self.model.metadata().file().to_owned() }),
        }
    }

    /// Computes texts that fit one step, or one that is longer.
    fn step(&mut self, texts: &[Vec<u32>], pools: &mut [Pool]) -> Result<(), Error> {
        let ids: Vec<SequenceId> = texts.iter().map(|_| self.engine.open()).collect();
        let result = self.compute(&ids, texts, pools);
        ids.into_iter().for_each(|id| self.engine.close(id));
        result
    }

    fn compute(&mut self, ids: &[SequenceId], texts: &[Vec<u32>], pools: &mut [Pool]) -> Result<(), Error> {
        let places: HashMap<SequenceId, usize> = ids.iter().enumerate().map(|(i, id)| (*id, i)).collect();
        let most = self.engine.options().step_tokens;
        let longest = texts.iter().map(Vec::len).max().unwrap_or(0);
        for from in (0..longest).step_by(most) {
            let part = |(&sequence, text): (&SequenceId, &Vec<u32>)| {
                let tokens = text.get(from..text.len().min(from + most)).filter(|t| !t.is_empty())?.to_vec();
                Some(StepEntry { sequence, tokens, outputs: Outputs::States(0) })
            };
            let plan = StepPlan { entries: ids.iter().zip(texts).filter_map(part).collect() };
            let output = self.engine.step(&plan)?;
            for row in output.states() {
                if let Some(&place) = places.get(&row.sequence) {
                    pools[place].push(row.position, row.state);
                }
            }
        }
        Ok(())
    }
}

/// Gives a vector length 1; zeros stay zeros.
fn normalize(vector: &mut [f32]) {
    let sum: f64 = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
    let length = if sum > 0.0 { sum.sqrt() } else { 1.0 };
    vector.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
}
