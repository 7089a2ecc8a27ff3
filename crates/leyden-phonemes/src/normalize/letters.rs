//! Words as they are, abbreviations, initials and Roman numerals.

use super::context::{Context, Kind, Spoken};
use super::dates;
use crate::numbers;

/// Abbreviations with a full stop, in lower case without it, and the words they stand for.
const ABBREVIATIONS: &[(&str, &str)] = &[
    ("mr", "mister"),
    ("mrs", "missus"),
    ("ms", "Ms."),
    ("messrs", "messieurs"),
    ("prof", "professor"),
    ("rev", "reverend"),
    ("hon", "honorable"),
    ("gen", "general"),
    ("col", "colonel"),
    ("maj", "major"),
    ("capt", "captain"),
    ("lt", "lieutenant"),
    ("sgt", "sergeant"),
    ("cmdr", "commander"),
    ("adm", "admiral"),
    ("gov", "governor"),
    ("sen", "senator"),
    ("rep", "representative"),
    ("pres", "president"),
    ("sr", "senior"),
    ("jr", "junior"),
    ("esq", "esquire"),
    ("ave", "avenue"),
    ("blvd", "boulevard"),
    ("rd", "road"),
    ("hwy", "highway"),
    ("mt", "mount"),
    ("mts", "mountains"),
    ("ft", "fort"),
    ("apt", "apartment"),
    ("inc", "incorporated"),
    ("corp", "corporation"),
    ("co", "company"),
    ("ltd", "limited"),
    ("bros", "brothers"),
    ("dept", "department"),
    ("univ", "university"),
    ("assn", "association"),
    ("est", "established"),
    ("approx", "approximately"),
    ("vs", "versus"),
    ("v", "versus"),
    ("etc", "et cetera"),
    ("e.g", "for example"),
    ("eg", "for example"),
    ("i.e", "that is"),
    ("ie", "that is"),
    ("cf", "compare"),
    ("viz", "namely"),
    ("al", "al"),
    ("vol", "volume"),
    ("vols", "volumes"),
    ("ch", "chapter"),
    ("pp", "pages"),
    ("p", "page"),
    ("fig", "figure"),
    ("figs", "figures"),
    ("sec", "section"),
    ("eq", "equation"),
    ("no", "number"),
    ("nos", "numbers"),
    ("ed", "edition"),
    ("eds", "editors"),
    ("lbs", "pounds"),
    ("oz", "ounces"),
    ("mon", "Monday"),
    ("tue", "Tuesday"),
    ("tues", "Tuesday"),
    ("wed", "Wednesday"),
    ("thu", "Thursday"),
    ("thur", "Thursday"),
    ("thurs", "Thursday"),
    ("fri", "Friday"),
    ("sat", "Saturday"),
    ("sun", "Sunday"),
    ("a.m", "{AM}"),
    ("p.m", "{PM}"),
    ("ph.d", "{PHD}"),
    ("b.c", "{BC}"),
    ("a.d", "{AD}"),
    ("dist", "district"),
    ("govt", "government"),
    ("intl", "international"),
    ("mfg", "manufacturing"),
    ("tel", "telephone"),
    ("misc", "miscellaneous"),
    ("min", "minutes"),
    ("max", "maximum"),
    ("temp", "temperature"),
];

/// Abbreviations that are words too, and count only before a number.
const BEFORE_NUMBERS: &[&str] =
    &["no", "nos", "p", "pp", "fig", "figs", "ch", "sec", "eq", "vol", "vols", "ed"];

/// Abbreviations that are words too, and count only with a capital.
const WITH_CAPITAL: &[&str] = &[
    "mon", "sat", "sun", "wed", "fri", "co", "col", "gen", "rep", "sen", "rev", "hon", "mt", "ft", "adm",
    "est", "gov", "maj", "pres",
];

/// Abbreviations that are words too, and count only in the middle of a sentence.
const IN_SENTENCES: &[&str] = &["al", "v", "min", "max", "temp", "dist", "tel", "eg", "ie", "oz"];

/// Returns true if the text before a full stop ends with a known abbreviation or initial, so that the stop may end no sentence.
pub(crate) fn ends_with_abbreviation(text: &str) -> bool {
    let word = text.rsplit(|c: char| c.is_whitespace() || "([\"“‘'".contains(c)).next().unwrap_or_default();
    let lower = word.to_lowercase();
    let initial = word.chars().count() == 1 && word.chars().all(char::is_uppercase) && word != "I";
    let title =
        matches!(lower.as_str(), "dr" | "st") || ABBREVIATIONS.iter().any(|(short, _)| *short == lower);
    let month = word.len() < 5 && dates::month(word).is_some_and(|name| name.len() > word.len());
    let numbered = BEFORE_NUMBERS.contains(&lower.as_str())
        && !word.starts_with(char::is_uppercase)
        && !lower.starts_with('p');
    (title && !numbered && (!WITH_CAPITAL.contains(&lower.as_str()) || word.starts_with(char::is_uppercase)))
        || month
        || initial
        || is_dotted(word)
}

/// Returns true for letters with a full stop after each but perhaps the last: U.S, e.g, J.R.R.
fn is_dotted(text: &str) -> bool {
    text.contains('.')
        && text
            .trim_end_matches('.')
            .split('.')
            .all(|part| part.chars().count() == 1 && part.starts_with(char::is_alphabetic))
}

/// Returns a core of Latin letters with apostrophes and hyphens as it is, if no other rule could want it.
pub(super) fn plain(context: Context<'_>) -> Option<Spoken> {
    let core = context.core();
    let word = core.bytes().all(|b| b.is_ascii_alphabetic() || matches!(b, b'\'' | b'-'))
        && core.starts_with(|c: char| c.is_ascii_alphabetic() || c == '\'');
    let capitals = core.bytes().all(|b| b.is_ascii_uppercase());
    if !word
        || context.has_stop(0)
        || capitals
        || core.len() < 4 && !core.starts_with('\'')
        || core.contains("--")
        || dates::month(core).is_some()
    {
        return None;
    }
    Some(Spoken { kinds: vec![Kind::Word(core.to_owned())], ..Spoken::default() })
}

pub(super) fn abbreviation(context: Context<'_>) -> Option<Spoken> {
    let core = context.core();
    let lower = core.to_lowercase();
    if is_dotted(core) && !ABBREVIATIONS.iter().any(|(short, _)| *short == lower) {
        let letters: String = core.chars().filter(char::is_ascii_alphabetic).collect();
        let plain = letters.len() == core.chars().filter(|c| c.is_alphabetic()).count();
        return plain.then(|| Spoken::letters(&letters.to_ascii_uppercase()).with_stop());
    }
    if let Some(possessive) = core.strip_suffix("'s").filter(|stem| is_dotted(stem)) {
        let letters: String = possessive.chars().filter(char::is_ascii_alphabetic).collect();
        return Some(Spoken {
            kinds: vec![Kind::Word(format!("{}'s", letters.to_ascii_uppercase()))],
            ..Spoken::default()
        });
    }
    if lower == "st" && context.has_stop(0) {
        // A saint stands before a name, a street behind one.
        let saint = context.capital_follows()
            && context.trail(0) == "."
            && !context.before().starts_with(char::is_uppercase);
        return Some(Spoken::words(if saint { "saint" } else { "street" }).with_stop());
    }
    if lower == "dr" && core.starts_with('D') {
        let drive = !context.capital_follows() && context.before().starts_with(char::is_uppercase);
        return Some(Spoken::words(if drive { "drive" } else { "doctor" }).with_stop());
    }
    // The last letter of an alphabet's row, as in "J. Smith".
    if core.len() == 1
        && core != "I"
        && core.starts_with(|c: char| c.is_ascii_uppercase())
        && context.has_stop(0)
    {
        return Some(Spoken::letters(core).with_stop());
    }
    let &(short, words) = ABBREVIATIONS.iter().find(|(short, _)| *short == lower)?;
    let dotted = context.has_stop(0)
        || short.contains('.')
        || matches!(core, "Mr" | "Mrs" | "Ms" | "vs" | "etc" | "Jr" | "Sr" | "lbs");
    let number_follows =
        context.next(1, ".").is_some_and(|next| next.starts_with(|c: char| c.is_ascii_digit()));
    let capital = core.starts_with(|c: char| c.is_ascii_uppercase());
    let last = context.pieces.len() == context.at + 1;
    let usable = dotted
        && (!BEFORE_NUMBERS.contains(&short) || number_follows)
        && (!WITH_CAPITAL.contains(&short) || capital)
        && (!IN_SENTENCES.contains(&short) || !last || short == "al" || short == "oz");
    usable.then(|| Spoken::words(words).with_stop())
}

/// Words before a Roman numeral that counts.
const COUNTED: &[&str] = &[
    "chapter", "part", "section", "act", "scene", "war", "volume", "book", "phase", "type", "class",
    "figure", "table", "title", "article", "level", "grade", "stage", "appendix", "bowl", "canto",
    "division", "group", "vol", "unit", "mark", "apollo", "rocky", "fantasy", "page",
];

/// First names of rulers and popes, after which a Roman numeral is an ordinal.
const RULERS: &[&str] = &[
    "Henry",
    "Louis",
    "Elizabeth",
    "George",
    "Edward",
    "Charles",
    "James",
    "Richard",
    "William",
    "Pius",
    "John",
    "Paul",
    "Benedict",
    "Leo",
    "Napoleon",
    "Alexander",
    "Catherine",
    "Frederick",
    "Wilhelm",
    "Philip",
    "Peter",
    "Nicholas",
    "Innocent",
    "Gregory",
    "Clement",
    "Urban",
    "Ferdinand",
    "Francis",
    "Mary",
    "Ramesses",
    "Otto",
    "Constantine",
    "Ivan",
    "Gustav",
    "Christian",
    "Haakon",
    "Harald",
    "Boniface",
    "Julius",
    "Robert",
    "David",
    "Alfonso",
    "Joseph",
    "Leopold",
    "Sixtus",
    "Stephen",
    "Victoria",
    "Edmund",
    "Darius",
    "Ptolemy",
    "Cleopatra",
];

pub(super) fn roman(context: Context<'_>) -> Option<Spoken> {
    let core = context.core();
    let value = numbers::roman(core)?.to_string();
    let before = context.before();
    let clean = context.at > 0 && context.pieces[context.at - 1].trail.chars().all(|mark| mark == '.');
    if clean && RULERS.contains(&before) && core != "I"
        || clean && core == "I" && RULERS.contains(&before) && !context.next(1, "").is_some_and(is_verb)
    {
        return Some(Spoken::words(&format!("the {}", numbers::ordinal(&value))));
    }
    let counted = clean && COUNTED.contains(&before.to_lowercase().as_str());
    let small = core.len() > 1
        && core.bytes().all(|b| matches!(b, b'I' | b'V' | b'X'))
        && !matches!(core, "XX" | "VI" | "XV");
    let year = core.len() > 4 && core.starts_with('M');
    if year {
        return Some(Spoken::words(&numbers::year(&value)));
    }
    (counted && (core != "I" || !context.next(1, "").is_some_and(is_verb))
        || small
        || core.len() > 1
            && before.starts_with(char::is_uppercase)
            && clean
            && core.bytes().all(|b| matches!(b, b'I' | b'V' | b'X')))
    .then(|| Spoken::words(&numbers::cardinal(&value)))
}

/// Returns true for a word that follows the pronoun "I".
fn is_verb(word: &str) -> bool {
    matches!(
        word,
        "am" | "was"
            | "have"
            | "had"
            | "will"
            | "would"
            | "can"
            | "do"
            | "did"
            | "think"
            | "know"
            | "saw"
            | "could"
            | "should"
    )
}
