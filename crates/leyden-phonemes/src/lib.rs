//! English text to the sounds that Piper's and Kokoro's voices read.
//!
//! A text is cut into sentences (`split`), each is normalised to words as they are said (`normalize`), and each word gets its sounds: from the
//! embedded dictionary of misaki, from endings and parts of words (`lexicon`), from an installed `espeak-ng` program (`espeak`) or from rules
//! (`rules`). No word is lost and no sign is silent: every rule ends in words. Sounds are kept in misaki's alphabet; `symbols` translates them
//! to espeak's IPA.
//!
//! Heteronyms ("read", "live") are told apart by rules of thumb over the words beside them (`tagger`), which are wrong at times.

mod dictionary;
mod error;
mod espeak;
mod knobs;
mod lexicon;
mod normalize;
mod numbers;
mod phonemizer;
mod rules;
mod sentence;
mod split;
mod symbols;
mod tagger;
mod voice;

pub use dictionary::{Dictionary, Entry};
pub use error::Error;
pub use espeak::Program as EspeakProgram;
pub use lexicon::Source;
pub use phonemizer::{Espeak, Options, Phonemizer};
pub use sentence::{Part, Sentence, Word};
pub use split::{ChunkOptions, Chunker, chunks, sentences};
pub use symbols::{from_espeak, is_phoneme, is_vowel, to_espeak};
pub use voice::{MAX_KOKORO_SYMBOLS, kokoro_ids, piper_ids};
