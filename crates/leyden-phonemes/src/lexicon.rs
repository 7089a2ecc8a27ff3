//! One written word to sounds: the dictionary, then endings, parts and letters.

use crate::dictionary::{Dictionary, Entry};
use crate::symbols::{PRIMARY, SECONDARY, is_vowel, stress_first_vowel};

/// The way in which the sounds of a word were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A word of the dictionary.
    Dictionary,
    /// A word of the dictionary with an ending: -s, 's, -ed, -ing and others.
    Ending,
    /// Two words of the dictionary that are written as one.
    Compound,
    /// Names of letters.
    Letters,
    /// The program `espeak-ng`.
    Espeak,
    /// Rules from letters to sounds.
    Rules,
}

/// Sounds of a word, in misaki's alphabet.
pub(crate) type Found = (String, Source);

/// Vowels after which a t before a vowel is a tap in American English.
const TAP_VOWELS: &str = "AIOWYiuæɑəɛɪɹʊʌ";

/// Least number of letters of a part of a compound.
const MIN_PART: usize = 4;

/// Endings other than -s, -ed and -ing, with their sounds.
const ENDINGS: &[(&str, &str)] = &[
    ("ness", "nəs"),
    ("less", "ləs"),
    ("ful", "fəl"),
    ("ment", "mənt"),
    ("ship", "ʃˌɪp"),
    ("hood", "hˌʊd"),
    ("like", "lˌIk"),
    ("ward", "wəɹd"),
    ("wards", "wəɹdz"),
    ("wise", "wˌIz"),
    ("able", "əbᵊl"),
    ("ly", "li"),
    ("er", "əɹ"),
    ("ers", "əɹz"),
    ("est", "əst"),
    ("ish", "ɪʃ"),
    ("ism", "ˌɪzəm"),
    ("ist", "ɪst"),
    ("ists", "ɪsts"),
    ("y", "i"),
];

/// Beginnings, with their sounds.
const BEGINNINGS: &[(&str, &str)] = &[
    ("un", "ˌʌn"),
    ("re", "ɹˌi"),
    ("non", "nˌɑn"),
    ("pre", "pɹˌi"),
    ("anti", "ˌænti"),
    ("multi", "mˌʌlti"),
    ("micro", "mˌIkɹO"),
    ("super", "sˌupəɹ"),
    ("over", "ˌOvəɹ"),
    ("under", "ˌʌndəɹ"),
    ("inter", "ˌɪntəɹ"),
    ("counter", "kˌWntəɹ"),
    ("hyper", "hˌIpəɹ"),
    ("mis", "mˌɪs"),
    ("dis", "dˌɪs"),
    ("auto", "ˌɔɾO"),
    ("bio", "bˌIO"),
    ("cyber", "sˌIbəɹ"),
    ("mega", "mˌɛɡə"),
    ("neo", "nˌiO"),
    ("semi", "sˌɛmi"),
    ("sub", "sˌʌb"),
    ("ultra", "ˌʌltɹə"),
];

/// The dictionary with the rules for words that are not in it as they stand.
pub(crate) struct Lexicon<'a> {
    pub(crate) dictionary: &'a Dictionary,
}

impl Lexicon<'_> {
    /// Returns the sounds of a word without hyphens, or `None` if it is unknown. `tags` are parts of speech, the best first; `shouted` says
    /// that words beside it are in capitals too, so that its own mean nothing.
    pub(crate) fn find(&self, word: &str, tags: &[&str], shouted: bool) -> Option<Found> {
        if let Some(found) = self.capitals(word, tags, shouted) {
            return Some(found);
        }
        if let Some(sounds) = self.direct(word, tags) {
            return Some((emphasised(&sounds, word), Source::Dictionary));
        }
        let lower = word.to_lowercase();
        self.inflected(word, tags)
            .or_else(|| self.inflected(&lower, tags))
            .or_else(|| self.affixed(&lower))
            .or_else(|| self.compound(&lower))
    }

    /// Returns the sounds of a word that is in the dictionary as written, in lower case, or with a capital.
    fn direct(&self, word: &str, tags: &[&str]) -> Option<String> {
        self.entry(word)?.pronunciation(tags).map(str::to_owned)
    }

    fn entry(&self, word: &str) -> Option<Entry<'_>> {
        let found = |word: &str| self.dictionary.get(word).filter(|entry| entry.pronunciation(&[]).is_some());
        if let Some(entry) = found(word) {
            return Some(entry);
        }
        let lower = word.to_lowercase();
        found(&lower).or_else(|| found(&capitalised(&lower)))
    }

    /// Returns true if the pronunciation of a word depends on its part of speech.
    pub(crate) fn varies(&self, word: &str) -> bool {
        self.entry(word).is_some_and(Entry::varies)
    }

    /// Returns letters or a word for one in capitals: what the dictionary has in capitals, short ones that are no words, and all without vowels
    /// are letters.
    fn capitals(&self, word: &str, tags: &[&str], shouted: bool) -> Option<Found> {
        let (front, ending) = ["'s", "s"]
            .iter()
            .find_map(|ending| Some((word.strip_suffix(ending)?, *ending)))
            .filter(|(front, _)| front.len() > 1 && front.bytes().all(|b| b.is_ascii_uppercase()))
            .unwrap_or((word, ""));
        if front.is_empty() || !front.bytes().all(|b| b.is_ascii_uppercase()) {
            return None;
        }
        let with_ending = |(sounds, source): Found| {
            Some(if ending.is_empty() { (sounds, source) } else { (plural(&sounds)?, source) })
        };
        if front.len() == 1 {
            return (!ending.is_empty()).then(|| self.letters(front)).and_then(with_ending);
        }
        if let Some(entry) = self.dictionary.get(front) {
            let noun = ["NOUN"];
            let tags: &[&str] = if entry.varies() && !shouted { &noun } else { tags };
            return match entry.pronunciation(tags) {
                Some(sounds) => with_ending((sounds.to_owned(), Source::Dictionary)),
                None => with_ending(self.letters(front)),
            };
        }
        let known = self.entry(front).is_some();
        let vowels = front.contains(['A', 'E', 'I', 'O', 'U', 'Y']);
        let spelled = !vowels || !known && front.len() <= 5 || known && !shouted && front.len() <= 2;
        if spelled { with_ending(self.letters(front)) } else { None }
    }

    /// Returns the names of letters as one word with its stress on the last; letters other than A to Z are passed over.
    pub(crate) fn letters(&self, text: &str) -> Found {
        let mut sounds = String::new();
        let letters: Vec<char> = text.chars().filter(char::is_ascii_alphabetic).collect();
        for (i, letter) in letters.iter().enumerate() {
            let name = self
                .dictionary
                .get(&letter.to_ascii_uppercase().to_string())
                .and_then(|entry| entry.pronunciation(&[]));
            let name = name.map_or_else(|| letter_name(*letter).to_owned(), str::to_owned);
            sounds += &if i + 1 < letters.len() { name.replace(PRIMARY, "ˌ") } else { name };
        }
        (sounds, Source::Letters)
    }

    /// Returns a word with -s, 's, -ed or -ing.
    fn inflected(&self, word: &str, tags: &[&str]) -> Option<Found> {
        self.inflected_sounds(word, tags).map(|sounds| (emphasised(&sounds, word), Source::Ending))
    }

    fn inflected_sounds(&self, word: &str, tags: &[&str]) -> Option<String> {
        if let Some(stem) =
            word.strip_suffix("'s").or_else(|| word.strip_suffix('\'').filter(|stem| !stem.ends_with('s')))
        {
            if word.ends_with('\'') {
                // "goin'" is "going" without its last sound.
                return self
                    .direct(&format!("{stem}g"), tags)
                    .filter(|_| stem.ends_with("in"))
                    .map(|sounds| sounds.replace('ŋ', "n"));
            }
            return plural(&self.stem(stem, tags)?);
        }
        if let Some(stem) = word.strip_suffix('\'') {
            return self.stem(stem, tags);
        }
        if let Some(stem) = word.strip_suffix('s').filter(|stem| stem.len() > 2 && !stem.ends_with('s')) {
            let found = self
                .direct(stem, tags)
                .or_else(|| stem.strip_suffix("ie").and_then(|stem| self.direct(&format!("{stem}y"), tags)))
                .or_else(|| {
                    stem.strip_suffix('e')
                        .filter(|stem| stem.ends_with(['s', 'x', 'z', 'h', 'o']))
                        .and_then(|stem| self.direct(stem, tags))
                });
            if let Some(sounds) = found {
                return plural(&sounds);
            }
        }
        if let Some(stem) = word.strip_suffix('d').filter(|stem| stem.ends_with('e') && stem.len() > 3)
            && let Some(sounds) = self.verb_stem(stem, &stem[..stem.len() - 1], tags, true)
        {
            return past(&sounds);
        }
        if let Some(stem) = word.strip_suffix("ing").filter(|stem| stem.len() > 2)
            && let Some(sounds) = self.verb_stem(&format!("{stem}e"), stem, tags, false)
        {
            return Some(with_ing(&sounds));
        }
        None
    }

    /// Returns the sounds of a noun before 's.
    fn stem(&self, stem: &str, tags: &[&str]) -> Option<String> {
        self.direct(stem, tags).or_else(|| {
            // "Smiths'" and "Joneses'".
            let inner = stem.strip_suffix('s')?;
            plural(&self.direct(inner, tags)?)
        })
    }

    /// Returns the sounds of a verb whose letter e, doubled consonant or y the ending may have changed.
    fn verb_stem(&self, with_e: &str, bare: &str, tags: &[&str], past: bool) -> Option<String> {
        if bare.len() < 2 {
            return None;
        }
        let bytes = bare.as_bytes();
        let doubled =
            bytes[bytes.len() - 1] == bytes[bytes.len() - 2] && !b"aeiou".contains(&bytes[bytes.len() - 1]);
        let [bare_sounds, e_sounds] =
            [bare, with_e].map(|stem| self.direct(stem, tags).filter(|_| stem.len() > 2));
        // "Planed" is from "plane"; "singing" from "sing".
        let first = if past { e_sounds.or(bare_sounds) } else { bare_sounds.or(e_sounds) };
        first.or_else(|| doubled.then(|| self.direct(&bare[..bare.len() - 1], tags)).flatten()).or_else(
            || {
                bare.strip_suffix('i')
                    .filter(|_| past)
                    .and_then(|stem| self.direct(&format!("{stem}y"), tags))
            },
        )
    }

    /// Returns a known word, or one with -s, -ed or -ing, in lower case.
    fn known(&self, word: &str) -> Option<String> {
        self.direct(word, &[]).or_else(|| self.inflected_sounds(word, &[]))
    }

    /// Returns a word with another ending or with a beginning.
    fn affixed(&self, word: &str) -> Option<Found> {
        for (ending, sounds) in ENDINGS {
            let Some(stem) = word.strip_suffix(ending).filter(|stem| stem.len() >= 3 && stem.is_ascii())
            else {
                continue;
            };
            let vowel = sounds.starts_with(|c| is_vowel(c) || c == SECONDARY && sounds.starts_with("ˌɪ"));
            let bytes = stem.as_bytes();
            let doubled = vowel && bytes[bytes.len() - 1] == bytes[bytes.len() - 2];
            let found = self
                .known(stem)
                .or_else(|| vowel.then(|| self.direct(&format!("{stem}e"), &[])).flatten())
                .or_else(|| doubled.then(|| self.direct(&stem[..stem.len() - 1], &[])).flatten())
                .or_else(|| stem.strip_suffix('i').and_then(|stem| self.direct(&format!("{stem}y"), &[])));
            if let Some(found) = found {
                return Some((found + sounds, Source::Ending));
            }
        }
        for (beginning, sounds) in BEGINNINGS {
            let Some(rest) = word.strip_prefix(beginning).filter(|rest| rest.len() >= 4) else { continue };
            if let Some(found) = self.known(rest) {
                return Some((format!("{sounds}{found}"), Source::Ending));
            }
        }
        None
    }

    /// Returns two words written as one, with the stress on the first; of several divisions the one with the longest first word.
    fn compound(&self, word: &str) -> Option<Found> {
        if !word.is_ascii() || word.len() > 40 {
            return None;
        }
        for at in (MIN_PART..=word.len().saturating_sub(MIN_PART)).rev() {
            let (first, second) = word.split_at(at);
            // A first part in the lower case of a name is no word of its own.
            let (Some(first), Some(second)) = (self.lower(first), self.lower(second)) else { continue };
            return Some((first + &second.replace(PRIMARY, "ˌ"), Source::Compound));
        }
        None
    }

    /// Returns the sounds of a common word, with or without an ending.
    fn lower(&self, word: &str) -> Option<String> {
        let exact = self.dictionary.get(word).and_then(|entry| entry.pronunciation(&[]));
        exact.map(str::to_owned).or_else(|| {
            self.inflected_sounds(word, &[])
                .filter(|_| self.dictionary.get(&word[..word.len() - 1]).is_some())
        })
    }
}

/// Returns a word with a capital.
fn capitalised(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Returns sounds with a light stress for a written capital and a full one for capitals alone, if they have none of their own.
fn emphasised(sounds: &str, word: &str) -> String {
    if !word.contains(char::is_uppercase) {
        return sounds.to_owned();
    }
    let shouted = word.chars().count() > 1 && !word.contains(char::is_lowercase);
    let sounds = stress_first_vowel(sounds, if shouted { PRIMARY } else { SECONDARY });
    if shouted && !sounds.contains(PRIMARY) { sounds.replacen(SECONDARY, "ˈ", 1) } else { sounds }
}

/// Returns sounds with -s: a z, an s after voiceless consonants, a syllable after sibilants.
pub(crate) fn plural(sounds: &str) -> Option<String> {
    let ending = match sounds.chars().next_back()? {
        'p' | 't' | 'k' | 'f' | 'θ' => "s",
        's' | 'z' | 'ʃ' | 'ʒ' | 'ʧ' | 'ʤ' => "ᵻz",
        _ => "z",
    };
    Some(format!("{sounds}{ending}"))
}

/// Returns sounds with -ed: a d, a t after voiceless consonants, a syllable after t and d.
fn past(sounds: &str) -> Option<String> {
    let last = sounds.chars().next_back()?;
    Some(match last {
        'p' | 'k' | 'f' | 'θ' | 'ʃ' | 's' | 'ʧ' => format!("{sounds}t"),
        'd' => format!("{sounds}ᵻd"),
        't' => format!("{}ᵻd", tapped(sounds)),
        _ => format!("{sounds}d"),
    })
}

fn with_ing(sounds: &str) -> String {
    format!("{}ɪŋ", tapped(sounds))
}

/// Returns sounds before a vowel, where a t after a vowel is a tap.
fn tapped(sounds: &str) -> String {
    let stem = sounds.strip_suffix('t').filter(|stem| stem.ends_with(|c| TAP_VOWELS.contains(c)));
    stem.map_or_else(|| sounds.to_owned(), |stem| format!("{stem}ɾ"))
}

/// Names of letters, for dictionaries that lack them.
fn letter_name(letter: char) -> &'static str {
    const NAMES: [&str; 26] = [
        "ˈA",
        "bˈi",
        "sˈi",
        "dˈi",
        "ˈi",
        "ˈɛf",
        "ʤˈi",
        "ˈAʧ",
        "ˈI",
        "ʤˈA",
        "kˈA",
        "ˈɛl",
        "ˈɛm",
        "ˈɛn",
        "ˈO",
        "pˈi",
        "kjˈu",
        "ˈɑɹ",
        "ˈɛs",
        "tˈi",
        "jˈu",
        "vˈi",
        "dˈʌbᵊlju",
        "ˈɛks",
        "wˈI",
        "zˈi",
    ];
    NAMES[usize::from(letter.to_ascii_lowercase() as u8 - b'a') % 26]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_by_every_way() {
        let dictionary = Dictionary::embedded();
        let lexicon = Lexicon { dictionary: &dictionary };
        for (word, sounds, source) in [
            ("water", "wˈɔɾəɹ", Source::Dictionary),
            ("Water", "wˈɔɾəɹ", Source::Dictionary),
            ("aaron", "ˈɛɹən", Source::Dictionary),
            ("GPU", "ʤˌipˌijˈu", Source::Letters),
            ("GPUs", "ʤˌipˌijˈuz", Source::Letters),
            ("US", "jˌuˈɛs", Source::Letters),
            ("NATO", "nˈAɾO", Source::Dictionary),
            ("Aaron's", "ˈɛɹənz", Source::Ending),
            ("teacher's", "tˈiʧəɹz", Source::Ending),
            ("tokenizers", "tˈOkənˌIzəɹz", Source::Ending),
        ] {
            assert_eq!(lexicon.find(word, &[], false), Some((sounds.to_owned(), source)), "{word}");
        }
        assert_eq!(lexicon.find("qwrtzk", &[], false), None);
        assert_eq!(past("wˈAt").as_deref(), Some("wˈAɾᵻd"));
        assert_eq!(with_ing("ˈæd"), "ˈædɪŋ");
    }
}
