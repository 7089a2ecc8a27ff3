//! Text to sentences in sounds.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::dictionary::Dictionary;
use crate::error::Error;
use crate::espeak::Program;
use crate::lexicon::{self, Found, Lexicon, Source};
use crate::normalize::{self, Kind, Token};
use crate::sentence::{Part, Sentence, Word};
use crate::{rules, split, symbols, tagger};

/// Number of words that are kept from the program `espeak-ng`; more are asked again.
const MAX_LEARNED: usize = 50_000;

/// Use of the program `espeak-ng` for words that the dictionary lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Espeak {
    /// Rules from letters to sounds alone.
    Off,
    /// The program if it is in a folder of `PATH`, else rules.
    #[default]
    IfPresent,
    /// The program at this path.
    Program(PathBuf),
}

/// Options of a [`Phonemizer`].
#[derive(Debug, Default)]
pub struct Options {
    /// Source of unknown words.
    pub espeak: Espeak,
    /// A dictionary in place of the embedded one.
    pub dictionary: Option<Dictionary>,
}

/// English text to sounds: normaliser, dictionary and rules.
///
/// ```
/// use leyden_phonemes::{Espeak, Options, Phonemizer};
///
/// let phonemizer = Phonemizer::new(Options { espeak: Espeak::Off, ..Options::default() })?;
/// let sentences = phonemizer.phonemes("It costs $3.50.")?;
/// let words: Vec<&str> = sentences[0].words().map(|word| word.text.as_str()).collect();
/// assert_eq!(words, ["It", "costs", "three", "dollars", "and", "fifty", "cents"]);
/// assert_eq!(sentences[0].misaki(), "ˌɪt kˈɔsts θɹˈi dˈɑləɹz ænd fˈɪfti sˈɛnts.");
/// # Ok::<(), leyden_phonemes::Error>(())
/// ```
#[derive(Debug)]
pub struct Phonemizer {
    dictionary: Dictionary,
    espeak: Option<Program>,
    learned: Mutex<HashMap<String, String>>,
}

/// A word to be looked up, with its neighbours.
struct Spoken<'a> {
    text: &'a str,
    /// True for names of letters.
    letters: bool,
    span: Range<usize>,
    tags: Vec<&'static str>,
    /// True if words beside it are in capitals.
    shouted: bool,
}

impl Phonemizer {
    /// Returns a phonemizer; the embedded dictionary takes 6 MB of memory.
    ///
    /// # Errors
    /// If the given `espeak-ng` is no file.
    pub fn new(options: Options) -> Result<Self, Error> {
        let espeak = match &options.espeak {
            Espeak::Off => None,
            Espeak::IfPresent => Program::find(),
            Espeak::Program(path) => Some(Program::at(path)?),
        };
        let dictionary = options.dictionary.unwrap_or_else(Dictionary::embedded);
        Ok(Self { dictionary, espeak, learned: Mutex::default() })
    }

    /// Returns the sentences of a text in sounds; a sentence without any word is left out.
    ///
    /// Unknown words of all sentences go to the program in one start.
    ///
    /// # Errors
    /// If the program `espeak-ng` is used and fails.
    pub fn phonemes(&self, text: &str) -> Result<Vec<Sentence>, Error> {
        let sentences: Vec<(Range<usize>, Vec<Token>)> = split::sentences(text)
            .into_iter()
            .map(|span| {
                (
                    span.clone(),
                    split_hyphens(normalize::tokens(&text[span.clone()], span.start), &self.dictionary),
                )
            })
            .collect();
        self.learn(&sentences)?;
        let said = sentences.into_iter().map(|(span, tokens)| self.sentence(span, &tokens));
        Ok(said.filter(|sentence| sentence.words().next().is_some()).collect())
    }

    /// Asks the program for the words that are neither in the dictionary nor known from before.
    fn learn(&self, sentences: &[(Range<usize>, Vec<Token>)]) -> Result<(), Error> {
        let Some(program) = &self.espeak else { return Ok(()) };
        let lexicon = Lexicon { dictionary: &self.dictionary };
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        if learned.len() > MAX_LEARNED {
            learned.clear();
        }
        let mut unknown = BTreeSet::new();
        for (_, tokens) in sentences {
            for word in spoken(tokens, &lexicon).iter().filter(|word| !word.letters) {
                for part in camel_parts(word.text) {
                    let lower = part.to_lowercase();
                    if !learned.contains_key(&lower) && lexicon.find(part, &word.tags, word.shouted).is_none()
                    {
                        unknown.insert(lower);
                    }
                }
            }
        }
        let unknown: Vec<String> = unknown.into_iter().collect();
        let answers = program.ipa("en-us", &unknown)?;
        learned.extend(
            unknown.into_iter().zip(answers.iter().map(|ipa| symbols::from_espeak(&ipa.replace(' ', "")))),
        );
        Ok(())
    }

    /// Returns one sentence in sounds.
    fn sentence(&self, span: Range<usize>, tokens: &[Token]) -> Sentence {
        let lexicon = Lexicon { dictionary: &self.dictionary };
        let words = spoken(tokens, &lexicon);
        let mut parts = Vec::with_capacity(tokens.len());
        let mut words = words.into_iter().rev();
        // From the end, because some words depend on the sound after them.
        let mut next_sound = None;
        for token in tokens.iter().rev() {
            if let Kind::Mark(mark) = token.kind {
                if !matches!(mark, '“' | '”' | '(' | ')') {
                    next_sound = None;
                }
                parts.push(Part::Mark(mark));
                continue;
            }
            let Some(word) = words.next() else { break };
            let first = words.len() == 0;
            let (phonemes, source) = self.word(&lexicon, &word, next_sound, first);
            next_sound =
                phonemes.chars().find(|&symbol| !matches!(symbol, symbols::PRIMARY | symbols::SECONDARY));
            parts.push(Part::Word(Word { text: word.text.to_owned(), span: word.span, phonemes, source }));
        }
        parts.reverse();
        Sentence { span, parts }
    }

    /// Returns the sounds of a word before the sound `next`, which is `None` at a pause.
    fn word(&self, lexicon: &Lexicon<'_>, word: &Spoken<'_>, next: Option<char>, first: bool) -> Found {
        if word.letters {
            return lexicon.letters(word.text);
        }
        if let Some(sounds) = before_sound(word.text, next, first) {
            return (sounds, Source::Dictionary);
        }
        let mut tags = word.tags.clone();
        if next.is_none() {
            tags.push("None");
        }
        if let Some(found) = lexicon.find(word.text, &tags, word.shouted) {
            return found;
        }
        let parts = camel_parts(word.text);
        if parts.len() == 1 {
            return self.unknown(lexicon, word.text);
        }
        let mut sounds = String::new();
        let mut source = Source::Compound;
        for part in parts {
            let (said, from) = lexicon.find(part, &[], false).unwrap_or_else(|| self.unknown(lexicon, part));
            sounds += &said;
            if matches!(from, Source::Espeak | Source::Rules) {
                source = from;
            }
        }
        (sounds, source)
    }

    /// Returns the sounds of a word that the dictionary lacks: the program's, else letters where there is no vowel, else by rules.
    fn unknown(&self, lexicon: &Lexicon<'_>, word: &str) -> Found {
        let lower = word.to_lowercase();
        let learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sounds) = learned.get(&lower).filter(|sounds| !sounds.is_empty()) {
            return (sounds.clone(), Source::Espeak);
        }
        let vowels = lower.contains(['a', 'e', 'i', 'o', 'u', 'y']);
        let has_letters = lower.contains(|c: char| c.is_ascii_alphabetic());
        if !vowels && has_letters {
            return lexicon.letters(word);
        }
        let possessive = lower.strip_suffix("'s").and_then(|stem| lexicon::plural(&rules::pronounce(stem)));
        (possessive.unwrap_or_else(|| rules::pronounce(&lower)), Source::Rules)
    }
}

/// Returns the words among tokens with their parts of speech, which are told within a clause.
fn spoken<'a>(tokens: &'a [Token], lexicon: &Lexicon<'_>) -> Vec<Spoken<'a>> {
    let mut words: Vec<Spoken<'a>> = Vec::new();
    let mut clause: Vec<String> = Vec::new();
    let mut begin = 0;
    let mut close = |words: &mut Vec<Spoken<'a>>, clause: &mut Vec<String>| {
        for (i, word) in words[begin..].iter_mut().enumerate().filter(|(_, word)| lexicon.varies(word.text)) {
            word.tags = tagger::tags(clause, i);
        }
        begin = words.len();
        clause.clear();
    };
    for token in tokens {
        let (text, letters) = match &token.kind {
            Kind::Word(text) => (text, false),
            Kind::Letters(text) => (text, true),
            Kind::Mark('“' | '”') => continue,
            Kind::Mark(_) => {
                close(&mut words, &mut clause);
                continue;
            }
        };
        clause.push(text.to_lowercase());
        words.push(Spoken { text, letters, span: token.span.clone(), tags: Vec::new(), shouted: false });
    }
    close(&mut words, &mut clause);
    let capitals = |word: &Spoken<'_>| {
        word.text.len() > 1
            && !word.letters
            && word.text.bytes().all(|b| b.is_ascii_uppercase() || b == b'\'')
    };
    let flags: Vec<bool> = words.iter().map(capitals).collect();
    for (i, word) in words.iter_mut().enumerate() {
        let before = i.checked_sub(1).is_some_and(|i| flags[i]);
        word.shouted = flags[i] && (before || flags.get(i + 1).copied().unwrap_or(false));
    }
    words
}

/// Divides words with hyphens that the dictionary does not have as they are.
fn split_hyphens(tokens: Vec<Token>, dictionary: &Dictionary) -> Vec<Token> {
    let mut out = Vec::with_capacity(tokens.len());
    for token in tokens {
        match &token.kind {
            Kind::Word(text) if text.contains('-') => {
                if dictionary.get(text).or_else(|| dictionary.get(&text.to_lowercase())).is_some() {
                    out.push(token);
                    continue;
                }
                let parts = text.split('-').filter(|part| part.contains(char::is_alphabetic));
                out.extend(
                    parts.map(|part| Token { kind: Kind::Word(part.to_owned()), span: token.span.clone() }),
                );
            }
            _ => out.push(token),
        }
    }
    out
}

/// Returns the parts of a word that capitals within it mark: "Git", "Hub". Capitals in a row are one part.
fn camel_parts(word: &str) -> Vec<&str> {
    let bytes = word.as_bytes();
    let mut parts = Vec::new();
    let mut start = 0;
    for at in 1..bytes.len() {
        let rises = bytes[at - 1].is_ascii_lowercase() && bytes[at].is_ascii_uppercase();
        let falls = at + 1 < bytes.len()
            && bytes[at - 1].is_ascii_uppercase()
            && bytes[at].is_ascii_uppercase()
            && bytes[at + 1].is_ascii_lowercase()
            && &word[at + 1..] != "s";
        if rises || falls {
            parts.push(&word[start..at]);
            start = at;
        }
    }
    parts.push(&word[start..]);
    parts
}

/// Returns the sounds of the words that depend on the sound after them: "the", "a", "to" and few others.
fn before_sound(word: &str, next: Option<char>, first: bool) -> Option<String> {
    let vowel = next.map(symbols::is_vowel);
    let sounds = match (word, vowel) {
        ("the" | "The", Some(false)) => "ðə",
        ("the" | "The", _) => "ði",
        ("a", _) => "ɐ",
        ("A", Some(_)) if first => "ɐ",
        ("an" | "An", _) => "ɐn",
        ("to" | "To", None) => "tu",
        ("to" | "To", Some(true)) => "tʊ",
        ("to" | "To", Some(false)) => "tə",
        ("I", Some(_)) => "ˌI",
        ("am", Some(_)) => "ɐm",
        ("in" | "In", None) => "ˈɪn",
        ("In", _) => "ɪn",
        ("vs", _) => "vˈɜɹsəs",
        _ => return None,
    };
    Some(sounds.to_owned())
}
