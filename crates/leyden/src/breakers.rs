//! Sequence breakers of DRY sampling, from texts to a model's tokens.

use crate::error::Error;
use leyden_engine::sample::SequenceBreakers;
use leyden_text::Tokenizer;

/// Default sequence breakers of DRY: line ends, and marks of dialogue and emphasis.
pub const SEQUENCE_BREAKERS: [&str; 4] = ["\n", ":", "\"", "*"];

/// Returns the token sequences of a vocabulary that contain one of `texts`, for
/// [`Dry::breakers`](crate::Dry::breakers). It reads every token, which takes about ten milliseconds for a large
/// vocabulary.
///
/// ```
/// use leyden::{LoadOptions, Model, SEQUENCE_BREAKERS, sequence_breakers};
///
/// let model = Model::embedded(&LoadOptions::default())?;
/// let texts = SEQUENCE_BREAKERS.map(str::to_owned);
/// let breakers = sequence_breakers(model.tokenizer(), &texts)?;
/// assert_ne!(breakers, leyden::SequenceBreakers::default());
/// # Ok::<(), leyden::Error>(())
/// ```
///
/// # Errors
/// A text is empty or longer than 40 characters, there are more than 64, or the tokenizer fails.
pub fn sequence_breakers(tokenizer: &dyn Tokenizer, texts: &[String]) -> Result<SequenceBreakers, Error> {
    leyden_tasks::sequence_breakers(tokenizer, texts).map_err(|error| Error::of_task(error, ""))
}
