//! The alphabets: misaki's, in which this crate keeps pronunciations and Kokoro's voices are trained, and espeak's IPA of American English,
//! in which Piper's are. The first writes each diphthong and affricate as one symbol and no lengths.

/// Vowels and diphthongs of misaki's alphabet.
const VOWELS: &str = "AIOWYiuæɑəɐɛɜɪɔʊʌᵊᵻ";

/// Consonants of misaki's alphabet.
const CONSONANTS: &str = "bdfhjklmnpstvwzðŋɡɹɾʃʒʔʤʧθ";

/// Primary and secondary stress.
pub(crate) const PRIMARY: char = 'ˈ';
pub(crate) const SECONDARY: char = 'ˌ';

/// Returns true for a vowel or diphthong of misaki's alphabet.
#[must_use]
pub fn is_vowel(symbol: char) -> bool {
    VOWELS.contains(symbol)
}

/// Returns true for a symbol of a word in misaki's alphabet: vowels, consonants and stress.
#[must_use]
pub fn is_phoneme(symbol: char) -> bool {
    is_vowel(symbol) || CONSONANTS.contains(symbol) || matches!(symbol, PRIMARY | SECONDARY)
}

/// Pairs from misaki's alphabet to espeak's American IPA, longest first; symbols that are not here are the same in both.
const TO_ESPEAK: &[(&str, &str)] = &[
    ("ɑɹ", "ɑːɹ"),
    ("ɔɹ", "ɔːɹ"),
    ("ɜɹ", "ɜː"),
    ("əɹ", "ɚ"),
    ("ᵊl", "əl"),
    ("ᵊn", "ən"),
    ("ᵊm", "əm"),
    ("ᵊ", "ə"),
    ("A", "eɪ"),
    ("I", "aɪ"),
    ("O", "oʊ"),
    ("W", "aʊ"),
    ("Y", "ɔɪ"),
    ("i", "iː"),
    ("u", "uː"),
    ("ɑ", "ɑː"),
    ("ɔ", "ɔː"),
    ("ɜ", "ɜː"),
    ("ʤ", "dʒ"),
    ("ʧ", "tʃ"),
];

/// Pairs from espeak's American IPA to misaki's alphabet, longest first; lengths, ties and unknown symbols are left out.
const FROM_ESPEAK: &[(&str, &str)] = &[
    ("aɪɚ", "Iəɹ"),
    ("aɪə", "Iə"),
    ("ɜːɹ", "ɜɹ"),
    ("n\u{329}", "ᵊn"),
    ("l\u{329}", "ᵊl"),
    ("eɪ", "A"),
    ("aɪ", "I"),
    ("oʊ", "O"),
    ("əʊ", "O"),
    ("aʊ", "W"),
    ("ɔɪ", "Y"),
    ("dʒ", "ʤ"),
    ("tʃ", "ʧ"),
    ("əl", "ᵊl"),
    ("ɜː", "ɜɹ"),
    ("ɚ", "əɹ"),
    ("ɝ", "ɜɹ"),
    ("oː", "ɔ"),
    ("o", "O"),
    ("e", "A"),
    ("a", "æ"),
    ("ɐ", "ə"),
    ("ɒ", "ɑ"),
    ("r", "ɹ"),
    ("g", "ɡ"),
    ("x", "k"),
    ("ç", "k"),
    ("ɬ", "l"),
];

/// Translates one word from misaki's alphabet to espeak's American IPA, as Piper's English voices know it.
///
/// An unstressed final `i` is short there, and so is one before a vowel, as espeak says "happy" and "various".
///
/// ```
/// assert_eq!(leyden_phonemes::to_espeak("wˈɔɾəɹ"), "wˈɔːɾɚ");
/// assert_eq!(leyden_phonemes::to_espeak("hˈæpi"), "hˈæpi");
/// ```
#[must_use]
pub fn to_espeak(phonemes: &str) -> String {
    let mut out = String::with_capacity(phonemes.len() * 2);
    let mut rest = phonemes;
    let (mut stressed, mut seen_vowel) = (false, false);
    while let Some(symbol) = rest.chars().next() {
        if symbol == 'i' && !stressed && seen_vowel {
            let next = rest.chars().nth(1);
            if next.is_none_or(|next| is_vowel(next) || !is_phoneme(next)) {
                out.push('i');
                rest = &rest[1..];
                continue;
            }
        }
        let pair = TO_ESPEAK.iter().find(|(from, _)| rest.starts_with(from));
        stressed = matches!(symbol, PRIMARY | SECONDARY);
        seen_vowel |= is_vowel(symbol);
        match pair {
            Some((from, to)) => {
                out.push_str(to);
                rest = &rest[from.len()..];
                // Before a vowel the r of "hurry" is a sound of its own.
                if from.ends_with('ɹ') && !to.ends_with('ɹ') && rest.chars().next().is_some_and(is_vowel) {
                    out.push('ɹ');
                }
            }
            None => {
                out.push(symbol);
                rest = &rest[symbol.len_utf8()..];
            }
        }
    }
    out
}

/// Translates one word from espeak's IPA to misaki's alphabet; empty if nothing of it is a sound of English.
#[must_use]
pub fn from_espeak(ipa: &str) -> String {
    let mut out = String::with_capacity(ipa.len());
    let mut rest = ipa;
    while let Some(symbol) = rest.chars().next() {
        // A change of language, as in "(fr)".
        if symbol == '(' {
            rest = rest.split_once(')').map_or("", |(_, rest)| rest);
            continue;
        }
        if let Some((from, to)) = FROM_ESPEAK.iter().find(|(from, _)| rest.starts_with(from)) {
            out.push_str(to);
            rest = &rest[from.len()..];
            continue;
        }
        if is_phoneme(symbol) && !"AIOWY".contains(symbol) {
            out.push(symbol);
        }
        rest = &rest[symbol.len_utf8()..];
    }
    if out.chars().all(|symbol| matches!(symbol, PRIMARY | SECONDARY)) { String::new() } else { out }
}

/// Puts `stress` before the first vowel of a word that has none; with a consonant alone nothing changes.
pub(crate) fn stress_first_vowel(phonemes: &str, stress: char) -> String {
    if phonemes.contains([PRIMARY, SECONDARY]) {
        return phonemes.to_owned();
    }
    match phonemes.char_indices().find(|&(_, symbol)| is_vowel(symbol)) {
        Some((at, _)) => format!("{}{stress}{}", &phonemes[..at], &phonemes[at..]),
        None => phonemes.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn espeak_forms() {
        for (ours, ipa) in [
            ("bˈɜɹd", "bˈɜːd"),
            ("hˈɜɹi", "hˈɜːɹi"),
            ("nˈAʧəɹ", "nˈeɪtʃɚ"),
            ("lˈɪɾᵊl", "lˈɪɾəl"),
            ("kˈɑɹ", "kˈɑːɹ"),
            ("vˈɛɹiəs", "vˈɛɹiəs"),
            ("si", "siː"),
            ("ˈizi", "ˈiːzi"),
            ("fˈIəɹ", "fˈaɪɚ"),
            ("ʤˈYn", "dʒˈɔɪn"),
        ] {
            assert_eq!(to_espeak(ours), ipa);
        }
    }

    #[test]
    fn from_espeak_keeps_sounds_only() {
        assert_eq!(from_espeak("kjˈuːbɚnˌiːts"), "kjˈubəɹnˌits");
        assert_eq!(from_espeak("bˈʌʔn\u{329}"), "bˈʌʔᵊn");
        assert_eq!(from_espeak("(fr)ʃˈoʊ(en)"), "ʃˈO");
        assert_eq!(from_espeak("ˈ123"), "");
    }
}
