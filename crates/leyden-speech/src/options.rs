//! Options of a transcription.

use crate::error::Error;
use crate::vocabulary::Vocabulary;

/// Times of a transcript.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timestamps {
    /// None: each window of 30 seconds is decoded without tokens of time.
    None,
    /// Times of segments.
    #[default]
    Segment,
    /// Times of segments and words.
    Word,
}

/// Bounds beyond which a result is decoded again with the next temperature, or taken for silence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Largest ratio of a text's bytes to its compressed bytes.
    pub compression_ratio: Option<f64>,
    /// Smallest mean of the logarithms of the tokens' probabilities.
    pub log_probability: Option<f64>,
    /// Largest probability of no speech.
    pub no_speech: Option<f64>,
}

impl Default for Thresholds {
    /// Returns the values of OpenAI's program.
    fn default() -> Thresholds {
        Thresholds { compression_ratio: Some(2.4), log_probability: Some(-1.0), no_speech: Some(0.6) }
    }
}

/// Options of a transcription.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Language of the audio as a code or English name; detected if `None`.
    pub language: Option<String>,
    /// True to translate into English.
    pub translate: bool,
    /// Times of the transcript.
    pub timestamps: Timestamps,
    /// Temperatures, in the order in which they are tried. The first is usually 0.
    pub temperatures: Vec<f32>,
    /// Number of texts that are sampled at temperatures above 0, at most 5; the most probable is taken.
    pub best_of: usize,
    /// Text before the audio, with names or in a style that the transcript should keep to.
    pub prompt: Option<String>,
    /// True if the text of a window is the beginning of the next.
    pub condition_on_previous: bool,
    /// Bounds of results.
    pub thresholds: Thresholds,
    /// Seed of random choices.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            language: None,
            translate: false,
            timestamps: Timestamps::Segment,
            temperatures: vec![0.0, 0.2, 0.4, 0.6, 0.8, 1.0],
            best_of: 5,
            prompt: None,
            condition_on_previous: true,
            thresholds: Thresholds::default(),
            seed: 0,
        }
    }
}

/// Largest temperature.
const MAX_TEMPERATURE: f32 = 2.0;

impl Options {
    /// Checks the options against a model.
    pub(crate) fn check(&self, vocabulary: &Vocabulary) -> Result<(), Error> {
        if self.temperatures.is_empty() {
            return Err(Error::option("temperature", "at least one is needed"));
        }
        if let Some(bad) = self.temperatures.iter().find(|t| !(0.0..=MAX_TEMPERATURE).contains(*t)) {
            return Err(Error::option(
                "temperature",
                format!("{bad} is not between 0 and {MAX_TEMPERATURE}"),
            ));
        }
        if !(1..=crate::network::MAX_TEXTS).contains(&self.best_of) {
            let message = format!("{} is not between 1 and {}", self.best_of, crate::network::MAX_TEXTS);
            return Err(Error::option("best_of", message));
        }
        let english = vocabulary.languages.is_empty();
        if english && self.translate {
            return Err(Error::option("translate", "this model knows English alone; use a multilingual one"));
        }
        if let Some(given) = &self.language {
            let code = crate::languages::language_code(given)
                .ok_or_else(|| Error::option("language", format!("{given:?} is no language of Whisper")))?;
            if english && code != "en" {
                return Err(Error::option(
                    "language",
                    "this model knows English alone; use a multilingual one",
                ));
            }
            if !english {
                vocabulary.language(code)?;
            }
        }
        Ok(())
    }
}
