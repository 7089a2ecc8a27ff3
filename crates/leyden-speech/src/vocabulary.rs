//! [`Vocabulary`]: a tokenizer with the special tokens of Whisper.

use crate::error::Error;
use crate::languages::CODES;
use crate::network::Source;
use leyden_text::{Special, Tokenizer};

/// Duration of one step between tokens of time, in seconds.
pub(crate) const TIME_STEP: f64 = 0.02;

/// Symbols that are no speech, alone or after a space: annotations of transcripts (OpenAI, `tokenizer.py`).
const SYMBOLS: &[&str] = &[
    "\"",
    "#",
    "(",
    ")",
    "*",
    "+",
    "/",
    ":",
    ";",
    "<",
    "=",
    ">",
    "@",
    "[",
    "\\",
    "]",
    "^",
    "_",
    "`",
    "{",
    "|",
    "}",
    "~",
    "「",
    "」",
    "『",
    "』",
    "<<",
    ">>",
    "<<<",
    ">>>",
    "--",
    "---",
    "-(",
    "-[",
    "('",
    "(\"",
    "((",
    "))",
    "(((",
    ")))",
    "[[",
    "]]",
    "{{",
    "}}",
    "♪♪",
    "♪♪♪",
];

/// Notes of music, whose first bytes are no speech.
const NOTES: &[&str] = &["♩", "♪", "♫", "♬", "♭", "♮", "♯"];

/// Tokenizer and special tokens.
pub(crate) struct Vocabulary {
    tokenizer: Box<dyn Tokenizer>,
    pub(crate) size: usize,
    pub(crate) end: u32,
    pub(crate) start: u32,
    /// Token and code of each language; empty for models of English alone.
    pub(crate) languages: Vec<(u32, &'static str)>,
    pub(crate) translate: u32,
    pub(crate) transcribe: u32,
    pub(crate) previous: u32,
    pub(crate) no_speech: Option<u32>,
    pub(crate) no_times: u32,
    /// Token of the time 0; all from it on are times.
    pub(crate) first_time: u32,
    /// Tokens that never occur in a transcript.
    pub(crate) suppressed: Vec<u32>,
    /// Tokens that do not begin a transcript.
    pub(crate) suppressed_first: Vec<u32>,
}

impl std::fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vocabulary").field("size", &self.size).finish_non_exhaustive()
    }
}

impl Vocabulary {
    /// Reads the vocabulary of a model.
    pub(crate) fn load(source: &Source) -> Result<Vocabulary, Error> {
        let (tokenizer, size) = (source.tokenizer()?, source.config().vocabulary);
        let find = |name: &str| {
            let ids = tokenizer.encode(name, Special::Parse).ok()?;
            let [id] = ids[..] else { return None };
            ((id as usize) < size).then_some(id)
        };
        let require = |name: &str| {
            find(name)
                .ok_or_else(|| Error::model(format!("no token {name}")).item("tokenizer").file(source.path()))
        };
        let no_times = require("<|notimestamps|>")?;
        let start = require("<|startoftranscript|>")?;
        // Vocabularies of English alone have the tokens of languages too, but begin one place earlier.
        let multilingual =
            size >= 51_865 || source.generation().is_some_and(|g| g.get("lang_to_id").is_some());
        let languages = CODES.iter().filter_map(|code| Some((find(&format!("<|{code}|>"))?, *code)));
        let languages = languages.filter(|_| multilingual).collect();
        let mut new = Vocabulary {
            size,
            end: require("<|endoftext|>")?,
            start,
            languages,
            translate: require("<|translate|>")?,
            transcribe: require("<|transcribe|>")?,
            previous: require("<|startofprev|>")?,
            no_speech: find("<|nospeech|>").or_else(|| find("<|nocaptions|>")),
            no_times,
            first_time: no_times + 1,
            suppressed: Vec::new(),
            suppressed_first: Vec::new(),
            tokenizer,
        };
        if new.first_time as usize >= size {
            return Err(Error::model("no tokens of time").item("tokenizer").file(source.path()));
        }
        (new.suppressed, new.suppressed_first) = new.suppressed_by(source)?;
        Ok(new)
    }

    /// Returns the tokens that never occur and those that do not begin, from the settings, else by OpenAI's rules.
    fn suppressed_by(&self, source: &Source) -> Result<(Vec<u32>, Vec<u32>), Error> {
        let listed = |key: &str| -> Result<Option<Vec<u32>>, Error> {
            let Some(json) = source.generation() else { return Ok(None) };
            let Some(list) = json.get(key) else { return Ok(None) };
            let read = || -> Option<Vec<u32>> {
                list.as_array()?.iter().map(|id| u32::try_from(id.as_u64()?).ok()).collect()
            };
            Ok(Some(read().ok_or_else(|| json.wrong_type(key, "array of tokens"))?))
        };
        let mut never = match listed("suppress_tokens")? {
            Some(list) => list,
            None => self.no_speech_symbols()?,
        };
        never.extend([self.translate, self.transcribe, self.start, self.previous]);
        never.extend(self.no_speech);
        // The token of language models lies between those of tasks and of earlier text.
        never.extend((self.transcribe..self.previous).skip(1));
        let first = match listed("begin_suppress_tokens")? {
            Some(list) => list,
            None => [self.encode(" ")?, vec![self.end]].concat(),
        };
        let known = |list: Vec<u32>| list.into_iter().filter(|id| (*id as usize) < self.size).collect();
        Ok((known(never), known(first)))
    }

    fn no_speech_symbols(&self) -> Result<Vec<u32>, Error> {
        let mut found = Vec::new();
        for text in [" -", " '"] {
            found.extend(self.encode(text)?.first());
        }
        for symbol in SYMBOLS.iter().chain(NOTES) {
            for text in [(*symbol).to_owned(), format!(" {symbol}")] {
                let ids = self.encode(&text)?;
                if ids.len() == 1 || NOTES.contains(symbol) {
                    found.extend(ids.first());
                }
            }
        }
        Ok(found)
    }

    /// Returns the tokens of a text, in which names of special tokens are plain text.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        Ok(self.tokenizer.encode(text, Special::AsText)?)
    }

    /// Returns true for tokens of text, as opposed to special ones and times.
    pub(crate) fn is_text(&self, id: u32) -> bool {
        id < self.end
    }

    /// Returns true for tokens of times.
    pub(crate) fn is_time(&self, id: u32) -> bool {
        id >= self.first_time
    }

    /// Returns the text of tokens, without special ones and times. Bytes that are no UTF-8 are replaced.
    pub(crate) fn text(&self, ids: &[u32]) -> String {
        String::from_utf8_lossy(&self.bytes(ids)).into_owned()
    }

    /// Returns the bytes of tokens of text.
    pub(crate) fn bytes(&self, ids: &[u32]) -> Vec<u8> {
        let of = |id: &u32| self.tokenizer.token_bytes(*id).unwrap_or_default();
        ids.iter().filter(|id| self.is_text(**id)).flat_map(of).copied().collect()
    }

    /// Returns the token of a language.
    ///
    /// # Errors
    /// The model does not know it.
    pub(crate) fn language(&self, code: &str) -> Result<u32, Error> {
        let found = self.languages.iter().find(|(_, known)| *known == code).map(|(id, _)| *id);
        found.ok_or_else(|| Error::option("language", format!("this model does not know `{code}`")))
    }
}
