//! Letters to sounds, for words that neither the dictionary nor a program knows.
//!
//! At each letter the first rule applies whose letters and surroundings fit; its sounds are said and its letters are passed over. Then one
//! vowel is stressed, by the word's ending and its number of vowels. The rules are of our own making, from the spelling of English as
//! textbooks of phonics state it; they know no exceptions, which are in the dictionary.

use crate::symbols::{self, PRIMARY};

/// A rule: a class of letters before, letters, a class of letters behind, sounds.
///
/// Classes: nothing (any), `_` (edge of the word), `V` (a vowel letter), `C` (a consonant), `E` (e, i or y), `T` (a consonant and then a
/// vowel letter or a final e), `N` (no vowel letter: a consonant or the edge), `B` (a vowel letter somewhere before).
type Rule = (char, &'static str, char, &'static str);

const ANY: char = ' ';

const RULES: &[Rule] = &[
    // Endings.
    (ANY, "tion", '_', "ʃən"),
    (ANY, "tions", '_', "ʃənz"),
    (ANY, "ssion", '_', "ʃən"),
    (ANY, "sion", '_', "ʒən"),
    (ANY, "cian", '_', "ʃən"),
    (ANY, "tial", '_', "ʃəl"),
    (ANY, "cial", '_', "ʃəl"),
    (ANY, "cious", '_', "ʃəs"),
    (ANY, "tious", '_', "ʃəs"),
    (ANY, "ture", '_', "ʧəɹ"),
    (ANY, "sure", '_', "ʒəɹ"),
    (ANY, "ology", '_', "ɑləʤi"),
    (ANY, "ous", '_', "əs"),
    ('B', "ful", '_', "fəl"),
    ('B', "less", '_', "ləs"),
    ('B', "ness", '_', "nəs"),
    ('B', "ment", '_', "mənt"),
    ('B', "able", '_', "əbᵊl"),
    ('B', "ible", '_', "əbᵊl"),
    ('C', "le", '_', "ᵊl"),
    ('C', "les", '_', "ᵊlz"),
    ('B', "ism", '_', "ɪzəm"),
    ('B', "ing", '_', "ɪŋ"),
    ('B', "ings", '_', "ɪŋz"),
    ('B', "age", '_', "ɪʤ"),
    ('B', "ate", '_', "At"),
    ('B', "ive", '_', "ɪv"),
    ('B', "er", '_', "əɹ"),
    ('B', "ers", '_', "əɹz"),
    ('B', "or", '_', "əɹ"),
    ('B', "ors", '_', "əɹz"),
    ('B', "ar", '_', "əɹ"),
    ('B', "ley", '_', "li"),
    ('B', "ey", '_', "i"),
    ('B', "ies", '_', "iz"),
    ('B', "ie", '_', "i"),
    ('B', "y", '_', "i"),
    ('B', "al", '_', "əl"),
    ('B', "en", '_', "ən"),
    ('B', "on", '_', "ən"),
    ('B', "an", '_', "ən"),
    ('B', "el", '_', "əl"),
    ('B', "um", '_', "əm"),
    ('B', "us", '_', "əs"),
    ('B', "ia", '_', "iə"),
    ('B', "a", '_', "ə"),
    ('B', "o", '_', "O"),
    ('B', "i", '_', "i"),
    ('B', "ue", '_', "u"),
    ('B', "que", '_', "k"),
    ('B', "es", '_', "z"),
    ('B', "ed", '_', "d"),
    ('B', "e", '_', ""),
    ('_', "e", '_', "i"),
    ('B', "ches", '_', "ʧᵻz"),
    ('B', "shes", '_', "ʃᵻz"),
    ('B', "burg", '_', "bəɹɡ"),
    ('B', "ville", '_', "vˌɪl"),
    ('B', "land", '_', "lənd"),
    ('B', "berg", '_', "bəɹɡ"),
    ('B', "stein", '_', "stIn"),
    ('B', "wright", '_', "ɹˌIt"),
    ('B', "shire", '_', "ʃəɹ"),
    ('B', "ham", '_', "əm"),
    // Beginnings.
    ('_', "mc", 'N', "mək"),
    ('_', "kn", ANY, "n"),
    ('_', "gn", ANY, "n"),
    ('_', "wr", ANY, "ɹ"),
    ('_', "ps", ANY, "s"),
    ('_', "pt", ANY, "t"),
    ('_', "pn", ANY, "n"),
    ('_', "mn", ANY, "n"),
    ('_', "x", ANY, "z"),
    ('_', "rh", ANY, "ɹ"),
    ('_', "wh", 'V', "w"),
    ('_', "schw", ANY, "ʃw"),
    ('_', "sch", ANY, "ʃ"),
    ('_', "tsch", ANY, "ʧ"),
    ('_', "re", 'C', "ɹi"),
    ('_', "be", 'T', "bə"),
    // Vowels.
    (ANY, "arr", 'V', "ɛɹ"),
    (ANY, "err", 'V', "ɛɹ"),
    (ANY, "irr", 'V', "ɪɹ"),
    (ANY, "orr", 'V', "ɔɹ"),
    (ANY, "urr", 'V', "ɜɹ"),
    (ANY, "augh", ANY, "ɔ"),
    (ANY, "aigh", ANY, "A"),
    (ANY, "eigh", ANY, "A"),
    (ANY, "ough", ANY, "O"),
    (ANY, "igh", ANY, "I"),
    (ANY, "eau", ANY, "O"),
    (ANY, "air", ANY, "ɛɹ"),
    (ANY, "are", '_', "ɛɹ"),
    (ANY, "ear", ANY, "ɪɹ"),
    (ANY, "eer", ANY, "ɪɹ"),
    (ANY, "ere", '_', "ɪɹ"),
    (ANY, "ire", '_', "Iəɹ"),
    (ANY, "ore", '_', "ɔɹ"),
    (ANY, "oor", ANY, "ɔɹ"),
    (ANY, "our", ANY, "ɔɹ"),
    (ANY, "ure", '_', "jʊɹ"),
    (ANY, "all", 'N', "ɔl"),
    (ANY, "alk", 'N', "ɔk"),
    (ANY, "ind", '_', "Ind"),
    (ANY, "old", 'N', "Old"),
    (ANY, "ai", ANY, "A"),
    (ANY, "ay", ANY, "A"),
    (ANY, "au", ANY, "ɔ"),
    (ANY, "aw", ANY, "ɔ"),
    (ANY, "ae", ANY, "i"),
    (ANY, "aa", ANY, "ɑ"),
    (ANY, "ah", 'N', "ɑ"),
    (ANY, "ar", 'V', "ɛɹ"),
    (ANY, "ar", ANY, "ɑɹ"),
    ('w', "a", ANY, "ɑ"),
    (ANY, "a", 'T', "A"),
    (ANY, "a", ANY, "æ"),
    (ANY, "ee", ANY, "i"),
    (ANY, "ea", ANY, "i"),
    (ANY, "ei", ANY, "I"),
    (ANY, "eu", ANY, "ju"),
    (ANY, "ew", ANY, "u"),
    (ANY, "ey", ANY, "A"),
    (ANY, "er", 'V', "ɛɹ"),
    (ANY, "er", ANY, "ɜɹ"),
    (ANY, "eo", ANY, "iO"),
    (ANY, "e", 'T', "i"),
    (ANY, "e", ANY, "ɛ"),
    (ANY, "ie", ANY, "i"),
    (ANY, "ia", ANY, "iə"),
    (ANY, "io", ANY, "iO"),
    (ANY, "iu", ANY, "iə"),
    (ANY, "ir", 'V', "ɪɹ"),
    (ANY, "ir", ANY, "ɜɹ"),
    ('_', "i", 'T', "I"),
    (ANY, "i", 'F', "I"),
    (ANY, "i", ANY, "ɪ"),
    (ANY, "oa", ANY, "O"),
    (ANY, "oe", ANY, "O"),
    (ANY, "oi", ANY, "Y"),
    (ANY, "oy", ANY, "Y"),
    (ANY, "oo", ANY, "u"),
    (ANY, "ou", ANY, "W"),
    (ANY, "ow", '_', "O"),
    (ANY, "ow", ANY, "W"),
    (ANY, "oh", 'N', "O"),
    (ANY, "or", ANY, "ɔɹ"),
    (ANY, "o", 'T', "O"),
    (ANY, "o", '_', "O"),
    (ANY, "o", ANY, "ɑ"),
    ('q', "u", 'V', "w"),
    ('g', "u", 'E', ""),
    (ANY, "ue", ANY, "u"),
    (ANY, "ui", ANY, "u"),
    (ANY, "ur", 'V', "jʊɹ"),
    (ANY, "ur", ANY, "ɜɹ"),
    ('_', "u", 'T', "ju"),
    (ANY, "u", 'T', "u"),
    (ANY, "u", '_', "u"),
    (ANY, "u", ANY, "ʌ"),
    ('_', "y", 'V', "j"),
    ('V', "y", 'V', "j"),
    (ANY, "y", '_', "I"),
    (ANY, "yr", 'C', "ɜɹ"),
    (ANY, "y", 'F', "I"),
    (ANY, "y", ANY, "ɪ"),
    // Consonants.
    (ANY, "bb", ANY, "b"),
    ('m', "b", '_', ""),
    (ANY, "b", ANY, "b"),
    (ANY, "cch", ANY, "k"),
    (ANY, "chr", ANY, "kɹ"),
    (ANY, "ch", ANY, "ʧ"),
    (ANY, "ck", ANY, "k"),
    (ANY, "cc", 'E', "ks"),
    (ANY, "cc", ANY, "k"),
    (ANY, "cz", ANY, "ʧ"),
    (ANY, "c", 'E', "s"),
    (ANY, "c", ANY, "k"),
    (ANY, "dge", ANY, "ʤ"),
    (ANY, "dg", 'E', "ʤ"),
    (ANY, "dj", ANY, "ʤ"),
    (ANY, "dd", ANY, "d"),
    (ANY, "d", ANY, "d"),
    (ANY, "ff", ANY, "f"),
    (ANY, "f", ANY, "f"),
    ('_', "gh", ANY, "ɡ"),
    (ANY, "gh", ANY, ""),
    (ANY, "gg", ANY, "ɡ"),
    (ANY, "gn", '_', "n"),
    (ANY, "g", 'E', "ʤ"),
    (ANY, "g", ANY, "ɡ"),
    (ANY, "h", 'V', "h"),
    ('_', "h", ANY, "h"),
    (ANY, "h", ANY, ""),
    (ANY, "j", ANY, "ʤ"),
    (ANY, "kk", ANY, "k"),
    (ANY, "kh", ANY, "k"),
    (ANY, "k", ANY, "k"),
    (ANY, "ll", ANY, "l"),
    (ANY, "l", ANY, "l"),
    (ANY, "mm", ANY, "m"),
    ('m', "n", '_', ""),
    (ANY, "m", ANY, "m"),
    (ANY, "nn", ANY, "n"),
    (ANY, "ng", '_', "ŋ"),
    (ANY, "ngs", '_', "ŋz"),
    (ANY, "ng", 'C', "ŋ"),
    (ANY, "n", 'K', "ŋ"),
    (ANY, "n", ANY, "n"),
    (ANY, "ph", ANY, "f"),
    (ANY, "pp", ANY, "p"),
    (ANY, "p", ANY, "p"),
    (ANY, "qu", 'V', "kw"),
    (ANY, "q", ANY, "k"),
    (ANY, "rr", ANY, "ɹ"),
    (ANY, "r", ANY, "ɹ"),
    (ANY, "sch", ANY, "ʃ"),
    (ANY, "sc", 'E', "s"),
    (ANY, "sh", ANY, "ʃ"),
    (ANY, "ss", ANY, "s"),
    ('V', "s", 'V', "z"),
    ('Z', "s", '_', "z"),
    (ANY, "s", ANY, "s"),
    (ANY, "tch", ANY, "ʧ"),
    (ANY, "th", ANY, "θ"),
    (ANY, "tt", ANY, "t"),
    (ANY, "t", ANY, "t"),
    (ANY, "v", ANY, "v"),
    (ANY, "vv", ANY, "v"),
    (ANY, "wh", ANY, "w"),
    (ANY, "w", 'V', "w"),
    (ANY, "w", ANY, ""),
    (ANY, "x", ANY, "ks"),
    (ANY, "zh", ANY, "ʒ"),
    (ANY, "zz", ANY, "z"),
    (ANY, "z", ANY, "z"),
];

/// Endings before whose last vowel but one the stress lies, with the number of vowels in them.
const STRESSED_BEFORE: &[(&str, usize)] = &[
    ("tion", 1),
    ("tions", 1),
    ("sion", 1),
    ("cian", 1),
    ("ic", 1),
    ("ics", 1),
    ("ical", 2),
    ("ity", 2),
    ("ify", 2),
    ("ial", 1),
    ("ious", 1),
    ("ian", 2),
    ("ology", 2),
    ("ography", 3),
    ("ia", 2),
    ("ium", 2),
];

fn is_vowel(letter: u8) -> bool {
    matches!(letter, b'a' | b'e' | b'i' | b'o' | b'u' | b'y')
}

/// Returns true if the class fits the letters before `at`.
fn fits_before(class: char, letters: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map(|i| letters[i]);
    match class {
        ANY => true,
        '_' => at == 0,
        'V' => before.is_some_and(is_vowel),
        'C' => before.is_some_and(|letter| !is_vowel(letter)),
        'B' => letters[..at]
            .iter()
            .take(20)
            .enumerate()
            .any(|(i, &letter)| is_vowel(letter) && (i > 0 || letter != b'y')),
        'Z' => before
            .is_some_and(|letter| !matches!(letter, b'p' | b't' | b'k' | b'f' | b's' | b'c' | b'u' | b'i')),
        letter => before == u8::try_from(letter).ok(),
    }
}

/// Returns true if the class fits the letters from `at` on.
fn fits_behind(class: char, letters: &[u8], at: usize) -> bool {
    let next = letters.get(at).copied();
    let second = letters.get(at + 1).copied();
    match class {
        ANY => true,
        '_' => next.is_none(),
        'V' => next.is_some_and(is_vowel),
        'C' => next.is_some_and(|letter| !is_vowel(letter)),
        'N' => next.is_none_or(|letter| !is_vowel(letter)),
        'E' => matches!(next, Some(b'e' | b'i' | b'y')),
        'K' => {
            matches!(next, Some(b'k' | b'x' | b'q'))
                || next == Some(b'g') && second.is_none_or(|letter| !matches!(letter, b'e' | b'i'))
        }
        'T' => next.is_some_and(|letter| !is_vowel(letter) && letter != b'x') && second.is_some_and(is_vowel),
        'F' => {
            next.is_some_and(|letter| !is_vowel(letter)) && second == Some(b'e') && letters.len() <= at + 3
        }
        _ => false,
    }
}

/// Returns sounds for a word of ASCII letters; other characters are passed over. Never empty if there is a letter: a word without any sound
/// by the rules has the sound of its first letter's name or schwa.
#[must_use]
pub(crate) fn pronounce(word: &str) -> String {
    let letters: Vec<u8> =
        word.bytes().filter(u8::is_ascii_alphabetic).map(|letter| letter.to_ascii_lowercase()).collect();
    let mut sounds = String::new();
    let mut at = 0;
    while at < letters.len() {
        let rule = RULES.iter().find(|(before, text, behind, _)| {
            letters[at..].starts_with(text.as_bytes())
                && fits_before(*before, &letters, at)
                && fits_behind(*behind, &letters, at + text.len())
        });
        match rule {
            Some((_, text, _, said)) => {
                sounds.push_str(said);
                at += text.len();
            }
            None => at += 1,
        }
    }
    if !sounds.chars().any(symbols::is_vowel) {
        sounds.insert(0, 'ə');
    }
    stress(&sounds, &letters)
}

/// Puts the primary stress before one vowel.
fn stress(sounds: &str, letters: &[u8]) -> String {
    let sounds = sounds.replace('ˌ', "");
    let vowels: Vec<usize> =
        sounds.char_indices().filter(|&(_, c)| symbols::is_vowel(c)).map(|(at, _)| at).collect();
    let n = vowels.len();
    let ending = STRESSED_BEFORE
        .iter()
        .filter(|(ending, _)| letters.ends_with(ending.as_bytes()))
        .max_by_key(|(ending, _)| ending.len());
    let chosen = match ending {
        Some((_, in_ending)) if n > *in_ending => n - in_ending - 1,
        _ if n <= 3 => usize::from(n > 1 && weak_beginning(&sounds)),
        _ => n - 3,
    };
    // A schwa is never stressed while there is another vowel.
    let strong = |i: &usize| !sounds[vowels[*i]..].starts_with(['ə', 'ᵊ', 'ᵻ']);
    let chosen = if strong(&chosen) { chosen } else { (0..n).find(strong).unwrap_or(chosen) };
    let at = vowels[chosen];
    format!("{}{PRIMARY}{}", &sounds[..at], &sounds[at..])
}

/// Returns true if the first vowel is that of a weak prefix.
fn weak_beginning(sounds: &str) -> bool {
    sounds.starts_with("bə") || sounds.starts_with("də")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_to_sounds() {
        for (word, sounds) in [
            ("blick", "blˈɪk"),
            ("snarp", "snˈɑɹp"),
            ("frobnicate", "fɹˈɑbnɪkAt"),
            ("knation", "nˈAʃən"),
            ("phlogistic", "flOʤˈɪstɪk"),
            ("brillig", "bɹˈɪlɪɡ"),
        ] {
            assert_eq!(pronounce(word), sounds, "{word}");
        }
        assert!(pronounce("hmm").contains('m'));
        assert_eq!(pronounce(""), "ˈə");
    }
}
