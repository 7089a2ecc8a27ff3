//! The pronouncing dictionary: 183,561 words of misaki's American English (Apache-2.0), embedded in 1.05 MB.
//!
//! Texts of keys and values lie in one piece each with their offsets, sorted by key, so that loading allocates four times and a look-up is
//! a binary search. A value is one pronunciation or `TAG=pronunciation|…`; `data/make.py` writes the embedded form.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use crate::error::Error;
use crate::symbols;

const EMBEDDED: &[u8] = include_bytes!("../data/english.bin");

/// Largest file of a dictionary that is read, in bytes; misaki's have 3 MB.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// A pronouncing dictionary in misaki's alphabet.
pub struct Dictionary {
    keys: Texts,
    values: Texts,
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dictionary of {} words", self.len())
    }
}

/// Texts one after the other, with the end of each.
#[derive(Default)]
struct Texts {
    bytes: String,
    ends: Vec<u32>,
}

impl Texts {
    fn push(&mut self, text: &str) {
        self.bytes.push_str(text);
        self.ends.push(u32::try_from(self.bytes.len()).expect("a dictionary is smaller than 4 GiB"));
    }

    fn get(&self, i: usize) -> &str {
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        &self.bytes[start..self.ends[i] as usize]
    }
}

impl Dictionary {
    /// Returns the embedded dictionary.
    ///
    /// # Panics
    /// If the program's own data is damaged.
    #[must_use]
    pub fn embedded() -> Self {
        let (head, rest) = EMBEDDED.split_at(4);
        let n_first = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let (first, second) = rest.split_at(n_first);
        let mut keys = Texts::default();
        let mut key = Vec::new();
        for line in inflate(first).split(|&byte| byte == b'\n') {
            key.truncate(usize::from(line[0] - 32));
            key.extend_from_slice(&line[1..]);
            keys.push(std::str::from_utf8(&key).expect("the embedded dictionary is UTF-8"));
        }
        let mut values = Texts::default();
        let lines = String::from_utf8(inflate(second)).expect("the embedded dictionary is UTF-8");
        lines.split('\n').for_each(|line| values.push(line));
        assert_eq!(keys.ends.len(), values.ends.len(), "embedded dictionary: keys and values");
        Self { keys, values }
    }

    /// Reads JSON files in misaki's format, a word's pronunciation or an object of pronunciations by part of speech; a word in several
    /// files has the value of the last.
    ///
    /// # Errors
    /// A file that cannot be read, is larger than 64 MiB or is no such object, and symbols outside misaki's alphabet, by key.
    pub fn from_files<P: AsRef<Path>>(files: &[P]) -> Result<Self, Error> {
        let mut words = BTreeMap::new();
        for file in files {
            read(file.as_ref(), &mut words)?;
        }
        let (mut keys, mut values) = (Texts::default(), Texts::default());
        for (key, value) in &words {
            keys.push(key);
            values.push(value);
        }
        Ok(Self { keys, values })
    }

    /// Returns the number of words.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.ends.len()
    }

    /// Returns true if there is no word.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all words with their entries, in byte order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Entry<'_>)> {
        (0..self.len()).map(|i| (self.keys.get(i), Entry(self.values.get(i))))
    }

    /// Returns the entry of exactly `word`.
    #[must_use]
    pub fn get(&self, word: &str) -> Option<Entry<'_>> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.keys.get(middle).cmp(word) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(Entry(self.values.get(middle))),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }
}

/// Pronunciations of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a>(&'a str);

impl<'a> Entry<'a> {
    /// Returns the pronunciation for the first of `tags` that the entry has, else the usual one; `None` if the letters are said instead.
    #[must_use]
    pub fn pronunciation(self, tags: &[&str]) -> Option<&'a str> {
        if !self.0.contains('=') {
            return Some(self.0).filter(|text| !text.is_empty());
        }
        let variant =
            |tag: &str| self.0.split('|').find_map(|part| part.strip_prefix(tag)?.strip_prefix('='));
        let chosen = tags.iter().find_map(|tag| variant(tag)).or_else(|| variant("DEFAULT"));
        chosen.filter(|text| !text.is_empty())
    }

    /// Returns true if the pronunciation depends on the part of speech.
    #[must_use]
    pub fn varies(self) -> bool {
        self.0.contains('=')
    }
}

/// Inflates one embedded stream.
fn inflate(stream: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(stream.len() * 4);
    flate2::read::ZlibDecoder::new(stream).read_to_end(&mut bytes).expect("the embedded dictionary inflates");
    bytes
}

/// Adds the words of one JSON file.
fn read(file: &Path, words: &mut BTreeMap<String, String>) -> Result<(), Error> {
    let failed = |source| Error::Read { file: file.to_owned(), source };
    let wrong = |problem: String| Error::Dictionary { file: file.to_owned(), problem };
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(file).map_err(failed)?;
    opened.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(wrong(format!("more than {MAX_FILE_BYTES} bytes; give a dictionary in misaki's format")));
    }
    let object: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(&bytes).map_err(|error| wrong(format!("no JSON object of words: {error}")))?;
    for (key, value) in object {
        let text = value_text(&value).map_err(|problem| wrong(format!("{key:?}: {problem}")))?;
        words.insert(key, text);
    }
    Ok(())
}

/// Returns a JSON value in the form of the dictionary's values.
fn value_text(value: &serde_json::Value) -> Result<String, String> {
    let checked = |text: &str| match text.chars().find(|&symbol| !symbols::is_phoneme(symbol)) {
        Some(symbol) => Err(format!("{symbol:?} is no symbol of misaki's alphabet")),
        None => Ok(text.to_owned()),
    };
    match value {
        serde_json::Value::String(text) => checked(text),
        serde_json::Value::Object(variants) => {
            let mut parts = Vec::new();
            for (tag, value) in variants {
                if !tag.chars().all(char::is_alphanumeric) {
                    return Err(format!("{tag:?} is no part of speech"));
                }
                let text = match value {
                    serde_json::Value::Null => String::new(),
                    serde_json::Value::String(text) => checked(text)?,
                    _ => return Err(format!("{tag}: neither text nor null")),
                };
                parts.push(format!("{tag}={text}"));
            }
            Ok(parts.join("|"))
        }
        _ => Err("neither text nor an object of parts of speech".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_words_and_variants() {
        let dictionary = Dictionary::embedded();
        assert_eq!(dictionary.len(), 183_561);
        assert_eq!(dictionary.get("water").unwrap().pronunciation(&[]), Some("wˈɔɾəɹ"));
        let record = dictionary.get("record").unwrap();
        assert_eq!(record.pronunciation(&["VERB"]), Some("ɹəkˈɔɹd"));
        assert_eq!(record.pronunciation(&["NOUN"]), Some("ɹˈɛkəɹd"));
        assert_eq!(dictionary.get("US").unwrap().pronunciation(&["NOUN"]), None);
        assert!(dictionary.get("zzzz").is_none() && dictionary.get("").is_none());
        let keys: Vec<&str> = dictionary.iter().map(|(key, _)| key).collect();
        assert!(keys.is_sorted());
        for (key, entry) in dictionary.iter() {
            for tag in ["DEFAULT", "NOUN", "VERB", "None", "DT"] {
                let text = entry.pronunciation(&[tag]).unwrap_or_default();
                assert!(text.chars().all(symbols::is_phoneme), "{key}: {text}");
            }
        }
    }

    #[test]
    fn embedded_form_equals_the_files() {
        let Some(folder) = leyden_testkit::shared("data/audio/misaki") else { return };
        let files =
            Dictionary::from_files(&[folder.join("us_silver.json"), folder.join("us_gold.json")]).unwrap();
        let embedded = Dictionary::embedded();
        assert_eq!(files.len(), embedded.len());
        for ((key, entry), (other_key, other)) in files.iter().zip(embedded.iter()) {
            assert_eq!(key, other_key);
            for tag in ["DEFAULT", "NOUN", "VERB", "ADJ", "ADV", "VBD", "None"] {
                assert_eq!(entry.pronunciation(&[tag]), other.pronunciation(&[tag]), "{key} {tag}");
            }
        }
    }

    #[test]
    fn bad_files_are_named_with_their_key() {
        let file = std::env::temp_dir().join(format!("leyden-phonemes-{}.json", std::process::id()));
        for (text, part) in [
            ("[]", "no JSON object"),
            (r#"{"a": 1}"#, "\"a\": neither text"),
            (r#"{"a": "1"}"#, "'1' is no symbol"),
            (r#"{"a": {"X=": null}}"#, "no part of speech"),
        ] {
            std::fs::write(&file, text).unwrap();
            let message = Dictionary::from_files(&[&file]).err().unwrap().to_string();
            assert!(message.contains(part) && message.contains("leyden-phonemes-"), "{message}");
        }
        std::fs::remove_file(&file).unwrap();
    }
}
