//! Ids of a sentence for a voice, by the map that comes with the voice.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization as _;

use crate::error::Error;
use crate::sentence::Sentence;

/// Largest number of symbols of Kokoro's voices, padding not counted.
pub const MAX_KOKORO_SYMBOLS: usize = 510;

/// Marks that a voice may lack, with one that stands for them; quotes and brackets are then left out.
const MARK_FALLBACKS: &[(char, Option<char>)] = &[
    ('—', Some(',')),
    ('…', Some('.')),
    (';', Some(',')),
    (':', Some(',')),
    ('!', Some('.')),
    ('?', Some('.')),
    ('“', None),
    ('”', None),
    ('(', None),
    (')', None),
];

/// Returns ids for a Piper voice, whose `phoneme_id_map` is `map`: `^`, then each symbol of espeak's IPA in NFD with `_` after it, then `$`.
///
/// # Errors
/// A sound, or `^`, `_`, `$`, that the map lacks. Marks that it lacks are replaced by a comma or a full stop, or left out if they are quotes
/// or brackets.
pub fn piper_ids(sentence: &Sentence, map: &HashMap<String, Vec<i64>>) -> Result<Vec<i64>, Error> {
    let key = |symbol: char| map.get(symbol.encode_utf8(&mut [0; 4]) as &str).cloned();
    let required = |symbol: char| key(symbol).ok_or(Error::Symbol { symbol });
    let pad = required('_')?;
    let mut ids = required('^')?;
    ids.extend(&pad);
    for symbol in sentence.espeak().nfd() {
        if let Some(found) = lookup(symbol, &key)? {
            ids.extend(found);
            ids.extend(&pad);
        }
    }
    ids.extend(required('$')?);
    Ok(ids)
}

/// Returns ids for a Kokoro voice, whose vocabulary is `map`: 0, each symbol of misaki's alphabet, 0. The row of the voice's styles is the number
/// of ids less 3.
///
/// # Errors
/// A sound that the map lacks, and more than 510 symbols: split such a sentence with [`Sentence::chunks`].
pub fn kokoro_ids(sentence: &Sentence, map: &HashMap<String, i64>) -> Result<Vec<i64>, Error> {
    let key = |symbol: char| map.get(symbol.encode_utf8(&mut [0; 4]) as &str).copied();
    let mut ids = vec![0];
    for symbol in sentence.misaki().chars() {
        ids.extend(lookup(symbol, &key)?);
    }
    ids.push(0);
    if ids.len() > MAX_KOKORO_SYMBOLS + 2 {
        return Err(Error::TooLong { ids: ids.len(), max: MAX_KOKORO_SYMBOLS + 2 });
    }
    Ok(ids)
}

/// Returns the ids of a symbol or of the mark that stands for it; `None` for a mark that may be left out.
fn lookup<T>(symbol: char, key: &impl Fn(char) -> Option<T>) -> Result<Option<T>, Error> {
    if let Some(found) = key(symbol) {
        return Ok(Some(found));
    }
    match MARK_FALLBACKS.iter().find(|(mark, _)| *mark == symbol) {
        Some((_, Some(other))) => Ok(key(*other)),
        Some((_, None)) => Ok(None),
        None => Err(Error::Symbol { symbol }),
    }
}
