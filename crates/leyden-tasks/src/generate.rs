//! Generation: samplers from a request's settings.

use crate::error::{Error, ErrorKind};
use leyden_engine::sample::{Sampler, SamplingParams, SequenceBreakers};
use leyden_kernels::Tier;
use leyden_text::{Special, Tokenizer};
use std::sync::{Mutex, PoisonError};

/// Factory of samplers for one model. It caches the last sequence breakers as tokens, as their conversion reads the whole
/// vocabulary.
#[derive(Debug, Default)]
pub struct Samplers(Mutex<(Vec<String>, SequenceBreakers)>);

impl Samplers {
    /// Returns the sampler of one choice of an answer to `prompt`, which it has accepted. `breakers` are the texts of
    /// [`Dry::breakers`](leyden_engine::sample::Dry::breakers), `vocabulary` is the number of logits.
    ///
    /// # Errors
    /// A parameter is out of range, or the breakers are refused by [`sequence_breakers`].
    pub fn sampler(
        &self,
        (tokenizer, tier, vocabulary): (&dyn Tokenizer, Tier, usize),
        (params, breakers): (&SamplingParams, &[String]),
        choice: usize,
        prompt: &[u32],
    ) -> Result<Sampler, Error> {
        let mut params = params.clone();
        if params.dry.is_active() {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if known.0 != breakers {
                *known = (breakers.to_vec(), sequence_breakers(tokenizer, breakers)?);
            }
            params.dry.breakers = known.1.clone();
        }
        let sampler = Sampler::new(params, choice as u64, tier, vocabulary);
        let mut sampler = sampler.map_err(|e| ErrorKind::Sampler(Box::new(e)))?;
        sampler.accept_prompt(prompt);
        Ok(sampler)
    }
}

/// Returns the token sequences of a vocabulary that contain one of `texts`.
///
/// # Errors
/// A text is empty or too long, there are too many, or the tokenizer fails.
pub fn sequence_breakers(tokenizer: &dyn Tokenizer, texts: &[String]) -> Result<SequenceBreakers, Error> {
    SequenceBreakers::check(texts).map_err(ErrorKind::SequenceBreakers)?;
    let encode = |text: &str| tokenizer.encode(text, Special::AsText).map_err(ErrorKind::Text);
    let breakers =
        SequenceBreakers::new(texts, tokenizer.vocab_size(), |id| tokenizer.token_bytes(id), encode);
    Ok(breakers?)
}
