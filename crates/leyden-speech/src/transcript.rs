//! Results of a transcription: segments, words, and the events of its progress.

use serde::Serialize;

/// Word with its times in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Word {
    /// The word, with the space before it and the punctuation around it.
    pub word: String,
    /// Start.
    pub start: f64,
    /// End.
    pub end: f64,
    /// Mean probability of its tokens.
    pub probability: f64,
}

/// Segment of a transcript.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Segment {
    /// Number of the segment, from 0.
    pub id: usize,
    /// First frame of its window, in hundredths of a second.
    pub seek: usize,
    /// Start in seconds.
    pub start: f64,
    /// End in seconds.
    pub end: f64,
    /// Text, usually with a space before it.
    pub text: String,
    /// Tokens, times included.
    pub tokens: Vec<u32>,
    /// Temperature of its window.
    pub temperature: f32,
    /// Mean of the logarithms of the probabilities of its window's tokens.
    pub avg_logprob: f64,
    /// Ratio of its window's text to that text compressed.
    pub compression_ratio: f64,
    /// Probability that its window has no speech.
    pub no_speech_prob: f64,
    /// Words, if they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<Word>,
}

/// Result of a transcription.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Transcription {
    /// Code of the language.
    pub language: String,
    /// Duration of the audio in seconds.
    pub duration: f64,
    /// Whole text.
    pub text: String,
    /// Segments.
    pub segments: Vec<Segment>,
    /// Number of tokens that were written.
    #[serde(skip)]
    pub n_tokens: usize,
}

/// State of a transcription, for its observer.
#[derive(Debug)]
pub enum Event<'a> {
    /// The language is known: its code.
    Language(&'a str),
    /// A segment is complete.
    Segment(&'a Segment),
    /// This many seconds of the audio are done.
    Progress(f64),
    /// A token is about to be computed.
    Token,
}

/// Rounds seconds to hundredths.
pub(crate) fn hundredths(seconds: f64) -> f64 {
    (seconds * 100.0).round() / 100.0
}
