//! Parts of speech of words whose sounds depend on them, from the words beside them.
//!
//! These are rules of thumb over the words beside it; no model. Words without a rule get no tag and so the usual sounds.

const DETERMINERS: &[&str] = &[
    "the", "a", "an", "this", "that", "these", "those", "my", "your", "his", "her", "its", "our", "their",
    "no", "some", "any", "each", "every", "another", "such", "whose", "one", "two", "three", "four", "many",
    "several", "few", "all", "both",
];

const PREPOSITIONS: &[&str] = &[
    "of", "in", "on", "at", "for", "with", "by", "from", "into", "about", "without", "under", "over",
    "between", "after", "before", "during", "per", "against",
];

const BEFORE_VERBS: &[&str] = &[
    "to",
    "will",
    "would",
    "can",
    "could",
    "may",
    "might",
    "must",
    "shall",
    "should",
    "do",
    "does",
    "did",
    "don't",
    "doesn't",
    "didn't",
    "won't",
    "can't",
    "couldn't",
    "wouldn't",
    "shouldn't",
    "cannot",
    "let",
    "let's",
    "please",
    "i",
    "you",
    "we",
    "they",
    "who",
    "i'll",
    "you'll",
    "we'll",
    "they'll",
    "he'll",
    "she'll",
    "it'll",
    "i'd",
    "we'd",
    "they'd",
    "you'd",
    "he'd",
    "she'd",
    "and",
    "help",
];

const ADVERBS: &[&str] = &[
    "not", "never", "also", "always", "just", "really", "often", "still", "only", "now", "then", "even",
    "ever", "already", "either",
];

const BE: &[&str] = &[
    "is", "are", "was", "were", "be", "been", "being", "am", "it's", "he's", "she's", "they're", "we're",
    "i'm", "you're", "gets", "got", "get",
];

const HAVE: &[&str] =
    &["have", "has", "had", "having", "i've", "we've", "they've", "you've", "haven't", "hasn't", "hadn't"];

/// Words that end a group of nouns.
const FUNCTION: &[&str] = &[
    "of", "in", "on", "at", "for", "with", "by", "from", "to", "and", "or", "but", "is", "are", "was",
    "were", "be", "been", "has", "have", "had", "will", "would", "can", "could", "should", "may", "might",
    "must", "that", "which", "who", "when", "where", "as", "than", "if", "because", "it", "he", "she",
    "they", "we", "i", "you", "not", "so", "then", "into", "about", "against", "after", "before", "does",
    "did", "do",
];

/// Words that tell of the past.
const PAST: &[&str] =
    &["yesterday", "ago", "last", "was", "were", "had", "said", "did", "once", "then", "before"];

/// Number of words on each side among which the past is looked for, so that the work is linear in the text.
const NEAR: usize = 12;

/// Returns tags for the word at `at` of a clause of words in lower case, the best first.
pub(crate) fn tags(words: &[String], at: usize) -> Vec<&'static str> {
    let word = words[at].as_str();
    let get = |i: Option<usize>| i.and_then(|i| words.get(i)).map_or("", String::as_str);
    let mut before = at.checked_sub(1);
    while before.is_some_and(|i| ADVERBS.contains(&words[i].as_str()) && i > 0 && at - i < 4) {
        before = before.and_then(|i| i.checked_sub(1));
    }
    let previous = get(before);
    let earlier = get(before.and_then(|i| i.checked_sub(1)));
    let next = get(Some(at + 1));
    match word {
        "read" | "reread" => return read(words, at, [earlier, previous, next]),
        "used" => return if next == "to" && !BE.contains(&previous) { vec!["VBD"] } else { vec![] },
        "wound" => {
            let verb = !DETERMINERS.contains(&previous)
                && matches!(next, "up" | "down" | "around" | "through" | "its" | "tightly" | "along");
            return if verb { vec!["VBD"] } else { vec![] };
        }
        "that" => {
            return if next.is_empty()
                || matches!(next, "is" | "was" | "one" | "way" | "day" | "time")
                || PREPOSITIONS.contains(&previous)
            {
                vec!["DT"]
            } else {
                vec![]
            };
        }
        "close" | "closer" => {
            let verb = BEFORE_VERBS.contains(&previous) || previous.is_empty() && DETERMINERS.contains(&next);
            let noun = DETERMINERS.contains(&previous) && (next.is_empty() || next == "of");
            return if verb {
                vec!["VERB"]
            } else if noun {
                vec!["NOUN"]
            } else {
                vec![]
            };
        }
        "live" | "lives" => {
            let noun = DETERMINERS.contains(&previous)
                || PREPOSITIONS.contains(&previous)
                || matches!(earlier, "their" | "our" | "your" | "of");
            return match (word, noun) {
                ("live", true) => vec!["ADJ"],
                ("live", false)
                    if matches!(
                        next,
                        "music"
                            | "show"
                            | "stream"
                            | "broadcast"
                            | "concert"
                            | "coverage"
                            | "tv"
                            | "television"
                            | "audience"
                    ) || BE.contains(&previous) =>
                {
                    vec!["ADJ"]
                }
                ("lives", true) => vec!["NOUN"],
                _ => vec!["VERB"],
            };
        }
        "overall" => return if DETERMINERS.contains(&previous) { vec!["ADJ"] } else { vec!["ADV"] },
        "uphill" | "underground" => {
            return if DETERMINERS.contains(&previous) && !FUNCTION.contains(&next) && !next.is_empty() {
                vec!["ADJ"]
            } else {
                vec!["ADV"]
            };
        }
        _ => {}
    }
    if DETERMINERS.contains(&previous) || previous.ends_with("'s") && !BE.contains(&previous) {
        let content = !next.is_empty() && !FUNCTION.contains(&next) && !DETERMINERS.contains(&next);
        return if content { vec!["ADJ", "NOUN"] } else { vec!["NOUN"] };
    }
    if BEFORE_VERBS.contains(&previous)
        && !(previous == "to" && PREPOSITIONS.contains(&next) && at + 1 < words.len() && next == "of")
    {
        // "He and she" goes on with a verb, "bread and rebel" does not; a noun before "and" is told by its determiner.
        if previous != "and"
            || DETERMINERS.contains(&next)
            || matches!(next, "it" | "them" | "him" | "us" | "me")
        {
            return vec!["VERB"];
        }
    }
    if matches!(previous, "he" | "she" | "it" | "that" | "which") && word.ends_with('s')
        || HAVE.contains(&previous) && word.ends_with("ed")
    {
        return vec!["VERB"];
    }
    if DETERMINERS.contains(&earlier) || PREPOSITIONS.contains(&previous) {
        return vec!["NOUN"];
    }
    if BE.contains(&previous) {
        return vec!["ADJ"];
    }
    // A command: "Record the song."
    if at == 0 && (DETERMINERS.contains(&next) || matches!(next, "it" | "them" | "him" | "me" | "us")) {
        return vec!["VERB"];
    }
    if !previous.is_empty() && DETERMINERS.contains(&next) && next != "no" && !FUNCTION.contains(&previous) {
        return vec!["VERB"];
    }
    vec![]
}

/// Returns tags of "read", whose past has other sounds.
fn read(words: &[String], at: usize, [earlier, previous, next]: [&str; 3]) -> Vec<&'static str> {
    // "Have you read it?"
    if HAVE.contains(&earlier) && matches!(previous, "i" | "you" | "we" | "they" | "he" | "she") {
        return vec!["VBN"];
    }
    if HAVE.contains(&previous) || BE.contains(&previous) || previous == "well" || previous == "widely" {
        return vec!["VBN"];
    }
    if matches!(previous, "he" | "she" | "it") || next == "aloud" && !BEFORE_VERBS.contains(&previous) {
        return vec!["VBD"];
    }
    let near = words.iter().enumerate().take(at + NEAR).skip(at.saturating_sub(NEAR));
    let past = near.into_iter().any(|(i, word)| i != at && PAST.contains(&word.as_str()));
    let free = previous.is_empty()
        || matches!(previous, "i" | "you" | "we" | "they" | "who" | "and")
        || !BEFORE_VERBS.contains(&previous) && !DETERMINERS.contains(&previous);
    if past && free && at > 0 { vec!["VBD"] } else { vec![] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dictionary;

    #[test]
    fn heteronyms_in_sentences() {
        let dictionary = Dictionary::embedded();
        for (text, word, sounds) in [
            ("i will read it", "read", "ɹˈid"),
            ("she read the letter", "read", "ɹˈɛd"),
            ("i have read it", "read", "ɹˈɛd"),
            ("have you read it", "read", "ɹˈɛd"),
            ("yesterday we read it", "read", "ɹˈɛd"),
            ("we want to record a song", "record", "ɹəkˈɔɹd"),
            ("she broke the record", "record", "ɹˈɛkəɹd"),
            ("they live here", "live", "lˈɪv"),
            ("a live show", "live", "lˈIv"),
            ("please close the door", "close", "klˈOz"),
            ("a close friend", "close", "klˈOs"),
            ("the wind blew", "wind", "wˈɪnd"),
            ("to wind the clock", "wind", "wˈInd"),
            ("we used to go", "used", "jˈust"),
            ("it is used to cut", "used", "jˈuzd"),
            ("the use of force", "use", "jˈus"),
            ("you use it", "use", "jˈuz"),
            ("they refuse to go", "refuse", "ɹəfjˈuz"),
            ("a tear fell", "tear", "tˈɪɹ"),
            ("do not tear it", "tear", "tˈɛɹ"),
            ("the project is late", "project", "pɹˈɑʤˌɛkt"),
            ("we project a loss", "project", "pɹəʤˈɛkt"),
            ("a separate room", "separate", "sˈɛpəɹət"),
            ("to separate them", "separate", "sˈɛpəɹˌAt"),
        ] {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            let at = words.iter().position(|other| other == word).unwrap();
            let found = dictionary.get(word).unwrap().pronunciation(&tags(&words, at));
            assert_eq!(found, Some(sounds), "{text}");
        }
    }
}
